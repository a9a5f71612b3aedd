//! The reason of a wait, from the functions on its stack.
//!
//! ```text
//! 1. The innermost known kernel function decides: do_nanosleep is a sleep, pipe_read a pipe.
//! 2. A futex can be anything: the innermost known function of the program decides.
//! 3. A wait for work belongs to its container: a condition or a parked thread inside a channel is a channel wait, inside a pool it
//!    is idle. A lock is a lock everywhere.
//!    The same holds for waits that a helper thread spends its whole life in, see `idle.rs`.
//! 4. A thread that waits in a task or a job of a pool, or in your code, is at work: the frames outside it do not matter.
//! ```
//! Without kernel functions rules 2 and 3 remain, with the libc functions that make the system calls.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_profile::{CodeKind, ModuleKind, Profile, StackId, ThreadId, WaitFrame};

use super::idle::{can_be_idle, idle_waits};
use crate::labels::{self, Label};
use crate::own::frames_of;
use crate::tasks::executor::Role;

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// A CPU: the thread is runnable.
    Cpu,
    /// A lock that another thread or process holds.
    Lock,
    /// A condition that another thread signals.
    Condition,
    /// To be woken by another thread.
    Park,
    /// The exit of another thread.
    Join,
    /// A message, or room for one.
    Channel,
    /// A time to pass.
    Sleep,
    /// A file or a disk.
    File,
    /// A socket.
    Network,
    /// The other end of a pipe.
    Pipe,
    /// A page of memory to be read.
    PageFault,
    /// The exit of a child process.
    Child,
    /// Any of several files or sockets to be ready.
    Events,
    /// A signal.
    Signal,
    /// A lock inside the kernel.
    KernelLock,
    /// The terminal.
    Terminal,
    /// To be continued: the program was stopped.
    Stopped,
    /// Work: an idle pool thread.
    Idle,
    /// Unknown: the wait ended before whyslow could sample it.
    Short,
    /// Unknown: only some waits got a stack.
    NotSampled,
    /// Something else.
    Other,
}

impl Reason {
    /// All reasons, in order.
    pub const ALL: [Self; 21] = [
        Self::Cpu,
        Self::Lock,
        Self::Condition,
        Self::Park,
        Self::Join,
        Self::Channel,
        Self::Sleep,
        Self::File,
        Self::Network,
        Self::Pipe,
        Self::PageFault,
        Self::Child,
        Self::Events,
        Self::Signal,
        Self::KernelLock,
        Self::Terminal,
        Self::Stopped,
        Self::Idle,
        Self::Short,
        Self::NotSampled,
        Self::Other,
    ];

    /// The word in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Lock => "lock",
            Self::Condition => "condition",
            Self::Park => "park",
            Self::Join => "join",
            Self::Channel => "channel",
            Self::Sleep => "sleep",
            Self::File => "file",
            Self::Network => "network",
            Self::Pipe => "pipe",
            Self::PageFault => "page-fault",
            Self::Child => "child",
            Self::Events => "events",
            Self::Signal => "signal",
            Self::KernelLock => "kernel-lock",
            Self::Terminal => "terminal",
            Self::Stopped => "stopped",
            Self::Idle => "idle",
            Self::Short => "short",
            Self::NotSampled => "not-sampled",
            Self::Other => "other",
        }
    }

    /// What a frame in place of code says about its wait.
    fn of(frame: WaitFrame) -> Option<Self> {
        Some(match frame {
            WaitFrame::Unknown | WaitFrame::OtherCall => return None,
            WaitFrame::Queued => Self::Cpu,
            WaitFrame::Futex => FUTEX,
            WaitFrame::Sleep => Self::Sleep,
            WaitFrame::Pipe => Self::Pipe,
            WaitFrame::Socket => Self::Network,
            WaitFrame::File => Self::File,
            WaitFrame::Terminal => Self::Terminal,
            WaitFrame::Child => Self::Child,
            WaitFrame::Events => Self::Events,
            WaitFrame::Signal => Self::Signal,
            WaitFrame::PageFault => Self::PageFault,
            WaitFrame::Stopped => Self::Stopped,
            WaitFrame::TooShort => Self::Short,
            WaitFrame::NoStack => Self::NotSampled,
        })
    }

    /// The word used in text: the label, and `queued` for a thread that is runnable without a CPU.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cpu => "queued",
            other => other.label(),
        }
    }
}

