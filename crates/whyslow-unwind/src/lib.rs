//! From registers and stack bytes to the addresses of every frame.
//!
//! The parts, each pure (the outside world is passed in):
//!
//! ```text
//! image      an ELF file (whyslow-elf) as unwinding needs it; file offset → relative address
//! cfi        .eh_frame / .eh_frame_hdr / .debug_frame → one Rule for one address
//! go         functions of Go programs, and where their stacks begin
//! plt        rules for linker stubs that carry no unwind information
//! rule       what one step computes, as equations; applied to registers and memory
//! trampoline what signal handlers return to, where no table knows it
//! prologue   code without any unwind information: follow the frame pointer, mind prologues and epilogues
//! unwinder   per-module cache of rules
//! ```
//!
//! Only x86-64 is known here; another architecture needs its own `registers`, `rule`, `plt` and `prologue`.

mod cfi;
mod go;
mod image;
mod plt;
mod prologue;
mod registers;
mod rule;
mod trampoline;
mod unwinder;

pub use cfi::{Cfi, Found};
pub use go::{GO_TABLES, GoFunction, go_functions};
pub use image::{Image, ImageError, UnwindTables};
pub use prologue::is_after_call;
pub use registers::{Register, Registers};
pub use rule::{Memory, Rule, Step, StepError};
pub use trampoline::is_trampoline;
pub use unwinder::Unwinder;
