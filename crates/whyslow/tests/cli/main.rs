//! The executables as a user meets them: arguments in; stdout, stderr, files and exit codes out.

mod bad_input;
mod cargo_whyslow;
mod doctor;
mod exit_codes;
mod harness;
mod help;
mod output;
mod record;
mod report;
