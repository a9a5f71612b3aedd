//! Hints on small pieces of code, each next to nearly the same code that must not have the hint.

use whyslow_profile::{Code, ModuleId, RelativeAddress};

use super::*;
use crate::body::{Callee, Target};
use whyslow_processor::Processor;

const START: u64 = 0x1000;

/// A body that starts at 0x1000. The function at 0x2000 has this name and size.
fn body(bytes: &[u8], name: &str, size: u64) -> Body {
    let code = Code { module: ModuleId(0), start: RelativeAddress(START), bytes: bytes.to_vec() };
    Body::new(Processor::X86_64, &code, |branch| {
        let callee = Callee { name: name.to_owned(), size: Some(size) };
        (branch.target == Target::Code(0x2000)).then_some(callee)
    })
}

fn kinds(body: &Body, weights: &Weights) -> Vec<Kind> {
    hints(body, weights, &Machine::default()).into_iter().map(|hint| hint.kind).collect()
}

/// Hints on code without samples, where every loop counts.
fn found(bytes: &[u8]) -> Vec<Kind> {
    kinds(&body(bytes, "app::other", 200), &Weights::unknown())
}

#[test]
fn an_overflow_check_leads_to_the_panic_of_overflow() {
    // 1: add rax, [rdi+rcx*8]; jo 2; inc rcx; cmp rcx, rsi; jb 1; ret; 2: call 2000
    let bytes = [
        0x48, 0x03, 0x04, 0xcf, 0x70, 0x09, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72, 0xf2, 0xc3, 0xe8, 0xec,
        0x0f, 0, 0,
    ];
    let behind = |name: &str| kinds(&body(&bytes, name, 80), &Weights::unknown());
    let checked = behind("core::panicking::panic_const::panic_const_add_overflow");
    assert!(checked.contains(&Kind::OverflowCheck) && !checked.contains(&Kind::BoundsCheck), "{checked:?}");
    for name in ["app::start_anew", "core::panicking::panic_bounds_check"] {
        assert!(!behind(name).contains(&Kind::OverflowCheck), "{name}");
    }
}

#[test]
fn a_scalar_loop_names_the_check_that_keeps_it_scalar() {
    // The loop of the test above, with `ud2` behind the call.
    let bytes = [
        0x48, 0x03, 0x04, 0xcf, 0x70, 0x09, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72, 0xf2, 0xc3, 0xe8, 0xec,
        0x0f, 0, 0, 0x0f, 0x0b,
    ];
    for (name, cause) in [
        ("core::panicking::panic_const::panic_const_add_overflow", Cause::OverflowChecks),
        ("core::panicking::panic_bounds_check", Cause::IndexChecks),
    ] {
        let found = hints(&body(&bytes, name, 80), &Weights::unknown(), &Machine::default());
        let scalar = found.iter().find(|hint| hint.kind == Kind::ScalarLoop);
        assert_eq!(scalar.and_then(|hint| hint.cause), Some(cause), "{name}: {found:?}");
    }
}

#[test]
fn a_check_counts_even_if_all_samples_fall_after_it() {
    // 0: mov r8d, [rdx+r9]; 4: cmp rsi, r8; 7: jbe 17; 9: add eax, [rdi+r8*4]; d: add r9, 4; 11: cmp rcx, r9; 14: jne 0; 16: ret;
    // 17: call 0x2000
    let bytes = vec![
        0x46, 0x8b, 0x04, 0x0a, 0x4c, 0x39, 0xc6, 0x76, 0x0e, 0x42, 0x03, 0x04, 0x87, 0x49, 0x83, 0xc1, 0x04,
        0x4c, 0x39, 0xc9, 0x75, 0xea, 0xc3, 0xe8, 0xe4, 0x1f, 0, 0,
    ];
    let code = Code { module: ModuleId(0), start: RelativeAddress(0), bytes };
    let body = Body::new(Processor::X86_64, &code, |branch| {
        let name = "core::panicking::panic_bounds_check".to_owned();
        (branch.target == Target::Code(0x2000)).then_some(Callee { name, size: None })
    });
    let mut own = vec![0; body.instructions.len()];
    own[4] = 100;
    let weights = Weights { own, ..Weights::default() };
    let found = hints(&body, &weights, &Machine::default());
    assert_eq!(
        found.iter().map(|hint| (hint.kind, hint.loop_weight)).collect::<Vec<_>>(),
        [(Kind::BoundsCheck, 100)]
    );
}

