//! What a thread remembers of its walks.
//!
//! A *trail* is one walk, root first: a row per frame. There is one trail for a long stack and many for short ones, so that a program that
//! goes down one way after the other finds each of them again. A walk that comes to a state that a row has is the same walk from there on,
//! if the words that were read then are still the same.

#![expect(unsafe_code, reason = "a walk reads the thread's own stack")]

use core::ptr;

use crate::rules::{self, Rule};
use crate::step::{State, follow, read};

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

/// A number of a trail, and how many of its rows belong to a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) trail: usize,
    pub(crate) len: usize,
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

/// The trails of one thread. All-zero bytes have none; it is large, and only what is used is touched.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Trails {
    /// The short trail that was taken last.
    last: usize,
    rows: Rows,
    /// The rows are elsewhere.
    deep: bool,
    /// Rows of each trail.
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

    /// Finds the rows, before a walk: who remembers may have been moved since the last one.
    #[inline(always)]
    pub(crate) fn locate(&mut self) {
        if !self.deep {
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

    #[expect(
        clippy::mut_from_ref,
        reason = "a walker has one user, and no row is held while another is asked for"
    )]
    #[inline(always)]
    fn key(&self, row: usize) -> &mut Key {
        debug_assert!(row < self.rows.len);
        // SAFETY: rows are numbered within what was located.
        unsafe { &mut *self.rows.key.add(row) }
    }

    #[expect(clippy::mut_from_ref, reason = "as above")]
    #[inline(always)]
    fn link(&self, row: usize) -> &mut u32 {
        // SAFETY: as above.
        unsafe { &mut *self.rows.link.add(row) }
    }

    #[expect(clippy::mut_from_ref, reason = "as above")]
    #[inline(always)]
    fn more(&self, row: usize) -> &mut More {
        // SAFETY: as above.
        unsafe { &mut *self.rows.more.add(row) }
    }

    /// The row of a state, if there is one.
    #[inline(always)]
    pub(crate) fn find(&self, pc: u64, sp: u64, bp_slot: u64) -> Option<usize> {
        let row = (self.places[place(pc, sp)] ^ tag(pc)) as usize;
        if row >= self.rows.len {
            return None;
        }
        let key = *self.key(row);
        if key.pc != pc || key.slot != sp.wrapping_sub(8) {
            return None;
        }
        let trail = trail_of(row);
        let is_there = row - base(trail) < self.lens[trail] as usize;
        let same_bp = *self.link(row) & NEEDS_BP == 0 || self.more(row).bp_slot == bp_slot;
        (is_there && same_bp).then_some(row)
    }

    /// The part of a trail from its root to this row.
    #[inline(always)]
    pub(crate) fn part(row: usize) -> Part {
        let trail = trail_of(row);
        Part { trail, len: row - base(trail) + 1 }
    }

    /// Checks the words that the walk read from this row to the root. `Err` has the row from which on they are not what they were.
    ///
    /// # Safety
    /// The walk must be in this row's state. Then each word's address is known to be good once the words before it are unchanged,
    /// exactly as in a walk.
    #[inline(always)]
    pub(crate) unsafe fn unchanged(&self, row: usize) -> Result<(), usize> {
        let base = base(trail_of(row));
        let mut at = row;
        // SAFETY: rows of a trail up to this one were written; for the reads see above.
        unsafe {
            loop {
                let unusual = (*self.link(at) & ROW) as usize;
                while at > unusual {
                    let next = *self.key(at - 1);
                    if read(next.slot) != next.pc {
                        return Err(at);
                    }
                    at -= 1;
                }
                if at <= base {
                    break;
                }
                let next = *self.key(at - 1);
                if !self.leads_on(at, next) {
                    return Err(at);
                }
                at -= 1;
            }
            if self.more(base).rule.kind() >= rules::END || self.ends(base) { Ok(()) } else { Err(base) }
        }
    }

    fn state(&self, row: usize) -> State {
        State { pc: self.key(row).pc, sp: self.key(row).slot + 8, bp_slot: self.more(row).bp_slot }
    }

    /// Whether a step that is not by the stack pointer leads to the next frame.
    ///
    /// # Safety
    /// The walk is at this row.
    #[inline(always)]
    unsafe fn leads_on(&self, row: usize, next: Key) -> bool {
        let More { bp_slot, rule } = *self.more(row);
        // SAFETY: the frame's rule is followed.
        unsafe {
            if rule.kind() == rules::BP {
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
        // SAFETY: the frame's rule is followed.
        let after = unsafe { follow(self.state(row), self.more(row).rule, || 0) };
        let same_bp = |slot: u64| *self.link(row - 1) & NEEDS_BP == 0 || self.more(row - 1).bp_slot == slot;
        matches!(after, Ok(after) if after.pc == next.pc && after.sp == next.slot + 8 && same_bp(after.bp_slot))
    }

    /// Whether the walk still ends at the outermost frame, whose rule promises a caller.
    ///
    /// # Safety
    /// The walk is there.
    #[inline(never)]
    unsafe fn ends(&self, row: usize) -> bool {
        // SAFETY: as above.
        unsafe { follow(self.state(row), self.more(row).rule, || 0) }.is_err()
    }

    /// The trail that a stack goes to which begins with `kept` and has so many frames more. The rows that it shares are there then.
    #[inline(always)]
    pub(crate) fn trail_for(&mut self, kept: Part, fresh: usize) -> usize {
        let lost = (self.lens[kept.trail] as usize).saturating_sub(kept.len);
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
                *self.key(to + row) = *self.key(from + row);
                *self.more(to + row) = *self.more(from + row);
                *self.link(to + row) =
                    (*self.link(from + row)).wrapping_add(to as u32).wrapping_sub(from as u32);
            }
        }
        to
    }

    /// Notes a frame in a trail, whose rows below it are there. `needs_bp`: the rest of the walk needs the value of rbp; returns whether
    /// it does from this frame on.
    #[inline(always)]
    pub(crate) fn note(&mut self, row: usize, state: State, rule: Rule, root: bool, needs_bp: bool) -> bool {
        let kind = rule.kind();
        let (needs_bp, unusual) = if kind <= rules::BP {
            let by_bp = kind == rules::BP;
            (by_bp || (needs_bp && !rule.saves_bp()), by_bp || root)
        } else if kind < rules::END {
            let uses = rule.uses();
            (uses.bp || (needs_bp && uses.keeps_bp), true)
        } else {
            (false, true)
        };
        *self.key(row) = Key { pc: state.pc, slot: state.sp.wrapping_sub(8) };
        let nearest = if unusual { row as u32 } else { *self.link(row - 1) & ROW };
        *self.link(row) = nearest | if needs_bp { NEEDS_BP } else { 0 };
        if unusual || needs_bp {
            *self.more(row) = More { bp_slot: state.bp_slot, rule };
        }
        self.places[place(state.pc, state.sp)] = tag(state.pc) | row as u32;
        needs_bp
    }

    /// Whether the walk from this part's last frame to the root needs the value of rbp.
    #[inline(always)]
    pub(crate) fn needs_bp(&self, part: Part) -> bool {
        part.len > 0 && *self.link(base(part.trail) + part.len - 1) & NEEDS_BP != 0
    }

    /// How many rows a trail has from now on.
    #[inline(always)]
    pub(crate) fn set_len(&mut self, trail: usize, len: usize) {
        self.lens[trail] = len as u32;
    }
}
