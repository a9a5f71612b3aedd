//! The rules whose findings belong to a view of `report`.

use crate::rule::Signal;
use crate::rules::RuleId;

/// What a view is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topic {
    /// Where threads wait.
    Waits,
    /// Async tasks.
    Tasks,
    /// How many threads run at a time.
    Parallelism,
    /// System calls.
    Syscalls,
    /// Simulated caches.
    Caches,
}

impl Topic {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Waits, Self::Tasks, Self::Parallelism, Self::Syscalls, Self::Caches];

    /// Its rules.
    pub const fn rules(self) -> &'static [RuleId] {
        match self {
            Self::Waits => &[RuleId::MostlyWaiting, RuleId::LockContention, RuleId::BlockingInAsync],
            Self::Tasks => &[RuleId::BlockingInAsync, RuleId::ExecutorOverhead],
            Self::Parallelism => &[RuleId::PoorParallelism, RuleId::Oversubscription],
            Self::Caches => &[RuleId::PoorLocality],
            Self::Syscalls => &[
                RuleId::UnbufferedWrites,
                RuleId::UnbufferedReads,
                RuleId::SmallTransfers,
                RuleId::SyscallPerItem,
            ],
        }
    }

    /// Whether none of its findings depends on names on stacks or on machine code.
    pub(crate) fn needs_only_facts(self) -> bool {
        self.rules().iter().all(|id| matches!(id.rule().signal, Signal::Facts(_)))
    }
}
