//! Builds a profile for importers, with each text, function, location and stack once.

use rustc_hash::FxHashMap;
use whyslow_profile::{
    Counter, CounterId, Frame, Function, FunctionId, ImportNote, LeftOutSamples, LocationId, Metric,
    MetricId, Module, ModuleId, ModuleKind, Note, Optimised, Process, ProcessId, Profile, RelativeAddress,
    Samples, Span, SpecialFrame, StackId, StringId, SymbolState, Thread, ThreadId, Unit, is_bracketed,
    leave_out_recursion,
};
use whyslow_symbols::{Given, describe};

use super::{ImportError, Imported};

/// The maximum bytes of text in a profile, and the maximum rows of a table: ids have 32 bits.
const MOST_TEXT: usize = 3 << 30;
const MOST_ROWS: usize = u32::MAX as usize - 1;
const MOST_STACKS: usize = LastCalled::SEVERAL as usize - 1;

/// Longer texts are truncated: they have to fit into a chunk of the file.
const LONGEST_TEXT: usize = 1 << 20;

/// The maximum number of metrics in a profile.
const MOST_METRICS: usize = 1024;

/// What an importer knows about a function.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FunctionText<'a> {
    /// Its name, mangled or not.
    pub(crate) name: &'a str,
    /// The file of its definition.
    pub(crate) file: Option<&'a str>,
    /// The line of its definition; 0 if unknown.
    pub(crate) line: u32,
    /// The module that contains its code.
    pub(crate) module: Option<ModuleId>,
}

/// A profile while it is built. Ids beyond what a profile can hold cause an error at the end.
#[derive(Debug)]
pub(crate) struct Assembly {
    /// The profile so far. Threads and processes may be changed in place.
    pub(crate) profile: Profile,
    notes: Vec<ImportNote>,
    left_out: u64,
    /// Modules that were added by path.
    modules: FxHashMap<Box<str>, ModuleId>,
    texts: FxHashMap<Box<str>, StringId>,
    functions: FxHashMap<(StringId, Option<StringId>, u32, Option<ModuleId>), FunctionId>,
    locations: FxHashMap<LocationKey, LocationId>,
    /// Locations with one frame: the majority in most profiles.
    plain_locations: FxHashMap<(Option<ModuleId>, RelativeAddress, FrameKey), LocationId>,
    /// Stacks by caller and location, for callers with several callees.
    stacks: FxHashMap<(u32, LocationId), StackId>,
    /// The last callee of each stack; the first entry is for the root.
    last_called: Vec<LastCalled>,
    overflow: bool,
}

type FrameKey = (FunctionId, Option<StringId>, u32);
type LocationKey = (Option<ModuleId>, RelativeAddress, Box<[FrameKey]>);

/// The last callee of a stack, and whether there are several: in 32 bits, since there are millions of stacks.
#[derive(Debug, Clone, Copy, Default)]
struct LastCalled(u32);

impl LastCalled {
    const SEVERAL: u32 = 1 << 31;

    fn new(stack: StackId, several: bool) -> Self {
        Self((stack.0 + 1) | if several { Self::SEVERAL } else { 0 })
    }

    fn stack(self) -> Option<StackId> {
        (self.0 & !Self::SEVERAL).checked_sub(1).map(StackId)
    }

    fn several(self) -> bool {
        self.0 & Self::SEVERAL != 0
    }
}

impl Assembly {
    /// An empty profile, recorded by the named tool.
    pub(crate) fn new(tool: &str) -> Self {
        let mut profile = Profile { sealed: true, ..Profile::default() };
        profile.meta.imported_from = Some(tool.to_owned());
        profile.meta.recorder = tool.to_owned();
        Self {
            profile,
            notes: Vec::new(),
            left_out: 0,
            modules: FxHashMap::default(),
            texts: FxHashMap::default(),
            functions: FxHashMap::default(),
            locations: FxHashMap::default(),
            plain_locations: FxHashMap::default(),
            stacks: FxHashMap::default(),
            last_called: vec![LastCalled::default()],
            overflow: false,
        }
    }

