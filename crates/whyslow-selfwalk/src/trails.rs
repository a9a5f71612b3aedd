//! What a thread remembers of its walks.
//!
//! A *trail* is one walk, root first: a row per frame. There is one trail for a long stack and many for short ones, so that a program that
//! goes down one way after the other finds each of them again. A walk that comes to a state that a row has is the same walk from there on,
//! if the words that were read then are still the same.

#![expect(unsafe_code, reason = "a walk reads the thread's own stack")]

use core::ptr;

use crate::arch::{self, Rule, State, follow, read};

/// Frames of the longest stack that is remembered, in trail 0, without memory for more.
pub const LONGEST: usize = 1 << 14;
/// The same with such memory.
pub(crate) const DEEPEST: usize = 1 << 20;
/// Frames of the other trails.
pub const SHORT: usize = 128;
/// Trails.
pub const TRAILS: usize = 256;
/// Rows of the short trails, which come first.
const SHORT_ROWS: usize = (TRAILS - 1) * SHORT;
/// Rows of all trails, without memory for more.
pub(crate) const ROWS: usize = SHORT_ROWS + LONGEST;
/// Entries of the map from a state to its row.
const PLACES: usize = 1 << 13;
/// Rows that a walk may cost another one that goes the same way at first. Where it would cost more, it takes a trail of its own.
const FEW: usize = 12;

/// In [`Trails::lens`]: the rule of the trail's root promises a caller, which was not found. Here, so that the check of a usual walk needs
/// nothing of its root but the key.
const PROMISES_CALLER: u32 = 1 << 31;

/// In [`Rows::link`]: the walk from here to the root needs the value of rbp.
const NEEDS_BP: u32 = 1 << ROW_BITS;
/// In [`Rows::link`]: a row.
const ROW: u32 = NEEDS_BP - 1;
/// Bits of a row's number.
const ROW_BITS: u32 = 21;

/// A remembered frame, as far as every check needs it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Key {
    pc: u64,
    /// Where the return address was read, below the frame's stack pointer.
    slot: u64,
}

/// What else is known of a frame whose step is unusual, or that needs rbp.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct More {
    bp_slot: u64,
    rule: Rule,
}

/// A number of a trail, and how many of its rows belong to a stack. That many rows of the trail are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    trail: usize,
    len: usize,
}

impl Part {
    /// Nothing of any trail.
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

/// A row that is written: [`Trails::find`] gives them out. It stays one until frames are noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row(usize);

impl Row {
    /// Rows between this one and one further out.
    #[inline(always)]
    pub(crate) fn distance_to(self, outer: Row) -> usize {
        self.0 - outer.0
    }
}

/// Where the rows are: in the trails themselves, or in memory for very deep stacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Rows {
    key: *mut Key,
    /// Of each row the nearest one, itself or further out, from which the next step is unusual: not by the stack pointer alone, or none.
    link: *mut u32,
    more: *mut More,
    /// How many.
    len: usize,
}

/// One row is read or written at a time, so no reference to any outlives the access.
///
/// # Safety
/// Of all these: `row` is below `len`, and the rows are where the pointers say (see [`Trails::locate`]).
impl Rows {
    #[inline(always)]
    unsafe fn key(&self, row: usize) -> Key {
        debug_assert!(row < self.len);
        // SAFETY: the caller vouches for the row.
        unsafe { *self.key.add(row) }
    }

    #[inline(always)]
    unsafe fn link(&self, row: usize) -> u32 {
        debug_assert!(row < self.len);
        // SAFETY: the caller vouches for the row.
        unsafe { *self.link.add(row) }
    }

    #[inline(always)]
    unsafe fn more(&self, row: usize) -> More {
        debug_assert!(row < self.len);
        // SAFETY: the caller vouches for the row.
        unsafe { *self.more.add(row) }
    }

    #[inline(always)]
    unsafe fn set_key(&mut self, row: usize, key: Key) {
        debug_assert!(row < self.len);
        // SAFETY: the caller vouches for the row.
        unsafe { *self.key.add(row) = key };
    }

    #[inline(always)]
    unsafe fn set_link(&mut self, row: usize, link: u32) {
        debug_assert!(row < self.len);
        // SAFETY: the caller vouches for the row.
        unsafe { *self.link.add(row) = link };
    }

    #[inline(always)]
    unsafe fn set_more(&mut self, row: usize, more: More) {
        debug_assert!(row < self.len);
        // SAFETY: the caller vouches for the row.
        unsafe { *self.more.add(row) = more };
    }
}

