//! System calls, made directly. They leave `errno` alone and need no libc.

use core::ffi::{CStr, c_char};
use core::mem;
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU32;

use crate::arch::calls::{
    CLOCK_GETRES, CLOCK_GETTIME, CLONE, CLOSE, CONNECT, EXIT_GROUP, FACCESSAT, FACCESSAT2, FCNTL, FGETXATTR,
    FUTEX, GETDENTS64, GETPID, GETRESGID, GETRESUID, GETTID, IOCTL, KILL, MADVISE, MMAP, MPROTECT, MREMAP,
    MUNMAP, NANOSLEEP, NEWFSTATAT, OPENAT, PERF_EVENT_OPEN, PRCTL, PREAD64, PROCESS_VM_READV, READ,
    READLINKAT, RECVMSG, RT_SIGACTION, RT_SIGPROCMASK, SENDMSG, SENDTO, SETSOCKOPT, SOCKET, TGKILL,
    TIMER_CREATE, TIMER_DELETE, TIMER_SETTIME, WAIT4, call,
};
use crate::signals::Action;

/// Protection bits of a mapping.
pub mod protection {
    pub const READ: usize = 1;
    pub const WRITE: usize = 2;
    pub const EXECUTE: usize = 4;
}

const MAP_SHARED: usize = 1;
const MAP_PRIVATE: usize = 2;
const MAP_FIXED: usize = 0x10;
/// An anonymous mapping.
pub const MAP_ANONYMOUS: usize = 0x20;
const MAP_NORESERVE: usize = 0x4000;
const MAP_FIXED_NOREPLACE: usize = 0x10_0000;
const MADV_NOHUGEPAGE: usize = 15;
const MADV_WIPEONFORK: usize = 18;

fn failed(result: isize) -> bool {
    (-4095..0).contains(&result)
}

pub fn process() -> u32 {
    // SAFETY: reads nothing, writes nothing.
    unsafe { call(GETPID, [0; 6]) as u32 }
}

pub fn thread() -> u32 {
    // SAFETY: reads nothing, writes nothing.
    unsafe { call(GETTID, [0; 6]) as u32 }
}

/// A new mapping wherever the kernel finds room. `None` if there is none.
fn map_anywhere(wish: usize, bytes: usize, rights: usize, how: usize) -> Option<NonNull<u8>> {
    // SAFETY: without `MAP_FIXED` no existing mapping is touched: the address is only a hint.
    let result = unsafe { call(MMAP, [wish, bytes, rights, how | MAP_NORESERVE, usize::MAX, 0]) };
    if failed(result) { None } else { NonNull::new(result as *mut u8) }
}

/// Zeroed pages that belong to the agent. They are unmapped on drop.
pub struct Pages {
    at: NonNull<u8>,
    len: usize,
}

impl Pages {
    /// `None` if there is no memory.
    pub fn new(len: usize) -> Option<Self> {
        let rights = protection::READ | protection::WRITE;
        let at = map_anywhere(0, len, rights, MAP_PRIVATE | MAP_ANONYMOUS)?;
        // Only touched pages should take memory, not two megabytes at the first touch. SAFETY: a hint about
        // these pages. A kernel that does not know it has no huge pages.
        unsafe { call(MADVISE, [at.as_ptr() as usize, len, MADV_NOHUGEPAGE, 0, 0, 0]) };
        Some(Self { at, len })
    }

    /// Pages that a forked child shares. `None` if there is no memory.
    pub fn shared(len: usize) -> Option<Self> {
        let rights = protection::READ | protection::WRITE;
        let at = map_anywhere(0, len, rights, MAP_SHARED | MAP_ANONYMOUS)?;
        Some(Self { at, len })
    }

    /// Their address.
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Makes a forked child find the first `len` bytes zeroed. False if the kernel cannot do that.
    pub fn wipe_on_fork(&mut self, len: usize) -> bool {
        let len = len.min(self.len);
        // SAFETY: changes nothing in this process, and in the child only this crate reads them.
        !failed(unsafe { call(MADVISE, [self.at.as_ptr() as usize, len, MADV_WIPEONFORK, 0, 0, 0]) })
    }

    /// Their contents.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `len` initialised bytes are mapped until this is dropped, and no other code has their
        // address.
        unsafe { slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }

    /// Keeps them mapped for good.
    pub fn keep(self) -> NonNull<u8> {
        mem::ManuallyDrop::new(self).at
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: they belong to this handle, which is being dropped.
        unsafe { unmap(self.at.as_ptr() as usize, self.len) };
    }
}

