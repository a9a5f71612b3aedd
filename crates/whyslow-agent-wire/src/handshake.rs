//! The exchange when a program starts, over a `SOCK_SEQPACKET` socket. The agent connects and sends one
//! [`Hello`]. The collector answers with one packet and the area's descriptor (`SCM_RIGHTS`). The agent maps
//! the area and the pages, applies the patches, closes both descriptors and continues.
//!
//! When the program loads a library later, the agent sends another hello with [`entered::LOADED`] and the
//! library's address, before any code of the library runs. The answer has what the library's own allocator
//! needs, without a descriptor.
//!
//! ```text
//! the answer = Welcome                               16 bytes
//!              Welcome::pages × {
//!                  Page                              16 bytes
//!                  Page::len bytes of code           padded with zeros to a multiple of 8
//!              }
//!              Welcome::reals × Real                 16 bytes each
//!              Welcome::patches × Patch              48 bytes each, in address order
//! ```
//! There are several pages because a page must be within 2 GB of the code that jumps into it, and libc is
//! farther than that from a position-independent program. The agent maps the pages before the area, because
//! the area could take their place. A page's code is complete: the agent maps the page writable, copies the
//! code, makes the page executable, and only then writes the patches. If one page cannot be mapped at its
//! address, the agent applies no patch at all.
//!
//! The collector does the analysis: it reads the ELF files, finds the allocator's functions, moves their
//! first instructions into the patch page and computes every byte. The agent only copies, so no parser runs
//! inside the program.

/// Functions that the agent can hook. The number is a row of [`Hello::hooks`] and of [`Real::hook`].
///
/// A row defines a function's arguments and whether its blocks may be filled before the program gets them. It
/// does not define the allocator. The patch page reorders a function's arguments to match its row before the
/// hook runs, and restores the order before the real function runs. Rows with `anything` pass all of their
/// arguments on.
pub mod hook {
    /// Hooks per group.
    pub const PER_GROUP: usize = 16;
    /// `malloc(size)`
    pub const MALLOC: usize = 0;
    /// `calloc(count, size)`
    pub const CALLOC: usize = 1;
    /// `realloc(old, size)`
    pub const REALLOC: usize = 2;
    /// `free(block)`
    pub const FREE: usize = 3;
    /// `posix_memalign(&block, alignment, size)`
    pub const POSIX_MEMALIGN: usize = 4;
    /// `aligned_alloc(alignment, size)`; also `memalign`
    pub const ALIGNED_ALLOC: usize = 5;
    /// `memalign(alignment, size)`
    pub const MEMALIGN: usize = 6;
    /// `valloc(size)`
    pub const VALLOC: usize = 7;
    /// `pvalloc(size)`
    pub const PVALLOC: usize = 8;
    /// `reallocarray(old, count, size)`, never filled; also `mi_recalloc`
    pub const REALLOCARRAY: usize = 9;
    /// `f(size, anything, anything)`; the initial content is undefined: `mi_malloc_aligned`, `mi_new`,
    /// `__rust_alloc`…
    pub const ALLOC_LIKE: usize = 10;
    /// `f(size, anything, anything)`; the block may have to be zeroed, so it is never filled: `mallocx`,
    /// `mi_zalloc`, `mi_zalloc_aligned`, `__rust_alloc_zeroed`…
    pub const ALLOC_LIKE_2: usize = 11;
    /// `f(old, size, anything)`, never filled: `rallocx`, `mi_rezalloc`, `mi_realloc_aligned`
    pub const REALLOC_LIKE: usize = 12;
    /// `f(old, old size, alignment, size)`: `__rust_realloc`
    pub const RUST_REALLOC: usize = 13;
    /// `f(block, anything, anything)`: `sdallocx`, `__rust_dealloc`, `mi_free_size`…
    pub const FREE_LIKE: usize = 14;
    /// A second row of that shape: `dallocx`…
    pub const FREE_LIKE_2: usize = 15;

