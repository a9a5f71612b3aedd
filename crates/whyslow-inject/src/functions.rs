//! Functions of libc and of the dynamic loader that the agent must see or call: their names, and the hook for each.

use whyslow_heap_wire::handshake::hook;

use crate::arch::{Prologue, Refusal};

/// The names of a function, of which the first that is there counts, and its hook.
pub(crate) type Named = (&'static [&'static str], usize);

/// The end of a process. musl's `exit` goes to `_Exit`, and so does its `_exit`; elsewhere they are one.
pub(crate) const EXIT: &[Named] = &[(&["_Exit", "_exit"], hook::EXIT)];

/// All ways to execute another program: libc's other functions of this kind come here.
pub(crate) const EXECS: &[Named] =
    &[(&["execve"], hook::EXECVE), (&["execveat"], hook::EXECVEAT), (&["fexecve"], hook::FEXECVE)];

/// What makes threads and processes, what takes the agent's signal away, and what forbids system calls.
pub(crate) const THREADS: &[Named] = &[
    (&["pthread_create"], hook::THREAD),
    (&["_Fork", "fork"], hook::FORK),
    (&["pthread_cancel"], hook::CANCEL),
    (&["prctl"], hook::PRCTL),
    (&["syscall"], hook::SYSCALL),
];

/// What else leads to an end: signals that nothing is set for, the system call itself, and the orderly way.
pub(crate) const ENDS: &[Named] = &[
    (&["sigaction"], hook::SIGACTION),
    (&["syscall"], hook::SYSCALL),
    (&["exit"], hook::ORDERLY_EXIT),
    (&["quick_exit"], hook::QUICK_EXIT),
];

/// The loader's word to debuggers, an empty function that it calls.
pub(crate) const LOADS: &[Named] = &[(&["_dl_debug_state"], hook::LOADED)];

/// The end of a thread's cache. glibc frees through its own `free` what lies there, and the program has freed all of it.
pub(crate) const CACHE_ENDS: &[Named] = &[(&["__malloc_arena_thread_freeres"], hook::MASKED)];

/// What the agent calls.
pub(crate) const CALLED: &[Named] =
    &[(&["pthread_key_create"], hook::KEY_CREATE), (&["pthread_setspecific"], hook::SET_SPECIFIC)];

/// All of these that libraries are asked for.
pub(crate) const OF_LIBRARIES: &[&[Named]] = &[EXIT, EXECS, THREADS, ENDS, LOADS, CALLED];

/// A function where it runs.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) address: u64,
    /// What a patch would cover.
    pub(crate) prologue: Result<Prologue, Refusal>,
}

/// A module in a process whose functions are known by name.
pub(crate) trait Functions {
    /// The function of this name.
    fn placed(&self, name: &str) -> Option<Placed>;

    /// Those of a table that are there, with their hooks.
    fn all_placed(&self, table: &'static [Named]) -> impl Iterator<Item = (Placed, usize)> {
        table.iter().filter_map(|(names, hook)| {
            let function = names.iter().find_map(|name| self.placed(name))?;
            Some((function, *hook))
        })
    }
}
