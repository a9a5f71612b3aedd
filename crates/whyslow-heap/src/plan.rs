//! What a program's code needs before its allocator can be watched. `whyslow-inject` makes the plan; the collector only passes it on.

use whyslow_heap_wire::handshake::Hello;
pub use whyslow_inject::{PatchPage, Plan as PatchPlan};

/// Makes plans. It is called on a thread of its own for each program that starts, so it may take its time.
pub trait PatchPlanner: Send + Sync {
    /// The plan for this process. `pid` is the kernel's word, unlike the one in the hello.
    fn plan(&self, hello: &Hello, pid: u32) -> PatchPlan;
}

impl<F: Fn(&Hello, u32) -> PatchPlan + Send + Sync> PatchPlanner for F {
    fn plan(&self, hello: &Hello, pid: u32) -> PatchPlan {
        self(hello, pid)
    }
}
