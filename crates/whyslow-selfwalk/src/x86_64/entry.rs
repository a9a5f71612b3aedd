//! The start of a walk.

/// The registers of a caller, as the first instructions of a callee push them: `push rbx; push rbp`. The
/// caller's stack pointer is the address of this plus its size.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The caller's frame pointer.
    pub rbp: u64,
    /// Another register that a few functions use to describe their frame.
    pub rbx: u64,
    /// Where the caller continues.
    pub return_address: u64,
}
