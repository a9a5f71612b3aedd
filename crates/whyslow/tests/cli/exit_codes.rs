//! Exit codes 125, 126 and 127, with their messages.

use crate::harness::Folder;

#[test]
fn a_missing_program_is_127() {
    let folder = Folder::new();
    folder.whyslow(["./nothing"]).fails(127, &["./nothing: not found"]);
    assert_eq!(folder.names(), [""; 0], "nothing is left behind");
}

#[test]
fn suggests_the_command_for_a_misspelled_name() {
    let folder = Folder::new();
    folder
        .whyslow(["reprot", "x.whyslow"])
        .fails(127, &["no program or command `reprot`", "did you mean `report`?"]);
    folder
        .whyslow(["help", "report"])
        .fails(127, &["no program or command `help`", "whyslow COMMAND --help"]);
}

#[test]
fn a_program_in_this_folder_needs_its_path() {
    let folder = Folder::new();
    folder.script("my-program", "exit 0");
    folder.whyslow(["my-program"]).fails(127, &["whyslow ./my-program"]);
}

#[test]
fn a_file_that_cannot_start_is_126() {
    let folder = Folder::new();
    folder.file("data", "no program");
    folder.whyslow(["./data"]).fails(126, &["./data: cannot be started"]);
    folder.whyslow(["/"]).fails(126, &["/: cannot be started"]);
}

#[test]
fn wrong_arguments_are_125() {
    for args in [
        &["--bogus", "ls"][..],
        &["-F", "0", "ls"],
        &["-F", "many", "ls"],
        &["--stack-size", "1M", "ls"],
        &["--duration", "0", "ls"],
        &["report"],
        &["report", "x", "sideways"],
        &["export", "x"],
        &["record", "-p", "0"],
        &["record", "-p", "1", "-a"],
        &["-q", "-v", "ls"],
    ] {
        let outcome = Folder::new().whyslow(args);
        assert_eq!(outcome.code, Some(125), "{args:?} {outcome:?}");
        assert!(outcome.stderr.starts_with("error: ") && outcome.stdout.is_empty(), "{outcome:?}");
    }
}

#[test]
fn arguments_that_contradict_each_other_are_125() {
    let folder = Folder::new();
    folder.whyslow(["-q"]).fails(125, &["no program to record"]);
    folder.whyslow(["record"]).fails(125, &["nothing to record", "-p PID"]);
    folder
        .whyslow(["-F", "99", "report", "x"])
        .fails(125, &["--frequency is a recording option", "`-- report`"]);
    folder.whyslow(["-F", "4000000000", "ls"]).fails(125, &["the kernel allows at most"]);
    folder.whyslow(["report", "x", "callers"]).fails(125, &["the view `callers` needs a function"]);
    folder.whyslow(["report", "x", "tree", "main"]).fails(125, &["--function main"]);
}
