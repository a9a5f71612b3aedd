//! The input of a program that is started several times.

use std::io::IsTerminal as _;

/// Whether each of several runs can read the program's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Input {
    /// No restriction: one run, a terminal, or nothing to read.
    Any,
    /// A file, read from this position.
    File(u64),
    /// A pipe: the first run reads it all.
    UsedUp,
}

impl Input {
    /// The input of so many runs.
    pub(crate) fn of_runs(runs: u32) -> Self {
        use std::os::unix::fs::FileTypeExt as _;
        let stdin = std::io::stdin();
        if runs < 2 || stdin.is_terminal() {
            return Self::Any;
        }
        let Ok(kind) = std::fs::metadata("/proc/self/fd/0").map(|about| about.file_type()) else {
            return Self::Any;
        };
        if kind.is_fifo() || kind.is_socket() {
            return Self::UsedUp;
        }
        match rustix::fs::tell(&stdin) {
            Ok(at) if kind.is_file() => Self::File(at),
            _ => Self::Any,
        }
    }

    /// Makes the next run start where the first one did.
    pub(crate) fn rewind(self) {
        if let Self::File(at) = self {
            // If seeking fails, the next run reads on.
            let _ = rustix::fs::seek(std::io::stdin(), rustix::fs::SeekFrom::Start(at));
        }
    }
}
