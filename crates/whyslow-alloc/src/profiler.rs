//! Profiles a whole program: every allocation of every thread, or every event, from start to end.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::ad_hoc::AdHoc;
use crate::recorded::{Counted, Recorded, SeenThread, Settings};
use crate::scope::prepare_stacks;
use crate::tally::{At, Tally};
use crate::watch::{Busy, Thread, Watch};
use crate::{fork, stack, sys};

/// What a profiler counts.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, in a box")]
enum Counts {
    Heap(Tally),
    Events(AdHoc),
}

/// The state of a running profiler.
#[derive(Debug)]
pub(crate) struct State {
    run: u32,
    start: Instant,
    started_unix_ns: u64,
    settings: Settings,
    threads: Vec<SeenThread>,
    counts: Counts,
}

/// Whether a profiler is running.
#[derive(Debug)]
pub(crate) enum Phase {
    /// None is running.
    Ready,
    Running(Box<State>),
    /// The profiler of this run has ended because an assertion failed, and is not dropped yet.
    Asserted(u32),
}

static PHASE: Mutex<Phase> = Mutex::new(Phase::Ready);
static COUNTS_HEAP: AtomicBool = AtomicBool::new(false);
static COUNTS_EVENTS: AtomicBool = AtomicBool::new(false);
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Why a request to the profiler failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unfit {
    NoneRuns,
    CountsEvents,
    CountsHeap,
    NotTesting,
    Asserted,
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoneRuns => "no profiler is running: keep the value of Profiler::new_heap() in a variable",
            Self::CountsEvents => "the profiler counts events, not the heap: start it with Profiler::new_heap()",
            Self::CountsHeap => "the profiler counts the heap, not events: start it with Profiler::new_ad_hoc()",
            Self::NotTesting => {
                "assertions need a profiler in testing mode: start it with Profiler::builder().testing().build()"
            }
            Self::Asserted => "the profiler has ended because an assertion failed",
        })
    }
}

/// Whether a heap profiler is running.
#[inline]
pub(crate) fn is_running() -> bool {
    COUNTS_HEAP.load(Ordering::Relaxed)
}

/// Whether an event profiler is running.
#[inline]
pub(crate) fn counts_events() -> bool {
    COUNTS_EVENTS.load(Ordering::Relaxed)
}

/// The caller must be `Busy`, so that its own allocations do not come back here.
pub(crate) fn lock() -> MutexGuard<'static, Phase> {
    PHASE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drops the profiler in a process that did not start it.
pub(crate) fn forget(phase: &mut Phase) {
    replace(phase, Phase::Ready);
}

/// Changes the phase, and the copy that is read without the lock.
fn replace(phase: &mut Phase, next: Phase) -> Phase {
    let counts = match &next {
        Phase::Running(state) => Some(&state.counts),
        Phase::Ready | Phase::Asserted(_) => None,
    };
    COUNTS_HEAP.store(matches!(counts, Some(Counts::Heap(_))), Ordering::Relaxed);
    COUNTS_EVENTS.store(matches!(counts, Some(Counts::Events(_))), Ordering::Relaxed);
    std::mem::replace(phase, next)
}

/// Passes a thread's heap event to the profiler.
pub(crate) fn record<R>(thread: &Thread, work: impl FnOnce(&mut Tally, At) -> R) -> Option<R> {
    let mut phase = lock();
    let Phase::Running(state) = &mut *phase else { return None };
    let at = state.at(thread);
    let Counts::Heap(tally) = &mut state.counts else { return None };
    Some(work(tally, at))
}

/// Passes a thread's own event to the profiler.
pub(crate) fn record_event(thread: &Thread, work: impl FnOnce(&mut AdHoc, u32)) {
    let mut phase = lock();
    let Phase::Running(state) = &mut *phase else { return };
    let at = state.at(thread);
    if let Counts::Events(events) = &mut state.counts {
        work(events, at.thread);
    }
}

