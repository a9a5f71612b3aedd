//! Symbolises real programs, compiled on the spot.
#![expect(clippy::unwrap_used, reason = "a failing helper must fail its test")]

mod common;
mod compiled;
mod damaged;
