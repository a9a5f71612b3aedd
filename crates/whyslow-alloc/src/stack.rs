//! The calling thread's stack as a number.
//!
//! Walkers are large, and a thread that exits cannot release one without a destructor. So there is a fixed
//! set of them. A thread takes the one it used last, or any free one. A walker that another thread used is as
//! good as a new one, because it checks every word that it remembers.

#![expect(unsafe_code, reason = "a walk starts in a function without its own frame, and fills mapped memory")]

use std::alloc::Layout;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use whyslow_selfwalk::hosted::Hosted;
use whyslow_selfwalk::{Entry, Node, Numbered, Rules, Stacks, World};

use crate::arch::walk;
use crate::modules;
use crate::watch::Thread;

/// The number of an unknown stack.
pub(crate) const NONE: u32 = whyslow_selfwalk::NO_STACK;
/// The address of the root node of a truncated stack.
pub(crate) const CUT: u64 = 1;

const SLOTS: usize = 64;
/// How many times a thread looks for a free walker before it goes without.
const TURNS: usize = 10_000;
const HEADS: usize = 1 << 16;
const NODES: usize = 1 << 23;
const MOST_INTERNAL: usize = 48;

struct Slot {
    taken: AtomicBool,
    walker: AtomicPtr<Numbered>,
}

struct Tables {
    heads: &'static [AtomicU32],
    nodes: &'static [Node],
}

static SLOT: [Slot; SLOTS] =
    [const { Slot { taken: AtomicBool::new(false), walker: AtomicPtr::new(std::ptr::null_mut()) } }; SLOTS];
static NEXT: AtomicUsize = AtomicUsize::new(0);
static TABLES: OnceLock<Tables> = OnceLock::new();
static USED: AtomicU32 = AtomicU32::new(1);
static RULES: Rules = Rules::new();
/// Return addresses between the program's code and the walk. Unused rows are 0.
static INTERNAL: [AtomicU64; MOST_INTERNAL] = [const { AtomicU64::new(0) }; MOST_INTERNAL];

/// Allocates room for stacks.
pub(crate) fn prepare() {
    TABLES.get_or_init(|| {
        let heads = Hosted.memory(HEADS * size_of::<AtomicU32>());
        let nodes = Hosted.memory(NODES * size_of::<Node>());
        if heads.is_null() || nodes.is_null() {
            return Tables { heads: &[], nodes: &[] };
        }
        // SAFETY: new zeroed mappings of these lengths, which are never unmapped. Zero is valid for every
        // atomic.
        unsafe {
            Tables {
                heads: std::slice::from_raw_parts(heads.cast(), HEADS),
                nodes: std::slice::from_raw_parts(nodes.cast(), NODES),
            }
        }
    });
}

/// The calling thread's stack, starting at the code that called the allocator. [`NONE`] if it is not
/// available.
#[inline(never)]
pub(crate) fn here(thread: &Thread) -> u32 {
    if thread.walker.get() == usize::MAX {
        thread.walker.set(NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS);
    }
    let first = thread.walker.get();
    for turn in 0..TURNS {
        let number = (first + turn) % SLOTS;
        if let Some(mut taken) = Taken::new(&SLOT[number]) {
            thread.walker.set(number);
            let generation = modules::generation();
            // Not a closure: that could add a frame.
            let id = match taken.walker() {
                Some(walker) => walk(walker, generation),
                None => NONE,
            };
            drop(taken);
            return without_internal(id);
        }
        if turn % SLOTS == SLOTS - 1 {
            std::thread::yield_now();
        }
    }
    NONE
}

