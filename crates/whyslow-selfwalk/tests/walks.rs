//! Compares every walk of real stacks with glibc's own `backtrace`, address by address. Also compares each
//! walk that repeats a part of the previous one with a walk from an empty walker.

#![expect(unsafe_code, reason = "walks start in a function without its own frame")]

use std::cell::Cell;
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use whyslow_selfwalk::hosted::Hosted;
use whyslow_selfwalk::{Entry, Node, Numbered, Rules, Stacks};

static RULES: Rules = Rules::new();
static USED: AtomicU32 = AtomicU32::new(1);
static COMPARED: AtomicUsize = AtomicUsize::new(0);
static TABLES: LazyLock<(Vec<AtomicU32>, Vec<Node>)> = LazyLock::new(|| {
    ((0..1 << 12).map(|_| AtomicU32::new(0)).collect(), (0..1 << 20).map(|_| Node::default()).collect())
});

struct Pair {
    repeating: Box<Numbered>,
    empty: Box<Numbered>,
}

fn walker() -> Box<Numbered> {
    // SAFETY: all-zero bytes are a new walker.
    unsafe { Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Numbered>()).cast()) }
}

thread_local! {
    static WALKERS: Cell<Option<Box<Pair>>> = const { Cell::new(None) };
}

/// Walks from its caller on, and compares.
#[unsafe(naked)]
extern "C" fn check() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rsp",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {compare}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        compare = sym compare,
    )
}

extern "C" fn compare(entry: *const Entry) {
    let mut pair = WALKERS.take().unwrap_or_else(|| Box::new(Pair { repeating: walker(), empty: walker() }));
    let (heads, nodes) = &*TABLES;
    let stacks = Stacks { heads, nodes, used: &USED };
    // SAFETY: the entry lies on this thread's stack.
    let id = unsafe { pair.repeating.walk(&RULES, &stacks, &Hosted, 0, entry) };
    pair.empty.forget();
    // SAFETY: as above.
    let afresh = unsafe { pair.empty.walk(&RULES, &stacks, &Hosted, 0, entry) };
    assert_eq!(addresses(id), addresses(afresh), "a repeated walk differs from a fresh one");
    assert_eq!(id, afresh);

    let mut expected = vec![std::ptr::null_mut(); 1 << 16];
    // SAFETY: there is room for this many.
    let count = unsafe { libc::backtrace(expected.as_mut_ptr(), expected.len() as i32) };
    let expected = expected[..count as usize].iter().map(|address| *address as u64).collect::<Vec<_>>();
    // SAFETY: as above.
    let first = unsafe { (*entry).return_address };
    let at = expected.iter().position(|address| *address == first).expect("backtrace() has no such frame");
    // After a signal frame the walker's address is the interrupted instruction's plus one, so that one less
    // is inside it.
    let walked = addresses(id);
    assert_eq!(walked.len(), expected.len() - at, "number of frames differs");
    let same = |(ours, theirs): (&u64, &u64)| ours == theirs || *ours == theirs + 1;
    assert!(walked.iter().zip(&expected[at..]).all(same), "addresses differ");
    COMPARED.fetch_add(1, Ordering::Relaxed);
    WALKERS.set(Some(pair));
}

/// The addresses of a stack, innermost first.
fn addresses(mut id: u32) -> Vec<u64> {
    let mut addresses = Vec::new();
    while id != 0 {
        let node = &TABLES.1[id as usize];
        addresses.push(node.return_address());
        id = node.caller.load(Ordering::Relaxed);
    }
    addresses
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

#[inline(never)]
fn small(random: &mut Random, depth: u64) -> u64 {
    descend(random, depth) + 1
}

#[inline(never)]
fn large(random: &mut Random, depth: u64) -> u64 {
    let mut buffer = [depth; 700];
    black_box(&mut buffer);
    descend(random, depth) + buffer[depth as usize % 700]
}

#[inline(never)]
fn closure(random: &mut Random, depth: u64) -> u64 {
    (0..1 + random.below(2)).map(|turn| descend(random, depth.saturating_sub(turn))).sum()
}

#[inline(never)]
fn many_arguments(random: &mut Random, depth: u64) -> u64 {
    #[inline(never)]
    fn sum(random: &mut Random, v: [u64; 9], depth: u64) -> u64 {
        descend(random, depth) + black_box(v).iter().sum::<u64>()
    }
    sum(random, [depth; 9], depth)
}

#[inline(never)]
fn descend(random: &mut Random, depth: u64) -> u64 {
    check();
    if depth == 0 {
        return 0;
    }
    let depth = depth - 1;
    let sum = match random.below(4) {
        0 => small(random, depth),
        1 => large(random, depth),
        2 => closure(random, depth),
        _ => many_arguments(random, depth),
    };
    check();
    black_box(sum)
}

#[test]
fn walks_of_one_thread_equal_backtraces() {
    let before = COMPARED.load(Ordering::Relaxed);
    for seed in 0..200 {
        black_box(descend(&mut Random(seed), seed % 12));
    }
    assert!(COMPARED.load(Ordering::Relaxed) - before > 2000);
}

#[test]
fn walks_of_several_threads_equal_backtraces() {
    let threads = (0..4).map(|seed| {
        std::thread::spawn(move || {
            for turn in 0..50 {
                black_box(descend(&mut Random(seed * 1000 + turn), turn % 10));
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

#[test]
fn walks_are_right_after_a_caught_panic() {
    for seed in 0..20 {
        let caught = std::panic::catch_unwind(|| {
            descend(&mut Random(seed), 5);
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(caught.is_err());
        check();
        descend(&mut Random(seed), 3);
    }
}

extern "C" fn handler(_signal: i32) {
    check();
    black_box(descend(&mut Random(7), 3));
}

#[test]
fn a_signal_handler_is_walked_through() {
    // SAFETY: the handler only walks. The alternative stack lives as long as the process.
    unsafe {
        let stack = Box::leak(vec![0u8; 1 << 20].into_boxed_slice());
        let alternative =
            libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        assert_eq!(libc::sigaltstack(&raw const alternative, std::ptr::null_mut()), 0);
        for flags in [0, libc::SA_ONSTACK] {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = flags;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()), 0);
            for _ in 0..5 {
                libc::raise(libc::SIGUSR1);
                check();
            }
        }
    }
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    if depth == 0 {
        check();
        return 0;
    }
    black_box(recurse(depth - 1) + 1)
}

#[test]
fn a_very_deep_stack_is_walked_to_its_root() {
    let deep = || {
        for depth in [100, 16_000, 16_380, 16_390, 40_000, 10] {
            assert_eq!(recurse(depth), depth);
        }
    };
    std::thread::Builder::new().stack_size(64 << 20).spawn(deep).unwrap().join().unwrap();
}

/// Descends one of many call paths and returns. The bits of `way` select the functions.
#[inline(never)]
fn go_down(way: u64, left: u64) -> u64 {
    if left == 0 {
        check();
        return 0;
    }
    let mut frame = [way; 12];
    black_box(&mut frame);
    black_box(if way & 1 == 0 {
        small_way(way >> 1, left - 1)
    } else {
        go_down(way >> 1, left - 1) + frame[3]
    })
}

#[inline(never)]
fn small_way(way: u64, left: u64) -> u64 {
    black_box(go_down(way, left) + 1)
}

#[test]
fn more_call_paths_than_are_remembered_are_walked_correctly() {
    let mut random = Random(11);
    for turn in 0..4000 {
        // Few paths for a while, then many.
        let ways = if turn % 1000 < 500 { 16 } else { 1024 };
        go_down(random.below(ways), 6 + random.below(4));
    }
}
