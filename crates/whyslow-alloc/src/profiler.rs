//! The profiler of a whole program: every allocation of every thread, or every event, from its start to its end.

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

/// What a profiler knows.
#[derive(Debug)]
pub(crate) struct State {
    run: u32,
    start: Instant,
    started_unix_ns: u64,
    settings: Settings,
    threads: Vec<SeenThread>,
    counts: Counts,
}

/// What there is of a profiler.
#[derive(Debug)]
pub(crate) enum Phase {
    /// None runs.
    Ready,
    Running(Box<State>),
    /// The one of this run has ended because an assertion failed, and is not dropped yet.
    Asserted(u32),
}

static PHASE: Mutex<Phase> = Mutex::new(Phase::Ready);
static COUNTS_HEAP: AtomicBool = AtomicBool::new(false);
static COUNTS_EVENTS: AtomicBool = AtomicBool::new(false);
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Why a profiler cannot do what it is asked.
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
            Self::NoneRuns => "no profiler runs: keep the value of Profiler::new_heap()",
            Self::CountsEvents => "the profiler counts events, not the heap: start it with Profiler::new_heap()",
            Self::CountsHeap => "the profiler counts the heap, not events: start it with Profiler::new_ad_hoc()",
            Self::NotTesting => {
                "assertions need a profiler in testing mode: start it with Profiler::builder().testing().build()"
            }
            Self::Asserted => "the profiler has ended, because an assertion failed",
        })
    }
}

/// Whether a profiler of the heap runs.
#[inline]
pub(crate) fn is_running() -> bool {
    COUNTS_HEAP.load(Ordering::Relaxed)
}

/// Whether a profiler of events runs.
#[inline]
pub(crate) fn counts_events() -> bool {
    COUNTS_EVENTS.load(Ordering::Relaxed)
}

/// Whoever calls this must be busy, so that nothing that it allocates comes back here.
pub(crate) fn lock() -> MutexGuard<'static, Phase> {
    PHASE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This process is not the one that the profiler was started in.
pub(crate) fn forget(phase: &mut Phase) {
    replace(phase, Phase::Ready);
}

/// Changes the phase, and what is looked at without the lock.
fn replace(phase: &mut Phase, next: Phase) -> Phase {
    let counts = match &next {
        Phase::Running(state) => Some(&state.counts),
        Phase::Ready | Phase::Asserted(_) => None,
    };
    COUNTS_HEAP.store(matches!(counts, Some(Counts::Heap(_))), Ordering::Relaxed);
    COUNTS_EVENTS.store(matches!(counts, Some(Counts::Events(_))), Ordering::Relaxed);
    std::mem::replace(phase, next)
}

/// Tells the profiler what a thread does to the heap.
pub(crate) fn tell<R>(thread: &Thread, work: impl FnOnce(&mut Tally, At) -> R) -> Option<R> {
    let mut phase = lock();
    let Phase::Running(state) = &mut *phase else { return None };
    let at = state.at(thread);
    let Counts::Heap(tally) = &mut state.counts else { return None };
    Some(work(tally, at))
}

/// Tells the profiler of an event on a thread.
pub(crate) fn tell_event(thread: &Thread, work: impl FnOnce(&mut AdHoc, u32)) {
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

    /// This moment on this thread.
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

/// Ends the profiler of this run, or whichever runs: what it has recorded.
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

/// Ends the profiler that runs, but not so that another one can begin.
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
    let _busy = Busy::stay();
    if let Some(recorded) = end(None) {
        recorded.finish();
    }
}

/// Records every allocation of the program while it lives, and writes a file when it is dropped or the program ends by
/// `std::process::exit`.
///
/// The name's ending decides what is written: `.whyslow` gives the file that `whyslow heap` writes, to be opened by `whyslow report`,
/// `whyslow view` and the rest; everything else is DHAT's JSON for its viewer.
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
    /// Has allocations looked at. Events need none of it.
    watch: Option<Watch>,
}

