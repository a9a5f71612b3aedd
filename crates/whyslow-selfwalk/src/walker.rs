//! One thread's walk: from the leaf to a frame that it remembers, then a check of the remembered words.

#![expect(unsafe_code, reason = "a walk reads the thread's own stack")]

use core::mem::MaybeUninit;

use whyslow_heap_wire::record::NO_STACK;

use crate::cfi::{self, Context};
use crate::rules::{self, Base, EXACT, Rule, SIGNAL_RBP, SIGNAL_RIP, SIGNAL_RSP, SavedBp};
use crate::stacks::Hash;
use crate::{Entry, Rules, Stacks, World};

/// Frames that are remembered; deeper stacks are walked afresh each time.
const FRAMES: usize = 1 << 14;
/// Words that are remembered: at most three per frame.
const WORDS: usize = 3 * FRAMES;
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

/// A frame on the way, before it is known whether the walk will be remembered.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Step {
    state: State,
    rule: Rule,
}

/// A remembered frame; the row is its distance from the root.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Level {
    state: State,
    /// Of the frames from the root to this one.
    hash: Hash,
    /// Words that the walk from here to the root read.
    words: u32,
    /// Whether that walk needs the value of rbp.
    needs_bp: u32,
}

/// A word that a walk has read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Word {
    address: u64,
    value: u64,
}

/// Why a walk found no further frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// There is none.
    Root,
    /// Nothing is known of the code.
    Cut,
}

