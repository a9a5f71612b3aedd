//! Programs that a recorded program executes and that cannot be recorded, or may turn out not to be. A
//! process that has switched to another user or root folder cannot reach the collector's socket but still has
//! the area mapped: its agent writes such programs there, and the collector reads them at the end.

use core::sync::atomic::{AtomicU8, AtomicU32};

/// Number of different programs that fit into an area. Further ones are only counted
/// (`Header::left_out_more`).
pub const MOST_LEFT_OUT: usize = 512;
/// Maximum length of a name. Of a longer name, the end is kept.
pub const MOST_NAME: usize = 488;

/// One program, and why it is not recorded.
#[repr(C)]
#[derive(Debug)]
pub struct LeftOut {
    /// One of [`state`].
    pub state: AtomicU32,
    /// How often it was executed. A failed exec is subtracted again, so this may be 0.
    pub times: AtomicU32,
    /// One of [`why`].
    pub why: AtomicU32,
    /// Length of the name in bytes.
    pub name_len: AtomicU32,
    /// The process that executed it, by its own process id.
    pub pid: AtomicU32,
    /// Not used.
    pub reserved: AtomicU32,
    /// The program's name, as the process that executed it sees it.
    pub name: [AtomicU8; MOST_NAME],
}

/// States of an entry.
pub mod state {
    /// Not in use.
    pub const FREE: u32 = 0;
    /// A thread is writing it.
    pub const TAKEN: u32 = 1;
    /// Complete: only its count can still change.
    pub const READY: u32 = 2;
}

/// Why a program is not recorded.
pub mod why {
    /// Its user may not open the collector's folder.
    pub const OTHER_USER: u32 = 1;
    /// The collector's folder does not exist there: another root folder, or other mounts.
    pub const OTHER_ROOT: u32 = 2;
    /// The process that started it has forbidden itself system calls.
    pub const CONFINED: u32 = 3;
    /// Its real and effective user or group differ, so the loader preloads nothing.
    pub const TWO_USERS: u32 = 4;
    /// Its environment names another collector.
    pub const OTHER_COLLECTOR: u32 = 5;
    /// There was no memory for its environment.
    pub const NO_MEMORY: u32 = 6;
    /// The collector did not answer.
    pub const NO_ANSWER: u32 = 7;
    /// Should be recorded, as far as the process that started it knows. The collector frees the entry when
    /// the program's agent sends its hello.
    pub const STARTED: u32 = 8;
}

const _: () = assert!(size_of::<LeftOut>() == 512);
