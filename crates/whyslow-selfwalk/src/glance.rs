//! Looks through an interrupted thread's stack for a frame. Memory is read through the caller's function, so that a
//! wrong table leads to no answer instead of a fault.

#![expect(unsafe_code, reason = "modules are looked up by addresses on the stack")]

use core::mem::MaybeUninit;

use crate::arch::{Context, End, Registers, Rule, caller_of, rule_at};
use crate::rules::EXACT;
use crate::{Rules, World};

/// What the stack has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The frame.
    Found,
    /// Not the frame.
    Absent,
    /// No unwind information for one of its frames, or more frames than were asked for.
    Cut,
}

/// Working memory for one thread at a time. All-zero bytes are a new one.
#[derive(Debug)]
pub struct Glance {
    has_context: bool,
    context: MaybeUninit<Context>,
}

impl Default for Glance {
    fn default() -> Self {
        Self::new()
    }
}

impl Glance {
    /// No memory is written until the first search.
    pub const fn new() -> Self {
        Self { has_context: false, context: MaybeUninit::uninit() }
    }

    /// Whether `is_it` says so for one of the first `most` frames, from the interrupted one outwards. It gets an
    /// address inside each frame's current instruction or call. `read` returns the word at an address, `None` if it
    /// is unreadable.
    pub fn search<W: World>(
        &mut self,
        rules: &Rules,
        world: &W,
        interrupted: Registers,
        most: usize,
        mut read: impl FnMut(u64) -> Option<u64>,
        mut is_it: impl FnMut(u64) -> bool,
    ) -> Seen {
        let mut frame = Registers { pc: interrupted.pc | EXACT, ..interrupted };
        for _ in 0..most {
            let address = inside(frame.pc);
            if is_it(address) {
                return Seen::Found;
            }
            let rule = match rules.find(frame.pc) {
                Some(rule) => rule,
                None => self.learn(rules, world, frame.pc, address),
            };
            match caller_of(frame, rule, &mut read) {
                Ok(caller) => frame = caller,
                Err(End::Root) => return Seen::Absent,
                Err(End::Cut) if world.begins_near(frame.sp) => return Seen::Absent,
                Err(End::Cut) => return Seen::Cut,
            }
        }
        Seen::Cut
    }

    #[cold]
    fn learn<W: World>(&mut self, rules: &Rules, world: &W, pc: u64, address: u64) -> Rule {
        if !self.has_context {
            self.context.write(Context::new_in());
            self.has_context = true;
        }
        // SAFETY: the frames of the thread's stack lead to this address, as far as their tables are right.
        let Some(module) = (unsafe { world.module_of(address) }) else { return Rule::UNKNOWN };
        // SAFETY: the context was written above, or in an earlier search.
        let context = unsafe { self.context.assume_init_mut() };
        let rule = rule_at(&module, address, context);
        rules.insert(pc, rule);
        rule
    }
}

/// An address in the instruction of a frame: it was interrupted there, or it is a call before the return address.
fn inside(pc: u64) -> u64 {
    if pc & EXACT != 0 { pc & !EXACT } else { pc.wrapping_sub(1) }
}
