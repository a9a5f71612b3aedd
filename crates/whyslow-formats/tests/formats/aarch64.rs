//! A recording of an AArch64 machine is unwound by the rules of its own processor, on any machine.

use std::collections::BTreeMap;

use whyslow_formats::import::{self, Format, ImportOptions};
use whyslow_profile::{LocationId, Profile};
use whyslow_symbols::{Options, copies, symbolize};

use crate::support::sample;

/// The functions of `samples/aarch64/chain.c`, innermost first. The first has no frame and is called through the PLT;
/// the others have only a frame pointer, only tables, both, and a signed return address.
const CHAIN: [&str; 7] = ["leaf", "untabled", "plain", "framed", "authenticated", "main", "_start"];

/// The function of a location, or the file it is in.
fn name(profile: &Profile, location: LocationId) -> &str {
    match profile.frames.of(location) {
        [frame, ..] => profile.text(profile.functions[frame.function.index()].name),
        [] => match profile.locations.module[location.index()] {
            Some(module) => profile.text(profile.modules[module.index()].path),
            None => "?",
        },
    }
}

#[test]
fn every_stack_of_an_aarch64_recording_is_complete() {
    let folder = sample("aarch64");
    let options = ImportOptions { copies: Some(folder.clone()), ..ImportOptions::default() };
    let (_, imported) = import::import(&folder.join("perf.data"), Some(Format::PerfData), &options).unwrap();
    let mut profile = imported.profile;
    assert_eq!(profile.meta.host.arch, "aarch64");
    let files = copies(&profile, &folder);
    symbolize(&mut profile, &Options { cache: None, files, ..Options::default() });
    let mut innermost = BTreeMap::<&str, usize>::new();
    for stack in &profile.samples[0].stack {
        let names: Vec<&str> = profile.locations_of(*stack).map(|at| name(&profile, at)).collect();
        // While the loader starts the program, its own functions have no names.
        if names[0].contains("/ld-linux") {
            continue;
        }
        let from = CHAIN.iter().position(|name| *name == names[0]).unwrap_or(CHAIN.len());
        assert_eq!(names, CHAIN[from..]);
        *innermost.entry(names[0]).or_default() += 1;
    }
    let expected = [("authenticated", 8), ("framed", 10), ("leaf", 24), ("plain", 9), ("untabled", 10)];
    assert_eq!(innermost, BTreeMap::from(expected));
}