#[test]
fn a_product_is_not_a_square_root() {
    // 1: sqrtsd xmm0, [rdi+rcx*8]; movsd [rdi+rcx*8], xmm0; inc rcx; cmp rcx, rsi; jb 1; ret
    let mut bytes = [
        0xf2, 0x0f, 0x51, 0x04, 0xcf, 0xf2, 0x0f, 0x11, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72,
        0xee, 0xc3,
    ];
    assert!(found(&bytes).contains(&Kind::SquareRoot));
    // mulsd
    bytes[2] = 0x59;
    assert!(!found(&bytes).contains(&Kind::SquareRoot));
}

#[test]
fn a_scalar_loop_has_its_cause_if_known() {
    // 1: mulsd xmm0, [rdi+rcx*8]; movsd [rdi+rcx*8], xmm0; inc rcx; cmp rcx, rsi; jb 1; ret
    let products = [
        0xf2, 0x0f, 0x59, 0x04, 0xcf, 0xf2, 0x0f, 0x11, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72,
        0xee, 0xc3,
    ];
    // 1: add rax, [rdi+rcx*8]; inc rcx; cmp rcx, rsi; jb 1; ret
    let integers = [0x48, 0x03, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72, 0xf4, 0xc3];
    for (bytes, cause) in [(&products[..], Some(Cause::OrderOfSums)), (&integers[..], None)] {
        let hints = hints(&body(bytes, "", 0), &Weights::unknown(), &Machine::default());
        let scalar = hints.iter().find(|hint| hint.kind == Kind::ScalarLoop).unwrap();
        assert_eq!(scalar.cause, cause, "{}", scalar.sentence);
    }
}

#[test]
fn a_cheap_square_root_gets_no_hint() {
    let bytes = [
        0xf2, 0x0f, 0x51, 0x04, 0xcf, 0xf2, 0x0f, 0x11, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72,
        0xee, 0xc3,
    ];
    let body = body(&bytes, "", 0);
    let with = |own: [u64; 6]| kinds(&body, &Weights { own: own.to_vec(), ..Weights::default() });
    assert!(with([2, 40, 20, 20, 18, 0]).contains(&Kind::SquareRoot), "the next ones wait for it");
    assert!(!with([2, 2, 2, 60, 34, 0]).contains(&Kind::SquareRoot));
}

#[test]
fn a_spill_is_stored_and_loaded_again() {
    // 1: mov [rsp+8], rax; imul rax, rdx; add rbx, rax; mov rax, [rsp+8]; dec rcx; jne 1; ret
    let spilled = [
        0x48, 0x89, 0x44, 0x24, 0x08, 0x48, 0x0f, 0xaf, 0xc2, 0x48, 0x01, 0xc3, 0x48, 0x8b, 0x44, 0x24, 0x08,
        0x48, 0xff, 0xc9, 0x75, 0xea, 0xc3,
    ];
    assert!(found(&spilled).contains(&Kind::Spills));
    // Only loaded. 1: add rbx, [rsp+8]; imul rbx, rdx; dec rcx; jne 1; ret
    let loaded = [0x48, 0x03, 0x5c, 0x24, 0x08, 0x48, 0x0f, 0xaf, 0xda, 0x48, 0xff, 0xc9, 0x75, 0xf2, 0xc3];
    assert!(!found(&loaded).contains(&Kind::Spills));
    // Loaded from another place, [rsp+16].
    let mut elsewhere = spilled;
    elsewhere[16] = 0x10;
    assert!(!found(&elsewhere).contains(&Kind::Spills));
}

#[test]
fn small_callees_and_other_calls_get_different_hints() {
    // 1: call 2000; dec rbx; jne 1; ret
    let bytes = [0xe8, 0xfb, 0x0f, 0, 0, 0x48, 0xff, 0xcb, 0x75, 0xf6, 0xc3];
    let calling = |name: &str, size| kinds(&body(&bytes, name, size), &Weights::unknown());
    assert_eq!(calling("app::get", 48), [Kind::SmallCallee]);
    assert_eq!(calling("app::work", 49), [Kind::CallInLoop]);
    assert_eq!(calling("memcpy", 16), [Kind::MemoryCall]);
}

