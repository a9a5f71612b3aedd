//! What the formats of heap profilers share: the heap's timeline per allocating stack, and frames as text.

pub(super) mod events;

use std::io;

use whyslow_profile::{LocationId, Profile, StackId};

use super::one_line;
use super::places::{Place, module_of, places};

/// The frames of a stack as Valgrind's tools write them, innermost first: `0x1A2B: parse (main.rs:12)`.
pub(super) fn frame_texts(profile: &Profile, stack: StackId, inline: bool) -> Vec<String> {
    let mut texts = Vec::new();
    for location in profile.locations_of(stack) {
        texts.extend(location_texts(profile, location, inline));
    }
    texts
}

fn location_texts(profile: &Profile, location: LocationId, inline: bool) -> Vec<String> {
    let address = profile.locations.address[location.index()].0;
    let text = |place: &Place<'_>| {
        let source = match (place.file, module_of(profile, location)) {
            (Some(file), _) if place.line > 0 => format!(" ({}:{})", one_line(file), place.line),
            (Some(file), _) => format!(" ({})", one_line(file)),
            (None, Some(module)) => {
                format!(" (in {})", one_line(profile.text(profile.modules[module.index()].path)))
            }
            (None, None) => String::new(),
        };
        format!("0x{address:X}: {}{source}", one_line(&place.name))
    };
    places(profile, location, inline).iter().rev().map(text).collect()
}

/// The program's name and arguments on one line.
pub(super) fn command(profile: &Profile) -> String {
    one_line(&profile.meta.command.join(" ")).into_owned()
}

/// The error for a heap format and a profile without heap data.
pub(super) fn no_heap(format: &str) -> io::Error {
    let what = format!(
        "{format} is a heap format, but this profile has no heap data; record it with `whyslow heap`"
    );
    io::Error::new(io::ErrorKind::Unsupported, what)
}
