//! Functions of libc and of the dynamic loader that the agent hooks or calls: their names, and the hook for
//! each.

use whyslow_agent_wire::handshake::hook;

use crate::arch::{Prologue, Refusal};

/// The names of a function, of which the first that exists counts, and its hook.
pub(crate) type Named = (&'static [&'static str], usize);

/// The end of a process. musl's `exit` and `_exit` both call `_Exit`; elsewhere `_exit` and `_Exit` are the
/// same function.
pub(crate) const EXIT: &[Named] = &[(&["_Exit", "_exit"], hook::EXIT)];

/// All ways to execute another program: libc's other exec functions call these.
pub(crate) const EXECS: &[Named] =
    &[(&["execve"], hook::EXECVE), (&["execveat"], hook::EXECVEAT), (&["fexecve"], hook::FEXECVE)];

/// Functions that create threads and processes, take the agent's signal away, or forbid system calls.
pub(crate) const THREADS: &[Named] = &[
    (&["pthread_create"], hook::THREAD),
    (&["_Fork", "fork"], hook::FORK),
    (&["pthread_cancel"], hook::CANCEL),
    (&["prctl"], hook::PRCTL),
    (&["syscall"], hook::SYSCALL),
];

/// Functions that block, sleep, or wake other threads.
pub(crate) const WAITS: &[Named] = &[
    (&["pthread_join"], hook::JOIN),
    (&["pthread_mutex_lock"], hook::MUTEX_LOCK),
    (&["pthread_mutex_unlock"], hook::MUTEX_UNLOCK),
    (&["pthread_mutex_timedlock"], hook::MUTEX_TIMEDLOCK),
    (&["pthread_cond_wait"], hook::COND_WAIT),
    (&["pthread_cond_timedwait"], hook::COND_TIMEDWAIT),
    (&["pthread_cond_clockwait"], hook::COND_CLOCKWAIT),
    (&["pthread_cond_signal"], hook::COND_SIGNAL),
    (&["pthread_cond_broadcast"], hook::COND_BROADCAST),
    (&["pthread_rwlock_rdlock"], hook::READ_LOCK),
    (&["pthread_rwlock_wrlock"], hook::WRITE_LOCK),
    (&["pthread_rwlock_unlock"], hook::RW_UNLOCK),
    (&["pthread_barrier_wait"], hook::BARRIER_WAIT),
    (&["sem_wait"], hook::SEM_WAIT),
    (&["sem_timedwait"], hook::SEM_TIMEDWAIT),
    (&["sem_post"], hook::SEM_POST),
    (&["nanosleep"], hook::NANOSLEEP),
    (&["clock_nanosleep"], hook::CLOCK_NANOSLEEP),
    (&["poll"], hook::POLL),
    (&["ppoll"], hook::PPOLL),
    (&["select"], hook::SELECT),
    (&["epoll_wait"], hook::EPOLL_WAIT),
    (&["epoll_pwait"], hook::EPOLL_PWAIT),
    (&["read"], hook::READ),
    (&["write"], hook::WRITE),
    (&["recv"], hook::RECV),
    (&["recvfrom"], hook::RECVFROM),
    (&["recvmsg"], hook::RECVMSG),
    (&["send"], hook::SEND),
    (&["sendto"], hook::SENDTO),
    (&["sendmsg"], hook::SENDMSG),
    (&["accept"], hook::ACCEPT),
    (&["accept4"], hook::ACCEPT4),
];

/// Other ways to end a process: signals without a handler, the system call itself, and the orderly exit.
pub(crate) const ENDS: &[Named] = &[
    (&["sigaction"], hook::SIGACTION),
    (&["syscall"], hook::SYSCALL),
    (&["exit"], hook::ORDERLY_EXIT),
    (&["quick_exit"], hook::QUICK_EXIT),
];

/// The loader's notification for debuggers: an empty function that it calls.
pub(crate) const LOADS: &[Named] = &[(&["_dl_debug_state"], hook::LOADED)];

/// The end of a thread's malloc cache. glibc releases the cached blocks through its own `free`, although the
/// program has already freed them.
pub(crate) const CACHE_ENDS: &[Named] = &[(&["__malloc_arena_thread_freeres"], hook::MASKED)];

/// libc's allocator, for callers that the loader binds to libc itself. Some names are the same function.
pub(crate) const ALLOCATES: &[Named] = &[
    (&["malloc"], hook::LIBC + hook::MALLOC),
    (&["calloc"], hook::LIBC + hook::CALLOC),
    (&["realloc"], hook::LIBC + hook::REALLOC),
    (&["free"], hook::LIBC + hook::FREE),
    (&["posix_memalign"], hook::LIBC + hook::POSIX_MEMALIGN),
    (&["aligned_alloc"], hook::LIBC + hook::ALIGNED_ALLOC),
    (&["memalign"], hook::LIBC + hook::MEMALIGN),
    (&["valloc"], hook::LIBC + hook::VALLOC),
    (&["pvalloc"], hook::LIBC + hook::PVALLOC),
    (&["reallocarray"], hook::LIBC + hook::REALLOCARRAY),
    (&["free_sized"], hook::LIBC + hook::FREE_LIKE),
    (&["free_aligned_sized"], hook::LIBC + hook::FREE_LIKE_2),
];

/// Functions that the agent calls.
pub(crate) const CALLED: &[Named] =
    &[(&["pthread_key_create"], hook::KEY_CREATE), (&["pthread_setspecific"], hook::SET_SPECIFIC)];

/// All tables that are searched for in libraries.
pub(crate) const OF_LIBRARIES: &[&[Named]] = &[EXIT, EXECS, THREADS, WAITS, ENDS, LOADS, ALLOCATES, CALLED];

/// A function at its address in a process.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) address: u64,
    /// The instructions that a patch would cover.
    pub(crate) prologue: Result<Prologue, Refusal>,
}

/// A module in a process with functions that can be found by name.
pub(crate) trait Functions {
    /// The function with this name.
    fn placed(&self, name: &str) -> Option<Placed>;

    /// The functions of a table that exist, with their hooks.
    fn all_placed(&self, table: &'static [Named]) -> impl Iterator<Item = (Placed, usize)> {
        table.iter().filter_map(|(names, hook)| {
            let function = names.iter().find_map(|name| self.placed(name))?;
            Some((function, *hook))
        })
    }
}
