//! Chooses the experiments: watches the program, picks targets, then tries what the schedule says until all is decided
//! or the budget ends.

mod notes;

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use whyslow_capture::{
    CodeRange, Conditions, Director, ModuleSamples, Outcome, PlannedExperiment, PointCount, Reach, Step,
    WholeRun,
};
use whyslow_causal::SAMPLES_PER_WAIT;
use whyslow_causal::schedule::{Next, Schedule};
use whyslow_numbers::Start;
use whyslow_profile::{Builder, ExitStatus, Note, TargetId};

use super::points::NamedPoint;
use super::problem::{Problem, not_sampled};
use super::tables::Tables;
use super::targets::{Choice, Sampled, Target, Wanted, choose};
use super::whole_runs::{is_too_long, targets_that_fit};
use crate::failure::warn;

/// What the user asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// The targets.
    pub(crate) wanted: Wanted,
    /// How long to experiment.
    pub(crate) budget: Duration,
    /// The program is started at most so often.
    pub(crate) runs: u32,
    /// CPU time between two samples of a thread.
    pub(crate) period: Duration,
    /// The number of CPUs.
    pub(crate) cpus: u32,
    /// The progress points that are code.
    pub(crate) points: Vec<NamedPoint>,
    /// Whether to show progress on the terminal.
    pub(crate) shows_progress: bool,
}

/// The program runs so long before its first experiment, and between looks for targets.
const WATCH: Duration = Duration::from_millis(1500);
/// The time of later runs without experiments.
const START: Duration = Duration::from_millis(50);
/// The target that is never hit is the first row.
const PLACEBO: TargetId = TargetId(0);
/// The most targets that are chosen by samples.
const MOST_TARGETS: usize = 8;
/// A run may take so many times longer than the one before, before it is ended.
const LONGER: u32 = 4;
const SHORTEST_LIMIT: Duration = Duration::from_secs(10);
/// So few samples say little about which code is hot.
const FEW_SAMPLES: u64 = 200;
/// Targets are looked for at most so often before that is given up.
const MOST_LOOKS: u32 = 8;
/// Lines about progress are so far apart.
const LINES_APART: Duration = Duration::from_secs(5);
/// Names that were not sampled by then are said to be wrong.
const FEW_LOOKS: u32 = 3;
/// After so many experiments an overloaded machine is no accident.
const EXPERIMENTS_OF_LOAD: usize = 40;
const RUNS_OF_LOAD: usize = 8;
/// So many experiments without any progress point are enough to see that there is none.
const WITHOUT_POINT: usize = 20;
/// The length of an experiment, unless points are rarely visited.
const LENGTH: Duration = Duration::from_millis(110);
const LONGEST: Duration = Duration::from_millis(1500);
/// A point should be visited so often in an experiment.
const ENOUGH_VISITS: f64 = 8.0;
/// Points whose visits take more of a CPU's time than this, in thousandths, are worth a word.
const COSTLY_PERMILLE: u64 = 30;
/// Experiments before the length and the period are adapted.
const FIRST_BASELINES: usize = 4;
/// Where threads wait for each other too often for the samples, these are taken more often, but not more often than this:
/// every 100 µs slowed programs with locks by 40 to 49 %, and their effects were 2 points nearer to the truth.
const SHORTEST_PERIOD: Duration = Duration::from_micros(200);

/// A larger share of stacks without their outer callers is named.
const MOST_CUT: f64 = 0.02;

/// What progress is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// The user names no point, and the program has not visited one yet.
    Unknown,
    /// Points that are visited while the program runs.
    Points,
    /// The whole run.
    WholeRuns,
}