    /// Groups of hooks. Group 0 holds the preloaded functions; patched functions take free rows of the other
    /// groups. One allocator may use several groups: mimalloc has more functions of one shape than a group
    /// has rows.
    pub const GROUPS: usize = 8;
    /// The first row of one more group: libc's own functions, for callers that the loader binds to libc and not
    /// to the preloaded functions, such as libraries opened with `RTLD_DEEPBIND`.
    pub const LIBC: usize = GROUPS * PER_GROUP;
    /// `_exit(code)`: the end of the process.
    pub const EXIT: usize = LIBC + PER_GROUP;
    /// `f(anything, anything, anything, anything)`: releases blocks that the program has already freed from
    /// the allocator's own caches. The calls it makes are not recorded: `__malloc_arena_thread_freeres`.
    pub const MASKED: usize = EXIT + 1;
    /// `execve(path, arguments, environment)`
    pub const EXECVE: usize = MASKED + 1;
    /// `execveat(folder, path, arguments, environment, flags)`
    pub const EXECVEAT: usize = EXECVE + 1;
    /// `fexecve(file, arguments, environment)`
    pub const FEXECVE: usize = EXECVEAT + 1;
    /// `_dl_debug_state()`: the loader calls it after it loads libraries, before any of their code runs, and
    /// after it unloads libraries.
    pub const LOADED: usize = FEXECVE + 1;
    /// `sigaction(signal, new, old)`
    pub const SIGACTION: usize = LOADED + 1;
    /// `syscall(number, …)`
    pub const SYSCALL: usize = SIGACTION + 1;
    /// `exit(code)`: from here on the program's frames hold no new references.
    pub const ORDERLY_EXIT: usize = SYSCALL + 1;
    /// `quick_exit(code)`: same as `exit`.
    pub const QUICK_EXIT: usize = ORDERLY_EXIT + 1;
    /// `pthread_create(thread, attributes, start, argument)`
    pub const THREAD: usize = QUICK_EXIT + 1;
    /// `_Fork()`, or `fork()` where libc has no `_Fork`
    pub const FORK: usize = THREAD + 1;
    /// `pthread_cancel(thread)`
    pub const CANCEL: usize = FORK + 1;
    /// `prctl(operation, …)`
    pub const PRCTL: usize = CANCEL + 1;
    /// `pthread_key_create(key, destructor)`: not hooked, the agent calls it
    pub const KEY_CREATE: usize = PRCTL + 1;
    /// `pthread_setspecific(key, value)`: not hooked, the agent calls it
    pub const SET_SPECIFIC: usize = KEY_CREATE + 1;
    /// Not a function: where libc starts. The hooks of [`LIBC`] let calls from inside libc pass.
    pub const LIBC_START: usize = SET_SPECIFIC + 1;
    /// Not a function: where libc ends.
    pub const LIBC_END: usize = LIBC_START + 1;
    /// `pthread_join`
    pub const JOIN: usize = LIBC_END + 1;
    /// `pthread_mutex_lock`
    pub const MUTEX_LOCK: usize = JOIN + 1;
    /// `pthread_mutex_unlock`
    pub const MUTEX_UNLOCK: usize = MUTEX_LOCK + 1;
    /// `pthread_mutex_timedlock`
    pub const MUTEX_TIMEDLOCK: usize = MUTEX_UNLOCK + 1;
    /// `pthread_cond_wait`
    pub const COND_WAIT: usize = MUTEX_TIMEDLOCK + 1;
    /// `pthread_cond_timedwait`
    pub const COND_TIMEDWAIT: usize = COND_WAIT + 1;
    /// `pthread_cond_clockwait`
    pub const COND_CLOCKWAIT: usize = COND_TIMEDWAIT + 1;
    /// `pthread_cond_signal`
    pub const COND_SIGNAL: usize = COND_CLOCKWAIT + 1;
    /// `pthread_cond_broadcast`
    pub const COND_BROADCAST: usize = COND_SIGNAL + 1;
    /// `pthread_rwlock_rdlock`
    pub const READ_LOCK: usize = COND_BROADCAST + 1;
    /// `pthread_rwlock_wrlock`
    pub const WRITE_LOCK: usize = READ_LOCK + 1;
    /// `pthread_rwlock_unlock`
    pub const RW_UNLOCK: usize = WRITE_LOCK + 1;
    /// `pthread_barrier_wait`
    pub const BARRIER_WAIT: usize = RW_UNLOCK + 1;
    /// `sem_wait`
    pub const SEM_WAIT: usize = BARRIER_WAIT + 1;
    /// `sem_timedwait`
    pub const SEM_TIMEDWAIT: usize = SEM_WAIT + 1;
    /// `sem_post`
    pub const SEM_POST: usize = SEM_TIMEDWAIT + 1;
    /// `nanosleep`
    pub const NANOSLEEP: usize = SEM_POST + 1;
    /// `clock_nanosleep`
    pub const CLOCK_NANOSLEEP: usize = NANOSLEEP + 1;
    /// `poll`
    pub const POLL: usize = CLOCK_NANOSLEEP + 1;
    /// `ppoll`
    pub const PPOLL: usize = POLL + 1;
    /// `select`
    pub const SELECT: usize = PPOLL + 1;
    /// `epoll_wait`
    pub const EPOLL_WAIT: usize = SELECT + 1;
    /// `epoll_pwait`
    pub const EPOLL_PWAIT: usize = EPOLL_WAIT + 1;
    /// `read`
    pub const READ: usize = EPOLL_PWAIT + 1;
    /// `write`
    pub const WRITE: usize = READ + 1;
    /// `recv`
    pub const RECV: usize = WRITE + 1;
    /// `recvfrom`
    pub const RECVFROM: usize = RECV + 1;
    /// `recvmsg`
    pub const RECVMSG: usize = RECVFROM + 1;
    /// `send`
    pub const SEND: usize = RECVMSG + 1;
    /// `sendto`
    pub const SENDTO: usize = SEND + 1;
    /// `sendmsg`
    pub const SENDMSG: usize = SENDTO + 1;
    /// `accept`
    pub const ACCEPT: usize = SENDMSG + 1;
    /// `accept4`
    pub const ACCEPT4: usize = ACCEPT + 1;
    /// Not a function of libc: the entry of a progress point. Its stub passes the point's number.
    pub const ENTERED: usize = ACCEPT4 + 1;
    /// Not a function: an instruction that is a progress point and cannot be patched. Each thread gets a hardware
    /// breakpoint there.
    pub const BREAKPOINT: usize = ENTERED + 1;
    /// Number of hooks.
    pub const COUNT: usize = BREAKPOINT + 1;
}

