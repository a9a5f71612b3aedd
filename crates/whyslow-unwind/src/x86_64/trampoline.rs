//! The code that a signal handler returns to. Not every C library has tables for it, so it is recognised by
//! its bytes, as debuggers do.
//!
//! ```text
//! 48 c7 c0 0f 00 00 00   mov $15, %rax      rt_sigreturn
//! 0f 05                  syscall
//! ```

use super::rule::Rule;
use crate::image::Image;

const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
const SYSCALL: u64 = 7;

/// The rule for an address in the trampoline, or for the one before it, where its call instruction would be
/// if it had one.
pub(crate) fn rule(image: &Image, address: u64) -> Option<Rule> {
    is_trampoline(image, address).then_some(Rule::SignalFrame)
}

/// Whether an address is in the trampoline, or right before it.
pub fn is_trampoline(image: &Image, address: u64) -> bool {
    [1, 0, SYSCALL.wrapping_neg()]
        .into_iter()
        .any(|offset| image.code_at(address.wrapping_add(offset), CODE.len()) == CODE)
}
