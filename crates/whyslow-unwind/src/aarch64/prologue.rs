//! Code without unwind information: follows the frame pointer, and reads the instructions to know how large the frame
//! is and whether it is set up yet.
//!
//! Instructions have four bytes each, so code is read backwards as well: to where the function begins, or to the last
//! branch. Between the two, and from an address to the next `ret`, the effect on the stack is exact.

use whyslow_numbers::RelativeAddress;

use super::registers::{FP, LR, SP};
use super::rule::Cfa;
use crate::image::Image;
use crate::registers::Register;

/// Instructions in which a function sets up its frame, or removes it.
const PROLOGUE: usize = 24;
/// Instructions before an address in which the prologue of its function is searched.
const BODY: usize = 2048;

/// What an instruction does to the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// `sp -= grows`, then `*(sp + at + 8·i) = registers[i]`.
    Save {
        registers: [Option<Register>; 2],
        at: i32,
        grows: i32,
    },
    /// `registers[i] = *(sp + at + 8·i)`, then `sp += shrinks`.
    Restore {
        registers: [Option<Register>; 2],
        at: i32,
        shrinks: i32,
    },
    /// `sp += by`.
    MoveSp {
        by: i32,
    },
    /// `x29 = sp + above`.
    SetFp {
        above: i32,
    },
    /// `sp` has an unknown value.
    LoseSp,
    /// The first instruction of a function: it signs the return address, or is a target of indirect calls.
    Start,
    Return,
    /// A branch that may be taken.
    Conditional,
    /// Another branch or call, or no instruction.
    Leave,
    Nothing,
}

fn field(word: u32, at: u32, bits: u32) -> u32 {
    word >> at & ((1 << bits) - 1)
}

/// A signed field.
fn signed(word: u32, at: u32, bits: u32) -> i32 {
    (word << (32 - at - bits)).cast_signed() >> (32 - bits)
}

fn decode(word: u32) -> Effect {
    const STACK: u32 = SP.0 as u32;
    let register = |at: u32| Some(Register(field(word, at, 5) as u8));
    let from_stack = field(word, 5, 5) == STACK;
    let pair = [register(0), register(10)];
    let single = [register(0), None];
    let by_pair = 8 * signed(word, 15, 7);
    let by_single = signed(word, 12, 9);
    match word {
        0xd503_233f | 0xd503_237f => return Effect::Start,
        _ if word & 0xffff_ff3f == 0xd503_241f => return Effect::Start,
        0xd65f_0bff | 0xd65f_0fff => return Effect::Return,
        _ if word & 0xffff_fc1f == 0xd65f_0000 => return Effect::Return,
        _ if word >> 16 == 0 || word & 0xfe00_0000 == 0xd600_0000 || word & 0x7c00_0000 == 0x1400_0000 => {
            return Effect::Leave;
        }
        _ if word & 0xff00_0000 == 0x5400_0000 || word & 0x7c00_0000 == 0x3400_0000 => {
            return Effect::Conditional;
        }
        _ => {}
    }
    // stp, ldp of x and d registers
    match word & 0xffc0_0000 {
        0xa900_0000 if from_stack => return Effect::Save { registers: pair, at: by_pair, grows: 0 },
        0xa980_0000 if from_stack => return Effect::Save { registers: pair, at: 0, grows: -by_pair },
        0x6d80_0000 if from_stack => return Effect::MoveSp { by: by_pair },
        0xa940_0000 if from_stack => return Effect::Restore { registers: pair, at: by_pair, shrinks: 0 },
        0xa8c0_0000 if from_stack => return Effect::Restore { registers: pair, at: 0, shrinks: by_pair },
        0x6cc0_0000 if from_stack => return Effect::MoveSp { by: by_pair },
        // str, ldr
        0xf900_0000 if from_stack => {
            return Effect::Save { registers: single, at: 8 * field(word, 10, 12).cast_signed(), grows: 0 };
        }
        0xf940_0000 if from_stack => {
            return Effect::Restore {
                registers: single,
                at: 8 * field(word, 10, 12).cast_signed(),
                shrinks: 0,
            };
        }
        _ => {}
    }
    match word & 0xffe0_0c00 {
        0xf800_0c00 if from_stack => return Effect::Save { registers: single, at: 0, grows: -by_single },
        0xfc00_0c00 if from_stack => return Effect::MoveSp { by: by_single },
        0xf840_0400 if from_stack => return Effect::Restore { registers: single, at: 0, shrinks: by_single },
        0xfc40_0400 if from_stack => return Effect::MoveSp { by: by_single },
        _ => {}
    }
    let to = field(word, 0, 5);
    let immediate = field(word, 10, 12).cast_signed() << (12 * field(word, 22, 1));
    match word & 0xff80_0000 {
        0x9100_0000 if from_stack && to == STACK => Effect::MoveSp { by: immediate },
        0xd100_0000 if from_stack && to == STACK => Effect::MoveSp { by: -immediate },
        0x9100_0000 if from_stack && to == u32::from(FP.0) => Effect::SetFp { above: immediate },
        0x9100_0000 | 0xd100_0000 if to == STACK => Effect::LoseSp,
        // add, sub with a register
        _ if word & 0xbfe0_0000 == 0x8b20_0000 && to == STACK => Effect::LoseSp,
        _ => Effect::Nothing,
    }
}

