//! How CPU time is sampled, and everything that follows from it.

use whyslow_numbers::RunTimeAddress;
use whyslow_proc::kernel;
use whyslow_profile::{KernelView, NoSyscalls, Sampler, Sampling, Trigger};

use crate::sampling::Sampled;
use crate::{agent, ptrace_sampling};

/// A way of sampling CPU time.
#[derive(Debug)]
pub(crate) enum CpuSampler {
    /// CPU time is not sampled.
    Off,
    /// Perf events.
    Events(Box<Sampled>),
    /// Timers inside the program, which the agent brings in.
    Timers {
        /// Samples per second of a thread's CPU time.
        rate_hz: u32,
    },
    /// A recorder thread that stops other threads with ptrace.
    Ptrace {
        /// Samples per second of a thread's CPU time.
        rate_hz: u32,
    },
}

/// How waits are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsBy {
    /// Samples of threads leaving their CPU, with their stacks.
    Leaving,
    /// Records of context switches, and snapshots of waiting threads.
    Snapshots,
    /// The kernel's accounts of threads, and snapshots of waiting threads.
    Accounts,
    /// Nothing shows them.
    Nothing,
}

impl CpuSampler {
    /// The open events.
    pub(crate) fn events(&self) -> Option<&Sampled> {
        match self {
            Self::Events(sampled) => Some(sampled),
            _ => None,
        }
    }

    /// What triggers a sample, and how often.
    pub(crate) fn trigger(&self) -> Option<Sampler> {
        let (trigger, rate_hz) = match self {
            Self::Off => return None,
            Self::Events(sampled) => {
                let plan = &sampled.events.plan;
                (if plan.cycles { Trigger::Cycles } else { Trigger::CpuClock }, plan.frequency_hz)
            }
            Self::Timers { rate_hz } => (Trigger::Timer, *rate_hz),
            Self::Ptrace { rate_hz } => (Trigger::Ptrace, *rate_hz),
        };
        Some(Sampler { trigger, rate_hz })
    }

    /// What is sampled: CPUs or threads, and from where.
    pub(crate) fn sampling(&self) -> Sampling {
        match self {
            Self::Off => Sampling::Unknown,
            Self::Events(sampled) => sampled.sampling,
            Self::Timers { .. } => Sampling::Timers,
            Self::Ptrace { .. } => Sampling::Ptrace,
        }
    }

    /// Bytes of stack copied with a sample.
    pub(crate) fn stack_bytes(&self) -> u32 {
        match self {
            Self::Off => 0,
            Self::Events(sampled) => sampled.events.plan.stack_bytes,
            Self::Timers { .. } => agent::STACK_BYTES as u32,
            Self::Ptrace { .. } => ptrace_sampling::STACK_BYTES as u32,
        }
    }

    /// The address of the kernel's code, if samples include it and the kernel discloses it.
    pub(crate) fn kernel_base(&self) -> Option<RunTimeAddress> {
        let events = self.events().filter(|sampled| sampled.events.plan.kernel);
        events.and_then(|_| kernel::text_address()).map(RunTimeAddress)
    }

    /// How much of the kernel samples show, if its code is at this address.
    pub(crate) fn kernel_view(&self, base: Option<RunTimeAddress>) -> KernelView {
        match self {
            Self::Off => KernelView::Unknown,
            Self::Timers { .. } | Self::Ptrace { .. } => KernelView::Callers,
            Self::Events(sampled) if !sampled.events.plan.kernel => KernelView::Hidden,
            Self::Events(_) if base.is_none() => KernelView::Unnamed,
            Self::Events(_) => KernelView::Included,
        }
    }

    /// How waits are recorded, if requested.
    pub(crate) fn waits(&self) -> WaitsBy {
        match self {
            Self::Off => WaitsBy::Nothing,
            Self::Events(sampled) if sampled.has_leaving() => WaitsBy::Leaving,
            Self::Events(_) => WaitsBy::Snapshots,
            Self::Timers { .. } | Self::Ptrace { .. } => WaitsBy::Accounts,
        }
    }

    /// Whether records show who ends waits.
    pub(crate) fn has_wakers(&self) -> bool {
        self.events().is_some_and(Sampled::has_waking)
    }

    /// Why system calls are not recorded, if they are not.
    pub(crate) fn no_calls(&self) -> Option<NoSyscalls> {
        match self.events() {
            Some(sampled) if sampled.has_calls() => None,
            Some(sampled) => Some(sampled.no_calls.unwrap_or(NoSyscalls::NoEvents)),
            None => Some(NoSyscalls::NoEvents),
        }
    }
}