/// Finds the reasons of waits, and caches what each function says.
#[derive(Debug)]
pub(crate) struct Reasons<'a> {
    profile: &'a Profile,
    said: FxHashMap<Label, Said>,
    by_stack: FxHashMap<StackId, Reason>,
    /// Built when it is first needed.
    idle: Option<FxHashSet<(ThreadId, StackId)>>,
}

/// What a function says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Not a function: the thread is queued for a CPU.
    Queue,
    /// A kernel function, and whether it handles a page fault.
    Kernel(Option<Reason>, bool),
    Program(Option<Reason>),
    /// A function of your code.
    Own(Option<Reason>),
    /// A function whose waits are all of this kind, however it waits.
    Whole(Reason),
    /// A pool function that runs submitted work.
    RunsWork,
}

impl<'a> Reasons<'a> {
    pub(crate) fn new(profile: &'a Profile) -> Self {
        Self { profile, said: FxHashMap::default(), by_stack: FxHashMap::default(), idle: None }
    }

    /// The reason of a thread's wait: that of its stack, unless the thread is idle.
    pub(crate) fn of_thread(&mut self, thread: ThreadId, stack: StackId) -> Reason {
        let reason = self.of(stack);
        if !can_be_idle(reason) {
            return reason;
        }
        let idle = match self.idle.take() {
            Some(idle) => idle,
            None => idle_waits(self.profile, self),
        };
        let is_idle = idle.contains(&(thread, stack));
        self.idle = Some(idle);
        if is_idle { Reason::Idle } else { reason }
    }

    /// The reason of a wait with this stack.
    pub(crate) fn of(&mut self, stack: StackId) -> Reason {
        if let Some(reason) = self.by_stack.get(&stack) {
            return *reason;
        }
        let reason = self.by_functions(stack);
        self.by_stack.insert(stack, reason);
        reason
    }

    fn by_functions(&mut self, stack: StackId) -> Reason {
        let Self { profile, said, .. } = self;
        let mut by_kernel = None;
        let mut by_program: Option<Reason> = None;
        let mut faults = false;
        let mut at_work = false;
        for frame in frames_of(profile, stack) {
            match *said.entry(frame.label).or_insert_with(|| Said::by(profile, frame.label)) {
                Said::Queue => return Reason::Cpu,
                Said::Kernel(reason, is_fault) => {
                    faults |= is_fault;
                    by_kernel = by_kernel.or(reason);
                }
                Said::RunsWork => break,
                // A lock inside it is another wait.
                Said::Whole(reason) if by_program != Some(Reason::Lock) => by_program = Some(reason),
                Said::Whole(_) => {}
                Said::Own(reason) => {
                    by_program = by_program.or(reason);
                    at_work = true;
                }
                Said::Program(None) => {}
                Said::Program(Some(Reason::Idle | Reason::Channel | Reason::Join)) if at_work => {}
                // The container of a wait for work is outside the function that waits.
                Said::Program(Some(reason)) => match (by_program, reason) {
                    (None, _) => by_program = Some(reason),
                    (Some(Reason::Lock | Reason::Idle), _) => {}
                    (Some(_), Reason::Idle | Reason::Channel | Reason::Join) => by_program = Some(reason),
                    // Locks of parking_lot park their threads.
                    (Some(Reason::Park), Reason::Lock | Reason::Condition) if !at_work => {
                        by_program = Some(reason);
                    }
                    (Some(_), _) => {}
                },
            }
        }
        match (by_kernel, by_program) {
            (Some(Reason::File) | None, _) if faults => Reason::PageFault,
            (_, Some(Reason::Idle)) => Reason::Idle,
            (Some(FUTEX) | None, Some(reason)) => reason,
            (Some(reason), _) => reason,
            (None, None) => Reason::Other,
        }
    }
}

