//! Files that were changed by accident or on purpose: always a profile or an error, never a panic, and never
//! more memory than a bounded multiple of the file's size.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

#[path = "../support/counting.rs"]
mod counting;
#[path = "../support/mod.rs"]
mod support;

use counting::peak_of;
use proptest::prelude::*;
use support::{Random, RawChunk};
use whyslow_profile::file;

/// The memory that a reader may hold: tables are wider than their columns, and columns than their packed
/// bytes.
fn allowed(file_len: usize) -> usize {
    (1 << 20) + 1024 * file_len
}

/// Reads hostile bytes and, if they are accepted, everything that a view would read. Returns whether they
/// were.
fn survives(bytes: &[u8]) -> bool {
    let (read, peak) = peak_of(|| file::read_bytes(bytes));
    assert!(peak <= allowed(bytes.len()), "{peak} bytes of memory for a file of {}", bytes.len());
    let Ok(profile) = read else { return false };
    for samples in &profile.samples {
        let _: u64 = samples.value.iter().sum();
        for row in 0..samples.len() {
            let thread = &profile.threads[samples.thread[row].index()];
            let process = &profile.processes[thread.process.index()];
            let _ = profile.text(process.name);
            for location in profile.locations_of(samples.stack[row]).take(1000) {
                for frame in profile.frames.of(location) {
                    let _ = profile.text(profile.functions[frame.function.index()].name);
                }
            }
        }
    }
    for row in &profile.causal.visits {
        let experiment = &profile.causal.experiments[row.experiment.index()];
        let target = experiment.target.map(|target| &profile.causal.targets[target.index()]);
        let _ = target.map(|target| profile.text(target.function));
        let _ = profile.text(profile.causal.points[row.point.index()].name);
    }
    for mut process in profile.processes.iter().take(100) {
        while let Some(parent) = process.parent {
            process = &profile.processes[parent.index()];
        }
    }
    true
}

/// Changes bytes: flips, overwrites, removes, repeats, inserts.
fn mutate(bytes: &mut Vec<u8>, r: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = r.below(bytes.len());
    match r.below(6) {
        0 => bytes[at] ^= 1 << r.below(8),
        1 => bytes[at] = r.next() as u8,
        2 => bytes[at] = 0xff,
        3 => drop(bytes.drain(at..bytes.len().min(at + 1 + r.below(9)))),
        4 => bytes.insert(at, r.next() as u8),
        _ => {
            let copy = bytes[at..bytes.len().min(at + 1 + r.below(40))].to_vec();
            let to = r.below(bytes.len());
            bytes.splice(to..to, copy);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_are_detected(seed in any::<u64>(), sealed in any::<bool>(), changes in 1usize..6) {
        let r = &mut Random(seed);
        let mut profile = support::profile(seed % 64, 30);
        profile.sealed = sealed;
        let original = support::file_bytes(&profile);
        let mut bytes = original.clone();
        (0..changes).for_each(|_| mutate(&mut bytes, r));
        let accepted = survives(&bytes);
        prop_assert!(!accepted || !sealed || bytes == original, "a changed sealed file was accepted");
    }

    #[test]
    fn tables_with_wrong_contents_and_right_checksums_are_survived(seed in any::<u64>(), changes in 1usize..8) {
        let r = &mut Random(seed);
        let mut chunks = support::split(&support::file_bytes(&support::profile(seed % 256, 30)));
        for _ in 0..changes {
            let at = r.below(chunks.len());
            match r.below(12) {
                0 => drop(chunks.remove(at)),
                1 => chunks.insert(r.below(at + 1), chunks[at].clone()),
                2 => { let other = r.below(chunks.len()); chunks.swap(at, other); }
                3 => { let other = r.below(chunks.len()); chunks[at].kind = chunks[other].kind; }
                _ => mutate(&mut chunks[at].raw, r),
            }
            if chunks.is_empty() {
                break;
            }
        }
        survives(&support::join(&chunks, r.below(2) == 0));
    }

    #[test]
    fn any_bytes_as_a_table_are_survived(
        kind in prop::sample::select(&[
            b"META", b"STRS", b"PROC", b"THRD", b"MODS", b"METR", b"LOCS", b"STAK", b"SMPL", b"FUNC", b"FRAM",
            b"SRCL", b"CODE",
        ][..]),
        raw in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        survives(&support::join(&[RawChunk { kind: *kind, raw }], true));
    }
}

#[test]
fn a_small_file_cannot_use_much_memory() {
    // A chunk of zeros packs a thousandfold: refused before it is unpacked.
    let bomb = support::join(&[RawChunk { kind: *b"STRS", raw: vec![0; 15 << 20] }], true);
    assert!(bomb.len() < 20_000);
    assert!(!survives(&bomb));
    // Lengths beyond the data.
    let mut chunk = b"SMPL".to_vec();
    chunk.extend_from_slice(&[0xff; 8]);
    chunk.extend_from_slice(&[0; 40]);
    let mut file = support::header(whyslow_profile::file::VERSION, 0);
    file.extend_from_slice(&chunk);
    assert!(!survives(&file));
}

#[test]
fn the_densest_tables_are_within_the_limit() {
    /// Random small numbers: one byte each, and they do not pack.
    fn column(name: &str, kind: u8, rows: usize, data: Vec<u8>) -> Vec<u8> {
        let mut out = vec![name.len() as u8];
        out.extend_from_slice(name.as_bytes());
        out.push(kind);
        for mut number in [rows, data.len()] {
            while number >= 0x80 {
                out.push(number as u8 | 0x80);
                number >>= 7;
            }
            out.push(number as u8);
        }
        out.extend(data);
        out
    }
    const ROWS: usize = 100_000;
    // Alternating +1 and -1 keeps every reference at row 0 or 1 and packs as far as the reader allows.
    let r = &mut Random(1);
    let mut noise = |rows: usize| -> Vec<u8> {
        (0..rows).map(|row| if row.is_multiple_of(2) { r.below(2) as u8 * 2 } else { 0 }).collect()
    };
    let strings = column("text", 1, ROWS, vec![0; ROWS]);
    let code = [
        column("module", 0, ROWS, vec![0; ROWS]),
        column("start", 0, ROWS, noise(ROWS)),
        column("bytes", 1, ROWS, vec![0; ROWS]),
    ]
    .concat();
    let modules = ["row", "path", "build_id", "kind", "symbols", "optimised"]
        .map(|name| column(name, 0, 1, vec![0]))
        .concat();
    let one_text = column("text", 1, 1, vec![0]);
    let chunk = |kind: &[u8; 4], raw: Vec<u8>| RawChunk { kind: *kind, raw };
    survives(&support::join(&[chunk(b"STRS", strings)], true));
    let accepted = survives(&support::join(
        &[chunk(b"STRS", one_text), chunk(b"MODS", modules), chunk(b"CODE", code)],
        true,
    ));
    assert!(accepted, "this one is a valid file");
}
