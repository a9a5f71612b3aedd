//! The x86-64 part of the conversion.

mod calls;
mod code;
mod registers;

pub(crate) use calls::call_name;
pub(crate) use code::{SIGNAL_STATE, SYSTEM_CALL};
pub use registers::{USER_REGISTERS, context_registers};
pub(crate) use registers::{system_call_argument, user_registers};
