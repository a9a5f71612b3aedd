//! The runs of one side, in the tables of one profile.

use std::borrow::Cow;

use whyslow_profile::{Metric, Note, Pool, Profile, RecordingNote, Samples, StackId};

use super::Side;
use super::chance::Chance;
use crate::selection::Weights;

/// One side of a comparison: one or several runs of a program.
#[derive(Debug)]
pub struct Runs<'p> {
    /// The code and the stacks of all runs. With several runs it holds no samples: those are weighed per run.
    pub profile: Cow<'p, Profile>,
    pub(super) sides: Vec<Side<'p>>,
    /// Per run, by stacks of `profile`.
    pub(super) weights: Vec<Weights>,
    pub(super) chances: Vec<Chance>,
}

impl<'p> Runs<'p> {
    /// Weighs each run.
    ///
    /// # Panics
    /// If there is no run.
    pub fn new(sides: Vec<Side<'p>>) -> Self {
        let weights = sides.iter().map(|side| {
            let mut weights = side.selection.weigh(side.profile);
            weights.divide(merged_runs(side.profile));
            weights
        });
        let chances = sides
            .iter()
            .map(|side| Chance::of(side.profile, side.selection).per_run(merged_runs(side.profile)));
        let (mut weights, mut chances) = (weights.collect::<Vec<_>>(), chances.collect::<Vec<_>>());
        if let [only] = sides[..] {
            return Self { profile: Cow::Borrowed(only.profile), sides, weights, chances };
        }
        let mut pool = Pool::new();
        let places = sides.iter().map(|side| pool.add_code_only(side.profile)).collect::<Vec<_>>();
        let profile = described(pool.finish(), sides[0].profile);
        weights = weights.iter().zip(&places).map(|(run, places)| placed(run, places, &profile)).collect();
        chances = chances.into_iter().zip(&places).map(|(chance, places)| chance.placed(places)).collect();
        Self { profile: Cow::Owned(profile), sides, weights, chances }
    }

    /// The number of runs.
    pub fn count(&self) -> usize {
        self.sides.len()
    }

    /// The first run.
    pub fn first(&self) -> Side<'p> {
        self.sides[0]
    }

    pub(super) fn metric(&self) -> Option<&'p Metric> {
        let first = self.first();
        first.profile.metrics.get(first.selection.metric.index())
    }

    /// The mean total weight of a run.
    pub(super) fn mean_whole(&self) -> f64 {
        let wholes = self.weights.iter().map(|weights| weights.total_value as f64);
        wholes.sum::<f64>() / self.count() as f64
    }
}

/// How many runs a profile holds: those that `whyslow merge` pooled, or one. Merged runs are compared by their mean.
pub(super) fn merged_runs(profile: &Profile) -> u64 {
    let pooled = profile.meta.notes.iter().find_map(|note| match note {
        Note::Recording(RecordingNote::Pooled { recordings }) => Some(*recordings),
        _ => None,
    });
    pooled.unwrap_or(1).max(1)
}

/// Copies from a run to the pool how it was recorded and what was measured.
fn described(mut pool: Profile, run: &Profile) -> Profile {
    pool.meta = run.meta.clone();
    pool.sealed = run.sealed;
    for metric in &run.metrics {
        let name = pool.strings.push(run.text(metric.name));
        pool.metrics.push(metric.renamed(name));
        pool.samples.push(Samples::default());
    }
    pool
}

/// The weights of a run by stacks of the pool.
fn placed(run: &Weights, places: &[StackId], pool: &Profile) -> Weights {
    let stacks = pool.stacks.len();
    let mut weights = Weights { value: vec![0; stacks], count: vec![0; stacks], ..*run };
    for (stack, place) in places.iter().enumerate() {
        let place = place.index();
        weights.value[place] = weights.value[place].saturating_add(run.value[stack]);
        weights.count[place] = weights.count[place].saturating_add(run.count[stack]);
    }
    weights
}
