//! The `.whyslow` file: no input makes its reader panic, hang or use memory out of proportion, and what it
//! reads can be shown.
//!
//! Checksums and compression would reject nearly every change, so most changes are applied to a file without
//! those.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use whyslow_profile::file::testing::{bare, dressed};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(profile) = whyslow_profile::file::read_bytes(bytes) {
        whyslow_fuzz::use_profile(&profile);
    }
});

fuzz_mutator!(|bytes: &mut [u8], len: usize, most: usize, seed: u32| {
    /// One in this many changes is applied to the file as it is on disk.
    const AS_IT_IS: u32 = 16;
    /// Max bytes that a change may add.
    const GROWTH: usize = 256;
    if !seed.is_multiple_of(AS_IT_IS)
        && let Some(mut changed) = bare(&bytes[..len])
    {
        let (before, room) = (changed.len(), changed.len() + GROWTH);
        changed.resize(room, 0);
        let len = fuzzer_mutate(&mut changed, before, room);
        changed.truncate(len);
        let file = dressed(&changed);
        if file.len() <= most {
            bytes[..file.len()].copy_from_slice(&file);
            return file.len();
        }
    }
    fuzzer_mutate(bytes, len, most)
});