/// What one thread remembers of its last walk. All-zero bytes are a new one; it is large, and only what is used is touched.
#[repr(C)]
#[derive(Debug)]
pub struct Walker {
    generation: u16,
    has_context: bool,
    /// Remembered frames.
    levels: usize,
    /// The number of the remembered walk.
    id: u32,
    context: MaybeUninit<Context>,
    /// Row of the level with a stack pointer, by a part of it. Any entry may be out of date.
    places: [u16; PLACES],
    fresh: [MaybeUninit<Step>; FRAMES],
    level: [MaybeUninit<Level>; FRAMES],
    words: [MaybeUninit<Word>; WORDS],
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
            levels: 0,
            id: NO_STACK,
            context: MaybeUninit::uninit(),
            places: [0; PLACES],
            fresh: [const { MaybeUninit::uninit() }; FRAMES],
            level: [const { MaybeUninit::uninit() }; FRAMES],
            words: [const { MaybeUninit::uninit() }; WORDS],
        }
    }

    /// Forgets the last walk.
    pub fn forget(&mut self) {
        self.levels = 0;
    }

    /// The number of the calling thread's stack; `NO_STACK` when there is no room for it.
    ///
    /// `generation` must change whenever a module is unloaded, and the rules must have been forgotten by then.
    ///
    /// # Safety
    /// `entry` lies on the stack of the calling thread, directly below its caller's frame.
    #[inline]
    pub unsafe fn walk<W: World>(
        &mut self,
        rules: &Rules,
        stacks: &Stacks<'_>,
        world: &W,
        generation: u16,
        entry: *const Entry,
    ) -> u32 {
        if self.generation != generation {
            self.generation = generation;
            self.levels = 0;
        }
        let remembered = self.levels;
        let start = entry as u64;
        // SAFETY: the caller vouches for the entry.
        let pc = unsafe { (*entry).return_address };
        let mut state = State { pc, sp: start + size_of::<Entry>() as u64, bp_slot: start };
        let mut fresh = 0;
        let mut end = None;
        let joined = loop {
            let at = usize::from(self.places[place(state.sp)]);
            if at < self.levels {
                // SAFETY: rows below `levels` were written.
                let level = unsafe { self.level.get_unchecked(at).assume_init_ref() };
                let same_bp = level.needs_bp == 0 || level.state.bp_slot == state.bp_slot;
                if level.state.sp == state.sp && level.state.pc == state.pc && same_bp {
                    // SAFETY: the state is the one from which these words were read, in this order.
                    if unsafe { self.unchanged(level.words as usize) } {
                        break Some(at);
                    }
                    self.levels = 0;
                }
            }
            let rule = match rules.find(state.pc) {
                Some(rule) => rule,
                None => self.learn(rules, world, state.pc),
            };
            // SAFETY: `fresh` is below `FRAMES`: see the check at the end of the loop.
            unsafe { self.fresh.get_unchecked_mut(fresh).write(Step { state, rule }) };
            fresh += 1;
            let next = if rule.kind() <= rules::BP {
                // SAFETY: the frame's rule is followed; its rbp lies on the stack.
                unsafe { simple_step(state, rule) }
            } else {
                // SAFETY: likewise.
                unsafe { self.unusual_step(start, fresh - 1) }
            };
            match next {
                Ok(next) => state = next,
                Err(why) => {
                    end = Some(why);
                    break None;
                }
            }
            if fresh == FRAMES {
                // SAFETY: the same walk goes on.
                return unsafe { self.walk_deep(rules, stacks, world, start, state) };
            }
        };

        if let (Some(at), 0) = (joined, fresh)
            && at + 1 == remembered
        {
            return self.id;
        }
        if end == Some(End::Cut) {
            world.cut();
        }
        // SAFETY: `fresh` frames were written above, and `joined` is a remembered row.
        let hash = unsafe { self.remember(start, fresh, joined, end == Some(End::Cut)) };
        let id = match stacks.memo.find(hash) {
            Some(id) => id,
            None => self.number(stacks, remembered, fresh, joined, end == Some(End::Cut), hash),
        };
        self.id = id;
        if id == NO_STACK {
            self.levels = 0;
        }
        id
    }

    /// Whether the first so many remembered words are what they were, looking at the last of them first.
    ///
    /// # Safety
    /// The walk must be in the state from which these words were read. Then each word's address is known to be good once the words
    /// before it are unchanged, exactly as in a walk.
    #[inline(always)]
    unsafe fn unchanged(&self, words: usize) -> bool {
        let first = self.words.as_ptr().cast::<Word>();
        // SAFETY: so many words were written; for the reads see above.
        unsafe {
            let mut at = first.add(words);
            while at > first {
                at = at.sub(1);
                if read((*at).address) != (*at).value {
                    return false;
                }
            }
        }
        true
    }

    /// Puts the fresh frames on top of the remembered ones; the hash of the whole.
    ///
    /// # Safety
    /// `fresh` frames are written, and `joined` is a remembered row.
    #[inline(always)]
    unsafe fn remember(&mut self, start: u64, fresh: usize, joined: Option<usize>, cut: bool) -> Hash {
        let mut hash = Hash::new(self.generation, cut);
        let (mut row, mut words, mut needs_bp) = (0, 0, false);
        let mut next: Option<State> = None;
        if let Some(at) = joined {
            // SAFETY: a remembered row.
            let level = unsafe { self.level.get_unchecked(at).assume_init_ref() };
            hash = level.hash;
            (row, words, needs_bp) = (at + 1, level.words as usize, level.needs_bp != 0);
            next = Some(level.state);
        }
        if row + fresh > FRAMES {
            // The hash is still that of the whole stack.
            self.levels = 0;
            for at in (0..fresh).rev() {
                // SAFETY: written by the walk.
                hash = hash.with(unsafe { self.fresh.get_unchecked(at).assume_init_ref() }.state.pc);
            }
            return hash;
        }
        let mut repeatable = true;
        let mut at = fresh;
        while at > 0 {
            at -= 1;
            // SAFETY: written by the walk.
            let Step { state, rule } = unsafe { *self.fresh.get_unchecked(at).assume_init_ref() };
            let word = self.words.as_mut_ptr().cast::<Word>();
            match (rule.kind(), next) {
                (rules::SP, Some(next)) => {
                    // SAFETY: there is room for three words per frame.
                    unsafe { word.add(words).write(Word { address: next.sp - 8, value: next.pc }) };
                    words += 1;
                    needs_bp &= !rule.saves_bp();
                }
                (rules::BP, Some(next)) => {
                    // SAFETY: room as above; rbp lies on the stack.
                    unsafe {
                        let value = read(state.bp_slot);
                        word.add(words).write(Word { address: next.sp - 8, value: next.pc });
                        word.add(words + 1).write(Word { address: state.bp_slot, value });
                    }
                    words += 2;
                    needs_bp = true;
                }
                _ => {
                    // SAFETY: room as above; the frame is the one that was walked.
                    let read = unsafe { self.unusual_words(start, at) };
                    for one in read.words.into_iter().flatten() {
                        // SAFETY: at most three.
                        unsafe { word.add(words).write(one) };
                        words += 1;
                    }
                    needs_bp = read.uses_bp || (needs_bp && read.keeps_bp);
                    repeatable &= !read.uses_bx;
                }
            }
            hash = hash.with(state.pc);
            let level = Level { state, hash, words: words as u32, needs_bp: u32::from(needs_bp) };
            // SAFETY: `row` is below `FRAMES`.
            unsafe { self.level.get_unchecked_mut(row).write(level) };
            self.places[place(state.sp)] = row as u16;
            row += 1;
            next = Some(state);
        }
        self.levels = if repeatable { row } else { 0 };
        hash
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
            let (step, next) = unsafe {
                (self.fresh[at].assume_init_ref(), self.fresh[at + 1].assume_init_ref().state)
            };
            slot = step.rule.bx_slot(step.state.sp, next.sp, slot);
        }
        slot
    }

    /// A step by a rule that is not simple.
    #[cold]
    #[inline(never)]
    unsafe fn unusual_step(&self, start: u64, frame: usize) -> Result<State, End> {
        // SAFETY: the walk has written this frame.
        let Step { state, rule } = unsafe { *self.fresh[frame].assume_init_ref() };
        // SAFETY: the frame's rule is followed.
        unsafe { follow(state, rule, || self.bx_slot(start, frame)) }.0
    }

    /// The words that such a step read, the first of them last.
    #[cold]
    #[inline(never)]
    unsafe fn unusual_words(&self, start: u64, frame: usize) -> WordsRead {
        // SAFETY: as for `unusual_step`.
        unsafe {
            let Step { state, rule } = *self.fresh[frame].assume_init_ref();
            follow(state, rule, || self.bx_slot(start, frame)).1
        }
    }

    /// The number of a walk whose hash is not known.
    #[cold]
    #[inline(never)]
    fn number(
        &self,
        stacks: &Stacks<'_>,
        remembered: usize,
        fresh: usize,
        joined: Option<usize>,
        cut: bool,
        hash: Hash,
    ) -> u32 {
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
            let state = unsafe { self.fresh[at].assume_init_ref() }.state;
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
            let next = unsafe {
                if rule.kind() <= rules::BP {
                    simple_step(state, rule)
                } else {
                    follow(state, rule, || start + 8).0
                }
            };
            match next {
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
            let state = unsafe { self.fresh[at].assume_init_ref() }.state;
            id = stacks.intern(id, node_address(state.pc) | generation);
        }
        id
    }
}

