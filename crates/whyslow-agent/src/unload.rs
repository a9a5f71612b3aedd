//! `dlclose`: what is known of code may be untrue afterwards.

use crate::real::{self, other};
use crate::walk;

/// libc's `dlclose`.
///
/// # Safety
/// As for libc's.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
pub unsafe extern "C" fn dlclose(handle: u64) -> u64 {
    let result = match real::of_other(other::DLCLOSE) {
        None => 0,
        // SAFETY: the function that this stands in for, with the caller's own argument.
        Some(real) => unsafe { real.call([handle]) },
    };
    walk::unloaded();
    result
}
