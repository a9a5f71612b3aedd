//! One thread's walk: from the leaf to a frame that it remembers, then a check of the remembered words.

#![expect(unsafe_code, reason = "a walk reads the thread's own stack")]

use core::mem::MaybeUninit;

use whyslow_heap_wire::record::NO_STACK;

use crate::cfi::{self, Context};
use crate::rules::{self, Base, EXACT, Rule, SIGNAL_RBP, SIGNAL_RIP, SIGNAL_RSP, SavedBp};
use crate::stacks::{Hash, Leaf};
use crate::{Entry, Rules, Stacks, World};

/// Frames that are remembered; deeper stacks are walked afresh each time.
const FRAMES: usize = 1 << 14;
/// Entries of the map from a stack pointer to its frame.
const PLACES: usize = 1 << 11;
/// Frames after which a walk is given up: its tables must be wrong.
const MOST_FRAMES: usize = 1 << 22;
/// The largest frame that is believed when only rbp says so.
const MOST_FRAME_BYTES: u64 = 1 << 30;

/// The address of the node at the root of a stack that had to end early. One less is 0, which no code has.
const CUT: u64 = 1;

/// Where a walk is: what happens next is decided by this and by the words that are read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct State {
    /// A return address, or a program counter marked [`EXACT`].
    pc: u64,
    /// The stack pointer once the callee has returned.
    sp: u64,
    /// Where the frame's rbp is.
    bp_slot: u64,
}

/// A frame on the way, before it is known where it belongs.
#[derive(Debug, Clone, Copy)]
struct Step {
    state: State,
    rule: Rule,
}

/// The frames of a walk from the leaf on. One array per field: they are written and read again within nanoseconds, and a load that
/// covers several stores would have to wait until these have reached the cache.
#[repr(C)]
#[derive(Debug)]
struct Steps {
    pc: [u64; FRAMES],
    _apart: [u64; APART],
    sp: [u64; FRAMES],
    _more: [u64; APART],
    bp_slot: [u64; FRAMES],
    _again: [u64; APART],
    rule: [u64; FRAMES],
}

/// Keeps the arrays off each other's places in a page: a store and a load that differ only in the page look the same to a processor at first.
const APART: usize = 136;

impl Steps {
    /// # Safety
    /// `at` is below `FRAMES`.
    #[inline(always)]
    unsafe fn set(&mut self, at: usize, state: State, rule: Rule) {
        // SAFETY: the caller vouches for the row.
        unsafe {
            *self.pc.get_unchecked_mut(at) = state.pc;
            *self.sp.get_unchecked_mut(at) = state.sp;
            *self.bp_slot.get_unchecked_mut(at) = state.bp_slot;
            *self.rule.get_unchecked_mut(at) = rule.0;
        }
    }

    /// # Safety
    /// `at` is below `FRAMES`.
    #[inline(always)]
    unsafe fn get(&self, at: usize) -> Step {
        // SAFETY: the caller vouches for the row.
        unsafe {
            let (pc, sp) = (*self.pc.get_unchecked(at), *self.sp.get_unchecked(at));
            let state = State { pc, sp, bp_slot: *self.bp_slot.get_unchecked(at) };
            Step { state, rule: Rule(*self.rule.get_unchecked(at)) }
        }
    }
}

/// A remembered frame; the row is its distance from the root. The words that a walk reads on its way out are not kept apart: a frame's
/// return address and stack pointer are the next row's.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Level {
    pc: u64,
    sp: u64,
    /// The lowest bit says whether the walk from here to the root needs the value of rbp.
    bp_slot: u64,
    rule: Rule,
    /// Of the frames from the root to this one.
    hash: Hash,
}

const NEEDS_BP: u64 = 1;

impl Level {
    fn state(&self) -> State {
        State { pc: self.pc, sp: self.sp, bp_slot: self.bp_slot & !NEEDS_BP }
    }
}