/// How the agent got into the program.
pub mod entered {
    /// The dynamic loader loaded it because of `LD_PRELOAD`.
    pub const PRELOADED: u32 = 1;
    /// The collector mapped it into a static program before its first instruction.
    pub const INJECTED: u32 = 2;
    /// The agent is already loaded, and the program has loaded a library.
    pub const LOADED: u32 = 3;
}

/// The agent's message.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Hello {
    /// [`crate::VERSION`].
    pub version: u32,
    /// One of [`entered`].
    pub entered: u32,
    /// The process id as the process sees it. The collector uses the kernel's id instead.
    pub pid: u32,
    /// Not used.
    pub reserved: u32,
    /// Address of each hook's code; 0 for a hook that is already in use.
    pub hooks: [u64; hook::COUNT],
    /// Start of the agent itself. It is not a root for the leak search, and its frames are not part of a
    /// stack.
    pub agent_start: u64,
    /// End of the agent.
    pub agent_end: u64,
    /// The allocator functions that the dynamic loader found next, for group 0; 0 for none.
    pub next: [u64; hook::PER_GROUP],
    /// An address in the library that was just loaded; 0 for none.
    pub library: u64,
}

/// The collector's answer.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Welcome {
    /// [`crate::VERSION`], or 0: do not record.
    pub version: u32,
    /// Number of patch pages that follow directly, each a [`Page`] with its bytes.
    pub pages: u32,
    /// Number of [`Real`] rows that follow the pages.
    pub reals: u32,
    /// Number of [`Patch`] rows that follow the [`Real`] rows.
    pub patches: u32,
}

/// Code that patched functions jump into. Its bytes follow, then zero bytes up to a multiple of 8.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Where the page must be mapped (`MAP_FIXED_NOREPLACE`), within reach of the code it is for. A multiple
    /// of 4096.
    pub at: u64,
    /// Length of the code in bytes. The mapping is this, rounded up to a multiple of 4096.
    pub len: u32,
    /// Not used.
    pub reserved: u32,
}

/// The original function that a hook calls: for a patched function, its moved first instructions.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Real {
    /// The number of the hook.
    pub hook: u32,
    /// Of [`hook::BREAKPOINT`]: the number of its progress point. Else not used.
    pub point: u32,
    /// The address that the hook calls, or that of the breakpoint.
    pub address: u64,
}

/// Maximum bytes of a patch.
pub const PATCH_LEN: usize = 16;

/// Bytes to write over code.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    /// Where to write.
    pub address: u64,
    /// How many of `bytes` to write.
    pub len: u32,
    /// Not used.
    pub reserved: u32,
    /// The new bytes.
    pub bytes: [u8; PATCH_LEN],
    /// The bytes that must be there before. If they differ, the agent applies no patch at all.
    pub expected: [u8; PATCH_LEN],
}

/// Maximum length of an answer in bytes.
pub const MOST_WELCOME: usize = 64 << 10;

const _: () = assert!(size_of::<Welcome>() == 16 && size_of::<Page>() == 16);
const _: () = assert!(size_of::<Real>() == 16 && size_of::<Patch>() == 48);
