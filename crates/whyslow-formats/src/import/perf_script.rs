//! Imports the text of `perf script`.
//!
//! ```text
//! comm name  1234/1235 [000]  4747.902466:    1003009 cpu-clock:u:
//!             55d0c7a0 alpha+0x12 (inlined)
//!             55d0c7a0 main+0x30 (/usr/bin/app)
//! (an empty line)
//! ```
//! Stacks are innermost first. Without call stacks, the only frame follows the event. Every field can be missing, and
//! `-F srcline` adds a separate line below each frame.

mod frame;
mod head;

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use whyslow_profile::{
    Frame, ImportNote, LeftOutSamples, LocationId, Metric, MetricId, ModuleId, ModuleKind, ProcessId,
    Sampler, SpecialFrame, StackId, ThreadId, Unit,
};

use super::assemble::{Assembly, FunctionText};
use super::{Format, ImportError, ImportOptions, Imported, lines, others, perf_event};
use frame::FrameText;
use head::{Head, Sureness};

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    // The kernel's own trace has similar lines.
    if others::is_ftrace(start.trim_ascii_start()) {
        return false;
    }
    let mut lines = lines::numbered(start).map(|(_, line)| line).filter(|line| !is_ignored(line));
    let Some(first) = lines.next().filter(|_| lines::is_text(start)) else { return false };
    let is_frame = |line: &str| line.starts_with('\t') && frame::starts_with_address(line);
    // Below a sample, frames may be indented otherwise, or not at all.
    let is_below = |line: Option<&str>| {
        line.is_some_and(|line| is_frame(line) || frame::starts_with_address(line) && line.ends_with(')'))
    };
    let lines: Vec<Cow<'_, str>> = std::iter::once(first).chain(lines.take(MOST_BEFORE_SAMPLES)).collect();
    let next = |at: usize| lines.get(at + 1).map(AsRef::as_ref);
    let (head, sureness) = Head::parse(&lines[0]);
    let starts = match sureness {
        _ if is_frame(&lines[0]) => true,
        Sureness::Sure => !head.event.is_empty() || is_below(next(0)),
        Sureness::Likely if frame::starts_with_address(head.rest) => {
            head.tid.is_some() || !FrameText::parse(head.rest).is_unknown()
        }
        Sureness::Likely => is_below(next(0)),
        Sureness::Loose => next(0).is_some_and(is_frame),
    };
    // Messages of perf or of a shell may come first.
    let starts_at = |at: usize| {
        let (head, sureness) = Head::parse(&lines[at]);
        sureness == Sureness::Sure && !head.event.is_empty() && next(at).is_some_and(is_frame)
    };
    starts || (0..lines.len()).any(starts_at)
}

/// How many lines may precede the first sample.
const MOST_BEFORE_SAMPLES: usize = 20;

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut script = Script::new();
    let mut left_out = lines::LeftOut::default();
    let mut open: Option<Open> = None;
    let mut lines = lines::numbered(bytes).peekable();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() {
            // Editors and mail programs add empty lines: a stack that follows one belongs to the event above.
            let frames_follow = lines.peek().is_some_and(|(_, next)| next.starts_with('\t'));
            if frames_follow && open.as_ref().is_some_and(|open| !script.has_frames(open)) {
                continue;
            }
            open.take().into_iter().for_each(|open| script.close(open));
            continue;
        }
        if is_ignored(&line) {
            continue;
        }
        let (head, sureness) = Head::parse(&line);
        // Frames are indented, but so are short thread names. Some tools remove the indentation.
        let is_frame = line.starts_with('\t')
            || (line.starts_with(' ') || open.is_some() && head.tid.is_none() && line.ends_with(')'))
                && frame::starts_with_address(&line)
                && sureness < Sureness::Sure
                && head.pid.is_none();
        if is_frame {
            let open = open.get_or_insert_with(|| script.open(&Head::default()));
            script.frame(&mut open.frames, &line);
            continue;
        }
        // Below a frame is its source line; without one, `f+12` or `libx.so[1f2e]`.
        if line.starts_with(' ')
            && sureness == Sureness::Loose
            && let Some(open) = open.as_mut().filter(|open| script.has_frames(open))
        {
            if let Some((file, line)) = frame::source_line(&line) {
                script.source_line(&mut open.frames, file, line);
            }
            continue;
        }
        open.take().into_iter().for_each(|open| script.close(open));
        let frames_follow = lines.peek().is_some_and(|(_, next)| next.starts_with('\t'));
        if sureness == Sureness::Loose && !frames_follow {
            left_out.add(number, "neither a sample nor a stack frame");
            continue;
        }
        open = Some(script.open(&head));
    }
    open.take().into_iter().for_each(|open| script.close(open));
    script.finish(left_out)
}

