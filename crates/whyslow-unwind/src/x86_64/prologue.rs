//! Code without unwind information: follows the frame pointer, and checks the instructions to know whether it
//! is set up yet.

use iced_x86::Register::{RBP, RSP};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic, OpKind};

use super::rule::Cfa;

const PUSH_RBP: u8 = 0x55;
const MOV_RBP_RSP: [&[u8]; 2] = [&[0x48, 0x89, 0xe5], &[0x48, 0x8b, 0xec]];
const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
const RET: &[u8] = &[0xc3];
const REP_RET: &[u8] = &[0xf3, 0xc3];

/// The rule for the innermost frame, from the instructions it is about to execute.
pub(super) fn cfa_at(code: &[u8]) -> Cfa {
    let code_after_endbr = code.strip_prefix(ENDBR64);
    if code_after_endbr.unwrap_or(code).first() == Some(&PUSH_RBP) || code_after_endbr.is_some() {
        // The first instruction: only the return address is on the stack.
        return Cfa::FRAMELESS;
    }
    if MOV_RBP_RSP.iter().any(|mov| code.starts_with(mov)) {
        return Cfa::PUSHED;
    }
    if code.starts_with(RET) || code.starts_with(REP_RET) {
        return Cfa::FRAMELESS;
    }
    Cfa::FRAME_POINTER
}

/// The distances of the frame pointer above the stack pointer in the body of a function, from its first
/// instructions; several if the function aligns its stack. Empty if it does not begin by setting up a frame
/// pointer. Other instructions may be in between, up to the first call, jump or return.
///
/// ```text
/// push rbp; mov rbp, rsp              the distance is 0
/// push r                              8 more
/// sub rsp, n                          n more
/// and rsp, -n                         0 to n - 8 more
/// ```
pub(super) fn frame_pointer_distances(code: &[u8]) -> Vec<u64> {
    let (mut is_set, mut distance, mut slack) = (false, 0u64, 0u64);
    for instruction in Decoder::new(64, code, DecoderOptions::NONE) {
        let writes_sp = instruction.op0_kind() == OpKind::Register && instruction.op0_register() == RSP;
        let by = instruction.try_immediate(1).unwrap_or(0);
        match instruction.mnemonic() {
            Mnemonic::Mov if instruction.op0_register() == RBP && instruction.op1_register() == RSP => {
                is_set = true;
            }
            Mnemonic::Push if is_set => distance += 8,
            Mnemonic::Sub if is_set && writes_sp && by > 0 => distance = distance.saturating_add(by),
            // Some compilers add -128, which is shorter to encode.
            Mnemonic::Add if is_set && writes_sp => distance = distance.saturating_add(by.wrapping_neg()),
            Mnemonic::And if is_set && writes_sp => slack = slack.max(by.wrapping_neg()),
            // A function may return early before it sets up its frame.
            _ if !is_set && instruction.flow_control() == FlowControl::ConditionalBranch => {}
            _ if writes_sp || instruction.flow_control() != FlowControl::Next => break,
            _ => {}
        }
    }
    let slacks = (0..slack.clamp(8, 4096)).step_by(8);
    slacks.filter(|_| is_set).map(|slack| distance.saturating_add(slack)).collect()
}

/// The address that a direct call leads to, from the bytes that end at its return address.
pub(super) fn call_target(before: &[u8], return_address: u64) -> Option<u64> {
    let [.., 0xe8, a, b, c, d] = *before else { return None };
    Some(return_address.wrapping_add_signed(i64::from(i32::from_le_bytes([a, b, c, d]))))
}

