//! Turns inputs into rows: hands each input to the parts that it is about. Each part owns its state:
//!
//! ```text
//! tasks     processes and threads, and their rows
//! mappings  the code of processes
//! stacks    stacks of threads, from which later ones are completed
//! accounts  CPU time, and what of it has no sample
//! waits     time off CPUs
//! calls     system calls and descriptors
//! heap      rows of heap batches
//! ```

mod accounts;
mod calls;
mod dispatch;
mod heap;
mod lives;
mod mappings;
mod parked;
mod setup;
mod stacks;
mod tables;
mod tasks;
mod waits;

use whyslow_elf::FileBytes;
use whyslow_numbers::{ClockNs, ProfileNs, RunTimeAddress, Start};
use whyslow_profile::{Builder, Counters, MetricId, ModuleId};

use self::accounts::Accounts;
use self::calls::Calls;
use self::heap::HeapRows;
use self::mappings::Mappings;
use self::stacks::Stacks;
use self::tables::Tables;
use self::tasks::Tasks;
use self::waits::Waits;
use crate::input::Task;
use crate::world::{TaskRows, World};

pub use self::mappings::Limits;
pub use self::setup::{AccountSetup, HeapMetrics, Setup, WaitSetup, WaitStackSource};
pub use self::waits::WaitStacks;

/// Turns the inputs of sources into rows of a profile's tables.
#[derive(Debug)]
pub struct Converter<W> {
    /// Answers all questions about the outside.
    world: W,
    tables: Tables,
    tasks: Tasks,
    mappings: Mappings,
    stacks: Stacks,
    accounts: Accounts,
    /// Set if context switches are recorded.
    waits: Option<Waits>,
    /// Set if system calls are recorded.
    calls: Option<Calls>,
    /// Set if the heap is recorded.
    heap: Option<HeapRows>,
    /// Samples, switches, wakeups and system calls before this time are left out.
    taken_from_ns: ClockNs,
    /// Samples of the idle loop, which are dropped.
    idle_samples: u64,
}

/// What is left of a conversion.
#[derive(Debug)]
pub struct Converted<W> {
    /// The outside.
    pub world: W,
    /// The rows that are not written yet.
    pub rows: Builder,
}

impl<W: World> Converter<W> {
    /// Creates a converter that adds rows to these.
    pub fn new(world: W, rows: Builder, setup: &Setup) -> Self {
        let Setup { start, kernel_base, processor, limits, accounts, switches, waits, calls, heap } = *setup;
        Self {
            world,
            tables: Tables { builder: rows, counters: Counters::default(), start },
            tasks: Tasks::default(),
            mappings: Mappings::new(processor, kernel_base, limits),
            stacks: Stacks::default(),
            accounts: Accounts::new(accounts),
            waits: (switches || waits.is_some()).then(|| Waits::new(waits)),
            calls: calls.map(|metrics| Calls::new(processor, metrics)),
            heap: heap.map(HeapRows::new),
            taken_from_ns: ClockNs::MIN,
            idle_samples: 0,
        }
    }

    /// The outside.
    pub fn world(&self) -> &W {
        &self.world
    }

    /// The outside, for a source that learns more about it.
    pub fn world_mut(&mut self) -> &mut W {
        &mut self.world
    }

    /// The rows that are not written yet.
    pub fn rows(&self) -> &Builder {
        &self.tables.builder
    }

    /// The same, for whoever writes them, or adds rows that are about no task.
    pub fn rows_mut(&mut self) -> &mut Builder {
        &mut self.tables.builder
    }

    /// Adds rows that need the current rows of thread numbers and the world.
    pub fn add_rows<T>(&mut self, add: impl FnOnce(&mut W, &mut Builder, TaskRows<'_>) -> T) -> T {
        let Self { world, tables, tasks, .. } = self;
        add(world, &mut tables.builder, &|tid| tasks.rows_of(tid))
    }

    /// The outside and the rest of the rows, at the end.
    pub fn finish(self) -> Converted<W> {
        Converted { world: self.world, rows: self.tables.builder }
    }

    /// Counts kept during conversion.
    pub fn counters(&self) -> &Counters {
        &self.tables.counters
    }

    /// Samples of the idle loop, which are dropped.
    pub fn idle_samples(&self) -> u64 {
        self.idle_samples
    }

    /// Samples of events without stacks, which have only an address.
    pub fn without_stack(&self) -> u64 {
        self.stacks.addresses()
    }

    /// Time 0 of the profile.
    pub fn start(&self) -> Start {
        self.tables.start
    }

    /// The sum of all sample values of a metric.
    pub fn total(&self, metric: MetricId) -> u64 {
        self.accounts.total(metric)
    }

    /// Sets the nanoseconds per cycle, if samples of a metric are cycles: `seen_ns` is the CPU time that they
    /// stand for.
    pub fn set_cycle_worth(&mut self, metric: MetricId, seen_ns: u64) {
        let total = self.total(metric);
        if seen_ns > 0 && total > 0 {
            self.tables.builder.cycle_worth(metric, seen_ns as f64 / total as f64);
        }
    }

    /// Whether a live stack had to be read in this round.
    pub fn has_read_live(&self) -> bool {
        self.stacks.has_read()
    }

    /// How many waits have a stack, of their own or of another wait.
    pub fn wait_stacks(&self) -> WaitStacks {
        self.waits.as_ref().map(Waits::stacks).unwrap_or_default()
    }

    /// The number of waits that may be too long because records were lost during them, and their total
    /// length.
    pub fn doubtful_waits(&self) -> (u64, u64) {
        self.waits.as_ref().map(Waits::doubtful).unwrap_or_default()
    }

    /// The number of calls whose exit is missing because records were lost.
    pub fn unpaired_calls(&self) -> u64 {
        self.calls.as_ref().map_or(0, Calls::unpaired)
    }

    /// At most this many threads that need a snapshot. They take turns.
    pub fn threads_to_snapshot(&mut self, most: usize, now: ClockNs) -> Vec<Task> {
        self.waits.as_mut().map(|waits| waits.candidates(most, now)).unwrap_or_default()
    }

    /// Threads with waits since the last reading of their run-queue delay, those that need it longest first.
    pub fn threads_to_read(&mut self, most: usize) -> Vec<Task> {
        self.waits.as_mut().map(|waits| waits.threads_to_read(most)).unwrap_or_default()
    }

    /// When a thread started.
    pub fn thread_start_ns(&self, tid: u32) -> Option<ClockNs> {
        let thread = self.tasks.thread(tid)?;
        Some(self.start().clock(ProfileNs(self.tables.builder.thread_row(thread.id).start_ns)))
    }

    /// The threads that have not exited, by number.
    pub fn living(&self) -> Vec<Task> {
        self.tasks.living(&self.tables).into_iter().map(|thread| thread.task).collect()
    }

    /// The processes without an exit record: numbers and names.
    pub fn not_ended(&self) -> Vec<(u32, String)> {
        self.tasks.not_ended(&self.tables)
    }

    /// The processes with a recorded heap that have not exited: numbers and names.
    pub fn heap_processes(&self) -> Vec<(u32, String)> {
        self.heap.as_ref().map(|heap| heap.living(&self.tables)).unwrap_or_default()
    }

    /// Whether a process has known code at an address.
    pub fn has_code(&self, pid: u32, address: RunTimeAddress) -> bool {
        self.mappings.space(pid).is_some_and(|space| space.find(address).is_some())
    }

    /// The files of the modules, which may be deleted by now.
    pub fn files(&self) -> Vec<(ModuleId, FileBytes)> {
        self.mappings.files()
    }
}
