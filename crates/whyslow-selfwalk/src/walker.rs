//! One thread's walk: from the leaf to a remembered frame, then a check of the remembered words.

#![expect(unsafe_code, reason = "a walk reads the thread's own stack")]

use core::mem::MaybeUninit;
use core::ops::Range;
use core::ptr;

use crate::arch::{self, Context, End, Rule, State, follow, is_caller_of, read};
use crate::rules::EXACT;
use crate::trails::{DEEPEST, LONGEST, Part, Trails, base, deep_bytes};
use crate::{Entry, Rules, World};

/// A walk stops after this many frames: its tables must be wrong.
const MOST_FRAMES: usize = 1 << 22;
/// After this many changed words, a walk no longer compares itself with remembered ones. Without a limit, a
/// deep stack that changed at its root would be compared from each of its frames.
const MOST_FAILED_CHECKS: usize = 512;

/// A frame of the walk in progress, before it is assigned to a trail.
#[derive(Debug, Clone, Copy)]
struct Step {
    state: State,
    rule: Rule,
}

/// The frames of a walk, leaf first. There is one array per field: they are read again within nanoseconds of
/// being written, and a load that covers several stores would have to wait until these reach the cache.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Steps {
    pc: *mut u64,
    sp: *mut u64,
    bp_slot: *mut u64,
    rule: *mut u64,
    /// How many frames fit.
    room: usize,
}

/// Room for the frames of a usual walk.
#[repr(C)]
#[derive(Debug)]
struct UsualSteps {
    pc: [u64; LONGEST],
    _apart: [u64; APART],
    sp: [u64; LONGEST],
    _more: [u64; APART],
    bp_slot: [u64; LONGEST],
    _again: [u64; APART],
    rule: [u64; LONGEST],
}

/// Keeps the arrays at different offsets within a page. To a processor, a store and a load that differ only
/// in the page look the same at first.
const APART: usize = 136;

impl UsualSteps {
    const fn new() -> Self {
        Self {
            pc: [0; LONGEST],
            _apart: [0; APART],
            sp: [0; LONGEST],
            _more: [0; APART],
            bp_slot: [0; LONGEST],
            _again: [0; APART],
            rule: [0; LONGEST],
        }
    }
}

impl Steps {
    const NONE: Self = Self {
        pc: ptr::null_mut(),
        sp: ptr::null_mut(),
        bp_slot: ptr::null_mut(),
        rule: ptr::null_mut(),
        room: 0,
    };

    /// Bytes for this many frames.
    const fn bytes(frames: usize) -> usize {
        4 * (frames + APART) * 8
    }

    fn usual(steps: &mut UsualSteps) -> Self {
        Self {
            pc: steps.pc.as_mut_ptr(),
            sp: steps.sp.as_mut_ptr(),
            bp_slot: steps.bp_slot.as_mut_ptr(),
            rule: steps.rule.as_mut_ptr(),
            room: LONGEST,
        }
    }

    /// # Safety
    /// The memory has [`Self::bytes`].
    unsafe fn deep(memory: *mut u8, frames: usize) -> Self {
        // SAFETY: the four arrays lie in it one after the other.
        let field = |number: usize| unsafe { memory.cast::<u64>().add(number * (frames + APART)) };
        Self { pc: field(0), sp: field(1), bp_slot: field(2), rule: field(3), room: frames }
    }

    /// # Safety
    /// `at` is below `room`.
    #[inline(always)]
    unsafe fn set(&self, at: usize, state: State, rule: Rule) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            *self.pc.add(at) = state.pc;
            *self.sp.add(at) = state.sp;
            *self.bp_slot.add(at) = state.bp_slot;
            *self.rule.add(at) = rule.0;
        }
    }

    /// # Safety
    /// `at` is below `room` and was set.
    #[inline(always)]
    unsafe fn get(&self, at: usize) -> Step {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let state = State { pc: *self.pc.add(at), sp: *self.sp.add(at), bp_slot: *self.bp_slot.add(at) };
            Step { state, rule: Rule(*self.rule.add(at)) }
        }
    }
}

