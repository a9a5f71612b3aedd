//! Known leaks: reads the files that name them, and moves them to `suppressed` once the stacks have names.

use std::path::Path;

use whyslow_heap::leaks::Class;
use whyslow_heap::leaks::suppressions::{Frame, Suppressions};
use whyslow_profile::{HeapCounts, Profile, StackId};

use crate::failure::{Failure, Result};

/// Reads a file of suppressions: its text, and those of leaks. Errors name file and line.
pub(crate) fn read(file: &Path) -> Result<(String, Suppressions)> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", file.display())))?;
    let list = Suppressions::parse(&text, &file.to_string_lossy())
        .map_err(|error| Failure::new(error.to_string()).next("Valgrind's or LeakSanitizer's syntax"))?;
    Ok((text, list))
}

/// Moves leaks that match a suppression to `suppressed`. Returns whether any matched.
pub(crate) fn leaks(profile: &mut Profile, suppressions: &Suppressions) -> bool {
    if suppressions.is_empty() {
        return false;
    }
    let mut found = false;
    let mut sites = std::mem::take(&mut profile.heap.sites);
    for site in &mut sites {
        let frames = frames(profile, site.stack);
        for class in [Class::DefinitelyLost, Class::IndirectlyLost, Class::PossiblyLost, Class::Reachable] {
            let (blocks, bytes) = of_class(&mut site.counts, class);
            if *blocks > 0 && suppressions.find(class, &frames).is_some() {
                let (blocks, bytes) = (std::mem::take(blocks), std::mem::take(bytes));
                site.counts.suppressed_blocks += blocks;
                site.counts.suppressed_bytes += bytes;
                found = true;
            }
        }
    }
    profile.heap.sites = sites;
    found
}

fn of_class(counts: &mut HeapCounts, class: Class) -> (&mut u64, &mut u64) {
    match class {
        Class::DefinitelyLost => (&mut counts.definitely_lost_blocks, &mut counts.definitely_lost_bytes),
        Class::IndirectlyLost => (&mut counts.indirectly_lost_blocks, &mut counts.indirectly_lost_bytes),
        Class::PossiblyLost => (&mut counts.possibly_lost_blocks, &mut counts.possibly_lost_bytes),
        Class::Reachable => (&mut counts.reachable_blocks, &mut counts.reachable_bytes),
    }
}

/// The frames of a stack, innermost first, with inlined ones.
fn frames(profile: &Profile, stack: StackId) -> Vec<Frame<'_>> {
    let mut frames = Vec::new();
    for location in profile.locations_of(stack) {
        let module = profile.locations.module[location.index()];
        let object = module.map_or("", |module| profile.text(profile.modules[module.index()].path));
        let known = profile.frames.of(location);
        if known.is_empty() {
            frames.push(Frame { object, ..Frame::default() });
        }
        let outermost = known.first();
        for frame in known.iter().rev() {
            let function = &profile.functions[frame.function.index()];
            frames.push(Frame {
                raw_function: profile.text(function.raw_name),
                function: profile.text(function.name),
                object,
                file: frame.file.map_or("", |file| profile.text(file)),
                line: frame.line,
                is_inlined: !outermost.is_some_and(|outermost| std::ptr::eq(outermost, frame)),
            });
        }
    }
    frames
}
