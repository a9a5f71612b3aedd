//! Which experiment comes next.
//!
//! ```text
//! block   = each undecided target at each speed-up, and the placebo at one, shuffled; a baseline between every two
//! look    = after blocks 3, 4, 6, 9, 13, …: targets that are decided and precise get no more experiments
//! ```
//! Between looks the order does not depend on what was measured.

use std::collections::BTreeMap;

use whyslow_profile::{Causal, TargetId};
use whyslow_stats::random::Random;

use crate::estimate::{Estimates, Verdict, estimate};

/// The speed-ups of the experiments, unless others are wanted.
pub const SPEEDUPS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

/// A target is looked at after these numbers of blocks, then after half as many again.
const FIRST_LOOK: usize = 3;

/// How many experiments, with baselines, decide this many targets at the earliest.
pub fn least_experiments(targets: usize) -> usize {
    2 * FIRST_LOOK * (SPEEDUPS.len() * targets + 1) + 1
}

/// The next experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Next {
    /// What is sped up; `None` for a baseline.
    pub target: Option<TargetId>,
    /// By how much; 0 for a baseline.
    pub speedup: f64,
}

impl Next {
    const BASELINE: Self = Self { target: None, speedup: 0.0 };
}

/// How far the experiments are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Targets that are decided, without the placebo.
    pub decided: usize,
    /// All targets, without the placebo.
    pub targets: usize,
    /// Experiments so far, with baselines.
    pub experiments: usize,
    /// About how many more would decide everything, with baselines.
    pub missing: usize,
}

impl Progress {
    /// The share that is done, 0 to 1.
    pub fn share(&self) -> f64 {
        let all = self.experiments + self.missing;
        if all == 0 { 0.0 } else { self.experiments as f64 / all as f64 }
    }
}

#[derive(Debug, Clone, Copy)]
struct State {
    /// Experiments that would decide it.
    missing: usize,
    decided: bool,
    /// It is decided, and its effect is precise.
    done: bool,
    blocks: usize,
    next_look: usize,
}

/// Chooses experiments until every target is decided.
#[derive(Debug)]
pub struct Schedule {
    placebo: TargetId,
    speedups: Vec<f64>,
    cpus: u32,
    targets: BTreeMap<TargetId, State>,
    random: Random,
    /// The rest of the block, in reverse.
    block: Vec<Next>,
    blocks: usize,
    begun: usize,
    is_baseline_next: bool,
}

impl Schedule {
    /// A schedule of these targets and the placebo, for a machine with this many CPUs.
    pub fn new(placebo: TargetId, targets: impl IntoIterator<Item = TargetId>, cpus: u32, seed: u64) -> Self {
        let mut schedule = Self {
            placebo,
            speedups: SPEEDUPS.to_vec(),
            cpus,
            targets: BTreeMap::new(),
            random: Random::new(seed),
            block: Vec::new(),
            blocks: 0,
            begun: 0,
            is_baseline_next: true,
        };
        targets.into_iter().for_each(|target| schedule.add(target));
        schedule
    }

    /// The same with other speed-ups: shares above 0 and up to 1.
    #[must_use]
    pub fn with_speedups(mut self, speedups: &[f64]) -> Self {
        self.speedups =
            speedups.iter().copied().filter(|speedup| *speedup > 0.0 && *speedup <= 1.0).collect();
        self.block.clear();
        self
    }

    /// Adds a target, from the next block on: code that only became hot later.
    pub fn add(&mut self, target: TargetId) {
        let missing = FIRST_LOOK * self.speedups.len();
        let new = State { missing, decided: false, done: false, blocks: 0, next_look: FIRST_LOOK };
        self.targets.entry(target).or_insert(new);
    }

    /// The next experiment; `None` when every target is decided. A block always ends with a baseline.
    pub fn next(&mut self, causal: &Causal) -> Option<Next> {
        if self.block.is_empty() && !(self.begun > 0 && self.is_baseline_next) {
            self.look(causal);
            if !self.begin_block() {
                return None;
            }
        }
        self.begun += 1;
        let baseline = self.is_baseline_next;
        self.is_baseline_next = !baseline;
        if baseline { Some(Next::BASELINE) } else { self.block.pop() }
    }

    /// Says that the last experiment failed: the program ended during it. It is done again.
    pub fn again(&mut self, failed: Next) {
        self.begun = self.begun.saturating_sub(1);
        if failed.target.is_some() {
            self.block.push(failed);
        }
        // In a new run nothing is near, so it starts with a baseline.
        self.is_baseline_next = true;
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let decided = self.targets.values().filter(|state| state.decided).count();
        let open = self.targets.values().filter(|state| !state.done);
        let missing = open.map(|state| state.missing).sum::<usize>();
        Progress { decided, targets: self.targets.len(), experiments: self.begun, missing: 2 * missing }
    }