fn effects(code: &[u8]) -> impl DoubleEndedIterator<Item = Effect> + '_ {
    code.as_chunks().0.iter().map(|bytes| decode(u32::from_le_bytes(*bytes)))
}

/// The frame of a function while its instructions are followed.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Where the registers are, in words from the cfa.
    saved: Cfa,
    /// `cfa - sp`
    depth: i32,
    /// `cfa - x29`, once it is set.
    fp_depth: Option<i32>,
}

impl Frame {
    /// At the first instruction.
    const NEW: Self = Self { saved: Cfa::FRAMELESS, depth: 0, fp_depth: None };

    /// Follows an instruction; `None` if the stack pointer is then unknown.
    fn follow(mut self, effect: Effect) -> Option<Self> {
        match effect {
            Effect::Save { registers, at, grows } => {
                self.depth = self.depth.checked_add(grows)?;
                for (at, register) in (at..).step_by(8).zip(registers) {
                    // A function saves a register once, before it uses it.
                    let register = register.filter(|register| self.saved.slot(*register).is_none());
                    if let Some(register) = register {
                        self.saved = self.saved.saving(register, slot(at - self.depth)?);
                    }
                }
            }
            Effect::MoveSp { by } => self.depth = self.depth.checked_sub(by)?,
            Effect::SetFp { above } => self.fp_depth = Some(self.depth - above),
            Effect::LoseSp | Effect::Restore { .. } => return None,
            _ => {}
        }
        Some(self)
    }

    /// After the last instructions of this code that are a straight line from the start of a function.
    fn after(code: &[u8]) -> Option<Self> {
        let is_before =
            |effect: &Effect| matches!(effect, Effect::Return | Effect::Leave | Effect::Conditional);
        let back = effects(code).rev().take(PROLOGUE).take_while(|effect| !is_before(effect));
        let mut len = 0;
        for effect in back {
            len += 1;
            if effect == Effect::Start {
                break;
            }
        }
        let start = code.len() / 4 - len;
        effects(code).skip(start).try_fold(Self::NEW, Self::follow)
    }
}

/// An offset in words, if it is one.
fn slot(bytes: i32) -> Option<i16> {
    (bytes % 8 == 0).then(|| i16::try_from(bytes / 8).ok())?
}

/// The rule at an address, from the code around it; `None` if it has no shape that is known. `innermost` code was
/// interrupted there; other code has set up its frame.
pub(super) fn cfa_at(image: &Image, address: RelativeAddress, innermost: bool) -> Option<Cfa> {
    // A caller's address is in the middle of its call.
    let address = RelativeAddress(address.0 & !3);
    let before = image.code_before(address, 4 * BODY);
    if innermost {
        let ahead = image.code_at(address, 4 * PROLOGUE);
        if let Some(cfa) = in_prologue(before, ahead).or_else(|| in_epilogue(ahead)) {
            return Some(cfa);
        }
    }
    in_body(before)
}

/// The rule between the first instruction of a function and its first branch, if the function saves x30 there.
fn in_prologue(before: &[u8], ahead: &[u8]) -> Option<Cfa> {
    let saves_lr =
        |effect: Effect| matches!(effect, Effect::Save { registers, .. } if registers.contains(&Some(LR)));
    let is_straight =
        |effect: &Effect| !matches!(effect, Effect::Return | Effect::Leave | Effect::Conditional);
    let Frame { saved, depth, .. } = Frame::after(before)?;
    let in_prologue = saved.slot(LR).is_some() || effects(ahead).take_while(is_straight).any(saves_lr);
    in_prologue.then_some(Cfa { base: SP, offset: depth, ..saved })
}