/// Why a walk found no further frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// There is none.
    Root,
    /// Nothing is known of the code.
    Cut,
}

/// A walk that is done, but for its number.
#[must_use = "a walk that is not finished has no number"]
#[derive(Debug, Clone, Copy)]
pub struct Walked {
    /// The number if it is known already.
    known: Option<u32>,
    hash: Hash,
    /// What was remembered before it.
    remembered: usize,
    fresh: usize,
    joined: Option<usize>,
    cut: bool,
}

impl Walked {
    fn known(id: u32) -> Self {
        Self { known: Some(id), hash: Hash(0, 0), remembered: 0, fresh: 0, joined: None, cut: false }
    }
}

/// What one thread remembers of its last walk. All-zero bytes are a new one; it is large, and only what is used is touched.
#[repr(C)]
#[derive(Debug)]
pub struct Walker {
    generation: u16,
    has_context: bool,
    /// Whether the last walk has no number yet.
    unfinished: bool,
    /// Remembered frames.
    levels: usize,
    /// The number of the remembered walk.
    id: u32,
    context: MaybeUninit<Context>,
    /// Rows of levels by their stack pointer: a tag of the program counter in the upper bits, the row in the lower. Any entry may be out of date.
    places: [u32; PLACES],
    fresh: Steps,
    level: [MaybeUninit<Level>; FRAMES],
}

impl Default for Walker {
    fn default() -> Self {
        Self::new()
    }
}

#[inline(always)]
unsafe fn read(address: u64) -> u64 {
    // SAFETY: the caller follows the rules of the frames that are on the stack at this moment.
    unsafe { (address as *const u64).read() }
}

#[inline(always)]
fn place(sp: u64) -> usize {
    (sp >> 4) as usize & (PLACES - 1)
}

/// The tag of a program counter in [`Walker::places`]: as much of it as there is room for.
#[inline(always)]
fn tag(pc: u64) -> u32 {
    (pc as u32) << FRAMES.trailing_zeros()
}

/// The address that stands for a frame: one less is inside its call, or is the interrupted instruction.
#[inline(always)]
fn node_address(pc: u64) -> u64 {
    (pc & !EXACT) + (pc >> 63)
}

impl Walker {
    /// Remembers nothing.
    pub const fn new() -> Self {
        Self {
            generation: 0,
            has_context: false,
            unfinished: false,
            levels: 0,
            id: NO_STACK,
            context: MaybeUninit::uninit(),
            places: [0; PLACES],
            fresh: Steps {
                pc: [0; FRAMES],
                _apart: [0; APART],
                sp: [0; FRAMES],
                _more: [0; APART],
                bp_slot: [0; FRAMES],
                _again: [0; APART],
                rule: [0; FRAMES],
            },
            level: [const { MaybeUninit::uninit() }; FRAMES],
        }
    }

    /// Forgets the last walk.
    pub fn forget(&mut self) {
        self.levels = 0;
    }

    /// The number of the calling thread's stack; `NO_STACK` when there is no room for it. See [`Self::begin`].
    ///
    /// # Safety
    /// As for [`Self::begin`].
    #[inline]
    pub unsafe fn walk<W: World>(
        &mut self,
        rules: &Rules,
        stacks: &Stacks<'_>,
        world: &W,
        generation: u16,
        entry: *const Entry,
    ) -> u32 {
        // SAFETY: passed on.
        let walked = unsafe { self.begin(rules, stacks, world, generation, entry) };
        self.finish(stacks, walked)
    }

