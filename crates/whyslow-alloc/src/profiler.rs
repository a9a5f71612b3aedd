//! The profiler of a whole program: every allocation of every thread, from its start to its end.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::outcome::Outcome;
use crate::report::Row;
use crate::scope::prepare_stacks;
use crate::tally::{At, Tally};
use crate::watch::{Busy, Thread, Watch};
use crate::{dhat, sys};

/// A thread that was counted.
#[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "DHAT's file has no threads"))]
#[derive(Debug, Clone)]
pub(crate) struct SeenThread {
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
}

/// How it was started.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    file_name: PathBuf,
    testing: bool,
    pub(crate) most_frames: Option<usize>,
}

/// What a profiler knows.
#[derive(Debug)]
pub(crate) struct State {
    run: u32,
    start: Instant,
    started_unix_ns: u64,
    settings: Settings,
    threads: Vec<SeenThread>,
    tally: Tally,
}

/// The profiler that runs, if one does.
pub(crate) type Running = Option<Box<State>>;

static RUNNING: Mutex<Running> = Mutex::new(None);
static IS_RUNNING: AtomicBool = AtomicBool::new(false);
static RUNS: AtomicU32 = AtomicU32::new(0);

/// Whether a profiler runs.
#[inline]
pub(crate) fn is_running() -> bool {
    IS_RUNNING.load(Ordering::Relaxed)
}

/// Whoever calls this must be busy, so that nothing that it allocates comes back here.
pub(crate) fn lock() -> MutexGuard<'static, Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This process is not the one that the profiler was started in.
pub(crate) fn forget(running: &mut Running) {
    IS_RUNNING.store(false, Ordering::Relaxed);
    *running = None;
}

/// Tells the profiler what a thread does.
pub(crate) fn tell<R>(thread: &Thread, work: impl FnOnce(&mut Tally, At) -> R) -> Option<R> {
    let mut running = lock();
    let state = running.as_deref_mut()?;
    let time_ns = state.elapsed_ns();
    let (run, mut row) = thread.row.get();
    if run != state.run {
        row = state.threads.len() as u32;
        thread.row.set((state.run, row));
        state.threads.push(SeenThread { tid: sys::thread_id(), name: sys::thread_name(), start_ns: time_ns });
    }
    Some(work(&mut state.tally, At { thread: row, time_ns }))
}

impl State {
    fn elapsed_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn recorded(&self) -> Recorded {
        Recorded {
            outcome: self.tally.outcome(self.elapsed_ns()),
            threads: self.threads.clone(),
            started_unix_ns: self.started_unix_ns,
            settings: self.settings.clone(),
        }
    }
}

/// What can be written down.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) outcome: Outcome,
    #[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "DHAT's file has no threads"))]
    pub(crate) threads: Vec<SeenThread>,
    #[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "DHAT's file has no date"))]
    pub(crate) started_unix_ns: u64,
    pub(crate) settings: Settings,
}

impl Recorded {
    fn write(&self, path: &Path) -> io::Result<()> {
        if path.extension().is_some_and(|extension| extension == "whyslow") {
            return write_profile(self, path);
        }
        dhat::write(self, path)
    }

    /// Writes the file, and says so.
    fn finish(&self) {
        if self.settings.testing {
            return;
        }
        let path = &self.settings.file_name;
        let totals = self.outcome.totals;
        let file = path.display();
        sys::say(&match self.write(path) {
            Ok(()) => format!(
                "whyslow-alloc: {} allocations of {} bytes; at most {} bytes live; {} bytes in {} blocks at the end; \
                 written to {file}\n",
                totals.made.blocks,
                totals.made.bytes,
                totals.peak.bytes,
                self.outcome.live.bytes,
                self.outcome.live.blocks,
            ),
            Err(error) => format!("whyslow-alloc: {file} cannot be written: {error}\n"),
        });
    }
}

#[cfg(feature = "profile")]
fn write_profile(recorded: &Recorded, path: &Path) -> io::Result<()> {
    crate::file::write(recorded, path)
}

#[cfg(not(feature = "profile"))]
fn write_profile(_recorded: &Recorded, _path: &Path) -> io::Result<()> {
    let what = "whyslow-alloc was built without its feature `profile`; choose a name that ends with .json";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}