#[test]
fn a_call_outside_the_innermost_loop_is_not_a_call_in_loop() {
    // 1: call 2000; mov ecx, 8; 2: dec ecx; jne 2; dec rbx; jne 1; ret
    let bytes = [
        0xe8, 0xfb, 0x0f, 0, 0, 0xb9, 8, 0, 0, 0, 0xff, 0xc9, 0x75, 0xfc, 0x48, 0xff, 0xcb, 0x75, 0xed, 0xc3,
    ];
    assert!(!found(&bytes).contains(&Kind::CallInLoop));
}

#[test]
fn a_load_is_not_a_gather() {
    // 1: vpgatherdd ymm0, [rdi+ymm1*4], ymm2; dec rcx; jne 1; ret
    let gather = [0xc4, 0xe2, 0x6d, 0x90, 0x04, 0x8f, 0x48, 0xff, 0xc9, 0x75, 0xf5, 0xc3];
    assert!(found(&gather).contains(&Kind::Gather));
    // 1: vmovdqu ymm0, [rdi+rcx*4]; dec rcx; jne 1; ret
    let load = [0xc5, 0xfe, 0x6f, 0x04, 0x8f, 0x48, 0xff, 0xc9, 0x75, 0xf6, 0xc3];
    assert!(!found(&load).contains(&Kind::Gather));
}

#[test]
fn strides_are_those_of_one_access_in_unrolled_loops_too() {
    // 1: addsd xmm0, [rdi]; addsd xmm0, [rdi+24000]; addsd xmm0, [rdi+48000]; add rdi, 72000; dec rcx; jne 1; ret
    let mut bytes = [
        0xf2, 0x0f, 0x58, 0x07, 0xf2, 0x0f, 0x58, 0x87, 0xc0, 0x5d, 0, 0, 0xf2, 0x0f, 0x58, 0x87, 0x80, 0xbb,
        0, 0, 0x48, 0x81, 0xc7, 0x40, 0x19, 0x01, 0, 0x48, 0xff, 0xc9, 0x75, 0xe0, 0xc3,
    ];
    let sentence = |bytes: &[u8]| {
        let found = hints(&body(bytes, "", 0), &Weights::unknown(), &Machine::default());
        found.into_iter().find(|hint| hint.kind == Kind::StridedAccess).map(|hint| hint.sentence)
    };
    assert!(
        sentence(&bytes)
            .unwrap()
            .contains("is 24000 bytes away from the previous one and uses 8 bytes there")
    );
    // With a step of 72,016 bytes, these are three fields of one record.
    bytes[23] = 0x50;
    assert!(
        sentence(&bytes)
            .unwrap()
            .contains("is 72016 bytes away from the previous one and uses 24 bytes there")
    );
}

#[test]
fn a_loop_that_only_another_thread_can_end_spins() {
    // 1: mov eax, [rdi]; test eax, eax; je 1; ret
    assert!(found(&[0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa, 0xc3]).contains(&Kind::SpinWait));
    // 1: xor eax, eax; lock cmpxchg [rdi], ecx; jne 1; ret
    assert!(found(&[0x31, 0xc0, 0xf0, 0x0f, 0xb1, 0x0f, 0x75, 0xf8, 0xc3]).contains(&Kind::SpinWait));
    // 1: cmp dword [rdi], 0; jne 2; pause; dec ecx; jne 1; 2: ret: it pauses, and gives up in the end
    let pausing = [0x83, 0x3f, 0x00, 0x75, 0x06, 0xf3, 0x90, 0xff, 0xc9, 0x75, 0xf5, 0xc3];
    assert!(found(&pausing).contains(&Kind::SpinWait));
    // 1: mov eax, [rdi+rcx*4]; inc rcx; test eax, eax; je 1; ret: a search
    let search = [0x8b, 0x04, 0x8f, 0x48, 0xff, 0xc1, 0x85, 0xc0, 0x74, 0xf6, 0xc3];
    // 1: mov eax, [rdi]; mov [rsi], eax; test eax, eax; je 1; ret: it writes
    let writes = [0x8b, 0x07, 0x89, 0x06, 0x85, 0xc0, 0x74, 0xf8, 0xc3];
    // 1: lock inc dword [rdi]; dec rcx; jne 1; ret: it counts
    let counts = [0xf0, 0xff, 0x07, 0x48, 0xff, 0xc9, 0x75, 0xf8, 0xc3];
    // 1: call 2000; mov eax, [rdi]; test eax, eax; je 1; ret: the call may work
    let calls = [0xe8, 0xfb, 0x0f, 0, 0, 0x8b, 0x07, 0x85, 0xc0, 0x74, 0xf5, 0xc3];
    for bytes in [&search[..], &writes, &counts, &calls] {
        assert!(!found(bytes).contains(&Kind::SpinWait), "{bytes:x?}");
    }
}