    /// Walks the calling thread's stack, and begins to look its number up. That is likely to wait for memory, so something
    /// else should be done before [`Self::finish`], which must follow before the next walk.
    ///
    /// `generation` must change whenever a module is unloaded, and the rules must have been forgotten by then.
    ///
    /// # Safety
    /// `entry` lies on the stack of the calling thread, directly below its caller's frame.
    #[inline]
    pub unsafe fn begin<W: World>(
        &mut self,
        rules: &Rules,
        stacks: &Stacks<'_>,
        world: &W,
        generation: u16,
        entry: *const Entry,
    ) -> Walked {
        // A walk without a number is none: whoever began it did not come back.
        if self.generation != generation || self.unfinished {
            self.generation = generation;
            self.unfinished = false;
            self.levels = 0;
        }
        let remembered = self.levels;
        let start = entry as u64;
        // Plain numbers, not a `State`: they must stay in registers.
        // SAFETY: the caller vouches for the entry.
        let mut pc = unsafe { (*entry).return_address };
        let mut sp = start + size_of::<Entry>() as u64;
        let mut bp_slot = start;
        let mut fresh = 0;
        let mut leaf = Leaf::NOTHING;
        let mut cut = false;
        let joined = loop {
            let at = self.places[place(sp)] ^ tag(pc);
            if (at as usize) < self.levels {
                let at = at as usize;
                // SAFETY: rows below `levels` were written.
                let level = unsafe { self.level.get_unchecked(at).assume_init_ref() };
                let same_bp = level.bp_slot & NEEDS_BP == 0 || level.bp_slot == bp_slot | NEEDS_BP;
                if level.sp == sp && level.pc == pc && same_bp {
                    // Most likely the rest is as it was, so this will be the hash.
                    stacks.memo.expect(leaf.on(level.hash));
                    // SAFETY: the state is the one from which these words were read, in this order.
                    if unsafe { self.unchanged(at) } {
                        break Some(at);
                    }
                    self.levels = 0;
                }
            }
            let rule = match rules.find(pc) {
                Some(rule) => rule,
                None => self.learn(rules, world, pc),
            };
            // SAFETY: `fresh` is below `FRAMES`: see the check at the end of the loop.
            unsafe { self.fresh.set(fresh, State { pc, sp, bp_slot }, rule) };
            leaf.then(pc);
            fresh += 1;
            if rule.kind() <= rules::BP {
                // Read in any case, so that there is no branch on which register it is: the slot is always on the stack.
                // SAFETY: see above.
                let bp = unsafe { read(bp_slot) };
                let base = if rule.kind() == rules::BP { bp } else { sp };
                let cfa = base.wrapping_add_signed(rule.offset());
                if !is_caller_of(cfa, sp) {
                    cut = true;
                    break None;
                }
                sp = cfa;
                bp_slot = rule.bp_slot(cfa, bp_slot);
                // SAFETY: the return address is where the frame's rule says.
                pc = unsafe { read(cfa - 8) };
                if pc == 0 {
                    break None;
                }
            } else if rule.kind() == rules::END {
                break None;
            } else {
                // SAFETY: the frame's rule is followed.
                match unsafe { self.unusual_step(start, fresh - 1) } {
                    Ok(next) => (pc, sp, bp_slot) = (next.pc, next.sp, next.bp_slot),
                    Err(end) => {
                        cut = end == End::Cut;
                        break None;
                    }
                }
            }
            if fresh == FRAMES {
                // SAFETY: the same walk goes on.
                let id = unsafe { self.walk_deep(rules, stacks, world, start, State { pc, sp, bp_slot }) };
                return Walked::known(id);
            }
        };

        if let (Some(at), 0) = (joined, fresh)
            && at + 1 == remembered
        {
            return Walked::known(self.id);
        }
        if cut {
            world.cut();
        }
        let root = match joined {
            // SAFETY: a remembered row.
            Some(at) => unsafe { self.level.get_unchecked(at).assume_init_ref() }.hash,
            None => Hash::new(self.generation, cut),
        };
        let hash = leaf.on(root);
        if joined.is_none() {
            stacks.memo.expect(hash);
        }
        // SAFETY: `fresh` frames were written above, and `joined` is a remembered row.
        unsafe { self.remember(fresh, joined, root) };
        self.unfinished = true;
        Walked { known: None, hash, remembered, fresh, joined, cut }
    }