/// The state of the experiments, over all runs of the program.
#[derive(Debug)]
pub(crate) struct Experimenter {
    wish: Wish,
    progress: Progress,
    started: Option<Instant>,
    /// Whether the program of this run was watched.
    is_watched: bool,
    run: u32,
    /// When this run began.
    run_began: Option<Instant>,
    /// When the run before ended.
    lap_began: Instant,
    /// A whole run that has ended. Whether it counts depends on its exit code.
    ended_run: Option<Outcome>,
    /// What is tried with the next whole run.
    next_run: Option<Next>,
    /// When progress was last shown.
    shown_at: Option<Instant>,
    /// Whether the user was told that runs are too long.
    is_warned: bool,
    problem: Option<Problem>,
    /// How long the last run took.
    last_run: Duration,
    sampled: Sampled,
    /// Samples in the code that may be a target and all samples, when targets were chosen.
    in_scope: (u64, u64),
    looks: u32,
    /// How long runs took that ended before a look at their samples: they are looked at together.
    unseen: Duration,
    /// Whether there would be targets.
    has_candidates: bool,
    targets: Vec<(TargetId, Target)>,
    schedule: Option<Schedule>,
    current: Next,
    length: Duration,
    period: Duration,
    /// How often threads were woken, per second of each busy thread, in the last baseline.
    waits_per_second: f64,
    tables: Tables,
    conditions: Conditions,
    is_over: bool,
    has_ended_program: bool,
}

impl Experimenter {
    /// No experiments yet.
    pub(crate) fn new(wish: Wish) -> Self {
        let tables = Tables::with_sources(&wish.points);
        let (length, period) = (LENGTH, wish.period);
        let progress = if wish.points.is_empty() { Progress::Unknown } else { Progress::Points };
        Self {
            wish,
            progress,
            started: None,
            is_watched: false,
            run: 0,
            run_began: None,
            lap_began: Instant::now(),
            ended_run: None,
            next_run: None,
            shown_at: None,
            is_warned: false,
            problem: None,
            last_run: Duration::ZERO,
            sampled: Sampled::default(),
            in_scope: (0, 0),
            looks: 0,
            unseen: Duration::ZERO,
            has_candidates: false,
            targets: Vec::new(),
            schedule: None,
            current: Next { target: None, speedup: 0.0 },
            length,
            period,
            waits_per_second: 0.0,
            tables,
            conditions: Conditions::default(),
            is_over: false,
            has_ended_program: false,
        }
    }

