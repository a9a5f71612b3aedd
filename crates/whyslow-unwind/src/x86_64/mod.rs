//! The x86-64 part of unwinding.

mod plt;
mod prologue;
mod registers;
mod rule;
mod trampoline;

pub(crate) use plt::rule as plt_rule;
pub(crate) use prologue::{FRAME_POINTER, frame_pointer_distances, rule_at as prologue_rule};
pub use prologue::{call_target, is_after_call};
pub use registers::{Register, Registers};
pub use rule::{Memory, Rule, Step, StepError};
pub(crate) use rule::{NO_SLOT, apply_cfa, apply_signal_frame, is_restored};
pub use trampoline::is_trampoline;
pub(crate) use trampoline::rule as trampoline_rule;
