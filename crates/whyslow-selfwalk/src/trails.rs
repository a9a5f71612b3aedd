//! What a thread remembers of its walks.
//!
//! A *trail* is one walk, root first, with a row per frame. There is one trail for a long stack and many for
//! short ones, so that a program that alternates between call paths finds each of them again. If a walk
//! reaches the state of a row, the rest is the same walk, provided that the words it read are unchanged.

#![expect(unsafe_code, reason = "a walk reads the thread's own stack")]

use core::ptr;

use crate::arch::{self, Rule, State, follow, read};

/// Max frames of a remembered stack, in trail 0, without extra memory.
pub const LONGEST: usize = 1 << 14;
/// The same with extra memory.
pub(crate) const DEEPEST: usize = 1 << 20;
/// Max frames of the other trails.
pub const SHORT: usize = 128;
/// Number of trails.
pub const TRAILS: usize = 256;
/// Rows of the short trails, which come first.
const SHORT_ROWS: usize = (TRAILS - 1) * SHORT;
/// Rows of all trails, without extra memory.
pub(crate) const ROWS: usize = SHORT_ROWS + LONGEST;
/// Entries of the map from a state to its row.
const PLACES: usize = 1 << 13;
/// How many rows of another walk a walk with the same start may overwrite. If it were more, it takes its own
/// trail.
const FEW: usize = 12;

/// In [`Trails::lens`]: the rule of the trail's root promises a caller that was not found. It is stored here
/// so that the check of a usual walk needs only the key of its root.
const PROMISES_CALLER: u32 = 1 << 31;

/// In [`Rows::link`]: the walk from here to the root needs the value of rbp.
const NEEDS_BP: u32 = 1 << ROW_BITS;
/// In [`Rows::link`]: a row.
const ROW: u32 = NEEDS_BP - 1;
/// Bits of a row's number.
const ROW_BITS: u32 = 21;

/// The part of a remembered frame that every check needs.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Key {
    pc: u64,
    /// Where the return address was read, below the frame's stack pointer.
    slot: u64,
}

/// The rest, for a frame with an unusual step or that needs rbp.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct More {
    bp_slot: u64,
    rule: Rule,
}

/// A trail's number, and how many of its rows belong to a stack. At least that many of its rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    trail: usize,
    len: usize,
}

impl Part {
    /// No rows of any trail.
    pub(crate) const NONE: Self = Self { trail: 0, len: 0 };

    #[inline(always)]
    pub(crate) fn trail(self) -> usize {
        self.trail
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.len
    }
}

/// A written row, as returned by [`Trails::find`]. It is valid until frames are noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row(usize);

impl Row {
    /// Rows between this one and an outer one.
    #[inline(always)]
    pub(crate) fn distance_to(self, outer: Row) -> usize {
        self.0 - outer.0
    }
}

/// Where the rows are: in the trails themselves, or in extra memory for very deep stacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Rows {
    key: *mut Key,
    /// For each row, the nearest row, itself or further out, whose next step is unusual: it does not use the
    /// stack pointer alone, or there is none.
    link: *mut u32,
    more: *mut More,
    /// Number of rows.
    len: usize,
}

/// One row is read or written at a time, so no reference to a row outlives the access.
///
/// # Safety
/// For all these functions: `row` is below `len`, and the pointers are valid (see [`Trails::locate`]).
impl Rows {
    #[inline(always)]
    unsafe fn key(&self, row: usize) -> Key {
        debug_assert!(row < self.len);
        // SAFETY: guaranteed by the caller.
        unsafe { *self.key.add(row) }
    }

    #[inline(always)]
    unsafe fn link(&self, row: usize) -> u32 {
        debug_assert!(row < self.len);
        // SAFETY: guaranteed by the caller.
        unsafe { *self.link.add(row) }
    }

    #[inline(always)]
    unsafe fn more(&self, row: usize) -> More {
        debug_assert!(row < self.len);
        // SAFETY: guaranteed by the caller.
        unsafe { *self.more.add(row) }
    }

    #[inline(always)]
    unsafe fn set_key(&mut self, row: usize, key: Key) {
        debug_assert!(row < self.len);
        // SAFETY: guaranteed by the caller.
        unsafe { *self.key.add(row) = key };
    }

