//! The text of `perf script`.
//!
//! ```text
//! comm name  1234/1235 [000]  4747.902466:    1003009 cpu-clock:u:
//!             55d0c7a0 alpha+0x12 (inlined)
//!             55d0c7a0 main+0x30 (/usr/bin/app)
//! (an empty line)
//! ```
//! Stacks are innermost first. Without call stacks, the one frame stands behind the event. CPU, time, period, the second
//! number, addresses and offsets can be missing.

mod frame;
mod head;

use rustc_hash::FxHashMap;
use whyslow_profile::{Frame, LocationId, Metric, MetricId, ModuleId, ProcessId, StackId, ThreadId, Unit};

use super::assemble::{Assembly, FunctionText};
use super::{Format, ImportError, ImportOptions, Imported, lines};
use frame::FrameText;
use head::Head;

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    let first = lines::numbered(start).map(|(_, line)| line).find(|line| !is_ignored(line));
    lines::is_text(start) && first.is_some_and(|line| Head::parse(&line).is_some())
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut script = Script::new();
    let mut open: Option<Open> = None;
    for (number, line) in lines::numbered(bytes) {
        if line.trim().is_empty() {
            if let Some(open) = open.take() {
                script.close(open);
            }
            continue;
        }
        if line.starts_with('#') {
            continue;
        }
        let indented = line.starts_with('\t') || (line.starts_with(' ') && frame::starts_with_address(&line));
        if let Some(open) = open.as_mut().filter(|_| indented && !Head::is_likely(&line)) {
            script.frame(&mut open.frames, &line);
            continue;
        }
        if let Some(open) = open.take() {
            script.close(open);
        }
        let head = Head::parse(&line).ok_or_else(|| {
            ImportError::at_line(Format::PerfScript, number, "this is neither a sample nor a frame of one")
        })?;
        open = Some(script.open(&head));
    }
    if let Some(open) = open.take() {
        script.close(open);
    }
    script.finish()
}

fn is_ignored(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#')
}

/// A sample whose frames are being read.
struct Open {
    time_ns: u64,
    metric: MetricId,
    thread: ThreadId,
    value: u64,
    /// Innermost first.
    frames: Vec<LocationId>,
}

/// The profile in the making.
struct Script {
    assembly: Assembly,
    metrics: FxHashMap<String, MetricId>,
    /// The metric of CPU time.
    clock: Option<MetricId>,
    processes: FxHashMap<Option<u32>, ProcessId>,
    threads: FxHashMap<(Option<u32>, u32), ThreadId>,
    modules: FxHashMap<String, ModuleId>,
    /// Locations of frame lines without their address, when nothing is inlined into them.
    known: FxHashMap<Box<str>, LocationId>,
    /// Functions that are inlined into the frame that comes next, innermost first.
    inlined: Vec<String>,
    start_ns: Option<u64>,
    stacks: bool,
}

impl Script {
    fn new() -> Self {
        Self {
            assembly: Assembly::new("perf script"),
            metrics: FxHashMap::default(),
            clock: None,
            processes: FxHashMap::default(),
            threads: FxHashMap::default(),
            modules: FxHashMap::default(),
            known: FxHashMap::default(),
            inlined: Vec::new(),
            start_ns: None,
            stacks: false,
        }
    }

    fn open(&mut self, head: &Head<'_>) -> Open {
        let thread = self.thread(head);
        let metric = self.metric(head);
        let mut open = Open {
            time_ns: head.time_ns.unwrap_or(0),
            metric,
            thread,
            value: head.period.unwrap_or(1),
            frames: Vec::new(),
        };
        if frame::starts_with_address(head.rest) {
            self.frame_text(&mut open.frames, head.rest);
        }
        open
    }

    fn metric(&mut self, head: &Head<'_>) -> MetricId {
        if let Some(&known) = self.metrics.get(head.event) {
            return known;
        }
        let plain = head.event.split(':').next().unwrap_or(head.event);
        // The period of a clock is in nanoseconds; without it, samples are counted.
        let is_time = matches!(plain, "cpu-clock" | "task-clock") && head.period.is_some();
        let metric = if is_time && self.clock.is_none() {
            let metric = self.assembly.metric(Metric::CPU_TIME, Unit::Nanoseconds);
            self.clock = Some(metric);
            metric
        } else {
            self.assembly.metric(head.event, if is_time { Unit::Nanoseconds } else { Unit::Count })
        };
        self.metrics.insert(head.event.to_owned(), metric);
        metric
    }

