//! Walks the calling thread's own stack, fast.
//!
//! ```text
//! module    a module in memory: segments and the bytes of its tables
//! rules     what one step computes, cached per return address for the whole process
//! arch      code for the processor: registers, rules, one step (`x86_64/`)
//! walker    one thread's walk: from the leaf to a remembered frame, then a check of the remembered words
//! trails    what it remembers: many walks, row by row
//! glance    whether a frame is on the stack of an interrupted thread
//! stacks    nodes (caller, return address), shared between threads
//! numbered  turns a walk into the number of a node
//! hosted    finds modules, for programs with a libc
//! ```
//!
//! A walk is a function of the registers and of the words it reads from the stack. The walker remembers its
//! last walks, each in a *trail*: the state at each frame and every word that was read, root first. A new
//! walk goes from the leaf until it reaches a remembered state. If the words from there to the root are
//! unchanged, so is the rest of the walk. They are checked in the order in which a walk would read them, so
//! no word is read that a walk would not read. This matters because stacks of coroutines can be unmapped.
//!
//! This crate does not allocate, lock, panic or make system calls. It reaches the rest of the process through
//! a [`World`]. x86-64 only.

#![no_std]

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod glance;
#[cfg(feature = "hosted")]
pub mod hosted;
mod module;
mod numbered;
mod rules;
mod stacks;
mod trails;
mod walker;

pub use arch::{Entry, Registers};
pub use glance::{Glance, Seen};
pub use module::{Module, Segment};
pub use numbered::Numbered;
pub use rules::Rules;
pub use stacks::{NO_STACK, Node, Stacks};
pub use trails::{LONGEST, SHORT, TRAILS};
pub use walker::{Walked, Walker};

/// What a walk needs from the process when the walker's memory does not suffice.
///
/// # Safety
/// Returned memory is null, or has the requested size, is zeroed, aligned to 16, and belongs to the walker
/// alone, permanently or until it releases it.
#[expect(unsafe_code, reason = "a walker writes into the memory that it is given")]
pub unsafe trait World {
    /// The module that contains this address.
    ///
    /// # Safety
    /// It is the address of code on the calling thread's stack, so the module is not unloaded while it is
    /// used.
    unsafe fn module_of(&self, address: u64) -> Option<Module<'_>>;
    /// `bytes` zeroed bytes for a very deep stack. Null if there are none.
    fn memory(&self, bytes: usize) -> *mut u8;
    /// `bytes` zeroed bytes for a walker that also remembers very deep stacks, and keeps the memory. Null if
    /// there is none, or no need. Then each walk of such a stack takes as long as the first one.
    fn deep_memory(&self, _bytes: usize) -> *mut u8 {
        core::ptr::null_mut()
    }
    /// Whether the calling thread's stack starts so close to this stack pointer that only start code of the
    /// program or thread fits in between.
    fn begins_near(&self, _sp: u64) -> bool {
        false
    }
    /// Releases memory from `memory`.
    ///
    /// # Safety
    /// `memory` returned it with this length, and nothing uses it any more.
    unsafe fn release(&self, _memory: *mut u8, _bytes: usize) {}
}
