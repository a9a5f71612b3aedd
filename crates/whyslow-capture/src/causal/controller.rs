//! The thread that carries out experiments.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use whyslow_agent_host::{Clock, RoundPlan, RoundState, Subject, SubjectSlot};
use whyslow_agent_wire::causal::{kind, reach};
use whyslow_numbers::ClockNs;
use whyslow_proc::{now, process};

use super::load::{Change, Load};
use super::modules::Modules;
use super::{
    CausalOptions, Director, Outcome, PlannedExperiment, PointVisits, Reach, SeenPoint, SharedDirector, Step,
};

/// The part of an experiment that is not measured.
const WARMUP: f64 = 0.15;
/// How often points that begin and end are read.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How often the program learns that somebody is still at work.
const RENEW_EVERY: Duration = Duration::from_millis(50);
/// How long the program has to end when it is asked to.
const GRACE: Duration = Duration::from_secs(3);
/// How often the program is looked for while it starts.
const START_EVERY: Duration = Duration::from_millis(2);

/// The running thread.
#[derive(Debug)]
pub(crate) struct Controller {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Controller {
    /// Starts it. It waits for the program.
    pub(crate) fn start(subject: SubjectSlot, options: &CausalOptions) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            subject,
            director: Arc::clone(&options.director),
            ends_program: options.ends_program,
            stop: Arc::clone(&stop),
            clock: Clock::start(),
            modules: Modules::default(),
            load: Load::default(),
            is_begun: false,
            number: 0,
            sampled: 0,
        };
        let thread = std::thread::Builder::new().name("experiments".to_owned()).spawn(move || work.run())?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Ends the running experiment, and the thread.
    pub(crate) fn stop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A panic has been reported, and the recording is complete without the rest.
            let _ = thread.join();
        }
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Work {
    subject: SubjectSlot,
    director: SharedDirector,
    /// Whether the program ends with the experiments.
    ends_program: bool,
    stop: Arc<AtomicBool>,
    clock: Clock,
    modules: Modules,
    load: Load,
    /// Whether the program was seen.
    is_begun: bool,
    /// The number of the last round.
    number: u64,
    /// The number of the next sample.
    sampled: u64,
}

impl Work {
    fn run(mut self) {
        while let Some(subject) = self.wait_for_subject() {
            let step = self.director().next();
            match step {
                Step::Watch(length) => {
                    self.sleep(&subject, length);
                    self.show_samples(&subject);
                }
                Step::Try(trial) => {
                    let outcome = self.experiment(&subject, &trial);
                    self.show_samples(&subject);
                    self.director().ended(outcome);
                }
                Step::Stop => break,
            }
        }
        let subject = self.subject.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(subject) = subject else { return };
        subject.end();
        if self.ends_program && !self.is_stopped() {
            self.end_program(&subject);
        }
    }

    /// Asks the program to end, and after a while makes it.
    fn end_program(&self, subject: &Subject) {
        for signal in [Signal::TERM, Signal::KILL] {
            let pid = i32::try_from(subject.pid).ok().and_then(Pid::from_raw);
            let Some(pid) = pid.filter(|_| process::runs(subject.pid)) else { return };
            // It may have ended by itself in the meantime.
            let _ = kill_process(pid, signal);
            let until = now().plus(GRACE.as_nanos() as u64);
            while now() < until && !self.is_stopped() && process::runs(subject.pid) {
                std::thread::sleep(START_EVERY);
            }
            if self.is_stopped() {
                return;
            }
        }
    }