/// The rule if nothing but a straight line is between here and the return.
fn in_epilogue(ahead: &[u8]) -> Option<Cfa> {
    let mut offset = 0_i32;
    let mut restored = Vec::new();
    for effect in effects(ahead) {
        match effect {
            Effect::Restore { registers, at, shrinks } => {
                let at = offset.checked_add(at)?;
                restored.extend((at..).step_by(8).zip(registers.into_iter().flatten()));
                offset = offset.checked_add(shrinks)?;
            }
            Effect::MoveSp { by } if by > 0 => offset = offset.checked_add(by)?,
            Effect::Return => {
                let start = Cfa::sp_plus(offset);
                return restored
                    .into_iter()
                    .try_fold(start, |cfa, (at, register)| Some(cfa.saving(register, slot(at - offset)?)));
            }
            Effect::Nothing => {}
            _ => return None,
        }
    }
    None
}

/// The rule of code that has set up its frame pointer: relative to it, with the size of the frame.
fn in_body(before: &[u8]) -> Option<Cfa> {
    let behind = effects(before).rev().position(|effect| matches!(effect, Effect::SetFp { .. }))?;
    let (prologue, body) = before.split_at(before.len() - 4 * behind);
    let mut frame = Frame::after(prologue)?;
    // Some compilers save the other registers behind the frame pointer.
    for effect in effects(body).take(PROLOGUE) {
        let Effect::Save { grows: 0, .. } = effect else { break };
        frame = frame.follow(effect)?;
    }
    let offset = frame.fp_depth?;
    let (fp, lr) = (frame.saved.slot(FP)?, frame.saved.slot(LR)?);
    let is_record = i32::from(fp) * 8 == -offset && lr == fp + 1;
    is_record.then_some(Cfa { base: FP, offset, ..frame.saved })
}

/// The distance of the frame pointer above the stack pointer in the body of a function, from its first instructions.
pub(super) fn frame_pointer_distances(code: &[u8]) -> Vec<u64> {
    let mut frame = Frame::NEW;
    for effect in effects(code) {
        match effect {
            // A function may return early before it sets up its frame.
            Effect::Conditional if frame.fp_depth.is_none() => {}
            Effect::Return | Effect::Leave | Effect::Conditional => break,
            _ => match frame.follow(effect) {
                Some(next) => frame = next,
                None => return Vec::new(),
            },
        }
    }
    let distance = frame.fp_depth.and_then(|below| u64::try_from(frame.depth - below).ok());
    distance.into_iter().collect()
}

