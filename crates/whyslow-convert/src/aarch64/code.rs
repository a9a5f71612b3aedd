//! Machine code patterns that show how a frame was created.

/// The system call instruction: `svc #0`.
pub(super) const SYSTEM_CALL: [u8; 4] = [0x01, 0, 0, 0xd4];

/// Bytes of the kernel's `siginfo` and `ucontext` in a signal frame, up to the general registers.
pub(super) const SIGNAL_STATE: usize = 128 + 176 + 8 + 8 * 33;
