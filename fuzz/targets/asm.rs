//! Machine code of any bytes, as code of every processor: instructions, blocks, loops, calls, texts, hints, and the
//! alignment of two functions.
//!
//! The first two bytes are settings: the processor, and where the code is cut into two functions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_asm::{Aligned, Body, Branch, Callee, Machine, Processor, Syntax, Target, Weights, align, hints};
use whyslow_profile::{Code, ModuleId, RelativeAddress};

/// Longer functions only repeat these cases, more slowly.
const MOST_BYTES: usize = 2048;

/// What the target of a branch may be: each has its own rules.
const CALLEES: [&str; 6] = [
    "app::parse",
    "memcpy",
    "malloc",
    "core::panicking::panic_bounds_check",
    "core::panicking::panic_const::panic_const_add_overflow",
    "alloc::raw_vec::RawVec<T,A>::grow_one",
];

fuzz_target!(|bytes: &[u8]| {
    let &[settings, cut, ref bytes @ ..] = bytes else { return };
    let bytes = &bytes[..bytes.len().min(MOST_BYTES)];
    let processor = Processor::ALL[usize::from(settings & 1)];
    let syntax = if settings & 2 == 0 { Syntax::Intel } else { Syntax::Att };
    // The end of the address space is an address too.
    let start = if settings & 4 == 0 { 0x1000 } else { u64::MAX - 0x100 };
    let machine = match settings >> 3 & 3 {
        0 => Machine::default(),
        1 => Machine::new(["sse2"]),
        2 => Machine::new(["avx", "avx2"]),
        _ => Machine::new(["avx512f"]),
    };
    let (before, after) = bytes.split_at(bytes.len() * usize::from(cut) / 255);
    let before = checked(processor, start, before, syntax, &machine);
    let after = checked(processor, start, after, syntax, &machine);
    let (mut old, mut new) = (0, 0);
    for row in align(&before, &after) {
        let (in_old, in_new) = match row {
            Aligned::Both(before, after) => (Some(before), Some(after)),
            Aligned::Removed(before) => (Some(before), None),
            Aligned::Added(after) => (None, Some(after)),
        };
        in_old.inspect(|at| assert_eq!(*at, old, "in order, without gaps"));
        in_new.inspect(|at| assert_eq!(*at, new, "in order, without gaps"));
        (old, new) = (old + usize::from(in_old.is_some()), new + usize::from(in_new.is_some()));
    }
    assert_eq!((old, new), (before.instructions.len(), after.instructions.len()));
});

/// A function whose parts fit together.
fn checked(processor: Processor, start: u64, bytes: &[u8], syntax: Syntax, machine: &Machine) -> Body {
    let code = Code { module: ModuleId(0), start: RelativeAddress(start), bytes: bytes.to_vec() };
    let body = Body::new(processor, &code, callee);
    let mut address = start;
    for row in &body.instructions {
        assert_eq!(row.address, address, "no gaps");
        address = row.next();
    }
    assert_eq!(address, body.end());
    let mut instruction = 0;
    for (at, block) in body.blocks.iter().enumerate() {
        assert_eq!(block.instructions.start, instruction, "blocks follow one another");
        instruction = block.instructions.end;
        assert!(block.next.iter().all(|next| *next < body.blocks.len()));
        assert_eq!(body.block_of(block.instructions.start), Some(at));
    }
    assert_eq!(instruction, body.instructions.len());
    for (at, (first, last)) in body.loop_extents().into_iter().enumerate() {
        assert!(first <= last && last < body.instructions.len());
        assert!(body.loops[at].parent.is_none_or(|parent| parent < at), "outer loops come first");
    }
    assert_eq!(body.texts(syntax).len(), body.instructions.len());
    let own = (0..body.instructions.len() as u64).map(|at| at % 7).collect::<Vec<_>>();
    let sampled = Weights { called: own.clone(), missed_branches: own.clone(), own };
    for weights in [Weights::unknown(), sampled] {
        for hint in hints(&body, &weights, machine) {
            assert!(hint.addresses.iter().all(|address| body.instruction_at(*address).is_some()));
            assert!(!hint.sentence.is_empty());
        }
    }
    body
}

/// The function at the target of a branch, for most targets.
fn callee(branch: Branch) -> Option<Callee> {
    let (Target::Code(address) | Target::Slot(address)) = branch.target;
    let name = CALLEES.get((address >> 4) as usize % (CALLEES.len() + 1))?;
    Some(Callee { name: (*name).to_owned(), size: Some(address % 0x200) })
}
