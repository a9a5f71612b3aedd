//! Times and sizes as people read them.

pub use whyslow_analyze::{Count, Percent, bytes, duration, times, value};
