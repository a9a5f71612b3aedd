//! Human-readable times and sizes.

pub use whyslow_analyze::{Count, Percent, bytes, duration, times, value};
