//! Whether a program's time is spent running or waiting, and so which of the two its answer shows.

use whyslow_profile::Profile;

use super::{WaitTable, wait_metric};
use crate::overview::Overview;
use crate::own::Charges;
use crate::quality::ENOUGH_SAMPLES;
use crate::selection::Selection;

/// What a program's time is spent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Spent {
    /// It runs for a notable part of the time: its CPU samples are the answer.
    Running,
    /// All threads were blocked for nearly all of the time: their waits are the answer.
    Waiting(WaitTable),
    /// The same, but waits were not recorded, and there are too few CPU samples for an answer.
    WaitingUnseen,
}

impl Spent {
    /// If all threads were blocked for this share of the time, a program waits.
    const NEARLY_ALL: f64 = 0.9;
    /// Process start takes some time in every program.
    const MIN_NS: u64 = 50_000_000;

    /// Decides by the time in which all threads were blocked.
    pub fn of(profile: &Profile, charges: &Charges) -> Self {
        if !Self::waits(profile) {
            return Self::Running;
        }
        match wait_metric(profile) {
            Some(metric) => {
                let selection = Selection { metric, ..Selection::default() };
                let table = WaitTable::build(profile, &selection, charges, 0);
                if table.rows.is_empty() { Self::WaitingUnseen } else { Self::Waiting(table) }
            }
            None => Self::WaitingUnseen,
        }
    }

    /// Whether all threads were blocked for nearly all of the time, and CPU samples say little.
    pub(crate) fn waits(profile: &Profile) -> bool {
        let Overview { duration_ns, all_blocked_ns, samples, .. } = Overview::of(profile);
        let nearly_all = |blocked_ns: u64| {
            blocked_ns >= Self::MIN_NS && blocked_ns as f64 >= Self::NEARLY_ALL * duration_ns as f64
        };
        let few = samples < ENOUGH_SAMPLES || wait_metric(profile).is_some();
        few && all_blocked_ns.is_some_and(nearly_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{SAMPLE_NS, profile};
    use whyslow_profile::{ExitStatus, Subject};

    /// A program with 3 ms of CPU time in 10 s.
    fn sleeper() -> Profile {
        let mut profile = profile("main@app.rs:3;compute 3");
        profile.meta.duration_ns = 10_000_000_000;
        profile.meta.user_time_ns = 3 * SAMPLE_NS;
        profile.meta.exit = Some(ExitStatus::Code(0));
        profile
    }

    fn spent(profile: &Profile) -> Spent {
        Spent::of(profile, &Charges::new(profile, true))
    }

    #[test]
    fn the_answer_of_a_waiting_program_is_its_waits() {
        let mut profile = sleeper();
        assert_eq!(spent(&profile), Spent::WaitingUnseen);
        let mut metric = profile.metrics[0];
        metric.of = Subject::Wait;
        profile.metrics.push(metric);
        profile.samples.push(profile.samples[0].clone());
        let Spent::Waiting(table) = spent(&profile) else { panic!("{:?}", spent(&profile)) };
        assert_eq!(table.rows.len(), 1);
    }

    #[test]
    fn the_answer_of_a_running_program_is_its_cpu_time() {
        let mut profile = sleeper();
        profile.meta.user_time_ns = 2_000_000_000;
        assert_eq!(spent(&profile), Spent::Running);
        profile.meta.exit = None;
        profile.meta.user_time_ns = 0;
        assert_eq!(spent(&profile), Spent::Running, "unknown");
    }
}
