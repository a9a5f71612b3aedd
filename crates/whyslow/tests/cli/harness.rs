//! A temporary folder and a command builder for each test.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use whyslow_profile::Profile;

/// A test's own folder, removed at the end.
pub(crate) struct Folder(tempfile::TempDir);

/// The exit code and output of a command.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.file(name, format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// A profile from folded stacks, one sample per millisecond.
    pub(crate) fn profile(&self, name: &str, folded: &str) -> PathBuf {
        self.save(name, &whyslow_analyze::testing::profile(folded))
    }

    pub(crate) fn save(&self, name: &str, profile: &Profile) -> PathBuf {
        let path = self.path().join(name);
        whyslow_profile::file::write(&path, profile).unwrap();
        path
    }

    /// `whyslow` in this folder, with its cache there and without colours.
    pub(crate) fn command(&self) -> Command {
        self.command_of(env!("CARGO_BIN_EXE_whyslow"))
    }

    pub(crate) fn command_of(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path())
            .env("XDG_CACHE_HOME", self.path().join(".cache"))
            .stdin(Stdio::null());
        for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "CLICOLOR_FORCE", "COLUMNS"]
        {
            command.env_remove(name);
        }
        command
    }

    /// Runs `whyslow` with these arguments.
    pub(crate) fn whyslow<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Outcome {
        outcome(self.command().args(args))
    }
}

pub(crate) fn outcome(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    Outcome {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Outcome {
    /// Asserts that it failed with this code and one error that contains all these words.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:#?}");
        let errors: Vec<_> =
            self.stderr.lines().filter(|line| line.starts_with("whyslow: error: ")).collect();
        assert_eq!(errors.len(), 1, "{self:#?}");
        assert_eq!(
            self.stderr.lines().last(),
            errors.first().copied(),
            "the error is not the last line: {self:#?}"
        );
        for words in says {
            assert!(self.stderr.contains(words), "missing {words:?} in {self:#?}");
        }
    }

    #[track_caller]
    pub(crate) fn succeeds(&self) -> &Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }
}

/// Waits until another process has created this file.
#[track_caller]
pub(crate) fn appears(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !path.exists() {
        assert!(Instant::now() < deadline, "{} does not appear", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until another process has removed this file or folder.
#[track_caller]
pub(crate) fn disappears(path: &Path) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while path.exists() {
        assert!(Instant::now() < deadline, "{} does not disappear", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether recording works here. If not, notes that the test is skipped.
pub(crate) fn can_record() -> bool {
    let can = Folder::new().whyslow(["doctor"]).code == Some(0);
    if !can {
        whyslow_lab_harness::skip("the kernel refuses perf events here");
    }
    can
}

/// Whether perf events are permitted here. Without them, not everything can be recorded.
pub(crate) fn has_perf_events() -> bool {
    let has = whyslow_capture::trial().is_ok_and(|trial| trial.events.is_ok());
    if !has {
        whyslow_lab_harness::skip("perf events are not permitted here");
    }
    has
}

/// Whether the whole machine can be recorded here.
pub(crate) fn can_record_all() -> bool {
    let level = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().any(|line| line.starts_with("Uid:\t0\t0"))
        || level.trim().parse::<i32>().is_ok_and(|level| level <= 0);
    if !allowed {
        whyslow_lab_harness::skip("recording the whole machine is not allowed here");
    }
    allowed && has_perf_events()
}