/// Frames of a walk that do not fit into [`Steps`].
#[repr(C)]
#[derive(Debug)]
struct Beyond {
    frames: *mut u64,
    room: usize,
}

/// The result of a walk: the stack is the first frames of a trail, from the root on, with fresh ones below
/// them. A reader that mirrors the trails knows every stack:
///
/// ```text
/// trails[to] = trails[from][..kept] + fresh        which is the stack. Without fresh frames trails[to] keeps its length
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walked {
    /// The trail that the stack starts like.
    pub from: usize,
    /// How many frames of it, from the root.
    pub kept: usize,
    /// The trail that the stack is written to.
    pub to: usize,
    /// Number of new frames: [`Walker::frames`].
    pub fresh: usize,
    /// Without kept frames: the outermost frame is not the root, because the stack is truncated.
    pub cut: bool,
    /// Whether it is the same stack as in the previous walk.
    pub same: bool,
}

/// One thread's remembered walks. All-zero bytes are a new one. It is large, and only used parts are touched.
#[repr(C)]
#[derive(Debug)]
pub struct Walker {
    generation: u32,
    has_context: bool,
    /// The stack of the last walk.
    last: Part,
    /// The number of its fresh frames.
    count: usize,
    beyond: Beyond,
    /// The steps of a walk are in extra memory.
    deep: bool,
    fresh: Steps,
    context: MaybeUninit<Context>,
    usual: UsualSteps,
    trails: Trails,
}

impl Default for Walker {
    fn default() -> Self {
        Self::new()
    }
}

impl Walker {
    /// Remembers no walk.
    pub const fn new() -> Self {
        Self {
            generation: 0,
            has_context: false,
            last: Part::NONE,
            count: 0,
            beyond: Beyond { frames: ptr::null_mut(), room: 0 },
            deep: false,
            fresh: Steps::NONE,
            context: MaybeUninit::uninit(),
            usual: UsualSteps::new(),
            trails: Trails::new(),
        }
    }

    /// Forgets all walks.
    pub fn forget(&mut self) {
        self.trails.forget();
        self.last = Part::NONE;
    }

    /// Walks the calling thread's stack.
    ///
    /// `generation` must change when a module is unloaded, and the rules must be cleared before.
    ///
    /// # Safety
    /// `entry` lies on the stack of the calling thread, directly below its caller's frame.
    #[inline]
    pub unsafe fn walk<W: World>(
        &mut self,
        rules: &Rules,
        world: &W,
        generation: u32,
        entry: *const Entry,
    ) -> Walked {
        if self.generation != generation {
            self.generation = generation;
            self.forget();
        }
        self.trails.locate();
        if !self.deep && !ptr::eq(self.fresh.pc, self.usual.pc.as_ptr()) {
            self.fresh = Steps::usual(&mut self.usual);
        }
        let mut steps = self.fresh;
        let start = entry as u64;
        // Plain numbers, not a `State`: they must be kept in registers. SAFETY: the caller guarantees the
        // entry.
        let mut pc = unsafe { (*entry).return_address };
        let mut sp = start + size_of::<Entry>() as u64;
        let mut bp_slot = start;
        let mut fresh = 0;
        let mut in_vain = 0;
        let mut cut = false;
        let joined = loop {
            if let Some(row) = self.trails.find(pc, sp, bp_slot)
                && in_vain < MOST_FAILED_CHECKS
            {
                // SAFETY: the words were read from this state, in this order.
                match unsafe { self.trails.unchanged(row) } {
                    Ok(()) => break Some(row),
                    Err(at) => in_vain += 1 + row.distance_to(at),
                }
            }
            let rule = match rules.find(pc) {
                Some(rule) => rule,
                // SAFETY: the walk is at this address.
                None => unsafe { self.learn(rules, world, pc) },
            };
            // SAFETY: `fresh` is below the room: see the check at the end of the loop.
            unsafe { steps.set(fresh, State { pc, sp, bp_slot }, rule) };
            fresh += 1;
            if rule.kind() <= arch::BP {
                // Always read, so that there is no branch on the register. The slot is always on the stack.
                // SAFETY: see above.
                let bp = unsafe { read(bp_slot) };
                let base = if rule.kind() == arch::BP { bp } else { sp };
                let cfa = base.wrapping_add_signed(rule.offset());
                if !is_caller_of(cfa, sp) {
                    cut = true;
                    break None;
                }
                sp = cfa;
                bp_slot = rule.bp_slot(cfa, bp_slot);
                // SAFETY: the frame's rule says where the return address is.
                pc = unsafe { read(cfa - 8) };
                if pc == 0 {
                    break None;
                }
            } else if rule.kind() == arch::END {
                break None;
            } else {
                // SAFETY: this follows the frame's rule.
                match unsafe { self.unusual_step(start, fresh - 1) } {
                    Ok(next) => (pc, sp, bp_slot) = (next.pc, next.sp, next.bp_slot),
                    Err(end) => {
                        cut = end == End::Cut && !world.begins_near(sp);
                        break None;
                    }
                }
            }
            if fresh == steps.room {
                if !self.go_deep(world) {
                    // SAFETY: the same walk continues.
                    return unsafe { self.walk_beyond(rules, world, start, State { pc, sp, bp_slot }) };
                }
                steps = self.fresh;
            }
        };

        let kept = joined.map_or(Part::NONE, Trails::part);
        self.count = fresh;
        if fresh == 0 {
            let same = self.last == kept;
            self.last = kept;
            return Walked { from: kept.trail(), kept: kept.len(), to: kept.trail(), fresh, cut, same };
        }
        let to = self.trails.trail_for(kept, fresh);
        // SAFETY: the loop above wrote `fresh` frames.
        unsafe { self.remember(to, kept, fresh) };
        Walked { from: kept.trail(), kept: kept.len(), to, fresh, cut, same: false }
    }

