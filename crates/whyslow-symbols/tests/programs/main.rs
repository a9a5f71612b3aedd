//! Symbolises real programs that the tests compile.
#![expect(clippy::unwrap_used, reason = "a failing helper must fail its test")]

mod common;
mod compiled;
mod damaged;
