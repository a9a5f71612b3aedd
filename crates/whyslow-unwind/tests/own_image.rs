//! Tests on this test's own executable: real tables of the current linker, intact and damaged.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use whyslow_unwind::x86_64::{Cfa, RSP};
use whyslow_unwind::{Aarch64, Arch, Cfi, Image, Registers, RelativeAddress, Rule, Step, Unwinder, X86_64};

/// The number of AArch64 in ELF headers.
const EM_AARCH64: u16 = 183;

#[inline(never)]
extern "C" fn specimen(x: u64) -> u64 {
    std::hint::black_box(x) + 1
}

fn own_bytes() -> Vec<u8> {
    std::fs::read("/proc/self/exe").unwrap()
}

/// The executable mapping of this program that contains an address: start, file offset.
fn mapping_of(address: u64) -> (u64, u64) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let lines = maps.lines().filter(|line| line.contains(" r-xp "));
    let mut lines = lines.filter_map(|line| {
        let mut words = line.split(' ');
        let (start, end) = words.next()?.split_once('-')?;
        let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
        let offset = u64::from_str_radix(words.nth(1)?, 16).ok()?;
        (start..end).contains(&address).then_some((start, offset))
    });
    lines.next().unwrap()
}

/// A linker may pack two segments into one page of the file; taking the wrong one shifts every address.
#[test]
fn a_running_function_is_found_at_its_own_entry() {
    let image = Image::open("/proc/self/exe".as_ref()).unwrap();
    let address = specimen as *const () as u64;
    let (start, offset) = mapping_of(address);
    let relative = image.relative_address(offset).unwrap().plus(address - start);
    let code = image.code_at(relative, 16);
    #[expect(unsafe_code, reason = "compares the file with the running code")]
    // SAFETY: the function's code is mapped and longer than this.
    let running = unsafe { std::slice::from_raw_parts(address as *const u8, code.len()) };
    assert_eq!(code, running);
    // At the first instruction of any function, only the return address is on the stack.
    let mut cfi = Cfi::default();
    let found = cfi.find::<X86_64>(&image, relative);
    assert!(
        matches!(found.rule, Rule::Cfa(Cfa { base: RSP, offset: 8, .. })),
        "{:?} at {relative:x?}; {}",
        found,
        specimen(1)
    );
}

#[test]
fn a_step_reads_the_return_address_and_moves_the_stack_pointer() {
    let image = Image::open("/proc/self/exe".as_ref()).unwrap();
    let address = specimen as *const () as u64;
    let (start, offset) = mapping_of(address);
    let relative = image.relative_address(offset).unwrap().plus(address - start);
    let mut unwinder = Unwinder::<X86_64, ()>::new(Some(image));
    let (found, ()) = unwinder.find(relative, |_| ());
    let mut registers = Registers::new(address, 0x7000, 0x1234);
    let mut memory = |address| (address == 0x7000).then_some(0xabcd);
    let step = unwinder.step(found, relative, true, &mut registers, &mut memory);
    assert_eq!(step, Ok(Step::Caller));
    assert_eq!((registers.ip(), registers.sp(), registers.fp()), (0xabcd, 0x7008, 0x1234));
}

#[test]
fn files_that_are_not_programs_are_errors() {
    for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 4096]] {
        assert!(Image::from_bytes(bytes.to_vec()).is_err());
    }
    assert!(Image::open("/".as_ref()).is_err());
    assert!(Image::open("/dev/zero".as_ref()).is_err(), "endless files are not read");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Headers and unwind tables with flipped bytes: an answer or an error, never a panic, never a hang.
    #[test]
    fn damaged_files_never_panic_or_hang(
        in_header in prop::collection::vec((0usize..4096, any::<u8>()), 0..4),
        in_tables in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        addresses in prop::collection::vec(any::<u32>(), 20),
        truncated_to in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = own_bytes();
        bytes.truncate(2 << 20);
        for (at, value) in in_header {
            bytes[at] = value;
        }
        let len = bytes.len();
        for (at, value) in in_tables {
            bytes[at.index(len)] = value;
        }
        if let Some(end) = truncated_to {
            bytes.truncate(end.index(len));
        }
        survives::<X86_64>(bytes.clone(), &addresses);
        if let Some(machine) = bytes.get_mut(18..20) {
            machine.copy_from_slice(&EM_AARCH64.to_le_bytes());
        }
        survives::<Aarch64>(bytes, &addresses);
    }
}

/// Unwinds from some addresses of a file.
fn survives<A: Arch>(bytes: Vec<u8>, addresses: &[u32]) {
    let Ok(image) = Image::from_bytes(bytes) else { return };
    let mut unwinder = Unwinder::<A, ()>::new(Some(image));
    for address in addresses {
        let address = u64::from(*address) % (4 << 20);
        let relative = RelativeAddress(address);
        let (found, ()) = unwinder.find(relative, |_| ());
        for innermost in [true, false] {
            let mut registers = Registers::new(address, 0x7000, 0x7100);
            let mut memory = |address: u64| Some(address ^ 0x5555);
            let _ = unwinder.step(found, relative, innermost, &mut registers, &mut memory);
            let _ = unwinder.frame_pointer_distances(relative);
        }
    }
}

/// A table that claims more rows than any file can hold is ignored; its functions are found without it.
#[test]
fn ignores_a_search_table_with_an_impossible_length() {
    use object::{Object as _, ObjectSection as _};
    const UDATA8: u8 = 4;
    let mut bytes = own_bytes();
    let file = object::File::parse(&*bytes).unwrap();
    let (at, _) = file.section_by_name(".eh_frame_hdr").unwrap().file_range().unwrap();
    let (at, relative) = (at as usize, {
        let (start, offset) = mapping_of(specimen as *const () as u64);
        let image = Image::open("/proc/self/exe".as_ref()).unwrap();
        image.relative_address(offset).unwrap().plus(specimen as *const () as u64 - start)
    });
    // Version, three encodings, the address of .eh_frame, the number of rows.
    bytes[at + 2] = UDATA8;
    bytes[at + 8..at + 16].copy_from_slice(&(u64::MAX / 3).to_le_bytes());
    let image = Image::from_bytes(bytes).unwrap();
    let found = Cfi::default().find::<X86_64>(&image, relative);
    assert!(matches!(found.rule, Rule::Cfa(Cfa { base: RSP, offset: 8, .. })), "{found:?}");
}
