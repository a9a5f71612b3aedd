//! Runs parts of tests in their own process, with their own profiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PART: &str = "WHYSLOW_ALLOC_TEST_PART";
const FILE: &str = "WHYSLOW_ALLOC_TEST_FILE";

/// Runs `part` if this process was started for it. Otherwise starts that process.
pub(crate) fn in_own_process(name: &str, part: fn(&Path)) -> Option<(tempfile::TempDir, PathBuf, Output)> {
    if std::env::var(PART).is_ok_and(|wanted| wanted == name) {
        until_the_harness_waits();
        part(Path::new(&std::env::var_os(FILE).unwrap()));
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(PART, name)
        // Its output is read after it has exited, and has to fit into a pipe until then.
        .env("RUST_BACKTRACE", "0")
        .env(FILE, &path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Far longer than it takes: only a hang lasts this long.
    let end = Instant::now() + Duration::from_secs(120);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{name} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().unwrap();
    Some((folder, path, output))
}

/// Waits until the harness's thread, the first of the process, has allocated what it needs to wait for this
/// one.
fn until_the_harness_waits() {
    let pid = std::process::id();
    let mut asleep = 0;
    while asleep < 5 {
        let stat = std::fs::read_to_string(format!("/proc/self/task/{pid}/stat")).unwrap();
        asleep = if stat.contains(") S ") { asleep + 1 } else { 0 };
        std::thread::sleep(Duration::from_millis(2));
    }
}
