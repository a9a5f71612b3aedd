//! Real programs, compiled here: planned, patched, injected.
#![expect(unsafe_code, reason = "the collector's side of the socket")]

mod injection;
mod patching;
mod support;
