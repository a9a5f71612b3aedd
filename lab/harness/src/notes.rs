//! What a test says about itself: that it leaves something out, or that it tries again. Neither happens in silence: it is printed, and
//! `cargo xtask test` shows it at its end.

use std::io::Write as _;

/// Names the file that `cargo xtask test` collects notes in.
pub const NOTES_FILE: &str = "WHYSLOW_TEST_NOTES";

/// What may be left out under CI, and why no set-up can help.
const MAY_BE_MISSING: [(&str, &str); 4] = [
    (
        "bwrap cannot make namespaces here",
        "a container often may not make namespaces, and its root cannot change that",
    ),
    (
        "perf events are refused here",
        "a container or a hardened kernel does so, and recording without them is tested all the same",
    ),
    (
        "the kernel's tracepoints are not to be seen here",
        "only root sees them, where tracefs is mounted, which a container may not do",
    ),
    (
        "rustc for x86_64-unknown-linux-musl is not installed",
        "a toolchain may come without that library; C programs are tested with musl all the same",
    ),
];

/// Says that the calling test leaves something out, and why.
///
/// Where `CI` is set this fails the test: everything that can be installed is installed there, and a test that tests nothing would pass by
/// accident. The few exceptions are listed above.
#[track_caller]
pub fn skip(reason: &str) {
    note("skipped", reason);
    assert!(
        may_skip(reason, std::env::var_os("CI").is_some()),
        "skipped under CI: {reason}. Install it in `cargo xtask setup`, or say in {} why that cannot be done",
        file!()
    );
}

/// Whether a command can be run; [`skip`]s where not.
#[track_caller]
pub fn is_installed(command: &str) -> bool {
    let found = std::process::Command::new(command).arg("--version").output().is_ok();
    if !found {
        skip(&format!("{command} is not installed"));
    }
    found
}

/// Says that the calling test tries once more what did not hold, and why that can be chance.
pub fn try_again(reason: &str) {
    note("tried again", reason);
}

fn may_skip(reason: &str, ci: bool) -> bool {
    !ci || MAY_BE_MISSING.iter().any(|(known, _)| *known == reason)
}

/// One line: what, which test, why.
fn note(what: &str, reason: &str) {
    let reason = reason.lines().next().unwrap_or_default();
    eprintln!("{what}: {reason}");
    let Some(file) = std::env::var_os(NOTES_FILE) else { return };
    let thread = std::thread::current();
    let test = std::env::var("NEXTEST_TEST_NAME").ok();
    let test = test.as_deref().or(thread.name()).unwrap_or("?");
    let file = std::fs::OpenOptions::new().create(true).append(true).open(file);
    // The line is for a person; a test does not fail for want of it.
    let _ = file.and_then(|mut file| file.write_all(format!("{what}\t{test}\t{reason}\n").as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_may_be_left_out_under_ci() {
        let (listed, _) = MAY_BE_MISSING[0];
        assert!(may_skip(listed, true) && may_skip(listed, false));
        assert!(may_skip("gcc is not installed", false));
        assert!(!may_skip("gcc is not installed", true));
    }
}