/// Ends the profiler of this run, or whichever runs: what it has recorded.
fn end(run: Option<u32>) -> Option<Recorded> {
    let mut running = lock();
    if run.is_some_and(|run| running.as_ref().is_none_or(|state| state.run != run)) {
        return None;
    }
    let state = running.take()?;
    IS_RUNNING.store(false, Ordering::Relaxed);
    drop(running);
    Some(state.recorded())
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
    _watch: Watch,
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

    /// Begins with other settings.
    pub fn builder() -> ProfilerBuilder {
        ProfilerBuilder {
            settings: Settings { file_name: "dhat-heap.json".into(), testing: false, most_frames: None },
        }
    }

    /// Writes what was recorded so far, and goes on: see [`dump`].
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn dump(&self, path: impl AsRef<Path>) -> io::Result<()> {
        dump(path)
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
        name.as_ref().clone_into(&mut self.settings.file_name);
        self
    }

    /// Writes no file at the end: for tests with [`HeapStats`].
    pub fn testing(mut self) -> Self {
        self.settings.testing = true;
        self
    }

    /// How many frames of each stack DHAT's JSON shall have at most; all of them unless this is called. A `.whyslow` file always has all.
    pub fn trim_backtraces(mut self, most: Option<usize>) -> Self {
        self.settings.most_frames = most.map(|most| most.max(1));
        self
    }

    /// Begins.
    ///
    /// # Panics
    /// When another profiler runs, and when [`crate::Alloc`] is not the program's global allocator.
    #[track_caller]
    pub fn build(self) -> Profiler {
        static AT_EXIT: Once = Once::new();
        prepare_stacks();
        let watch = Watch::start();
        let _busy = Busy::stay();
        AT_EXIT.call_once(|| sys::at_exit(program_ends));
        let run = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let state = State {
            run,
            start: Instant::now(),
            started_unix_ns: since_1970.as_nanos() as u64,
            settings: self.settings,
            threads: Vec::new(),
            tally: Tally::new(run),
        };
        let mut running = lock();
        let other = running.is_some();
        if !other {
            *running = Some(Box::new(state));
            IS_RUNNING.store(true, Ordering::Relaxed);
        }
        drop(running);
        std::assert!(!other, "a profiler runs already: drop it before the next one begins");
        Profiler { run, _watch: watch }
    }
}

fn none_running() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "no profiler runs: keep the value of Profiler::new_heap()")
}

fn recorded_so_far() -> Option<Recorded> {
    let running = lock();
    running.as_ref().map(|state| state.recorded())
}

/// Writes what the running profiler has recorded so far, and goes on: as often as you like, from any thread. As with [`Profiler`],
/// the name's ending decides what is written.
///
/// # Errors
/// When no profiler runs, and when the file cannot be written.
pub fn dump(path: impl AsRef<Path>) -> io::Result<()> {
    let _busy = Busy::stay();
    recorded_so_far().ok_or_else(none_running)?.write(path.as_ref())
}

/// Numbers of the running [`Profiler`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Blocks that were made, by reallocation too.
    pub total_blocks: u64,
    /// Their bytes.
    pub total_bytes: u64,
    /// Blocks that are live now.
    pub curr_blocks: usize,
    /// Their bytes.
    pub curr_bytes: usize,
    /// Blocks that were live when the most bytes were.
    pub max_blocks: usize,
    /// Their bytes.
    pub max_bytes: usize,
}

impl HeapStats {
    /// What the running profiler has counted.
    ///
    /// # Panics
    /// When none runs.
    #[track_caller]
    pub fn get() -> Self {
        let _busy = Busy::stay();
        let now = lock().as_ref().map(|state| state.tally.now());
        let Some((live, totals)) = now else { std::panic!("{}", none_running()) };
        Self {
            total_blocks: totals.made.blocks,
            total_bytes: totals.made.bytes,
            curr_blocks: live.blocks as usize,
            curr_bytes: live.bytes as usize,
            max_blocks: totals.peak.blocks as usize,
            max_bytes: totals.peak.bytes as usize,
        }
    }
}

/// An assertion about the heap has failed: shows the stacks that allocate the most, and writes the profile.
#[doc(hidden)]
#[track_caller]
pub fn assertion_failed(what: &str, detail: Option<fmt::Arguments<'_>>) -> ! {
    let message = {
        let _busy = Busy::stay();
        let mut message = detail.map_or_else(|| what.to_owned(), |detail| format!("{what}: {detail}"));
        match recorded_so_far() {
            None => message.push_str(&format!("\n{}", none_running())),
            Some(recorded) => {
                let rows = recorded.outcome.sites.iter().map(|site| Row {
                    stack: site.stack,
                    allocations: site.made.blocks,
                    bytes: site.made.bytes,
                });
                let path = &recorded.settings.file_name;
                message.push_str(&match recorded.write(path) {
                    Ok(()) => format!("\nthe profile is in {}; allocations so far:\n", path.display()),
                    Err(error) => {
                        format!("\n{} cannot be written: {error}; allocations so far:\n", path.display())
                    }
                });
                message.push_str(&crate::report::stacks(rows.collect(), true));
            }
        }
        message
    };
    std::panic!("{message}");
}
