//! Scopes on the system allocator: what counts, for which scope, and the messages of failures.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use whyslow_alloc::{Budget, Scope, Stats, count};

#[global_allocator]
static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();

/// The message of a panic.
fn message_of(work: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(work)).expect_err("it should have panicked");
    match payload.downcast::<String>() {
        Ok(message) => *message,
        Err(payload) => payload.downcast::<&str>().map_or_else(|_| String::new(), |text| text.to_string()),
    }
}

#[test]
fn boxes_strings_and_vectors_are_counted_exactly() {
    let (_, stats) = count(|| drop(black_box(Box::new([0u8; 40]))));
    assert_eq!((stats.allocations, stats.frees, stats.reallocations), (1, 1, 0));
    assert_eq!((stats.bytes_allocated, stats.bytes_freed), (40, 40));
    assert_eq!((stats.live_bytes, stats.live_blocks, stats.peak_bytes), (0, 0, 40));

    let (text, stats) = count(|| String::from("twelve bytes"));
    assert_eq!((stats.allocations, stats.bytes_allocated, stats.live_bytes), (1, 12, 12));
    assert_eq!((stats.live_blocks, stats.peak_bytes), (1, 12));
    drop(text);

    let (_, stats) = count(|| black_box(vec![0u32; 100]).len());
    assert_eq!((stats.allocations, stats.bytes_allocated, stats.frees), (1, 400, 1));
    let (_, stats) = count(|| black_box(7));
    assert_eq!(stats, Stats::default());
}

#[test]
fn a_growing_vector_reallocates_and_never_counts_twice() {
    let (numbers, stats) = count(|| {
        let mut numbers: Vec<u64> = Vec::new();
        for number in 0..17 {
            numbers.push(black_box(number));
        }
        numbers
    });
    // 4, 8, 16, 32 numbers.
    assert_eq!(numbers.capacity(), 32);
    assert_eq!((stats.allocations, stats.reallocations, stats.frees), (4, 3, 3));
    assert_eq!(stats.bytes_allocated, 8 * (4 + 8 + 16 + 32));
    assert_eq!(stats.bytes_freed, 8 * (4 + 8 + 16));
    assert_eq!((stats.live_bytes, stats.live_blocks, stats.peak_bytes), (256, 1, 256));

    let (_, stats) = count(|| {
        let mut numbers = numbers;
        numbers.truncate(2);
        numbers.shrink_to_fit();
        black_box(&numbers);
    });
    assert_eq!((stats.allocations, stats.reallocations, stats.frees), (1, 1, 2));
    assert_eq!((stats.bytes_allocated, stats.bytes_freed), (16, 256 + 16));
    assert_eq!((stats.live_bytes, stats.live_blocks, stats.peak_bytes), (-256, -1, 0));
}

#[test]
fn peak_is_relative_to_the_level_at_the_start() {
    let before = black_box(vec![0u8; 1000]);
    let heap = Scope::new();
    let first = black_box(vec![0u8; 300]);
    let second = black_box(vec![0u8; 500]);
    drop(first);
    let third = black_box(vec![0u8; 200]);
    assert_eq!(heap.stats().peak_bytes, 800);
    drop((before, second, third));
    assert_eq!(heap.stats().live_bytes, -1000);
    assert_eq!(heap.stats().peak_bytes, 800);
}

