//! What a program's code needs before its allocator can be watched. Someone who can read ELF files makes the plan; the
//! collector only passes it on.

use whyslow_heap_wire::handshake::{Hello, Patch, Real};

/// Code to be mapped at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchPage {
    /// Where: a multiple of 4096.
    pub at: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// The answer to an agent that says hello.
#[derive(Debug, Default, Clone)]
pub struct PatchPlan {
    /// Code that patched functions jump into.
    pub pages: Vec<PatchPage>,
    /// Where hooks find what they stand in for.
    pub reals: Vec<Real>,
    /// Bytes to write over code.
    pub patches: Vec<Patch>,
    /// A search table for the unwind information of a program that has none, in the form of `.eh_frame_hdr`.
    pub unwind_table: Vec<u8>,
    /// Which allocators are watched, in words for the reader.
    pub allocators: Vec<String>,
    /// What the reader should know, each with the next step.
    pub notes: Vec<String>,
}

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