    #[inline(always)]
    unsafe fn set_link(&mut self, row: usize, link: u32) {
        debug_assert!(row < self.len);
        // SAFETY: guaranteed by the caller.
        unsafe { *self.link.add(row) = link };
    }

    #[inline(always)]
    unsafe fn set_more(&mut self, row: usize, more: More) {
        debug_assert!(row < self.len);
        // SAFETY: guaranteed by the caller.
        unsafe { *self.more.add(row) = more };
    }
}

/// The trails of one thread. All-zero bytes have none. It is large, and only used parts are touched.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Trails {
    /// The short trail that was assigned last.
    last: usize,
    rows: Rows,
    /// The rows are in extra memory.
    deep: bool,
    /// Rows of each trail, and [`PROMISES_CALLER`].
    lens: [u32; TRAILS],
    /// Rows by their state: a tag of the program counter in the upper bits, the row in the lower. Entries may
    /// be out of date.
    places: [u32; PLACES],
    key: [Key; ROWS],
    link: [u32; ROWS],
    more: [More; ROWS],
}

const _: () = assert!(SHORT_ROWS + DEEPEST < 1 << ROW_BITS);

/// Bytes for the rows of stacks with this many frames.
pub(crate) const fn deep_bytes(frames: usize) -> usize {
    (SHORT_ROWS + frames) * (size_of::<Key>() + size_of::<More>() + size_of::<u32>())
}

#[inline(always)]
fn place(pc: u64, sp: u64) -> usize {
    ((sp >> 4) ^ pc ^ (pc >> 7)) as usize & (PLACES - 1)
}

#[inline(always)]
fn tag(pc: u64) -> u32 {
    (pc as u32) << ROW_BITS
}

/// The first row of a trail.
#[inline(always)]
pub(crate) fn base(trail: usize) -> usize {
    if trail == 0 { SHORT_ROWS } else { (trail - 1) * SHORT }
}

#[inline(always)]
fn trail_of(row: usize) -> usize {
    if row >= SHORT_ROWS { 0 } else { 1 + row / SHORT }
}

/// How many rows fit into a trail without extra memory.
#[inline(always)]
pub(crate) fn room(trail: usize) -> usize {
    if trail == 0 { LONGEST } else { SHORT }
}

impl Trails {
    pub(crate) const fn new() -> Self {
        Self {
            last: 0,
            rows: Rows { key: ptr::null_mut(), link: ptr::null_mut(), more: ptr::null_mut(), len: 0 },
            deep: false,
            lens: [0; TRAILS],
            places: [0; PLACES],
            key: [Key { pc: 0, slot: 0 }; ROWS],
            link: [0; ROWS],
            more: [More { bp_slot: 0, rule: Rule(0) }; ROWS],
        }
    }

    pub(crate) fn forget(&mut self) {
        self.lens = [0; TRAILS];
    }

    /// Updates the row pointers before a walk, because the walker may have been moved since the last one. All
    /// functions below rely on it. A walk borrows the trails from here to its end.
    #[inline(always)]
    pub(crate) fn locate(&mut self) {
        if !self.deep && !ptr::eq(self.rows.key, self.key.as_ptr()) {
            self.rows = Rows {
                key: self.key.as_mut_ptr(),
                link: self.link.as_mut_ptr(),
                more: self.more.as_mut_ptr(),
                len: ROWS,
            };
        }
    }

    /// Takes memory for stacks with this many frames. Forgets all walks.
    ///
    /// # Safety
    /// The memory has [`deep_bytes`], belongs to these trails permanently, and is aligned to 16.
    pub(crate) unsafe fn go_deep(&mut self, memory: *mut u8, frames: usize) {
        let len = SHORT_ROWS + frames;
        // SAFETY: the three arrays lie in it one after the other.
        unsafe {
            let key = memory.cast::<Key>();
            let more = key.add(len).cast::<More>();
            self.rows = Rows { key, more, link: more.add(len).cast(), len };
        }
        self.deep = true;
        self.forget();
    }

    /// How many rows fit into a trail.
    #[inline(always)]
    pub(crate) fn room(&self, trail: usize) -> usize {
        if trail == 0 { self.rows.len - SHORT_ROWS } else { SHORT }
    }

