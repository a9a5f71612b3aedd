//! Human-readable times and sizes.

pub use whyslow_analyze::value;
pub use whyslow_words::{Count, Percent, bytes, duration, times};
