//! Patterns of threads, and of work before `main`.

use std::hint::black_box;
use std::thread;

use crate::{Recorded, compute};

pub const PAIRS: &[Recorded] = &[
    ("poor-parallelism", "--off-cpu", prepares_alone, prepares_on_all),
    ("oversubscription", "--off-cpu", a_thread_per_item, a_thread_per_cpu),
    ("executor-overhead", "", a_task_per_number, a_task_per_block),
    ("startup-dominated", "", nothing_is_left, works_in_main),
];

#[inline(never)]
fn prepares_alone() {
    let mut state = 1u64;
    for round in 0..black_box(10_000_000u64) {
        state = state.rotate_left(7).wrapping_mul(round | 1); // here: poor-parallelism
    }
    black_box(state);
    on_threads(2, || _ = black_box(compute(10_000_000)));
}

#[inline(never)]
fn prepares_on_all() {
    on_threads(2, || _ = black_box(compute(20_000_000)));
}

fn on_threads(count: usize, work: impl Fn() + Sync) {
    thread::scope(|scope| (0..count).for_each(|_| drop(scope.spawn(&work))));
}

fn cpus() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

#[inline(never)]
fn a_thread_per_item() {
    on_threads(6 * cpus(), || _ = black_box(compute(20_000_000))); // here: oversubscription
}

#[inline(never)]
fn a_thread_per_cpu() {
    on_threads(cpus(), || _ = black_box(compute(60_000_000)));
}

fn on_one_worker(work: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    runtime.block_on(work);
}

async fn doubles(number: u64) -> u64 {
    black_box(number * 2)
}

#[inline(never)]
fn a_task_per_number() {
    on_one_worker(async {
        for _ in 0..10 {
            let spawned = |number| tokio::spawn(doubles(number)); // here: executor-overhead
            let tasks = (0..2_000).map(spawned).collect::<Vec<_>>();
            for task in tasks {
                black_box(task.await.expect("nobody panics"));
            }
        }
    });
}

#[inline(never)]
fn a_task_per_block() {
    on_one_worker(async {
        let blocks = (0..20).map(|_| tokio::spawn(async { compute(1_000_000) })).collect::<Vec<_>>();
        for block in blocks {
            black_box(block.await.expect("nobody panics"));
        }
    });
}

#[inline(never)]
fn nothing_is_left() {
    black_box(compute(100_000));
}

#[inline(never)]
fn works_in_main() {
    black_box(compute(2_000_000));
}

/// A static constructor of a library, which runs before `main`.
extern "C" fn set_up() {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("startup-dominated") && arguments.next().as_deref() == Some("slow")
    {
        black_box(compute(200_000_000)); // here: startup-dominated
    }
}

// SAFETY: the linker section for functions that run before `main`. Their arguments do not matter here, and std has stored the program's before.
#[unsafe(link_section = ".init_array")]
#[used]
static SET_UP: extern "C" fn() = set_up;