    fn thread(&mut self, head: &Head<'_>) -> ThreadId {
        let Self { assembly, processes, threads, .. } = self;
        *threads.entry((head.pid, head.tid)).or_insert_with(|| {
            if head.pid.is_none() {
                assembly.note(
                    "perf script printed no process numbers: all threads are shown as one process; try: perf script -F \
                     +pid",
                );
            }
            let process = *processes
                .entry(head.pid)
                .or_insert_with(|| assembly.process(head.pid.unwrap_or(head.tid), head.comm));
            assembly.thread(process, head.tid, head.comm)
        })
    }

    /// Takes a line of a stack.
    fn frame(&mut self, frames: &mut Vec<LocationId>, line: &str) {
        self.stacks = true;
        self.frame_text(frames, line);
    }

    fn frame_text(&mut self, frames: &mut Vec<LocationId>, line: &str) {
        let frame = FrameText::parse(line);
        if frame.inlined {
            self.inlined.push(frame.symbol.to_owned());
            return;
        }
        if frame.is_unknown() {
            self.inlined.clear();
            frames.push(self.assembly.location(None, frame.address, &[]));
            return;
        }
        if self.inlined.is_empty()
            && let Some(&known) = self.known.get(frame.text)
        {
            frames.push(known);
            return;
        }
        let module = self.module(frame.module);
        let mut rows = Vec::with_capacity(1 + self.inlined.len());
        let without_name;
        let name = if frame.symbol == "[unknown]" {
            without_name = format!("[{}]", frame.module.rsplit('/').next().unwrap_or(frame.module));
            without_name.as_str()
        } else {
            frame.symbol
        };
        let plain = self.inlined.is_empty();
        let inlined = std::mem::take(&mut self.inlined);
        for name in std::iter::once(name).chain(inlined.iter().rev().map(String::as_str)) {
            let function = self.assembly.function(&FunctionText { name, module, ..FunctionText::default() });
            rows.push(Frame { function, file: None, line: 0 });
        }
        let location = self.assembly.location(module, 0, &rows);
        if plain {
            self.known.insert(frame.text.into(), location);
        }
        frames.push(location);
    }

    fn module(&mut self, path: &str) -> Option<ModuleId> {
        if matches!(path, "" | "[unknown]") {
            return None;
        }
        if let Some(&known) = self.modules.get(path) {
            return Some(known);
        }
        let (name, kind) = frame::module_kind(path);
        let module = self.assembly.module(name, None, kind);
        self.assembly.profile.modules[module.index()].symbols = whyslow_profile::SymbolState::Names;
        self.modules.insert(path.to_owned(), module);
        Some(module)
    }

    fn close(&mut self, open: Open) {
        self.inlined.clear();
        let mut stack: Option<StackId> = None;
        for &location in open.frames.iter().rev() {
            stack = Some(self.assembly.stack(stack, location));
        }
        let Some(stack) = stack else {
            self.assembly.note("samples without an address are left out");
            return;
        };
        // Samples are nearly in order; the first few may come from another CPU.
        let start = *self.start_ns.get_or_insert(open.time_ns);
        let time_ns = open.time_ns.saturating_sub(start);
        self.assembly.sample(open.metric, time_ns, open.thread, stack, open.value);
    }

    fn finish(mut self) -> Result<Imported, ImportError> {
        if self.start_ns.is_none() {
            return Err(ImportError::unusable(Format::PerfScript, "it holds no samples"));
        }
        // Time is what most people look for first.
        if let Some(clock) = self.clock {
            self.assembly.profile.metrics[..=clock.index()].rotate_right(1);
            self.assembly.profile.samples[..=clock.index()].rotate_right(1);
        }
        self.assembly
            .note("perf script has no lines, no module addresses and no unwind quality; perf.data has");
        if !self.stacks {
            self.assembly.note("there are no call stacks; try: perf record --call-graph dwarf");
        }
        self.assembly.finish()
    }
}

#[cfg(test)]
mod tests;
