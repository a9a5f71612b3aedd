//! What can go wrong before and while Valgrind runs.

use std::io;
use std::path::PathBuf;

use whyslow_capture::RecordError;
use whyslow_profile::ExitStatus;

/// Why Valgrind did not run the program. `Display` says what happened and why; the front end adds what to try.
#[derive(Debug, thiserror::Error)]
pub enum ValgrindError {
    /// There is no `valgrind` in PATH.
    #[error("valgrind is not installed")]
    NotInstalled,
    /// Something else has its name, or it is broken.
    #[error("{}: `--version` did not answer with Valgrind's version, but with `{answer}`", program.display())]
    NotValgrind {
        /// The program in PATH.
        program: PathBuf,
        /// The start of its answer.
        answer: String,
    },
    /// The program to run does not exist or is not executable.
    #[error("{0}")]
    Program(RecordError),
    /// Its files have no place.
    #[error("no temporary folder for valgrind's files: {0}")]
    Folder(io::Error),
    /// Valgrind itself cannot be started or watched.
    #[error("valgrind could not be started: {0}")]
    System(io::Error),
    /// Valgrind started, and gave up before it ran the program. It said why on standard error.
    #[error("valgrind could not run {program}: it ended with {}", words(*.exit))]
    NotRun {
        /// The program as the user wrote it.
        program: String,
        /// How valgrind ended.
        exit: ExitStatus,
    },
}

fn words(exit: ExitStatus) -> String {
    match exit {
        ExitStatus::Code(code) => format!("code {code}"),
        ExitStatus::Signal(signal) => format!("signal {signal}"),
    }
}
