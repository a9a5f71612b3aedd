//! What a source decides before its first input.

use whyslow_numbers::{RunTimeAddress, Start};
use whyslow_processor::Processor;
use whyslow_profile::MetricId;

use super::mappings::Limits;

/// How a source's inputs become rows. The metrics are those of the builder that the converter is given.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Time 0 of the profile, on the clock of the inputs. A source that learns it from its first record sends
    /// [`crate::Input::Begins`].
    pub start: Start,
    /// The address of the kernel's `_text`; 0 if unknown.
    pub kernel_base: RunTimeAddress,
    /// The processor of the recording.
    pub processor: Processor,
    /// How much the source can make the converter keep.
    pub limits: Limits,
    /// Accounts for CPU time without a sample, if events are bound to threads.
    pub accounts: Option<AccountSetup>,
    /// Context switches are recorded, so that the times of threads can be added up.
    pub switches: bool,
    /// Waits become rows.
    pub waits: Option<WaitSetup>,
    /// System calls are recorded: their number, duration and bytes.
    pub calls: Option<[MetricId; 3]>,
    /// The heap is recorded.
    pub heap: Option<HeapMetrics>,
}

impl Default for Setup {
    /// Samples of this machine.
    fn default() -> Self {
        Self {
            start: Start::default(),
            kernel_base: RunTimeAddress(0),
            processor: Processor::HOST,
            limits: Limits::NONE,
            accounts: None,
            switches: false,
            waits: None,
            calls: None,
            heap: None,
        }
    }
}

/// How CPU time without a sample is accounted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountSetup {
    /// The CPU time metric.
    pub metric: MetricId,
    /// Samples per second of CPU time.
    pub frequency_hz: u32,
    /// Whether the clock triggers samples. Otherwise cycles do, and each sample says how many it stands for.
    pub by_clock: bool,
}

/// How waits become rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitSetup {
    /// Their metric.
    pub metric: MetricId,
    /// Where the stacks of waits come from.
    pub stacks: WaitStackSource,
    /// Whether no record shows wakeups, and the kernel's account of run-queue delay is read.
    pub estimates_queues: bool,
    /// Whether the lengths of single waits are known. If not, a wait without a stack gets the one that is
    /// nearest in time.
    pub lengths_known: bool,
}

/// Where the stacks of waits come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitStackSource {
    /// Threads are sampled when they leave their CPU.
    Leaving,
    /// The recorder takes snapshots of waiting threads.
    Snapshots,
}

/// The metrics of a heap recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapMetrics {
    /// Bytes of allocated blocks.
    pub bytes_allocated: MetricId,
    /// Allocated blocks.
    pub allocations: MetricId,
    /// Bytes of freed blocks.
    pub bytes_freed: MetricId,
    /// Bytes live at the peak.
    pub live_at_peak: MetricId,
    /// Bytes live at the end.
    pub live_at_exit: MetricId,
    /// Blocks that turned out to be temporary.
    pub temporary: MetricId,
    /// Bytes of freed blocks that were never written, if that is recorded.
    pub unused: Option<MetricId>,
}
