//! memcheck's XML and its list of descriptors, up to findings.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_memcheck::{Judge, findings, open_descriptors, read};
use whyslow_profile::CodeKind;

fuzz_target!(|bytes: &[u8]| {
    let open = open_descriptors(&String::from_utf8_lossy(bytes));
    let mut processes = read(bytes);
    processes.iter_mut().for_each(|process| process.add_descriptors(&open));
    let describe = |frame: &whyslow_memcheck::Frame| (frame.function.clone(), CodeKind::Unknown);
    let _ = findings(&processes, &Judge { describe: &describe, hidden_by: &|_| None });
});
