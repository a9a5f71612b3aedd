//! Programs that a watched one executes and that cannot be recorded, and those of which that is not known yet. Who has another user or another root folder by then cannot
//! reach the collector's socket, but still has the area: the agent writes them there, and the collector reads them in the end.

use core::sync::atomic::{AtomicU8, AtomicU32};

/// How many different ones an area has room for. The others are only counted (`Header::left_out_more`).
pub const MOST_LEFT_OUT: usize = 512;
/// Bytes of a name; of a longer one the end is kept.
pub const MOST_NAME: usize = 488;

/// One program, and why it is not recorded.
#[repr(C)]
#[derive(Debug)]
pub struct LeftOut {
    /// One of [`state`].
    pub state: AtomicU32,
    /// How often it was executed. An exec that failed is taken away again, so this may be 0.
    pub times: AtomicU32,
    /// One of [`why`].
    pub why: AtomicU32,
    /// Bytes of the name.
    pub name_len: AtomicU32,
    /// The process that executed it, as it sees itself.
    pub pid: AtomicU32,
    /// Not used.
    pub reserved: AtomicU32,
    /// What it is called, as its starter sees it.
    pub name: [AtomicU8; MOST_NAME],
}

/// States of an entry.
pub mod state {
    /// Nobody's.
    pub const FREE: u32 = 0;
    /// Somebody writes it.
    pub const TAKEN: u32 = 1;
    /// It stays as it is, but for its count.
    pub const READY: u32 = 2;
}

/// Why a program is not recorded.
pub mod why {
    /// Its user may not open the collector's folder.
    pub const OTHER_USER: u32 = 1;
    /// The collector's folder is not there: another root folder, or other mounts.
    pub const OTHER_ROOT: u32 = 2;
    /// Its starter has forbidden itself system calls.
    pub const CONFINED: u32 = 3;
    /// Its real and its effective user or group differ, so that the loader preloads nothing.
    pub const TWO_USERS: u32 = 4;
    /// Its environment names another collector.
    pub const OTHER_COLLECTOR: u32 = 5;
    /// There was no memory for its environment.
    pub const NO_MEMORY: u32 = 6;
    /// The collector did not answer.
    pub const NO_ANSWER: u32 = 7;
    /// It will be recorded, as far as its starter can see. The collector frees the entry when its agent says hello.
    pub const STARTED: u32 = 8;
}

const _: () = assert!(size_of::<LeftOut>() == 512);
