//! The executable `cargo-whyslow`, which cargo starts for `cargo whyslow`: runs the `whyslow` next to it under this
//! name, so that a second executable costs next to nothing. A package may contain a link to `whyslow` instead.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

/// whyslow itself failed, or is not there.
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("whyslow"));
    let beside = beside.filter(|path| path.is_file()).map_or_else(|| "whyslow".into(), OsString::from);
    let mut whyslow = whyslow_capture::restored_command(&beside);
    let error = whyslow.arg0("cargo-whyslow").args(std::env::args_os().skip(1)).exec();
    let reason = error.to_string();
    let reason = reason.split(" (os error").next().unwrap_or_default();
    eprintln!(
        "whyslow: error: cannot start {}: {reason}; try: cargo install --path crates/whyslow, which installs it",
        beside.display()
    );
    ExitCode::from(FAILED)
}