/// `bytes` zeroed bytes that remain mapped until [`unmap`]. Null if there is no memory.
pub fn pages_for_good(bytes: usize) -> *mut u8 {
    Pages::new(bytes).map_or(ptr::null_mut(), |pages| pages.keep().as_ptr())
}

/// Zeroed, writable pages at exactly this address. False if it is not free.
pub fn pages_at(at: usize, bytes: usize) -> bool {
    let rights = protection::READ | protection::WRITE;
    let how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    // SAFETY: replaces no mapping.
    let result = unsafe { call(MMAP, [at, bytes, rights, how, usize::MAX, 0]) };
    if !failed(result) && result as usize != at {
        // A kernel that does not know the flag treated the address as a hint. SAFETY: it was mapped just now,
        // and no other code has its address.
        unsafe { unmap(result as usize, bytes) };
        return false;
    }
    !failed(result)
}

/// A reserved address range. It is released on drop, with everything mapped in it.
pub struct Place {
    at: NonNull<u8>,
    len: usize,
}

impl Place {
    /// Reserves a range, if possible away from the libraries: patches need free places that a short jump can
    /// reach from there. `None` if there is no room.
    pub fn apart(len: usize) -> Option<Self> {
        const APART: usize = 4 << 30;
        let reserve = |wish: usize| {
            let at = map_anywhere(wish, len, 0, MAP_PRIVATE | MAP_ANONYMOUS)?;
            Some(Place { at, len })
        };
        let beside = reserve(0)?;
        let wish = (beside.at.as_ptr() as usize).saturating_sub(APART);
        Some(reserve(wish).unwrap_or(beside))
    }

    /// Maps a shared file here. False on failure.
    pub fn map_shared(&mut self, file: i32) -> bool {
        let rights = protection::READ | protection::WRITE;
        let how = MAP_SHARED | MAP_NORESERVE | MAP_FIXED;
        let at = self.at.as_ptr() as usize;
        // SAFETY: replaces only the range that was reserved for it.
        !failed(unsafe { call(MMAP, [at, self.len, rights, how, file as usize, 0]) })
    }

    /// Its address.
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Keeps it mapped for good.
    pub fn keep(self) -> NonNull<u8> {
        mem::ManuallyDrop::new(self).at
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // SAFETY: it belongs to this handle, which is being dropped.
        unsafe { unmap(self.at.as_ptr() as usize, self.len) };
    }
}

/// Maps a part of a shared file for good. `None` on failure.
pub fn map_shared(file: i32, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
    let rights = protection::READ | protection::WRITE;
    // SAFETY: a new mapping at a free address.
    let result = unsafe { call(MMAP, [0, bytes, rights, MAP_SHARED | MAP_NORESERVE, file as usize, offset]) };
    if failed(result) { None } else { NonNull::new(result as *mut u8) }
}

/// Maps a shared file again, starting with what is mapped at this address. `None` on failure.
pub fn map_again(at: usize, bytes: usize) -> Option<NonNull<u8>> {
    const MREMAP_MAYMOVE: usize = 1;
    // SAFETY: with an old length of 0 the existing mapping is kept, and the new one gets a free address.
    let result = unsafe { call(MREMAP, [at, 0, bytes, MREMAP_MAYMOVE, 0, 0]) };
    if failed(result) { None } else { NonNull::new(result as *mut u8) }
}

/// Unmaps a range.
///
/// # Safety
/// This crate mapped it, and nothing uses it any more.
pub unsafe fn unmap(at: usize, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe { call(MUNMAP, [at, bytes, 0, 0, 0, 0]) };
}

/// Changes the protection of pages. False if the system does not allow it.
///
/// # Safety
/// They belong to the agent, or hold code that may be written over. Code that reads or executes them can
/// still do so afterwards.
pub unsafe fn protect(at: usize, bytes: usize, rights: usize) -> bool {
    // SAFETY: guaranteed by the caller.
    !failed(unsafe { call(MPROTECT, [at, bytes, rights, 0, 0, 0]) })
}

#[repr(C)]
#[derive(Default)]
struct Time {
    seconds: i64,
    nanoseconds: i64,
}