    fn begin_block(&mut self) -> bool {
        let open = self.targets.iter_mut().filter(|(_, state)| !state.done);
        let mut block = Vec::new();
        for (target, state) in open {
            state.blocks += 1;
            block.extend(self.speedups.iter().map(|&speedup| Next { target: Some(*target), speedup }));
        }
        if block.is_empty() {
            return false;
        }
        let speedup = self.speedups[self.blocks % self.speedups.len()];
        block.push(Next { target: Some(self.placebo), speedup });
        self.random.shuffle(&mut block);
        self.block = block;
        self.blocks += 1;
        true
    }

    /// Finds out which targets are decided: they have no effect, or one that is known to ±5 points.
    fn look(&mut self, causal: &Causal) {
        let is_due = |state: &State| !state.done && state.blocks >= state.next_look;
        if !self.targets.values().any(is_due) {
            return;
        }
        let Estimates { refused: None, points } = estimate(causal, self.cpus) else { return };
        for (target, state) in self.targets.iter_mut().filter(|(_, state)| is_due(state)) {
            state.next_look = (state.blocks + 1).max(state.blocks + state.blocks / 2);
            let of = |point: &crate::PointEstimates| point.rows.iter().position(|row| row.target == *target);
            // A point that is never visited decides nothing, and waits for nothing.
            let rows = points.iter().filter(|point| point.visits > 0);
            let rows = rows.filter_map(|point| Some(&point.rows[of(point)?])).collect::<Vec<_>>();
            let missing = |row: &&crate::Row| match row.verdict {
                Verdict::Undecided { missing } => missing,
                Verdict::Effect | Verdict::None { .. } => row.until_precise(),
            };
            state.decided = !rows.is_empty() && rows.iter().all(|row| row.verdict.is_decided());
            state.missing = rows.iter().map(missing).max().unwrap_or(self.speedups.len());
            state.done = state.missing == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACEBO: TargetId = TargetId(0);

    fn block(schedule: &mut Schedule, experiments: usize) -> Vec<Next> {
        (0..experiments).filter_map(|_| schedule.next(&Causal::default())).collect()
    }

    #[test]
    fn a_baseline_is_between_every_two_experiments() {
        let mut schedule = Schedule::new(PLACEBO, [TargetId(1), TargetId(2)], 2, 1);
        let all = block(&mut schedule, 41);
        for (at, next) in all.iter().enumerate() {
            assert_eq!(next.target.is_none(), at % 2 == 0, "{at}");
            assert_eq!(next.target.is_none(), next.speedup == 0.0);
        }
        assert_eq!(schedule.progress().experiments, 41);
    }

    #[test]
    fn a_block_has_each_target_at_each_speed_up_and_one_placebo() {
        let mut schedule = Schedule::new(PLACEBO, [TargetId(1), TargetId(2)], 2, 1);
        let of = |all: Vec<Next>| {
            let mut all =
                all.into_iter().filter_map(|next| Some((next.target?.0, next.speedup))).collect::<Vec<_>>();
            let order = all.clone();
            all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
            (all, order)
        };
        let first = of(block(&mut schedule, 18));
        let second = of(block(&mut schedule, 18));
        let targets = [1, 2].into_iter().flat_map(|target| SPEEDUPS.map(|speedup| (target, speedup)));
        let expected = |placebo| [(0, placebo)].into_iter().chain(targets.clone()).collect::<Vec<_>>();
        assert_eq!(first.0, expected(0.25));
        assert_eq!(second.0, expected(0.5), "the placebo takes turns");
        assert_ne!(first.1, second.1, "shuffled");
    }

    #[test]
    fn no_target_is_decided_before_the_least_number_of_experiments() {
        let mut schedule = Schedule::new(PLACEBO, [TargetId(1), TargetId(2)], 2, 1);
        block(&mut schedule, least_experiments(2) - 1);
        // The first look is before the first experiment of the fourth block.
        assert_eq!((schedule.blocks, schedule.block.len(), least_experiments(1)), (3, 0, 31));
    }

    #[test]
    fn a_failed_experiment_is_done_again_after_a_baseline() {
        let mut schedule = Schedule::new(PLACEBO, [TargetId(1)], 2, 1);
        let first = block(&mut schedule, 2);
        schedule.again(first[1]);
        let then = block(&mut schedule, 2);
        assert_eq!(then, first);
        assert_eq!(schedule.progress().experiments, 3);
    }

    #[test]
    fn nothing_to_decide_needs_no_experiment() {
        let mut schedule = Schedule::new(PLACEBO, [], 2, 1);
        assert_eq!(schedule.next(&Causal::default()), None);
        schedule.add(TargetId(3));
        assert_eq!(schedule.next(&Causal::default()), Some(Next::BASELINE));
        let progress = schedule.progress();
        assert_eq!((progress.decided, progress.targets, progress.missing), (0, 1, 24));
        assert!(progress.share() > 0.0 && progress.share() < 0.1);
    }
}