impl Profiler {
    /// Begins, and will write `dhat-heap.json`.
    ///
    /// # Panics
    /// When another profiler runs, and when [`crate::Alloc`] is not the program's global allocator.
    #[track_caller]
    pub fn new_heap() -> Self {
        Self::builder().build()
    }

    /// Begins to count the events that the program tells [`ad_hoc_event`](crate::ad_hoc_event), instead of the heap, and will write
    /// `dhat-ad-hoc.json`. The program's global allocator can be any.
    ///
    /// # Panics
    /// When another profiler runs.
    #[track_caller]
    pub fn new_ad_hoc() -> Self {
        Self::builder().ad_hoc().build()
    }

    /// Begins with other settings.
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

    /// Writes what was recorded so far, and goes on: see [`dump`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn dump(&self, path: impl AsRef<Path>) -> io::Result<()> {
        dump(path)
    }

    /// Ends, and gives DHAT's JSON instead of writing a file: empty if the profiler has ended before. Nothing happens at its drop then.
    pub fn drop_and_get_memory_output(&mut self) -> String {
        let _busy = Busy::stay();
        self.watch = None;
        end(Some(self.run)).map(|recorded| recorded.finish_in_memory()).unwrap_or_default()
    }
}

impl Drop for Profiler {
    fn drop(&mut self) {
        let _busy = Busy::stay();
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
    /// The file to write at the end.
    pub fn file_name(mut self, name: impl AsRef<Path>) -> Self {
        self.settings.file_name = Some(name.as_ref().to_path_buf());
        self
    }

    /// Counts events instead of the heap: see [`Profiler::new_ad_hoc`].
    pub fn ad_hoc(mut self) -> Self {
        self.settings.ad_hoc = true;
        self
    }

    /// Writes and says nothing at the end, and lets [`assert!`](crate::assert!) and the like work: for tests with
    /// [`HeapStats`](crate::HeapStats).
    pub fn testing(mut self) -> Self {
        self.settings.testing = true;
        self
    }

    /// How many frames of each stack DHAT's JSON shall have at most, inlined functions not counted; all of them unless this is called.
    /// A `.whyslow` file always has all.
    pub fn trim_backtraces(mut self, most: Option<usize>) -> Self {
        self.settings.most_frames = most.map(|most| most.max(1));
        self
    }

    /// Prints DHAT's JSON on the error stream, too, wherever the profile goes.
    pub fn eprint_json(mut self) -> Self {
        self.settings.eprint_json = true;
        self
    }

    /// Begins.
    ///
    /// # Panics
    /// When another profiler runs, and when [`crate::Alloc`] is not the program's global allocator, unless only events are counted.
    #[track_caller]
    pub fn build(self) -> Profiler {
        static AT_EXIT: Once = Once::new();
        let watch = if self.settings.ad_hoc {
            let _busy = Busy::stay();
            stack::prepare();
            fork::handle();
            None
        } else {
            prepare_stacks();
            Some(Watch::start())
        };
        let _busy = Busy::stay();
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
        std::assert!(is_ready, "a profiler runs already: drop it before the next one begins");
        Profiler { run, watch }
    }
}

/// Writes what the running profiler has recorded so far, and goes on: as often as you like, from any thread. As with [`Profiler`],
/// the name's ending decides what is written.
///
/// # Errors
/// When no profiler runs, and when the file cannot be written.
pub fn dump(path: impl AsRef<Path>) -> io::Result<()> {
    let _busy = Busy::stay();
    let recorded = match &*lock() {
        Phase::Running(state) => state.recorded(),
        Phase::Ready => return Err(io::Error::new(io::ErrorKind::NotFound, Unfit::NoneRuns.to_string())),
        Phase::Asserted(_) => {
            return Err(io::Error::new(io::ErrorKind::NotFound, Unfit::Asserted.to_string()));
        }
    };
    recorded.write(path.as_ref())
}
