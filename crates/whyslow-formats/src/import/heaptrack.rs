//! Imports heaptrack's text, as heaptrack_interpret writes it: tables of texts, addresses and stacks, then one line per
//! allocation and per free, with timestamps in milliseconds in between. All numbers are hexadecimal.
//!
//! ```text
//! v 10400 3              versions of heaptrack and of the format
//! X ./app one            the command
//! I 1000 3e8             size and number of memory pages
//! s 4 main               a text, from format 3 on with its length
//! i 401000 1 2 3 a       an address: module, then (function, file, line) of each frame, innermost first; texts from 1
//! t 1 0                  a stack: address and caller; both from 1
//! a 40 1                 a kind of block: size and stack, from 0
//! + 0                    a block of that kind is allocated
//! - 0                    a block of that kind is freed
//! c 1f4                  milliseconds since the start
//! R 400                  resident pages
//! ```

use rustc_hash::FxHashMap;
use whyslow_profile::heap::{LeakCheck, counter, metric};
use whyslow_profile::{
    Frame, HeapCounts, HeapFacts, ImportNote, LocationId, Metric, MetricId, ModuleId, NoLeakCheck, ProfileNs,
    StackId, Unit,
};

use super::assemble::{Assembly, FunctionText};
use super::heap::Rows;
use super::{Format, ImportError, ImportOptions, Imported, lines};

/// The approximate number of points in the timeline.
const POINTS: u64 = 200;
const NS_PER_MS: u64 = 1_000_000;

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    let mut content =
        lines::numbered_bytes(start).map(|(_, line)| line).filter(|line| !line.starts_with(b"#"));
    let is_version = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ');
        words.next() == Some(b"v") && words.clone().count() == 2 && words.all(|word| hex(word).is_some())
    };
    lines::is_text(start)
        && content.next().is_some_and(is_version)
        && content
            .all(|line| matches!(line, [b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'-', b' ', ..] | [b'A'] | []))
}

fn hex(word: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut tables = Tables::default();
    let mut timeline = Vec::new();
    let mut run = Run::default();
    let mut now = 0;
    let wrong = |number, what: &str| Err(ImportError::at_line(Format::Heaptrack, number, what));
    // First pass: stacks, the peak and the points of the timeline.
    for (number, line) in lines::numbered_bytes(bytes) {
        let Some((kind, rest)) = split(line) else { continue };
        match kind {
            b'+' | b'-' => {
                if run.event(&tables.blocks, kind, rest).is_none() {
                    return wrong(number, "this block was not declared before");
                }
            }
            b'c' => {
                now = words(rest).next().unwrap_or(0).saturating_mul(NS_PER_MS).max(now);
                timeline.push(now);
            }
            b'R' => {
                let pages = words(rest).next().unwrap_or(0);
                tables.resident.push((now, pages.saturating_mul(tables.page)));
            }
            b'm' | b'x' => {
                let what = "raw data of a running heaptrack: use the file that `heaptrack` writes at the end";
                return Err(ImportError::unusable(Format::Heaptrack, what));
            }
            _ => {
                if let Err(what) = tables.take(kind, rest) {
                    return wrong(number, what);
                }
            }
        }
        run.peak_time(now);
    }
    if run.events == 0 {
        return Err(ImportError::unusable(Format::Heaptrack, "no allocations"));
    }
    assemble(bytes, &tables, &run, &timeline)
}

fn split(line: &[u8]) -> Option<(u8, &[u8])> {
    match line {
        [b'#', ..] | [] => None,
        [kind, b' ', rest @ ..] => Some((*kind, rest)),
        [kind, ..] => Some((*kind, b"")),
    }
}

fn words(rest: &[u8]) -> impl Iterator<Item = u64> {
    rest.split(|byte| *byte == b' ').map_while(hex)
}

/// The tables that events refer to.
#[derive(Default)]
struct Tables<'a> {
    format: u64,
    command: &'a [u8],
    page: u64,
    texts: Vec<&'a [u8]>,
    addresses: Vec<Address>,
    /// Address and caller, both from 1.
    traces: Vec<(u64, u64)>,
    /// Size and trace.
    blocks: Vec<(u64, u64)>,
    /// Time and bytes.
    resident: Vec<(u64, u64)>,
}

struct Address {
    address: u64,
    module: u64,
    /// Function, file and line, innermost first.
    frames: Vec<[u64; 3]>,
}

