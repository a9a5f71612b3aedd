//! Every exit code, in one place.

use std::process::ExitCode;

use whyslow_profile::ExitStatus;

/// How whyslow exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Success,
    /// 1: `whyslow doctor` found something that prevents recording.
    CannotRecord,
    /// 2: `whyslow gate` found a regression.
    Worse,
    /// 3: `whyslow gate` could not decide.
    Undecided,
    /// 2: `whyslow explain --fail-on` found one of the listed findings.
    Found,
    /// 2: `whyslow heap --fail-on-leak` found a leak in a program that exited with 0.
    Leaked,
    /// 3: `whyslow heap --fail-on-leak` found no leak, but could not check everything.
    NotEverythingSeen,
    /// The recorded program's own code.
    Program(i32),
    /// 128 + n: signal n killed the recorded program.
    Signal(i32),
    /// cargo's own code (101 for a failed build): the program never started.
    Cargo(i32),
    /// 130: the user pressed Ctrl-C; the results so far were printed.
    Interrupted,
    /// 125: whyslow itself failed, or its arguments were wrong.
    Failed,
    /// 126: the program exists but cannot be started.
    NotExecutable,
    /// 127: the program was not found.
    NotFound,
}

impl Exit {
    /// The number for the operating system.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::CannotRecord => 1,
            Self::Leaked | Self::Worse | Self::Found => 2,
            Self::NotEverythingSeen | Self::Undecided => 3,
            Self::Program(code) | Self::Cargo(code) => code as u8,
            Self::Signal(signal) => 128u8.wrapping_add(signal as u8),
            Self::Interrupted => 130,
            Self::Failed => 125,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Code(code) => Self::Program(code),
            ExitStatus::Signal(signal) => Self::Signal(signal),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_match_the_documentation() {
        assert_eq!(Exit::from(ExitStatus::Code(3)).code(), 3);
        assert_eq!(Exit::from(ExitStatus::Signal(9)).code(), 137);
        assert_eq!(Exit::from(ExitStatus::Signal(64)).code(), 192);
        assert_eq!([Exit::Leaked, Exit::NotEverythingSeen].map(Exit::code), [2, 3]);
        assert_eq!(Exit::Interrupted.code(), 128 + 2);
        assert_eq!([Exit::Worse, Exit::Undecided].map(Exit::code), [2, 3]);
        assert_eq!([Exit::Failed, Exit::NotExecutable, Exit::NotFound].map(Exit::code), [125, 126, 127]);
    }
}
