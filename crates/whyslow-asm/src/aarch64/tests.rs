//! Functions compiled by clang 14: `clang --target=aarch64-linux-gnu -O2 -fno-vectorize -fno-unroll-loops
//! -c`, and `saxpy` without `-fno-vectorize`.

use proptest::prelude::*;
use whyslow_profile::{Code, ModuleId, RelativeAddress};

use crate::{Body, Callee, Kind, Machine, Processor, Syntax, Target, Weights, hints};

fn body(words: &[u32]) -> Body {
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let code = Code { module: ModuleId(0), start: RelativeAddress(0x1000), bytes };
    Body::new(Processor::Aarch64, &code, |branch| {
        let name = match branch.target {
            // In an object file, `bl` branches to itself until it is linked.
            Target::Code(_) if branch.is_call => "memcpy",
            Target::Slot(0x2_0010) => "malloc",
            _ => return None,
        };
        Some(Callee { name: name.to_owned(), size: None })
    })
}

fn kinds(words: &[u32]) -> Vec<Kind> {
    let machine = Machine::new(["asimd"]);
    hints(&body(words), &Weights::unknown(), &machine).into_iter().map(|hint| hint.kind).collect()
}

/// float s = 0; for (i = 0; i < n; i++) s += v[i];
const SUM_FLOATS: [u32; 7] =
    [0x2f00_e400, 0xb400_00a1, 0xbc40_4401, 0xf100_0421, 0x1e21_2800, 0x54ff_ffa1, 0xd65f_03c0];
/// for (i = 0; i < n; i++) s += v[i] / by;
const DIVIDE: [u32; 9] = [
    0xaa1f_03e8,
    0xb400_00c1,
    0xf840_8409,
    0xf100_0421,
    0x9ac2_0929,
    0x8b08_0128,
    0x54ff_ff81,
    0xaa08_03e0,
    0xd65f_03c0,
];
/// for (i = 0; i < n; i += 64) s += v[i];
const STRIDED: [u32; 13] = [
    0xb400_0141,
    0xaa1f_03e9,
    0x2a1f_03e8,
    0xb869_780a,
    0x9101_0129,
    0xeb01_013f,
    0x0b08_0148,
    0x54ff_ff83,
    0x2a08_03e0,
    0xd65f_03c0,
    0x2a1f_03e8,
    0x2a08_03e0,
    0xd65f_03c0,
];
/// while (l) { n += 1; l = l->next; }
const CHASE: [u32; 7] =
    [0xaa1f_03e8, 0xb400_0080, 0xf940_0000, 0x9100_0508, 0xb5ff_ffc0, 0xaa08_03e0, 0xd65f_03c0];
/// for (i = 0; i < n; i++) for (j = 0; j < m; j++) v[i] += f(j);
const NESTED: [u32; 32] = [
    0xa9bc_7bfd,
    0xa901_5ff8,
    0x9100_03fd,
    0xa902_57f6,
    0xa903_4ff4,
    0xb400_02c2,
    0xaa03_03f3,
    0xaa02_03f4,
    0xaa01_03f5,
    0xaa00_03f6,
    0xaa1f_03f8,
    0x1400_0004,
    0x9100_0718,
    0xeb14_031f,
    0x5400_01a0,
    0xb4ff_ffb3,
    0xaa1f_03f7,
    0xaa17_03e0,
    0xd63f_02c0,
    0xd37d_f308,
    0x9100_06f7,
    0xeb17_027f,
    0xf868_6aa9,
    0x8b00_0129,
    0xf828_6aa9,
    0x54ff_ff01,
    0x17ff_fff2,
    0xa943_4ff4,
    0xa942_57f6,
    0xa941_5ff8,
    0xa8c4_7bfd,
    0xd65f_03c0,
];
/// for (i = 0; i < n; i++) memcpy(to + i * 512, from + i * 512, 512);
const COPIES: [u32; 20] = [
    0xa9bd_7bfd,
    0xf900_0bf5,
    0x9100_03fd,
    0xa902_4ff4,
    0xb400_0182,
    0xaa02_03f3,
    0xaa01_03f4,
    0xaa00_03f5,
    0xaa15_03e0,
    0xaa14_03e1,
    0x5280_4002,
    0x9400_0000,
    0xf100_0673,
    0x9108_02b5,
    0x9108_0294,
    0x54ff_ff21,
    0xa942_4ff4,
    0xf940_0bf5,
    0xa8c3_7bfd,
    0xd65f_03c0,
];
/// The vector loop of: for (i = 0; i < n; i++) y[i] += a * x[i];
const SAXPY_LOOP: [u32; 7] =
    [0x3cc1_0562, 0x3dc0_0143, 0xf100_1129, 0x4e21_cc43, 0x3c81_0543, 0x54ff_ff61, 0xd65f_03c0];

