//! Chooses the experiments: watches the program, picks targets, then tries what the schedule says until all is decided
//! or the budget ends.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use whyslow_capture::{Conditions, Director, ModuleSamples, Outcome, PlannedExperiment, Reach, Step};
use whyslow_causal::schedule::{Next, Schedule};
use whyslow_numbers::Start;
use whyslow_profile::{Builder, CausalNote, Note, TargetId};

use super::points::NamedPoint;
use super::tables::Tables;
use super::targets::{Sampled, Target, Wanted, choose};

/// What the user asks for.
#[derive(Debug, Clone)]
pub(crate) struct Wish {
    /// The targets.
    pub(crate) wanted: Wanted,
    /// How long to experiment.
    pub(crate) budget: Duration,
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
/// So few samples say little about which code is hot.
const FEW_SAMPLES: u64 = 200;
/// Targets are looked for at most so often before that is given up.
const MOST_LOOKS: u32 = 8;
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
/// Where threads wait for each other more often than once in so many periods, samples are taken more often.
const PERIODS_PER_WAIT: f64 = 5.0;
const SHORTEST_PERIOD: Duration = Duration::from_micros(100);

/// A larger share of stacks without their outer callers is named.
const MOST_CUT: f64 = 0.02;

/// The state of the experiments, over all runs of the program.
#[derive(Debug)]
pub(crate) struct Experimenter {
    wish: Wish,
    started: Option<Instant>,
    /// Whether the program of this run was watched.
    is_watched: bool,
    run: u32,
    sampled: Sampled,
    /// Samples in the code that may be a target and all samples, when targets were chosen.
    in_scope: (u64, u64),
    looks: u32,
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
        Self {
            wish,
            started: None,
            is_watched: false,
            run: 0,
            sampled: Sampled::default(),
            in_scope: (0, 0),
            looks: 0,
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

    /// What became of the agent.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Picks targets by the samples so far. False if there are none yet.
    fn find_targets(&mut self) -> bool {
        self.looks += 1;
        let (targets, in_scope) = choose(&self.sampled, &self.wish.wanted);
        self.in_scope = (in_scope, self.sampled.total);
        if targets.is_empty() || (in_scope < FEW_SAMPLES && self.looks < MOST_LOOKS) {
            return false;
        }
        let placebo = self.tables.placebo();
        self.targets = targets.into_iter().map(|target| (self.tables.target(&target), target)).collect();
        let ids = self.targets.iter().map(|(id, _)| *id);
        self.schedule = Some(Schedule::new(placebo, ids, self.wish.cpus, u64::from(std::process::id())));
        true
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
        if let Some(least) = visits.into_iter().filter(|count| *count > 0).min() {
            let wanted = Duration::from_nanos(length_ns).mul_f64(ENOUGH_VISITS / least as f64);
            self.length = wanted.clamp(LENGTH, LONGEST);
        }
        if self.waits_per_second > 0.0 {
            let wanted = Duration::from_secs_f64(1.0 / self.waits_per_second / PERIODS_PER_WAIT);
            self.period = wanted.clamp(SHORTEST_PERIOD.min(self.wish.period), self.wish.period);
        }
    }

    /// One line on the terminal.
    fn show_progress(&self) {
        let (Some(schedule), true) = (&self.schedule, self.wish.shows_progress) else { return };
        if !std::io::stderr().is_terminal() {
            return;
        }
        let progress = schedule.progress();
        let left = self
            .wish
            .budget
            .saturating_sub(self.started.map(|started| started.elapsed()).unwrap_or_default());
        crate::output::note(&format!(
            "\r\x1b[Kwhyslow: {} of {} targets decided, {} experiments, at most {} s left ",
            progress.decided,
            progress.targets,
            progress.experiments,
            left.as_secs()
        ));
    }

    /// What to do next.
    fn choose(&mut self) -> Step {
        let started = *self.started.get_or_insert_with(Instant::now);
        if started.elapsed() >= self.wish.budget {
            return Step::Stop;
        }
        if !std::mem::replace(&mut self.is_watched, true) {
            return Step::Watch(if self.schedule.is_some() { START } else { WATCH });
        }
        if self.schedule.is_none() && !self.find_targets() {
            if self.looks >= MOST_LOOKS {
                return Step::Stop;
            }
            return Step::Watch(WATCH);
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
        let target = self.targets.iter().find(|(id, _)| Some(*id) == next.target);
        let reach = match target {
            Some((_, target)) if target.with_callees() => Reach::Callees,
            _ if self.targets.iter().any(|(_, target)| target.with_callees()) => Reach::OwnAtCost,
            _ => Reach::Own,
        };
        let ranges = target.map(|(_, target)| target.ranges.clone()).unwrap_or_default();
        let (length, period) = (self.length, self.period);
        Step::Try(PlannedExperiment { ranges, reach, speedup: next.speedup, length, period })
    }

    /// The note that visits of a point slow the program down.
    fn cost(&self, point: &NamedPoint) -> Option<CausalNote> {
        let rows = &self.tables.rows;
        let visits = rows.visits.iter().filter(|row| self.tables.point_name(row.point) == point.name);
        let visits: u64 = visits.map(|row| row.count).sum();
        let length_ns: u64 = rows.experiments.iter().map(|row| row.length_ns).sum();
        let cost_permille = (visits * point.cost_ns * 1000).checked_div(length_ns)?;
        (cost_permille > COSTLY_PERMILLE).then(|| CausalNote::CausalCostlyPoint {
            point: point.name.clone(),
            per_second: visits * 1_000_000_000 / length_ns,
            visit_ns: point.cost_ns,
            cost_permille,
        })
    }

    fn notes(&self) -> Vec<Note> {
        let rows = &self.tables.rows;
        let mut notes: Vec<Note> = Vec::new();
        let (samples, of) = self.in_scope;
        let few = of > 0 && samples * 10 < of;
        if few || self.targets.is_empty() {
            let scope = self.wish.wanted.scope_name();
            let note = CausalNote::CausalFewInScope { samples, of, scope };
            notes.push(note.into());
        }
        if let Some(schedule) = &self.schedule {
            let progress = schedule.progress();
            let undecided = (progress.targets - progress.decided) as u64;
            if undecided > 0 {
                notes.push(CausalNote::CausalBudgetEnded { undecided }.into());
            }
        }
        let busy: Vec<f64> = rows.experiments.iter().map(|row| f64::from(row.busy_threads)).collect();
        let threads = if busy.is_empty() { 0.0 } else { whyslow_stats::median(&busy) } as u64;
        let cpus = u64::from(self.wish.cpus);
        if threads > cpus {
            notes.push(CausalNote::CausalThreadsBeyondCpus { threads, cpus }.into());
        }
        let finest = SHORTEST_PERIOD.min(self.wish.period).as_secs_f64();
        if self.waits_per_second * finest * PERIODS_PER_WAIT > 1.0 {
            notes.push(
                CausalNote::CausalFineGrained {
                    per_second: self.waits_per_second as u64,
                    period_ns: self.period.as_nanos() as u64,
                }
                .into(),
            );
        }
        let (of, cut) = self.conditions.looks;
        if cut as f64 > of as f64 * MOST_CUT {
            notes.push(CausalNote::CausalStacksCut { cut, of }.into());
        }
        let visited = |name: &str| {
            let is_it =
                |row: &whyslow_profile::Visits| row.count > 0 && self.tables.point_name(row.point) == name;
            rows.visits.iter().any(is_it)
        };
        let names = self.wish.points.iter().map(|point| &point.name);
        let unvisited: Vec<String> = names.filter(|name| !visited(name)).cloned().collect();
        if !unvisited.is_empty() {
            notes.push(CausalNote::CausalUnvisited { points: unvisited }.into());
        }
        notes.extend(self.wish.points.iter().filter_map(|point| self.cost(point)).map(Note::from));
        let (length, delay) = rows
            .experiments
            .iter()
            .fold((0, 0), |(length, delay), row| (length + row.length_ns, delay + row.delay_ns));
        if let Some(delayed_permille) = (delay * 1000).checked_div(length) {
            notes.push(CausalNote::CausalDelays { delayed_permille }.into());
        }
        notes
    }
}

impl Director for Experimenter {
    fn sampled(&mut self, modules: &[ModuleSamples]) {
        self.sampled.add(modules);
    }

    fn next(&mut self) -> Step {
        let step = self.choose();
        if step == Step::Stop {
            (self.is_over, self.has_ended_program) = (true, true);
        }
        step
    }

    fn ended(&mut self, outcome: Option<Outcome>) {
        let Next { target, speedup } = self.current;
        match (outcome, &mut self.schedule) {
            (Some(outcome), _) => {
                if target.is_none() {
                    let busy_s = f64::from(outcome.busy_threads.max(1)) * outcome.length_ns as f64 / 1e9;
                    self.waits_per_second = outcome.waits as f64 / busy_s.max(1e-9);
                }
                self.tables.experiment(target, speedup, self.run, &outcome);
            }
            (None, Some(schedule)) => schedule.again(self.current),
            (None, None) => {}
        }
    }

    fn finish(&mut self, conditions: &Conditions, start: Start, rows: &mut Builder) -> Vec<Note> {
        if self.wish.shows_progress && std::io::stderr().is_terminal() {
            crate::output::note("\r\x1b[K");
        }
        self.conditions = conditions.clone();
        self.run += 1;
        self.is_watched = false;
        self.tables.count_shares();
        self.tables.write(start, rows);
        self.notes()
    }
}
