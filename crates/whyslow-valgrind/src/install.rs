//! The Valgrind of this machine: where it is, and its version.

use std::fmt;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Stdio;

use crate::ValgrindError;

/// An installed Valgrind.
#[derive(Debug, Clone)]
pub struct Valgrind {
    pub(crate) program: PathBuf,
    version: Version,
}

/// Valgrind's version: 3.19 in `valgrind-3.19.0`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 3 since 2005.
    pub major: u32,
    /// What changes with each release.
    pub minor: u32,
}

impl Valgrind {
    /// Finds Valgrind in PATH and asks for its version.
    pub fn find() -> Result<Self, ValgrindError> {
        let named = whyslow_capture::Command { program: "valgrind".into(), ..Default::default() };
        let program = named.file().ok_or(ValgrindError::NotInstalled)?;
        let mut command = whyslow_capture::restored_command(&program);
        command.arg("--version").stdin(Stdio::null());
        let output = command.output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => ValgrindError::NotInstalled,
            _ => ValgrindError::System(error),
        })?;
        let answer = String::from_utf8_lossy(&output.stdout);
        let answer = answer.lines().next().unwrap_or_default();
        match Version::parse(answer) {
            Some(version) => Ok(Self { program, version }),
            None => {
                let answer = answer.chars().take(80).collect();
                Err(ValgrindError::NotValgrind { program, answer })
            }
        }
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.version
    }
}

impl Version {
    /// `valgrind-3.19.0`, or `valgrind-3.23.0.GIT`.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.trim().strip_prefix("valgrind-")?.split('.');
        Some(Self { major: parts.next()?.parse().ok()?, minor: parts.next()?.parse().ok()? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let version = |text: &str| Version::parse(text);
        assert_eq!(version("valgrind-3.19.0"), Some(Version { major: 3, minor: 19 }));
        assert_eq!(version("valgrind-3.23.0.GIT\n"), Some(Version { major: 3, minor: 23 }));
        assert!(version("valgrind-3.9.0") < version("valgrind-3.19.0"));
        assert_eq!(version("3.19.0"), None);
        assert_eq!(version("valgrind-x.y"), None);
    }
}