/// The last instruction of some bytes.
fn last(before: &[u8]) -> Option<u32> {
    before.last_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// `bl`, to an address relative to its own.
pub(super) fn call_target(before: &[u8], return_address: u64) -> Option<u64> {
    let word = last(before).filter(|word| word & 0xfc00_0000 == 0x9400_0000)?;
    Some(return_address.wrapping_sub(4).wrapping_add_signed(4 * i64::from(signed(word, 0, 26))))
}

/// `bl`, `blr`, and `blr` of signed pointers.
pub(super) fn is_after_call(before: &[u8]) -> bool {
    last(before).is_some_and(|word| {
        word & 0xfc00_0000 == 0x9400_0000
            || word & 0xffff_fc1f == 0xd63f_0000
            || word & 0xfeff_f800 == 0xd63f_0800
    })
}

#[cfg(test)]
mod tests {
    use super::super::registers::X19;
    use super::*;

    const STP_FP_LR_PRE_32: u32 = 0xa9be_7bfd;
    const MOV_FP_SP: u32 = 0x9100_03fd;
    const STR_X19_16: u32 = 0xf900_0bf3;
    const LDR_X19_16: u32 = 0xf940_0bf3;
    const LDP_FP_LR_POST_32: u32 = 0xa8c2_7bfd;
    const SUB_SP_64: u32 = 0xd101_03ff;
    const STP_FP_LR_48: u32 = 0xa903_7bfd;
    const ADD_FP_SP_48: u32 = 0x9100_c3fd;
    const LDP_FP_LR_48: u32 = 0xa943_7bfd;
    const ADD_SP_64: u32 = 0x9101_03ff;
    const PACIASP: u32 = 0xd503_233f;
    const AUTIASP: u32 = 0xd503_23bf;
    const BL: u32 = 0x9400_0007;
    const RET: u32 = 0xd65f_03c0;
    const MOV_X19_X0: u32 = 0xaa00_03f3;
    const CBZ: u32 = 0xb400_0040;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn sp(offset: i32, saved: &[(Register, i16)]) -> Cfa {
        saved.iter().fold(Cfa::sp_plus(offset), |cfa, (register, slot)| cfa.saving(*register, *slot))
    }

    /// Interrupted before each instruction of a function whose frame record is at the bottom of its frame (GCC).
    #[test]
    fn each_instruction_of_a_prologue_and_an_epilogue_has_its_rule() {
        let function = [
            PACIASP,
            STP_FP_LR_PRE_32,
            MOV_FP_SP,
            STR_X19_16,
            BL,
            LDR_X19_16,
            LDP_FP_LR_POST_32,
            AUTIASP,
            RET,
        ];
        let bytes = code(&[&[RET][..], &function].concat());
        let at = |index: usize| {
            let (before, ahead) = bytes.split_at(4 * (index + 1));
            in_prologue(before, ahead).or_else(|| in_epilogue(ahead))
        };
        let record = [(FP, -4), (LR, -3)];
        let all = [(FP, -4), (LR, -3), (X19, -2)];
        assert_eq!([at(0), at(1)], [Some(sp(0, &[])); 2], "nothing is saved yet");
        assert_eq!([at(2), at(3)], [Some(sp(32, &record)); 2]);
        assert_eq!(at(4), Some(sp(32, &all)));
        assert_eq!(at(5), Some(sp(32, &all)));
        assert_eq!(at(6), Some(sp(32, &record)), "x19 is restored");
        assert_eq!([at(7), at(8)], [Some(sp(0, &[])); 2], "all is restored");
        let body = in_body(&bytes[..4 * 6]);
        assert_eq!(body, Some(Cfa { base: FP, ..sp(32, &all) }));
    }

    /// The frame record is at the top of the frame (LLVM).
    #[test]
    fn a_frame_record_above_the_locals_gives_the_size_of_the_frame() {
        let function = [SUB_SP_64, STP_FP_LR_48, ADD_FP_SP_48, MOV_X19_X0, CBZ, MOV_X19_X0];
        let bytes = code(&[&[RET][..], &function].concat());
        let in_prologue = |index: usize| in_prologue(&bytes[..4 * (index + 1)], &bytes[4 * (index + 1)..]);
        assert_eq!(in_prologue(1), Some(sp(64, &[])), "the space is reserved, x30 not saved");
        let record = [(FP, -2), (LR, -1)];
        assert_eq!(in_prologue(2), Some(sp(64, &record)));
        assert_eq!(in_body(&bytes), Some(Cfa { base: FP, ..sp(16, &record) }));
        let epilogue = code(&[MOV_X19_X0, LDP_FP_LR_48, ADD_SP_64, RET]);
        assert_eq!(in_epilogue(&epilogue), Some(sp(64, &record)));
        assert_eq!(in_epilogue(&epilogue[8..]), Some(sp(64, &[])));
        assert_eq!(in_epilogue(&code(&[BL, RET])), None);
        assert_eq!((in_body(&code(&[RET, MOV_X19_X0])), in_body(&[])), (None, None));
    }

    #[test]
    fn the_frame_pointer_distance_is_that_of_the_body() {
        assert_eq!(frame_pointer_distances(&code(&[STP_FP_LR_PRE_32, MOV_FP_SP, BL])), [0]);
        assert_eq!(frame_pointer_distances(&code(&[CBZ, SUB_SP_64, STP_FP_LR_48, ADD_FP_SP_48, BL])), [48]);
        let more = [STP_FP_LR_PRE_32, MOV_FP_SP, SUB_SP_64, BL, SUB_SP_64];
        assert_eq!(frame_pointer_distances(&code(&more)), [64]);
        assert!(frame_pointer_distances(&code(&[MOV_X19_X0, RET])).is_empty());
        assert!(frame_pointer_distances(&[1, 2, 3]).is_empty());
    }

    #[test]
    fn calls_are_recognised_by_their_bytes() {
        for call in [BL, 0x97ff_ffed, 0xd63f_0200, 0xd63f_093f, 0xd73f_0921] {
            assert!(is_after_call(&call.to_le_bytes()), "{call:x}");
        }
        for other in [0x1400_0007, RET, 0xd61f_0200, MOV_X19_X0, 0] {
            assert!(!is_after_call(&other.to_le_bytes()), "{other:x}");
        }
        assert!(!is_after_call(&[]));
        assert_eq!(call_target(&code(&[RET, BL]), 0x408), Some(0x404 + 28));
        assert_eq!(call_target(&0x97ff_ffed_u32.to_le_bytes(), 0x3c0), Some(0x370));
        assert_eq!(call_target(&0xd63f_0200_u32.to_le_bytes(), 0x3c0), None);
    }
}
