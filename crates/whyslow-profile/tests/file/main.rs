//! A file reads back as its profile: whole, streamed, cut off, old and new.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

#[path = "../support/mod.rs"]
mod support;

mod causal;
mod compatibility;
mod cut_off;
mod golden;
mod pool;
mod round_trip;
mod streaming;
