//! Runs a command repeatedly and measures each run from outside. Nothing interferes with it except the clock.
//!
//! Wall time is that of the command alone: it starts at the exec, after whyslow's fork, and the time that whyslow
//! itself queues for a CPU once the command has exited is subtracted.
//!
//! The command has its own process group, so that all of it can be killed. Processes that it leaves behind
//! are reparented to the recorder, which finds them. CPU counters are opened on the recorder, disabled:
//! children inherit them, their exec enables them, and their exit adds the counts to the parent's. Each run
//! opens new ones: parent and child may swap counters at a context switch, and a counter that ends with a
//! child cannot be inherited again.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{self, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use whyslow_events::{Count, CountedEvent, Usage};
use whyslow_proc::process::{children, first_thread_ns, name};
use whyslow_profile::ExitStatus;

use crate::counting::{CountTarget, Counters};
use crate::inherited;
use crate::last_moment::LastMoment;
use crate::launch::{exec_error, wait4};
use crate::signals::{self, Received, Signals};
use crate::{Command, RecordError, WantedEvent, host};

/// The standard input of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Input {
    /// Empty.
    #[default]
    Null,
    /// A file, from its start.
    File(PathBuf),
}

/// The standard output of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Written {
    /// /dev/null. Some programs detect it and do less work.
    #[default]
    Null,
    /// A pipe whose contents are discarded.
    Pipe,
    /// The recorder's own output.
    Inherit,
    /// A file that each run truncates.
    File(PathBuf),
}

/// How to run a command.
#[derive(Debug, Clone, Default)]
pub struct TimedCommand {
    /// The command.
    pub command: Command,
    /// The file that the command's name resolves to, if it was looked up before. Otherwise every run searches
    /// PATH again.
    pub file: Option<PathBuf>,
    /// Its input.
    pub input: Input,
    /// Its output.
    pub output: Written,
    /// Kill it after this time.
    pub timeout: Option<Duration>,
    /// Whether to keep the last bytes of its stderr. That has a small cost.
    pub keep_stderr: bool,
}

/// What ended a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The command exited.
    ByItself(ExitStatus),
    /// It took too long.
    TimedOut,
    /// The user interrupted it: Ctrl-C, or a signal.
    Interrupted,
}

/// The measurements of one run.
#[derive(Debug, Clone)]
pub struct TimedRun {
    /// From its exec to its exit.
    pub wall: Duration,
    /// The resources that the kernel accounts to it.
    pub usage: Usage,
    /// How long its first thread ran, and how long it queued for a CPU.
    pub first_thread: Option<[Duration; 2]>,
    /// The count of each event.
    pub counts: Vec<Option<Count>>,
    /// Why it ended.
    pub end: RunEnd,
    /// The names of processes that it left behind. They were killed.
    pub left_behind: Vec<String>,
    /// The last bytes of its stderr.
    pub stderr: String,
}

/// Runs commands one at a time. While it exists, signals that ask whyslow to end take effect between two
/// runs.
#[derive(Debug)]
pub struct Stopwatch {
    signals: Signals,
    wanted: Vec<WantedEvent>,
    events: Vec<CountedEvent>,
    /// /dev/null, opened once for all runs.
    null: File,
    last_moment: LastMoment,
    queue: OwnQueue,
    /// Whether SIGCHLD can reach only this thread.
    receives_sigchld: bool,
}

/// How long processes that were left behind may take to exit, for example the rest of a pipeline.
const GRACE: Duration = Duration::from_millis(100);

impl Stopwatch {
    /// Creates a stopwatch that also counts these events where possible.
    pub fn new(events: &[WantedEvent]) -> Result<Self, RecordError> {
        let failed = |error| RecordError::System { what: "signals could not be set up", error };
        let signals = Signals::new().map_err(failed)?;
        // Without it, processes that are left behind are not found.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let events_here = counters(events).states;
        let is_counted = |wanted: &(&WantedEvent, &CountedEvent)| wanted.1.state.is_ok();
        let wanted =
            events.iter().zip(&events_here).filter(is_counted).map(|(wanted, _)| wanted.clone()).collect();
        let null = File::options().read(true).write(true).open("/dev/null");
        let null = null.map_err(|error| RecordError::System { what: "/dev/null cannot be opened", error })?;
        // Threads started later inherit the blocked signals.
        let receives_sigchld =
            whyslow_proc::process::threads(process::id()).is_ok_and(|threads| threads.len() == 1);
        let last_moment = LastMoment::new()
            .map_err(|error| RecordError::System { what: "shared memory could not be mapped", error })?;
        let queue = OwnQueue::open();
        Ok(Self { signals, wanted, events: events_here, null, last_moment, queue, receives_sigchld })
    }

    /// The events, and whether each is counted.
    pub fn events(&self) -> &[CountedEvent] {
        &self.events
    }

