//! Walks as numbers, for comparing stacks: interned nodes (caller, return address).

use crate::stacks::NO_STACK;
use crate::trails::{ROWS, base, room};
use crate::{Entry, Rules, Stacks, Walker, World};

/// The address of the root node of a truncated stack. One less is 0, where there is no code.
const CUT: u64 = 1;

/// A walker that knows the numbers of its trails. All-zero bytes are a new one.
#[repr(C)]
#[derive(Debug)]
pub struct Numbered {
    walker: Walker,
    /// The number of the last walk.
    last: u32,
    /// The stack that ends in a row.
    ids: [u32; ROWS],
}

impl Default for Numbered {
    fn default() -> Self {
        Self::new()
    }
}

impl Numbered {
    /// Remembers no walk.
    pub const fn new() -> Self {
        Self { walker: Walker::new(), last: NO_STACK, ids: [NO_STACK; ROWS] }
    }

    /// Forgets all walks.
    pub fn forget(&mut self) {
        self.walker.forget();
    }

    /// The number of the calling thread's stack, or `NO_STACK` if there is no room for it.
    ///
    /// # Safety
    /// Same as [`Walker::walk`].
    #[expect(unsafe_code, reason = "a walk reads the thread's own stack")]
    pub unsafe fn walk<W: World>(
        &mut self,
        rules: &Rules,
        stacks: &Stacks<'_>,
        world: &W,
        generation: u16,
        entry: *const Entry,
    ) -> u32 {
        // SAFETY: the caller upholds the same contract.
        let walked = unsafe { self.walker.walk(rules, world, generation.into(), entry) };
        if walked.same {
            return self.last;
        }
        let (from, to) = (base(walked.from), base(walked.to));
        let mut id = match walked.kept.checked_sub(1) {
            Some(row) => self.ids[from + row],
            None if walked.cut => stacks.intern(0, CUT),
            None => 0,
        };
        if from != to {
            self.ids.copy_within(from..from + walked.kept, to);
        }
        for (row, frame) in (walked.kept..).zip(self.walker.frames(0..walked.fresh).rev()) {
            id = stacks.intern(id, frame | u64::from(generation) << 48);
            if id == 0 {
                break;
            }
            if row < room(walked.to) {
                self.ids[to + row] = id;
            }
        }
        if id == 0 {
            self.forget();
        }
        self.last = id;
        id
    }
}