impl State {
    fn elapsed_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// The current time and thread.
    fn at(&mut self, thread: &Thread) -> At {
        let time_ns = self.elapsed_ns();
        let (run, mut row) = thread.row.get();
        if run != self.run {
            row = self.threads.len() as u32;
            thread.row.set((self.run, row));
            let (tid, name) = (sys::thread_id(), sys::thread_name());
            self.threads.push(SeenThread { tid, name, start_ns: time_ns });
        }
        At { thread: row, time_ns }
    }

    pub(crate) fn is_testing(&self) -> bool {
        self.settings.testing
    }

    pub(crate) fn heap(&self) -> Result<&Tally, Unfit> {
        match &self.counts {
            Counts::Heap(tally) => Ok(tally),
            Counts::Events(_) => Err(Unfit::CountsEvents),
        }
    }

    pub(crate) fn events(&self) -> Result<&AdHoc, Unfit> {
        match &self.counts {
            Counts::Events(events) => Ok(events),
            Counts::Heap(_) => Err(Unfit::CountsHeap),
        }
    }

    fn recorded(&self) -> Recorded {
        let end_ns = self.elapsed_ns();
        Recorded {
            counted: match &self.counts {
                Counts::Heap(tally) => Counted::Heap(tally.outcome(end_ns)),
                Counts::Events(events) => Counted::Events { rows: events.rows(), total: events.total() },
            },
            threads: self.threads.clone(),
            started_unix_ns: self.started_unix_ns,
            end_ns,
            settings: self.settings.clone(),
        }
    }
}

/// Ends the profiler of this run, or any running one, and returns its recording.
fn end(run: Option<u32>) -> Option<Recorded> {
    let mut phase = lock();
    let is_meant = |of: u32| run.is_none_or(|run| run == of);
    let meant = match &*phase {
        Phase::Ready => false,
        Phase::Running(state) => is_meant(state.run),
        Phase::Asserted(of) => is_meant(*of),
    };
    let ended = meant.then(|| replace(&mut phase, Phase::Ready));
    drop(phase);
    match ended {
        Some(Phase::Running(state)) => Some(state.recorded()),
        _ => None,
    }
}

/// Ends the running profiler, but does not let another one start.
pub(crate) fn end_by_assertion() -> Option<Recorded> {
    let mut phase = lock();
    let Phase::Running(state) = &*phase else { return None };
    let run = state.run;
    let ended = replace(&mut phase, Phase::Asserted(run));
    drop(phase);
    match ended {
        Phase::Running(state) => Some(state.recorded()),
        Phase::Ready | Phase::Asserted(_) => None,
    }
}

extern "C" fn program_ends() {
    let _busy = Busy::force();
    if let Some(recorded) = end(None) {
        recorded.finish();
    }
}

/// Records every allocation of the program until it is dropped. Writes a file on drop, or when the program
/// ends by `std::process::exit`.
///
/// The file's extension decides the format. `.whyslow` gives the file that `whyslow heap` writes, for
/// `whyslow report`, `whyslow view` and other commands. Any other name gives DHAT's JSON for its viewer.
///
/// ```no_run
/// #[global_allocator]
/// static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
///
/// fn main() {
///     let _profiler = whyslow_alloc::Profiler::builder().file_name("app.whyslow").build();
///     // the program
/// }
/// ```
#[derive(Debug)]
#[must_use = "a profiler records until it is dropped"]
pub struct Profiler {
    run: u32,
    /// Turns counting of allocations on. Events do not need it.
    watch: Option<Watch>,
}

impl Profiler {
    /// Starts a heap profiler that writes `dhat-heap.json`.
    ///
    /// # Panics
    /// Panics if another profiler is running, or if [`crate::Alloc`] is not the program's global allocator.
    #[track_caller]
    pub fn new_heap() -> Self {
        Self::builder().build()
    }

    /// Starts a profiler that counts the calls of [`ad_hoc_event`](crate::ad_hoc_event) instead of the heap,
    /// and writes `dhat-ad-hoc.json`. It works with any global allocator.
    ///
    /// # Panics
    /// Panics if another profiler is running.
    #[track_caller]
    pub fn new_ad_hoc() -> Self {
        Self::builder().ad_hoc().build()
    }

