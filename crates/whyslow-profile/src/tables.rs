//! The tables of a profile. Large ones are structs of columns, small ones vectors of rows.

use crate::ids::{
    CounterId, FunctionId, LocationId, ModuleId, ProcessId, RelativeAddress, StackId, StringId, ThreadId,
};
use crate::special::ModuleKind;

/// A process that ran during the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The operating system's number.
    pub pid: u32,
    /// The process that forked it, if that was recorded too.
    pub parent: Option<ProcessId>,
    /// Its command name.
    pub name: StringId,
    /// Start, in nanoseconds since the recording began.
    pub start_ns: u64,
    /// End, if recorded.
    pub end_ns: Option<u64>,
}

/// A thread of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub process: ProcessId,
    /// The operating system's number.
    pub tid: u32,
    /// Its name.
    pub name: StringId,
    /// Start, in nanoseconds since the recording began.
    pub start_ns: u64,
    /// End, if recorded.
    pub end_ns: Option<u64>,
    /// How it spent the time between, if recorded.
    pub times: Option<ThreadTimes>,
}

/// The times that a thread spent running, queued and blocked. Together they are the time that it was
/// observed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Nanoseconds on a CPU.
    pub ran_ns: u64,
    /// Nanoseconds queued for a CPU.
    pub queued_ns: u64,
    /// The estimated part of `queued_ns`: the time between a wakeup and running where no record shows the
    /// wakeup, from the kernel's own account of the thread. It is read from time to time, so some of it may
    /// be missing.
    pub queued_estimated_ns: u64,
    /// Nanoseconds blocked. Includes the time between a wakeup and running if neither the wakeup nor the
    /// kernel's account is known.
    pub blocked_ns: u64,
    /// How often it blocked.
    pub waits: u64,
    /// How often it was preempted.
    pub preemptions: u64,
}

coded_enum! {
    /// The symbols that a module has.
    SymbolState {
        /// Not looked up yet.
        #[default] NotLoaded = 0 / "not-loaded",
        /// The file was not found or could not be read.
        Missing = 1 / "missing",
        /// Only names meant for the dynamic linker.
        Stripped = 2 / "stripped",
        /// A symbol table, but no line numbers or inlined functions.
        Names = 3 / "names",
        /// Debug info with lines.
        Lines = 4 / "lines",
        /// The file was deleted or replaced before it could be read.
        Replaced = 5 / "replaced",
    }
}

coded_enum! {
    /// Whether a module was compiled with optimisation.
    Optimised {
        /// Not known.
        #[default] Unknown = 0 / "unknown",
        /// Yes.
        Yes = 1 / "yes",
        /// No: a debug build.
        No = 2 / "no",
    }
}

coded_enum! {
    /// Who wrote a function. Determines its colour, grouping and blame.
    CodeKind {
        /// Not known.
        #[default] Unknown = 0 / "unknown",
        /// Written by the user: their crates, their C files.
        Yours = 1 / "yours",
        /// A library the user chose.
        Dependency = 2 / "dependency",
        /// The language's standard library.
        Std = 3 / "std",
        /// Memory management.
        Allocator = 4 / "allocator",
        /// The kernel.
        Kernel = 5 / "kernel",
        /// Code that starts and carries programs: libc, the loader, start-up code, JIT helpers.
        Runtime = 6 / "runtime",
    }
}

coded_enum! {
    /// The unit of a metric's values.
    Unit {
        /// Events.
        #[default] Count = 0 / "count",
        /// Nanoseconds.
        Nanoseconds = 1 / "ns",
        /// Bytes.
        Bytes = 2 / "bytes",
    }
}

/// A source of code: an ELF file, the kernel, the vDSO, JIT output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Module {
    /// Its path as the program saw it, or a name in brackets.
    pub path: StringId,
    /// GNU build id in hexadecimal.
    pub build_id: Option<StringId>,
    /// What it is.
    pub kind: ModuleKind,
    /// Its symbols.
    pub symbols: SymbolState,
    /// Whether it was compiled with optimisation.
    pub optimised: Optimised,
}