    /// The fresh frames of the last walk within the range, leaf first. Each address minus one is inside the
    /// call, or is the interrupted instruction.
    #[inline(always)]
    pub fn frames(&self, range: Range<usize>) -> impl DoubleEndedIterator<Item = u64> {
        let (start, end) = (range.start.min(self.count), range.end.min(self.count));
        (start..end).map(|at| {
            // SAFETY: the last walk had at least this many frames. It wrote the first ones here and the rest
            // to `beyond`.
            let pc = unsafe {
                match at.checked_sub(self.fresh.room) {
                    None => *self.fresh.pc.add(at),
                    Some(at) => *self.beyond.frames.add(at),
                }
            };
            (pc & !EXACT) + (pc >> 63)
        })
    }

    /// Writes the fresh frames after the kept ones.
    ///
    /// # Safety
    /// `fresh` frames are written.
    #[inline(always)]
    unsafe fn remember(&mut self, to: usize, kept: Part, fresh: usize) {
        let len = kept.len() + fresh;
        if len > self.trails.room(to) {
            return self.not_remembered(to);
        }
        let mut needs_bp = self.trails.needs_bp(kept);
        let mut repeatable = true;
        let first = base(to) + kept.len();
        let mut root = kept.len() == 0;
        let mut outermost = Rule::END;
        for (row, at) in (first..).zip((0..fresh).rev()) {
            // SAFETY: written by the walk.
            let Step { state, rule } = unsafe { self.fresh.get(at) };
            repeatable &= rule.kind() != arch::GENERAL || !rule.uses().bx;
            // SAFETY: there is room for `len` rows, and the rows before this one are kept or were just
            // written.
            needs_bp = unsafe { self.trails.note(row, state, rule, root, needs_bp) };
            if root {
                outermost = rule;
            }
            root = false;
        }
        if !repeatable {
            return self.not_remembered(to);
        }
        // SAFETY: the kept rows exist, and the others were written above.
        self.last = unsafe { self.trails.finish(to, len, kept, outermost) };
    }

    /// The walk cannot be repeated: it is too long, or depends on more than is remembered.
    #[cold]
    #[inline(never)]
    fn not_remembered(&mut self, to: usize) {
        self.trails.forget_trail(to);
        self.last = Part::NONE;
    }