/// Whether a line is a comment, or was added by `--show-mmap-events` and similar options.
fn is_ignored(line: &str) -> bool {
    line.trim().is_empty() || line.starts_with('#') || line.contains(" PERF_RECORD_")
}

/// A sample whose frames are being read.
struct Open {
    time_ns: Option<u64>,
    metric: MetricId,
    thread: ThreadId,
    value: u64,
    /// Innermost first.
    frames: Vec<LocationId>,
}

/// A function inlined into another one, and its line.
struct Inlined {
    symbol: String,
    source: Option<(String, u32)>,
}

/// The profile while it is built.
struct Script {
    assembly: Assembly,
    metrics: FxHashMap<String, MetricId>,
    /// The metric of CPU time.
    clock: Option<MetricId>,
    processes: FxHashMap<Option<u32>, ProcessId>,
    /// Threads by process, number and name. A thread may change its name, as every program does that perf
    /// starts: its samples keep the name it had at the time.
    threads: FxHashMap<(Option<u32>, Option<u32>), FxHashMap<String, ThreadId>>,
    modules: FxHashMap<String, ModuleId>,
    /// Locations by frame line without the address, if nothing is inlined into them.
    known: FxHashMap<Box<str>, LocationId>,
    /// Functions inlined into the next frame, innermost first.
    inlined: Vec<Inlined>,
    start_ns: Option<u64>,
    samples: u64,
    without_time: u64,
    without_address: u64,
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
            samples: 0,
            without_time: 0,
            without_address: 0,
            stacks: false,
        }
    }

    fn open(&mut self, head: &Head<'_>) -> Open {
        let thread = self.thread(head);
        let metric = self.metric(head);
        let mut open = Open {
            time_ns: head.time_ns,
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
        // The period of a clock is in nanoseconds. Without a period, samples are counted.
        let is_time = matches!(plain, "cpu-clock" | "task-clock") && head.period.is_some();
        let metric = if is_time && self.clock.is_none() {
            let metric = self.assembly.metric(Metric::cpu_time(Sampler::default()));
            self.clock = Some(metric);
            metric
        } else {
            let name = if head.event.is_empty() { "samples" } else { head.event };
            let unit = if is_time { Unit::Nanoseconds } else { Unit::Count };
            self.assembly.metric(perf_event::metric(name, unit, Sampler::default()))
        };
        self.metrics.insert(head.event.to_owned(), metric);
        metric
    }

    fn thread(&mut self, head: &Head<'_>) -> ThreadId {
        let Self { assembly, processes, threads, .. } = self;
        let of_task = threads.entry((head.pid, head.tid)).or_default();
        if let Some(&known) = of_task.get(head.comm) {
            return known;
        }
        if head.pid.is_none() {
            assembly.note(ImportNote::NoProcessNumbers);
        }
        let process = *processes
            .entry(head.pid)
            .or_insert_with(|| assembly.process(head.pid.or(head.tid).unwrap_or(0), head.comm));
        let name = if head.comm.is_empty() { "all threads" } else { head.comm };
        let thread = assembly.thread(process, head.tid.unwrap_or(0), name);
        of_task.insert(head.comm.to_owned(), thread);
        thread
    }

    /// Reads a line of a stack.
    fn frame(&mut self, frames: &mut Vec<LocationId>, line: &str) {
        self.stacks = true;
        self.frame_text(frames, line);
    }

    fn frame_text(&mut self, frames: &mut Vec<LocationId>, line: &str) {
        let frame = FrameText::parse(line);
        if frame.inlined {
            self.inlined.push(Inlined { symbol: frame.symbol.to_owned(), source: None });
            return;
        }
        if frame.is_unknown() {
            let rows = self.inlined_rows(None);
            frames.push(self.assembly.location(None, frame.address, &rows));
            return;
        }
        if self.inlined.is_empty()
            && let Some(&known) = self.known.get(frame.text)
        {
            frames.push(known);
            return;
        }
        let module = self.module(frame.module);
        let name = frame.symbol;
        if SpecialFrame::Unknown.is_named(name)
            || module.is_some_and(|module| self.assembly.is_unnamed(module, name))
        {
            let rows = self.inlined_rows(module);
            let location = self.assembly.location(module, 0, &rows);
            if rows.is_empty() {
                self.known.insert(frame.text.into(), location);
            }
            frames.push(location);
            return;
        }
        let mut rows = Vec::with_capacity(1 + self.inlined.len());
        let plain = self.inlined.is_empty();
        let is_jit =
            module.is_some_and(|id| self.assembly.profile.modules[id.index()].kind == ModuleKind::Jit);
        if is_jit && name.contains("->") {
            for name in frame::joined(name) {
                rows.push(self.row(name, module, None));
            }
        } else {
            rows.push(self.row(name, module, None));
        }
        rows.extend(self.inlined_rows(module));
        let location = self.assembly.location(module, 0, &rows);
        if plain {
            self.known.insert(frame.text.into(), location);
        }
        frames.push(location);
    }

    /// Takes the functions inlined into a frame, outermost first.
    fn inlined_rows(&mut self, module: Option<ModuleId>) -> Vec<Frame> {
        let inlined = std::mem::take(&mut self.inlined).into_iter().rev();
        inlined
            .map(|Inlined { symbol, source }| {
                self.row(&symbol, module, source.as_ref().map(|(file, line)| (file.as_str(), *line)))
            })
            .collect()
    }

    /// Whether a frame of a sample was read.
    fn has_frames(&self, open: &Open) -> bool {
        !open.frames.is_empty() || !self.inlined.is_empty()
    }

    fn row(&mut self, name: &str, module: Option<ModuleId>, source: Option<(&str, u32)>) -> Frame {
        let file = source.map(|(file, _)| file);
        let function = self.assembly.function(&FunctionText { name, file, line: 0, module });
        Frame {
            function,
            file: file.map(|file| self.assembly.text(file)),
            line: source.map_or(0, |(_, line)| line),
        }
    }

    /// Sets the source line of the last frame.
    fn source_line(&mut self, frames: &mut [LocationId], file: &str, line: u32) {
        if let Some(inlined) = self.inlined.last_mut() {
            inlined.source = Some((file.to_owned(), line));
            return;
        }
        let Some(last) = frames.last_mut() else { return };
        let profile = &self.assembly.profile;
        let mut rows = profile.frames.of(*last).to_vec();
        let Some(function) = rows.first().map(|row| &profile.functions[row.function.index()]) else { return };
        let (name, module) = (profile.text(function.raw_name).to_owned(), function.module);
        rows[0] = self.row(&name, module, Some((file, line)));
        *last = self.assembly.location(module, 0, &rows);
    }

    fn module(&mut self, path: &str) -> Option<ModuleId> {
        if path.is_empty() || SpecialFrame::Unknown.is_named(path) {
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
            self.without_address += 1;
            return;
        };
        self.samples += 1;
        // Samples are nearly in order; the first few may be from another CPU.
        let time_ns = match open.time_ns {
            Some(time) => time.saturating_sub(*self.start_ns.get_or_insert(time)),
            None => {
                self.without_time += 1;
                0
            }
        };
        self.assembly.sample(open.metric, time_ns, open.thread, stack, open.value);
    }

    fn finish(mut self, left_out: lines::LeftOut) -> Result<Imported, ImportError> {
        if self.samples == 0 && self.without_address == 0 {
            let empty = || ImportError::unusable(Format::PerfScript, "no samples");
            return Err(left_out.error(Format::PerfScript).unwrap_or_else(empty));
        }
        self.name_processes();
        // Most users want CPU time first.
        if let Some(clock) = self.clock {
            self.assembly.profile.metrics[..=clock.index()].rotate_right(1);
            self.assembly.profile.samples[..=clock.index()].rotate_right(1);
        }
        self.assembly.note(ImportNote::PerfScriptText);
        if !self.stacks {
            self.assembly.note(ImportNote::NoCallStacks);
        }
        if self.without_time > 0 {
            self.assembly.note(ImportNote::SamplesWithoutTime { samples: self.without_time });
        }
        self.assembly.leave_out(self.without_address, LeftOutSamples::WithoutAddress);
        left_out.note().into_iter().for_each(|note| self.assembly.note(note));
        self.assembly.finish()
    }

    /// Names each process after its main thread, or else any of its threads, by the name with the most
    /// samples.
    fn name_processes(&mut self) {
        let profile = &mut self.assembly.profile;
        let mut samples = vec![0u64; profile.threads.len()];
        profile.samples.iter().flat_map(|rows| &rows.thread).for_each(|thread| samples[thread.index()] += 1);
        let mut best = vec![None; profile.processes.len()];
        for (row, thread) in profile.threads.iter().enumerate() {
            let process = thread.process.index();
            let is_main = thread.tid == profile.processes[process].pid;
            best[process] = best[process].max(Some((is_main, samples[row], row)));
        }
        for (process, best) in profile.processes.iter_mut().zip(best) {
            if let Some((.., thread)) = best {
                process.name = profile.threads[thread].name;
            }
        }
    }
}

#[cfg(test)]
mod tests;
