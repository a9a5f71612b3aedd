//! Exports heaptrack's text for `heaptrack_print` and `heaptrack_gui`: tables of texts, addresses and stacks,
//! then one line per allocation and per free, with timestamps in milliseconds in between. All numbers are
//! hexadecimal.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use whyslow_processor::PAGE;
use whyslow_profile::{LocationId, Profile, StackId, heap::counter};

use super::heap::events::{Events, Run};
use super::heap::{command, no_heap};
use super::places::{module_of, places};
use super::{Export, LeftOut, one_line};
use whyslow_analyze::heap::Timeline;

/// The maximum number of allocations written one by one: about 60 MB with their frees.
const ALLOCATIONS: u64 = 5_000_000;
/// heaptrack's version and the version of the format.
const VERSION: &str = "v 10400 3";

/// Writes events that add up to the recorded numbers. Returns what the format cannot hold.
pub fn write_heaptrack(export: &Export<'_>, out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    write_at_most(export, out, ALLOCATIONS)
}

fn write_at_most(export: &Export<'_>, out: &mut dyn Write, limit: u64) -> io::Result<Vec<LeftOut>> {
    let profile = export.profile;
    if profile.heap.is_empty() {
        return Err(no_heap("heaptrack"));
    }
    let timeline = Timeline::new(profile);
    let events = Events::new(&timeline, limit);
    let mut file = File { out, profile, indices: FxHashMap::default(), last: 0, live: 0, cut: 0 };
    writeln!(file.out, "{VERSION}")?;
    writeln!(file.out, "X {}", command(profile))?;
    writeln!(file.out, "I {PAGE:x} 0")?;
    let traces = file.tables(export.inline)?;
    file.events(&timeline, &events, &traces)?;
    let mut left_out = vec![LeftOut::Threads, LeftOut::Lifetimes, LeftOut::Sizes];
    if events.one_in > 1 {
        left_out.push(LeftOut::OneIn(events.one_in));
    }
    if events.added > 0 {
        left_out.push(LeftOut::AddedCalls(events.added));
    }
    if events.not_temporary > 0 {
        left_out.push(LeftOut::LateTemporary(events.not_temporary));
    }
    if file.cut > 0 {
        left_out.push(LeftOut::AbovePeak(file.cut));
    }
    if timeline.peak_missed > 0 {
        left_out.push(LeftOut::PeakMissed(timeline.peak_missed));
    }
    left_out.extend(export.left_out(&[LeftOut::Spans, LeftOut::Code]));
    Ok(left_out)
}

struct File<'p, 'o> {
    out: &'o mut dyn Write,
    profile: &'p Profile,
    /// Rows of `a` lines by trace and size. Row 0 is a block of no bytes that is never allocated: see
    /// [`File::free`].
    indices: FxHashMap<(u32, u64), u32>,
    /// The row of the allocation if that was the last event, 0 after a free.
    last: u32,
    live: u64,
    /// Bytes left out to stay below the peak.
    cut: u64,
}

impl File<'_, '_> {
    /// Writes texts, addresses and stacks. Returns the trace of each site, counted from 1.
    fn tables(&mut self, inline: bool) -> io::Result<Vec<u32>> {
        let profile = self.profile;
        let (mut texts, mut addresses, mut traces) =
            (FxHashMap::default(), FxHashMap::default(), FxHashMap::<StackId, u32>::default());
        let mut of_sites = Vec::with_capacity(profile.heap.sites.len());
        for site in &profile.heap.sites {
            let unknown = |&node: &StackId| !traces.contains_key(&node);
            let new: Vec<StackId> = profile.stacks.towards_root(site.stack).take_while(unknown).collect();
            for node in new.into_iter().rev() {
                let location = profile.stacks.location(node);
                let address = match addresses.get(&location) {
                    Some(&address) => address,
                    None => {
                        self.address(location, inline, &mut texts)?;
                        addresses.insert(location, addresses.len() as u32 + 1);
                        addresses.len() as u32
                    }
                };
                let parent = profile.stacks.parent(node).map_or(0, |parent| traces[&parent]);
                writeln!(self.out, "t {address:x} {parent:x}")?;
                traces.insert(node, traces.len() as u32 + 1);
            }
            of_sites.push(traces[&site.stack]);
        }
        writeln!(self.out, "a 0 1")?;
        Ok(of_sites)
    }

    /// Writes an address: its module, then its functions, innermost first.
    fn address(
        &mut self,
        location: LocationId,
        inline: bool,
        texts: &mut FxHashMap<String, u32>,
    ) -> io::Result<()> {
        let profile = self.profile;
        let module = module_of(profile, location);
        let module = match module {
            Some(module) => self.text(texts, profile.text(profile.modules[module.index()].path))?,
            None => 0,
        };
        let mut line = format!("i {:x} {module:x}", profile.locations.address[location.index()].0);
        let places = places(profile, location, inline);
        let unnamed = module != 0 && profile.frames.of(location).is_empty();
        for place in places.iter().rev().filter(|_| !unnamed) {
            let name = self.text(texts, &place.name)?;
            let file = place.file.map_or(Ok(0), |file| self.text(texts, file))?;
            line.push_str(&format!(" {name:x} {file:x} {:x}", place.line));
        }
        writeln!(self.out, "{line}")
    }

