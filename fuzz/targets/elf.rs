//! ELF files: headers, notes, sections, and the unwind tables of every part of their code.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_elf::Elf;
use whyslow_processor::Processor;
use whyslow_unwind::{Aarch64, Arch, Image, RelativeAddress, Unwinder, X86_64};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(elf) = Elf::parse(bytes) {
        let _ = (elf.debuglink(), elf.debugaltlink(), elf.has_debug_info(), elf.has_symbols());
        let _ = elf.section(".debug_info");
    }
    let Ok(image) = Image::from_bytes(bytes.to_vec()) else { return };
    match image.processor() {
        Processor::X86_64 => find_rules::<X86_64>(image),
        Processor::Aarch64 => find_rules::<Aarch64>(image),
    }
});

fn find_rules<A: Arch>(image: Image) {
    let mut unwinder = Unwinder::<A, ()>::new(Some(image));
    for address in (0..0x8000).step_by(0x155).map(RelativeAddress) {
        let _ = unwinder.find(address, |_| ());
        let _ = unwinder.is_function_start(address);
        let _ = unwinder.frame_pointer_distances(address);
        for innermost in [true, false] {
            let _ = A::untabled_rule(unwinder.image(), address, innermost);
        }
    }
}
