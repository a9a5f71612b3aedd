//! The quality of recorded waits: for how many the stack is known.

use whyslow_profile::{MetricId, Note, Profile, RecordingNote, Sampling, Trigger};

use super::{Quality, StackShares, Warning};
use crate::selection::Selection;
use crate::units::share;
use crate::waits::{Reason, row_reasons};

/// Waits without a stack get a warning from this share of the waiting time on.
const NOTABLE_NO_STACK: f64 = 0.1;

/// The quality of a profile's waits. Run-queue delay is not included: it needs no stack.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitQuality {
    /// The number of waits.
    pub waits: u64,
    /// How many of them have a complete stack.
    pub whole: u64,
    /// Their share of the waiting time.
    pub whole_share: f64,
    /// The share of the waiting time without any stack.
    pub no_stack_share: f64,
    /// The share of the waiting time whose place was estimated.
    pub estimated_share: f64,
    /// How far a place's share of the waiting time may be off because of it.
    pub estimated_error: f64,
    /// Whether only some waits got a stack because there were too many.
    pub in_turns: bool,
    /// Whether whyslow sampled blocked threads because the kernel gave no stacks.
    pub snapshots: bool,
}

/// How far a place's share of the waiting time may be off (95 %), if a part of that time is charged in
/// proportion to a sample of this many waits: the error of a share of one half.
pub(crate) fn wait_error(estimated_ns: u64, total_ns: u64, sample: u64) -> f64 {
    share(estimated_ns, total_ns) * (0.98 / (sample.max(1) as f64).sqrt()).min(1.0)
}

impl WaitQuality {
    fn of(profile: &Profile, metric: MetricId) -> Self {
        let samples = &profile.samples[metric.index()];
        let reasons = row_reasons(profile, metric).unwrap_or_default();
        let (mut waits, mut whole, mut total_ns, mut whole_ns, mut no_stack_ns) = (0, 0, 0u64, 0, 0);
        for (row, reason) in
            reasons.into_iter().enumerate().filter(|(_, reason)| *reason != Some(Reason::Cpu))
        {
            let length_ns = samples.value[row];
            waits += 1;
            total_ns += length_ns;
            if matches!(reason, Some(Reason::Short | Reason::NotSampled)) {
                no_stack_ns += length_ns;
            } else if !profile.is_truncated(samples.stack[row]) {
                whole += 1;
                whole_ns += length_ns;
            }
        }
        let noted = |wanted: fn(&RecordingNote) -> bool| {
            profile.meta.notes.iter().any(|note| matches!(note, Note::Recording(note) if wanted(note)))
        };
        let estimated = profile.meta.notes.iter().find_map(|note| match note {
            Note::Recording(RecordingNote::WaitsEstimated { estimated_ns, total_ns, stacks, .. }) => {
                Some((share(*estimated_ns, *total_ns), wait_error(*estimated_ns, *total_ns, *stacks)))
            }
            _ => None,
        });
        let (estimated_share, estimated_error) = estimated.unwrap_or_default();
        Self {
            estimated_share,
            estimated_error,
            waits,
            whole,
            whole_share: if total_ns == 0 { 1.0 } else { share(whole_ns, total_ns) },
            no_stack_share: share(no_stack_ns, total_ns),
            in_turns: noted(|note| matches!(note, RecordingNote::WaitsSampled { .. })),
            snapshots: noted(|note| {
                matches!(note, RecordingNote::WaitSnapshots | RecordingNote::WaitsFromAccounts)
            }),
        }
    }

    pub(super) fn warn(&self, warnings: &mut Vec<Warning>) {
        if self.no_stack_share >= NOTABLE_NO_STACK {
            warnings.push(Warning::WaitsUnseen { share: self.no_stack_share, snapshots: self.snapshots });
        }
    }
}

impl Quality {
    /// The same profile judged by its waits: without warnings about CPU samples.
    pub(super) fn of_waits(self, profile: &Profile, metric: MetricId) -> Self {
        let weights = Selection { metric, ..Selection::default() }.weigh(profile);
        let shares = StackShares::of(profile, &weights);
        let waits = WaitQuality::of(profile, metric);
        let mut quality = Self {
            samples: weights.total_count,
            throttled: 0,
            truncated_share: shares.truncated,
            left_out_share: shares.left_out,
            unresolved_share: shares.unresolved,
            nameless_share: shares.nameless,
            trigger: if waits.snapshots { Trigger::Ptrace } else { Trigger::Event },
            sampling: Sampling::Unknown,
            not_sampled_share: 0.0,
            expected_samples: None,
            missing_kernel_share: 0.0,
            counted: false,
            heap: None,
            waits: Some(waits),
            warnings: Vec::new(),
            ..self
        };
        quality.warn(profile, &weights, &shares);
        quality.warnings.retain(|warning| match warning {
            Warning::Noted(Note::Recording(note)) => !matches!(
                note,
                RecordingNote::EventsMissed { .. }
                    | RecordingNote::EventNotRecorded { .. }
                    | RecordingNote::EventsInUserMode { .. }
            ),
            _ => true,
        });
        quality.judge();
        quality
    }
}
