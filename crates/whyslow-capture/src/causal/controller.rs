//! The thread that carries out experiments.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use whyslow_agent_host::{Clock, InFlight, PointName, RoundPlan, RoundState, Subject, SubjectSlot};
use whyslow_agent_wire::causal::kind;
use whyslow_numbers::ClockNs;
use whyslow_proc::{now, process};

use super::load::{Change, Load};
use super::run::{Begun, RunSlot};
use super::{
    CausalOptions, CausalShared, Director, Outcome, PlannedExperiment, PointCount, PointVisits, SeenPoint,
    SharedDirector, Step,
};

/// The part of an experiment that is not measured.
const WARMUP: f64 = 0.15;
/// How often points that begin and end are read.
const LOOK_EVERY: Duration = Duration::from_micros(500);
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
    pub(crate) fn start(
        subject: SubjectSlot,
        whole_run: RunSlot,
        options: &CausalOptions,
    ) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let work = Work {
            subject,
            whole_run,
            shared: options.shared.clone(),
            director: Arc::clone(&options.director),
            ends_program: options.ends_program,
            stop: Arc::clone(&stop),
            clock: Clock::start(),
            load: Load::default(),
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

/// What is experimented on.
enum Found {
    /// A running program.
    Running(Subject),
    /// A run that is one experiment.
    WholeRun(Begun),
}

struct Work {
    subject: SubjectSlot,
    /// The run, if it is one experiment.
    whole_run: RunSlot,
    shared: CausalShared,
    director: SharedDirector,
    /// Whether the program ends with the experiments.
    ends_program: bool,
    stop: Arc<AtomicBool>,
    clock: Clock,
    load: Load,
    /// The number of the last round.
    number: u64,
    /// The number of the next sample.
    sampled: u64,
}

impl Work {
    fn run(mut self) {
        while let Some(found) = self.wait_for_program() {
            let subject = match found {
                Found::Running(subject) => subject,
                Found::WholeRun(begun) => {
                    self.whole_run(&begun);
                    break;
                }
            };
            let step = self.director().next();
            match step {
                Step::Watch(length) => {
                    self.sleep(&subject, length);
                    self.show(&subject);
                }
                Step::Try(trial) => {
                    let outcome = self.experiment(&subject, &trial);
                    self.show(&subject);
                    self.director().ended(outcome);
                }
                Step::Stop => break,
            }
        }
        let Some(subject) = self.subject() else { return };
        subject.end();
        // A program that ended at once was never seen running.
        self.show(&subject);
        if self.ends_program && !self.is_stopped() {
            self.end_program(&subject);
        }
    }

    /// Waits for the end of a run that is one experiment.
    fn whole_run(&mut self, begun: &Begun) {
        let Some(subject) = self.subject() else { return };
        let goes_on = || {
            self.subject().iter().for_each(Subject::renew);
            self.goes_on()
        };
        let ended = begun.wait(subject.pid, goes_on);
        let Some(subject) = self.subject() else { return };
        self.clock.adjust();
        let outcome = ended.map(|ended| ended.outcome(&subject, &self.clock));
        self.director().ended(outcome);
    }

    /// Asks the program to end, and after a while makes it. Ctrl-C has reached it already.
    fn end_program(&self, subject: &Subject) {
        let has_got_one = self.shared.is_interrupted();
        let signals = [None, Some(Signal::TERM), Some(Signal::KILL)];
        for signal in signals.into_iter().skip(usize::from(!has_got_one)) {
            let pid = i32::try_from(subject.pid).ok().and_then(Pid::from_raw);
            let Some(pid) = pid.filter(|_| process::runs(subject.pid)) else { return };
            if let Some(signal) = signal {
                // It may have ended by itself in the meantime.
                let _ = kill_process(pid, signal);
            }
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

    /// Whether there may be another experiment.
    fn goes_on(&self) -> bool {
        !self.is_stopped() && !self.shared.is_interrupted()
    }

    fn subject(&self) -> Option<Subject> {
        self.subject.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The running program. `None` if the recording is over. The program may have executed another one.
    fn wait_for_program(&self) -> Option<Found> {
        let mut wait = Duration::ZERO;
        loop {
            if let Some(begun) = self.whole_run.take(wait) {
                return Some(Found::WholeRun(begun));
            }
            if !self.goes_on() {
                return None;
            }
            if let Some(subject) = self.subject().filter(Subject::has_begun) {
                subject.renew();
                if process::runs(subject.pid) {
                    // A whole run begins before the agent does.
                    let begun = self.whole_run.take(Duration::ZERO);
                    return Some(begun.map_or(Found::Running(subject), Found::WholeRun));
                }
            }
            wait = START_EVERY;
        }
    }

    /// Sleeps, and shows the program that somebody is at work. Returns early when the recording ends.
    fn sleep(&self, subject: &Subject, length: Duration) {
        let end = now().plus(length.as_nanos() as u64);
        loop {
            let left = Duration::from_nanos(end.since(now()));
            if left.is_zero() || !self.goes_on() {
                return;
            }
            std::thread::sleep(left.min(RENEW_EVERY));
            subject.renew();
        }
    }

    /// Shows the director what was sampled and visited.
    fn show(&mut self, subject: &Subject) {
        let addresses = subject.addresses(&mut self.sampled);
        let mut modules = self.shared.modules();
        modules.read(subject.pid);
        let by_module = modules.by_module(&addresses);
        drop(modules);
        let is_known = |point: &PointName| point.kind != kind::NONE;
        let points = subject.points().into_iter().filter(is_known);
        let points: Vec<PointCount> =
            points.map(|point| PointCount { name: point.name, count: point.count }).collect();
        let mut director = self.director();
        director.sampled(&by_module);
        director.visited(&points);
    }

    fn experiment(&mut self, subject: &Subject, trial: &PlannedExperiment) -> Option<Outcome> {
        self.clock.adjust();
        self.number += 1;
        let warmup = trial.length.mul_f64(WARMUP);
        let ranges = self.shared.modules().placed(&trial.ranges);
        subject.set_period(trial.period.as_nanos() as u64);
        let reach = trial.reach.on_wire();
        let plan = RoundPlan { ranges: &ranges, reach, speedup: trial.speedup, warmup };
        subject.begin(self.number, &plan, &self.clock);
        self.sleep(subject, warmup);
        let from = Moment::read(self, subject);
        let latencies = self.measure(subject, trial.length - warmup);
        let to = Moment::read(self, subject);
        subject.end();
        let is_whole = process::runs(subject.pid) && self.goes_on();
        is_whole.then(|| outcome(subject, &from, &to, &latencies))
    }

    /// Waits for the end, and adds up what is in flight between points that begin and end.
    fn measure(&self, subject: &Subject, length: Duration) -> Vec<Latency> {
        let points = subject.points();
        let mut latencies: Vec<Latency> = Vec::new();
        for point in points.into_iter().filter(|point| point.kind == kind::BEGIN) {
            if !latencies.iter().any(|known| known.name == point.name) {
                let first = subject.in_flight(self.number, &point.name, &self.clock);
                latencies.push(Latency { name: point.name, first, last: first, sum_ns: 0 });
            }
        }
        if latencies.is_empty() {
            self.sleep(subject, length);
            return latencies;
        }
        let mut before = now();
        let end = before.plus(length.as_nanos() as u64);
        while before < end && self.goes_on() {
            std::thread::sleep(LOOK_EVERY);
            subject.renew();
            let time = now();
            for latency in &mut latencies {
                let now = subject.in_flight(self.number, &latency.name, &self.clock);
                latency.pass(now, time.since(before));
            }
            before = time;
        }
        latencies
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

/// A latency point in an experiment. What is in flight is looked at from time to time, which is right on average. The
/// time of delays is taken out where they begin, by the agent:
///
/// ```text
/// virtual time in flight = ∫ in flight · d time - ∫ in flight · d common delay
/// ```
#[derive(Debug)]
struct Latency {
    name: String,
    first: InFlight,
    last: InFlight,
    sum_ns: u64,
}

impl Latency {
    fn pass(&mut self, now: InFlight, ns: u64) {
        self.sum_ns += now.begun.saturating_sub(now.ended) * ns;
        self.last = now;
    }

    fn visits(&self) -> PointVisits {
        let Self { name, first, last, sum_ns } = self;
        PointVisits {
            point: SeenPoint { name: name.clone(), is_latency: true },
            count: last.ended.saturating_sub(first.ended),
            arrivals: last.begun.saturating_sub(first.begun),
            in_flight_ns: sum_ns.saturating_sub(last.delayed_ns.saturating_sub(first.delayed_ns)),
            ..PointVisits::default()
        }
    }
}

fn outcome(subject: &Subject, from: &Moment, to: &Moment, latencies: &[Latency]) -> Outcome {
    let length_ns = to.time.since(from.time);
    // Virtual time since the round started, when the measurement began.
    let start = from.state.since_start_ns.saturating_sub(from.state.delay_ns);
    let mut visits: Vec<PointVisits> = Vec::new();
    for (point, seen) in subject.points().iter().zip(&to.state.visits) {
        if matches!(point.kind, kind::THROUGHPUT | kind::CODE) && seen.count > 0 {
            visits.push(PointVisits {
                point: SeenPoint { name: point.name.clone(), is_latency: false },
                count: seen.count,
                first_ns: seen.first_ns.saturating_sub(start),
                last_ns: seen.last_ns.saturating_sub(start),
                ..PointVisits::default()
            });
        }
    }
    visits.extend(latencies.iter().map(Latency::visits));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_taken_out_of_the_time_in_flight() {
        let at = |begun, ended, delayed_ns| InFlight { begun, ended, delayed_ns };
        let first = at(5, 5, 1_000);
        let mut latency = Latency { name: "request".to_owned(), first, last: first, sum_ns: 0 };
        latency.pass(at(7, 5, 1_000), 10_000);
        latency.pass(at(8, 7, 4_000), 10_000);
        latency.pass(at(8, 8, 4_000), 10_000);
        let PointVisits { count, arrivals, in_flight_ns, .. } = latency.visits();
        assert_eq!((count, arrivals, in_flight_ns), (3, 3, 2 * 10_000 + 10_000 - 3_000));
    }
}
