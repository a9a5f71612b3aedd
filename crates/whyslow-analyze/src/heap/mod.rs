//! Answers about the heap: which lines allocate, what was live when, and which threads free blocks of others.

mod accesses;
mod advice;
mod capacity;
mod grains;
mod intervals;
mod live;
mod memory;
mod profile_facts;
mod sites;
mod spread;
mod timeline;
mod trail;
mod wrappers;

pub use accesses::{AccessStretch, BlockAccesses};
pub use advice::Advice;
pub use capacity::{Capacity, CapacityAdvice};
pub(crate) use grains::Grains;
pub use intervals::{Ends, Interval, Intervals};
pub use live::{LIVE, live_at, live_over_time};
pub use memory::{Memory, MemoryNode, MemoryPlace, Snapshots, has_memory};
pub use profile_facts::{has_heap, is_heap_metric, is_heap_only};
pub use sites::{Grower, SiteOrder, SiteRow, Sites};
pub use spread::{HeapThread, histogram, threads};
pub use timeline::{Step, Timeline, live_after};
pub use trail::{Trail, TrailStep};
pub use wrappers::Wrappers;
