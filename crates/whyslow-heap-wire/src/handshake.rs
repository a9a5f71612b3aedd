//! The exchange when a program starts, over a `SOCK_SEQPACKET` socket: the agent connects and sends one [`Hello`]; the collector
//! answers with one packet, with the area's descriptor beside it (`SCM_RIGHTS`). The agent maps the area and the pages, applies
//! the patches, closes both and goes on.
//!
//! When a library is loaded later, the agent says hello once more, with [`entered::LOADED`] and the library's place, before any code of the
//! library runs. The answer has what the library's own allocator needs, and nothing beside it.
//!
//! ```text
//! the answer = Welcome                               16 bytes
//!              Welcome::pages × {
//!                  Page                              16 bytes
//!                  Page::len bytes of code           padded with zeros to a multiple of 8
//!              }
//!              Welcome::reals × Real                 16 bytes each
//!              Welcome::patches × Patch              48 bytes each, in the order of their addresses
//! ```
//! There are several pages because code that jumps into one must be within 2 GB of it, and libc is farther than that from a
//! position-independent program. The agent maps them before the area, which could take their place. A page's code is complete:
//! it is mapped writable, copied, made executable, and only then the patches are written. A page that cannot be mapped where it must be means that no patch is applied at all.
//!
//! The collector does the thinking: it reads the ELF files, finds the allocator's functions, moves their first instructions into
//! the patch page and computes every byte; the agent only copies. So no parser runs inside the program.

/// Functions that the agent can stand in for. The number is a row of [`Hello::hooks`] and of [`Real::hook`].
///
/// A row says what a function's arguments are and whether its blocks may be filled before the program gets them; it does not
/// say which allocator it belongs to. The patch page puts a function's arguments into its row's order before the hook sees them,
/// and back before the real one does. Rows with `anything` hand all of their arguments on.
pub mod hook {
    /// Hooks of one group.
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
    /// `aligned_alloc(alignment, size)`; `memalign` too
    pub const ALIGNED_ALLOC: usize = 5;
    /// `memalign(alignment, size)`
    pub const MEMALIGN: usize = 6;
    /// `valloc(size)`
    pub const VALLOC: usize = 7;
    /// `pvalloc(size)`
    pub const PVALLOC: usize = 8;
    /// `reallocarray(old, count, size)`, never filled: `mi_recalloc` too
    pub const REALLOCARRAY: usize = 9;
    /// `f(size, anything, anything)`, what the block holds means nothing: `mi_malloc_aligned`, `mi_new`, `__rust_alloc`…
    pub const ALLOC_LIKE: usize = 10;
    /// `f(size, anything, anything)`, the block may have to hold zeros, so it is never filled: `mallocx`, `mi_zalloc`,
    /// `mi_zalloc_aligned`, `__rust_alloc_zeroed`…
    pub const ALLOC_LIKE_2: usize = 11;
    /// `f(old, size, anything)`, never filled: `rallocx`, `mi_rezalloc`, `mi_realloc_aligned`
    pub const REALLOC_LIKE: usize = 12;
    /// `f(old, old size, alignment, size)`: `__rust_realloc`
    pub const RUST_REALLOC: usize = 13;
    /// `f(block, anything, anything)`: `sdallocx`, `__rust_dealloc`, `mi_free_size`…
    pub const FREE_LIKE: usize = 14;
    /// A second one of those: `dallocx`…
    pub const FREE_LIKE_2: usize = 15;

