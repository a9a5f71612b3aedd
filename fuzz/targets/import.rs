//! Other tools' files. The first byte chooses the format; beyond the list it is guessed, as on the command line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_formats::import::{Format, ImportOptions, import_bytes};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let format = Format::ALL.get(usize::from(choice)).copied();
    if let Ok((_, imported)) = import_bytes(bytes, format, &ImportOptions::default()) {
        whyslow_fuzz::look_at(&imported.profile);
    }
});
