//! Takes snapshots of waiting threads where the kernel does not provide their stacks: their system call and
//! their stack memory.
//!
//! No thread is stopped, and reading one's own processes is all the permission it needs. The kernel reports
//! the stack pointer and the instruction pointer; the frame pointer follows from how functions set it up. The
//! thread's switch records show whether it ran in between.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustc_hash::FxHashMap;
use whyslow_convert::{Converter, Dump, Input, Task, UserStack, WaitSnapshot, World};
use whyslow_numbers::ClockNs;
use whyslow_proc::process;
use whyslow_processor::Processor;
use whyslow_profile::{RecordingNote, WaitFrame};
use whyslow_unwind::AnyRegisters;

use crate::source::{Ending, LiveConverter, Source};

/// How much of a stack is copied. The rest can be read while the thread waits.
const STACK_BYTES: usize = 16 << 10;
/// The average time between two snapshots, at about 15 µs each, and how many may follow each other after a
/// pause. Further threads take turns.
const PAUSE_NS: u64 = 500_000;
const MAX: usize = 400;
/// Files that are kept open.
const MAX_FILES: usize = 256;

/// Open /proc files of threads. The kernel generates their contents on every read.
#[derive(Debug, Default)]
pub(crate) struct WaitSnapshots {
    calls: FxHashMap<u32, File>,
    /// Threads that were stopped by a signal or a debugger, whatever call they are in.
    stopped: Vec<u32>,
    stack: Vec<u8>,
    budget: Budget,
    random: u32,
}

/// Limits the number of snapshots over time.
#[derive(Debug, Default)]
struct Budget {
    /// Snapshots before this time are paid for.
    paid_until: ClockNs,
}

impl Budget {
    /// How many snapshots may be taken now.
    fn left(&mut self, now: ClockNs) -> usize {
        self.paid_until = self.paid_until.max(now.minus(MAX as u64 * PAUSE_NS));
        (now.since(self.paid_until) / PAUSE_NS) as usize
    }

    fn spend(&mut self, snapshots: usize) {
        self.paid_until = self.paid_until.plus(snapshots as u64 * PAUSE_NS);
    }
}

/// Reports the state of threads when their recording starts or goes on. Takes snapshots of those that wait.
pub(crate) fn begin_with<W: World>(tasks: impl Iterator<Item = Task>, converter: &mut Converter<W>) {
    let time_ns = whyslow_proc::now();
    let mut snapshots = WaitSnapshots::default();
    for Task { pid, tid } in tasks {
        match process::Stat::of_thread(pid, tid).map(|stat| stat.state) {
            Some('R') => converter.take(&Input::Runs { tid, time_ns }),
            Some('S' | 'D') => converter.take(&Input::Waits { tid, time_ns }),
            // Stopped by a signal or a debugger.
            Some('T' | 't') => {
                snapshots.stopped.push(tid);
                converter.take(&Input::Waits { tid, time_ns });
            }
            _ => {}
        }
    }
    snapshots.take(converter);
}

impl Source for WaitSnapshots {
    fn interval(&mut self, _interval: Duration) -> Duration {
        self.varied_pause()
    }

    fn look(&mut self, converter: &mut LiveConverter) {
        self.take(converter);
    }

    fn finish(self: Box<Self>, ending: &mut Ending<'_>) {
        ending.note([RecordingNote::WaitSnapshots]);
    }
}

impl WaitSnapshots {
    /// The time until the next snapshots. It varies, so that they are not in step with the program.
    pub(crate) fn varied_pause(&mut self) -> Duration {
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Duration::from_millis(3 + u64::from(self.random >> 16) % 5)
    }

    /// Takes snapshots of threads that wait.
    pub(crate) fn take<W: World>(&mut self, converter: &mut Converter<W>) {
        let now = whyslow_proc::now();
        let tasks = converter.threads_to_snapshot(self.budget.left(now), now);
        self.budget.spend(tasks.len());
        for task in tasks {
            let from_ns = whyslow_proc::now();
            if let Some(snapshot) = self.read_one(task) {
                let taken = from_ns..whyslow_proc::now();
                self.add(task, snapshot, taken, converter);
            }
        }
    }

