//! Code and stack constants for a process that the injector has stopped.

/// `syscall; int3`
pub(crate) const CALL: [u8; 3] = [0x0f, 0x05, 0xcc];
/// The bytes below the stack pointer that belong to the program.
pub(crate) const RED_ZONE: u64 = 128;
