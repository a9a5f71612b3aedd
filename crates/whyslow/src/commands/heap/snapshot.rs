//! `whyslow heap --snapshot`: asks the recorder of a process what holds memory in it now.

use std::ffi::{OsStr, OsString};
use std::io::Read;

use whyslow_heap::{SnapshotError, request_snapshot};
use whyslow_profile::{Profile, file};

use crate::failure::{Failure, Result};
use crate::recording::name_of;

/// The profile of a process until now, without symbols.
pub(super) fn take(pid: u32) -> Result<Profile> {
    let mut bytes = Vec::new();
    request_snapshot(pid)
        .map_err(explain)?
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(format!("cannot read the snapshot of process {pid}: {error}")))?;
    file::read_bytes(&bytes)
        .map_err(|error| Failure::new(format!("the snapshot of process {pid} is damaged: {error}")))
}

/// The name of the profile: that of the process.
pub(super) fn name(profile: &Profile, pid: u32) -> OsString {
    let process = profile.processes.iter().rfind(|process| process.pid == pid);
    let process = process.map_or("", |process| profile.text(process.name));
    let program = profile.meta.command.first().map_or("", String::as_str);
    named(process, program)
}

/// The kernel truncates the names of processes; the program's name is used where it is the same.
fn named(process: &str, program: &str) -> OsString {
    let program = name_of(OsStr::new(program)).to_string_lossy();
    let whole = if program.starts_with(process) { &program } else { process };
    // A process may give itself any name.
    let mut name = name_of(OsStr::new(whole)).to_owned();
    name.push(".snapshot");
    name
}

fn explain(error: SnapshotError) -> Failure {
    let failure = Failure::new(error.to_string());
    match &error {
        SnapshotError::NoProcess { .. } => failure.next("`ps -e` to list processes"),
        SnapshotError::Recorder { watched, .. } => {
            match watched.first().and_then(|one| one.split(' ').next()) {
                Some(pid) => failure.next(format!("whyslow heap --snapshot {pid}")),
                None => failure,
            }
        }
        SnapshotError::Foreign { pid, user } => {
            failure.next(format!("sudo -u '#{user}' whyslow heap --snapshot {pid}"))
        }
        SnapshotError::NotWatched { .. } => {
            failure.next("whyslow heap -- PROGRAM, to start it under whyslow")
        }
        SnapshotError::Silent { .. } => failure.next("the same command again"),
        // These messages already say what to try.
        SnapshotError::Ended { .. } | SnapshotError::Refused(_) => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_named_after_their_process() {
        assert_eq!(named("app", "./target/app"), "app.snapshot");
        assert_eq!(
            named("a-program-with-a", "bin/a-program-with-a-long-name"),
            "a-program-with-a-long-name.snapshot"
        );
        assert_eq!(named("worker", "./app"), "worker.snapshot");
        assert_eq!(named("../../worker/0", "./app"), "0.snapshot");
        assert_eq!(named("..", ""), "whyslow.snapshot");
    }
}
