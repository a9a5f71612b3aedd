//! Unwinds stacks: from registers and stack bytes to the address of every frame.
//!
//! The parts, each pure (all outside data is passed in):
//!
//! ```text
//! image      the parts of an ELF file (whyslow-elf) that unwinding needs; file offset → relative address
//! cfi        .eh_frame / .eh_frame_hdr / .debug_frame → one Rule for one address
//! go         functions of Go programs, and where their stacks start
//! registers  values of registers, of one processor or of any
//! rule       what one step computes
//! trampoline the code that signal handlers return to, if no table describes it
//! unwinder   per-module cache of rules
//! arch       what each processor has its own version of: the files in `x86_64/` and `aarch64/`
//!   registers    their numbers and orders
//!   rule         the common rule as an equation; applied to registers and memory
//!   plt          rules for linker stubs that have no unwind information
//!   prologue     code without any unwind information: follow the frame pointer, mind prologues and epilogues
//!   trampoline   the bytes of that code
//! ```
//!
//! Both folders are always compiled: a recording of any processor is unwound on any machine. Code is generic over
//! [`Arch`], and whoever walks a stack chooses once per stack ([`AnyRegisters`]).

pub mod aarch64;
mod arch;
mod cfi;
mod go;
mod image;
mod registers;
mod rule;
mod trampoline;
mod unwinder;
pub mod x86_64;

pub use aarch64::Aarch64;
pub use arch::Arch;
pub use cfi::{Cfi, Found, Row};
pub use go::{GO_TABLES, GoFunction, go_functions};
pub use image::{Image, ImageError, UnwindTables};
pub use registers::{AnyRegisters, Register, Registers};
pub use rule::{Memory, Rule, SavedWords, Step, StepError};
pub use unwinder::Unwinder;
pub use whyslow_numbers::RelativeAddress;
pub use x86_64::X86_64;