    /// The number of a walk.
    #[inline]
    pub fn finish(&mut self, stacks: &Stacks<'_>, walked: Walked) -> u32 {
        if let Some(id) = walked.known {
            return id;
        }
        let id = match stacks.memo.find(walked.hash) {
            Some(id) => id,
            None => self.number(stacks, &walked),
        };
        self.id = id;
        self.unfinished = false;
        if id == NO_STACK {
            self.levels = 0;
        }
        id
    }

    /// Whether the words that the walk read from this row to the root are what they were.
    ///
    /// # Safety
    /// The walk must be in this row's state. Then each word's address is known to be good once the words before it are unchanged,
    /// exactly as in a walk.
    #[inline(always)]
    unsafe fn unchanged(&self, row: usize) -> bool {
        let levels = self.level.as_ptr().cast::<Level>();
        // SAFETY: rows up to this one were written; for the reads see above.
        unsafe {
            let mut level = levels.add(row);
            while level > levels {
                let next = level.sub(1);
                let rule = (*level).rule;
                let same = match rule.kind() {
                    rules::SP => read((*next).sp - 8) == (*next).pc,
                    rules::BP => {
                        let bp = read((*level).bp_slot & !NEEDS_BP);
                        bp.wrapping_add_signed(rule.offset()) == (*next).sp
                            && read((*next).sp - 8) == (*next).pc
                    }
                    _ => leads_to(&*level, &*next),
                };
                if !same {
                    return false;
                }
                level = next;
            }
            (*level).rule.kind() >= rules::END || ends(&*level)
        }
    }

    /// Puts the fresh frames on top of the remembered ones, whose hash is `hash`.
    ///
    /// # Safety
    /// `fresh` frames are written, and `joined` is a remembered row.
    #[inline(always)]
    unsafe fn remember(&mut self, fresh: usize, joined: Option<usize>, mut hash: Hash) {
        let (mut row, mut needs_bp) = (0, 0);
        if let Some(at) = joined {
            // SAFETY: a remembered row.
            let level = unsafe { self.level.get_unchecked(at).assume_init_ref() };
            (row, needs_bp) = (at + 1, level.bp_slot & NEEDS_BP);
        }
        if row + fresh > FRAMES {
            self.levels = 0;
            return;
        }
        let mut repeatable = true;
        let mut at = fresh;
        while at > 0 {
            at -= 1;
            // SAFETY: written by the walk.
            let Step { state, rule } = unsafe { self.fresh.get(at) };
            if rule.kind() <= rules::BP {
                let by_bp = u64::from(rule.kind() == rules::BP);
                needs_bp = by_bp | (needs_bp & u64::from(!rule.saves_bp()));
            } else if rule.kind() < rules::END {
                let uses = rule.uses();
                needs_bp = u64::from(uses.bp || (needs_bp != 0 && uses.keeps_bp));
                repeatable &= !uses.bx;
            }
            hash = hash.with(state.pc);
            let level = Level { pc: state.pc, sp: state.sp, bp_slot: state.bp_slot | needs_bp, rule, hash };
            // SAFETY: `row` is below `FRAMES`.
            unsafe { self.level.get_unchecked_mut(row).write(level) };
            self.places[place(state.sp)] = tag(state.pc) | row as u32;
            row += 1;
        }
        self.levels = if repeatable { row } else { 0 };
    }

    /// The rule for a program counter that was not met before.
    #[cold]
    #[inline(never)]
    fn learn<W: World>(&mut self, rules: &Rules, world: &W, pc: u64) -> Rule {
        let exact = pc & EXACT != 0;
        let address = if exact { pc & !EXACT } else { pc.wrapping_sub(1) };
        if !self.has_context {
            self.context.write(Context::new_in());
            self.has_context = true;
        }
        let Some(module) = world.module_of(address) else { return Rule::UNKNOWN };
        // SAFETY: the context was written above; the world vouches for its modules.
        let rule = unsafe { cfi::rule_at(&module, address, self.context.assume_init_mut()) };
        rules.insert(pc, rule);
        rule
    }

