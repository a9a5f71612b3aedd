//! How far recorded waits can be trusted: of how many it is known where they were.

use whyslow_profile::{Note, Profile, RecordingNote, Sampling, Trigger};

use super::{Quality, StackShares, Warning};
use crate::selection::Selection;
use crate::units::share;
use crate::waits::{Reason, row_reasons};

/// Waits without a stack are worth a warning from this share of the waiting time on.
const UNSEEN: f64 = 0.1;

/// What holds for the waits of a profile. Waits for a CPU are not among them: everybody knows what those are for.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitQuality {
    /// How many waits there are.
    pub waits: u64,
    /// How many of them have a stack that is whole.
    pub whole: u64,
    /// The share of the waiting time that those have.
    pub whole_share: f64,
    /// The share of the waiting time of those without any stack.
    pub unseen_share: f64,
    /// Whether stacks were taken in turns, because there were too many waits.
    pub in_turns: bool,
    /// Whether threads were looked at while they waited, because the kernel gave no stacks.
    pub looked_at: bool,
}

impl WaitQuality {
    fn of(profile: &Profile, metric: usize) -> Self {
        let samples = &profile.samples[metric];
        let reasons = row_reasons(profile, metric).unwrap_or_default();
        let (mut waits, mut whole, mut total_ns, mut whole_ns, mut unseen_ns) = (0, 0, 0u64, 0, 0);
        for (row, reason) in
            reasons.into_iter().enumerate().filter(|(_, reason)| *reason != Some(Reason::Cpu))
        {
            let length_ns = samples.value[row];
            waits += 1;
            total_ns += length_ns;
            if matches!(reason, Some(Reason::Short | Reason::NotSampled)) {
                unseen_ns += length_ns;
            } else if !profile.is_truncated(samples.stack[row]) {
                whole += 1;
                whole_ns += length_ns;
            }
        }
        let noted = |wanted: fn(&RecordingNote) -> bool| {
            profile.meta.notes.iter().any(|note| matches!(note, Note::Recording(note) if wanted(note)))
        };
        Self {
            waits,
            whole,
            whole_share: if total_ns == 0 { 1.0 } else { share(whole_ns, total_ns) },
            unseen_share: share(unseen_ns, total_ns),
            in_turns: noted(|note| matches!(note, RecordingNote::WaitsSampled { .. })),
            looked_at: noted(|note| matches!(note, RecordingNote::WaitsLookedAt)),
        }
    }

    pub(super) fn warn(&self, warnings: &mut Vec<Warning>) {
        if self.unseen_share >= UNSEEN {
            warnings.push(Warning::WaitsUnseen { share: self.unseen_share, looked_at: self.looked_at });
        }
    }
}

impl Quality {
    /// The same profile for a reader of its waits: what is wrong with samples of CPU time is nothing to them.
    pub(super) fn of_waits(self, profile: &Profile, metric: usize) -> Self {
        let weights = Selection { metric, ..Selection::default() }.weigh(profile);
        let shares = StackShares::of(profile, &weights);
        let waits = WaitQuality::of(profile, metric);
        let mut quality = Self {
            samples: weights.total_count,
            throttled: 0,
            truncated_share: shares.truncated,
            unresolved_share: shares.unresolved,
            nameless_share: shares.nameless,
            trigger: if waits.looked_at { Trigger::Look } else { Trigger::Event },
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
