//! Costs of sharing between threads, as CPU samples show them.

use whyslow_asm::Kind;

use crate::finding::Confidence;
use crate::rule::{Beneath, Frames, InCode, Rule, Signal};
use crate::rules::RuleId;

pub(super) static ARC_TRAFFIC: Rule = Rule {
    id: RuleId::ArcTraffic,
    title: "reference counts (Arc, shared_ptr) change very often, each time with an atomic instruction",
    rust: "borrow the value in the Arc (&T) instead of cloning it, clone it once per thread outside the loop, or use Rc if there is only one thread",
    native: Some("pass std::shared_ptr by reference, or the object it points to, instead of copying it"),
    signal: Signal::Frames(Frames::new(&[
        r"<alloc::sync::(?:Arc|Weak)<.*> as core::(?:clone::Clone>::clone|ops::drop::Drop>::drop)$",
        r"drop_in_place(?:::)?<alloc::sync::(?:Arc|Weak)<.*>>$",
        r"std::_Sp_counted_base<.*>::_M_(?:add_ref_copy|release)|^std::__shared_count<.*>::~__shared_count",
    ])
    // The last reference drops the shared value, which is not reference counting.
    .ended_by(&[r"::drop_slow$|::_M_(?:dispose|destroy|release_last_use)"])),
};

pub(super) static ATOMIC_TRAFFIC: Rule = Rule {
    id: RuleId::AtomicTraffic,
    title: "threads change atomics in hot code: each change locks the cache line, and moves it between CPUs that share it",
    rust: "count per thread and add up at the end, or change it less often; if threads need counts of their own at any time, keep each on a cache line of its own (crossbeam's CachePadded)",
    native: Some("count per thread and add up at the end, or change it less often; if threads need counts of their own at any time, keep each on a cache line of its own (alignas(64))"),
    signal: Signal::Frames(
        Frames::new(&[
            r"core::sync::atomic::(?:atomic_(?:add|sub|swap|compare_exchange\w*|or|and|xor|umax|umin|nand)|Atomic\w*(?:<.*>)?>?::(?:fetch_\w+|swap|compare_exchange\w*|update))",
            r"std::__atomic_base<.*>::(?:operator\+\+|operator--|fetch_\w+|compare_exchange\w*)",
        ])
        .unless(&[r"alloc::sync::|std::sync::|parking_lot|crossbeam|rayon|tokio|pthread_|std::_Sp_counted|std::__shared_count"])
        .least(0.10)
        .of_threads()
        .or_in_code(InCode::of_weight(&[Kind::LockedInstruction]).least(0.10)),
    ),
};

pub(super) static TINY_TASKS: Rule = Rule {
    id: RuleId::TinyTasks,
    title: "scheduling overhead: parallel tasks are very small",
    rust: "give each task more work: with_min_len(n), par_chunks(n), a larger cut-off before join(), or a plain loop for little work",
    native: Some("give each task more work: a larger grain size, chunks instead of items, a larger cut-off"),
    signal: Signal::Frames(
        Frames::new(&[
            r"^<?rayon_core::(?:registry|job|latch|sleep|scope|join|thread_pool|spawn)|^<?crossbeam_(?:deque|epoch)::",
            r"^tbb::|^GOMP_|^gomp_|^__kmp",
        ])
        .entered_by(r"^<*rayon(?:_core)?::")
        .least(0.15)
        .at_most(Confidence::Medium),
    ),
};

pub(super) static SPIN_WAITING: Rule = Rule {
    id: RuleId::SpinWaiting,
    title: "busy waiting: a thread spins instead of sleeping",
    rust: "wait with a Condvar, a channel, thread::park or a Barrier; spin only if the wait is shorter than a context switch",
    native: Some("wait with a condition variable, a semaphore, a futex or std::atomic::wait"),
    signal: Signal::Frames(
        Frames::new(&[
            r"sched_yield$|core::hint::spin_loop$|std::thread::(?:functions::)?yield_now$|^_mm_pause$|crossbeam_utils::backoff::|pthread_spin_lock$|^thrd_yield$|^std::this_thread::yield",
            r"^<?(?:std|crossbeam_channel|crossbeam|flume|tokio|async_channel|kanal)::.*\b(?:try_recv|try_iter)$",
            r"^<?(?:std|parking_lot|lock_api|spin|tokio)::.*\b(?:try_lock|try_read|try_write)$",
            r"^(?:__|__GI___|___)?pthread_(?:mutex_trylock|rwlock_try\w+)$|^(?:__new_)?sem_trywait$|^std::(?:\w+_)?mutex::try_lock",
        ])
        .with(Beneath::All)
        .unless(&["rayon_core|tokio::runtime|crossbeam_deque|_dl_|__libc_malloc|^malloc$|arena_get|std::io::stdio"])
        .least(0.15)
        .or_in_code(InCode::of_loop(&[Kind::SpinWait])),
    ),
};