    /// The row of a state, if there is one.
    #[inline(always)]
    pub(crate) fn find(&self, pc: u64, sp: u64, bp_slot: u64) -> Option<Row> {
        let row = (self.places[place(pc, sp)] ^ tag(pc)) as usize;
        if row >= self.rows.len {
            return None;
        }
        // SAFETY: the row is below the length.
        let (key, link) = unsafe { (self.rows.key(row), self.rows.link(row)) };
        if key.pc != pc || key.slot != sp.wrapping_sub(8) {
            return None;
        }
        let trail = trail_of(row);
        let is_there = row - base(trail) < self.len(trail);
        // SAFETY: as above.
        let same_bp = link & NEEDS_BP == 0 || unsafe { self.rows.more(row) }.bp_slot == bp_slot;
        (is_there && same_bp).then_some(Row(row))
    }

    /// Rows of a trail.
    #[inline(always)]
    fn len(&self, trail: usize) -> usize {
        (self.lens[trail] & !PROMISES_CALLER) as usize
    }

    /// The part of a trail from its root to this row.
    #[inline(always)]
    pub(crate) fn part(row: Row) -> Part {
        let trail = trail_of(row.0);
        Part { trail, len: row.0 - base(trail) + 1 }
    }

    /// Checks the words that the walk read from this row to the root. `Err` holds the first row at which they
    /// differ.
    ///
    /// # Safety
    /// The walk must be in this row's state. Then each word's address is valid once the words before it are
    /// unchanged, exactly as in a walk.
    #[inline(always)]
    pub(crate) unsafe fn unchanged(&self, row: Row) -> Result<(), Row> {
        let trail = trail_of(row.0);
        let base = base(trail);
        let rows = &self.rows;
        let mut at = row.0;
        // SAFETY: the rows from `base` to this one are written, and the link of each is among them. For the
        // reads see above.
        unsafe {
            loop {
                let unusual = (rows.link(at) & ROW) as usize;
                while at > unusual {
                    let next = rows.key(at - 1);
                    if read(next.slot) != next.pc {
                        return Err(Row(at));
                    }
                    at -= 1;
                }
                if at <= base {
                    break;
                }
                let next = rows.key(at - 1);
                if !self.leads_on(at, next) {
                    return Err(Row(at));
                }
                at -= 1;
            }
            let promised = self.lens[trail] & PROMISES_CALLER != 0;
            if !promised || self.ends(base) { Ok(()) } else { Err(Row(base)) }
        }
    }

    /// # Safety
    /// The row is written, and needs more than its key.
    unsafe fn state(&self, row: usize) -> State {
        // SAFETY: guaranteed by the caller.
        let (key, more) = unsafe { (self.rows.key(row), self.rows.more(row)) };
        State { pc: key.pc, sp: key.slot + 8, bp_slot: more.bp_slot }
    }

    /// Whether a step that does not use the stack pointer alone leads to the next frame.
    ///
    /// # Safety
    /// The walk is at this row, which is written and is not the first of its trail.
    #[inline(always)]
    unsafe fn leads_on(&self, row: usize, next: Key) -> bool {
        // SAFETY: the row is written, and this follows the frame's rule.
        unsafe {
            let More { bp_slot, rule } = self.rows.more(row);
            if rule.kind() == arch::BP {
                let cfa = read(bp_slot).wrapping_add_signed(rule.offset());
                return cfa == next.slot + 8 && read(next.slot) == next.pc;
            }
            self.leads_far(row, next)
        }
    }

    /// # Safety
    /// Same as above.
    #[inline(never)]
    unsafe fn leads_far(&self, row: usize, next: Key) -> bool {
        // A frame that needs rbx is never remembered. SAFETY: this follows the frame's rule. The row before
        // belongs to the same trail.
        let (after, outer_link, outer) = unsafe {
            let after = follow(self.state(row), self.rows.more(row).rule, || 0);
            (after, self.rows.link(row - 1), self.rows.more(row - 1))
        };
        let same_bp = |slot: u64| outer_link & NEEDS_BP == 0 || outer.bp_slot == slot;
        matches!(after, Ok(after) if after.pc == next.pc && after.sp == next.slot + 8 && same_bp(after.bp_slot))
    }

    /// Whether the walk still ends at the outermost frame, although its rule promises a caller.
    ///
    /// # Safety
    /// The walk is at this row.
    #[inline(never)]
    unsafe fn ends(&self, row: usize) -> bool {
        // SAFETY: as above.
        unsafe { follow(self.state(row), self.rows.more(row).rule, || 0) }.is_err()
    }