impl Said {
    fn by(profile: &Profile, label: Label) -> Self {
        if let Some(frame) = wait_frame(profile, label) {
            return match Reason::of(frame) {
                Some(Reason::Cpu) => Self::Queue,
                reason => Self::Kernel(reason, false),
            };
        }
        let name = labels::name(profile, label);
        if labels::kind(profile, label) == CodeKind::Kernel {
            let is_fault = name.contains("exc_page_fault") || name.contains("handle_mm_fault");
            // The helper of many waits; the name is like that of a wait for a child.
            let is_helper = name.contains("do_wait_intr");
            return Self::Kernel(found(KERNEL, &name).filter(|_| !is_helper), is_fault);
        }
        if Role::of(profile, label).is_some_and(Role::runs_work) {
            return Self::RunsWork;
        }
        if let Some((_, reason)) = WHOLE.iter().find(|(word, _)| *word == name) {
            return Self::Whole(*reason);
        }
        // `<std::thread::Thread>::park` and `std::thread::Thread::park` are the same.
        let reason = match &*name {
            // libc's functions; others have these words in their names.
            "poll" | "ppoll" | "select" => Some(Reason::Events),
            name => found(PROGRAM, &name.replace(['<', '>'], "")),
        };
        if labels::kind(profile, label) == CodeKind::Yours {
            Self::Own(reason)
        } else {
            Self::Program(reason)
        }
    }
}

/// The reason of a futex alone: it involves another thread.
const FUTEX: Reason = Reason::Other;

/// What a frame says about the wait, if it is not code.
fn wait_frame(profile: &Profile, label: Label) -> Option<WaitFrame> {
    let Label::Module(id) = label else { return None };
    match profile.modules.get(id.index())?.kind {
        ModuleKind::Waiting(frame) => Some(frame),
        _ => None,
    }
}

