//! The executable `whyslow`.

use std::process::ExitCode;

fn main() -> ExitCode {
    whyslow::whyslow(std::env::args_os().collect())
}