/// A slot that belongs to one thread until this is dropped.
struct Taken(&'static Slot);

impl Taken {
    /// `None` if another thread has it.
    fn new(slot: &'static Slot) -> Option<Self> {
        (!slot.taken.swap(true, Ordering::Acquire)).then_some(Self(slot))
    }

    /// Its walker. `None` if there is no memory for it.
    fn walker(&mut self) -> Option<&mut Numbered> {
        let mut walker = self.0.walker.load(Ordering::Relaxed);
        if walker.is_null() {
            walker = Hosted.memory(size_of::<Numbered>()).cast();
            self.0.walker.store(walker, Ordering::Relaxed);
        }
        // SAFETY: null, or memory of this size that is never unmapped, and all-zero bytes are a valid walker.
        // A slot has one `Taken`, and it is borrowed.
        unsafe { walker.as_mut() }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.taken.store(false, Ordering::Release);
    }
}

/// # Safety
/// The entry is on this thread's stack, directly below the frame of the shim's caller.
pub(crate) unsafe extern "C" fn walk_from(
    walker: &mut Numbered,
    generation: u16,
    entry: *const Entry,
) -> u32 {
    let Some(tables) = TABLES.get().filter(|tables| !tables.nodes.is_empty()) else { return NONE };
    let stacks = Stacks { heads: tables.heads, nodes: tables.nodes, used: &USED };
    // SAFETY: the caller upholds the same contract.
    unsafe { walker.walk(&RULES, &stacks, &Hosted, generation, entry) }
}

/// Drops all unwind rules, because a module was unloaded.
pub(crate) fn forget_rules() {
    RULES.forget();
}

fn node(id: u32) -> Option<&'static Node> {
    TABLES.get()?.nodes.get(id as usize).filter(|_| id != NONE)
}

/// The stack without its innermost frame.
pub(crate) fn caller(id: u32) -> u32 {
    node(id).map_or(NONE, |node| node.caller.load(Ordering::Relaxed))
}

/// A place on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// Where the call returns to.
    pub(crate) return_address: u64,
    /// The module generation in which the call was recorded.
    pub(crate) generation: u16,
}

/// The innermost frame of a stack.
pub(crate) fn place(id: u32) -> Option<Place> {
    let node = node(id)?;
    Some(Place { return_address: node.return_address(), generation: node.generation() })
}

/// The frames of a stack, innermost first.
pub(crate) fn places(id: u32) -> impl Iterator<Item = Place> {
    std::iter::successors(Some(id), |id| Some(caller(*id))).map_while(place)
}

fn is_internal(id: u32) -> bool {
    let Some(place) = place(id) else { return false };
    INTERNAL
        .iter()
        .map(|address| address.load(Ordering::Relaxed))
        .take_while(|address| *address != 0)
        .any(|address| address == place.return_address)
}

/// The stack without the frames between the allocating code and the walk.
fn without_internal(mut id: u32) -> u32 {
    while is_internal(id) {
        id = caller(id);
    }
    id
}

/// Learns which frames lie between the allocating code and the walk: those of `stacks` inside `outer`. They
/// are the same for every allocation, except that inlining can leave fewer.
pub(crate) fn learn_internal(stacks: impl Iterator<Item = u32>, outer: u32) {
    let mut known: Vec<u64> = Vec::new();
    for stack in stacks {
        let ids: Vec<u32> = std::iter::successors(Some(stack), |id| Some(caller(*id)))
            .take_while(|id| *id != NONE && *id != outer)
            .collect();
        // The last one is the frame of the function that allocated.
        let Some((_, inside)) = ids.split_last() else { continue };
        for place in inside.iter().filter_map(|id| place(*id)) {
            if !known.contains(&place.return_address) && known.len() < MOST_INTERNAL {
                known.push(place.return_address);
            }
        }
    }
    for (slot, address) in INTERNAL.iter().zip(known) {
        slot.store(address, Ordering::Relaxed);
    }
}

/// Allocates with each allocator function, and returns the stack of its caller.
#[inline(never)]
pub(crate) fn probe(thread: &Thread) -> u32 {
    let here = here(thread);
    allocate_and_free();
    // The two innermost are the frame of `here` and that of this function.
    caller(caller(here))
}

/// Allocates and frees a block with each allocator function.
#[inline(always)]
pub(crate) fn allocate_and_free() {
    let layout = Layout::new::<u64>();
    // SAFETY: the layout is not empty, and each block is freed with its own layout.
    unsafe {
        for block in [std::alloc::alloc(layout), std::alloc::alloc_zeroed(layout)] {
            if block.is_null() {
                continue;
            }
            let larger = std::alloc::realloc(black_box(block), layout, 2 * layout.size());
            if larger.is_null() {
                std::alloc::dealloc(block, layout);
            } else {
                std::alloc::dealloc(black_box(larger), Layout::new::<[u64; 2]>());
            }
        }
    }
    black_box(());
}
