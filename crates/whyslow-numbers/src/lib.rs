//! Times, each kind its own type, so that a time of a clock is not stored where a time of a profile belongs.

mod times;

pub use times::{ClockNs, ProfileNs, Start};
