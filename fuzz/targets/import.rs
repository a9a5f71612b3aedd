//! Files of other tools. The first byte selects the format. Beyond the list it is detected, as on the command
//! line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_formats::import::{Format, ImportOptions, import_bytes};

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let format = Format::ALL.get(usize::from(choice)).copied();
    if let Ok((_, imported)) = import_bytes(bytes, format, &ImportOptions::default()) {
        whyslow_fuzz::use_profile(&imported.profile);
    }
});
