//! The payload of a profile without the texts that change with other parts of whyslow.

use std::io::Read;

use serde_json::{Value, json};
use whyslow_profile::Profile;
use whyslow_render::html::{Page, write_payload};

/// The decompressed container, with an empty `quality`.
pub(crate) fn of(profile: &Profile) -> Vec<u8> {
    let (mut zipped, mut bytes) = (Vec::new(), Vec::new());
    write_payload(&Page::new(profile, "run.whyslow"), &mut zipped).unwrap();
    flate2::read::GzDecoder::new(&zipped[..]).read_to_end(&mut bytes).unwrap();
    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
    header["quality"] = json!({});
    let header = serde_json::to_vec(&header).unwrap();
    let mut out = u32::try_from(header.len()).unwrap().to_le_bytes().to_vec();
    out.extend(&header);
    out.resize(out.len().next_multiple_of(8), 0);
    out.extend(&bytes[(4 + length).next_multiple_of(8)..]);
    out
}
