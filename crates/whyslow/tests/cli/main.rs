//! Tests of the executables: arguments in; stdout, stderr, files and exit codes out.

#![expect(clippy::unwrap_used, reason = "a failed step of a test fails the test")]

mod bad_input;
mod bench;
mod cargo_bench;
mod cargo_whyslow;
mod diff;
mod doctor;
mod events;
mod exchange;
mod exit_codes;
mod explain;
mod gate;
mod harness;
mod heap_report;
mod help;
mod inherited;
mod memcheck;
mod merge;
mod output;
mod record;
mod report;
mod stat;
mod view;
mod view_findings;
