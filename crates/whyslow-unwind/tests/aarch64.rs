//! AArch64 rules on a real program: tables, stubs, and code without tables, interrupted before each instruction.
//! `whyslow-formats` has the program, its source, and a recording of it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use whyslow_processor::Processor;
use whyslow_unwind::aarch64::{Cfa, FP, LR, SP, X19};
use whyslow_unwind::{
    Aarch64, Arch, Cfi, Image, Registers, RelativeAddress, Rule, Step, StepError, Unwinder, X86_64,
};

// Addresses in the program.
const PLT: u64 = 0x340;
const START: u64 = 0x3b4;
const AUTHENTICATED: u64 = 0x3d0;
const FRAMED: u64 = 0x420;
const UNTABLED: u64 = 0x4d0;

// The caller's registers.
const RETURN: u64 = 0xaaaa_0000_04b8;
const CALLER_SP: u64 = 0xffff_e000;
const CALLER_FP: u64 = 0xffff_e100;
const CALLER_X19: u64 = 19;

fn image() -> Image {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../whyslow-formats/tests/samples/aarch64");
    Image::open(&samples.join("chain")).unwrap()
}

fn unwinder() -> Unwinder<Aarch64, ()> {
    Unwinder::new(Some(image()))
}

/// Steps out of code that was interrupted at an address.
fn step(
    address: u64,
    [sp, fp, lr]: [u64; 3],
    memory: &dyn Fn(u64) -> Option<u64>,
) -> Result<Registers<Aarch64>, StepError> {
    let mut unwinder = unwinder();
    let relative = RelativeAddress(address);
    let (found, ()) = unwinder.find(relative, |_| ());
    let mut registers = Registers::new(address, sp, fp);
    registers.set(LR, lr);
    registers.set(X19, CALLER_X19);
    let step = unwinder.step(found, relative, true, &mut registers, &mut { memory })?;
    assert_eq!(step, Step::Caller);
    Ok(registers)
}

#[track_caller]
fn is_caller(registers: &Registers<Aarch64>, at: &str) {
    assert_eq!((registers.ip(), registers.get(SP)), (RETURN, Some(CALLER_SP)), "{at}");
    assert_eq!((registers.get(FP), registers.get(X19)), (Some(CALLER_FP), Some(CALLER_X19)), "{at}");
    assert_eq!(registers.get(LR), None, "{at}");
}

/// `stp x29, x30, [sp, #-32]!`, `mov x29, sp`, `str x19, [sp, #16]` … `ldr`, `ldp`, `ret`: once with tables, once
/// without.
#[test]
fn a_frame_is_left_from_each_of_its_instructions() {
    const LEN: u64 = 0x54;
    let stack = |address: u64| match address.wrapping_sub(CALLER_SP - 32) {
        0 => Some(CALLER_FP),
        8 => Some(RETURN),
        16 => Some(CALLER_X19),
        24 => Some(0),
        _ => None,
    };
    let (inside, changed) = (CALLER_SP - 32, 0xdead);
    for start in [FRAMED, UNTABLED] {
        for at in (0..LEN).step_by(4) {
            let registers = match at {
                0 | 0x50 => [CALLER_SP, CALLER_FP, RETURN],
                4 => [inside, CALLER_FP, RETURN],
                _ => [inside, inside, changed],
            };
            is_caller(&step(start + at, registers, &stack).unwrap(), &format!("{start:x}+{at:x}"));
        }
    }
    // As a caller: the address in its call of `leaf`.
    let call = RelativeAddress(UNTABLED + 0x3f);
    let mut unwinder = unwinder();
    let (found, ()) = unwinder.find(call, |_| ());
    assert_eq!(found.rule, Rule::Unknown);
    let mut registers = Registers::new(call.0 + 1, inside, inside);
    assert_eq!(unwinder.step(found, call, false, &mut registers, &mut { stack }), Ok(Step::Caller));
    assert_eq!((registers.ip(), registers.sp(), registers.fp()), (RETURN, CALLER_SP, CALLER_FP));
}

/// `paciasp`, `stp x19, x30, [sp, #-16]!` … `ldp`, `autiasp`, `ret`: the frame pointer is not touched.
#[test]
fn a_signed_return_address_is_followed_by_tables_alone() {
    const SIGNED: u64 = 0x0055 << 48 | RETURN;
    let stack = |address: u64| match address.wrapping_sub(CALLER_SP - 16) {
        0 => Some(CALLER_X19),
        8 => Some(SIGNED),
        _ => None,
    };
    for at in (0..0x4c).step_by(4) {
        let (sp, lr) = match at {
            0 | 0x48 => (CALLER_SP, RETURN),
            4 | 0x44 => (CALLER_SP, SIGNED),
            _ => (CALLER_SP - 16, 0xdead),
        };
        let registers = step(AUTHENTICATED + at, [sp, CALLER_FP, lr], &stack);
        is_caller(&registers.unwrap(), &format!("+{at:x}"));
    }
}

#[test]
fn stubs_and_the_start_have_their_rules() {
    let image = image();
    assert_eq!(image.processor(), Processor::Aarch64);
    let mut cfi = Cfi::default();
    let mut rule = |address: u64| cfi.find::<Aarch64>(&image, RelativeAddress(address)).rule;
    let mut pushed = Cfa { offset: 16, ..Cfa::FRAMELESS };
    pushed.slots[11] = -1;
    assert_eq!(rule(PLT), Aarch64::FRAMELESS);
    assert_eq!((rule(PLT + 4), rule(PLT + 16)), (Rule::Cfa(pushed), Rule::Cfa(pushed)));
    assert_eq!((rule(PLT + 0x20), rule(PLT + 0x2c)), (Aarch64::FRAMELESS, Aarch64::FRAMELESS));
    assert_eq!(rule(START), Rule::EndOfStack);
    assert_eq!(rule(UNTABLED), Rule::Unknown);
}

#[test]
fn the_frame_pointer_of_a_waiting_thread_follows_from_the_prologue() {
    let mut unwinder = unwinder();
    assert_eq!(unwinder.frame_pointer_distances(RelativeAddress(FRAMED + 0x3c)), [0]);
    assert!(unwinder.frame_pointer_distances(RelativeAddress(AUTHENTICATED + 0x34)).is_empty());
}

#[test]
fn code_of_another_processor_has_no_rules() {
    let mut unwinder = Unwinder::<X86_64, ()>::new(Some(image()));
    assert!(unwinder.image().is_none());
    assert_eq!(unwinder.find(RelativeAddress(FRAMED), |_| ()).0.rule, Rule::Unknown);
}
