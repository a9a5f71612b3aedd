//! System calls and instructions without a safe wrapper.

#![expect(unsafe_code, reason = "system calls and one instruction have no safe interface")]

use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::fs::StatVfsMountFlags;
use rustix::thread::futex::{self, Timespec};
use whyslow_agent_wire::record::TICK_SHIFT;

use crate::ids::Tick;

/// The time-stamp counter, in ticks of the records.
#[inline]
pub fn now() -> Tick {
    // SAFETY: the instruction exists on every x86-64 and only reads a counter.
    Tick(unsafe { std::arch::x86_64::_rdtsc() >> TICK_SHIFT })
}

/// Prefetches the memory of a value.
#[inline]
pub fn prefetch<T>(value: &T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint; the address is that of a valid value.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
}

/// CPU time of this thread in nanoseconds.
pub fn thread_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Sleeps until one of these futexes is woken or no longer 1, or the time is over. Their file is shared, so
/// the futexes are not private.
pub(crate) fn wait_while_one(futexes: &[&AtomicU32], at_most: Duration) {
    const MOST: usize = 128;
    let timespec = |time: Duration| Timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    };
    match futexes {
        [] => std::thread::sleep(at_most),
        [one] => {
            // The caller checks, whatever ended the wait.
            let _ = futex::wait(one, futex::Flags::empty(), 1, Some(&timespec(at_most)));
        }
        several if several.len() <= MOST => {
            let waiter = |futex: &&AtomicU32| {
                let mut waiter = futex::Wait::new();
                waiter.val = 1;
                waiter.uaddr = futex::WaitPtr::new(futex.as_ptr().cast());
                waiter.flags = futex::WaitFlags::SIZE_U32;
                waiter
            };
            let waiters: Vec<futex::Wait> = several.iter().map(waiter).collect();
            let until = Duration::from_nanos(whyslow_proc::now().raw()) + at_most;
            let flags = futex::WaitvFlags::empty();
            let result = futex::waitv(&waiters, flags, Some(&timespec(until)), futex::ClockId::Monotonic);
            if result == Err(rustix::io::Errno::NOSYS) {
                std::thread::sleep(at_most.min(Duration::from_millis(1)));
            }
        }
        _ => std::thread::sleep(at_most.min(Duration::from_millis(1))),
    }
}

/// Wakes all threads that wait at a futex.
pub(crate) fn wake_all(futex: &AtomicU32) {
    let _ = futex::wake(futex, futex::Flags::empty(), i32::MAX as u32);
}

/// Whether a thread has exited.
pub(crate) fn thread_has_ended(pid: u32, tid: u32) -> bool {
    let (Ok(pid), Ok(tid)) = (i32::try_from(pid), i32::try_from(tid)) else { return true };
    if pid <= 0 || tid <= 0 {
        return true;
    }
    // SAFETY: signal 0 is never delivered.
    let result = unsafe { libc::syscall(libc::SYS_tgkill, pid, tid, 0) };
    result < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Whether no process has a thread with this id any more.
pub(crate) fn task_has_ended(tid: u32) -> bool {
    let Some(tid) = i32::try_from(tid).ok().and_then(rustix::process::Pid::from_raw) else { return true };
    rustix::process::test_kill_process(tid) == Err(rustix::io::Errno::SRCH)
}

/// Whether files in this folder can be mapped as code.
pub(crate) fn allows_code(folder: &Path) -> bool {
    !rustix::fs::statvfs(folder).is_ok_and(|found| found.f_flag.contains(StatVfsMountFlags::NOEXEC))
}