    /// Whether a name at the root of a stack stands for missing outer frames, in whyslow's or another tool's
    /// notation.
    pub(crate) fn is_truncation(name: &str) -> bool {
        SpecialFrame::Truncated.is_named(name)
    }

    /// Whether a name is whyslow's placeholder for code without a symbol in this module: `[libfoo.so]`.
    pub(crate) fn is_unnamed(&self, module: ModuleId, name: &str) -> bool {
        let path = self.profile.text(self.profile.modules[module.index()].path);
        let file = path.rsplit('/').next().unwrap_or(path);
        name == path && is_bracketed(path)
            || name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) == Some(file)
    }

    /// Adds a note, once: what the format could not hold or what was left out.
    pub(crate) fn note(&mut self, note: ImportNote) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Notes how many samples were left out and why. Does nothing for 0.
    pub(crate) fn leave_out(&mut self, samples: u64, which: LeftOutSamples) {
        if samples > 0 {
            self.left_out += samples;
            self.note(ImportNote::SamplesLeftOut { samples, which });
        }
    }

    /// The id of a text.
    pub(crate) fn text(&mut self, text: &str) -> StringId {
        let text = shortened(text);
        if let Some(&id) = self.texts.get(text) {
            return id;
        }
        let strings = &mut self.profile.strings;
        if strings.byte_len() + text.len() > MOST_TEXT || strings.len() >= MOST_ROWS {
            self.overflow = true;
            return StringId(0);
        }
        let id = strings.push(text);
        self.texts.insert(text.into(), id);
        id
    }

    /// Adds a process.
    pub(crate) fn process(&mut self, pid: u32, name: &str) -> ProcessId {
        let name = self.text(name);
        self.profile.processes.push(Process { pid, parent: None, name, start_ns: 0, end_ns: None });
        ProcessId::from(self.profile.processes.len() - 1)
    }

    /// Adds a thread.
    pub(crate) fn thread(&mut self, process: ProcessId, tid: u32, name: &str) -> ThreadId {
        let name = self.text(name);
        self.profile.threads.push(Thread { process, tid, name, start_ns: 0, end_ns: None, times: None });
        ThreadId::from(self.profile.threads.len() - 1)
    }

    /// Adds a module.
    pub(crate) fn module(&mut self, path: &str, build_id: Option<&str>, kind: ModuleKind) -> ModuleId {
        let path = self.text(path);
        let build_id = build_id.filter(|id| !id.is_empty()).map(|id| self.text(id));
        let (symbols, optimised) = (SymbolState::NotLoaded, Optimised::Unknown);
        self.profile.modules.push(Module { path, build_id, kind, symbols, optimised });
        ModuleId::from(self.profile.modules.len() - 1)
    }

    /// The module with this path, added if it is new. Its names are already in the frames.
    pub(crate) fn module_once(&mut self, path: &str) -> ModuleId {
        if let Some(&known) = self.modules.get(path) {
            return known;
        }
        let file = path.rsplit('/').next().unwrap_or(path);
        let is_library = file.ends_with(".so") || file.contains(".so.");
        let module =
            self.module(path, None, if is_library { ModuleKind::Library } else { ModuleKind::Program });
        self.profile.modules[module.index()].symbols = SymbolState::Lines;
        self.modules.insert(path.into(), module);
        module
    }

    /// The id of a function.
    pub(crate) fn function(&mut self, text: &FunctionText<'_>) -> FunctionId {
        let raw_name = self.text(text.name);
        let file = text.file.filter(|file| !file.is_empty()).map(|file| self.text(file));
        let key = (raw_name, file, text.line, text.module);
        if let Some(&id) = self.functions.get(&key) {
            return id;
        }
        let module = text.module.and_then(|id| self.profile.modules.get(id.index()));
        let (module_kind, module_path) =
            module.map_or_else(Default::default, |module| (module.kind, self.profile.text(module.path)));
        let named = describe(&Given { name: text.name, file: text.file, module_kind, module_path });
        let function = Function {
            name: self.text(&named.name),
            raw_name,
            crate_name: named.crate_name.map(|name| self.text(&name)),
            kind: named.kind,
            file,
            line: text.line,
            module: text.module,
        };
        self.profile.functions.push(function);
        let id = FunctionId::from(self.profile.functions.len() - 1);
        self.functions.insert(key, id);
        id
    }

    /// The id of a code location with its frames, outermost first. Without a module, an unknown address is 0.
    pub(crate) fn location(
        &mut self,
        module: Option<ModuleId>,
        address: u64,
        frames: &[Frame],
    ) -> LocationId {
        let address = RelativeAddress(address);
        let key = |frame: &Frame| (frame.function, frame.file, frame.line);
        if let [frame] = frames {
            let plain = (module, address, key(frame));
            if let Some(&id) = self.plain_locations.get(&plain) {
                return id;
            }
            let id = self.new_location(module, address, frames);
            self.plain_locations.insert(plain, id);
            return id;
        }
        let several: LocationKey = (module, address, frames.iter().map(key).collect());
        if let Some(&id) = self.locations.get(&several) {
            return id;
        }
        let id = self.new_location(module, address, frames);
        self.locations.insert(several, id);
        id
    }

    fn new_location(
        &mut self,
        module: Option<ModuleId>,
        address: RelativeAddress,
        frames: &[Frame],
    ) -> LocationId {
        if self.profile.locations.len() >= MOST_ROWS || self.profile.frames.len() + frames.len() >= MOST_ROWS
        {
            self.overflow = true;
            return LocationId::TRUNCATED;
        }
        let id = self.profile.locations.push(module, address);
        if !frames.is_empty() {
            self.profile.frames.set(id, frames);
        }
        id
    }

    /// The id of a stack: this location, called from `parent`.
    pub(crate) fn stack(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        let row = parent.map_or(0, |parent| parent.index() + 1);
        let last = self.last_called[row];
        let key = |location: LocationId| (parent.map_or(u32::MAX, |parent| parent.0), location);
        let known = match last.stack() {
            Some(before) => {
                let other = self.profile.stacks.location(before);
                if other == location {
                    return before;
                }
                if !last.several() {
                    self.stacks.insert(key(other), before);
                }
                self.stacks.get(&key(location)).copied()
            }
            None => None,
        };
        if known.is_none() && self.profile.stacks.len() >= MOST_STACKS {
            self.overflow = true;
            return StackId(0);
        }
        let several = last.stack().is_some();
        let id = known.unwrap_or_else(|| {
            let id = self.profile.stacks.push(parent, location);
            self.last_called.push(LastCalled::default());
            if several {
                self.stacks.insert(key(location), id);
            }
            id
        });
        self.last_called[row] = LastCalled::new(id, several);
        id
    }

    /// Adds a metric.
    pub(crate) fn metric(&mut self, metric: Metric<&str>) -> MetricId {
        let name = self.text(metric.name);
        self.profile.metrics.push(metric.renamed(name));
        self.profile.samples.push(Samples::default());
        MetricId::from(self.profile.metrics.len() - 1)
    }

    /// Adds a sample.
    pub(crate) fn sample(
        &mut self,
        metric: MetricId,
        time_ns: u64,
        thread: ThreadId,
        stack: StackId,
        value: u64,
    ) {
        self.profile.samples[metric.index()].push(time_ns, thread, stack, value);
    }

    /// Adds a span.
    pub(crate) fn span(&mut self, span: Span) {
        self.profile.spans.push(span);
    }

    /// Adds a counter.
    pub(crate) fn counter(&mut self, name: &str, unit: Unit, process: Option<ProcessId>) -> CounterId {
        let name = self.text(name);
        self.profile.counters.push(Counter { name, unit, process });
        CounterId::from(self.profile.counters.len() - 1)
    }

    /// Adds a value of a counter.
    pub(crate) fn counter_value(&mut self, counter: CounterId, time_ns: u64, value: i64) {
        self.profile.counter_values.push(counter, time_ns, value);
    }

    /// The finished profile with samples in order of time. If no duration was set, it covers everything in
    /// the profile.
    pub(crate) fn finish(mut self) -> Result<Imported, ImportError> {
        if self.overflow {
            return Err(ImportError::TooLarge {
                what: "more texts or stacks than a profile can hold".to_owned(),
            });
        }
        let profile = &mut self.profile;
        if profile.metrics.len() > MOST_METRICS {
            return Err(ImportError::TooLarge { what: format!("more than {MOST_METRICS} metrics") });
        }
        check_sums(profile)?;
        leave_out_recursion(profile);
        profile.samples.iter_mut().for_each(sort_by_time);
        show_samples_first(profile);
        if profile.meta.duration_ns == 0 {
            let samples = profile.samples.iter().filter_map(|samples| samples.time_ns.last());
            let spans = profile.spans.iter().map(|span| &span.end_ns);
            let counters = profile.counter_values.time_ns.iter();
            profile.meta.duration_ns = samples.chain(spans).chain(counters).copied().max().unwrap_or(0);
        }
        profile.meta.notes = self.notes.into_iter().map(Note::from).collect();
        Ok(Imported { profile: self.profile, left_out: self.left_out })
    }
}