    fn director(&self) -> MutexGuard<'_, dyn Director + 'static> {
        self.director.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// The running program. `None` if the recording is over. The program may have executed another one.
    fn wait_for_subject(&mut self) -> Option<Subject> {
        loop {
            if self.is_stopped() {
                return None;
            }
            let subject = self.subject.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(subject) = subject.filter(Subject::has_begun) {
                subject.renew();
                if process::runs(subject.pid) {
                    if !std::mem::replace(&mut self.is_begun, true) {
                        self.modules.read(subject.pid);
                    }
                    return Some(subject);
                }
            }
            std::thread::sleep(START_EVERY);
        }
    }

    /// Sleeps, and shows the program that somebody is at work. Returns early when the recording ends.
    fn sleep(&self, subject: &Subject, length: Duration) {
        let end = now().plus(length.as_nanos() as u64);
        loop {
            let left = Duration::from_nanos(end.since(now()));
            if left.is_zero() || self.is_stopped() {
                return;
            }
            std::thread::sleep(left.min(RENEW_EVERY));
            subject.renew();
        }
    }

    fn show_samples(&mut self, subject: &Subject) {
        let addresses = subject.addresses(&mut self.sampled);
        self.modules.read(subject.pid);
        let by_module = self.modules.by_module(&addresses);
        self.director().sampled(&by_module);
    }

    fn experiment(&mut self, subject: &Subject, trial: &PlannedExperiment) -> Option<Outcome> {
        self.clock.adjust();
        self.number += 1;
        let warmup = trial.length.mul_f64(WARMUP);
        let ranges = self.modules.placed(&trial.ranges);
        subject.set_period(trial.period.as_nanos() as u64);
        let reach = match trial.reach {
            Reach::Own => reach::OWN,
            Reach::Callees => reach::CALLEES,
            Reach::OwnAtCost => reach::OWN_AT_COST,
        };
        let plan = RoundPlan { ranges: &ranges, reach, speedup: trial.speedup, warmup };
        subject.begin(self.number, &plan, &self.clock);
        self.sleep(subject, warmup);
        let from = Moment::read(self, subject);
        let in_flight = self.measure(subject, trial.length - warmup);
        let to = Moment::read(self, subject);
        subject.end();
        let is_whole = process::runs(subject.pid) && !self.is_stopped();
        is_whole.then(|| outcome(subject, &from, &to, &in_flight))
    }

    /// Waits for the end, and adds up what is in flight between points that begin and end.
    fn measure(&self, subject: &Subject, length: Duration) -> Vec<InFlight> {
        let points = subject.points();
        let mut in_flight: Vec<InFlight> = points
            .iter()
            .filter(|point| point.kind == kind::BEGIN)
            .map(|point| InFlight { name: point.name.clone(), ..InFlight::default() })
            .collect();
        if in_flight.is_empty() {
            self.sleep(subject, length);
            return in_flight;
        }
        let end = now().plus(length.as_nanos() as u64);
        let mut before = self.virtual_time(subject);
        in_flight.iter_mut().for_each(|flight| flight.start(subject));
        while now() < end && !self.is_stopped() {
            std::thread::sleep(LOOK_EVERY);
            subject.renew();
            let time = self.virtual_time(subject);
            in_flight.iter_mut().for_each(|flight| flight.pass(subject, time.since(before)));
            before = time;
        }
        in_flight
    }

    fn virtual_time(&self, subject: &Subject) -> ClockNs {
        now().minus(subject.state(self.number, &self.clock).delay_ns)
    }
}

/// The start or the end of the measured part of an experiment.
struct Moment {
    time: ClockNs,
    state: RoundState,
    load: Change,
}

impl Moment {
    fn read(work: &mut Work, subject: &Subject) -> Self {
        let state = subject.state(work.number, &work.clock);
        let time = now();
        Self { time, state, load: work.load.read(subject.pid) }
    }
}

/// What is between the two ends of a latency point.
#[derive(Debug, Default)]
struct InFlight {
    name: String,
    arrivals: u64,
    departures: u64,
    first: (u64, u64),
    sum_ns: u64,
}

impl InFlight {
    fn counts(&self, subject: &Subject) -> (u64, u64) {
        let points = subject.points();
        let sum = |wanted: u32| {
            let same = points.iter().filter(|point| point.kind == wanted && point.name == self.name);
            same.map(|point| point.count).sum()
        };
        (sum(kind::BEGIN), sum(kind::END))
    }

    fn start(&mut self, subject: &Subject) {
        self.first = self.counts(subject);
    }

    fn pass(&mut self, subject: &Subject, ns: u64) {
        let (begun, ended) = self.counts(subject);
        self.sum_ns += begun.saturating_sub(ended) * ns;
        self.arrivals = begun.saturating_sub(self.first.0);
        self.departures = ended.saturating_sub(self.first.1);
    }
}

fn outcome(subject: &Subject, from: &Moment, to: &Moment, in_flight: &[InFlight]) -> Outcome {
    let length_ns = to.time.since(from.time);
    // Virtual time since the round started, when the measurement began.
    let start = from.state.since_start_ns.saturating_sub(from.state.delay_ns);
    let mut visits: Vec<PointVisits> = Vec::new();
    for (point, seen) in subject.points().iter().zip(&to.state.visits) {
        if matches!(point.kind, kind::THROUGHPUT | kind::ENTRY) && seen.count > 0 {
            visits.push(PointVisits {
                point: SeenPoint { name: point.name.clone(), is_latency: false },
                count: seen.count,
                first_ns: seen.first_ns.saturating_sub(start),
                last_ns: seen.last_ns.saturating_sub(start),
                ..PointVisits::default()
            });
        }
    }
    visits.extend(in_flight.iter().map(|flight| PointVisits {
        point: SeenPoint { name: flight.name.clone(), is_latency: true },
        count: flight.departures,
        arrivals: flight.arrivals,
        in_flight_ns: flight.sum_ns,
        ..PointVisits::default()
    }));
    Outcome {
        start: from.time,
        length_ns,
        delay_ns: to.state.delay_ns.saturating_sub(from.state.delay_ns),
        hits: to.state.hits,
        samples: to.state.samples,
        queued: to.load.queued_behind_others_ns() as f64 / length_ns.max(1) as f64,
        busy_threads: to.load.busy(length_ns),
        waits: to.state.waits.saturating_sub(from.state.waits),
        visits,
    }
}
