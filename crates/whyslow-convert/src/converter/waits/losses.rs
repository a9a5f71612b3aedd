//! When records were lost, and which waits are doubtful because of it.

use rustc_hash::FxHashMap;
use whyslow_numbers::ClockNs;

/// The losses of records. A thread that runs and leaves again
/// without a record seems to have waited all the time.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// The last loss of each CPU.
    of_cpu: FxHashMap<u32, ClockNs>,
    /// The last loss without a CPU.
    anywhere: Option<ClockNs>,
    /// The number of waits that may be too long, and their total length.
    waits: u64,
    total_ns: u64,
}

impl Losses {
    pub(super) fn add(&mut self, cpu: Option<u32>, time: ClockNs) {
        match cpu {
            Some(cpu) => _ = self.of_cpu.insert(cpu, time),
            None => self.anywhere = Some(time),
        }
    }

    /// The number of doubtful waits, and their total length.
    pub(super) fn doubtful(&self) -> (u64, u64) {
        (self.waits, self.total_ns)
    }

    /// Counts a wait if records of one of these CPUs were lost while it lasted.
    pub(super) fn judge(&mut self, cpus: [Option<u32>; 2], since: ClockNs, length_ns: u64) {
        let of_cpus = cpus.into_iter().flatten().filter_map(|cpu| self.of_cpu.get(&cpu).copied());
        if of_cpus.chain(self.anywhere).any(|lost| lost > since) {
            self.waits += 1;
            self.total_ns = self.total_ns.saturating_add(length_ns);
        }
    }
}
