//! Where a walk begins.

/// The registers of a caller, as the first instructions of a callee put them on the stack: `push rbx; push rbp`. The caller's stack
/// pointer is the address of this plus its size.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The caller's frame pointer.
    pub rbp: u64,
    /// Another register that a few functions describe their frame by.
    pub rbx: u64,
    /// Where the caller goes on.
    pub return_address: u64,
}
