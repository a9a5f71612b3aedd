//! Finds the recorder and sends marks to it.
//!
//! A recorder creates a named pipe for each process that it records (see `place`). The process looks for the
//! pipe with its own PID at its first mark, and again from time to time. Each mark is one non-blocking write
//! to the pipe. Why a pipe and not a file or shared memory:
//!
//! - A write of up to 4 KB to a pipe is atomic, however many threads and processes write.
//! - It is bounded: a recorder that is killed or slow fills the pipe, never a disk, and further marks are dropped and counted.
//! - Written marks survive when the program crashes or is killed.
//! - The only shared resource is a descriptor: it remains valid across fork, and exec closes it.
//!
//! The pipe is opened for reading too. It therefore always has a reader, and a recorder that exits cannot
//! cause SIGPIPE.

use std::cell::Cell;
use std::fs::File;
use std::io::{IoSlice, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::RwLock;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use super::wire::{DETAIL_MOST, Kind, NAME_MOST, Record, VERSION, cut};
use super::{place, sys};

pub(super) use sys::now_ns;

const SECOND: u64 = 1_000_000_000;
/// Pause between attempts to find a recorder early in a program's run: the pipe appears a few milliseconds
/// after exec.
const EARLY_PAUSE: u64 = SECOND / 100;
/// Number of attempts with the short pause.
const EARLY_ATTEMPTS: u32 = 100;
/// A pipe that is full for this long has no reader.
const GIVE_UP: u64 = 2 * SECOND;
/// Maximum number of marks between two readings of the clock.
const UNWATCHED_MOST: u32 = 256;
/// If marks are closer together than this, more of them skip the clock.
const CLOSE_TOGETHER: u64 = SECOND / 1000;

const O_NONBLOCK: i32 = if cfg!(any(target_arch = "mips", target_arch = "mips64")) { 0o200 } else { 0o4000 };
const O_NOFOLLOW: i32 = if cfg!(any(target_arch = "arm", target_arch = "aarch64", target_arch = "powerpc64"))
{
    0o100_000
} else {
    0o400_000
};

/// The open pipe.
struct Pipe {
    file: File,
    path: PathBuf,
    identity: Identity,
}

/// Device and inode: identify a file regardless of its name.
type Identity = (u64, u64);

/// Whether there is a pipe.
static RECORDED: AtomicBool = AtomicBool::new(false);
/// Only ever try-locked: a thread that holds it during a fork does not exist in the child, so waiting would
/// hang.
static PIPE: RwLock<Option<Pipe>> = RwLock::new(None);
/// When to look for the pipe, or check that it still exists.
static NEXT_ATTEMPT: AtomicU64 = AtomicU64::new(0);
static ATTEMPTS: AtomicU32 = AtomicU32::new(0);
/// Whether the first attempt is complete.
static ATTEMPTED: AtomicBool = AtomicBool::new(false);
/// Marks that found the pipe full.
static LOST: AtomicU32 = AtomicU32::new(0);
/// Since when the pipe is full; 0 if it is not.
static FULL_SINCE: AtomicU64 = AtomicU64::new(0);
/// The inode of an abandoned pipe.
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Number of marks that this thread may still make before it reads the clock.
    static UNWATCHED: Cell<u32> = const { Cell::new(0) };
    /// The previous value of `UNWATCHED`, and the time of the last reading.
    static LAST: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// Whether marks are recorded right now.
#[inline]
pub(super) fn is_recorded() -> bool {
    RECORDED.load(Relaxed) || is_found()
}

/// Looks for a recorder from time to time. Rare marks read the clock every time, frequent ones once in
/// [`UNWATCHED_MOST`] marks.
#[inline]
fn is_found() -> bool {
    let left = UNWATCHED.get();
    if left > 0 {
        UNWATCHED.set(left - 1);
        return false;
    }
    check_the_clock()
}

#[cold]
fn check_the_clock() -> bool {
    let now = now_ns();
    let (before, at) = LAST.get();
    let close = now.saturating_sub(at) < CLOSE_TOGETHER;
    let unwatched = if close { (2 * before + 1).min(UNWATCHED_MOST) } else { before / 4 };
    LAST.set((unwatched, now));
    UNWATCHED.set(unwatched);

    let next = NEXT_ATTEMPT.load(Relaxed);
    let attempts = ATTEMPTS.load(Relaxed);
    let pause = if attempts < EARLY_ATTEMPTS { EARLY_PAUSE } else { SECOND };
    if now < next || NEXT_ATTEMPT.compare_exchange(next, now + pause, Relaxed, Relaxed).is_err() {
        return is_found_by_another(now);
    }
    ATTEMPTS.store(attempts.saturating_add(1), Relaxed);
    let found = attach(now);
    ATTEMPTED.store(true, Relaxed);
    found
}

/// Waits for the thread that makes the first attempt, so that other threads do not lose their marks at the
/// start of a program. That takes a few microseconds; the time limit is for a child that was forked during
/// the attempt.
fn is_found_by_another(now: u64) -> bool {
    while !ATTEMPTED.load(Relaxed) && now_ns() - now < EARLY_PAUSE {
        std::thread::yield_now();
    }
    RECORDED.load(Relaxed)
}

/// Opens the pipe of this process, if there is one.
fn attach(now: u64) -> bool {
    let Some(pipe) = find() else { return false };
    if pipe.identity.1 == GIVEN_UP.load(Relaxed) {
        return false;
    }
    let Ok(mut current) = PIPE.try_write() else { return false };
    let greeting = Record {
        kind: Kind::Hello,
        tid: sys::thread(),
        lost: 0,
        start_ns: now,
        end_ns: VERSION,
        name: b"",
        detail: b"",
    };
    if (&pipe.file).write(&greeting.header(0, 0)).is_err() {
        return false;
    }
    *current = Some(pipe);
    FULL_SINCE.store(0, Relaxed);
    LOST.store(0, Relaxed);
    NEXT_ATTEMPT.store(now + SECOND, Relaxed);
    RECORDED.store(true, Relaxed);
    true
}

fn find() -> Option<Pipe> {
    let user = sys::user();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR");
    place::folders(runtime.as_deref(), user).find_map(|folder| {
        let about = std::fs::symlink_metadata(&folder).ok()?;
        if !place::is_private(&about, user) {
            return None;
        }
        let path = folder.join(std::process::id().to_string());
        let mut options = File::options();
        let file = options.read(true).write(true).custom_flags(O_NONBLOCK | O_NOFOLLOW).open(&path).ok()?;
        let about = file.metadata().ok()?;
        let good = about.file_type().is_fifo() && about.uid() == user;
        good.then(|| Pipe { file, path, identity: (about.dev(), about.ino()) })
    })
}

fn detach() {
    if let Ok(mut pipe) = PIPE.try_write() {
        *pipe = None;
        RECORDED.store(false, Relaxed);
    }
}

/// Sends one mark. `now` is the time of the call.
#[cold]
pub(super) fn send(kind: Kind, name: &str, detail: &str, start_ns: u64, end_ns: u64, now: u64) {
    let mut is_removed = false;
    match PIPE.try_read().as_deref() {
        Ok(Some(pipe)) => {
            is_removed = !pipe.send(kind, name, detail, start_ns, end_ns, now);
            let next = NEXT_ATTEMPT.load(Relaxed);
            if now >= next && NEXT_ATTEMPT.compare_exchange(next, now + SECOND, Relaxed, Relaxed).is_ok() {
                is_removed |= !pipe.still_exists();
            }
        }
        // Another thread is attaching or detaching.
        Ok(None) | Err(_) => {
            LOST.fetch_add(1, Relaxed);
        }
    }
    if is_removed {
        detach();
    }
}

impl Pipe {
    /// Writes one record; `false` if the pipe has no reader any more.
    fn send(&self, kind: Kind, name: &str, detail: &str, start_ns: u64, end_ns: u64, now: u64) -> bool {
        let (name, name_cut) = cut(name, NAME_MOST);
        let (detail, detail_cut) = cut(detail, DETAIL_MOST);
        let lost = if LOST.load(Relaxed) == 0 { 0 } else { LOST.swap(0, Relaxed) };
        let record = Record { kind, tid: sys::thread(), lost, start_ns, end_ns, name: b"", detail: b"" };
        let header = record.header(name.len() + name_cut.len(), detail.len() + detail_cut.len());
        let parts = [&header, name.as_bytes(), name_cut.as_bytes(), detail.as_bytes(), detail_cut.as_bytes()];
        if (&self.file).write_vectored(&parts.map(IoSlice::new)).is_ok() {
            if FULL_SINCE.load(Relaxed) != 0 {
                FULL_SINCE.store(0, Relaxed);
            }
            return true;
        }
        LOST.fetch_add(lost.saturating_add(1), Relaxed);
        let since = FULL_SINCE.load(Relaxed);
        if since == 0 {
            FULL_SINCE.store(now, Relaxed);
            return true;
        }
        let abandoned = now.saturating_sub(since) > GIVE_UP;
        if abandoned {
            GIVEN_UP.store(self.identity.1, Relaxed);
        }
        !abandoned
    }

    /// Whether the pipe still exists: a recorder removes it at the end.
    fn still_exists(&self) -> bool {
        let about = std::fs::symlink_metadata(&self.path);
        about.is_ok_and(|about| (about.dev(), about.ino()) == self.identity)
    }
}
