//! The calling thread's own stack, fast.
//!
//! ```text
//! module    a module in memory: segments and the bytes of its tables
//! rules     what one step computes, remembered per return address for the whole process
//! arch      what the processor has to do with it: registers, rules, one step (`x86_64/`)
//! walker    one thread's walk: from the leaf to a frame that it remembers, then a check of the remembered words
//! trails    what it remembers: many walks, row by row
//! stacks    nodes (caller, return address), shared between threads
//! numbered  a walk becomes the number of a node
//! hosted    where the modules are, for programs with a libc
//! ```
//!
//! A walk is a function of the registers and of the words it reads from the stack. The walker remembers its last walks, each in a *trail*: the state at
//! each frame, and every word that was read, root first. A new walk goes from the leaf until it is in a remembered state;
//! the rest is the same walk if the words are still the same. They are checked in the order in which a walk would read them, so
//! that no word is read that a walk would not have read: stacks of coroutines come and go, and memory with them.
//!
//! Nothing here allocates, locks, panics or makes a system call; the outside world is a [`World`]. x86-64 only.

#![no_std]

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
#[cfg(feature = "hosted")]
pub mod hosted;
mod module;
mod numbered;
mod rules;
mod stacks;
mod trails;
mod walker;

pub use arch::Entry;
pub use module::{Module, Segment};
pub use numbered::Numbered;
pub use rules::Rules;
pub use stacks::{NO_STACK, Node, Stacks};
pub use trails::{LONGEST, SHORT, TRAILS};
pub use walker::{Walked, Walker};

/// What a walk needs to know of the process, on the few occasions when its memory does not help.
///
/// # Safety
/// Memory that is given is null, or has as many bytes as asked for, zeroed, aligned to 16, and is the walker's alone: for good, or until it
/// gives it back.
#[expect(unsafe_code, reason = "a walker writes into the memory that it is given")]
pub unsafe trait World {
    /// The module with this address.
    ///
    /// # Safety
    /// It is the address of code on the calling thread's stack, so that nobody unloads the module while it is used.
    unsafe fn module_of(&self, address: u64) -> Option<Module<'_>>;
    /// So many zeroed bytes for a very deep stack; null when there are none.
    fn memory(&self, bytes: usize) -> *mut u8;
    /// So many zeroed bytes for a walker that then remembers very deep stacks, too, and keeps them for good; null when there are
    /// none, or no need: then each walk of such a stack is as long as the first one.
    fn deep_memory(&self, _bytes: usize) -> *mut u8 {
        core::ptr::null_mut()
    }
    /// Whether the calling thread's stack begins so near to this stack pointer that only code fits in between that starts programs or threads.
    fn begins_near(&self, _sp: u64) -> bool {
        false
    }
    /// Takes back what `memory` gave.
    ///
    /// # Safety
    /// It gave this, with this length, and nobody uses it any more.
    unsafe fn release(&self, _memory: *mut u8, _bytes: usize) {}
}
