//! Analyses for the rules by facts. Each runs at most once, when a rule first needs it. Two threads may share
//! them.

use std::sync::OnceLock;

use whyslow_analyze::heap::{Sites, has_heap};
use whyslow_analyze::{
    Charges, Reason, Selection, SyscallTable, WaitTable, Weights, has_syscalls, wait_metric,
};
use whyslow_profile::{MetricId, Profile, StackId, Subject};

use crate::{Question, cpu_metric};

/// A profile and its analyses.
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

    /// The line that each stack is charged to.
    pub(crate) fn charges(&self) -> &Charges {
        self.charges.get_or_init(|| Charges::new(self.question.profile, true))
    }

    /// Allocation sites, for a whole recording only: most counters do not exist for parts of one.
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

    /// How long the selected threads ran and waited. Waits for work, messages, signals and the end of other
    /// threads do not count: the threads that they wait for count themselves.
    pub(crate) fn busy_ns(&self) -> u64 {
        let ran = self.busy_cpu_ns();
        let waits = self.waits().map_or(&[][..], |table| &table.reasons);
        let is_for_others = |reason: &Reason| {
            matches!(reason, Reason::Idle | Reason::Join | Reason::Park | Reason::Condition | Reason::Channel)
        };
        let waited = waits.iter().filter(|(reason, _)| !is_for_others(reason));
        waited.fold(ran, |sum, (_, total)| sum.saturating_add(*total))
    }

    /// CPU time of the selected samples, even if another metric is requested.
    pub(crate) fn busy_cpu_ns(&self) -> u64 {
        let profile = self.question.profile;
        let metric = cpu_metric(profile, self.question.selection, false);
        let requested = self.cpu().map(|weights| weights.total_value);
        let weigh = |metric| self.selection(metric).weigh(profile).total_value;
        requested.or_else(|| metric.map(weigh)).unwrap_or(0)
    }

    /// CPU time: the kernel's accounting for a whole recording, else the sampled time.
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

    /// The same selection for another metric.
    pub(crate) fn selection(&self, metric: MetricId) -> Selection {
        Selection { metric, ..self.question.selection.clone() }
    }

    /// Whether the recording is of one program, with the processes that it started. Others share nothing but
    /// the machine.
    pub(crate) fn is_one_program(&self) -> bool {
        let profile = self.question.profile;
        profile.processes.len() < 2 || profile.meta.exit.is_some()
    }

    /// Whether findings about one of these subjects are requested.
    pub(crate) fn is_about(&self, subjects: &[Subject]) -> bool {
        let Question { profile, selection, only_metric, .. } = *self.question;
        let metric = profile.metrics.get(selection.metric.index());
        !only_metric || metric.is_some_and(|metric| subjects.contains(&metric.of))
    }
}

/// The total value of all sampled stacks. Time that is known to have passed but was not sampled, such as time
/// in a kernel that could not be sampled, neither shows nor hides a pattern: thresholds apply to the rest.
pub(crate) fn sampled_value(profile: &Profile, weights: &Weights) -> u64 {
    let is_seen = |(stack, _): &(usize, &u64)| !profile.is_not_sampled(StackId::from(*stack));
    weights.value.iter().enumerate().filter(is_seen).fold(0, |sum, (_, value)| sum.saturating_add(*value))
}