    /// Whether the user has asked to stop.
    pub fn is_interrupted(&self) -> bool {
        std::iter::from_fn(|| self.signals.next()).any(|received| received != Received::Child)
    }

    /// Runs a command to its end.
    pub fn run(&self, timed: &TimedCommand) -> Result<TimedRun, RecordError> {
        let mut command = self.prepare(timed)?;
        let counters = counters(&self.wanted);
        let start = Instant::now();
        let child = command.spawn().map_err(|error| exec_error(&timed.command, error))?;
        let pid = child.id();
        let read = Tail::of(child.stderr).and_then(|stderr| discard(child.stdout).map(|()| stderr));
        let stderr = read.map_err(|error| {
            end_group(pid, None);
            wait4(pid, 0);
            RecordError::System { what: "no thread could be started to read the program's output", error }
        })?;
        let watch = if self.receives_sigchld { None } else { whyslow_proc::watch(pid).ok().flatten() };
        let deadline = timed.timeout.map(|timeout| start + timeout);
        let (mut stopped, mut own_delay, mut end);
        loop {
            let queued_before = self.queue.delay_ns();
            stopped = self.wait(watch.as_ref(), deadline);
            end = whyslow_proc::now();
            own_delay = self.queue.delay_ns().saturating_sub(queued_before);
            if stopped.is_some() || has_ended(pid, watch.as_ref()) {
                break;
            }
        }
        let wall = end.since(self.last_moment.time()).saturating_sub(own_delay);
        let wall = Duration::from_nanos(wall);
        if stopped.is_some() {
            end_group(pid, watch.as_ref());
        }
        let first_thread = first_thread_ns(pid).map(|times| times.map(Duration::from_nanos));
        let Some((exit, mut used)) = wait4(pid, 0) else {
            return Err(RecordError::System {
                what: "another part of this process reaped the program",
                error: io::ErrorKind::NotFound.into(),
            });
        };
        used.resident_before_exec_bytes = self.last_moment.resident_bytes();
        let mut counted = counters.read().into_iter();
        let counts =
            self.events.iter().map(|event| event.state.is_ok().then(|| counted.next()).flatten().flatten());
        Ok(TimedRun {
            wall,
            usage: usage(&used),
            first_thread,
            counts: counts.collect(),
            end: stopped.unwrap_or(RunEnd::ByItself(exit)),
            left_behind: left_behind(),
            stderr: stderr.map(Tail::text).unwrap_or_default(),
        })
    }

    fn prepare(&self, timed: &TimedCommand) -> Result<process::Command, RecordError> {
        let TimedCommand { command, file, input, output, keep_stderr, .. } = timed;
        let program = file.as_ref().map_or(command.program.as_ref(), |file| file.as_os_str());
        let mut prepared = inherited::command(program);
        let last_moment = self.last_moment.clone();
        inherited::before_exec(&mut prepared, move || last_moment.note());
        // Programs may behave differently depending on the name they are called by.
        prepared.arg0(&command.program);
        prepared.args(&command.args).envs(command.env.iter().cloned()).process_group(0);
        if let Some(folder) = &command.folder {
            prepared.current_dir(folder);
        }
        let null = || self.null.try_clone().map(Stdio::from).unwrap_or_else(|_| Stdio::null());
        prepared.stdin(match input {
            Input::Null => null(),
            Input::File(path) => File::open(path)
                .map(Stdio::from)
                .map_err(|error| RecordError::Input { path: path.clone(), error })?,
        });
        prepared.stdout(match output {
            Written::Null => null(),
            Written::Pipe => Stdio::piped(),
            Written::Inherit => Stdio::inherit(),
            Written::File(path) => File::create(path)
                .map(Stdio::from)
                .map_err(|error| RecordError::Output { path: path.clone(), error })?,
        });
        prepared.stderr(match (output, keep_stderr) {
            (Written::Inherit, _) => Stdio::inherit(),
            (_, true) => Stdio::piped(),
            (_, false) => null(),
        });
        Ok(prepared)
    }

    /// Waits until the program exits, time is over, or a signal arrives.
    fn wait(&self, watch: Option<&OwnedFd>, deadline: Option<Instant>) -> Option<RunEnd> {
        let mut waits = [
            libc::pollfd { fd: self.signals.fd(), events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: watch.map_or(-1, OwnedFd::as_raw_fd), events: libc::POLLIN, revents: 0 },
        ];
        let rest = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // Otherwise poll: an old kernel has no pidfds, and another thread may receive SIGCHLD.
        let longest = if watch.is_some() || self.receives_sigchld { -1 } else { 100 };
        let timeout = rest.map_or(longest, |rest| i32::try_from(rest.as_millis() + 1).unwrap_or(i32::MAX));
        signals::poll(&mut waits, timeout);
        if self.is_interrupted() {
            return Some(RunEnd::Interrupted);
        }
        let is_late = waits[1].revents == 0 && deadline.is_some_and(|deadline| Instant::now() >= deadline);
        is_late.then_some(RunEnd::TimedOut)
    }
}

