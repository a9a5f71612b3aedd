//! Notes of tests that skip something or retry. Notes are printed, and `cargo xtask test` shows them at its
//! end.

use std::io::Write as _;

/// Environment variable that names the file in which `cargo xtask test` collects notes.
pub const NOTES_FILE: &str = "WHYSLOW_TEST_NOTES";

/// What tests may skip under CI, and why setup cannot help.
const MAY_BE_MISSING: [(&str, &str); 4] = [
    (
        "bwrap cannot create namespaces here",
        "a container often may not create namespaces, and its root cannot change that",
    ),
    (
        "perf events are not permitted here",
        "containers and hardened kernels deny them, and recording without them is tested anyway",
    ),
    (
        "the kernel's tracepoints are not readable here",
        "only root can read them, and a container may not mount tracefs",
    ),
    (
        "rustc for x86_64-unknown-linux-musl is not installed",
        "a toolchain may lack that library; C programs are tested with musl anyway",
    ),
];

/// Notes that the calling test skips something, and why.
///
/// If `CI` is set, this fails the test: everything that can be installed is installed there, and a test that
/// checks nothing would pass by accident. The few exceptions are listed above.
#[track_caller]
pub fn skip(reason: &str) {
    note("skipped", reason);
    assert!(
        may_skip(reason, std::env::var_os("CI").is_some()),
        "skipped under CI: {reason}. Install it in `cargo xtask setup`, or add the reason to the list in {}",
        file!()
    );
}

/// Whether a command can be run. [`skip`]s if not.
#[track_caller]
pub fn is_installed(command: &str) -> bool {
    let found = std::process::Command::new(command).arg("--version").output().is_ok();
    if !found {
        skip(&format!("{command} is not installed"));
    }
    found
}

/// Notes that the calling test retries a failed check, and why the failure can be chance.
pub fn try_again(reason: &str) {
    note("tried again", reason);
}

fn may_skip(reason: &str, ci: bool) -> bool {
    !ci || MAY_BE_MISSING.iter().any(|(known, _)| *known == reason)
}

/// Writes one line: what, which test, why.
fn note(what: &str, reason: &str) {
    let reason = reason.lines().next().unwrap_or_default();
    eprintln!("{what}: {reason}");
    let Some(file) = std::env::var_os(NOTES_FILE) else { return };
    let thread = std::thread::current();
    let test = std::env::var("NEXTEST_TEST_NAME").ok();
    let test = test.as_deref().or(thread.name()).unwrap_or("?");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    // The line is for people. A test does not fail if it cannot be written.
    let _ = file.and_then(|mut file| file.write_all(format!("{what}\t{test}\t{reason}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_reasons_may_be_skipped_under_ci() {
        let (listed, _) = MAY_BE_MISSING[0];
        assert!(may_skip(listed, true) && may_skip(listed, false));
        assert!(may_skip("gcc is not installed", false));
        assert!(!may_skip("gcc is not installed", true));
    }
}