impl<'a> Tables<'a> {
    fn take(&mut self, kind: u8, rest: &'a [u8]) -> Result<(), &'static str> {
        let mut numbers = words(rest);
        let mut number = || numbers.next().ok_or("a number is missing");
        match kind {
            b'v' => {
                number()?;
                self.format = number().unwrap_or(1);
            }
            b'X' => self.command = rest,
            b'I' => self.page = number()?,
            b's' if self.format >= 3 => {
                let text = rest.iter().position(|byte| *byte == b' ').map(|at| &rest[at + 1..]);
                self.texts.push(text.ok_or("a text is missing")?);
            }
            b's' => self.texts.push(rest),
            b'i' => {
                let (address, module) = (number()?, number().unwrap_or(0));
                let mut frames = Vec::new();
                while let Some(function) = numbers.next() {
                    frames.push([function, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]);
                }
                self.addresses.push(Address { address, module, frames });
            }
            b't' => {
                let (address, caller) = (number()?, number()?);
                if caller > self.traces.len() as u64 {
                    return Err("a stack has a caller that was not declared before");
                }
                self.traces.push((address, caller));
            }
            b'a' => self.blocks.push((number()?, number()?)),
            _ => {}
        }
        Ok(())
    }
}

/// Replays allocations and frees in order.
#[derive(Default)]
struct Run {
    events: u64,
    live: u64,
    peak: u64,
    /// The number of the event that reached the peak, and the time of the peak.
    peak_event: u64,
    peak_ns: u64,
    at_peak: bool,
    /// The block allocated last, if no event followed.
    last_made: Option<usize>,
}

/// One allocation or free.
struct Event {
    trace: u64,
    size: u64,
    made: bool,
    /// Whether it is a free directly after its allocation.
    temporary: bool,
}

impl Run {
    /// Applies the line of an event; `None` if there is no such block.
    fn event(&mut self, blocks: &[(u64, u64)], kind: u8, rest: &[u8]) -> Option<Event> {
        let row = usize::try_from(words(rest).next()?).ok()?;
        let &(size, trace) = blocks.get(row)?;
        self.events += 1;
        let made = kind == b'+';
        let temporary = !made && self.last_made == Some(row);
        self.last_made = made.then_some(row);
        if made {
            self.live = self.live.saturating_add(size);
            if self.live > self.peak {
                (self.peak, self.peak_event, self.at_peak) = (self.live, self.events, true);
            }
        } else {
            self.live = self.live.saturating_sub(size);
        }
        Some(Event { trace, size, made, temporary })
    }