    /// Whether one more snapshot may be taken now.
    pub(crate) fn may_take(&mut self) -> bool {
        let may = self.budget.left(whyslow_proc::now()) > 0;
        self.budget.spend(usize::from(may));
        may
    }

    /// Reads the system call and the stack of a thread, if it waits.
    pub(crate) fn read_one(&mut self, Task { pid, tid }: Task) -> Option<Snapshot> {
        if self.calls.len() >= MAX_FILES && !self.calls.contains_key(&tid) {
            self.calls.clear();
        }
        let file = match self.calls.entry(tid) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(File::open(format!("/proc/{pid}/task/{tid}/syscall")).ok()?)
            }
        };
        let mut text = [0; 256];
        let Ok(len) = file.read_at(&mut text, 0) else {
            // The number may belong to another thread by now.
            self.calls.remove(&tid);
            return None;
        };
        let waiting = Waiting::parse(std::str::from_utf8(&text[..len]).ok()?)?;
        self.stack.resize(STACK_BYTES, 0);
        let read = whyslow_proc::read_memory(tid, waiting.sp, &mut self.stack).ok()?;
        Some(Snapshot { waiting, read })
    }

    /// Adds the snapshot that was read last.
    pub(crate) fn add<W: World>(
        &self,
        task: Task,
        Snapshot { waiting, read }: Snapshot,
        taken: Range<ClockNs>,
        converter: &mut Converter<W>,
    ) {
        let Task { pid, tid } = task;
        let registers = AnyRegisters::of_waiting(Processor::HOST, waiting.ip, waiting.sp);
        let dump = Dump { sp: waiting.sp, bytes: &self.stack[..read], cut: read == STACK_BYTES };
        let file = |descriptor| {
            let path = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
            Some(path.to_string_lossy().into_owned())
        };
        let is_stopped = || {
            let state = process::Stat::of_thread(pid, tid).map(|stat| stat.state);
            matches!(state, Some('T' | 't'))
        };
        // The call of a stopped thread is none, or the one that the signal interrupted, mostly a sleep.
        let frame = match waiting.place(file) {
            _ if self.stopped.contains(&tid) => WaitFrame::Stopped,
            WaitFrame::PageFault | WaitFrame::Sleep if is_stopped() => WaitFrame::Stopped,
            frame => frame,
        };
        let argument = waiting.call.map_or(0, |(_, first)| first);
        let user = UserStack::Dump(registers, dump);
        converter.take(&Input::WaitSnapshot(WaitSnapshot { task, user, argument, frame, taken }));
    }
}

/// The state of a waiting thread, and how much of its stack was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    waiting: Waiting,
    read: usize,
}

/// The contents of `/proc/PID/task/TID/syscall` for a waiting thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    /// The number of the system call and its first argument; `None` if it waits outside of one.
    call: Option<(i64, u64)>,
    sp: u64,
    ip: u64,
}