/// Addresses on stacks. Row 0 is always [`LocationId::TRUNCATED`].
///
/// An address is that of the running instruction (for the innermost frame) or lies inside the call
/// instruction (one byte before the return address).
#[derive(Debug, Clone, PartialEq)]
pub struct Locations {
    /// The module; `None` for an address in no known module, and for imported frames, which have only a name.
    pub module: Vec<Option<ModuleId>>,
    /// The offset in the module, or the raw address without a module.
    pub address: Vec<RelativeAddress>,
}

impl Default for Locations {
    fn default() -> Self {
        Self { module: vec![None], address: vec![RelativeAddress(0)] }
    }
}

impl Locations {
    /// Adds a row.
    pub fn push(&mut self, module: Option<ModuleId>, address: RelativeAddress) -> LocationId {
        let id = LocationId::from(self.module.len());
        self.module.push(module);
        self.address.push(address);
        id
    }

    /// The number of rows, including the placeholder.
    pub fn len(&self) -> usize {
        self.module.len()
    }

    /// Never true: the placeholder always exists.
    pub fn is_empty(&self) -> bool {
        self.module.is_empty()
    }
}

/// A named function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name to show: demangled, without hashes.
    pub name: StringId,
    /// The name as the linker knows it.
    pub raw_name: StringId,
    /// The crate (or C library) it belongs to.
    pub crate_name: Option<StringId>,
    /// Who wrote it.
    pub kind: CodeKind,
    /// The file it is defined in.
    pub file: Option<StringId>,
    /// The line of its definition; 0 if unknown.
    pub line: u32,
    /// The module that contains its code.
    pub module: Option<ModuleId>,
}

/// One meaning of a location: this function, at this line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The function.
    pub function: FunctionId,
    /// The file of the line, which can differ from the function's.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
}

/// The frames of each location, outermost first: the first is the function that owns the code, each later one
/// was inlined into the one before.
#[derive(Debug, Default, Clone)]
pub struct Frames {
    ranges: Vec<(u32, u32)>,
    rows: Vec<Frame>,
}

impl Frames {
    /// Sets the frames of a location, outermost first.
    pub fn set(&mut self, location: LocationId, frames: &[Frame]) {
        if self.ranges.len() <= location.index() {
            self.ranges.resize(location.index() + 1, (0, 0));
        }
        let start = self.rows.len() as u32;
        self.rows.extend_from_slice(frames);
        self.ranges[location.index()] = (start, start + frames.len() as u32);
    }

    /// The frames of a location, outermost first; empty if nothing is known about it.
    #[inline]
    pub fn of(&self, location: LocationId) -> &[Frame] {
        match self.ranges.get(location.index()) {
            Some(&(start, end)) => &self.rows[start as usize..end as usize],
            None => &[],
        }
    }

    /// The number of rows over all locations.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// True if no location has frames yet.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Equal if every location has the same frames, in whatever order they were set.
impl PartialEq for Frames {
    fn eq(&self, other: &Self) -> bool {
        let locations = self.ranges.len().max(other.ranges.len());
        (0..locations).map(LocationId::from).all(|location| self.of(location) == other.of(location))
    }
}

/// The prefix tree of stacks. A parent's row always comes before its children's.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Stacks {
    parent: Vec<u32>,
    location: Vec<LocationId>,
}

const NO_PARENT: u32 = u32::MAX;

impl Stacks {
    /// Adds a node.
    ///
    /// # Panics
    /// If the parent does not exist yet: trees are built from the root.
    pub fn push(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        let id = StackId::from(self.parent.len());
        assert!(parent.is_none_or(|parent| parent < id), "a stack's parent comes first");
        self.parent.push(parent.map_or(NO_PARENT, |parent| parent.0));
        self.location.push(location);
        id
    }

    /// The caller's stack; `None` at the root.
    #[inline]
    pub fn parent(&self, stack: StackId) -> Option<StackId> {
        let parent = self.parent[stack.index()];
        (parent != NO_PARENT).then_some(StackId(parent))
    }

    /// The location of the innermost frame of this stack.
    #[inline]
    pub fn location(&self, stack: StackId) -> LocationId {
        self.location[stack.index()]
    }

