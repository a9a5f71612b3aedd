//! Machine code patterns that show how a frame was created.

/// The system call instruction.
pub(super) const SYSTEM_CALL: [u8; 2] = [0x0f, 0x05];

/// Bytes of the kernel's `ucontext` and `siginfo` in a signal frame.
pub(super) const SIGNAL_STATE: usize = 432;