#[test]
fn other_threads_do_not_count() {
    let stop = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for seed in 0..8usize {
            let stop = &stop;
            threads.spawn(move || {
                let mut kept = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    kept.push(vec![seed; seed + kept.len() % 100]);
                    if kept.len() > 500 {
                        kept.clear();
                    }
                }
            });
        }
        for turn in 1..300usize {
            let (blocks, stats) = count(|| (0..turn).map(|size| vec![1u8; size + 1]).collect::<Vec<_>>());
            assert_eq!(stats.allocations, 1 + turn as u64);
            assert_eq!(stats.frees, 0);
            let bytes = blocks.capacity() * size_of::<Vec<u8>>() + (1..=turn).sum::<usize>();
            assert_eq!(stats.bytes_allocated, bytes as u64);
            assert_eq!(stats.peak_bytes, bytes as u64);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn threads_that_inherit_a_scope_count_and_others_do_not() {
    let heap = Scope::new();
    let before = heap.stats();
    let inherit = heap.inherit();
    let worker = std::thread::spawn(|| black_box(vec![0u8; 111]).len());
    worker.join().unwrap();
    let alone = heap.stats();
    // Starting a thread costs its parent a few allocations, but none of 111 bytes.
    let wrapped = std::thread::spawn(inherit.wrap(|| {
        let (_, inner) = count(|| black_box(vec![0u8; 7000]).len());
        inner
    }));
    let inner = wrapped.join().unwrap();
    let after = heap.stats();
    assert_eq!((inner.allocations, inner.bytes_allocated), (1, 7000));
    let spawned = alone.allocations - before.allocations;
    assert_eq!(after.allocations - alone.allocations, spawned + 1);
    assert!(after.bytes_allocated - alone.bytes_allocated >= 7000);
    assert!(alone.bytes_allocated < 7000);
    assert!(after.peak_bytes >= 7000);
}

#[test]
fn eight_threads_count_into_one_scope_exactly() {
    let heap = Scope::with_stacks();
    let start = heap.stats();
    std::thread::scope(|threads| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                heap.spawn_scoped(threads, || {
                    for _ in 0..1000 {
                        black_box(Box::new([0u8; 10_000]));
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.join().unwrap();
        }
    });
    let stats = heap.stats();
    let starting = stats.allocations - start.allocations - 8000;
    assert!(starting < 200, "{starting} allocations to start eight threads");
    assert!(stats.bytes_allocated >= 80_000_000 && stats.bytes_allocated < 80_100_000);
    assert!(stats.peak_bytes < 8 * 10_000 + 100_000);
    let stacks = heap.stacks();
    assert!(stacks.contains("8000 allocations, 80000000 bytes"), "{stacks}");
}

#[test]
fn nested_scopes_end_in_any_order() {
    let outer = Scope::new();
    drop(black_box(Box::new(1u8)));
    let inner = Scope::new();
    drop(black_box(Box::new(2u16)));
    assert_eq!((outer.stats().allocations, inner.stats().allocations), (2, 1));
    assert_eq!((outer.stats().bytes_allocated, inner.stats().bytes_allocated), (3, 2));
    let third = Scope::new();
    drop(inner);
    drop(black_box(Box::new(4u32)));
    drop(outer);
    drop(black_box(Box::new(8u64)));
    assert_eq!((third.stats().allocations, third.stats().bytes_allocated), (2, 12));
}

#[test]
fn creating_a_scope_does_not_count_in_another_scope() {
    let outer = Scope::new();
    for _ in 0..10 {
        let inner = Scope::with_stacks();
        let inherit = inner.inherit();
        drop(inherit.enter());
        black_box(inner.stats());
        black_box(inner.stats());
    }
    assert_eq!(outer.stats(), Stats::default());
}

#[test]
fn a_panic_ends_a_scope() {
    let outer = Scope::new();
    let caught = catch_unwind(|| {
        let _inner = Scope::with_stacks();
        let _counted = black_box(Box::new(5u64));
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(caught.is_err());
    let before = outer.stats().allocations;
    drop(black_box(Box::new(6u64)));
    assert_eq!(outer.stats().allocations, before + 1);
    assert_eq!(count(|| drop(black_box(Box::new(7u64)))).1.allocations, 1);
    let message = message_of(|| whyslow_alloc::assert_no_alloc(|| panic!("first")));
    assert_eq!(message, "first");
}

#[inline(never)]
fn parse_a_row(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

#[inline(never)]
fn load_table(text: &str) -> usize {
    black_box(parse_a_row(text).len())
}

#[test]
fn a_failure_shows_what_was_allocated_where() {
    let message = message_of(|| {
        whyslow_alloc::assert_no_alloc(|| load_table("a,bc,def"));
    });
    let (first, rest) = message.split_once('\n').unwrap();
    assert!(first.starts_with("4 allocations, ") && first.ends_with(", but none is allowed"), "{message}");
    // The vector has room for four strings.
    assert!(rest.contains(&format!("4 allocations, {} bytes by ", 4 * size_of::<String>() + 6)), "{message}");
    assert!(rest.contains("at scopes::parse_a_row"), "{message}");
    assert!(rest.contains("at scopes::load_table"), "{message}");
    assert!(rest.contains("tests/scopes.rs:"), "{message}");
    assert!(!rest.contains("at whyslow_alloc::") && !rest.contains("at alloc::"), "{message}");
    assert!(!rest.contains("by whyslow_alloc::") && !rest.contains("__rust_alloc"), "{message}");
    assert!(
        !rest.contains("at std::") && !rest.contains("at core::") && !rest.contains("at test::"),
        "{message}"
    );
}

#[test]
fn the_lines_in_a_failure_are_those_that_allocate() {
    let line = line!() + 2;
    let message = message_of(|| {
        whyslow_alloc::assert_no_alloc! { drop(black_box(Box::new(9u64))) };
    });
    assert!(message.contains(&format!("tests/scopes.rs:{line})")), "{line}: {message}");
}

#[test]
fn many_stacks_are_cut_to_the_heaviest() {
    let message = message_of(|| {
        whyslow_alloc::assert_no_alloc(|| {
            drop(black_box(vec![0u8; black_box(1)]));
            drop(black_box(vec![0u8; black_box(2)]));
            drop(black_box(vec![0u8; black_box(3)]));
            drop(black_box(vec![0u8; black_box(4)]));
            drop(black_box(vec![0u8; black_box(5)]));
            drop(black_box(vec![0u8; black_box(6)]));
            drop(black_box(vec![0u8; black_box(7)]));
            drop(black_box(vec![0u8; black_box(8)]));
            drop(black_box(vec![0u8; black_box(9)]));
            drop(black_box(vec![0u8; black_box(10)]));
            drop(black_box(vec![0u8; black_box(11)]));
            drop(black_box(vec![0u8; black_box(12)]));
        });
    });
    assert!(message.contains("\n  1 allocation, 12 bytes"), "{message}");
    assert!(!message.contains("\n  1 allocation, 2 bytes"), "{message}");
    assert!(message.contains("\n  and 2 more stacks with 2 allocations, 3 bytes"), "{message}");
}

#[test]
fn budgets_name_what_is_exceeded() {
    let work = || {
        for _ in 0..3 {
            drop(black_box(vec![0u8; 100]));
        }
        std::mem::forget(black_box(vec![0u8; 50]));
    };
    let exceeded = |budget| message_of(|| whyslow_alloc::budget(budget, work));
    let unlimited = Budget::UNLIMITED;
    let message = exceeded(Budget { allocations: 3, ..unlimited });
    assert!(message.starts_with("4 allocations, allowed: 3\n"), "{message}");
    let message = exceeded(Budget { bytes: 349, ..unlimited });
    assert!(message.starts_with("350 bytes allocated, allowed: 349\n"), "{message}");
    let message = exceeded(Budget { peak: 99, live: 49, ..unlimited });
    assert!(
        message.starts_with("100 bytes live at the peak, allowed: 99\n50 bytes not freed, allowed: 49\n")
    );
    assert!(message.contains("3 allocations, 300 bytes by"), "{message}");
    whyslow_alloc::budget(Budget { allocations: 4, bytes: 350, peak: 100, live: 50 }, work);
}

#[test]
fn assert_allocations_compares_exactly_or_at_most() {
    let text = whyslow_alloc::assert_allocations!(== 1, String::from("one"));
    whyslow_alloc::assert_allocations!(<= 2, drop(black_box(text.clone())));
    whyslow_alloc::assert_allocations!(< 1, {
        let _ = black_box(text.len());
    });
    let message = message_of(|| {
        whyslow_alloc::assert_allocations!(== 2, drop(black_box(text.clone())));
    });
    assert!(message.starts_with("1 allocation, expected: == 2\n  1 allocation, 3 bytes"), "{message}");
}

/// Leaves the statements that must not allocate in every possible way.
#[inline(never)]
fn leave(way: &str, allocate: bool) -> Option<u32> {
    for _ in 0..2 {
        whyslow_alloc::assert_no_alloc! {
            if allocate {
                drop(black_box(Box::new(1u64)));
            }
            match way {
                "return" => return Some(1),
                "question mark" => None?,
                "break" => break,
                "continue" => continue,
                _ => 4,
            }
        };
    }
    Some(2)
}

#[test]
fn statements_are_checked_however_they_are_left() {
    assert_eq!(leave("return", false), Some(1));
    assert_eq!(leave("question mark", false), None);
    for way in ["break", "continue", "the end"] {
        assert_eq!(leave(way, false), Some(2));
    }
    for way in ["return", "question mark", "break", "continue"] {
        let message = message_of(|| assert_eq!(leave(way, true), None));
        let (first, rest) = message.split_once('\n').unwrap();
        assert!(
            first.contains("tests/scopes.rs:")
                && first.contains("which was left early: 1 allocation, 8 bytes"),
            "{message}"
        );
        assert!(rest.contains("at scopes::leave"), "{message}");
    }
    let message = message_of(|| assert_eq!(leave("the end", true), None));
    assert!(message.starts_with("1 allocation, 8 bytes, but none is allowed\n"), "{message}");

    let early = |allocations: usize| {
        whyslow_alloc::assert_allocations!(== 2, {
            (0..allocations).for_each(|_| drop(black_box(Box::new(1u64))));
            return;
        });
    };
    early(2);
    let message = message_of(|| early(3));
    assert!(message.contains("left early: 3 allocations, expected: == 2"), "{message}");
}

#[test]
fn a_scope_counts_once_on_a_thread_that_enters_it_again() {
    let heap = Scope::new();
    let inherit = heap.inherit();
    let block = || drop(black_box(Box::new(1u64)));
    let first = inherit.enter();
    let inner = Scope::new();
    let second = inherit.enter();
    block();
    assert_eq!((heap.stats().allocations, inner.stats().allocations), (1, 1));
    // In any order.
    drop(first);
    block();
    drop(second);
    block();
    assert_eq!((heap.stats().allocations, inner.stats().allocations), (3, 3));

    let worker = std::thread::spawn(move || {
        let (first, second) = (inherit.enter(), inherit.enter());
        drop(first);
        drop(black_box(vec![0u8; 1_000_000]));
        drop(second);
        drop(black_box(vec![0u8; 5_000_000]));
    });
    worker.join().unwrap();
    let bytes = heap.stats().bytes_allocated;
    assert!((1_000_000..2_000_000).contains(&bytes), "{bytes}");
}

#[test]
fn pool_work_counts_once_it_enters_the_scope() {
    use rayon::prelude::*;

    let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
    let block = |_| drop(black_box(vec![0u8; 100_000]));
    let heap = Scope::new();
    pool.install(|| (0..100).into_par_iter().for_each(block));
    let outside = heap.stats().bytes_allocated;
    assert!(outside < 100_000, "{outside}");
    let inherit = heap.inherit();
    pool.install(|| {
        (0..100).into_par_iter().for_each(|number| {
            let _counted = inherit.enter();
            block(number);
        });
    });
    let counted = heap.stats().bytes_allocated - outside;
    assert!((10_000_000..10_100_000).contains(&counted), "{counted}");
    // The thread that owns the scope does some of the work itself.
    let counted = pool.install(|| {
        let heap = Scope::new();
        let inherit = heap.inherit();
        (0..100).into_par_iter().for_each(|number| {
            let _counted = inherit.enter();
            block(number);
        });
        heap.stats().bytes_allocated
    });
    assert!((10_000_000..10_100_000).contains(&counted), "{counted}");
}

#[test]
fn frees_in_thread_local_destructors_are_counted() {
    struct Late(Option<whyslow_alloc::Inherit>, #[expect(dead_code, reason = "freed with it")] Vec<u8>);
    impl Drop for Late {
        fn drop(&mut self) {
            let _entered = self.0.take().map(|inherit| std::mem::ManuallyDrop::new(inherit.enter()));
            drop(black_box(vec![0u8; 12_345]));
        }
    }
    thread_local! {
        static LATE: std::cell::RefCell<Option<Late>> = const { std::cell::RefCell::new(None) };
    }
    let heap = Scope::new();
    let inherit = heap.inherit();
    std::thread::spawn(move || LATE.set(Some(Late(Some(inherit), vec![0u8; 54_321])))).join().unwrap();
    let stats = heap.stats();
    assert!(stats.bytes_allocated >= 12_345 && stats.bytes_allocated < 54_321);
    assert!(stats.bytes_freed >= 12_345 + 54_321, "{stats:?}");
}

#[test]
fn zeroed_and_aligned_blocks_are_counted() {
    #[repr(align(4096))]
    struct Page(#[expect(dead_code, reason = "only its size counts")] [u8; 4096]);
    let (_, stats) = count(|| drop(black_box(Box::new(Page([0; 4096])))));
    assert_eq!((stats.allocations, stats.bytes_allocated, stats.frees), (1, 4096, 1));
    let (_, stats) = count(|| drop(black_box(vec![0u64; 1000])));
    assert_eq!((stats.allocations, stats.bytes_allocated, stats.peak_bytes), (1, 8000, 8000));
}
