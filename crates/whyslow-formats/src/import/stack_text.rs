//! Shared by the importers of text reports: stacks with values, but without times.

use rustc_hash::FxHashMap;
use whyslow_profile::{Frame, ImportNote, Metric, MetricId, StackId, ThreadId, Unit};

use super::assemble::{Assembly, FunctionText};
use super::{Format, ImportError, Imported, lines};

/// A frame: its function, and the module or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TextFrame<'a> {
    pub(super) name: &'a str,
    pub(super) module: &'a str,
    pub(super) file: Option<&'a str>,
    pub(super) line: u32,
}

impl<'a> TextFrame<'a> {
    pub(super) fn new(name: &'a str, module: &'a str) -> Self {
        Self { name, module, file: None, line: 0 }
    }
}

/// A profile while it is built.
pub(super) struct StackText {
    pub(super) assembly: Assembly,
    format: Format,
    metric: MetricId,
    threads: FxHashMap<String, ThreadId>,
    samples: u64,
}

impl StackText {
    /// A profile whose values are numbers of samples.
    pub(super) fn of_samples(format: Format, tool: &str) -> Self {
        Self::new(format, tool, Metric::of_name("samples", Unit::Count))
    }

    pub(super) fn new(format: Format, tool: &str, metric: Metric<&str>) -> Self {
        let mut assembly = Assembly::new(tool);
        let metric = assembly.metric(metric);
        Self { assembly, format, metric, threads: FxHashMap::default(), samples: 0 }
    }

    /// Adds a stack, outermost frame first.
    pub(super) fn add(&mut self, thread: &str, frames: &[TextFrame<'_>], time_ns: u64, value: u64) {
        let mut stack: Option<StackId> = None;
        for frame in frames {
            let module = (!frame.module.is_empty()).then(|| self.assembly.module_once(frame.module));
            let function = FunctionText { name: frame.name, file: frame.file, line: 0, module };
            let function = self.assembly.function(&function);
            let file = frame.file.map(|file| self.assembly.text(file));
            let row = Frame { function, file, line: frame.line };
            let location = self.assembly.location(module, 0, &[row]);
            stack = Some(self.assembly.stack(stack, location));
        }
        let Some(stack) = stack.filter(|_| value > 0) else { return };
        let thread = self.thread(thread);
        self.samples += 1;
        self.assembly.sample(self.metric, time_ns, thread, stack, value);
    }

    fn thread(&mut self, name: &str) -> ThreadId {
        if let Some(&known) = self.threads.get(name) {
            return known;
        }
        let number = self.threads.len() as u32;
        let process = match self.threads.values().next() {
            Some(first) => self.assembly.profile.threads[first.index()].process,
            None => self.assembly.process(0, "process"),
        };
        let thread =
            self.assembly.thread(process, number, if name.is_empty() { "all threads" } else { name });
        self.threads.insert(name.to_owned(), thread);
        thread
    }

    pub(super) fn finish(mut self, left_out: lines::LeftOut) -> Result<Imported, ImportError> {
        if self.samples == 0 {
            let empty = || ImportError::unusable(self.format, "no samples");
            return Err(left_out.error(self.format).unwrap_or_else(empty));
        }
        left_out.note().into_iter().for_each(|note: ImportNote| self.assembly.note(note));
        self.assembly.finish()
    }
}
