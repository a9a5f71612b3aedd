//! Suppression files, and matching a stack against them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use whyslow_heap::leaks::Class;
use whyslow_heap::leaks::suppressions::{Frame, Suppressions};

fuzz_target!(|bytes: &[u8]| {
    // The first half are suppressions, the second half function names.
    let (file, names) = bytes.split_at(bytes.len() / 2);
    let (file, names) = (String::from_utf8_lossy(file), String::from_utf8_lossy(names));
    let Ok(suppressions) = Suppressions::parse(&file, "fuzzed.supp") else { return };
    let stack: Vec<Frame<'_>> = names
        .lines()
        .take(64)
        .map(|name| Frame {
            raw_function: name,
            function: name,
            object: name,
            file: name,
            line: 1,
            is_inlined: name.len() % 2 == 0,
        })
        .collect();
    let _ = suppressions.find(Class::DefinitelyLost, &stack);
    let _ = suppressions.find(Class::PossiblyLost, &stack);
});