    /// Whether there is nothing more to try: the program is not started again.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over || self.started.is_some_and(|started| started.elapsed() >= self.wish.budget)
    }

    /// Whether the program ended because there was nothing more to try.
    pub(crate) fn has_ended_program(&self) -> bool {
        self.has_ended_program
    }

    /// Why there is no answer, if whole runs cannot be compared.
    pub(crate) fn problem(&self) -> Option<&Problem> {
        self.problem.as_ref()
    }

    /// What became of the program and the agent.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// The time since the first experiment was asked for.
    fn elapsed(&self) -> Duration {
        self.started.map(|started| started.elapsed()).unwrap_or_default()
    }

    /// What could be a target by the samples so far.
    fn look(&mut self) -> Choice {
        self.looks += 1;
        let choice = choose(&self.sampled, &self.wish.wanted);
        let samples = self.sampled.total;
        self.in_scope = (choice.in_scope, samples);
        let is_seen = choice.in_scope >= FEW_SAMPLES && self.looks >= FEW_LOOKS;
        if is_seen && choice.targets.is_empty() && !choice.missing.is_empty() {
            self.problem = Some(Problem::NotSampled { wanted: choice.missing.clone(), samples });
        }
        choice
    }

    /// Picks targets by the samples so far. False if there are none yet.
    fn find_targets(&mut self) -> bool {
        let Choice { targets, in_scope, missing } = self.look();
        let is_early = self.looks < MOST_LOOKS && self.elapsed() < self.wish.budget / 2;
        if targets.is_empty() || (in_scope < FEW_SAMPLES && is_early) {
            return false;
        }
        if self.wish.shows_progress {
            self.clear_line();
            missing.iter().for_each(|(what, near)| warn(&not_sampled(what, near)));
        }
        self.tables.placebo();
        self.targets = targets.into_iter().map(|target| (self.tables.target(&target), target)).collect();
        self.schedule = self.new_schedule();
        true
    }

    fn new_schedule(&self) -> Option<Schedule> {
        let ids = self.targets.iter().map(|(id, _)| *id);
        Some(Schedule::new(PLACEBO, ids, self.wish.cpus, u64::from(std::process::id())))
    }

    /// The code of the target of an experiment.
    fn ranges_of(&self, next: Next) -> Vec<CodeRange> {
        let target = self.targets.iter().find(|(id, _)| Some(*id) == next.target);
        target.map(|(_, target)| target.ranges.clone()).unwrap_or_default()
    }

    /// What belongs to the target of an experiment besides its own code.
    fn reach_of(&self, next: Next) -> Reach {
        match self.targets.iter().find(|(id, _)| Some(*id) == next.target) {
            Some((_, target)) if target.with_callees() => Reach::Callees,
            _ if self.targets.iter().any(|(_, target)| target.with_callees()) => Reach::OwnAtCost,
            _ => Reach::Own,
        }
    }

    /// Whether it is certain enough that other programs use the CPUs: then more experiments say nothing either.
    fn is_overloaded(&self) -> bool {
        let queued = self.tables.rows.experiments.iter().map(|row| row.queued);
        let (all, overloaded) = queued.fold((0, 0), |(all, overloaded), queued| {
            (all + 1, overloaded + usize::from(queued > whyslow_causal::QUEUED_LIMIT))
        });
        let least = if self.progress == Progress::WholeRuns { RUNS_OF_LOAD } else { EXPERIMENTS_OF_LOAD };
        all >= least && overloaded * 10 >= all * 9
    }

    /// Makes experiments longer if points are rarely visited, and samples denser if threads often wait.
    fn adapt(&mut self) {
        let rows = &self.tables.rows;
        let baselines = rows.experiments.iter().filter(|row| row.is_baseline());
        let (count, length_ns) = baselines.fold((0, 0), |(count, ns), row| (count + 1, ns + row.length_ns));
        if count < FIRST_BASELINES {
            return;
        }
        let mut visits = vec![0; rows.points.len()];
        for row in rows.visits.iter().filter(|row| rows.experiments[row.experiment.index()].is_baseline()) {
            visits[row.point.index()] += row.count;
        }
        if self.progress == Progress::WholeRuns {
            // A run has the length that it has.
        } else if let Some(least) = visits.into_iter().filter(|count| *count > 0).min() {
            let wanted = Duration::from_nanos(length_ns).mul_f64(ENOUGH_VISITS / least as f64);
            self.length = wanted.clamp(LENGTH, LONGEST);
        }
        if self.waits_per_second > 0.0 {
            let wanted = Duration::from_secs_f64(1.0 / self.waits_per_second / SAMPLES_PER_WAIT);
            self.period = wanted.clamp(SHORTEST_PERIOD.min(self.wish.period), self.wish.period);
        }
    }

    /// The program has ended.
    fn end_run(&mut self, exit: Option<ExitStatus>) {
        let is_good = exit == Some(ExitStatus::Code(0));
        if let Some(outcome) = self.ended_run.take().filter(|_| is_good) {
            let Next { target, speedup } = self.current;
            self.note_waits(&outcome);
            self.tables.whole_run(target, speedup, self.run, &outcome);
        }
        if self.progress == Progress::Unknown {
            if self.has_ended_program && self.in_scope.0 > 0 && self.problem.is_none() {
                self.problem = Some(Problem::Endless { budget: self.wish.budget });
            } else if !self.has_ended_program {
                self.progress = Progress::WholeRuns;
            }
        }
        if self.progress == Progress::WholeRuns && is_good {
            self.plan_run();
        }
        self.last_run = self.run_began.map(|began| began.elapsed()).unwrap_or_default();
    }

    /// A run that takes longer is ended.
    fn longest_run(&self) -> Duration {
        self.last_run.saturating_mul(LONGER).max(SHORTEST_LIMIT)
    }

    /// How often threads wait for each other, from a baseline.
    fn note_waits(&mut self, outcome: &Outcome) {
        if self.current.target.is_none() {
            let busy_s = f64::from(outcome.busy_threads.max(1)) * outcome.length_ns as f64 / 1e9;
            self.waits_per_second = outcome.waits as f64 / busy_s.max(1e-9);
        }
    }

    /// One line on the terminal. Before it is clear that there are progress points, and with whole runs, each is a line of
    /// its own: the program prints between.
    fn show_progress(&mut self) {
        if !(self.wish.shows_progress && std::io::stderr().is_terminal()) {
            return;
        }
        let left = self.wish.budget.saturating_sub(self.elapsed()).as_secs();
        let text = match self.schedule.as_ref().map(Schedule::progress) {
            Some(progress) => format!(
                "whyslow: {} of {} targets decided, {} experiments, at most {left} s left ",
                progress.decided, progress.targets, progress.experiments
            ),
            None => format!("whyslow: looking for targets, at most {left} s left "),
        };
        if self.progress == Progress::Points {
            crate::output::note(&format!("\r\x1b[K{text}"));
        } else if self.shown_at.is_none_or(|at| at.elapsed() >= LINES_APART) {
            self.shown_at = Some(Instant::now());
            crate::output::note(&format!("{}\n", text.trim_end()));
        }
    }

    /// Clears the line about progress.
    fn clear_line(&self) {
        let is_shown = self.wish.shows_progress && self.progress == Progress::Points;
        if is_shown && std::io::stderr().is_terminal() {
            crate::output::note("\r\x1b[K");
        }
    }

    /// What to do next.
    fn choose(&mut self) -> Step {
        let started = *self.started.get_or_insert_with(Instant::now);
        if started.elapsed() >= self.wish.budget {
            return Step::Stop;
        }
        if !std::mem::replace(&mut self.is_watched, true) {
            self.show_progress();
            let is_due = self.progress == Progress::Points && self.unseen >= WATCH;
            if self.schedule.is_none() && is_due && !self.find_targets() {
                if self.looks >= MOST_LOOKS || self.problem.is_some() {
                    return Step::Stop;
                }
                self.unseen = Duration::ZERO;
            }
            return Step::Watch(if self.schedule.is_some() { START } else { WATCH });
        }
        match self.progress {
            Progress::Unknown => return self.look_for_progress(),
            // A run that finds targets is none of the experiments.
            Progress::WholeRuns => return Step::Watch(WATCH),
            Progress::Points => {}
        }
        if self.schedule.is_none() && !self.find_targets() {
            if self.looks >= MOST_LOOKS || self.problem.is_some() {
                return Step::Stop;
            }
            return Step::Watch(WATCH);
        }
        if self.is_overloaded() {
            return Step::Stop;
        }
        let rows = &self.tables.rows;
        if rows.points.is_empty() && self.wish.points.is_empty() && rows.experiments.len() >= WITHOUT_POINT {
            return Step::Stop;
        }
        self.adapt();
        let Some(schedule) = &mut self.schedule else { return Step::Stop };
        let Some(next) = schedule.next(&self.tables.rows) else {
            return Step::Stop;
        };
        self.current = next;
        self.show_progress();
        let (ranges, reach) = (self.ranges_of(next), self.reach_of(next));
        let (length, period) = (self.length, self.period);
        Step::Try(PlannedExperiment { ranges, reach, speedup: next.speedup, length, period })
    }

    /// The program has not visited a point. It may do so later, and if it ends before, whole runs are compared.
    fn look_for_progress(&mut self) -> Step {
        if !self.has_candidates {
            self.has_candidates = !self.look().targets.is_empty();
            if self.problem.is_some() || (self.in_scope.0 == 0 && self.looks >= MOST_LOOKS) {
                return Step::Stop;
            }
        }
        let so_far = self.run_began.map(|began| began.elapsed()).unwrap_or_default();
        let is_hopeless = is_too_long(so_far, self.wish.budget);
        if is_hopeless && self.wish.shows_progress && !std::mem::replace(&mut self.is_warned, true) {
            warn(&Problem::early(so_far, self.wish.budget));
        }
        Step::Watch(WATCH)
    }

    /// A run has ended, and whole runs are compared: plans the next one, unless there is nothing more to try.
    fn plan_run(&mut self) {
        self.next_run = None;
        // With what it takes to start the program.
        let run = self.lap_began.elapsed();
        self.lap_began = Instant::now();
        let left = self.wish.budget.saturating_sub(self.elapsed());
        if self.schedule.is_none() {
            let most = if self.wish.wanted.is_by_name() { 1 } else { usize::MAX };
            match targets_that_fit(run, self.wish.budget, self.wish.runs, most.min(MOST_TARGETS)) {
                Ok(_) if !self.find_targets() => {
                    self.is_over = self.looks >= MOST_LOOKS || self.problem.is_some();
                    return;
                }
                Ok(fitting) if !self.wish.wanted.is_by_name() => self.keep_targets(fitting),
                Ok(_) => {}
                Err(problem) => {
                    self.problem = Some(problem);
                    self.is_over = true;
                    return;
                }
            }
        }
        self.adapt();
        let next = self.schedule.as_mut().and_then(|schedule| schedule.next(&self.tables.rows));
        self.next_run = next;
        self.is_over = next.is_none() || run > left || self.is_overloaded();
        self.show_progress();
    }

    /// Keeps the first targets, those with the most samples.
    fn keep_targets(&mut self, count: usize) {
        self.targets.truncate(count);
        self.tables.keep_targets(1 + count);
        self.schedule = self.new_schedule();
    }
}

