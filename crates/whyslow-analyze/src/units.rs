//! Values of metrics, and shares of them.

use whyslow_profile::Unit;
use whyslow_words::{Count, bytes, duration};

/// A value in its metric's unit.
pub fn value(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => duration(value),
        Unit::Bytes => bytes(value),
        Unit::Count => Count(value).to_string(),
    }
}

/// `part / whole`; 0 if `whole` is 0.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}
