//! Memory over time as snapshots, as Massif writes them: bytes that the program asked for, bytes that the allocator
//! adds, and stacks.

use serde::{Deserialize, Serialize};

/// What the time of snapshots counts.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryTime {
    /// Instructions.
    #[default]
    Instructions,
    /// Milliseconds.
    Milliseconds,
    /// Bytes allocated and freed.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
}

/// Whether the call sites that held the memory were kept with a snapshot.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SnapshotKind {
    /// Only the numbers.
    #[default]
    Plain,
    /// Also the call sites.
    Detailed,
    /// The call sites at the peak.
    Peak,
}

/// The memory at one time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemorySnapshot {
    /// When: see [`MemoryTime`].
    pub time: u64,
    /// Bytes that the program asked for.
    pub useful: u64,
    /// Bytes that the allocator adds: headers and rounding.
    pub extra: u64,
    /// Bytes of all stacks.
    pub stacks: u64,
    /// Whether there are call sites.
    pub kind: SnapshotKind,
}

impl MemorySnapshot {
    /// All bytes.
    pub fn total(&self) -> u64 {
        self.useful.saturating_add(self.extra).saturating_add(self.stacks)
    }
}

/// The memory over time, as another tool recorded it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryCurve {
    /// What its times count.
    pub time: MemoryTime,
    /// The snapshots in order of time.
    pub snapshots: Vec<MemorySnapshot>,
}
