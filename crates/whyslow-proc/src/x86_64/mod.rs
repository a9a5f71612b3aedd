//! What depends on the processor, for x86-64.

mod registers;

pub use registers::{FloatRegisters, Registers};
