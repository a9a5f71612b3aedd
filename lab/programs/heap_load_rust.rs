//! The load of `heap_load.c` in Rust, for allocators that are linked into a program: the system's, that of the dhat
//! crate, or `whyslow-alloc`. The heap benchmark builds it three times, each with one feature. The lab builds the first.
//!
//! Run: `heap_load_rust [deep|tree] [THREADS=1] [MALLOCS=1000000]`; MALLOCS is per thread.
//!
//! THE KNOWN ANSWER: `allocations`, the number of requested blocks, with a reallocation as one. `cpu_ns` is the CPU time of the process so far.

use std::hint::black_box;

#[cfg(feature = "dhat")]
#[global_allocator]
static ALLOC: dhat::Alloc = dhat::Alloc;

#[cfg(feature = "whyslow-alloc")]
#[global_allocator]
static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();

const WAYS: usize = 128;
const SHORTEST: usize = 20;
const LONGEST: usize = 27;
const PLACES: usize = 20_000;

struct Load {
    random: u64,
    allocations: u64,
    mallocs: u64,
    to_do: u64,
    ways: Vec<[u8; LONGEST + 1]>,
    lengths: Vec<usize>,
    way: usize,
    /// Empty ones have no block.
    places: Vec<Vec<u8>>,
    tree: bool,
}

impl Load {
    fn new(thread: u64, tree: bool, to_do: u64) -> Self {
        let mut load = Load {
            random: 0x9e37_79b9_7f4a_7c15,
            allocations: 0,
            mallocs: 0,
            to_do,
            ways: Vec::new(),
            lengths: Vec::new(),
            way: 0,
            places: (0..PLACES).map(|_| Vec::new()).collect(),
            tree,
        };
        for _ in 0..WAYS {
            let length = SHORTEST + load.next() as usize % (LONGEST - SHORTEST + 1);
            load.lengths.push(length);
            let way = std::array::from_fn(|_| (load.next() >> 60) as u8);
            load.ways.push(way);
        }
        load.random += thread;
        load
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

/// Inlined into each of the 64 functions.
#[inline(always)]
fn operate(load: &mut Load) -> u64 {
    let random = load.next();
    let size = 16 + (random & 0xff) as usize + if random % 61 == 0 { 2000 } else { 0 };
    let mut block: Vec<u8> = Vec::with_capacity(size);
    load.allocations += 1;
    block.push(size as u8);
    black_box(&mut block);
    let place = (random >> 20) as usize % PLACES;
    if load.mallocs % 2 == 1 {
        drop(block);
    } else {
        let old = std::mem::replace(&mut load.places[place], block);
        if (random >> 40) % 50 == 0 {
            std::mem::forget(old);
        }
    }
    load.mallocs += 1;
    if load.mallocs % 8 == 0 {
        let block = &mut load.places[(random >> 30) as usize % PLACES];
        let (old, size) = (block.capacity(), block.capacity() / 2 + 64);
        load.allocations += u64::from(old != size);
        if size < old {
            block.shrink_to(size);
        } else {
            block.reserve_exact(size - block.len());
        }
        black_box(block);
    }
    size as u64
}

macro_rules! leaves {
    ($($name:ident)*) => {
        $(#[inline(never)]
        fn $name(load: &mut Load) -> u64 {
            black_box(operate(load))
        })*
        static LEAVES: [fn(&mut Load) -> u64; 64] = [$($name),*];
    };
}
leaves! {
    l00 l01 l02 l03 l04 l05 l06 l07 l08 l09 l10 l11 l12 l13 l14 l15 l16 l17 l18 l19 l20 l21 l22 l23 l24 l25 l26 l27 l28 l29 l30 l31
    l32 l33 l34 l35 l36 l37 l38 l39 l40 l41 l42 l43 l44 l45 l46 l47 l48 l49 l50 l51 l52 l53 l54 l55 l56 l57 l58 l59 l60 l61 l62 l63
}

#[inline(always)]
fn at_leaf(load: &mut Load) -> u64 {
    let leaf = (load.next() >> 58) as usize;
    LEAVES[leaf](load)
}

/// One call deeper. In a tree, a node below the shortest path has two children, and allocates itself.
#[inline(always)]
fn go_on(load: &mut Load, left: usize) -> u64 {
    let step = load.ways[load.way][left] as usize;
    if !load.tree {
        return if left > 0 { STEPS[step](load, left - 1) } else { at_leaf(load) };
    }
    let mut sum = 0;
    if left <= LONGEST - SHORTEST {
        sum = at_leaf(load);
    }
    if left == 0 || load.mallocs >= load.to_do {
        return sum;
    }
    sum += STEPS[step](load, left - 1);
    if left <= LONGEST - SHORTEST {
        sum += STEPS[(step + 1) % 16](load, left - 1);
    }
    sum
}

macro_rules! steps {
    ($($name:ident $size:literal)*) => {
        $(#[inline(never)]
        fn $name(load: &mut Load, left: usize) -> u64 {
            let mut frame = [0u8; $size];
            black_box(&mut frame);
            go_on(load, left) ^ u64::from(frame[0]) ^ left as u64
        })*
        static STEPS: [fn(&mut Load, usize) -> u64; 16] = [$($name),*];
    };
}
steps! {
    s0 8 s1 16 s2 24 s3 40 s4 8 s5 56 s6 72 s7 16 s8 104 s9 8 s10 120 s11 24 s12 152 s13 40 s14 8 s15 200
}

#[inline(never)]
fn rounds(load: &mut Load) -> u64 {
    let mut sum = 0;
    while load.mallocs < load.to_do {
        load.way = load.next() as usize % if load.tree { 1 } else { WAYS };
        let length = if load.tree { LONGEST } else { load.lengths[load.way] };
        sum += STEPS[load.ways[load.way][length] as usize](load, length - 1);
    }
    black_box(sum)
}

fn cpu_ns() -> i64 {
    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut [i64; 2]) -> i32;
    }
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    let mut time = [0; 2];
    // SAFETY: a `timespec` is two words on 64-bit Linux.
    unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut time) };
    time[0] * 1_000_000_000 + time[1]
}

fn main() {
    #[cfg(feature = "dhat")]
    let _profiler = dhat::Profiler::new_heap();
    #[cfg(feature = "whyslow-alloc")]
    let _profiler = whyslow_alloc::Profiler::builder().file_name("heap.whyslow").build();

    let mut arguments = std::env::args().skip(1);
    let tree = arguments.next().is_some_and(|kind| kind == "tree");
    let mut number = |usual: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (threads, mallocs) = (number(1), number(1_000_000));
    let others: Vec<_> = (1..threads)
        .map(|thread| {
            std::thread::spawn(move || {
                let mut load = Load::new(thread, tree, mallocs);
                rounds(&mut load);
                load.allocations
            })
        })
        .collect();
    let mut load = Load::new(0, tree, mallocs);
    rounds(&mut load);
    let others = others.into_iter().map(|thread| thread.join().unwrap_or(0));
    let allocations = load.allocations + others.sum::<u64>();
    println!("heap allocations={allocations}\nallocations {allocations}\ncpu_ns {}", cpu_ns());
}