#[test]
fn a_string_instruction_counts_if_it_is_repeated() {
    // 1: mov ecx, 64; rep movsb; dec rbx; jne 1; ret
    let repeated = [0xb9, 0x40, 0, 0, 0, 0xf3, 0xa4, 0x48, 0xff, 0xcb, 0x75, 0xf4, 0xc3];
    assert!(found(&repeated).contains(&Kind::RepeatedString));
    // 1: mov ecx, 64; movsb; dec rbx; jne 1; ret
    let once = [0xb9, 0x40, 0, 0, 0, 0xa4, 0x48, 0xff, 0xcb, 0x75, 0xf5, 0xc3];
    assert!(!found(&once).contains(&Kind::RepeatedString));
}

#[test]
fn a_jump_table_counts_in_a_loop() {
    // 1: movsxd rax, [rdx+rcx*4]; add rax, rdx; jmp rax; inc ecx; jmp 1; dec ecx; jmp 1; ret
    let in_loop = [
        0x48, 0x63, 0x04, 0x8a, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xff, 0xc1, 0xeb, 0xf3, 0xff, 0xc9, 0xeb, 0xef,
        0xc3,
    ];
    assert!(found(&in_loop).contains(&Kind::JumpTable));
    // movsxd rax, [rdx+rcx*4]; add rax, rdx; jmp rax; inc ecx; ret; dec ecx; ret
    let once = [0x48, 0x63, 0x04, 0x8a, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xff, 0xc1, 0xc3, 0xff, 0xc9, 0xc3];
    assert!(!found(&once).contains(&Kind::JumpTable));
}

#[test]
fn branch_misses_decide_which_branch_is_unpredictable() {
    // 1: test byte [rdi+rcx], 1; je 2; inc rax; 2: dec rcx; jne 1; ret
    let bytes = [0xf6, 0x04, 0x0f, 0x01, 0x74, 0x03, 0x48, 0xff, 0xc0, 0x48, 0xff, 0xc9, 0x75, 0xf2, 0xc3];
    let body = body(&bytes, "", 0);
    let missed = |missed_branches: &[u64]| {
        let weights =
            Weights { own: vec![10; 6], missed_branches: missed_branches.to_vec(), ..Weights::default() };
        let found = hints(&body, &weights, &Machine::default()).into_iter();
        let branches = found.filter(|hint| hint.kind == Kind::UnpredictableBranch);
        branches.flat_map(|hint| hint.addresses).collect::<Vec<u64>>()
    };
    assert_eq!(missed(&[0, 30, 40, 0, 2, 0]), [START + 4], "with the instruction behind it");
    assert_eq!(missed(&[0, 0, 0, 0, 0, 0]), [0; 0]);
    assert_eq!(missed(&[]), [0; 0], "nothing was counted");
    assert_eq!(missed(&[90, 5, 5, 0, 0, 0]), [0; 0], "less than a fifth");
}

#[test]
fn ids_are_distinct_and_kebab_case() {
    let mut ids: Vec<&str> = Kind::ALL.iter().map(|kind| kind.id()).collect();
    assert!(ids.iter().all(|id| id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), Kind::ALL.len());
}

/// The hint of this kind, and whether its code says that the usual advice does not fit.
fn cause(bytes: &[u8], kind: Kind, machine: &Machine) -> Option<Option<Cause>> {
    let hints = hints(&body(bytes, "", 0), &Weights::unknown(), machine);
    hints.into_iter().find(|hint| hint.kind == kind).map(|hint| hint.cause)
}

#[test]
fn a_hash_is_no_sum() {
    let of = |bytes: &[u8]| cause(bytes, Kind::SerialChain, &Machine::default());
    // 1: movzx edx, byte [rdi+rcx]; xor rax, rdx; imul rax, r8; inc rcx; cmp rcx, rsi; jb 1; ret
    let hash = [
        0x0f, 0xb6, 0x14, 0x0f, 0x48, 0x31, 0xd0, 0x49, 0x0f, 0xaf, 0xc0, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1,
        0x72, 0xed, 0xc3,
    ];
    // 1: imul rax, r8; movzx edx, byte [rdi+rcx]; add rax, rdx; inc rcx; cmp rcx, rsi; jb 1; ret
    let polynomial = [
        0x49, 0x0f, 0xaf, 0xc0, 0x0f, 0xb6, 0x14, 0x0f, 0x48, 0x01, 0xd0, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1,
        0x72, 0xed, 0xc3,
    ];
    // 1: imul rax, [rdi+rcx*8]; inc rcx; cmp rcx, rsi; jb 1; ret
    let product = [0x48, 0x0f, 0xaf, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72, 0xf3, 0xc3];
    assert_eq!(of(&hash), Some(Some(Cause::Recurrence)));
    assert_eq!(of(&polynomial), Some(Some(Cause::Recurrence)));
    assert_eq!(of(&product), Some(None));
}

