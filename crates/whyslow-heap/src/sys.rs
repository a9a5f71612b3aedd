//! System calls and instructions without a safe wrapper.

#![expect(unsafe_code, reason = "system calls and one instruction have no safe interface")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use whyslow_heap_wire::record::TICK_SHIFT;

/// The time-stamp counter in ticks of the records.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY: the instruction exists on every x86-64 and only reads a counter.
    unsafe { std::arch::x86_64::_rdtsc() >> TICK_SHIFT }
}

/// Asks for the memory of a value, without waiting for it.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; the address is that of a valid value.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for writing.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of this thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Sleeps until one of these futexes is woken or no longer 1, or the time is over.
pub(crate) fn wait_while_one(futexes: &[&AtomicU32], at_most: Duration) {
    const FUTEX_32: u32 = 2;
    const MOST: usize = 128;
    match futexes {
        [] => std::thread::sleep(at_most),
        [one] => {
            let time = libc::timespec {
                tv_sec: at_most.as_secs() as libc::time_t,
                tv_nsec: at_most.subsec_nanos().into(),
            };
            // SAFETY: the futex is a valid word; the kernel only compares it. The file is shared, so no private flag.
            unsafe {
                libc::syscall(libc::SYS_futex, one.as_ptr(), libc::FUTEX_WAIT, 1, &raw const time);
            }
        }
        several if several.len() <= MOST => {
            #[repr(C)]
            struct Waiter {
                value: u64,
                address: u64,
                flags: u32,
                reserved: u32,
            }
            let waiters: Vec<Waiter> = several
                .iter()
                .map(|futex| Waiter {
                    value: 1,
                    address: futex.as_ptr() as u64,
                    flags: FUTEX_32,
                    reserved: 0,
                })
                .collect();
            let until = monotonic_ns() + at_most.as_nanos() as u64;
            let time = libc::timespec {
                tv_sec: (until / 1_000_000_000) as libc::time_t,
                tv_nsec: (until % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: the array and the time live over the call; the futexes are valid words.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_futex_waitv,
                    waiters.as_ptr(),
                    waiters.len(),
                    0,
                    &raw const time,
                    libc::CLOCK_MONOTONIC,
                )
            };
            if result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
                std::thread::sleep(at_most.min(Duration::from_millis(1)));
            }
        }
        _ => std::thread::sleep(at_most.min(Duration::from_millis(1))),
    }
}

/// Wakes everyone who waits at a futex.
pub(crate) fn wake_all(futex: &AtomicU32) {
    // SAFETY: the futex is a valid word.
    unsafe {
        libc::syscall(libc::SYS_futex, futex.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}

/// Whether a thread is gone.
pub(crate) fn thread_is_gone(pid: u32, tid: u32) -> bool {
    let (Ok(pid), Ok(tid)) = (i32::try_from(pid), i32::try_from(tid)) else { return true };
    if pid <= 0 || tid <= 0 {
        return true;
    }
    // SAFETY: signal 0 is never delivered.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// A descriptor that tells when a process ends. `Ok(None)` when it has ended already.
pub(crate) fn watch_process(pid: u32) -> io::Result<Option<OwnedFd>> {
    // SAFETY: a plain system call.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    if fd >= 0 {
        // SAFETY: the descriptor is new and nobody else's.
        return Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) }));
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) { Ok(None) } else { Err(error) }
}

/// Whether a watched process has ended.
pub(crate) fn has_ended(process: BorrowedFd<'_>) -> bool {
    let mut poll = libc::pollfd { fd: process.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid entry.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 && poll.revents & libc::POLLIN != 0 }
}

/// An empty file in memory that no folder has.
pub(crate) fn memory_file() -> io::Result<std::fs::File> {
    // SAFETY: the name is a C string; the call has no other preconditions.
    let fd = unsafe { libc::memfd_create(c"whyslow-snapshot".as_ptr(), libc::MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
}

/// The user's number.
pub(crate) fn user() -> u32 {
    // SAFETY: the call cannot fail.
    unsafe { libc::geteuid() }
}

/// Whether files below this folder can be mapped as code.
pub(crate) fn allows_code(folder: &std::ffi::CStr) -> bool {
    // SAFETY: `statvfs` is plain data, and the path a C string.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        libc::statvfs(folder.as_ptr(), &raw mut found) != 0 || found.f_flag & libc::ST_NOEXEC == 0
    }
}
