//! Recording allocations, one of the agent's purposes: what must be ready before the first one.

use whyslow_agent_wire::area::heap_flag;

use crate::area::Area;
use crate::{maps, sample};

/// Starts to record.
pub fn begin(area: Area) {
    if area.heap_flags() & heap_flag::MAPS != 0 {
        maps::record();
    }
    sample::prepare(area);
}