    /// This node, its caller, and so on to the root.
    pub fn towards_root(&self, stack: StackId) -> impl Iterator<Item = StackId> + '_ {
        std::iter::successors(Some(stack), |&node| self.parent(node))
    }

    /// The number of nodes.
    pub fn len(&self) -> usize {
        self.parent.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.parent.is_empty()
    }
}

/// The samples of one metric, in time order within each flush of the recorder.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Samples {
    /// Nanoseconds since the recording began.
    pub time_ns: Vec<u64>,
    /// The thread that was running.
    pub thread: Vec<ThreadId>,
    /// Its stack.
    pub stack: Vec<StackId>,
    /// The weight of the sample, in the metric's unit.
    pub value: Vec<u64>,
}

impl Samples {
    /// Adds a row.
    pub fn push(&mut self, time_ns: u64, thread: ThreadId, stack: StackId, value: u64) {
        self.time_ns.push(time_ns);
        self.thread.push(thread);
        self.stack.push(stack);
        self.value.push(value);
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.time_ns.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.time_ns.is_empty()
    }

    /// Multiplies every value.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.value.iter_mut().for_each(|value| *value = (*value as f64 * factor).round() as u64);
    }

    /// Removes all rows, keeping the memory.
    pub fn clear(&mut self) {
        self.time_ns.clear();
        self.thread.clear();
        self.stack.clear();
        self.value.clear();
    }
}

coded_enum! {
    /// What ended a wait.
    WokenBy {
        /// Not known.
        #[default] Unknown = 0 / "unknown",
        /// A recorded thread.
        Thread = 1 / "thread",
        /// Another program.
        OtherProgram = 2 / "another-program",
        /// A timer or a device.
        Interrupt = 3 / "interrupt",
    }
}

/// A named static variable of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Static {
    /// The module.
    pub module: ModuleId,
    /// Its first byte.
    pub start: RelativeAddress,
    /// Its size in bytes.
    pub len: u64,
    /// Its name, demangled.
    pub name: StringId,
}

/// Details of individual waits, in addition to their samples of off-CPU time.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct WaitDetails {
    /// The thread that waited.
    pub thread: Vec<ThreadId>,
    /// The time of the wait's row, which is its end.
    pub end_ns: Vec<u64>,
    /// The CPU that the thread left.
    pub cpu: Vec<Option<u32>>,
    /// The first argument of the system call that it waited in: the address of a futex, the number of a
    /// descriptor. 0 if unknown.
    pub argument: Vec<u64>,
    /// The address of the lock that it waited for, if its futex belongs to the thread, as in parking_lot. 0 if
    /// not, or unknown.
    pub parked_on: Vec<u64>,
    /// Where the lock, or else the argument, is in a module's data, if it is.
    pub data: Vec<Option<(ModuleId, RelativeAddress)>>,
    /// What ended it.
    pub woken_by: Vec<WokenBy>,
    /// The thread that ended it, if it was recorded.
    pub waker: Vec<Option<ThreadId>>,
    /// The stack of that thread.
    pub waker_stack: Vec<Option<StackId>>,
}

/// One row of [`WaitDetails`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitDetail {
    /// The thread that waited.
    pub thread: ThreadId,
    /// The time of the wait's row, which is its end.
    pub end_ns: u64,
    /// The CPU that the thread left.
    pub cpu: Option<u32>,
    /// The first argument of the system call that it waited in; 0 if unknown.
    pub argument: u64,
    /// The address of the lock that it waited for, if its futex belongs to the thread; else 0.
    pub parked_on: u64,
    /// Where the lock, or else the argument, is in a module's data, if it is.
    pub data: Option<(ModuleId, RelativeAddress)>,
    /// What ended it.
    pub woken_by: WokenBy,
    /// The thread that ended it, if it was recorded.
    pub waker: Option<ThreadId>,
    /// The stack of that thread.
    pub waker_stack: Option<StackId>,
}

