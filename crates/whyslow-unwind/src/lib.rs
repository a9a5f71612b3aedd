//! Unwinds stacks: from registers and stack bytes to the address of every frame.
//!
//! The parts, each pure (all outside data is passed in):
//!
//! ```text
//! image      the parts of an ELF file (whyslow-elf) that unwinding needs; file offset → relative address
//! cfi        .eh_frame / .eh_frame_hdr / .debug_frame → one Rule for one address
//! go         functions of Go programs, and where their stacks start
//! plt        rules for linker stubs that have no unwind information
//! rule       what one step computes, as equations; applied to registers and memory
//! trampoline the code that signal handlers return to, if no table describes it
//! prologue   code without any unwind information: follow the frame pointer, mind prologues and epilogues
//! unwinder   per-module cache of rules
//! ```
//!
//! `registers`, `rule`, `plt`, `prologue` and `trampoline` are those of x86-64, in a folder of that name;
//! another architecture needs a folder with the same files.

#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod cfi;
mod go;
mod image;
mod unwinder;

pub use arch::{
    Memory, Register, Registers, Rule, Step, StepError, call_target, is_after_call, is_trampoline,
};
pub use cfi::{Cfi, Found};
pub use go::{GO_TABLES, GoFunction, go_functions};
pub use image::{Image, ImageError, UnwindTables};
pub use unwinder::Unwinder;
