//! Files of other versions: newer ones are named, and what a later version adds is skipped.

use whyslow_profile::{EventSource, KernelView, file, file::ReadError};

use crate::support::{self, RawChunk};

#[test]
fn a_newer_version_is_a_clear_error() {
    let mut bytes = support::file_bytes(&support::profile(1, 10));
    let len = bytes.len() as u64;
    bytes.splice(..support::HEADER_LEN, support::header(file::VERSION + 1, len));
    let error = file::read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::Newer { found } if found == file::VERSION + 1));
    assert_eq!(error.to_string(), "it has file version 2, and this whyslow reads versions up to 1");
}

#[test]
fn taking_a_file_apart_and_together_changes_nothing() {
    let profile = support::profile(12, 40);
    let chunks = support::split(&support::file_bytes(&profile));
    assert!(chunks.len() > 8);
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

#[test]
fn unknown_kinds_of_chunk_are_skipped() {
    let profile = support::profile(12, 40);
    let mut chunks = support::split(&support::file_bytes(&profile));
    for at in (0..=chunks.len()).rev() {
        chunks.insert(at, RawChunk { kind: *b"NEW!", raw: b"not columns at all".to_vec() });
    }
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

/// A column as `column.rs` documents it, with one zero per row (rows and name are short).
fn column_of_zeros(name: &str, kind: u8, rows: u8) -> Vec<u8> {
    assert!(rows < 128);
    [&[name.len() as u8][..], name.as_bytes(), &[kind, rows, rows], &vec![0; rows.into()]].concat()
}

#[test]
fn unknown_columns_and_types_of_column_are_skipped() {
    let mut profile = support::profile(12, 40);
    profile.sources.rows.clear();
    let mut chunks = support::split(&support::file_bytes(&profile));
    for chunk in chunks.iter_mut().filter(|chunk| chunk.kind != *b"META") {
        // The number of rows follows the name and the type of the first column.
        let rows = chunk.raw[2 + usize::from(chunk.raw[0])];
        let new = [column_of_zeros("new", 0, rows), column_of_zeros("newer", 77, rows)].concat();
        chunk.raw.splice(..0, new);
    }
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

#[test]
fn facts_that_only_a_later_version_knows_read_as_unknown() {
    let mut profile = support::profile(12, 40);
    profile.meta.source = EventSource::Unknown;
    profile.meta.ns_per_cycle = None;
    profile.meta.kernel = KernelView::Unknown;
    profile.meta.exit = None;
    let mut chunks = support::split(&support::file_bytes(&profile));
    let meta = chunks.iter_mut().find(|chunk| chunk.kind == *b"META").unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&meta.raw).unwrap();
    json["source"] = serde_json::json!({"quantum_counter": {"spin": 0.5}});
    json["kernel"] = "translucent".into();
    json["exit"] = serde_json::json!({"asleep": true});
    json["added_later"] = 1.into();
    meta.raw = serde_json::to_vec(&json).unwrap();
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}