/// A part of a name, and its reason.
type Word = (&'static str, Reason);

/// The reason of the first word of a table that occurs in a name.
fn found(words: &[Word], name: &str) -> Option<Reason> {
    words.iter().find(|(word, _)| name.contains(word)).map(|(_, reason)| *reason)
}

/// Kernel functions.
const KERNEL: &[Word] = &[
    ("futex_", FUTEX),
    ("flock_lock_inode", Reason::Lock),
    ("posix_lock_inode", Reason::Lock),
    ("locks_lock_inode", Reason::Lock),
    ("do_lock_file_wait", Reason::Lock),
    ("fcntl_setlk", Reason::Lock),
    ("sys_flock", Reason::Lock),
    ("semtimedop", Reason::Condition),
    ("do_msgrcv", Reason::Channel),
    ("do_msgsnd", Reason::Channel),
    ("do_mq_", Reason::Channel),
    ("nanosleep", Reason::Sleep),
    ("pipe_read", Reason::Pipe),
    ("pipe_write", Reason::Pipe),
    ("pipe_wait", Reason::Pipe),
    ("wait_for_partner", Reason::Pipe),
    ("do_wait", Reason::Child),
    ("kernel_wait", Reason::Child),
    ("kernel_clone", Reason::Child),
    ("ep_poll", Reason::Events),
    ("do_epoll_wait", Reason::Events),
    ("do_poll", Reason::Events),
    ("do_sys_poll", Reason::Events),
    ("do_select", Reason::Events),
    ("io_cqring_wait", Reason::Events),
    ("io_uring_enter", Reason::Events),
    ("io_wq_worker", Reason::Idle),
    ("eventfd_read", Reason::Events),
    ("timerfd_read", Reason::Sleep),
    ("sigtimedwait", Reason::Signal),
    ("sigsuspend", Reason::Signal),
    ("sys_pause", Reason::Signal),
    ("do_signal_stop", Reason::Stopped),
    ("ptrace_stop", Reason::Stopped),
    ("tty_", Reason::Terminal),
    ("unix_", Reason::Network),
    ("tcp_", Reason::Network),
    ("udp_", Reason::Network),
    ("inet_", Reason::Network),
    ("sk_wait", Reason::Network),
    ("sock_", Reason::Network),
    ("skb_", Reason::Network),
    ("folio_wait", Reason::File),
    ("io_schedule", Reason::File),
    ("wait_on_buffer", Reason::File),
    ("wait_on_page", Reason::File),
    ("submit_bio", Reason::File),
    ("blk_", Reason::File),
    ("fsync", Reason::File),
    ("jbd2_", Reason::File),
    ("ext4_", Reason::File),
    ("xfs_", Reason::File),
    ("btrfs_", Reason::File),
    ("nfs", Reason::File),
    ("filemap_", Reason::File),
    ("inotify_read", Reason::File),
    ("rwsem_down", Reason::KernelLock),
    ("mutex_lock", Reason::KernelLock),
];

/// Functions by their whole name: Python's lock is a flag with a condition, and a server process of PostgreSQL
/// waits for its client's next command.
const WHOLE: &[Word] = &[("take_gil", Reason::Lock), ("pq_getbyte", Reason::Idle)];

/// Functions of pools, channels, locks and libc. Pools come first: they wait through the others.
const PROGRAM: &[Word] = &[
    ("rayon_core::sleep", Reason::Idle),
    ("WorkerThread::wait_until", Reason::Idle),
    ("tokio::runtime::park", Reason::Idle),
    ("multi_thread::park", Reason::Idle),
    ("multi_thread::worker::Context::park", Reason::Idle),
    ("current_thread::Context::park", Reason::Idle),
    ("blocking::pool::Inner::run", Reason::Idle),
    ("async_executor", Reason::Idle),
    ("async_io::driver", Reason::Idle),
    ("threadpool::", Reason::Idle),
    // Go.
    ("runtime.stopm", Reason::Idle),
    ("runtime.mPark", Reason::Idle),
    ("runtime.findRunnable", Reason::Idle),
    ("runtime.findrunnable", Reason::Idle),
    ("runtime.sysmon", Reason::Idle),
    ("runtime.usleep", Reason::Idle),
    ("runtime.templateThread", Reason::Idle),
    ("runtime.lock2", Reason::Lock),
    ("lock_contended", Reason::Lock),
    ("read_contended", Reason::Lock),
    ("write_contended", Reason::Lock),
    ("lock_slow", Reason::Lock),
    ("lock_shared_slow", Reason::Lock),
    ("lock_exclusive_slow", Reason::Lock),
    ("lock_upgradable_slow", Reason::Lock),
    ("lll_lock_wait", Reason::Lock),
    ("pthread_mutex_", Reason::Lock),
    ("pthread_rwlock_", Reason::Lock),
    ("pthread_spin", Reason::Lock),
    ("once::futex", Reason::Lock),
    ("Once::call_once_slow", Reason::Lock),
    ("sem_wait", Reason::Condition),
    ("pthread_cond_", Reason::Condition),
    ("Condvar", Reason::Condition),
    ("condition_variable", Reason::Condition),
    ("pthread_barrier", Reason::Condition),
    ("Barrier::wait", Reason::Condition),
    ("pthread_join", Reason::Join),
    ("pthread_clockjoin", Reason::Join),
    ("pthread_timedjoin", Reason::Join),
    ("JoinHandle", Reason::Join),
    ("JoinInner", Reason::Join),
    ("thread::scoped::scope", Reason::Join),
    ("std::sync::mpmc", Reason::Channel),
    ("std::sync::mpsc", Reason::Channel),
    ("crossbeam_channel", Reason::Channel),
    ("flume::", Reason::Channel),
    ("kanal::", Reason::Channel),
    ("thread_parking", Reason::Park),
    ("thread::park", Reason::Park),
    ("functions::park", Reason::Park),
    ("Thread::park", Reason::Park),
    ("Parker::park", Reason::Park),
    ("ThreadParker", Reason::Park),
    ("nanosleep", Reason::Sleep),
    ("thread::sleep", Reason::Sleep),
    ("usleep", Reason::Sleep),
    ("wait4", Reason::Child),
    ("waitpid", Reason::Child),
    ("waitid", Reason::Child),
    ("epoll_wait", Reason::Events),
    ("epoll_pwait", Reason::Events),
    ("__poll", Reason::Events),
    ("__ppoll", Reason::Events),
    ("__select", Reason::Events),
    ("recvfrom", Reason::Network),
    ("recvmsg", Reason::Network),
    ("sendto", Reason::Network),
    ("sendmsg", Reason::Network),
    ("accept", Reason::Network),
    ("fsync", Reason::File),
    ("fdatasync", Reason::File),
    ("flock", Reason::Lock),
    ("fcntl", Reason::Lock),
    ("semop", Reason::Condition),
    ("semtimedop", Reason::Condition),
    ("msgrcv", Reason::Channel),
    ("msgsnd", Reason::Channel),
    ("mq_timed", Reason::Channel),
    ("mq_receive", Reason::Channel),
    ("mq_send", Reason::Channel),
    ("io_uring_enter", Reason::Events),
    ("sigwait", Reason::Signal),
    ("sigsuspend", Reason::Signal),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile;

    #[test]
    fn list_of_reasons_is_complete_and_in_order() {
        let places: Vec<usize> = Reason::ALL.iter().map(|reason| *reason as usize).collect();
        assert_eq!(places, (0..=Reason::Other as usize).collect::<Vec<_>>());
    }

    /// Stacks from the outside in; functions that start with `sys_` are kernel functions.
    #[test]
    fn finds_reasons_from_the_functions_on_a_stack() {
        let cases: &[(&str, Reason)] = &[
            ("main;std::thread::sleep;sys_hrtimer_nanosleep;sys_schedule", Reason::Sleep),
            ("main;std::sync::Mutex::lock_contended;sys_futex_wait", Reason::Lock),
            ("main;std::sync::mpsc::recv;<std::Thread>::park;sys_futex_wait", Reason::Channel),
            ("main;std::sync::mpsc::recv;std::lock_contended;sys_futex_wait", Reason::Lock),
            ("main;rayon_core::sleep::sleep;std::Condvar::wait;sys_futex_wait", Reason::Idle),
            ("main;tokio::runtime::park::x;dep::mio::poll;sys_ep_poll;sys_schedule", Reason::Idle),
            ("main;dep::mio::poll;sys_ep_poll;sys_schedule", Reason::Events),
            ("main;poll", Reason::Events),
            // tokio's workers run on its pool for blocking calls.
            (
                "tokio::runtime::blocking::pool::Inner::run;tokio::runtime::task::raw::poll;dep::serve;std::thread::sleep;sys_nanosleep",
                Reason::Sleep,
            ),
            (
                "tokio::runtime::blocking::pool::Inner::run;tokio::runtime::task::raw::poll;tokio::runtime::park::x;std::Condvar::wait;sys_futex_wait",
                Reason::Idle,
            ),
            ("tokio::runtime::blocking::pool::Inner::run;std::Condvar::wait;sys_futex_wait", Reason::Idle),
            ("tokio::runtime::park::CachedParkThread::block_on;app::main;read;sys_pipe_read", Reason::Pipe),
            (
                "rayon_core::registry::WorkerThread::wait_until_cold;rayon_core::job::execute;dep::f;std::lock_contended;sys_futex_wait",
                Reason::Lock,
            ),
            (
                "rayon_core::registry::WorkerThread::wait_until_cold;rayon_core::job::execute;dep::f;std::Condvar::wait;sys_futex_wait",
                Reason::Condition,
            ),
            ("main;dep::RawMutex::lock_slow;dep::ThreadParker::park;sys_futex_wait", Reason::Lock),
            ("main;dep::Condvar::wait;dep::ThreadParker::park;sys_futex_wait", Reason::Condition),
            ("dep::lock_slow;app::f;std::thread::park;sys_futex_wait", Reason::Park),
            ("std::thread::scoped::scope;app::f;std::Condvar::wait;sys_futex_wait", Reason::Condition),
            ("main;sys_asm_exc_page_fault;sys_handle_mm_fault;sys_io_schedule", Reason::PageFault),
            ("main;read;sys_vfs_read;sys_io_schedule", Reason::File),
            ("main;read;sys_vfs_read;sys_anon_pipe_read;sys_schedule", Reason::Pipe),
            ("main;read;sys_eventfd_read;sys_do_wait_intr_irq;sys_schedule", Reason::Events),
            ("main;read;sys_timerfd_read;sys_do_wait_intr_irq;sys_schedule", Reason::Sleep),
            ("main;wait4;sys_kernel_wait4;sys_do_wait;sys_schedule", Reason::Child),
            ("main;syscall;sys_futex_wait", Reason::Other),
            ("main;__flock;sys_do_sys_flock;sys_locks_lock_inode_wait;sys_schedule", Reason::Lock),
            ("main;__flock;sys_do_sys_flock;sys_schedule", Reason::Lock),
            ("main;fcntl64;sys_do_fcntl;sys_fcntl_setlk;sys_schedule", Reason::Lock),
            ("main;fcntl64;sys_do_lock_file_wait;sys_posix_lock_inode_wait;sys_schedule", Reason::Lock),
            ("main;semop;sys_do_semtimedop;sys___do_semtimedop;sys_schedule", Reason::Condition),
            ("main;msgrcv;sys_do_msgrcv;sys_schedule", Reason::Channel),
            ("main;msgsnd;sys_do_msgsnd;sys_schedule", Reason::Channel),
            ("main;mq_receive;sys_do_mq_timedreceive;sys_wq_sleep;sys_schedule", Reason::Channel),
            ("main;mq_send;sys_do_mq_timedsend;sys_wq_sleep;sys_schedule", Reason::Channel),
            ("main;syscall;sys_do_sys_io_uring_enter;sys_io_cqring_wait;sys_schedule", Reason::Events),
            ("sys_ret_from_fork_asm;sys_io_wq_worker;sys_schedule", Reason::Idle),
            ("main;std::thread::sleep;sys_get_signal;sys_do_signal_stop;sys_schedule", Reason::Stopped),
            ("main;sys_get_signal;sys_ptrace_stop;sys_schedule", Reason::Stopped),
            (
                "runtime.mstart;runtime.stopm;runtime.notesleep;runtime.futexsleep;sys_futex_wait",
                Reason::Idle,
            ),
            ("runtime.mcall;runtime.findRunnable;runtime.netpoll;sys_ep_poll", Reason::Idle),
            ("runtime.mstart;runtime.sysmon;runtime.usleep;sys_hrtimer_nanosleep", Reason::Idle),
            ("main;runtime.lock2;runtime.futexsleep;sys_futex_wait", Reason::Lock),
            (
                "PyEval_RestoreThread;take_gil;PyCOND_TIMEDWAIT;pthread_cond_timedwait;sys_futex_wait",
                Reason::Lock,
            ),
            ("PostgresMain;pq_getbyte;secure_read;WaitEventSetWait;epoll_wait;sys_ep_poll", Reason::Idle),
            ("PostgresMain;exec;WaitEventSetWait;epoll_wait;sys_ep_poll", Reason::Events),
            ("main;__flock", Reason::Lock),
            ("main;semop", Reason::Condition),
            ("main;msgrcv", Reason::Channel),
            ("main;pthread_cond_wait", Reason::Condition),
            ("main;std::thread::JoinHandle::join;__pthread_clockjoin_ex;sys_futex_wait", Reason::Join),
            ("main", Reason::Other),
        ];
        for (stack, reason) in cases {
            let profile = profile(&format!("{stack} 1"));
            assert_eq!(Reasons::new(&profile).of(profile.samples[0].stack[0]), *reason, "{stack}");
        }
    }
}