/// Counters that count only processes started from now on.
fn counters(events: &[WantedEvent]) -> Counters {
    let own = rustix::thread::gettid().as_raw_pid().unsigned_abs();
    Counters::open(events, &CountTarget::Child(own), false)
}

/// How long the calling thread has queued for a CPU since its start, as the kernel counts it.
#[derive(Debug)]
struct OwnQueue(Option<File>);

impl OwnQueue {
    fn open() -> Self {
        Self(File::open("/proc/thread-self/schedstat").ok())
    }

    /// 0 where the kernel does not say.
    fn delay_ns(&self) -> u64 {
        use std::os::unix::fs::FileExt as _;
        let mut text = [0; 64];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = std::str::from_utf8(&text[..read]).unwrap_or_default();
        text.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
    }
}

fn has_ended(pid: u32, watch: Option<&OwnedFd>) -> bool {
    watch.map_or_else(|| crate::launch::has_ended(pid), whyslow_proc::has_ended)
}

fn usage(used: &host::Usage) -> Usage {
    let known_peak = used.known_peak_bytes();
    Usage {
        user_ns: Some(used.user.as_nanos() as u64),
        system_ns: Some(used.system.as_nanos() as u64),
        max_resident_bytes: known_peak,
        resident_below_bytes: known_peak.is_none().then_some(used.max_resident_bytes),
        minor_faults: Some(used.minor_faults),
        major_faults: Some(used.major_faults),
        voluntary_switches: Some(used.voluntary_switches),
        involuntary_switches: Some(used.involuntary_switches),
        disk_bytes_read: Some(used.disk_bytes.0),
        disk_bytes_written: Some(used.disk_bytes.1),
        ..Usage::default()
    }
}

/// Ends a command and its whole process group: SIGTERM first, then SIGKILL.
fn end_group(pid: u32, watch: Option<&OwnedFd>) {
    let Some(group) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else { return };
    // An error means that the group has already exited.
    let send = |signal| {
        let _ = rustix::process::kill_process_group(group, signal);
    };
    send(rustix::process::Signal::TERM);
    let until = Instant::now() + GRACE;
    while !has_ended(pid, watch) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    send(rustix::process::Signal::KILL);
}

