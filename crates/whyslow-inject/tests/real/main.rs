//! Compiles real programs, then plans, patches and injects them.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "the collector's side of a socket; failing is what tests do"
)]

mod injection;
mod patching;
mod support;
