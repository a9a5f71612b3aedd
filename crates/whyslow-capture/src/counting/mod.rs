//! Counts events of a program, running processes or the whole machine, without sampling.
//!
//! ```text
//! counters   opens and reads the events of the target
//! usage      what the kernel accounts anyway, without permission
//! threads    the counts of each thread, which it reports when it exits
//! ```

mod counters;
mod threads;
mod usage;

use std::time::{Duration, Instant};

use whyslow_events::{Event, Measured, NotCounted, Reading, Usage, WhyNot};
use whyslow_proc::{machine, process};
use whyslow_profile::{ExitStatus, Host};

pub(crate) use self::counters::{CLOCK, CountTarget, Counters, happens_in_kernel};
use self::threads::Threads;
use self::usage::Accounts;
use crate::launch::Suspended;
use crate::signals::{self, Signals};
use crate::subject::{End, Subject};
use crate::{RecordError, Target, host};

/// An event to count.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedEvent {
    /// The event.
    pub event: Event,
    /// The index of the event that it must be counted together with.
    pub leader: Option<usize>,
    /// Why it cannot be counted, if that is known already.
    pub refused: Option<WhyNot>,
}

impl From<Event> for WantedEvent {
    fn from(event: Event) -> Self {
        Self { event, leader: None, refused: None }
    }
}

/// How to count.
#[derive(Debug, Clone, Default)]
pub struct CountOptions {
    /// The events.
    pub events: Vec<WantedEvent>,
    /// Also report at the end of each interval of this length.
    pub interval: Option<Duration>,
    /// Also count each thread separately.
    pub per_thread: bool,
    /// Stop after this time.
    pub duration: Option<Duration>,
}

/// The result of counting.
#[derive(Debug)]
pub struct Counted {
    /// The numbers.
    pub measured: Measured,
    /// How the program exited; `None` if it still runs or was already running.
    pub exit: Option<ExitStatus>,
    /// The command line that was counted.
    pub command: Vec<String>,
    /// The machine.
    pub host: Host,
    /// Whether the user asked to stop.
    pub stopped: bool,
    /// Threads whose last counts did not arrive.
    pub threads_incomplete: u64,
    /// Keeps signals blocked until the result is printed.
    _signals: Signals,
}

/// How often the accounts of attached processes are read. What a process does between the last reading and
/// its exit is not known.
const READ_INTERVAL: Duration = Duration::from_millis(20);

