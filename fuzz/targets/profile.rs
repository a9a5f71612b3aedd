//! The `.whyslow` file: no bytes make its reader panic, hang or take memory out of proportion, and what it reads can be shown.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(profile) = whyslow_profile::file::read_bytes(bytes) {
        whyslow_fuzz::look_at(&profile);
    }
});
