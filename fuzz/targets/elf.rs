//! ELF files: headers, notes, sections, and the unwind tables of every part of their code.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_elf::Elf;
use whyslow_unwind::{Image, Unwinder};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(elf) = Elf::parse(bytes) {
        let _ = (elf.debuglink(), elf.debugaltlink(), elf.has_debug_info(), elf.has_symbols());
        let _ = elf.section(".debug_info");
    }
    let Ok(image) = Image::from_bytes(bytes.to_vec()) else { return };
    let mut unwinder = Unwinder::<()>::new(Some(image));
    for address in (0..0x8000).step_by(0x155) {
        let _ = unwinder.find(address, |_| ());
        let _ = unwinder.is_function_start(address);
    }
});
