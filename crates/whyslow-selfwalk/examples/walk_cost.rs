//! Measures the cost of a walk: `cargo run --release -p whyslow-selfwalk --example walk_cost`.
//!
//! `same`: the same stack again. `tree`: a recursive descent in which neighbours share most of the stack.
//! `deep`: a new random descent of 20 to 27 frames before each walk. A second run leaves out the walk, and
//! the difference is its cost.

#![expect(unsafe_code, reason = "walks start in a function without its own frame")]

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use whyslow_selfwalk::hosted::Hosted;
use whyslow_selfwalk::{Entry, Rules, Walker};

static RULES: Rules = Rules::new();
static ON: AtomicBool = AtomicBool::new(false);
static WALKS: AtomicU64 = AtomicU64::new(0);
static FORGET: AtomicBool = AtomicBool::new(false);
struct OneThread(UnsafeCell<Option<Box<Walker>>>);
// SAFETY: the example has one thread.
unsafe impl Sync for OneThread {}
static WALKER: OneThread = OneThread(UnsafeCell::new(None));

#[unsafe(naked)]
extern "C" fn walk() {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        "mov rdi, rsp",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call {walk}",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        walk = sym walk_from,
    )
}

extern "C" fn walk_from(entry: *const Entry) {
    WALKS.store(WALKS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: there is one thread, and the walk does not call this. The entry lies on its stack.
    unsafe {
        let walker = (*WALKER.0.get()).get_or_insert_with(|| {
            Box::from_raw(std::alloc::alloc_zeroed(std::alloc::Layout::new::<Walker>()).cast())
        });
        if FORGET.load(Ordering::Relaxed) {
            walker.forget();
        }
        black_box(walker.walk(&RULES, &Hosted, 0, entry));
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

macro_rules! functions {
    ($($name:ident $size:literal),+) => { $(
        #[inline(never)]
        fn $name(random: &mut Random, depth: u64, tree: bool) -> u64 {
            let mut room = [depth; $size];
            black_box(&mut room);
            step(random, depth, tree) + room[0]
        }
    )+ };
}
functions!(a 2, b 4, c 7, d 12);

#[inline(always)]
fn call(random: &mut Random, depth: u64, tree: bool) -> u64 {
    match random.below(4) {
        0 => a(random, depth, tree),
        1 => b(random, depth, tree),
        2 => c(random, depth, tree),
        _ => d(random, depth, tree),
    }
}

#[inline(never)]
fn step(random: &mut Random, depth: u64, tree: bool) -> u64 {
    if depth == 0 {
        for _ in 0..if tree { 4 } else { 1 } {
            leaf(random);
        }
        return 1;
    }
    let mut sum = call(random, depth - 1, tree);
    if tree && random.below(3) == 0 {
        sum += call(random, depth - 1, tree);
    }
    black_box(sum)
}

#[inline(never)]
fn leaf(random: &mut Random) {
    match random.below(3) {
        0 => one(),
        1 => two(),
        _ => walk(),
    }
}

#[inline(never)]
fn one() {
    walk();
    black_box(());
}

#[inline(never)]
fn two() {
    one();
    black_box(());
}

fn cpu_ns() -> u64 {
    // SAFETY: the structure is this function's own.
    unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time);
        (time.tv_sec * 1_000_000_000 + time.tv_nsec).cast_unsigned()
    }
}

fn run(mode: &str) -> (u64, u64) {
    let mut random = Random(1);
    let start = cpu_ns();
    let before = WALKS.load(Ordering::Relaxed);
    let walks = || WALKS.load(Ordering::Relaxed) - before;
    match mode {
        "same" => {
            for _ in 0..300_000 {
                walk();
            }
        }
        "tree" => {
            while walks() < 300_000 {
                let mut path = Random(random.below(8));
                black_box(step(&mut path, 12, true));
            }
        }
        _ => {
            for _ in 0..300_000 {
                // A few thousand different paths, as in real programs.
                let mut path = Random(random.below(2048));
                let depth = 8 + path.below(5);
                black_box(step(&mut path, depth, false));
            }
        }
    }
    (cpu_ns() - start, walks())
}

#[inline(never)]
fn nested(depth: u64, mode: &str) {
    if depth > 0 {
        nested(depth - 1, mode);
        return black_box(());
    }
    for (what, forget) in [("repeating", false), ("afresh", true)] {
        FORGET.store(forget, Ordering::Relaxed);
        let best = (0..7).map(|_| {
            ON.store(false, Ordering::Relaxed);
            let (plain, _) = run(mode);
            ON.store(true, Ordering::Relaxed);
            let (walking, walks) = run(mode);
            (walking.saturating_sub(plain)) as f64 / walks as f64
        });
        let mut all = best.collect::<Vec<_>>();
        all.sort_by(f64::total_cmp);
        println!("{mode:5} {what:10} {:6.1} ns per walk (min {:.1})", all[3], all[0]);
    }
}

fn main() {
    let chosen = std::env::args().nth(1);
    for mode in
        ["same", "tree", "deep"].into_iter().filter(|mode| chosen.as_deref().is_none_or(|one| one == *mode))
    {
        nested(5, mode);
    }
}