/// A step by a simple rule.
#[inline(always)]
unsafe fn simple_step(state: State, rule: Rule) -> Result<State, End> {
    // Read in any case, so that there is no branch on which register it is: the slot is always on the stack.
    // SAFETY: see above.
    let bp = unsafe { read(state.bp_slot) };
    let base = if rule.kind() == rules::BP { bp } else { state.sp };
    let cfa = base.wrapping_add_signed(rule.offset());
    // A caller's frame is at a higher address. This also catches a rbp that is used for something else.
    if cfa.wrapping_sub(state.sp).wrapping_sub(1) >= MOST_FRAME_BYTES || cfa & 7 != 0 {
        return Err(End::Cut);
    }
    // SAFETY: the return address is where the frame's rule says.
    let pc = unsafe { read(cfa - 8) };
    if pc == 0 {
        return Err(End::Root);
    }
    Ok(State { pc, sp: cfa, bp_slot: rule.bp_slot(cfa, state.bp_slot) })
}

/// What a step read, the word that was read first last, and which registers it needed.
#[derive(Debug, Default)]
struct WordsRead {
    words: [Option<Word>; 3],
    uses_bp: bool,
    keeps_bp: bool,
    uses_bx: bool,
}

/// A step by any rule, and the words it read.
#[cold]
unsafe fn follow(state: State, rule: Rule, bx_slot: impl Fn() -> u64) -> (Result<State, End>, WordsRead) {
    let word = |address: u64| {
        // SAFETY: the frame's rule is followed.
        Word { address, value: unsafe { read(address) } }
    };
    let mut read_words = WordsRead::default();
    match rule.kind() {
        rules::END => (Err(End::Root), read_words),
        rules::SIGNAL => {
            let (pc, sp) = (word(state.sp + SIGNAL_RIP), word(state.sp + SIGNAL_RSP));
            read_words.words = [Some(sp), Some(pc), None];
            let next = State { pc: pc.value | EXACT, sp: sp.value, bp_slot: state.sp + SIGNAL_RBP };
            (if pc.value == 0 { Err(End::Root) } else { Ok(next) }, read_words)
        }
        rules::SP | rules::BP | rules::GENERAL => {
            let general = if rule.kind() == rules::GENERAL {
                rule.unpacked()
            } else {
                let words = i64::from((rule.0 >> 16) as u16 as i16) / 8;
                rules::General {
                    base: if rule.kind() == rules::BP { Base::Bp } else { Base::Sp },
                    first: rule.offset(),
                    second: None,
                    return_words: -1,
                    bp: if rule.saves_bp() { SavedBp::FromCfa(words) } else { SavedBp::Kept },
                    bx_words: None,
                }
            };
            read_words.keeps_bp = general.bp == SavedBp::Kept;
            let base = match general.base {
                Base::Sp => state.sp,
                Base::Bp => {
                    let bp = word(state.bp_slot);
                    read_words.words[2] = Some(bp);
                    read_words.uses_bp = true;
                    bp.value
                }
                Base::Bx => {
                    let bx = word(bx_slot());
                    read_words.words[2] = Some(bx);
                    read_words.uses_bx = true;
                    bx.value
                }
            };
            let mut cfa = base.wrapping_add_signed(general.first);
            if general.second.is_none()
                && (cfa.wrapping_sub(state.sp).wrapping_sub(1) >= MOST_FRAME_BYTES || cfa & 7 != 0)
            {
                return (Err(End::Cut), read_words);
            }
            if let Some(second) = general.second {
                let link = word(cfa);
                read_words.words[1] = Some(link);
                cfa = link.value.wrapping_add_signed(second);
            }
            let pc = word(cfa.wrapping_add_signed(8 * general.return_words));
            read_words.words[0] = Some(pc);
            let bp_slot = match general.bp {
                SavedBp::Kept => state.bp_slot,
                SavedBp::FromCfa(words) => cfa.wrapping_add_signed(8 * words),
                SavedBp::FromBp(words) => {
                    let bp = word(state.bp_slot);
                    read_words.words[2] = Some(bp);
                    read_words.uses_bp = true;
                    bp.value.wrapping_add_signed(8 * words)
                }
            };
            let next = State { pc: pc.value, sp: cfa, bp_slot };
            (if pc.value == 0 { Err(End::Root) } else { Ok(next) }, read_words)
        }
        _ => (Err(End::Cut), read_words),
    }
}
