//! An environment of another size for every run: where a stack begins decides how data lie in cache lines and pages, and a comparison must not depend on it.

use std::ffi::OsString;

/// What the environment may be larger by.
pub const MOST_BYTES: usize = 4096;

/// The variable that makes it larger, and a value of so many bytes.
pub fn variable(bytes: usize) -> (OsString, OsString) {
    ("WHYSLOW_PADDING".into(), "x".repeat(bytes).into())
}
