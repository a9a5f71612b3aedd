//! The code that signal handlers return to.
//!
//! ```text
//! 68 11 80 d2   mov x8, #139      rt_sigreturn
//! 01 00 00 d4   svc #0
//! ```

pub(super) const CODE: [u8; 8] = [0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4];
pub(super) const SYSTEM_CALL: u64 = 4;