impl Waiting {
    /// Parses `NUMBER ARGUMENT×6 SP IP`, or `-1 SP IP` outside of system calls, or `running`.
    fn parse(text: &str) -> Option<Self> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        let number = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        match words[..] {
            ["-1", sp, ip] => Some(Self { call: None, sp: number(sp)?, ip: number(ip)? }),
            [call, first, _, _, _, _, _, sp, ip] => {
                let call = Some((call.parse().ok()?, number(first)?));
                Some(Self { call, sp: number(sp)?, ip: number(ip)? })
            }
            _ => None,
        }
    }

    /// The frame for what it waits for. `file` returns what a descriptor refers to.
    fn place(&self, file: impl Fn(u64) -> Option<String>) -> WaitFrame {
        let Some((call, first)) = self.call else { return WaitFrame::PageFault };
        match call {
            libc::SYS_futex | SYS_FUTEX_WAIT | libc::SYS_futex_waitv => WaitFrame::Futex,
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => WaitFrame::Sleep,
            libc::SYS_wait4 | libc::SYS_waitid | libc::SYS_vfork => WaitFrame::Child,
            libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_poll
            | libc::SYS_ppoll
            | libc::SYS_select
            | libc::SYS_pselect6
            | libc::SYS_io_uring_enter => WaitFrame::Events,
            libc::SYS_rt_sigtimedwait | libc::SYS_rt_sigsuspend | libc::SYS_pause => WaitFrame::Signal,
            libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_connect
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg => WaitFrame::Socket,
            libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pread64
            | libc::SYS_pwrite64
            | libc::SYS_splice
            | libc::SYS_sendfile => match file(first).as_deref() {
                Some(path) if path.starts_with("pipe:") => WaitFrame::Pipe,
                Some(path) if path.starts_with("socket:") => WaitFrame::Socket,
                Some(path) if path.starts_with("anon_inode:") => WaitFrame::Events,
                Some(path) if path.starts_with("/dev/pts/") || path == "/dev/tty" => WaitFrame::Terminal,
                _ => WaitFrame::File,
            },
            libc::SYS_fsync
            | libc::SYS_fdatasync
            | libc::SYS_sync_file_range
            | libc::SYS_syncfs
            | libc::SYS_sync
            | libc::SYS_msync
            | libc::SYS_open
            | libc::SYS_openat
            | libc::SYS_openat2
            | libc::SYS_creat
            | libc::SYS_close
            | libc::SYS_unlink
            | libc::SYS_unlinkat
            | libc::SYS_rename
            | libc::SYS_renameat
            | libc::SYS_renameat2
            | libc::SYS_link
            | libc::SYS_linkat
            | libc::SYS_symlink
            | libc::SYS_symlinkat
            | libc::SYS_mkdir
            | libc::SYS_mkdirat
            | libc::SYS_rmdir
            | libc::SYS_truncate
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_fadvise64
            | libc::SYS_readahead
            | libc::SYS_preadv
            | libc::SYS_pwritev
            | libc::SYS_copy_file_range
            | libc::SYS_getdents
            | libc::SYS_getdents64
            | libc::SYS_stat
            | libc::SYS_lstat
            | libc::SYS_access
            | libc::SYS_faccessat
            | libc::SYS_readlink
            | libc::SYS_chmod
            | libc::SYS_fchmod
            | libc::SYS_utimensat
            | libc::SYS_newfstatat
            | libc::SYS_statx => WaitFrame::File,
            _ => WaitFrame::OtherCall,
        }
    }
}

/// `futex_wait`, for which libc has no constant yet.
const SYS_FUTEX_WAIT: i64 = 455;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_snapshots_is_limited_over_time() {
        let (mut budget, now) = (Budget::default(), ClockNs::new(1 << 40));
        assert_eq!(budget.left(now), MAX, "after a pause");
        budget.spend(MAX);
        assert_eq!(budget.left(now), 0);
        assert_eq!(budget.left(now.plus(10 * PAUSE_NS)), 10);
    }

    #[test]
    fn parses_the_syscall_file_of_a_thread() {
        let read = Waiting::parse("0 0x3 0x7ffd1 0x40 0x0 0x0 0x0 0x7ffd00 0x7f10\n").unwrap();
        assert_eq!(read, Waiting { call: Some((0, 3)), sp: 0x7ffd00, ip: 0x7f10 });
        assert_eq!(read.place(|_| Some("pipe:[77]".to_owned())), WaitFrame::Pipe);
        assert_eq!(read.place(|_| Some("socket:[77]".to_owned())), WaitFrame::Socket);
        assert_eq!(read.place(|_| Some("/etc/passwd".to_owned())), WaitFrame::File);
        assert_eq!(read.place(|_| None), WaitFrame::File);
        let fault = Waiting::parse("-1 0x7ffd00 0x7f10\n").unwrap();
        assert_eq!((fault.call, fault.place(|_| None)), (None, WaitFrame::PageFault));
        let futex = Waiting::parse("202 0x7f 0x80 0x2 0x0 0x0 0xffffffff 0x7ffd00 0x7f10").unwrap();
        assert_eq!(futex.place(|_| None), WaitFrame::Futex);
        for other in ["running", "", "0 0x3", "x 0 0 0 0 0 0 0 0", "0 0 0 0 0 0 0 zz 0"] {
            assert_eq!(Waiting::parse(other), None, "{other}");
        }
    }
}
