//! The processor-specific part for x86-64.

mod registers;

pub use registers::{FloatRegisters, Registers};
