//! Times and addresses, each kind its own type, so that a time of a clock is not stored where a time of a
//! profile belongs, and an address of a file not where one of a process does.

mod addresses;
mod times;

pub use addresses::{Bias, FileAddress, ImageBase, RelativeAddress, RunTimeAddress};
pub use times::{ClockNs, ProfileNs, Start};
