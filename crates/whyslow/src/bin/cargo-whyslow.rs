//! The executable `cargo-whyslow`, which cargo starts for `cargo whyslow`.

use std::process::ExitCode;

fn main() -> ExitCode {
    whyslow::cargo_whyslow(std::env::args_os().collect())
}