impl WaitDetails {
    /// Adds a row.
    pub fn push(&mut self, row: WaitDetail) {
        self.thread.push(row.thread);
        self.end_ns.push(row.end_ns);
        self.cpu.push(row.cpu);
        self.argument.push(row.argument);
        self.parked_on.push(row.parked_on);
        self.data.push(row.data);
        self.woken_by.push(row.woken_by);
        self.waker.push(row.waker);
        self.waker_stack.push(row.waker_stack);
    }

    /// A row.
    pub fn row(&self, at: usize) -> WaitDetail {
        WaitDetail {
            thread: self.thread[at],
            end_ns: self.end_ns[at],
            cpu: self.cpu[at],
            argument: self.argument[at],
            parked_on: self.parked_on[at],
            data: self.data[at],
            woken_by: self.woken_by[at],
            waker: self.waker[at],
            waker_stack: self.waker_stack[at],
        }
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = WaitDetail> + '_ {
        (0..self.len()).map(|at| self.row(at))
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.thread.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.thread.is_empty()
    }

    /// Removes all rows, keeping the memory.
    pub fn clear(&mut self) {
        self.thread.clear();
        self.end_ns.clear();
        self.cpu.clear();
        self.argument.clear();
        self.parked_on.clear();
        self.data.clear();
        self.woken_by.clear();
        self.waker.clear();
        self.waker_stack.clear();
    }
}

/// A named time span, marked by the program itself or by the trace it was imported from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Its name; spans of one name belong together.
    pub name: StringId,
    /// The thread it was on; `None` for the whole program.
    pub thread: Option<ThreadId>,
    /// Start, in nanoseconds since the recording began.
    pub start_ns: u64,
    /// End; equal to the start for a moment.
    pub end_ns: u64,
    /// The program's description of it.
    pub detail: Option<StringId>,
}

/// A series of numbers over time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// Its name.
    pub name: StringId,
    /// The unit of its values.
    pub unit: Unit,
    /// The process it belongs to; `None` for the whole machine.
    pub process: Option<ProcessId>,
}

/// The values of all counters.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct CounterValues {
    /// Which counter.
    pub counter: Vec<CounterId>,
    /// Nanoseconds since the recording began.
    pub time_ns: Vec<u64>,
    /// The value from this time on.
    pub value: Vec<i64>,
}

impl CounterValues {
    /// Adds a row.
    pub fn push(&mut self, counter: CounterId, time_ns: u64, value: i64) {
        self.counter.push(counter);
        self.time_ns.push(time_ns);
        self.value.push(value);
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.counter.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.counter.is_empty()
    }

    /// Removes all rows, keeping the memory.
    pub fn clear(&mut self) {
        self.counter.clear();
        self.time_ns.clear();
        self.value.clear();
    }
}

/// One line of source text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceLine {
    /// The file, as frames name it.
    pub file: StringId,
    /// The line number, from 1.
    pub line: u32,
    /// The text without its line end.
    pub text: StringId,
}

/// Source lines around hot code, sorted by file and line.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct SourceLines {
    /// The lines.
    pub rows: Vec<SourceLine>,
}

impl SourceLines {
    /// The text of one line, if it was kept. Rows are sorted, so this is a binary search.
    pub fn get(&self, file: StringId, line: u32) -> Option<StringId> {
        let at = self.rows.binary_search_by_key(&(file, line), |row| (row.file, row.line)).ok()?;
        Some(self.rows[at].text)
    }
}

/// The machine code of one function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Code {
    /// Its module.
    pub module: ModuleId,
    /// Its first address.
    pub start: RelativeAddress,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The target of a call or jump in stored code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BranchTarget {
    /// The module of the code, which is also that of the address.
    pub module: ModuleId,
    /// The function's first byte, or the slot in memory that holds its address when the program runs.
    pub address: RelativeAddress,
    /// Whether the address is that of a slot; then the function can be in another module.
    pub is_slot: bool,
    /// The function's name, demangled.
    pub name: StringId,
    /// Bytes of its code; 0 if unknown.
    pub size: u64,
}

/// Machine code of hot functions.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Codes {
    /// One row per function.
    pub rows: Vec<Code>,
}