/// The trails of one thread. All-zero bytes have none; it is large, and only what is used is touched.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Trails {
    /// The short trail that was taken last.
    last: usize,
    rows: Rows,
    /// The rows are elsewhere.
    deep: bool,
    /// Rows of each trail, and [`PROMISES_CALLER`].
    lens: [u32; TRAILS],
    /// Rows by their state: a tag of the program counter in the upper bits, the row in the lower. Any entry may be out of date.
    places: [u32; PLACES],
    key: [Key; ROWS],
    link: [u32; ROWS],
    more: [More; ROWS],
}

const _: () = assert!(SHORT_ROWS + DEEPEST < 1 << ROW_BITS);

/// Bytes for the rows of stacks of so many frames.
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

/// Rows that a trail has room for, without memory for more.
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

    /// Finds the rows, before a walk: who remembers may have been moved since the last one. All functions below need it; a walk has the trails
    /// borrowed from here to its end.
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

    /// Takes memory for stacks of so many frames. What was remembered is forgotten.
    ///
    /// # Safety
    /// The memory has [`deep_bytes`], belongs to these trails for good, and is aligned to 16.
    pub(crate) unsafe fn go_deep(&mut self, memory: *mut u8, frames: usize) {
        let len = SHORT_ROWS + frames;
        // SAFETY: the three lie in it one after the other.
        unsafe {
            let key = memory.cast::<Key>();
            let more = key.add(len).cast::<More>();
            self.rows = Rows { key, more, link: more.add(len).cast(), len };
        }
        self.deep = true;
        self.forget();
    }

    /// Rows that a trail has room for.
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
        // SAFETY: likewise.
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

    /// Checks the words that the walk read from this row to the root. `Err` has the row from which on they are not what they were.
    ///
    /// # Safety
    /// The walk must be in this row's state. Then each word's address is known to be good once the words before it are unchanged,
    /// exactly as in a walk.
    #[inline(always)]
    pub(crate) unsafe fn unchanged(&self, row: Row) -> Result<(), Row> {
        let trail = trail_of(row.0);
        let base = base(trail);
        let rows = &self.rows;
        let mut at = row.0;
        // SAFETY: the rows from `base` to this one are written, and each one's link lies among them; for the reads see above.
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
    /// The row is written, and is one that needs more than its key.
    unsafe fn state(&self, row: usize) -> State {
        // SAFETY: the caller vouches for the row.
        let (key, more) = unsafe { (self.rows.key(row), self.rows.more(row)) };
        State { pc: key.pc, sp: key.slot + 8, bp_slot: more.bp_slot }
    }

    /// Whether a step that is not by the stack pointer leads to the next frame.
    ///
    /// # Safety
    /// The walk is at this row, which is written and not the first of its trail.
    #[inline(always)]
    unsafe fn leads_on(&self, row: usize, next: Key) -> bool {
        // SAFETY: the row is written, and the frame's rule is followed.
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
    /// As above.
    #[inline(never)]
    unsafe fn leads_far(&self, row: usize, next: Key) -> bool {
        // A frame that needs rbx is never remembered.
        // SAFETY: the frame's rule is followed; the row before is of the same trail.
        let (after, outer_link, outer) = unsafe {
            let after = follow(self.state(row), self.rows.more(row).rule, || 0);
            (after, self.rows.link(row - 1), self.rows.more(row - 1))
        };
        let same_bp = |slot: u64| outer_link & NEEDS_BP == 0 || outer.bp_slot == slot;
        matches!(after, Ok(after) if after.pc == next.pc && after.sp == next.slot + 8 && same_bp(after.bp_slot))
    }

    /// Whether the walk still ends at the outermost frame, whose rule promises a caller.
    ///
    /// # Safety
    /// The walk is there.
    #[inline(never)]
    unsafe fn ends(&self, row: usize) -> bool {
        // SAFETY: as above.
        unsafe { follow(self.state(row), self.rows.more(row).rule, || 0) }.is_err()
    }

    /// The trail that a stack goes to which begins with `kept` and has so many frames more. The rows that it shares are there then.
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
                // SAFETY: a part's rows are written, and every trail has room for so many.
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

    /// Notes a frame in a trail. `needs_bp`: the rest of the walk needs the value of rbp; returns whether
    /// it does from this frame on.
    ///
    /// # Safety
    /// The row is below what [`Self::room`] allows for its trail, and those of the frames further out are written; there are none for a root.
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
        // SAFETY: the caller vouches for the row; a root is unusual, so that there is one before it.
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
        // SAFETY: a part's rows are written.
        part.len > 0 && unsafe { self.rows.link(base(part.trail) + part.len - 1) } & NEEDS_BP != 0
    }

    /// Says that so many rows of a trail are written, and gives them as a part. The root is that of `kept`, or has this rule.
    ///
    /// # Safety
    /// They are.
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
