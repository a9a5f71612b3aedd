//! The code that signal handlers return to.
//!
//! ```text
//! 48 c7 c0 0f 00 00 00   mov $15, %rax      rt_sigreturn
//! 0f 05                  syscall
//! ```

pub(super) const CODE: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
pub(super) const SYSTEM_CALL: u64 = 7;