    /// Where rbx is at a frame of this walk.
    #[cold]
    unsafe fn bx_slot(&self, start: u64, frame: usize) -> u64 {
        let mut slot = start + 8;
        for at in 0..frame {
            // SAFETY: frames up to `frame` were written.
            let (step, next) = unsafe { (self.fresh.get(at), self.fresh.get(at + 1).state) };
            slot = step.rule.bx_slot(step.state.sp, next.sp, slot);
        }
        slot
    }

    /// A step by a rule that is not simple.
    #[cold]
    #[inline(never)]
    unsafe fn unusual_step(&self, start: u64, frame: usize) -> Result<State, End> {
        // SAFETY: the walk has written this frame.
        let Step { state, rule } = unsafe { self.fresh.get(frame) };
        // SAFETY: the frame's rule is followed.
        unsafe { follow(state, rule, || self.bx_slot(start, frame)) }
    }

    /// The number of a walk whose hash is not known.
    #[cold]
    #[inline(never)]
    fn number(&self, stacks: &Stacks<'_>, walked: &Walked) -> u32 {
        let Walked { hash, remembered, fresh, joined, cut, .. } = *walked;
        let generation = u64::from(self.generation) << 48;
        let mut id = match joined {
            Some(at) => {
                let mut id = self.id;
                for _ in at + 1..remembered {
                    id = stacks.caller(id);
                }
                id
            }
            None if cut => stacks.intern(0, CUT),
            None => 0,
        };
        for at in (0..fresh).rev() {
            // SAFETY: the walk has written these frames.
            let state = unsafe { self.fresh.get(at) }.state;
            id = stacks.intern(id, node_address(state.pc) | generation);
            if id == 0 {
                return NO_STACK;
            }
        }
        stacks.memo.insert(hash, id);
        id
    }

    /// Goes on where the memory for fresh frames ends: collects the rest, and remembers nothing.
    #[cold]
    #[inline(never)]
    unsafe fn walk_deep<W: World>(
        &mut self,
        rules: &Rules,
        stacks: &Stacks<'_>,
        world: &W,
        start: u64,
        mut state: State,
    ) -> u32 {
        self.levels = 0;
        let generation = u64::from(self.generation) << 48;
        let mut room = 4 * FRAMES;
        let mut memory = world.memory(room * 8).cast::<u64>();
        let mut frames = 0;
        let end = loop {
            if memory.is_null() || frames == MOST_FRAMES {
                break End::Cut;
            }
            if frames == room {
                let larger = world.memory(room * 2 * 8).cast::<u64>();
                if larger.is_null() {
                    break End::Cut;
                }
                // SAFETY: both have room for so many frames, and are different.
                unsafe { core::ptr::copy_nonoverlapping(memory, larger, frames) };
                world.release(memory.cast(), room * 8);
                (memory, room) = (larger, room * 2);
            }
            let rule = match rules.find(state.pc) {
                Some(rule) => rule,
                None => self.learn(rules, world, state.pc),
            };
            // SAFETY: there is room for one more.
            unsafe { memory.add(frames).write(node_address(state.pc)) };
            frames += 1;
            // SAFETY: the frame's rule is followed. rbx is only known to the frames before; none that is this far out needs it.
            match unsafe { follow(state, rule, || start + 8) } {
                Ok(next) => state = next,
                Err(end) => break end,
            }
        };
        if end == End::Cut {
            world.cut();
        }
        let mut id = if end == End::Cut { stacks.intern(0, CUT) } else { 0 };
        for at in (0..frames).rev() {
            // SAFETY: written above.
            id = stacks.intern(id, unsafe { memory.add(at).read() } | generation);
        }
        if !memory.is_null() {
            world.release(memory.cast(), room * 8);
        }
        for at in (0..FRAMES).rev() {
            // SAFETY: the walk filled all of them before it came here.
            let state = unsafe { self.fresh.get(at) }.state;
            id = stacks.intern(id, node_address(state.pc) | generation);
        }
        id
    }
}