impl Time {
    fn in_ns(&self) -> u64 {
        (self.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(self.nanoseconds as u64)
    }

    fn new(nanoseconds: u64) -> Self {
        Time {
            seconds: (nanoseconds / 1_000_000_000) as i64,
            nanoseconds: (nanoseconds % 1_000_000_000) as i64,
        }
    }
}

pub fn nap(nanoseconds: u64) {
    let time = Time::new(nanoseconds);
    // SAFETY: reads `time` only.
    unsafe { call(NANOSLEEP, [&raw const time as usize, 0, 0, 0, 0, 0]) };
}

/// Waits until another thread changes the word and wakes this one. False on timeout.
pub fn wait(word: &AtomicU32, value: u32, nanoseconds: u64) -> bool {
    const ETIMEDOUT: isize = 110;
    let time = Time::new(nanoseconds);
    // SAFETY: reads `word` and `time` only.
    let result =
        unsafe { call(FUTEX, [word.as_ptr() as usize, 0, value as usize, &raw const time as usize, 0, 0]) };
    result != -ETIMEDOUT
}

pub fn wake(word: &AtomicU32) {
    wake_some(word, i32::MAX);
}

pub fn wake_one(word: &AtomicU32) {
    wake_some(word, 1);
}

fn wake_some(word: &AtomicU32, count: i32) {
    // SAFETY: writes nothing.
    unsafe { call(FUTEX, [word.as_ptr() as usize, 1, count as usize, 0, 0, 0]) };
}

pub fn exit(code: usize) -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { call(EXIT_GROUP, [code, 0, 0, 0, 0, 0]) };
    }
}

/// The current folder (`AT_FDCWD`).
pub const HERE: i32 = -100;

/// Flags for opening a file.
pub mod how {
    pub const NO_TERMINAL: usize = 0o400;
    pub const WITHOUT_WAITING: usize = 0o4000;
    /// `O_PATH`: needs no permission to read the file.
    pub const NAME: usize = 0o10_000_000;
}

/// Opens a file for reading. Negative on failure.
pub fn open(path: &CStr) -> i32 {
    open_at(HERE, path.as_ptr(), 0)
}

/// Opens a file for reading with the flags `how`. The negative error on failure. The kernel rejects an
/// unreadable path.
pub fn open_at(folder: i32, path: *const c_char, how: usize) -> i32 {
    const O_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: the kernel only reads the path, and rejects unreadable memory.
    unsafe { call(OPENAT, [folder as usize, path as usize, O_CLOEXEC | how, 0, 0, 0]) as i32 }
}

/// Status of a file.
pub struct FileStatus {
    /// Its type and permissions.
    pub mode: u32,
    /// Its owner.
    pub user: u32,
}

/// The status of a file. `None` if there is no such file, or the path cannot be read.
pub fn file_status(folder: i32, path: *const c_char, flags: usize) -> Option<FileStatus> {
    let mut stat = [0u64; 18];
    // SAFETY: a stat structure is 144 bytes. The kernel only reads the path, and rejects unreadable memory.
    let result = unsafe {
        call(NEWFSTATAT, [folder as usize, path as usize, stat.as_mut_ptr() as usize, flags, 0, 0])
    };
    (!failed(result)).then_some(FileStatus { mode: stat[3] as u32, user: (stat[3] >> 32) as u32 })
}

/// Reads a symbolic link and returns the length of its target. 0 on failure.
pub fn read_link(path: &CStr, into: &mut [u8]) -> usize {
    // SAFETY: the kernel reads the path, which is zero-terminated, and writes only to `into`.
    let result = unsafe {
        call(
            READLINKAT,
            [HERE as usize, path.as_ptr() as usize, into.as_mut_ptr() as usize, into.len(), 0, 0],
        )
    };
    if result < 0 { 0 } else { result as usize }
}

/// 0 if this thread may write to a file, or the negative error.
pub fn may_write(path: &CStr) -> i32 {
    const W_OK: usize = 2;
    const AT_EACCESS: usize = 0x200;
    const ENOSYS: isize = 38;
    const EPERM: isize = 1;
    let path = path.as_ptr() as usize;
    // SAFETY: the kernel only reads the path, which is zero-terminated.
    let result = unsafe { call(FACCESSAT2, [HERE as usize, path, W_OK, AT_EACCESS, 0, 0]) };
    if result != -ENOSYS && result != -EPERM {
        return result as i32;
    }
    // An older kernel, or a seccomp filter that is older than the call. SAFETY: as above.
    unsafe { call(FACCESSAT, [HERE as usize, path, W_OK, 0, 0, 0]) as i32 }
}

/// Whether a file grants capabilities to processes that execute it.
pub fn has_capabilities(file: i32) -> bool {
    let name = c"security.capability".as_ptr() as usize;
    // SAFETY: a length of 0 asks for the size and writes nothing.
    unsafe { call(FGETXATTR, [file as usize, name, 0, 0, 0, 0]) > 0 }
}