    /// Chooses the trail for a stack that starts with `kept` and has this many more frames. The shared rows
    /// are in it afterwards.
    #[inline(always)]
    pub(crate) fn trail_for(&mut self, kept: Part, fresh: usize) -> usize {
        let lost = self.len(kept.trail).saturating_sub(kept.len);
        let len = kept.len + fresh;
        let fits = if kept.trail == 0 { len > SHORT } else { len <= SHORT };
        if fits && lost < FEW && kept.len > 0 { kept.trail } else { self.other_trail(kept, len) }
    }

    #[cold]
    #[inline(never)]
    fn other_trail(&mut self, kept: Part, len: usize) -> usize {
        let mut to = 0;
        if len <= SHORT {
            let after = |trail: usize| trail % (TRAILS - 1) + 1;
            to = after(self.last);
            if to == kept.trail {
                to = after(to);
            }
            self.last = to;
        }
        if to != kept.trail {
            let (from, to) = (base(kept.trail), base(to));
            for row in 0..kept.len.min(SHORT) {
                // SAFETY: the rows of a part are written, and every trail has room for this many.
                unsafe {
                    self.rows.set_key(to + row, self.rows.key(from + row));
                    self.rows.set_more(to + row, self.rows.more(from + row));
                    let link = self.rows.link(from + row);
                    self.rows.set_link(to + row, link.wrapping_add(to as u32).wrapping_sub(from as u32));
                }
            }
        }
        to
    }

    /// Writes a frame into a trail. `needs_bp` says whether the rest of the walk needs the value of rbp.
    /// Returns whether the walk needs it from this frame on.
    ///
    /// # Safety
    /// The row is below [`Self::room`] of its trail, and the rows of all outer frames are written. A root has
    /// none.
    #[inline(always)]
    pub(crate) unsafe fn note(
        &mut self,
        row: usize,
        state: State,
        rule: Rule,
        root: bool,
        needs_bp: bool,
    ) -> bool {
        let kind = rule.kind();
        let (needs_bp, unusual) = if kind <= arch::BP {
            let by_bp = kind == arch::BP;
            (by_bp || (needs_bp && !rule.saves_bp()), by_bp || root)
        } else if kind < arch::END {
            let uses = rule.uses();
            (uses.bp || (needs_bp && uses.keeps_bp), true)
        } else {
            (false, true)
        };
        // SAFETY: guaranteed by the caller. A root is unusual, so any other row has one before it.
        unsafe {
            self.rows.set_key(row, Key { pc: state.pc, slot: state.sp.wrapping_sub(8) });
            let nearest = if unusual { row as u32 } else { self.rows.link(row - 1) & ROW };
            self.rows.set_link(row, nearest | if needs_bp { NEEDS_BP } else { 0 });
            if unusual || needs_bp {
                self.rows.set_more(row, More { bp_slot: state.bp_slot, rule });
            }
        }
        self.places[place(state.pc, state.sp)] = tag(state.pc) | row as u32;
        needs_bp
    }

    /// Whether the walk from this part's last frame to the root needs the value of rbp.
    #[inline(always)]
    pub(crate) fn needs_bp(&self, part: Part) -> bool {
        // SAFETY: the rows of a part are written.
        part.len > 0 && unsafe { self.rows.link(base(part.trail) + part.len - 1) } & NEEDS_BP != 0
    }

    /// Marks the first `len` rows of a trail as written and returns them as a part. The root is that of
    /// `kept`, or has this rule.
    ///
    /// # Safety
    /// They are written.
    #[inline(always)]
    pub(crate) unsafe fn finish(&mut self, trail: usize, len: usize, kept: Part, root: Rule) -> Part {
        let promises = match (kept.len, root.kind() < arch::END) {
            (0, false) => 0,
            (0, true) => PROMISES_CALLER,
            _ => self.lens[kept.trail] & PROMISES_CALLER,
        };
        self.lens[trail] = len as u32 | promises;
        Part { trail, len }
    }

    /// Forgets a trail.
    pub(crate) fn forget_trail(&mut self, trail: usize) {
        self.lens[trail] = 0;
    }
}