#[test]
fn an_automaton_is_no_list() {
    let of = |bytes: &[u8]| cause(bytes, Kind::PointerChase, &Machine::default());
    // 1: movzx edx, byte [rdi+rcx]; add rax, rdx; movzx eax, word [r8+rax*2]; inc rcx; cmp rcx, rsi; jb 1; ret
    let automaton = [
        0x0f, 0xb6, 0x14, 0x0f, 0x48, 0x01, 0xd0, 0x41, 0x0f, 0xb7, 0x04, 0x40, 0x48, 0xff, 0xc1, 0x48, 0x39,
        0xf1, 0x72, 0xec, 0xc3,
    ];
    // 1: mov rax, [rax+8]; inc rcx; test rax, rax; jne 1; ret
    let list = [0x48, 0x8b, 0x40, 0x08, 0x48, 0xff, 0xc1, 0x48, 0x85, 0xc0, 0x75, 0xf4, 0xc3];
    // 1: mov eax, [r8+rax*4]; inc rcx; cmp rcx, rsi; jb 1; ret
    let indices = [0x41, 0x8b, 0x04, 0x80, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xf1, 0x72, 0xf4, 0xc3];
    assert_eq!(of(&automaton), Some(Some(Cause::StateTable)));
    assert_eq!(of(&list), Some(None));
    assert_eq!(of(&indices), Some(None));
}

#[test]
fn a_function_of_a_library_on_the_stack_is_no_pointer_of_the_program() {
    // mov rax, [rip+1ff9]; mov [rsp+8], rax; 1: call [rsp+8]; dec rbx; jne 1; ret
    let library = [
        0x48, 0x8b, 0x05, 0xf9, 0x1f, 0, 0, 0x48, 0x89, 0x44, 0x24, 0x08, 0xff, 0x54, 0x24, 0x08, 0x48, 0xff,
        0xcb, 0x75, 0xf7, 0xc3,
    ];
    assert!(!found(&library).contains(&Kind::IndirectCall));
    // mov rax, [rdi]; mov [rsp+8], rax; 1: call [rsp+8]; dec rbx; jne 1; ret
    let pointer = [
        0x48, 0x8b, 0x07, 0x48, 0x89, 0x44, 0x24, 0x08, 0xff, 0x54, 0x24, 0x08, 0x48, 0xff, 0xcb, 0x75, 0xf7,
        0xc3,
    ];
    assert!(found(&pointer).contains(&Kind::IndirectCall));
}

#[test]
fn wider_vectors_do_not_make_memory_faster() {
    let of = |bytes: &[u8]| cause(bytes, Kind::NarrowVectors, &Machine::new(["avx", "avx2"]));
    // 1: movups xmm0, [rdi+rcx]; addps xmm0, [rsi+rcx]; movups [rdi+rcx], xmm0; add rcx, 16; cmp rcx, rdx; jne 1; ret
    let sums = [
        0x0f, 0x10, 0x04, 0x0f, 0x0f, 0x58, 0x04, 0x0e, 0x0f, 0x11, 0x04, 0x0f, 0x48, 0x83, 0xc1, 0x10, 0x48,
        0x39, 0xd1, 0x75, 0xeb, 0xc3,
    ];
    // 1: movups xmm0, [rdi+rcx]; mulps xmm0, xmm1; addps xmm0, xmm2; mulps xmm0, xmm1; addps xmm3, xmm0; add rcx, 16; …
    let polynomials = [
        0x0f, 0x10, 0x04, 0x0f, 0x0f, 0x59, 0xc1, 0x0f, 0x58, 0xc2, 0x0f, 0x59, 0xc1, 0x0f, 0x58, 0xd8, 0x48,
        0x83, 0xc1, 0x10, 0x48, 0x39, 0xd1, 0x75, 0xe7, 0xc3,
    ];
    assert_eq!(of(&sums), Some(Some(Cause::FewOperations)));
    assert_eq!(of(&polynomials), Some(None));
}