    fn text(&mut self, texts: &mut FxHashMap<String, u32>, text: &str) -> io::Result<u32> {
        if let Some(&id) = texts.get(text) {
            return Ok(id);
        }
        let line = one_line(text);
        writeln!(self.out, "s {:x} {line}", line.len())?;
        texts.insert(text.to_owned(), texts.len() as u32 + 1);
        Ok(texts.len() as u32)
    }

    fn events(&mut self, timeline: &Timeline, events: &Events, traces: &[u32]) -> io::Result<()> {
        let sites = &self.profile.heap.sites;
        let peak = sites.iter().fold(0u64, |sum, site| sum.saturating_add(site.counts.peak_bytes));
        let mut resident = resident(self.profile).into_iter().peekable();
        for (period, of_site) in events.periods.iter().enumerate() {
            self.time(timeline.starts[period])?;
            while let Some((_, bytes)) = resident.next_if(|&(time, _)| time <= timeline.starts[period]) {
                writeln!(self.out, "R {:x}", bytes / PAGE)?;
            }
            if let Some(block) = events.over_peak.filter(|_| period == timeline.peak + 1) {
                let index = self.index(traces[block.site], block.size)?;
                self.free_at_once(index, block.size)?;
            }
            for of_site in of_site {
                for &run in &of_site.freed {
                    self.each(traces[of_site.site], run, u64::MAX, Self::free)?;
                }
            }
            // Live bytes stay below the peak before it, and do not exceed it afterwards.
            let most = if period <= timeline.peak { peak.saturating_sub(1) } else { peak };
            for of_site in of_site {
                self.each(traces[of_site.site], of_site.temporary, most, |file, index, size| {
                    file.allocate(index, size)?;
                    file.free_at_once(index, size)
                })?;
                self.each(traces[of_site.site], of_site.passing, most, |file, index, size| {
                    file.allocate(index, size)?;
                    file.free(index, size)
                })?;
            }
            if period == timeline.peak {
                self.time(timeline.starts[period + 1])?;
            }
            for of_site in of_site {
                for &run in &of_site.kept {
                    self.each(traces[of_site.site], run, u64::MAX, Self::allocate)?;
                }
            }
            if let Some(block) = events.over_peak.filter(|_| period == timeline.peak) {
                let index = self.index(traces[block.site], block.size)?;
                self.allocate(index, block.size)?;
            }
        }
        for (_, bytes) in resident {
            writeln!(self.out, "R {:x}", bytes / PAGE)?;
        }
        self.time(self.profile.meta.duration_ns.max(timeline.starts.last().copied().unwrap_or(0)))
    }

    fn time(&mut self, ns: u64) -> io::Result<()> {
        writeln!(self.out, "c {:x}", ns / 1_000_000)
    }

    /// Calls a function for every block of a run. Blocks shrink if the heap would exceed `most` bytes.
    fn each(
        &mut self,
        trace: u32,
        run: Run,
        most: u64,
        mut act: impl FnMut(&mut Self, u32, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        for (size, blocks) in run.sizes() {
            let fits = size.min(most.saturating_sub(self.live));
            self.cut = self.cut.saturating_add((size - fits).saturating_mul(blocks));
            let index = self.index(trace, fits)?;
            for _ in 0..blocks {
                act(self, index, fits)?;
            }
        }
        Ok(())
    }

    /// The row of the `a` line for this trace and size. Writes the line if it is new.
    fn index(&mut self, trace: u32, size: u64) -> io::Result<u32> {
        if let Some(&index) = self.indices.get(&(trace, size)) {
            return Ok(index);
        }
        let index = self.indices.len() as u32 + 1;
        writeln!(self.out, "a {size:x} {trace:x}")?;
        self.indices.insert((trace, size), index);
        Ok(index)
    }

    fn allocate(&mut self, index: u32, size: u64) -> io::Result<()> {
        self.last = index;
        self.live = self.live.saturating_add(size);
        writeln!(self.out, "+ {index:x}")
    }

    /// heaptrack counts a block as temporary if its free is the event right after its allocation.
    fn free_at_once(&mut self, index: u32, size: u64) -> io::Result<()> {
        self.last = 0;
        self.live = self.live.saturating_sub(size);
        writeln!(self.out, "- {index:x}")
    }

    /// Frees a block that is not temporary. A free of no bytes precedes it if the block would look temporary.
    fn free(&mut self, index: u32, size: u64) -> io::Result<()> {
        if self.last == index {
            writeln!(self.out, "- 0")?;
        }
        self.free_at_once(index, size)
    }
}

/// The resident set size over time. The sum over processes is not known for a point in time, so the largest
/// process counts.
fn resident(profile: &Profile) -> Vec<(u64, u64)> {
    let values = &profile.counter_values;
    let is_resident = |row: usize| {
        let counter = profile.counters.get(values.counter[row].index());
        counter.is_some_and(|counter| profile.text(counter.name) == counter::RESIDENT)
    };
    let rows = (0..values.len()).filter(|&row| is_resident(row));
    let mut values: Vec<(u64, u64)> =
        rows.map(|row| (values.time_ns[row], values.value[row].max(0).unsigned_abs())).collect();
    values.sort_unstable();
    values
}