#[test]
fn instructions_are_written_as_llvm_writes_them() {
    // `llvm-objdump -d` prints `b.ne 0x8 <sum_floats+0x8>`, and decimal numbers.
    let texts = body(&SUM_FLOATS).texts(Syntax::Intel);
    assert_eq!(texts[2], "ldr s1, [x0], #0x4");
    assert_eq!(texts[4], "fadd s0, s0, s1");
    assert_eq!(texts[5], "b.ne 0x1008 <+0x8>");
    assert_eq!(texts[1], "cbz x1, 0x1018 <+0x18>");
    assert_eq!(texts[6], "ret");
}

#[test]
fn loops_and_calls_are_found() {
    let nested = body(&NESTED);
    let loops: Vec<(u32, bool)> =
        nested.loops.iter().map(|found| (found.depth, found.is_innermost)).collect();
    assert_eq!(loops, [(1, false), (2, true)]);
    let [call] = &nested.calls[..] else { panic!("{:?}", nested.calls) };
    assert!(call.is_indirect() && nested.loop_of(call.instruction) == Some(1));
    let copies = body(&COPIES);
    let [call] = &copies.calls[..] else { panic!("{:?}", copies.calls) };
    assert_eq!((call.name(), call.third_argument), (Some("memcpy"), Some(512)));
}

#[test]
fn a_slot_addressed_in_two_steps_has_its_name() {
    // adrp x8, 0x20000; ldr x8, [x8, #0x10]; blr x8
    let body = body(&[0xf000_00e8, 0xf940_0908, 0xd63f_0100]);
    let [call] = &body.calls[..] else { panic!("{:?}", body.calls) };
    assert_eq!((call.name(), call.target), (Some("malloc"), Some(Target::Slot(0x2_0010))));
}

#[test]
fn hints_match_the_source() {
    assert_eq!(kinds(&SUM_FLOATS), [Kind::ScalarLoop, Kind::SerialChain]);
    assert_eq!(kinds(&DIVIDE), [Kind::ScalarLoop, Kind::Division]);
    assert_eq!(kinds(&STRIDED), [Kind::StridedAccess]);
    assert_eq!(kinds(&CHASE), [Kind::PointerChase]);
    assert_eq!(kinds(&NESTED), [Kind::IndirectCall]);
    assert_eq!(kinds(&COPIES), [Kind::MemoryCall]);
    assert_eq!(kinds(&SAXPY_LOOP), [], "vectors of 16 bytes, and products added at once");
}

proptest! {
    #[test]
    fn any_words_become_a_body_without_gaps(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let code = Code { module: ModuleId(0), start: RelativeAddress(0), bytes };
        let body = Body::new(Processor::Aarch64, &code, |_| None);
        prop_assert_eq!(body.instructions.len(), code.bytes.len().div_ceil(4));
        prop_assert!(body.texts(Syntax::Intel).iter().all(|text| !text.is_empty()));
        hints(&body, &Weights::unknown(), &Machine::new(["asimd"]));
    }
}