#[test]
fn a_byte_in_every_quarter_of_a_cache_line_is_no_stride() {
    // 1: mov byte [rdi], al; mov byte [rdi+D], al; [rdi+2D]; [rdi+3D]; add rdi, 4D; cmp rdi, rsi; jb 1; ret
    let unrolled = |distance: u8| {
        let store = |times: u8| vec![0x88, 0x87, times * distance, 0, 0, 0];
        let stores: Vec<u8> = (0..4).flat_map(store).collect();
        let step = u32::from(distance) * 4;
        [&stores[..], &[0x48, 0x81, 0xc7], &step.to_le_bytes(), &[0x48, 0x39, 0xf7, 0x72, 0xdc, 0xc3]]
            .concat()
    };
    assert!(!found(&unrolled(16)).contains(&Kind::StridedAccess), "all lines are used");
    assert!(found(&unrolled(80)).contains(&Kind::StridedAccess));
}

#[test]
fn an_index_from_data_is_checked_for_a_reason() {
    let cause = |bytes: &[u8]| {
        let body = body(bytes, "core::panicking::panic_bounds_check", 80);
        let hints = hints(&body, &Weights::unknown(), &Machine::default());
        hints.into_iter().find(|hint| hint.kind == Kind::BoundsCheck).map(|hint| hint.cause)
    };
    // 0: cmp rcx, rsi; 3: jae 12; 5: add rax, [rdi+rcx*8]; 9: inc rcx; c: cmp rcx, rdx; f: jb 0; 11: ret; 12: call 2000
    let counter = [
        0x48, 0x39, 0xf1, 0x73, 0x0d, 0x48, 0x03, 0x04, 0xcf, 0x48, 0xff, 0xc1, 0x48, 0x39, 0xd1, 0x72, 0xef,
        0xc3, 0xe8, 0xe9, 0x0f, 0, 0,
    ];
    assert_eq!(cause(&counter), Some(None));
    // The same, but each address comes from the previous load: 5: mov rdi, [rdi+rcx*8]
    let mut chased = counter;
    (chased[6], chased[7]) = (0x8b, 0x3c);
    assert_eq!(cause(&chased), Some(Some(Cause::HiddenByChain)));
    // 0: movzx r8d, byte [rdx]; 4: cmp r8, rsi; 7: jae 16; 9: add rax, [rdi+r8*8]; d: inc rdx; 10: cmp rdx, rcx;
    // 13: jb 0; 15: ret; 16: call 2000
    let loaded = [
        0x44, 0x0f, 0xb6, 0x02, 0x49, 0x39, 0xf0, 0x73, 0x0d, 0x4a, 0x03, 0x04, 0xc7, 0x48, 0xff, 0xc2, 0x48,
        0x39, 0xca, 0x72, 0xeb, 0xc3, 0xe8, 0xe5, 0x0f, 0, 0,
    ];
    assert_eq!(cause(&loaded), Some(Some(Cause::IndexFromData)));
    // A merge: 0: cmp rcx, rsi; 3: jae 1a; 5: mov rax, [rdi+rcx*8]; 9: cmp rax, rbx; c: adc rcx, 0; 10: dec rdx;
    // 13: jne 0; 15: ret; 16: nop x4; 1a: call 2000
    let merge = [
        0x48, 0x39, 0xf1, 0x73, 0x15, 0x48, 0x8b, 0x04, 0xcf, 0x48, 0x39, 0xd8, 0x48, 0x83, 0xd1, 0x00, 0x48,
        0xff, 0xca, 0x75, 0xeb, 0xc3, 0x90, 0x90, 0x90, 0x90, 0xe8, 0xe1, 0x0f, 0, 0,
    ];
    assert_eq!(cause(&merge), Some(Some(Cause::IndexFromData)));
}

#[test]
fn a_loop_that_asks_and_pauses_waits_for_another_thread() {
    // 0: call 2000; 5: test eax, eax; 7: jne d; 9: pause; b: jmp 0; d: ret
    let asks = [0xe8, 0xfb, 0x0f, 0, 0, 0x85, 0xc0, 0x75, 0x04, 0xf3, 0x90, 0xeb, 0xf3, 0xc3];
    assert!(found(&asks).contains(&Kind::SpinWait));
    let mut works = asks;
    // nop; nop
    (works[9], works[10]) = (0x90, 0x90);
    assert!(!found(&works).contains(&Kind::SpinWait));
}