/// Counts until the program or the processes exit, a stop signal arrives (if there is no program to receive
/// it), or the duration is over. Calls `each` at the end of each interval with the counts so far.
pub fn count(
    target: &Target,
    options: &CountOptions,
    each: &mut dyn FnMut(&Measured),
) -> Result<Counted, RecordError> {
    let target = &crate::session::resolved(target)?;
    let signals =
        Signals::new().map_err(|error| RecordError::System { what: "signals could not be set up", error })?;
    let suspended = target.command().map(|command| Suspended::new(command, None)).transpose()?;
    host::raise_file_limit();
    let child = suspended.as_ref().map(|child| child.pid);
    let count_target = match (target, child) {
        (Target::Command(_), Some(child)) => CountTarget::Child(child),
        (Target::Processes(pids), _) => CountTarget::Processes(pids.clone()),
        _ => CountTarget::Machine,
    };
    let mut counters = Counters::open(&options.events, &count_target, options.per_thread);
    let mut threads = if options.per_thread { Threads::new(&counters, &count_target) } else { None };
    let cpus = child.map_or_else(|| machine::online_cpus().len(), |child| machine::allowed_cpus(child).len());
    let mut accounts = Accounts::before(&count_target);
    if let Err(error) = counters.enable_unless_on_exec() {
        if let Some(child) = suspended {
            child.cancel();
        }
        return Err(RecordError::System { what: "counting could not be started", error });
    }
    let start = whyslow_proc::now();
    let mut subject = match (target, suspended) {
        (_, Some(child)) => Subject::Child(child.release()?),
        (Target::Processes(pids), None) => Subject::attached(pids),
        _ => Subject::UntilStopped,
    };
    let deadline = options.duration.map(|duration| Instant::now() + duration);
    let mut next = options.interval.map(|interval| Instant::now() + interval);
    let mut measured = Measured {
        duration_ns: 0,
        events: std::mem::take(&mut counters.states),
        total: Reading::default(),
        series: Vec::new(),
        threads: Vec::new(),
        cpus: cpus as u32,
        whole_machine: matches!(count_target, CountTarget::Machine),
        uncounted_ns: 0,
    };
    let mut waits = [libc::pollfd { fd: signals.fd(), events: libc::POLLIN, revents: 0 }];
    let end = loop {
        let mut pause =
            if matches!(subject, Subject::Processes(_)) { READ_INTERVAL } else { Duration::from_millis(50) };
        for until in [deadline, next].into_iter().flatten() {
            pause = pause.min(until.saturating_duration_since(Instant::now()));
        }
        // Rounded up: a wait that ends too early would only be repeated.
        signals::poll(&mut waits, pause.as_micros().div_ceil(1000) as i32);
        let end = subject.signals_received(&signals).or_else(|| subject.is_over(deadline));
        if let Some(threads) = &mut threads {
            threads.drain();
        }
        if let Some(end) = end {
            break end;
        }
        accounts.refresh();
        if let (Some(at), Some(interval)) = (next, options.interval)
            && Instant::now() >= at
        {
            let reading = Reading {
                at_ns: whyslow_proc::now().since(start),
                usage: accounts.so_far(),
                counts: counters.read(),
            };
            measured.series.push(reading);
            each(&measured);
            // Skips intervals that were missed.
            next = Some((at + interval).max(Instant::now()));
        }
    };
    let duration_ns = whyslow_proc::now().since(start);
    let (exit, usage) = match &end {
        End::Exited(exit, usage) if matches!(target, Target::Command(_)) => {
            (Some(*exit), accounts.at_exit(usage))
        }
        End::Exited(exit, _) => (Some(*exit), accounts.at_end()),
        End::Stopped => (None, accounts.at_end()),
    };
    measured.duration_ns = duration_ns;
    measured.total = Reading { at_ns: duration_ns, usage, counts: counters.read() };
    if matches!((&end, target), (End::Exited(..), Target::Command(_))) {
        measured.uncounted_ns = uncounted_ns(&measured);
    }
    if options.interval.is_some() && measured.series.last().is_none_or(|last| last.at_ns < duration_ns) {
        measured.series.push(measured.total.clone());
        each(&measured);
    }
    let (threads, threads_incomplete) = threads.map(|threads| threads.finish(&counters)).unwrap_or_default();
    measured.threads = threads;
    let stopped = matches!(end, End::Stopped);
    Ok(Counted {
        measured,
        exit,
        command: target.words(),
        host: host::describe(cpus),
        stopped,
        threads_incomplete,
        _signals: signals,
    })
}

/// Whether each event could be counted for a program started now. Counts nothing.
pub fn try_events(events: &[Event]) -> Vec<Result<bool, NotCounted>> {
    let count_target = CountTarget::Processes(vec![std::process::id()]);
    events.iter().map(|event| counters::try_one(event, &count_target)).collect()
}

/// The CPU time that the kernel accounts and the counters missed. The kernel also accounts the exec and the
/// child's time before it.
fn uncounted_ns(measured: &Measured) -> u64 {
    const BEFORE_EXEC_NS: u64 = 5_000_000;
    let Usage { user_ns: Some(user), system_ns: Some(system), .. } = measured.total.usage else { return 0 };
    let counts = measured.events.iter().zip(&measured.total.counts);
    let clock = counts.filter(|(event, _)| event.event.name == "task-clock").find_map(|(_, count)| *count);
    let Some(clock) = clock else { return 0 };
    let missing = (user + system).saturating_sub(clock.value);
    if missing > BEFORE_EXEC_NS + clock.value / 10 { missing } else { 0 }
}

/// Some processes and their descendants that still run.
fn with_descendants(pids: &[u32]) -> Vec<u32> {
    let parents = process::parents();
    let mut all = pids.to_vec();
    let mut at = 0;
    while at < all.len() {
        let parent = all[at];
        all.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    all
}