/// Whether the real and the effective user or group differ. The loader does less for such a program.
pub fn has_two_users() -> bool {
    [GETRESUID, GETRESGID].into_iter().any(|number| {
        let [real, effective, _] = ids(number);
        real != effective
    })
}

/// The effective user.
pub fn user() -> u32 {
    ids(GETRESUID)[1]
}

/// The real, the effective and the saved id.
fn ids(number: usize) -> [u32; 3] {
    let mut ids = [0u32; 3];
    let at = ids.as_mut_ptr() as usize;
    // SAFETY: writes the three adjacent numbers.
    unsafe { call(number, [at, at + 4, at + 8, 0, 0, 0]) };
    ids
}

/// Whether an address is readable. The call reads eight bytes there and then fails for another reason.
pub fn is_readable(at: u64) -> bool {
    const EFAULT: isize = 14;
    const NO_SUCH_CHANGE: usize = 0xFFFF;
    let aligned = at as usize & !7;
    // SAFETY: the kernel reads the mask and then rejects the operation, which does not exist.
    aligned != 0 && unsafe { call(RT_SIGPROCMASK, [NO_SUCH_CHANGE, aligned, 0, 8, 0, 0]) } != -EFAULT
}

/// Reads from an offset in a file. Returns the number of bytes read.
pub fn read_at(file: i32, at: u64, into: &mut [u8]) -> usize {
    // SAFETY: the kernel writes only to `into`.
    let result =
        unsafe { call(PREAD64, [file as usize, into.as_mut_ptr() as usize, into.len(), at as usize, 0, 0]) };
    if result < 0 { 0 } else { result as usize }
}

