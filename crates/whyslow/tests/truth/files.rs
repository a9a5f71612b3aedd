//! Waits for a disk against the program's own measurements, as root and as an ordinary user.

use std::path::Path;

use whyslow_analyze::Reason;
use whyslow_lab_harness::{Truth, Variant, build_or_skip, lab_folder, skip};
use whyslow_profile::Profile;

use crate::lock_kinds::{assert_waits, record, record_as_nobody};
use crate::recorded::has_perf_events;

/// Fails unless the program has waited for a file as long as it measured. Passes if writing to the disk never
/// blocks.
#[track_caller]
fn assert_fsync(folder: &Path, profile: &Profile, truth: &Truth) {
    const TOO_LITTLE_US: u64 = 20_000;
    if truth.counts["wait_fsync_us"] < TOO_LITTLE_US {
        skip(&format!("fsync does not wait for a disk in {}", folder.display()));
        return;
    }
    assert_waits(profile, truth, &[("wait_fsync", &[Reason::File])]);
}

#[test]
fn syncing_a_file_is_a_wait_for_a_file() {
    let Some(program) = build_or_skip("fsync", Variant::Release) else { return };
    if !has_perf_events() {
        return;
    }
    // Temporary folders are often in memory.
    let folder = tempfile::tempdir_in(lab_folder()).unwrap();
    let (profile, truth) = record(&program, &[folder.path().join("data").to_str().unwrap()]);
    assert_fsync(folder.path(), &profile, &truth);
}

#[test]
fn an_ordinary_user_sees_waits_for_a_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let Some(program) = build_or_skip("fsync", Variant::Release) else { return };
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir_in(lab_folder()).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let data = folder.path().join("data");
    let Some((profile, truth)) = record_as_nobody(&program, &[data.to_str().unwrap()]) else { return };
    assert_fsync(folder.path(), &profile, &truth);
}
