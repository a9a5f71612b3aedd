//! `dlclose`: what is known of code may be untrue afterwards.

use crate::real::{self, other};
use crate::walk;

/// libc's `dlclose`.
#[unsafe(no_mangle)]
pub extern "C" fn dlclose(handle: u64) -> u64 {
    let result = match real::of_other(other::DLCLOSE) {
        0 => 0,
        // SAFETY: the function that this stands in for, with the caller's own argument.
        real => unsafe { real::call(real, handle, 0, 0, 0) },
    };
    walk::unloaded();
    result
}
