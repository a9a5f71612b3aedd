//! Other tools' formats: importing their files, round trips of exports, and clear errors for broken files.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

mod aarch64;
mod coz;
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
