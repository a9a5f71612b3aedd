//! The code that a signal handler returns to. Not every C library has tables for it, so it is recognised by
//! its bytes, as debuggers do.

use whyslow_numbers::RelativeAddress;

use crate::arch::Arch;
use crate::image::Image;

/// Whether an address is in the trampoline, or right before it, where its call instruction would be if it had one.
pub(crate) fn is_trampoline<A: Arch>(image: &Image, address: RelativeAddress) -> bool {
    let (code, system_call) = A::TRAMPOLINE;
    [1, 0, system_call.wrapping_neg()]
        .into_iter()
        .any(|offset| image.code_at(address.plus(offset), code.len()) == code)
}