/// Reads into `into`. Returns the number of bytes read.
pub fn read(file: i32, into: &mut [u8]) -> usize {
    // SAFETY: the kernel writes only to `into`.
    let result = unsafe { call(READ, [file as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) };
    if result < 0 { 0 } else { result as usize }
}

pub fn close(file: i32) {
    // SAFETY: called only with descriptors that this crate opened.
    unsafe { call(CLOSE, [file as usize, 0, 0, 0, 0, 0]) };
}

/// The number of threads of this process. 0 if unknown.
pub fn threads() -> u64 {
    let mut stat = [0u64; 18];
    // SAFETY: a stat structure is 144 bytes.
    let result = unsafe {
        call(
            NEWFSTATAT,
            [usize::MAX, c"/proc/self/task".as_ptr() as usize, stat.as_mut_ptr() as usize, 0, 0, 0],
        )
    };
    // The folder has two links, plus one per thread.
    if failed(result) { 0 } else { stat[2].saturating_sub(2) }
}

/// The action of a signal. `None` if there is no such signal.
pub fn signal_action(signal: i32) -> Option<Action> {
    let mut action = Action::default();
    let to = ptr::from_mut(&mut action) as usize;
    // SAFETY: the kernel writes one action in its own layout.
    (!failed(unsafe { call(RT_SIGACTION, [signal as usize, 0, to, 8, 0, 0]) })).then_some(action)
}

/// Sets the action of a signal.
///
/// # Safety
/// The action's handler and restorer must be functions with the signatures that the kernel calls, or the
/// handler one of the kernel's special values.
pub unsafe fn set_signal_action(signal: i32, action: &Action) {
    // SAFETY: the kernel reads one action. The caller guarantees the functions it calls.
    unsafe { call(RT_SIGACTION, [signal as usize, ptr::from_ref(action) as usize, 0, 8, 0, 0]) };
}

/// Sends a signal to the calling thread.
pub fn send_signal_to_self(signal: i32) {
    // SAFETY: takes numbers.
    unsafe { call(TGKILL, [process() as usize, thread() as usize, signal as usize, 0, 0, 0]) };
}

/// Whether any signal is blocked in this thread, as in most signal handlers.
pub fn signals_blocked() -> bool {
    let mut mask = 0u64;
    // SAFETY: writes `mask` only.
    let result = unsafe { call(RT_SIGPROCMASK, [0, 0, &raw mut mask as usize, 8, 0, 0]) };
    failed(result) || mask != 0
}

/// A copy of this process with only the calling thread. No signal handler runs in it, it leaves no core file,
/// and it ends when this is dropped or its parent ends. The program does not see it: it sends no signal when it ends, and a plain
/// `wait` does not find it.
pub struct Copy {
    pid: usize,
    ended: bool,
}

impl Copy {
    /// Makes a copy, and calls `run` in it. `None` if the kernel makes none.
    pub fn run(run: impl FnOnce()) -> Option<Self> {
        const CLONE_UNTRACED: usize = 0x0080_0000;
        const SIG_BLOCK: usize = 0;
        const SIG_SETMASK: usize = 2;
        let (all, mut mask) = (u64::MAX, 0u64);
        let (all_at, mask_at) = (&raw const all as usize, &raw mut mask as usize);
        // SAFETY: reads `all` and writes `mask`.
        unsafe { call(RT_SIGPROCMASK, [SIG_BLOCK, all_at, mask_at, 8, 0, 0]) };
        // SAFETY: the child gets a copy of this memory and continues on its copy of this stack.
        let pid = unsafe { call(CLONE, [CLONE_UNTRACED, 0, 0, 0, 0, 0]) };
        if pid == 0 {
            const PR_SET_PDEATHSIG: usize = 1;
            const PR_SET_DUMPABLE: usize = 4;
            for (option, value) in [(PR_SET_PDEATHSIG, SIGKILL), (PR_SET_DUMPABLE, 0)] {
                // SAFETY: takes numbers.
                unsafe { call(PRCTL, [option, value, 0, 0, 0, 0]) };
            }
            run();
            exit(0);
        }
        // SAFETY: reads `mask`.
        unsafe { call(RT_SIGPROCMASK, [SIG_SETMASK, mask_at, 0, 8, 0, 0]) };
        (!failed(pid)).then_some(Self { pid: pid as usize, ended: false })
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        const WNOHANG: usize = 1;
        self.ended |= self.wait(WNOHANG) != 0;
        self.ended
    }

    fn wait(&self, options: usize) -> isize {
        const WCLONE: usize = 0x8000_0000;
        // SAFETY: writes nothing.
        unsafe { call(WAIT4, [self.pid, 0, options | WCLONE, 0, 0, 0]) }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        const EINTR: isize = 4;
        if self.ended {
            return;
        }
        // SAFETY: takes numbers. Nobody has waited for the child, so no other process has its id.
        unsafe { call(KILL, [self.pid, SIGKILL, 0, 0, 0, 0]) };
        while self.wait(0) == -EINTR {}
    }
}

const SIGKILL: usize = 9;

/// Reads this process's own memory at an address that may be unreadable.
pub fn peek(at: u64, into: &mut [u8]) -> usize {
    // SAFETY: the bytes belong to the caller.
    unsafe { copy_own(at, into.as_mut_ptr() as usize, into.len()) }
}

/// Copies this process's own memory, as far as it is readable. Returns the number of bytes copied.
///
/// # Safety
/// The caller owns `len` bytes at `to`: no other code writes them, and all code treats them as plain bytes.
pub unsafe fn copy_own(from: u64, to: usize, len: usize) -> usize {
    let local = [to, len];
    let remote = [from as usize, len];
    // SAFETY: the kernel writes only to `to`, which the caller guarantees.
    let result = unsafe {
        call(
            PROCESS_VM_READV,
            [process() as usize, local.as_ptr() as usize, 1, remote.as_ptr() as usize, 1, 0],
        )
    };
    if result < 0 { 0 } else { result as usize }
}

/// One of the kernel's clocks.
#[derive(Clone, Copy)]
pub struct Clock(i32);

impl Clock {
    /// The time since the machine started.
    pub const MONOTONIC: Self = Self(1);
    /// CPU time of the calling thread.
    pub const THREAD_CPU: Self = Self(3);
    /// CPU time of this process.
    pub const PROCESS_CPU: Self = Self(2);
    /// The time of the last tick.
    pub const COARSE: Self = Self(6);

    /// CPU time of a thread of this process.
    pub fn cpu_of(tid: u32) -> Self {
        const OF_THREAD: i32 = 4;
        const SCHEDULED: i32 = 2;
        Self(!tid.cast_signed() << 3 | OF_THREAD | SCHEDULED)
    }
}

/// The monotonic time.
pub fn now() -> u64 {
    clock(CLOCK_GETTIME, Clock::MONOTONIC)
}

/// CPU time of the calling thread so far.
pub fn cpu_time() -> u64 {
    clock(CLOCK_GETTIME, Clock::THREAD_CPU)
}

/// CPU time of a thread of this process so far.
pub fn cpu_time_of(tid: u32) -> u64 {
    clock(CLOCK_GETTIME, Clock::cpu_of(tid))
}

/// The resolution of a clock.
pub fn resolution(of: Clock) -> u64 {
    clock(CLOCK_GETRES, of)
}

fn clock(number: usize, Clock(clock): Clock) -> u64 {
    let mut time = Time::default();
    // SAFETY: writes `time` only.
    unsafe { call(number, [clock as usize, &raw mut time as usize, 0, 0, 0, 0]) };
    time.in_ns()
}

/// A timer that sends a signal with a value, to a thread of this process or to the process. `None` if no more
/// timers are possible.
pub fn timer(Clock(clock): Clock, signal: i32, value: u64, thread: Option<u32>) -> Result<i32, u64> {
    const SIGEV_SIGNAL: i32 = 0;
    const SIGEV_THREAD_ID: i32 = 4;
    /// `sigevent`
    #[repr(C)]
    struct Event {
        value: u64,
        signal: i32,
        how: i32,
        thread: u32,
        rest: [u32; 11],
    }
    let how = if thread.is_some() { SIGEV_THREAD_ID } else { SIGEV_SIGNAL };
    let event = Event { value, signal, how, thread: thread.unwrap_or(0), rest: [0; 11] };
    let mut timer = 0i32;
    // SAFETY: reads `event`, which has the kernel's size, and writes `timer`.
    let result = unsafe {
        call(TIMER_CREATE, [clock as usize, &raw const event as usize, &raw mut timer as usize, 0, 0, 0])
    };
    if failed(result) { Err(result.wrapping_neg() as u64) } else { Ok(timer) }
}

/// Starts a timer, with its first expiry and its interval.
pub fn set_timer(timer: i32, first_ns: u64, every_ns: u64) {
    let times = [Time::new(every_ns), Time::new(first_ns)];
    // SAFETY: reads `times` only.
    unsafe { call(TIMER_SETTIME, [timer as usize, 0, times.as_ptr() as usize, 0, 0, 0]) };
}

/// Deletes a timer.
pub fn delete_timer(timer: i32) {
    // SAFETY: takes a number.
    unsafe { call(TIMER_DELETE, [timer as usize, 0, 0, 0, 0, 0]) };
}

/// The calling thread's name, padded with zeros.
pub fn thread_name() -> [u8; 16] {
    const PR_GET_NAME: usize = 16;
    let mut name = [0; 16];
    // SAFETY: writes 16 bytes.
    unsafe { call(PRCTL, [PR_GET_NAME, name.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    name
}

/// Whether this process has a thread with this id.
pub fn is_thread(tid: u32) -> bool {
    // SAFETY: signal 0 only checks the thread.
    !failed(unsafe { call(TGKILL, [process() as usize, tid as usize, 0, 0, 0, 0]) })
}

/// Calls `take` with the id of each thread of this process.
pub fn each_thread(mut take: impl FnMut(u32)) {
    const DIRECTORY: usize = 0o200_000;
    /// Bytes of an entry before its name: two words, its length, its kind.
    const NAME: usize = 19;
    let folder = open_at(HERE, c"/proc/self/task".as_ptr(), DIRECTORY);
    if folder < 0 {
        return;
    }
    let mut room = [0u8; 512];
    loop {
        // SAFETY: the kernel writes only to `room`.
        let result =
            unsafe { call(GETDENTS64, [folder as usize, room.as_mut_ptr() as usize, room.len(), 0, 0, 0]) };
        if result <= 0 {
            break;
        }
        let mut rest = &room[..result as usize];
        while rest.len() > NAME {
            let len = usize::from(u16::from_le_bytes([rest[16], rest[17]])).max(NAME + 1).min(rest.len());
            let name = rest[NAME..len].split(|byte| *byte == 0).next().unwrap_or(&[]);
            let is_number = !name.is_empty() && name.iter().all(u8::is_ascii_digit);
            if is_number {
                take(
                    name.iter().fold(0u32, |number, digit| number.wrapping_mul(10) + u32::from(digit - b'0')),
                );
            }
            rest = &rest[len..];
        }
    }
    close(folder);
}

/// Connects to a Unix socket that preserves packets. Negative on failure. Every operation on it times out
/// after five seconds.
pub fn connect(path: &[u8]) -> i32 {
    const AF_UNIX: usize = 1;
    const SOCK_SEQPACKET: usize = 5;
    const SOCK_CLOEXEC: usize = 0o2_000_000;
    const SOL_SOCKET: usize = 1;
    const SO_RCVTIMEO: usize = 20;
    const SO_SNDTIMEO: usize = 21;
    let mut address = [0u8; 110];
    address[0] = AF_UNIX as u8;
    let room = &mut address[2..109];
    if path.is_empty() || path.len() > room.len() {
        return -1;
    }
    for (to, from) in room.iter_mut().zip(path) {
        *to = *from;
    }
    let time = Time::new(5_000_000_000);
    // SAFETY: the structures live through the calls and have the lengths given.
    unsafe {
        let socket = call(SOCKET, [AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0, 0, 0]);
        if socket < 0 {
            return -1;
        }
        for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
            call(
                SETSOCKOPT,
                [socket as usize, SOL_SOCKET, option, &raw const time as usize, size_of::<Time>(), 0],
            );
        }
        let connected = despite_signals(|| {
            call(CONNECT, [socket as usize, address.as_ptr() as usize, 3 + path.len(), 0, 0, 0])
        });
        if failed(connected) {
            close(socket as i32);
            return -1;
        }
        socket as i32
    }
}

const MSG_NOSIGNAL: usize = 0x4000;

pub fn send(socket: i32, bytes: &[u8]) -> bool {
    // SAFETY: reads `bytes` only.
    let sent =
        unsafe { call(SENDTO, [socket as usize, bytes.as_ptr() as usize, bytes.len(), MSG_NOSIGNAL, 0, 0]) };
    sent == bytes.len() as isize
}

/// Repeats a call that a signal interrupted, a bounded number of times.
fn despite_signals(mut call: impl FnMut() -> isize) -> isize {
    const EINTR: isize = 4;
    let mut result = call();
    for _ in 0..1000 {
        if result != -EINTR {
            break;
        }
        result = call();
    }
    result
}

/// A message to send or receive (`msghdr`).
#[repr(C)]
struct Message {
    name: usize,
    name_len: u32,
    vector: usize,
    vector_len: usize,
    control: usize,
    control_len: usize,
    flags: i32,
}

/// One descriptor sent along (`cmsghdr`).
#[repr(C, align(8))]
struct Control {
    len: usize,
    level: i32,
    kind: i32,
    descriptor: i32,
    padding: i32,
}

impl Control {
    const SOL_SOCKET: i32 = 1;
    const SCM_RIGHTS: i32 = 1;
    /// Without the padding after the descriptor.
    const LEN: usize = 20;
}

impl Message {
    fn new(vector: &[usize; 2], control: &mut Control) -> Self {
        Message {
            name: 0,
            name_len: 0,
            vector: vector.as_ptr() as usize,
            vector_len: 1,
            control: ptr::from_mut(control) as usize,
            control_len: size_of::<Control>(),
            flags: 0,
        }
    }
}

/// Sends one packet along with a descriptor.
pub fn send_with_file(socket: i32, bytes: &[u8], file: i32) -> bool {
    let vector = [bytes.as_ptr() as usize, bytes.len()];
    let mut control = Control {
        len: Control::LEN,
        level: Control::SOL_SOCKET,
        kind: Control::SCM_RIGHTS,
        descriptor: file,
        padding: 0,
    };
    let message = Message::new(&vector, &mut control);
    // SAFETY: the kernel only reads, within the given lengths.
    let sent = despite_signals(|| unsafe {
        call(SENDMSG, [socket as usize, &raw const message as usize, MSG_NOSIGNAL, 0, 0, 0])
    });
    sent == bytes.len() as isize
}

/// Receives one packet and the descriptor sent along: bytes, descriptor (negative for none).
pub fn receive(socket: i32, into: &mut [u8]) -> (usize, i32) {
    const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
    let vector = [into.as_mut_ptr() as usize, into.len()];
    let mut control = Control { len: 0, level: 0, kind: 0, descriptor: -1, padding: 0 };
    let mut message = Message::new(&vector, &mut control);
    // SAFETY: the kernel writes only to `into`, `control` and `message`, within their lengths.
    let received = despite_signals(|| unsafe {
        call(RECVMSG, [socket as usize, &raw mut message as usize, MSG_CMSG_CLOEXEC, 0, 0, 0])
    });
    let has = message.control_len >= Control::LEN
        && control.level == Control::SOL_SOCKET
        && control.kind == Control::SCM_RIGHTS;
    (
        if received < 0 { 0 } else { received as usize },
        if received > 0 && has { control.descriptor } else { -1 },
    )
}

/// An event of a thread's CPU time in user mode.
#[derive(Clone, Copy)]
pub struct PerfEvent(i32);

/// `perf_event_attr`, up to the length of a breakpoint.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample: u64,
    read: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
    len: u64,
}

impl PerfEvent {
    /// Opens the event of a thread of this process that expires after each period of its CPU time, switched off. The
    /// error number on failure.
    pub fn open(tid: u32, period_ns: u64) -> Result<Self, isize> {
        const PERF_TYPE_SOFTWARE: u32 = 1;
        const PERF_COUNT_SW_TASK_CLOCK: u64 = 1;
        Self::with(
            tid,
            Attributes {
                kind: PERF_TYPE_SOFTWARE,
                config: PERF_COUNT_SW_TASK_CLOCK,
                period: period_ns,
                ..Attributes::default()
            },
        )
    }

    /// Opens the event of a thread of this process that expires whenever it runs the instruction at an address,
    /// switched off. The error number on failure.
    pub fn at(tid: u32, address: u64) -> Result<Self, isize> {
        const PERF_TYPE_BREAKPOINT: u32 = 5;
        const HW_BREAKPOINT_X: u32 = 4;
        Self::with(
            tid,
            Attributes {
                kind: PERF_TYPE_BREAKPOINT,
                period: 1,
                breakpoint: HW_BREAKPOINT_X,
                address,
                // The kernel wants the size of a word for instructions.
                len: size_of::<usize>() as u64,
                ..Attributes::default()
            },
        )
    }

    fn with(tid: u32, attributes: Attributes) -> Result<Self, isize> {
        const DISABLED: u64 = 1;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        const EXCLUDE_HV: u64 = 1 << 6;
        const PERF_FLAG_FD_CLOEXEC: usize = 8;
        const EMFILE: isize = 24;
        let attributes = Attributes {
            size: size_of::<Attributes>() as u32,
            flags: DISABLED | EXCLUDE_KERNEL | EXCLUDE_HV,
            wakeup: 1,
            ..attributes
        };
        let at = ptr::from_ref(&attributes) as usize;
        // SAFETY: reads the attributes only.
        let result = unsafe {
            call(PERF_EVENT_OPEN, [at, tid as usize, usize::MAX, usize::MAX, PERF_FLAG_FD_CLOEXEC, 0])
        };
        if failed(result) {
            return Err(result.wrapping_neg());
        }
        let descriptor = out_of_the_way(result as i32);
        if descriptor < OUT_OF_THE_WAY {
            // The program needs the rest itself.
            close(descriptor);
            return Err(EMFILE);
        }
        Ok(Self(descriptor))
    }

    /// An event that was opened before.
    pub fn of_descriptor(descriptor: i32) -> Self {
        Self(descriptor)
    }

    pub fn descriptor(self) -> i32 {
        self.0
    }

    /// Makes each expiry send a signal to a thread.
    pub fn signal_thread(self, tid: u32, signal: i32) {
        const F_SETFL: usize = 4;
        const F_SETSIG: usize = 10;
        const F_SETOWN_EX: usize = 15;
        const F_OWNER_TID: u32 = 0;
        const O_ASYNC: usize = 0o20_000;
        let owner = [F_OWNER_TID, tid];
        for (what, value) in
            [(F_SETOWN_EX, owner.as_ptr() as usize), (F_SETSIG, signal as usize), (F_SETFL, O_ASYNC)]
        {
            // SAFETY: reads `owner` only.
            unsafe { call(FCNTL, [self.0 as usize, what, value, 0, 0, 0]) };
        }
    }

    fn control(self, what: usize, value: usize) {
        // SAFETY: the operations below take numbers, or read eight bytes that the caller owns.
        unsafe { call(IOCTL, [self.0 as usize, what, value, 0, 0, 0]) };
    }

    /// Lets it expire once.
    pub fn once(self) {
        const REFRESH: usize = 0x2402;
        self.control(REFRESH, 1);
    }

    pub fn enable(self) {
        const ENABLE: usize = 0x2400;
        self.control(ENABLE, 0);
    }

    pub fn disable(self) {
        const DISABLE: usize = 0x2401;
        self.control(DISABLE, 0);
    }

    pub fn set_period(self, period_ns: u64) {
        const PERIOD: usize = 0x4008_2404;
        self.control(PERIOD, &raw const period_ns as usize);
    }
}

/// Lower descriptors are the program's.
const OUT_OF_THE_WAY: i32 = 512;

/// Moves a descriptor of the agent to a high number: programs may rely on the lowest free ones.
fn out_of_the_way(descriptor: i32) -> i32 {
    const F_DUPFD_CLOEXEC: usize = 1030;
    for lowest in [10_000, 900, OUT_OF_THE_WAY] {
        // SAFETY: takes numbers.
        let moved = unsafe { call(FCNTL, [descriptor as usize, F_DUPFD_CLOEXEC, lowest as usize, 0, 0, 0]) };
        if !failed(moved) {
            close(descriptor);
            return moved as i32;
        }
    }
    descriptor
}
