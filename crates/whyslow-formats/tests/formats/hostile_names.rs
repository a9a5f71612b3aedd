//! Names that try to break out of their field: they round-trip, or become harmless in formats without
//! quoting.

use std::io;

use whyslow_analyze::{Selection, testing};
use whyslow_formats::export::{
    Export, LeftOut, write_csv, write_firefox, write_perf_script, write_pprof, write_speedscope,
};
use whyslow_formats::import::Format;
use whyslow_profile::{MetricId, Profile};

use crate::support::{from_bytes, totals};

fn hostile() -> Vec<String> {
    let mut names: Vec<String> = [
        "<script>alert(1)</script>",
        "\"&'\\",
        "a\u{0}b\u{1b}[31m\r\n\tc",
        "\u{202e}txt.exe",
        "\u{2028}\u{2029}",
        "\u{fffd}\u{10ffff}😀",
        "</script>",
        "=cmd|' /C calc'!A0",
        "f (inlined)",
        "a;b;c 12",
        "user@host",
        " ",
        "",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("long".repeat(25_000));
    names
}

/// A profile with one function per name, called by `main`, on a thread and in a file of that name.
fn profile(names: &[String]) -> Profile {
    let stacks: String =
        (0..names.len()).map(|row| format!("t{row}: main;f{row}@file{row}:1 {}\n", row + 1)).collect();
    let mut profile = testing::profile(&stacks);
    let renamed = |profile: &mut Profile, old: whyslow_profile::StringId| {
        let text = profile.text(old);
        let row: Option<usize> = text.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        row.map_or(old, |row| profile.strings.push(&names[row]))
    };
    for row in 0..profile.functions.len() {
        let name = profile.functions[row].name;
        profile.functions[row].name = renamed(&mut profile, name);
        if let Some(file) = profile.functions[row].file {
            profile.functions[row].file = Some(renamed(&mut profile, file));
        }
    }
    for row in 0..profile.threads.len() {
        let name = profile.threads[row].name;
        profile.threads[row].name = renamed(&mut profile, name);
    }
    profile
}

fn written(
    profile: &Profile,
    write: fn(&Export<'_>, &mut dyn io::Write) -> io::Result<Vec<LeftOut>>,
) -> Vec<u8> {
    let selection = Selection::default();
    let mut bytes = Vec::new();
    write(&Export::new(profile, &selection, true), &mut bytes).unwrap();
    bytes
}

#[test]
fn formats_with_quoting_keep_every_name() {
    let profile = profile(&hostile());
    for (format, bytes) in [
        (Format::Firefox, written(&profile, write_firefox)),
        (Format::Pprof, written(&profile, write_pprof)),
        (Format::Speedscope, written(&profile, write_speedscope)),
    ] {
        let back = from_bytes(&bytes, format).profile;
        let (back, profile) = (totals(&back, MetricId(0)), totals(&profile, MetricId(0)));
        for (name, row) in &profile {
            assert_eq!(back.get(name), Some(row), "{format}: {name:.40?}");
        }
        assert_eq!(back.len(), profile.len(), "{format}");
    }
    let back = from_bytes(&written(&profile, write_firefox), Format::Firefox).profile;
    let threads = |profile: &Profile| -> Vec<String> {
        profile.threads.iter().map(|thread| profile.text(thread.name).to_owned()).collect()
    };
    assert_eq!(threads(&back), threads(&profile));
}

#[test]
fn names_do_not_break_lines() {
    let profile = profile(&hostile());
    let text = String::from_utf8(written(&profile, write_perf_script)).unwrap();
    for line in text.lines() {
        assert!(line.is_empty() || line.starts_with('\t') || line.ends_with(" cpu-time:"), "{line:.100}");
        assert!(!line.trim_start_matches('\t').contains(|c: char| c.is_control()), "{line:.100}");
    }
    let sum: u64 = from_bytes(text.as_bytes(), Format::PerfScript).profile.samples[0].value.iter().sum();
    assert_eq!(sum, profile.samples[0].value.iter().sum::<u64>());
}

#[test]
fn names_do_not_break_table_rows() {
    let names = hostile();
    let text = String::from_utf8(written(&profile(&names), write_csv)).unwrap();
    assert_eq!(text.lines().count(), 1 + names.len() + 1, "a heading, the functions and main");
    for line in text.lines() {
        let mut quoted = false;
        let commas = line.chars().filter(|&c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        assert_eq!(commas.count(), 11, "{line:.100}");
    }
}
