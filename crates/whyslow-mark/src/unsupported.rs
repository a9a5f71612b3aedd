//! The stub for systems that whyslow does not support: nothing is ever recorded.

use super::wire::Kind;

pub(super) fn is_recorded() -> bool {
    false
}

pub(super) fn now_ns() -> u64 {
    0
}

pub(super) fn send(_: Kind, _: &str, _: &str, _: u64, _: u64, _: u64) {}

/// No counters.
pub(super) mod progress {
    pub(crate) fn visit(_: &str) {}
    pub(crate) fn begin(_: &str) {}
    pub(crate) fn end(_: &str) {}
}
