//! Real programs, compiled here: planned, patched, injected.
#![expect(
    unsafe_code,
    clippy::unwrap_used,
    reason = "the collector's side of a socket; failing is what tests do"
)]

mod injection;
mod patching;
mod support;