/// Whether the bytes that end at a return address can be a call instruction.
///
/// ```text
/// e8 rel32                 call rel32
/// [41] ff /2 ...           call r/m64, 2 to 8 bytes, by addressing mode
/// ```
pub(super) fn is_after_call(before: &[u8]) -> bool {
    let at = |back: usize| before.len().checked_sub(back).map(|index| before[index]);
    if at(5) == Some(0xe8) {
        return true;
    }
    // (bytes from the ff to the end, modrm.mod, modrm.rm or None for any without a SIB byte)
    let modrm = |back: usize| (at(back) == Some(0xff)).then(|| at(back - 1)).flatten();
    let is_call = |modrm: u8| (modrm >> 3) & 7 == 2;
    let shape = |back: usize, wanted: fn(u8, u8) -> bool| {
        modrm(back).is_some_and(|modrm| is_call(modrm) && wanted(modrm >> 6, modrm & 7))
    };
    shape(2, |mode, rm| mode == 3 || (mode == 0 && rm != 4 && rm != 5))
        || shape(3, |mode, rm| (mode == 1 && rm != 4) || (mode == 0 && rm == 4))
        || shape(4, |mode, rm| mode == 1 && rm == 4)
        || shape(6, |mode, rm| (mode == 2 && rm != 4) || (mode == 0 && rm == 5))
        || shape(7, |mode, rm| rm == 4 && (mode == 2 || mode == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_pointer_distance_is_the_sum_of_pushes_and_subtractions() {
        // push rbp; mov rbp, rsp; push r15; push rbx; mov rbx, rdi; sub rsp, 0x28; call
        let usual = [
            0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x53, 0x48, 0x89, 0xfb, 0x48, 0x83, 0xec, 0x28, 0xe8, 0, 0,
            0, 0,
        ];
        assert_eq!(frame_pointer_distances(&usual), [16 + 0x28]);
        // endbr64; push rbp; mov rbp, rsp; sub rsp, 0x1230; ret
        let large =
            [0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, 0x30, 0x12, 0, 0, 0xc3];
        assert_eq!(frame_pointer_distances(&large), [0x1230]);
        // push rbp; mov rbp, rsp; push rbx; and rsp, -32; sub rsp, 0x40; ret
        let aligned = [0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xe4, 0xe0, 0x48, 0x83, 0xec, 0x40, 0xc3];
        assert_eq!(frame_pointer_distances(&aligned), [72, 80, 88, 96]);
        // push rbp; mov r11, rsi; mov rbp, rsp; push r15; mov r8, -1; sub rsp, 0x68; mov [rbp-0x80], rdx; call
        let mixed = [
            0x55, 0x49, 0x89, 0xf3, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x49, 0xc7, 0xc0, 0xff, 0xff, 0xff, 0xff,
            0x48, 0x83, 0xec, 0x68, 0x48, 0x89, 0x55, 0x80, 0xe8, 0, 0, 0, 0, 0x53,
        ];
        assert_eq!(frame_pointer_distances(&mixed), [8 + 0x68]);
        assert!(frame_pointer_distances(&[0x53, 0xc3]).is_empty());
        assert!(frame_pointer_distances(&[]).is_empty());
    }

    #[test]
    fn direct_calls_have_a_target() {
        assert_eq!(call_target(&[0x90, 0xe8, 0x10, 0, 0, 0], 0x1000), Some(0x1010));
        assert_eq!(call_target(&[0xe8, 0xf0, 0xff, 0xff, 0xff], 0x1000), Some(0xff0));
        assert_eq!(call_target(&[0xff, 0x15, 1, 2, 3, 4], 0x1000), None);
    }

    #[test]
    fn calls_are_recognised_by_their_bytes() {
        for call in [
            &[0xe8, 1, 2, 3, 4][..],
            &[0xff, 0xd0],                   // call rax
            &[0x41, 0xff, 0xd7],             // call r15
            &[0xff, 0x10],                   // call [rax]
            &[0xff, 0x50, 0x18],             // call [rax+0x18]
            &[0xff, 0x54, 0x24, 0x08],       // call [rsp+8]
            &[0xff, 0x15, 1, 2, 3, 4],       // call [rip+x]
            &[0xff, 0x90, 1, 2, 3, 4],       // call [rax+x]
            &[0xff, 0x94, 0x24, 1, 2, 3, 4], // call [rsp+x]
            &[0xff, 0x14, 0xc8],             // call [rax+rcx*8]
            &[0xff, 0x14, 0xc5, 1, 2, 3, 4], // call [rax*8+x]
        ] {
            assert!(is_after_call(call), "{call:x?}");
        }
        for other in [&[][..], &[0x90; 8], &[0xff, 0xe0], &[0x48, 0x89, 0xe5], &[0xc3]] {
            assert!(!is_after_call(other), "{other:x?}");
        }
    }

    #[test]
    fn the_frame_pointer_is_trusted_only_when_it_is_set_up() {
        assert_eq!(cfa_at(&[0x55, 0x48, 0x89, 0xe5]), Cfa::FRAMELESS);
        assert_eq!(cfa_at(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55]), Cfa::FRAMELESS);
        assert_eq!(cfa_at(&[0x48, 0x89, 0xe5, 0x90]), Cfa::PUSHED);
        assert_eq!(cfa_at(&[0x5d, 0xc3]), Cfa::FRAME_POINTER);
        assert_eq!(cfa_at(&[0xc3]), Cfa::FRAMELESS);
        assert_eq!(cfa_at(&[0x90]), Cfa::FRAME_POINTER);
    }
}
