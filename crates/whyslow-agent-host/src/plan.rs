//! The interface for planning the patches that a program's code needs. `whyslow-inject` creates the plan; the
//! host only passes it on.

use whyslow_agent_wire::handshake::Hello;
pub use whyslow_inject::{PatchPage, Plan as PatchPlan};

/// Creates plans. Called on a separate thread for each program that starts, so it may be slow.
pub trait PatchPlanner: Send + Sync {
    /// The plan for this process. `pid` is the kernel's id, unlike the one in the hello.
    fn plan(&self, hello: &Hello, pid: u32) -> PatchPlan;
}

impl<F: Fn(&Hello, u32) -> PatchPlan + Send + Sync> PatchPlanner for F {
    fn plan(&self, hello: &Hello, pid: u32) -> PatchPlan {
        self(hello, pid)
    }
}