impl Director for Experimenter {
    fn sampled(&mut self, modules: &[ModuleSamples]) {
        self.sampled.add(modules);
    }

    fn visited(&mut self, points: &[PointCount]) {
        if self.progress == Progress::Unknown && !points.is_empty() {
            self.progress = Progress::Points;
        }
    }

    fn whole_run(&mut self) -> Option<WholeRun> {
        let now = Instant::now();
        self.started.get_or_insert(now);
        self.run_began.get_or_insert(now);
        let next = self.next_run?;
        self.current = next;
        let (ranges, reach) = (self.ranges_of(next), self.reach_of(next));
        let (speedup, period, longest) = (next.speedup, self.period, self.longest_run());
        Some(WholeRun { ranges, reach, speedup, period, longest })
    }

    fn next(&mut self) -> Step {
        let step = self.choose();
        if step == Step::Stop {
            (self.is_over, self.has_ended_program) = (true, true);
        }
        step
    }

    fn ended(&mut self, outcome: Option<Outcome>) {
        if self.progress == Progress::WholeRuns {
            let run = self.run_began.map(|began| began.elapsed()).unwrap_or_default();
            self.has_ended_program = outcome.is_none() && run >= self.longest_run();
            self.ended_run = outcome;
            return;
        }
        let Next { target, speedup } = self.current;
        match (outcome, &mut self.schedule) {
            (Some(outcome), _) => {
                self.note_waits(&outcome);
                self.tables.experiment(target, speedup, self.run, &outcome);
            }
            (None, Some(schedule)) => schedule.again(self.current),
            (None, None) => {}
        }
    }

    fn finish(&mut self, conditions: &Conditions, start: Start, rows: &mut Builder) -> Vec<Note> {
        self.clear_line();
        self.conditions = conditions.clone();
        self.end_run(conditions.exit);
        self.run += 1;
        self.is_watched = false;
        self.unseen += self.run_began.take().map(|began| began.elapsed()).unwrap_or_default();
        self.tables.count_shares();
        self.tables.write(start, rows);
        self.notes()
    }
}