/// Moves a metric with samples to the front: the first metric is the default.
fn show_samples_first(profile: &mut Profile) {
    if let Some(first) = profile.samples.iter().position(|samples| !samples.is_empty()) {
        profile.samples[..=first].rotate_right(1);
        profile.metrics[..=first].rotate_right(1);
    }
}

/// Removes metrics without samples, but keeps at least one.
pub(crate) fn drop_empty_metrics(profile: &mut Profile) {
    let metrics = std::mem::take(&mut profile.metrics);
    let samples = std::mem::take(&mut profile.samples);
    let mut rows: Vec<_> = metrics.into_iter().zip(samples).collect();
    if rows.iter().any(|(_, samples)| !samples.is_empty()) {
        rows.retain(|(_, samples)| !samples.is_empty());
    } else {
        rows.truncate(1);
    }
    (profile.metrics, profile.samples) = rows.into_iter().unzip();
}

/// Rejects values whose sum does not fit: every view adds them up.
pub(crate) fn check_sums(profile: &Profile) -> Result<(), ImportError> {
    let fits = |samples: &Samples| samples.value.iter().try_fold(0u64, |sum, value| sum.checked_add(*value));
    if profile.samples.iter().any(|samples| fits(samples).is_none()) {
        let what = "the sum of its values does not fit into 64 bits".to_owned();
        return Err(ImportError::TooLarge { what });
    }
    Ok(())
}

/// The text, truncated to what a profile can store.
fn shortened(text: &str) -> &str {
    if text.len() <= LONGEST_TEXT {
        return text;
    }
    let end = (LONGEST_TEXT - 3..=LONGEST_TEXT).rev().find(|&at| text.is_char_boundary(at));
    &text[..end.unwrap_or(0)]
}

fn sort_by_time(samples: &mut Samples) {
    if samples.time_ns.is_sorted() {
        return;
    }
    let mut order: Vec<u32> = (0..samples.len() as u32).collect();
    order.sort_by_key(|&row| samples.time_ns[row as usize]);
    let mut sorted = Samples::default();
    for row in order.into_iter().map(|row| row as usize) {
        sorted.push(samples.time_ns[row], samples.thread[row], samples.stack[row], samples.value[row]);
    }
    *samples = sorted;
}
