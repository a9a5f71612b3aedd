//! The space in ELF files: whatever the headers say, the bytes of all owners add up to the file.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use whyslow_analyze::size::{SizeNote, Sizes};
use whyslow_size::measure;

fuzz_target!(|bytes: &[u8]| {
    let Ok(measured) = measure(Path::new("fuzzed"), bytes, None) else { return };
    let sizes = Sizes::of(&measured.profile).expect("it has the metric");
    assert_eq!(sizes.total, bytes.len() as u64);
    let _ = SizeNote::of(&sizes, &measured.alike, measured.has_names);
    whyslow_fuzz::use_profile(&measured.profile);
});