    /// The rule for a new program counter.
    ///
    /// # Safety
    /// A walk of the calling thread's stack is at this address.
    #[cold]
    #[inline(never)]
    unsafe fn learn<W: World>(&mut self, rules: &Rules, world: &W, pc: u64) -> Rule {
        let exact = pc & EXACT != 0;
        let address = if exact { pc & !EXACT } else { pc.wrapping_sub(1) };
        if !self.has_context {
            self.context.write(Context::new_in());
            self.has_context = true;
        }
        // SAFETY: a walk of this thread's stack has reached this address.
        let Some(module) = (unsafe { world.module_of(address) }) else { return Rule::UNKNOWN };
        // SAFETY: the context was written above.
        let context = unsafe { self.context.assume_init_mut() };
        let rule = arch::rule_at(&module, address, context);
        rules.insert(pc, rule);
        rule
    }

    /// Where rbx is saved at a frame of this walk.
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
        // SAFETY: this follows the frame's rule.
        unsafe { follow(state, rule, || self.bx_slot(start, frame)) }
    }

    /// Gets memory for a very deep stack, in the middle of a walk, and keeps all its steps. False if there is
    /// none.
    #[cold]
    #[inline(never)]
    fn go_deep<W: World>(&mut self, world: &W) -> bool {
        if self.deep {
            return false;
        }
        let bytes = |frames: usize| Steps::bytes(frames) + deep_bytes(frames);
        for frames in [DEEPEST, DEEPEST / 4, DEEPEST / 16] {
            let memory = world.deep_memory(bytes(frames));
            if memory.is_null() {
                continue;
            }
            let before = self.fresh;
            // SAFETY: the memory has room for both, the steps first. This walk has filled all the room there
            // was.
            unsafe {
                self.fresh = Steps::deep(memory, frames);
                for (to, from) in [
                    (self.fresh.pc, before.pc),
                    (self.fresh.sp, before.sp),
                    (self.fresh.bp_slot, before.bp_slot),
                    (self.fresh.rule, before.rule),
                ] {
                    ptr::copy_nonoverlapping(from, to, before.room);
                }
                self.trails.go_deep(memory.add(Steps::bytes(frames)), frames);
            }
            self.last = Part::NONE;
            self.deep = true;
            return true;
        }
        false
    }

    /// Continues after the memory for fresh frames is full: collects the remaining frames and remembers
    /// nothing.
    #[cold]
    #[inline(never)]
    unsafe fn walk_beyond<W: World>(
        &mut self,
        rules: &Rules,
        world: &W,
        start: u64,
        mut state: State,
    ) -> Walked {
        self.not_remembered(0);
        let mut frames = 0;
        let end = loop {
            if frames == MOST_FRAMES || (frames == self.beyond.room && !self.beyond.grow(world, frames)) {
                break End::Cut;
            }
            let rule = match rules.find(state.pc) {
                Some(rule) => rule,
                // SAFETY: the walk is at this address.
                None => unsafe { self.learn(rules, world, state.pc) },
            };
            // SAFETY: there is room for one more.
            unsafe { self.beyond.frames.add(frames).write(state.pc) };
            frames += 1;
            // SAFETY: this follows the frame's rule. rbx is known only for earlier frames, and no frame this
            // far out needs it.
            match unsafe { follow(state, rule, || start + 8) } {
                Ok(next) => state = next,
                Err(end) => break end,
            }
        };
        let cut = end == End::Cut && !world.begins_near(state.sp);
        self.count = self.fresh.room + frames;
        Walked { from: 0, kept: 0, to: 0, fresh: self.count, cut, same: false }
    }
}

impl Beyond {
    /// Doubles the room for frames.
    fn grow<W: World>(&mut self, world: &W, frames: usize) -> bool {
        let room = (2 * self.room).max(2 * LONGEST);
        let larger = world.memory(room * 8).cast::<u64>();
        if larger.is_null() {
            return false;
        }
        if !self.frames.is_null() {
            // SAFETY: both have room for this many frames and do not overlap. Memory from the world goes back
            // to it.
            unsafe {
                ptr::copy_nonoverlapping(self.frames, larger, frames);
                world.release(self.frames.cast(), self.room * 8);
            }
        }
        *self = Self { frames: larger, room };
        true
    }
}
