//! Bad input files: one clear error with the file's name and the next step, exit code 125.

use std::fs;

use crate::harness::{Folder, outcome};

const COMMANDS: [&[&str]; 5] = [
    &["report", "bad.whyslow"],
    &["flame", "bad.whyslow"],
    &["view", "bad.whyslow", "--no-open"],
    &["view", "bad.whyslow", "-o", "bad.html"],
    &["export", "bad.whyslow", "--to", "folded"],
];

#[track_caller]
fn every_command_fails_with(bytes: &[u8], says: &[&str]) {
    let folder = Folder::new();
    folder.file("bad.whyslow", bytes);
    for command in COMMANDS {
        let outcome = folder.whyslow(command);
        outcome.fails(125, &["bad.whyslow: ", "; try: "]);
        outcome.fails(125, says);
        assert!(outcome.stdout.is_empty());
        assert_eq!(folder.names(), ["bad.whyslow"], "nothing is written");
    }
}

fn good() -> Vec<u8> {
    let folder = Folder::new();
    fs::read(folder.profile("good.whyslow", "main;parse 3\nmain;read 2")).unwrap()
}

#[test]
fn recognises_other_files() {
    every_command_fails_with(b"", &["it holds no recording"]);
    every_command_fails_with(b"hello", &["not a whyslow profile"]);
    every_command_fails_with(b"PERFILE2 and so on", &["cannot be read as perf.data"]);
    every_command_fails_with(b"\x1f\x8b\x08 zipped", &["gzip", "whyslow import --help"]);
    every_command_fails_with(b"{\"meta\": {}}", &["JSON", "whyslow import --help"]);
    every_command_fails_with(b"\x7fELF\x02\x01\x01", &["program", "whyslow ./bad.whyslow"]);
}

#[test]
fn a_compressed_file_that_does_not_fit_in_memory_is_an_error() {
    let folder = Folder::new();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..50 {
        std::io::Write::write_all(&mut packed, &b"main;a;b 1\n".repeat(100_000)).unwrap();
    }
    folder.file("large.gz", packed.finish().unwrap());
    let mut limited = folder.command_of("sh");
    limited.args(["-c", "ulimit -v 120000; exec \"$0\" import large.gz -o large.whyslow"]);
    let outcome = outcome(limited.arg(env!("CARGO_BIN_EXE_whyslow")));
    outcome.fails(125, &["large.gz: ", "not enough memory"]);
}

#[test]
fn a_text_file_that_does_not_fit_in_memory_is_an_error() {
    let folder = Folder::new();
    let stack = |at: usize| format!("main;a_{at}{} 1\n", ";f_with_a_long_name".repeat(10));
    folder.file("large.folded", (0..300_000).map(stack).collect::<String>());
    let mut limited = folder.command_of("sh");
    limited.args(["-c", "ulimit -v 200000; exec \"$0\" flame large.folded"]);
    let outcome = outcome(limited.arg(env!("CARGO_BIN_EXE_whyslow")));
    outcome.fails(125, &["large.folded: ", "not enough memory"]);
}

#[test]
fn a_file_whose_stacks_do_not_fit_in_memory_is_an_error() {
    let folder = Folder::new();
    let frames = vec![r#"{"name":"f"}"#; 9000].join(",");
    let stack = |at: usize| {
        let frame = |depth: usize| (1000 + (at * 7919 + depth * 104_729) * (depth + 31) % 8000).to_string();
        format!("[{}]", (0..12).map(frame).collect::<Vec<_>>().join(","))
    };
    let samples = (0..330_000).map(stack).collect::<Vec<_>>().join(",");
    let weights = vec!["1"; 330_000].join(",");
    folder.file(
        "large.json",
        format!(
            r#"{{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{{"frames":[{frames}]}},"profiles":[{{"type":"sampled","name":"a","unit":"none","startValue":0,"endValue":330000,"samples":[{samples}],"weights":[{weights}]}}]}}"#
        ),
    );
    let mut limited = folder.command_of("sh");
    limited.args(["-c", "ulimit -v 120000; exec \"$0\" import large.json"]);
    let outcome = outcome(limited.arg(env!("CARGO_BIN_EXE_whyslow")));
    outcome.fails(125, &["large.json: ", "not enough memory"]);
}

#[test]
fn a_missing_file_suggests_existing_ones() {
    let folder = Folder::new();
    folder.whyslow(["report", "x.whyslow"]).fails(125, &["x.whyslow: no such file", "whyslow ./app"]);
    folder.profile("run.whyslow", "main 1");
    folder.whyslow(["report", "x.whyslow"]).fails(125, &["x.whyslow: no such file", "run.whyslow"]);
    folder.whyslow(["report", "."]).fails(125, &[".: this is a folder"]);
}

#[test]
fn reports_a_truncated_profile() {
    let bytes = good();
    every_command_fails_with(&bytes[..bytes.len() - 5], &["cut off"]);
    every_command_fails_with(&bytes[..10], &["cut off"]);
}

#[test]
fn reports_where_a_profile_is_damaged() {
    let mut bytes = good();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    every_command_fails_with(&bytes, &["damaged at byte"]);
}

#[test]
fn a_newer_profile_needs_a_newer_whyslow() {
    let mut bytes = good();
    bytes[8..12].copy_from_slice(&99u32.to_le_bytes());
    every_command_fails_with(&bytes, &["file version 99", "a newer whyslow"]);
}

#[test]
fn explains_bad_filters() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;parse 3");
    let report = |args: &[&str]| folder.whyslow(["report", "x.whyslow"].iter().chain(args));
    report(&["--function", "Vec<("]).fails(125, &["--function 'Vec<('", "not a regular expression", "try: "]);
    report(&["--thread", "("]).fails(125, &["--thread '('", "not a regular expression"]);
    report(&["--function", "nowhere"]).fails(125, &["x.whyslow: no function matches 'nowhere'"]);
    report(&["--thread", "nobody"]).fails(125, &["no thread matches 'nobody'"]);
    report(&["--time", "1h..2h"])
        .fails(125, &["the time range is outside the recording, which lasts 3.00 ms"]);
    for (option, value) in [("--time", "5"), ("--time", "2s..1s"), ("--kind", "mine"), ("--min-share", "2")] {
        let outcome = report(&[option, value]);
        assert_eq!(outcome.code, Some(125), "{outcome:?}");
        assert!(outcome.stderr.contains(option) && outcome.stderr.contains(value), "{outcome:?}");
    }
}