    /// Groups of hooks: the preloaded functions are group 0, patched functions take free rows of the others. One allocator may
    /// use several: mimalloc has more functions of one shape than a group has rows.
    pub const GROUPS: usize = 8;
    /// `_exit(code)`: the last moment of the process.
    pub const EXIT: usize = GROUPS * PER_GROUP;
    /// `f(anything, anything, anything, anything)`: frees what the program has freed already, out of the allocator's own caches. What it
    /// calls is not recorded: `__malloc_arena_thread_freeres`.
    pub const MASKED: usize = EXIT + 1;
    /// `execve(path, arguments, environment)`
    pub const EXECVE: usize = MASKED + 1;
    /// `execveat(folder, path, arguments, environment, flags)`
    pub const EXECVEAT: usize = EXECVE + 1;
    /// `fexecve(file, arguments, environment)`
    pub const FEXECVE: usize = EXECVEAT + 1;
    /// `_dl_debug_state()`: the loader calls it when libraries have come, before any of their code runs, and when they have gone.
    pub const LOADED: usize = FEXECVE + 1;
    /// `sigaction(signal, new, old)`
    pub const SIGACTION: usize = LOADED + 1;
    /// `syscall(number, …)`
    pub const SYSCALL: usize = SIGACTION + 1;
    /// `exit(code)`: from here on the program's frames hold nothing new.
    pub const ORDERLY_EXIT: usize = SYSCALL + 1;
    /// `quick_exit(code)`, likewise.
    pub const QUICK_EXIT: usize = ORDERLY_EXIT + 1;
    /// `pthread_create(thread, attributes, start, argument)`
    pub const THREAD: usize = QUICK_EXIT + 1;
    /// `_Fork()`, or `fork()` where there is none
    pub const FORK: usize = THREAD + 1;
    /// `pthread_cancel(thread)`
    pub const CANCEL: usize = FORK + 1;
    /// `prctl(operation, …)`
    pub const PRCTL: usize = CANCEL + 1;
    /// `pthread_key_create(key, destructor)`, which nothing stands in for: the agent calls it
    pub const KEY_CREATE: usize = PRCTL + 1;
    /// `pthread_setspecific(key, value)`, likewise
    pub const SET_SPECIFIC: usize = KEY_CREATE + 1;
    /// How many there are.
    pub const COUNT: usize = SET_SPECIFIC + 1;
}

/// How the agent came in.
pub mod entered {
    /// The dynamic loader loaded it because of `LD_PRELOAD`.
    pub const PRELOADED: u32 = 1;
    /// The collector mapped it into a static program before its first instruction.
    pub const INJECTED: u32 = 2;
    /// It is in already, and a library has come.
    pub const LOADED: u32 = 3;
}

/// What the agent says.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Hello {
    /// [`crate::VERSION`].
    pub version: u32,
    /// One of [`entered`].
    pub entered: u32,
    /// The process, as it sees itself. The collector takes the kernel's word, not this.
    pub pid: u32,
    /// Not used.
    pub reserved: u32,
    /// Where each hook's code is; 0 for one that is in use already.
    pub hooks: [u64; hook::COUNT],
    /// Where the agent itself lies: no root of anything, and no part of a stack.
    pub agent_start: u64,
    /// The end of that.
    pub agent_end: u64,
    /// The allocator functions that the dynamic loader found next, for group 0; 0 where there are none.
    pub next: [u64; hook::PER_GROUP],
    /// An address in the library that has come; 0 otherwise.
    pub library: u64,
}

/// What the collector answers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Welcome {
    /// [`crate::VERSION`], or 0: stay quiet.
    pub version: u32,
    /// Patch pages that follow this directly, each a [`Page`] with its bytes.
    pub pages: u32,
    /// Rows of [`Real`] that follow the pages.
    pub reals: u32,
    /// Rows of [`Patch`] that follow those.
    pub patches: u32,
}

/// Code that patched functions jump into. Its bytes follow, then zero bytes up to a multiple of 8.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Where it must be mapped (`MAP_FIXED_NOREPLACE`), in reach of the code it is for. A multiple of 4096.
    pub at: u64,
    /// Its bytes. What is mapped is this, rounded up to a multiple of 4096.
    pub len: u32,
    /// Not used.
    pub reserved: u32,
}

/// Where a hook finds the function it stands in for: the moved first instructions of a patched one.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Real {
    /// Which hook.
    pub hook: u32,
    /// Not used.
    pub reserved: u32,
    /// What it calls.
    pub address: u64,
}

/// Bytes of a patch.
pub const PATCH_LEN: usize = 16;

/// Bytes to write over code.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    /// Where.
    pub address: u64,
    /// How many of `bytes`.
    pub len: u32,
    /// Not used.
    pub reserved: u32,
    /// With what.
    pub bytes: [u8; PATCH_LEN],
    /// What must be there before; otherwise no patch is applied at all.
    pub expected: [u8; PATCH_LEN],
}

/// The largest answer.
pub const MOST_WELCOME: usize = 64 << 10;

const _: () = assert!(size_of::<Welcome>() == 16 && size_of::<Page>() == 16);
const _: () = assert!(size_of::<Real>() == 16 && size_of::<Patch>() == 48);
