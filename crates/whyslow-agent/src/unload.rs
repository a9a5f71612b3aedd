//! `dlclose`: what the agent knows about code may be wrong afterwards.

use crate::real::{self, other};
use crate::walk;

/// Hook for libc's `dlclose`.
///
/// # Safety
/// Same as libc's.
#[cfg_attr(feature = "heap", unsafe(no_mangle))]
pub unsafe extern "C" fn dlclose(handle: u64) -> u64 {
    let result = match real::of_other(other::DLCLOSE) {
        None => 0,
        // SAFETY: the hooked function, with the caller's own argument.
        Some(real) => unsafe { real.call([handle]) },
    };
    walk::unloaded();
    result
}
