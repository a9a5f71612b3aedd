//! What rules by facts look at. Each analysis is made once, and only if a rule asks for it; two threads may ask.

use std::sync::OnceLock;

use whyslow_analyze::heap::{Sites, has_heap};
use whyslow_analyze::{
    Charges, Reason, Selection, SyscallTable, WaitTable, Weights, has_syscalls, wait_metric,
};
use whyslow_profile::{Profile, StackId, Subject};

use crate::{Question, cpu_metric};

/// A profile and what is known of it.
pub(crate) struct Facts<'a> {
    pub(crate) question: &'a Question<'a>,
    cpu: OnceLock<Option<Weights>>,
    charges: OnceLock<Charges>,
    sites: OnceLock<Option<Sites>>,
    waits: OnceLock<Option<WaitTable>>,
    calls: OnceLock<Option<SyscallTable>>,
}

impl<'a> Facts<'a> {
    pub(crate) fn new(question: &'a Question<'a>) -> Self {
        let (cpu, charges, sites) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { question, cpu, charges, sites, waits: OnceLock::new(), calls: OnceLock::new() }
    }

    /// The selected samples of CPU time.
    pub(crate) fn cpu(&self) -> Option<&Weights> {
        let Question { profile, selection, only_metric, .. } = *self.question;
        let weigh = |metric| Selection { metric, ..selection.clone() }.weigh(profile);
        self.cpu.get_or_init(|| cpu_metric(profile, selection, only_metric).map(weigh)).as_ref()
    }

    /// Whose line each stack is.
    pub(crate) fn charges(&self) -> &Charges {
        self.charges.get_or_init(|| Charges::new(self.question.profile, true))
    }

    /// What lines allocate, of a whole recording: most of it is known of no part.
    pub(crate) fn sites(&self) -> Option<&Sites> {
        let Question { profile, selection, .. } = *self.question;
        let is_there = has_heap(profile) && selection.is_everything() && self.is_about(&[Subject::Heap]);
        self.sites.get_or_init(|| is_there.then(|| Sites::build(profile))).as_ref()
    }

    /// The selected waits.
    pub(crate) fn waits(&self) -> Option<&WaitTable> {
        let profile = self.question.profile;
        let build = |metric| WaitTable::build(profile, &self.selection(metric), self.charges(), 0);
        let metric = wait_metric(profile).filter(|_| self.is_about(&[Subject::Wait, Subject::Wall]));
        self.waits.get_or_init(|| metric.map(build)).as_ref()
    }

    /// How long the selected threads ran and waited, without waits for work, messages, signals and the end of other threads: what those do meanwhile is
    /// counted itself.
    pub(crate) fn busy_ns(&self) -> u64 {
        let ran = self.busy_cpu_ns();
        let waits = self.waits().map_or(&[][..], |table| &table.reasons);
        let is_for_others = |reason: &Reason| {
            matches!(reason, Reason::Idle | Reason::Join | Reason::Park | Reason::Condition | Reason::Channel)
        };
        let waited = waits.iter().filter(|(reason, _)| !is_for_others(reason));
        waited.fold(ran, |sum, (_, total)| sum.saturating_add(*total))
    }

    /// CPU time of the selected samples, also where another metric is asked for.
    pub(crate) fn busy_cpu_ns(&self) -> u64 {
        let profile = self.question.profile;
        let metric = cpu_metric(profile, self.question.selection, false);
        let asked_for = self.cpu().map(|weights| weights.total_value);
        let weigh = |metric| self.selection(metric).weigh(profile).total_value;
        asked_for.or_else(|| metric.map(weigh)).unwrap_or(0)
    }

    /// CPU time as the kernel accounts it, of a whole recording; else as it was sampled.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let Question { profile, selection, .. } = *self.question;
        let accounted = profile.meta.user_time_ns.saturating_add(profile.meta.system_time_ns);
        let sampled = self.cpu().map_or(0, |weights| weights.total_value);
        if accounted > 0 && selection.is_everything() { accounted } else { sampled }
    }

    /// The selected system calls.
    pub(crate) fn calls(&self) -> Option<&SyscallTable> {
        let Question { profile, selection, only_metric, .. } = *self.question;
        let is_there = has_syscalls(profile) && !only_metric;
        let build = || SyscallTable::build(profile, selection, self.charges());
        self.calls.get_or_init(|| is_there.then(build)).as_ref()
    }

    /// What is selected, of another metric.
    pub(crate) fn selection(&self, metric: usize) -> Selection {
        Selection { metric, ..self.question.selection.clone() }
    }

    /// Whether findings of one of these are asked for.
    pub(crate) fn is_about(&self, subjects: &[Subject]) -> bool {
        let Question { profile, selection, only_metric, .. } = *self.question;
        let metric = profile.metrics.get(selection.metric);
        !only_metric || metric.is_some_and(|metric| subjects.contains(&metric.of))
    }
}

/// The value of what was sampled. Time that is known to have passed somewhere, such as in a kernel that may not be looked into, shows no pattern and
/// hides none: whether one is worth telling is asked of the rest.
pub(crate) fn sampled_value(profile: &Profile, weights: &Weights) -> u64 {
    let is_seen = |(stack, _): &(usize, &u64)| !profile.is_not_sampled(StackId::from(*stack));
    weights.value.iter().enumerate().filter(is_seen).fold(0, |sum, (_, value)| sum.saturating_add(*value))
}
