//! The calling thread's stack as a number.
//!
//! Walkers are large, and a thread that ends cannot give one back without a destructor. So there is a fixed set of them;
//! a thread takes the one it had last, or any that is free. A walker that another thread used is as good as a new one: it checks every
//! word that it remembers.

#![expect(
    unsafe_code,
    reason = "a walk starts in a function without a frame of its own, and fills mapped memory"
)]

use std::alloc::Layout;
use std::hint::black_box;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use whyslow_selfwalk::hosted::Hosted;
use whyslow_selfwalk::{Entry, Node, Numbered, Rules, Stacks, World};

use crate::arch::walk;
use crate::modules;
use crate::watch::Thread;

/// The number of a stack that is not known.
pub(crate) const NONE: u32 = whyslow_selfwalk::NO_STACK;
/// The address of the node at the root of a stack that had to end early.
pub(crate) const CUT: u64 = 1;

const SLOTS: usize = 64;
/// How often a thread looks for a free walker before it goes without.
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
/// Return addresses between a program's code and the walk, as far as they are used.
static INTERNAL: [AtomicU64; MOST_INTERNAL] = [const { AtomicU64::new(0) }; MOST_INTERNAL];

/// Makes room for stacks.
pub(crate) fn prepare() {
    TABLES.get_or_init(|| {
        let heads = Hosted.memory(HEADS * size_of::<AtomicU32>());
        let nodes = Hosted.memory(NODES * size_of::<Node>());
        if heads.is_null() || nodes.is_null() {
            return Tables { heads: &[], nodes: &[] };
        }
        // SAFETY: new zeroed mappings of these lengths, which are never given back; zero is a value of every atomic.
        unsafe {
            Tables {
                heads: std::slice::from_raw_parts(heads.cast(), HEADS),
                nodes: std::slice::from_raw_parts(nodes.cast(), NODES),
            }
        }
    });
}

/// The calling thread's stack, from the code that called the allocator on; [`NONE`] if it cannot be had.
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
            // No closure: it would be a frame more or less.
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

/// A slot that one thread has to itself, until this is dropped.
struct Taken(&'static Slot);

impl Taken {
    /// None if another thread has it.
    fn new(slot: &'static Slot) -> Option<Self> {
        (!slot.taken.swap(true, Ordering::Acquire)).then_some(Self(slot))
    }

    /// Its walker; none if there is no memory for it.
    fn walker(&mut self) -> Option<&mut Numbered> {
        let mut walker = self.0.walker.load(Ordering::Relaxed);
        if walker.is_null() {
            walker = Hosted.memory(size_of::<Numbered>()).cast();
            self.0.walker.store(walker, Ordering::Relaxed);
        }
        // SAFETY: null, or memory of this size that is never given back; all-zero bytes are a walker. There is one `Taken` of a slot, and
        // it is borrowed.
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
    // SAFETY: passed on.
    unsafe { walker.walk(&RULES, &stacks, &Hosted, generation, entry) }
}

/// Forgets how to walk: a module was unloaded.
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
    /// The time in the life of the list of modules.
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

/// The stack without the frames between the code that allocates and the walk.
fn without_internal(mut id: u32) -> u32 {
    while is_internal(id) {
        id = caller(id);
    }
    id
}

/// Learns which frames lie between the code that allocates and the walk: those of `stacks` inside `outer`. They are the same for
/// every allocation, except where the compiler has inlined some of them, which leaves fewer.
pub(crate) fn learn_internal(stacks: impl Iterator<Item = u32>, outer: u32) {
    let mut known: Vec<u64> = Vec::new();
    for stack in stacks {
        let ids: Vec<u32> = std::iter::successors(Some(stack), |id| Some(caller(*id)))
            .take_while(|id| *id != NONE && *id != outer)
            .collect();
        // The last of them is the frame of the function that allocated.
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

/// Allocates in each way there is; the stack of its caller.
#[inline(never)]
pub(crate) fn probe(thread: &Thread) -> u32 {
    let here = here(thread);
    allocate_and_free();
    // The two innermost are the frame of `here` and that of this function.
    caller(caller(here))
}

/// Makes a block in each way there is.
#[inline(always)]
pub(crate) fn allocate_and_free() {
    let layout = Layout::new::<u64>();
    // SAFETY: the layout is not empty, and each block is given back with the layout it has.
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