    /// Records the time of a peak that was just reached.
    fn peak_time(&mut self, now: u64) {
        if std::mem::take(&mut self.at_peak) {
            self.peak_ns = now;
        }
    }
}

/// The point of the timeline that a time belongs to.
fn point(now: u64, duration: u64) -> u64 {
    let width = (duration / POINTS).max(1);
    now / width * width
}

fn assemble(
    bytes: &[u8],
    tables: &Tables<'_>,
    whole: &Run,
    timeline: &[u64],
) -> Result<Imported, ImportError> {
    let mut assembly = Assembly::new("heaptrack");
    let command = String::from_utf8_lossy(tables.command).into_owned();
    assembly.profile.meta.command = command.split_whitespace().map(str::to_owned).collect();
    let duration = timeline.last().copied().unwrap_or(0);
    assembly.profile.meta.duration_ns = duration;
    let program = command.split_whitespace().next().unwrap_or("program").to_owned();
    let process = assembly.process(0, program.rsplit('/').next().unwrap_or(&program));
    let thread = assembly.thread(process, 0, "all threads");
    let stacks = stacks(&mut assembly, tables);
    let unknown = assembly.location(None, 0, &[]);
    let unknown = assembly.stack(None, unknown);
    let metrics: [MetricId; 4] = [
        (metric::BYTES_ALLOCATED, Unit::Bytes),
        (metric::ALLOCATIONS, Unit::Count),
        (metric::BYTES_FREED, Unit::Bytes),
        (metric::TEMPORARY, Unit::Count),
    ]
    .map(|(name, unit)| assembly.metric(Metric::of_name(name, unit)));
    let live = assembly.counter(counter::LIVE, Unit::Bytes, Some(process));
    let mut rows = Rows::default();
    // Live bytes and blocks, by row.
    let mut alive: Vec<(u64, u64)> = Vec::new();
    let mut sums: FxHashMap<(usize, u64), [u64; 4]> = FxHashMap::default();
    let mut run = Run::default();
    let (mut now, mut shown) = (0u64, None);
    for (_, line) in lines::numbered_bytes(bytes) {
        let Some((kind, rest)) = split(line) else { continue };
        if kind == b'c' {
            now = words(rest).next().unwrap_or(0).saturating_mul(NS_PER_MS).max(now);
            let at = point(now, duration);
            if shown != Some(at) {
                assembly.counter_value(live, now, i64::try_from(run.live).unwrap_or(i64::MAX));
                shown = Some(at);
            }
        }
        if !matches!(kind, b'+' | b'-') {
            continue;
        }
        let Some(event) = run.event(&tables.blocks, kind, rest) else { continue };
        let stack = usize::try_from(event.trace).ok().and_then(|trace| stacks.get(trace.checked_sub(1)?));
        let row = rows.row(stack.copied().unwrap_or(unknown));
        alive.resize(rows.sites.len(), (0, 0));
        event.count(
            &mut rows.sites[row].counts,
            &mut alive[row],
            sums.entry((row, point(now, duration))).or_default(),
        );
        if run.events == whole.peak_event {
            for (site, &(bytes, blocks)) in rows.sites.iter_mut().zip(&alive) {
                (site.counts.peak_bytes, site.counts.peak_blocks) = (bytes, blocks);
            }
        }
    }
    for (site, &(bytes, blocks)) in rows.sites.iter_mut().zip(&alive) {
        (site.counts.live_at_exit_bytes, site.counts.live_at_exit_blocks) = (bytes, blocks);
    }
    assembly.counter_value(live, duration, i64::try_from(run.live).unwrap_or(i64::MAX));
    let resident = assembly.counter(counter::RESIDENT, Unit::Bytes, Some(process));
    for &(time, bytes) in &tables.resident {
        assembly.counter_value(resident, time, i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    let mut sums: Vec<((usize, u64), [u64; 4])> = sums.into_iter().collect();
    sums.sort_unstable_by_key(|&((row, time), _)| (time, row));
    for ((row, time), values) in sums {
        for (metric, value) in metrics.into_iter().zip(values).filter(|&(_, value)| value > 0) {
            assembly.sample(metric, time, thread, rows.sites[row].stack, value);
        }
    }
    let facts = HeapFacts {
        peak_bytes: whole.peak,
        peak_ns: ProfileNs(whole.peak_ns),
        temporary_within: 1,
        leaks: LeakCheck::Impossible(NoLeakCheck::OtherTool { tool: "heaptrack".to_owned() }),
        processes: 1,
        allocators: vec!["malloc".to_owned()],
        ..HeapFacts::default()
    };
    rows.finish(&mut assembly, facts, thread);
    assembly.note(ImportNote::HeaptrackTimes);
    assembly.finish()
}

impl Event {
    /// Adds it to the numbers of its stack: totals, live blocks, and this point of the timeline.
    fn count(&self, counts: &mut HeapCounts, alive: &mut (u64, u64), point: &mut [u64; 4]) {
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        if self.made {
            add(&mut counts.allocations, 1);
            add(&mut counts.bytes_allocated, self.size);
            add(&mut point[0], self.size);
            add(&mut point[1], 1);
            *alive = (alive.0.saturating_add(self.size), alive.1 + 1);
            if alive.0 > counts.max_bytes {
                (counts.max_bytes, counts.max_blocks) = *alive;
            }
        } else {
            add(&mut counts.frees, 1);
            add(&mut counts.bytes_freed, self.size);
            add(&mut point[2], self.size);
            add(&mut counts.temporary, u64::from(self.temporary));
            add(&mut point[3], u64::from(self.temporary));
            *alive = (alive.0.saturating_sub(self.size), alive.1.saturating_sub(1));
        }
    }
}

/// The stacks of all traces.
fn stacks(assembly: &mut Assembly, tables: &Tables<'_>) -> Vec<StackId> {
    let mut modules: FxHashMap<u64, Option<ModuleId>> = FxHashMap::default();
    let mut locations: Vec<LocationId> = Vec::new();
    let text = |row: u64| -> Option<std::borrow::Cow<'_, str>> {
        let row = usize::try_from(row).ok()?.checked_sub(1)?;
        tables.texts.get(row).map(|text| String::from_utf8_lossy(text))
    };
    for row in &tables.addresses {
        let module = *modules.entry(row.module).or_insert_with(|| {
            let path = text(row.module).filter(|path| !path.is_empty())?;
            Some(assembly.module_once(&path))
        });
        let mut frames = Vec::with_capacity(row.frames.len());
        for &[function, file, line] in row.frames.iter().rev() {
            let Some(name) = text(function).filter(|name| !name.is_empty()) else { continue };
            let file = text(file).filter(|file| !file.is_empty());
            let text = FunctionText { name: &name, file: file.as_deref(), line: 0, module };
            let function = assembly.function(&text);
            let file = file.map(|file| assembly.text(&file));
            frames.push(Frame { function, file, line: u32::try_from(line).unwrap_or(0) });
        }
        // Addresses are those of the running program.
        locations.push(assembly.location(module, if frames.is_empty() { 0 } else { row.address }, &frames));
    }
    let unknown = assembly.location(None, 0, &[]);
    let mut stacks: Vec<StackId> = Vec::with_capacity(tables.traces.len());
    for &(address, caller) in &tables.traces {
        let at = |row: u64| usize::try_from(row).ok().and_then(|row| row.checked_sub(1));
        let location = at(address).and_then(|row| locations.get(row)).copied().unwrap_or(unknown);
        let caller = at(caller).and_then(|row| stacks.get(row)).copied();
        stacks.push(assembly.stack(caller, location));
    }
    stacks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// main calls make (with an inlined helper) and keep; time goes from 0 to 20 ms.
    const SAMPLE: &str = "\
v 10400 3
X ./app one
I 1000 3e8
s 6 ./app
s 4 main
s 4 make
s 6 helper
s 4 keep
s 6 main.c
i 1000 1 2 6 a
i 1100 1 4 6 14 3 6 15
i 1200 1 5 6 1e
t 1 0
t 2 1
t 3 1
a 10 2
a 64 3
c 0
+ 0
- 0
+ 1
R 10
c a
+ 0
+ 1
- 1
c 14
- 0
";

    fn import(text: &str) -> Imported {
        read(text.as_bytes(), &ImportOptions::default()).expect("it is heaptrack's")
    }

    #[test]
    fn blocks_are_counted_by_stack() {
        assert!(looks_like(SAMPLE.as_bytes()));
        let imported = import(SAMPLE);
        let profile = &imported.profile;
        assert_eq!(profile.meta.command, ["./app", "one"]);
        assert_eq!(profile.meta.duration_ns, 20_000_000);
        let facts = profile.meta.heap.as_ref().expect("a heap");
        assert_eq!((facts.peak_bytes, facts.peak_ns), (0x10 + 2 * 0x64, ProfileNs(10_000_000)));
        let [make, keep] = &profile.heap.sites[..] else { panic!("two sites") };
        let numbers = |counts: &HeapCounts| {
            (
                counts.allocations,
                counts.bytes_allocated,
                counts.peak_bytes,
                counts.live_at_exit_bytes,
                counts.temporary,
            )
        };
        assert_eq!(numbers(&make.counts), (2, 0x20, 0x10, 0, 1));
        assert_eq!(numbers(&keep.counts), (2, 0xc8, 0xc8, 0x64, 1));
        assert_eq!((keep.counts.max_bytes, keep.counts.max_blocks), (0xc8, 2));
        let names = |stack: StackId| -> Vec<&str> {
            let frames = profile.locations_of(stack).flat_map(|location| profile.frames.of(location));
            frames.map(|frame| profile.text(profile.functions[frame.function.index()].name)).collect()
        };
        assert_eq!(names(make.stack), ["make", "helper", "main"], "outermost of an address first");
        let live: Vec<i64> = profile.counter_values.value.clone();
        assert_eq!(live, [0, 0x64, 0x74, 0x64, 0x10000]);
    }

    #[test]
    fn broken_files_are_errors_with_a_line() {
        let broken =
            |text: &str| read(text.as_bytes(), &ImportOptions::default()).expect_err("broken").to_string();
        assert!(broken("v 1 3\n+ 0\n").ends_with(": line 2: this block was not declared before"));
        assert!(
            broken("v 1 3\nt 1 7\n").ends_with(": line 2: a stack has a caller that was not declared before")
        );
        assert!(broken("v 1 3\na 1\n").ends_with(": line 2: a number is missing"));
        assert!(broken("v 1 3\n").ends_with(": no allocations"));
        assert!(broken("v 1 3\nm x\n").contains("raw data"));
        assert!(!looks_like(b"v 1\n"));
        assert!(!looks_like(b"v 1 3\nhello world\n"));
    }
}
