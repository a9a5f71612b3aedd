//! Records a lab program and queries the profile by function name.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use whyslow_analyze::remark_of;
pub(crate) use whyslow_lab_harness::last_segment;
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run, skip, try_again};
use whyslow_profile::{CodeKind, Profile, StackId, file};

/// No recording takes longer than this, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// A recorded program.
pub(crate) struct Recorded {
    pub(crate) profile: Profile,
    pub(crate) truth: Truth,
    /// Keeps the profile's folder until the test ends.
    pub(crate) folder: tempfile::TempDir,
}

/// The whyslow command with its cache in the test's own folder.
pub(crate) fn whyslow(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_whyslow"));
    command.current_dir(folder).env("XDG_CACHE_HOME", folder.join("cache"));
    command
}

/// Whether perf events are permitted. Attaching needs them, and so does everything that only the kernel
/// reports: files mapped at any time, and children that no agent has reported yet.
pub(crate) fn has_perf_events() -> bool {
    let has = whyslow_capture::trial().is_ok_and(|trial| trial.events.is_ok());
    if !has {
        skip("perf events are not permitted here");
    }
    has
}

/// Runs a command without permission for perf events, as under a container's filter; or with other options of the
/// filter.
pub(crate) fn refused(options: &[&str], arguments: &[&str]) -> Option<(Output, tempfile::TempDir)> {
    let refuse = build_or_skip("refuse", Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(refuse);
    command.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache"));
    command.args(options).arg(env!("CARGO_BIN_EXE_whyslow")).args(arguments);
    Some((run(&mut command, PATIENCE).unwrap(), folder))
}

/// Noise exceeds three standard errors now and then; a wrong sampler fails both runs.
pub(crate) fn twice_at_most(run: impl Fn() -> Result<(), String>) {
    if let Err(first) = run() {
        try_again(&first);
        if let Err(second) = run() {
            panic!("{first}; and again: {second}");
        }
    }
}

/// Builds and records a lab program; `None` if a compiler is missing (reported on stderr).
pub(crate) fn record(program: &str, variant: Variant, args: &[&str]) -> Option<Recorded> {
    Some(record_program(&build_or_skip(program, variant)?, args))
}

/// Records a program.
pub(crate) fn record_program(program: &Path, args: &[&str]) -> Recorded {
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "-o", "run.whyslow"]).arg("--").arg(program).args(args);
    let output = run(&mut command, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    Recorded { profile, truth, folder }
}

impl Recorded {
    pub(crate) fn samples(&self) -> u64 {
        self.profile.samples[0].len() as u64
    }

    /// All sampled stacks.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = StackId> + '_ {
        self.profile.samples[0].stack.iter().copied()
    }

    /// The names on a stack, innermost first, without the kernel's and including inlined functions. Addresses
    /// without a symbol are `?`.
    pub(crate) fn names(&self, stack: StackId) -> Vec<&str> {
        let profile = &self.profile;
        let mut names = Vec::new();
        for location in profile.locations_of(stack) {
            let frames = profile.frames.of(location);
            if frames.is_empty() && location != whyslow_profile::LocationId::TRUNCATED {
                names.push("?");
            }
            for frame in frames.iter().rev() {
                let function = &profile.functions[frame.function.index()];
                if function.kind != CodeKind::Kernel {
                    names.push(profile.text(function.name));
                }
            }
        }
        names
    }

    /// The share of samples whose stack, without the kernel's part, has this as its innermost physical function.
    pub(crate) fn self_share(&self, function: &str) -> f64 {
        self.share(|names| names.first().is_some_and(|name| last_segment(name) == function))
    }

    /// The share of samples with this function anywhere on the stack.
    pub(crate) fn total_share(&self, function: &str) -> f64 {
        self.share(|names| names.iter().any(|name| last_segment(name) == function))
    }

    /// The share of samples with matching stacks.
    pub(crate) fn share(&self, fits: impl Fn(&[&str]) -> bool) -> f64 {
        let fitting = self.stacks().filter(|stack| fits(&self.names(*stack))).count();
        fitting as f64 / self.samples() as f64
    }

    /// The share of samples whose stack reaches its outermost frame.
    pub(crate) fn complete_share(&self) -> f64 {
        let complete = self.stacks().filter(|stack| !self.profile.is_truncated(*stack)).count();
        complete as f64 / self.samples() as f64
    }

    /// Fails unless at least 99 % of the stacks are complete. In short runs, a handful of samples from the
    /// program's start, when its frames change quickly, would be more than that.
    pub(crate) fn assert_complete(&self, what: &str) {
        const START: f64 = 4.0;
        let share = self.complete_share();
        let incomplete = (1.0 - share) * self.samples() as f64;
        assert!(
            share >= 0.99 || incomplete <= START,
            "{what}: {:.2} % of {} stacks are complete; {:?}",
            share * 100.0,
            self.samples(),
            self.profile.meta.counters
        );
    }
}

/// The text of a profile's notes.
pub(crate) fn notes(profile: &Profile) -> Vec<String> {
    profile.meta.notes.iter().map(|note| remark_of(note).text).collect()
}
