//! A whole run as one experiment: it begins before the program's own code, and ends with its exit.
//!
//! ```text
//! virtual length = time from the agent's start to the exit - delays that the first thread has taken
//! ```
//! The first thread ends the program, so its virtual time is that of the run.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use whyslow_agent_host::{Clock, OnStart, RoundPlan, Subject};
use whyslow_numbers::ClockNs;
use whyslow_proc::now;

use super::load::{Change, Load};
use super::{CausalOptions, Outcome};

/// The number of the round.
const ROUND: u64 = 1;
/// How often the program's threads are looked at: first, and later. They have gone when it has ended.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LOOK: Duration = Duration::from_millis(40);

/// A run that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    at: ClockNs,
    /// Readable when the program has ended.
    watch: OwnedFd,
    /// It is ended when it takes longer.
    longest: Duration,
}

/// Where the run is found once it has begun.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunSlot(Arc<(Mutex<Option<Begun>>, Condvar)>);

impl RunSlot {
    /// Begins the experiment of the whole run, if the director wants one, while the program waits before its own code.
    pub(crate) fn on_start(&self, options: &CausalOptions, clock: Clock) -> OnStart {
        let (slot, director, shared) = (self.clone(), Arc::clone(&options.director), options.shared.clone());
        OnStart::new(move |subject| {
            let mut modules = shared.modules();
            modules.read(subject.pid);
            let plan = director.lock().unwrap_or_else(PoisonError::into_inner).whole_run();
            let Some(plan) = plan else { return };
            let Ok(Some(watch)) = whyslow_proc::watch(subject.pid) else { return };
            let ranges = modules.placed(&plan.ranges);
            let (reach, warmup) = (plan.reach.on_wire(), Duration::ZERO);
            let round = RoundPlan { ranges: &ranges, reach, speedup: plan.speedup, warmup };
            subject.set_period(plan.period.as_nanos() as u64);
            let (begun, is_there) = &*slot.0;
            let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
            subject.begin(ROUND, &round, &clock);
            // A program that executes another one goes on with the same run.
            begun.get_or_insert_with(|| Begun { at: now(), watch, longest: plan.longest });
            is_there.notify_all();
        })
    }

    /// The run that has begun, if it does within this time.
    pub(super) fn take(&self, within: Duration) -> Option<Begun> {
        let (begun, is_there) = &*self.0;
        let begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = is_there.wait_timeout_while(begun, within, |begun| begun.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}

impl Begun {
    /// Waits for the exit. `None` if the run is not to be waited for any longer.
    pub(super) fn wait(&self, pid: u32, goes_on: impl Fn() -> bool) -> Option<Ended> {
        let mut load = Load::default();
        load.read(pid);
        let (mut all, mut look) = (Change::default(), FIRST_LOOK);
        while !whyslow_proc::ends_within(&self.watch, look) {
            all.add(&load.read(pid));
            look = (look * 2).min(LOOK);
            if !goes_on() || u128::from(now().since(self.at)) > self.longest.as_nanos() {
                return None;
            }
        }
        Some(Ended { at: self.at, length_ns: now().since(self.at), load: all })
    }
}

/// A run that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    at: ClockNs,
    length_ns: u64,
    load: Change,
}

impl Ended {
    /// What happened in it.
    pub(super) fn outcome(&self, subject: &Subject, clock: &Clock) -> Outcome {
        let state = subject.state(ROUND, clock);
        let delay_ns = subject.taken_by_first_ns(ROUND, clock).unwrap_or(state.delay_ns);
        let length = self.length_ns.max(1) as f64;
        let ran: u64 = self.load.ran_ns.iter().sum();
        Outcome {
            start: self.at,
            length_ns: self.length_ns,
            delay_ns: delay_ns.min(self.length_ns),
            hits: state.hits,
            samples: state.samples,
            queued: self.load.queued_behind_others_ns() as f64 / length,
            busy_threads: (ran as f64 / length).round() as u32,
            waits: state.waits,
            visits: Vec::new(),
        }
    }
}
