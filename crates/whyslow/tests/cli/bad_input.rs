//! Files that are not what they should be: one clear error, the file's name, the next step, exit code 125.

use std::fs;

use crate::harness::Folder;

const COMMANDS: [&[&str]; 5] = [
    &["report", "bad.whyslow"],
    &["flame", "bad.whyslow"],
    &["view", "bad.whyslow", "--no-open"],
    &["view", "bad.whyslow", "-o", "bad.html"],
    &["export", "bad.whyslow", "--to", "folded"],
];

#[track_caller]
fn each_command_says(bytes: &[u8], says: &[&str]) {
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
fn other_files_are_named() {
    each_command_says(b"", &["it holds no recording"]);
    each_command_says(b"hello", &["it is not a whyslow profile"]);
    each_command_says(b"PERFILE2 and so on", &["as perf.data it is wrong"]);
    each_command_says(b"\x1f\x8b\x08 zipped", &["gzip", "whyslow import --help"]);
    each_command_says(b"{\"meta\": {}}", &["JSON", "whyslow import --help"]);
    each_command_says(b"\x7fELF\x02\x01\x01", &["program", "whyslow ./bad.whyslow"]);
}

#[test]
fn no_such_file_names_those_that_are_there() {
    let folder = Folder::new();
    folder.whyslow(["report", "x.whyslow"]).fails(125, &["x.whyslow: no such file", "whyslow ./app"]);
    folder.profile("run.whyslow", "main 1");
    folder.whyslow(["report", "x.whyslow"]).fails(125, &["x.whyslow: no such file", "run.whyslow"]);
    folder.whyslow(["report", "."]).fails(125, &[".: it is a folder"]);
}

#[test]
fn a_cut_off_profile_says_so() {
    let bytes = good();
    each_command_says(&bytes[..bytes.len() - 5], &["cut off"]);
    each_command_says(&bytes[..10], &["cut off"]);
}

#[test]
fn a_damaged_profile_says_where() {
    let mut bytes = good();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    each_command_says(&bytes, &["damaged at byte"]);
}

#[test]
fn a_newer_profile_asks_for_a_newer_whyslow() {
    let mut bytes = good();
    bytes[8..12].copy_from_slice(&99u32.to_le_bytes());
    each_command_says(&bytes, &["file version 99", "a newer whyslow"]);
}

#[test]
fn filters_that_make_no_sense() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;parse 3");
    let report = |args: &[&str]| folder.whyslow(["report", "x.whyslow"].iter().chain(args));
    report(&["--function", "Vec<("]).fails(125, &["--function 'Vec<('", "not a regular expression", "try: "]);
    report(&["--thread", "("]).fails(125, &["--thread '('", "not a regular expression"]);
    report(&["--function", "nowhere"]).fails(125, &["x.whyslow: no function matches 'nowhere'"]);
    report(&["--thread", "nobody"]).fails(125, &["no thread matches 'nobody'"]);
    report(&["--time", "1h..2h"]).fails(125, &["no sample"]);
    for (option, value) in [("--time", "5"), ("--time", "2s..1s"), ("--kind", "mine"), ("--min-share", "2")] {
        let outcome = report(&[option, value]);
        assert_eq!(outcome.code, Some(125), "{outcome:?}");
        assert!(outcome.stderr.contains(option) && outcome.stderr.contains(value), "{outcome:?}");
    }
}
