//! Other tools' formats: what they hold is read, what we write is read back, and broken files are one clear error.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

mod firefox_rules;
mod heap;
mod heap_peers;
mod heap_script;
mod hostile_names;
mod perf_report;
mod recordings;
mod round_trip;
mod samples;
mod support;
