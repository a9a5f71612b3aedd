//! Between threads, as CPU time shows it.

use crate::finding::Confidence;
use crate::rule::{Beneath, Frames, Rule, Signal};

pub(super) static ARC_TRAFFIC: Rule = Rule {
    id: "arc-traffic",
    title: "reference counts (Arc, shared_ptr) are changed again and again, each time by an atomic instruction",
    rust: "borrow what the Arc holds (&T) instead of cloning it, clone it once per thread outside of the loop, or use Rc where there is one thread",
    native: Some("pass std::shared_ptr by reference, or what it points to, instead of copying it"),
    page: include_str!("../../../../docs/findings/arc-traffic.md"),
    signal: Signal::Frames(Frames::new(&[
        r"<alloc::sync::(?:Arc|Weak)<.*> as core::(?:clone::Clone>::clone|ops::drop::Drop>::drop)$",
        r"drop_in_place(?:::)?<alloc::sync::(?:Arc|Weak)<.*>>$",
        r"std::_Sp_counted_base<.*>::_M_(?:add_ref_copy|release)|^std::__shared_count<.*>::~__shared_count",
    ])
    // The last one of them does away with what was shared.
    .ended_by(&[r"::drop_slow$|::_M_(?:dispose|destroy|release_last_use)"])),
};

pub(super) static ATOMIC_TRAFFIC: Rule = Rule {
    id: "atomic-traffic",
    title: "threads change the same atomics, whose cache line moves between CPUs each time",
    rust: "count per thread and add up at the end, spread it over several padded atomics (crossbeam's CachePadded), or change it less often",
    native: None,
    page: include_str!("../../../../docs/findings/atomic-traffic.md"),
    signal: Signal::Frames(
        Frames::new(&[
            r"core::sync::atomic::(?:atomic_(?:add|sub|swap|compare_exchange\w*|or|and|xor|umax|umin|nand)|Atomic\w+(?:<.*>)?>?::(?:fetch_\w+|swap|compare_exchange\w*|update))",
            r"std::__atomic_base<.*>::(?:operator\+\+|operator--|fetch_\w+|compare_exchange\w*)",
        ])
        .unless(&[r"alloc::sync::|std::sync::|parking_lot|crossbeam|rayon|tokio"])
        .least(0.10)
        .of_threads(),
    ),
};

pub(super) static TINY_TASKS: Rule = Rule {
    id: "tiny-tasks",
    title: "work is cut into pieces so small that handing them out takes longer than doing them",
    rust: "give each task more: with_min_len(n), par_chunks(n), a larger cut-off before join(), or a plain loop for little work",
    native: Some("give each task more: a larger grain size, chunks instead of items, a larger cut-off"),
    page: include_str!("../../../../docs/findings/tiny-tasks.md"),
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
    id: "spin-waiting",
    title: "a thread waits by asking again and again instead of sleeping",
    rust: "wait with a Condvar, a channel, thread::park or a Barrier; spin only where the wait is shorter than a switch",
    native: Some("wait with a condition variable, a semaphore or std::atomic::wait"),
    page: include_str!("../../../../docs/findings/spin-waiting.md"),
    signal: Signal::Frames(
        Frames::new(&[r"sched_yield$|core::hint::spin_loop$|std::thread::(?:functions::)?yield_now$|^_mm_pause$|crossbeam_utils::backoff::|pthread_spin_lock$"])
            .with(Beneath::All)
            .unless(&["rayon_core|tokio::runtime|crossbeam_deque"])
            .least(0.05),
    ),
};