    /// Returns a builder for other settings.
    pub fn builder() -> ProfilerBuilder {
        ProfilerBuilder {
            settings: Settings {
                file_name: None,
                ad_hoc: false,
                testing: false,
                most_frames: None,
                eprint_json: false,
            },
        }
    }

    /// Writes the recording so far and continues: see [`dump`].
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn dump(&self, path: impl AsRef<Path>) -> io::Result<()> {
        dump(path)
    }

    /// Ends the profiler and returns DHAT's JSON instead of writing a file. The text is empty if the profiler
    /// has already ended. Dropping it then has no effect.
    pub fn drop_and_get_memory_output(&mut self) -> String {
        let _busy = Busy::force();
        self.watch = None;
        end(Some(self.run)).map(|recorded| recorded.finish_in_memory()).unwrap_or_default()
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        let _busy = Busy::force();
        if let Some(recorded) = end(Some(self.run)) {
            recorded.finish();
        }
    }
}

/// Settings of a [`Profiler`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until `build`"]
pub struct ProfilerBuilder {
    settings: Settings,
}

impl ProfilerBuilder {
    /// Sets the file to write at the end.
    pub fn file_name(mut self, name: impl AsRef<Path>) -> Self {
        self.settings.file_name = Some(name.as_ref().to_path_buf());
        self
    }

    /// Counts events instead of the heap: see [`Profiler::new_ad_hoc`].
    pub fn ad_hoc(mut self) -> Self {
        self.settings.ad_hoc = true;
        self
    }

    /// Writes and prints nothing at the end, and enables [`assert!`](crate::assert!) and related macros. For
    /// tests with [`HeapStats`](crate::HeapStats).
    pub fn testing(mut self) -> Self {
        self.settings.testing = true;
        self
    }

    /// Sets the max frames per stack in DHAT's JSON, not counting inlined functions. The default is all
    /// frames. A `.whyslow` file always has all.
    pub fn trim_backtraces(mut self, most: Option<usize>) -> Self {
        self.settings.most_frames = most.map(|most| most.max(1));
        self
    }

    /// Also prints DHAT's JSON to standard error.
    pub fn eprint_json(mut self) -> Self {
        self.settings.eprint_json = true;
        self
    }

    /// Starts the profiler.
    ///
    /// # Panics
    /// Panics if another profiler is running. Also panics if [`crate::Alloc`] is not the program's global
    /// allocator, unless only events are counted.
    #[track_caller]
    pub fn build(self) -> Profiler {
        static AT_EXIT: Once = Once::new();
        let watch = if self.settings.ad_hoc {
            let _busy = Busy::force();
            stack::prepare();
            fork::handle();
            None
        } else {
            prepare_stacks();
            Some(Watch::start())
        };
        let _busy = Busy::force();
        AT_EXIT.call_once(|| sys::at_exit(program_ends));
        let run = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let counts = if self.settings.ad_hoc {
            Counts::Events(AdHoc::default())
        } else {
            Counts::Heap(Tally::new(run))
        };
        let state = State {
            run,
            start: Instant::now(),
            started_unix_ns: since_1970.as_nanos() as u64,
            settings: self.settings,
            threads: Vec::new(),
            counts,
        };
        let mut phase = lock();
        let is_ready = matches!(*phase, Phase::Ready);
        if is_ready {
            replace(&mut phase, Phase::Running(Box::new(state)));
        }
        drop(phase);
        std::assert!(is_ready, "a profiler is already running: drop it before you start another");
        Profiler { run, watch }
    }
}

/// Writes the running profiler's recording so far and continues. It can be called any number of times, from
/// any thread. As with [`Profiler`], the file's extension decides the format.
///
/// # Errors
/// Fails if no profiler is running, or if the file cannot be written.
pub fn dump(path: impl AsRef<Path>) -> io::Result<()> {
    let _busy = Busy::force();
    let recorded = match &*lock() {
        Phase::Running(state) => state.recorded(),
        Phase::Ready => return Err(io::Error::new(io::ErrorKind::NotFound, Unfit::NoneRuns.to_string())),
        Phase::Asserted(_) => {
            return Err(io::Error::new(io::ErrorKind::NotFound, Unfit::Asserted.to_string()));
        }
    };
    recorded.write(path.as_ref())
}
