//! One step of a walk: from a frame to its caller, by any rule.

#![expect(unsafe_code, reason = "a walk reads the thread's own stack")]

use super::rule::{self, Base, Rule, SIGNAL_RBP, SIGNAL_RIP, SIGNAL_RSP, SavedBp};
use crate::rules::EXACT;

/// The largest frame that is accepted if only rbp defines it.
const MOST_FRAME_BYTES: u64 = 1 << 30;

/// The state of a walk. Together with the words that are read, it determines the next step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct State {
    /// A return address, or a program counter marked [`EXACT`].
    pub(crate) pc: u64,
    /// The stack pointer after the callee has returned.
    pub(crate) sp: u64,
    /// Where the frame's rbp is saved.
    pub(crate) bp_slot: u64,
}

/// Why a walk found no further frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// There is none.
    Root,
    /// No unwind information covers the code.
    Cut,
}

/// # Safety
/// The rules of the frames that are now on the stack lead to this address.
#[inline(always)]
pub(crate) unsafe fn read(address: u64) -> u64 {
    // SAFETY: guaranteed by the caller.
    unsafe { (address as *const u64).read() }
}

/// Whether this can be the cfa of a frame with this stack pointer: a caller's frame is at a higher address.
/// This also rejects an rbp that is used for another purpose.
#[inline(always)]
pub(crate) fn is_caller_of(cfa: u64, sp: u64) -> bool {
    // One comparison suffices: a stack pointer is a multiple of 8, and any lower bits that are set are
    // rotated to the top.
    cfa.wrapping_sub(sp).wrapping_sub(8).rotate_right(3) < MOST_FRAME_BYTES / 8
}

/// The registers of a frame that its caller can depend on, by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    /// A return address, or a program counter.
    pub pc: u64,
    /// The stack pointer.
    pub sp: u64,
    /// The frame pointer.
    pub bp: u64,
    /// Another register that a few functions use to describe their frame.
    pub bx: u64,
}

/// A step by any rule. `read` returns the word at an address, `None` if it is unreadable.
pub(crate) fn caller_of(
    frame: Registers,
    rule: Rule,
    mut read: impl FnMut(u64) -> Option<u64>,
) -> Result<Registers, End> {
    /// In place of an address: the register keeps its value.
    const KEPT: u64 = 0;
    let mut word = |address: u64| read(address).ok_or(End::Cut);
    let (pc, cfa, bp_at) = match rule.kind() {
        rule::END => return Err(End::Root),
        rule::SP | rule::BP => {
            let base = if rule.kind() == rule::BP { frame.bp } else { frame.sp };
            let cfa = base.wrapping_add_signed(rule.offset());
            if !is_caller_of(cfa, frame.sp) {
                return Err(End::Cut);
            }
            (word(cfa.wrapping_sub(8))?, cfa, rule.bp_slot(cfa, KEPT))
        }
        rule::SIGNAL => {
            let (pc, sp) =
                (word(frame.sp.wrapping_add(SIGNAL_RIP))?, word(frame.sp.wrapping_add(SIGNAL_RSP))?);
            (if pc == 0 { 0 } else { pc | EXACT }, sp, frame.sp.wrapping_add(SIGNAL_RBP))
        }
        rule::GENERAL => {
            let general = rule.unpacked();
            let base = match general.base {
                Base::Sp => frame.sp,
                Base::Bp => frame.bp,
                Base::Bx => frame.bx,
            };
            let mut cfa = base.wrapping_add_signed(general.first);
            match general.second {
                Some(second) => cfa = word(cfa)?.wrapping_add_signed(second),
                None if !is_caller_of(cfa, frame.sp) => return Err(End::Cut),
                None => {}
            }
            let bp_at = match general.bp {
                SavedBp::Kept => KEPT,
                SavedBp::FromCfa(words) => cfa.wrapping_add_signed(8 * words),
                SavedBp::FromBp(words) => frame.bp.wrapping_add_signed(8 * words),
            };
            (word(cfa.wrapping_add_signed(8 * general.return_words))?, cfa, bp_at)
        }
        _ => return Err(End::Cut),
    };
    if pc == 0 {
        return Err(End::Root);
    }
    let mut register = |at: u64, value: u64| if at == KEPT { Ok(value) } else { word(at) };
    let bp = register(bp_at, frame.bp)?;
    let bx = register(rule.bx_slot(frame.sp, cfa, KEPT), frame.bx)?;
    Ok(Registers { pc, sp: cfa, bp, bx })
}

/// A step by any rule. `bx_slot` returns where rbx is saved, and is called only if the rule needs it.
///
/// # Safety
/// A walk of the calling thread's stack is in this state.
#[cold]
pub(crate) unsafe fn follow(state: State, rule: Rule, bx_slot: impl Fn() -> u64) -> Result<State, End> {
    let next = match rule.kind() {
        rule::END => return Err(End::Root),
        rule::SP | rule::BP => {
            // SAFETY: this follows the frame's rule.
            let base = if rule.kind() == rule::BP { unsafe { read(state.bp_slot) } } else { state.sp };
            let cfa = base.wrapping_add_signed(rule.offset());
            if !is_caller_of(cfa, state.sp) {
                return Err(End::Cut);
            }
            // SAFETY: as above.
            State { pc: unsafe { read(cfa - 8) }, sp: cfa, bp_slot: rule.bp_slot(cfa, state.bp_slot) }
        }
        rule::SIGNAL => {
            // SAFETY: the kernel's frame lies at the stack pointer.
            let (pc, sp) = unsafe { (read(state.sp + SIGNAL_RIP), read(state.sp + SIGNAL_RSP)) };
            let pc = if pc == 0 { 0 } else { pc | EXACT };
            State { pc, sp, bp_slot: state.sp + SIGNAL_RBP }
        }
        rule::GENERAL => {
            let general = rule.unpacked();
            // Read only if the rule needs it: otherwise its slot is not checked. SAFETY: rbp lies on the
            // stack.
            let bp = || unsafe { read(state.bp_slot) };
            let base = match general.base {
                Base::Sp => state.sp,
                Base::Bp => bp(),
                // SAFETY: rbx lies on the stack.
                Base::Bx => unsafe { read(bx_slot()) },
            };
            let mut cfa = base.wrapping_add_signed(general.first);
            match general.second {
                // SAFETY: this follows the frame's rule.
                Some(second) => cfa = unsafe { read(cfa) }.wrapping_add_signed(second),
                None if !is_caller_of(cfa, state.sp) => return Err(End::Cut),
                None => {}
            }
            // SAFETY: as above.
            let pc = unsafe { read(cfa.wrapping_add_signed(8 * general.return_words)) };
            let bp_slot = match general.bp {
                SavedBp::Kept => state.bp_slot,
                SavedBp::FromCfa(words) => cfa.wrapping_add_signed(8 * words),
                SavedBp::FromBp(words) => bp().wrapping_add_signed(8 * words),
            };
            State { pc, sp: cfa, bp_slot }
        }
        _ => return Err(End::Cut),
    };
    if next.pc == 0 { Err(End::Root) } else { Ok(next) }
}
