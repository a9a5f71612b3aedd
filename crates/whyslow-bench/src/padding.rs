//! Changes the size of the environment for every run. It moves the start of the stack, and with it how data
//! fall into cache lines and pages. A comparison must not depend on that.

use std::ffi::OsString;

/// The maximum size of the padding.
pub const MAX_BYTES: usize = 4096;

/// The padding variable, with a value of this many bytes.
pub fn variable(bytes: usize) -> (OsString, OsString) {
    ("WHYSLOW_PADDING".into(), "x".repeat(bytes).into())
}