/// Whether a cfa can be that of a frame with this stack pointer: a caller's frame is at a higher address. This also catches a rbp that
/// is used for something else.
#[inline(always)]
fn is_caller_of(cfa: u64, sp: u64) -> bool {
    // One comparison: a stack pointer is a multiple of 8, so bits that are over come out on top.
    cfa.wrapping_sub(sp).wrapping_sub(8).rotate_right(3) < MOST_FRAME_BYTES / 8
}

/// Whether a step that is not simple leads from one remembered frame to the next.
///
/// # Safety
/// The walk is at the first of them.
#[inline(never)]
unsafe fn leads_to(level: &Level, next: &Level) -> bool {
    // A frame that needs rbx is never remembered.
    // SAFETY: the frame's rule is followed.
    let after = unsafe { follow(level.state(), level.rule, || 0) };
    matches!(after, Ok(after) if after.pc == next.pc && after.sp == next.sp)
}

/// Whether the walk still ends at the outermost frame, whose rule promises a caller.
///
/// # Safety
/// The walk is there.
#[inline(never)]
unsafe fn ends(level: &Level) -> bool {
    // SAFETY: as above.
    unsafe { follow(level.state(), level.rule, || 0) }.is_err()
}

/// A step by any rule.
#[cold]
unsafe fn follow(state: State, rule: Rule, bx_slot: impl Fn() -> u64) -> Result<State, End> {
    let next = match rule.kind() {
        rules::END => return Err(End::Root),
        rules::SP | rules::BP => {
            // SAFETY: the frame's rule is followed.
            let base = if rule.kind() == rules::BP { unsafe { read(state.bp_slot) } } else { state.sp };
            let cfa = base.wrapping_add_signed(rule.offset());
            if !is_caller_of(cfa, state.sp) {
                return Err(End::Cut);
            }
            // SAFETY: likewise.
            State { pc: unsafe { read(cfa - 8) }, sp: cfa, bp_slot: rule.bp_slot(cfa, state.bp_slot) }
        }
        rules::SIGNAL => {
            // SAFETY: the kernel's frame lies at the stack pointer.
            let (pc, sp) = unsafe { (read(state.sp + SIGNAL_RIP), read(state.sp + SIGNAL_RSP)) };
            let pc = if pc == 0 { 0 } else { pc | EXACT };
            State { pc, sp, bp_slot: state.sp + SIGNAL_RBP }
        }
        rules::GENERAL => {
            let general = rule.unpacked();
            // SAFETY: rbp lies on the stack.
            let bp = unsafe { read(state.bp_slot) };
            let base = match general.base {
                Base::Sp => state.sp,
                Base::Bp => bp,
                // SAFETY: rbx lies on the stack.
                Base::Bx => unsafe { read(bx_slot()) },
            };
            let mut cfa = base.wrapping_add_signed(general.first);
            match general.second {
                // SAFETY: the frame's rule is followed.
                Some(second) => cfa = unsafe { read(cfa) }.wrapping_add_signed(second),
                None if !is_caller_of(cfa, state.sp) => return Err(End::Cut),
                None => {}
            }
            // SAFETY: likewise.
            let pc = unsafe { read(cfa.wrapping_add_signed(8 * general.return_words)) };
            let bp_slot = match general.bp {
                SavedBp::Kept => state.bp_slot,
                SavedBp::FromCfa(words) => cfa.wrapping_add_signed(8 * words),
                SavedBp::FromBp(words) => bp.wrapping_add_signed(8 * words),
            };
            State { pc, sp: cfa, bp_slot }
        }
        _ => return Err(End::Cut),
    };
    if next.pc == 0 { Err(End::Root) } else { Ok(next) }
}