/// Waits for processes that the command left behind, kills those that remain, and returns their names.
fn left_behind() -> Vec<String> {
    let until = Instant::now() + GRACE;
    loop {
        match next_child() {
            Child::None => return Vec::new(),
            Child::Reaped => {}
            Child::Runs if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Child::Runs => break,
        }
    }
    let left = children(process::id(), usize::MAX);
    let names = left.iter().map(|pid| format!("{} ({pid})", name(*pid).unwrap_or_default())).collect();
    for pid in left {
        whyslow_proc::send_signal(pid, libc::SIGKILL);
    }
    // Their own children are reparented next.
    while !matches!(next_child(), Child::None) {
        for pid in children(process::id(), usize::MAX) {
            whyslow_proc::send_signal(pid, libc::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    names
}

enum Child {
    None,
    Reaped,
    Runs,
}

fn next_child() -> Child {
    use rustix::process::{WaitOptions, wait};
    match wait(WaitOptions::NOHANG) {
        Ok(Some(_)) => Child::Reaped,
        Ok(None) => Child::Runs,
        Err(_) => Child::None,
    }
}

/// Reads on a separate thread until all writers have closed the pipe.
fn discard(stdout: Option<process::ChildStdout>) -> io::Result<()> {
    if let Some(mut stdout) = stdout {
        std::thread::Builder::new().spawn(move || io::copy(&mut stdout, &mut io::sink()))?;
    }
    Ok(())
}

/// The last bytes that were written to a pipe.
struct Tail(mpsc::Receiver<Vec<u8>>);

impl Tail {
    const KEPT: usize = 4096;

    fn of(stderr: Option<process::ChildStderr>) -> io::Result<Option<Self>> {
        let Some(mut stderr) = stderr else { return Ok(None) };
        let (sender, receiver) = mpsc::channel();
        std::thread::Builder::new().spawn(move || {
            let mut kept = Vec::new();
            let mut part = [0; Self::KEPT];
            while let Ok(read @ 1..) = stderr.read(&mut part) {
                kept.extend_from_slice(&part[..read]);
                kept.drain(..kept.len().saturating_sub(Self::KEPT));
            }
            // The receiver may have been dropped.
            let _ = sender.send(kept);
        })?;
        Ok(Some(Self(receiver)))
    }

    /// All writers have exited by now.
    fn text(self) -> String {
        let bytes = self.0.recv_timeout(GRACE).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> TimedCommand {
        let command =
            Command { program: "sh".into(), args: vec!["-c".into(), script.into()], ..Command::default() };
        TimedCommand { command, ..TimedCommand::default() }
    }

    fn run(timed: &TimedCommand) -> TimedRun {
        Stopwatch::new(&[]).unwrap().run(timed).unwrap()
    }

    #[test]
    fn measures_the_times_and_the_exit_code_of_a_run() {
        let done = run(&shell("sleep 0.05; exit 3"));
        assert_eq!(done.end, RunEnd::ByItself(ExitStatus::Code(3)));
        assert!(done.wall >= Duration::from_millis(50), "{done:?}");
        assert!(done.usage.user_ns.is_some() && done.usage.voluntary_switches.unwrap() > 0);
        assert!(done.left_behind.is_empty());
    }

    #[test]
    fn whyslows_own_memory_is_not_that_of_the_command() {
        let own = vec![1u8; 64 << 20];
        let usage = run(&shell("true")).usage;
        assert_eq!(
            (usage.max_resident_bytes, usage.resident_below_bytes.is_some()),
            (None, true),
            "{usage:?}"
        );
        drop(std::hint::black_box(own));
        // A command that is larger than whyslow has a peak of its own.
        let usage = run(&shell("head -c 96M /dev/zero | tail -c 96M")).usage;
        assert!(usage.max_resident_bytes.is_some_and(|most| most > 96 << 20), "{usage:?}");
    }

    #[test]
    fn every_run_says_how_long_its_first_thread_ran_and_queued() {
        if first_thread_ns(process::id()).is_some() {
            assert!(run(&shell("true")).first_thread.is_some());
        }
    }

    #[test]
    fn keeps_the_end_of_stderr_even_of_a_flood() {
        let timed = TimedCommand {
            keep_stderr: true,
            output: Written::Pipe,
            ..shell("yes | head -c 1000000; seq 9999 >&2; echo last >&2")
        };
        let done = run(&timed);
        assert!(done.stderr.ends_with("9999\nlast\n") && done.stderr.len() <= Tail::KEPT, "{}", done.stderr);
    }

    #[test]
    fn kills_a_hanging_command_with_all_its_children() {
        let timed = TimedCommand {
            timeout: Some(Duration::from_millis(50)),
            ..shell("sleep 1000 & sleep 1000; true")
        };
        let done = run(&timed);
        assert_eq!(done.end, RunEnd::TimedOut);
        assert!(done.left_behind.is_empty(), "{done:?}");
    }

    #[test]
    fn finds_and_kills_processes_left_behind() {
        // On a busy machine it takes a while until the new process is `sleep`.
        let done = run(&shell("setsid sleep 1000 & until [ \"$(cat /proc/$!/comm)\" = sleep ]; do :; done"));
        assert_eq!(done.end, RunEnd::ByItself(ExitStatus::Code(0)));
        assert!(matches!(&done.left_behind[..], [one] if one.starts_with("sleep")), "{done:?}");
        // A process that only takes slightly longer is not reported, unless the machine lets it wait.
        assert!((0..20).any(|_| run(&shell("sleep 0.02 & true")).left_behind.is_empty()));
    }

    #[test]
    fn input_is_read_by_every_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("in");
        std::fs::write(&path, "42").unwrap();
        let timed = TimedCommand { input: Input::File(path), ..shell("exit $(cat)") };
        let stopwatch = Stopwatch::new(&[]).unwrap();
        for _ in 0..2 {
            assert_eq!(stopwatch.run(&timed).unwrap().end, RunEnd::ByItself(ExitStatus::Code(42)));
        }
        let missing = TimedCommand { input: Input::File("/no/such/file".into()), ..shell("true") };
        assert!(matches!(stopwatch.run(&missing), Err(RecordError::Input { .. })));
    }

    #[test]
    fn each_run_has_its_own_counters() {
        let machine = whyslow_events::Machine::this();
        let event = machine.event("page-faults").unwrap();
        let stopwatch = Stopwatch::new(&[event.into()]).unwrap();
        if stopwatch.events()[0].state.is_err() {
            return; // perf events are refused here, which other tests look at.
        }
        for _ in 0..2 {
            let done = stopwatch.run(&shell("true")).unwrap();
            let counted = done.counts[0].unwrap().value;
            let accounted = done.usage.minor_faults.unwrap();
            assert!(counted > 20 && counted <= accounted + 5, "{counted} of {accounted}");
        }
    }

    #[test]
    fn reports_a_missing_program() {
        let command = Command { program: "/no/such/program".into(), ..Command::default() };
        let error = Stopwatch::new(&[]).unwrap().run(&TimedCommand { command, ..TimedCommand::default() });
        assert!(matches!(error, Err(RecordError::NotFound { .. })), "{error:?}");
    }
}
