//! Recording: the program stays as it is, the profile and the answer appear.

use std::fs;

use crate::harness::{Folder, can_record, outcome};

#[test]
fn streams_and_exit_code_are_the_programs_own() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "cat; echo out; echo err >&2; exit 3");
    folder.file("input", "typed\n");
    let mut command = folder.command();
    command.args(["-q", "./app"]).stdin(fs::File::open(folder.path().join("input")).unwrap());
    let outcome = outcome(&mut command);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()),
        (Some(3), "typed\nout\n", "err\n")
    );
    assert!(folder.names().contains(&"app.whyslow".to_owned()), "{:?}", folder.names());
}

#[test]
fn a_signal_is_128_and_its_number() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "kill -TERM $$");
    assert_eq!(folder.whyslow(["-q", "./app"]).code, Some(143));
}

#[test]
fn the_answer_goes_to_stderr() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done");
    let outcome = folder.whyslow(["./app"]);
    assert_eq!(outcome.succeeds().stdout, "done\n");
    assert!(outcome.stderr.contains("app.whyslow"), "{}", outcome.stderr);
}

#[test]
fn record_says_the_next_command() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.whyslow(["record", "-o", "run.whyslow", "--", "sh", "-c", "echo hi"]);
    assert_eq!(outcome.succeeds().stdout, "hi\n");
    let verdict =
        outcome.stderr.strip_prefix("whyslow: recorded run.whyslow; next: whyslow report run.whyslow\n");
    let verdict = verdict.expect("the next command first");
    assert!(["good: ", "fair: ", "poor: "].iter().any(|grade| verdict.starts_with(grade)), "{verdict}");
    folder.whyslow(["report", "run.whyslow"]).succeeds();
}

#[test]
fn the_picture_comes_with_the_recording() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done");
    folder.whyslow(["-q", "--flame", "x.svg", "./app"]).succeeds();
    assert!(fs::read_to_string(folder.path().join("x.svg")).unwrap().starts_with('<'));
}

#[test]
fn an_older_profile_is_kept() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    folder.whyslow(["-q", "true"]).succeeds();
    let outcome = folder.whyslow(["true"]);
    assert!(outcome.succeeds().stderr.contains("true.old.whyslow"), "{}", outcome.stderr);
    assert!(folder.names().contains(&"true.old.whyslow".to_owned()));
}

#[test]
fn an_unwritable_output_is_known_before_the_program_starts() {
    let folder = Folder::new();
    folder.script("app", "touch started");
    folder
        .whyslow(["-o", "no/such/run.whyslow", "./app"])
        .fails(125, &["no/such/run.whyslow: cannot be written"]);
    folder.whyslow(["--flame", "no/such/x.svg", "./app"]).fails(125, &["no/such/x.svg: cannot be written"]);
    assert_eq!(folder.names(), ["app"]);
}

#[test]
fn attaching_records_a_running_process() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let mut busy = folder.command_of("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    let pid = busy.id().to_string();
    // Until it is executed, it has its parent's name.
    while fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim() != "sh" {
        std::thread::yield_now();
    }
    let outcome = folder.whyslow(["record", "-p", &pid, "--duration", "300ms"]);
    let still_runs = busy.try_wait().unwrap().is_none();
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(outcome.succeeds().stderr.contains("sh.whyslow"), "{}", outcome.stderr);
    assert!(still_runs, "the process goes on");
    folder.whyslow(["export", "sh.whyslow", "--to", "folded"]).succeeds();
}

#[test]
fn a_full_disk_is_one_error_and_125() {
    if !can_record() || !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let folder = Folder::new();
    folder.script("app", "echo hi");
    let outcome = folder.whyslow(["--flame", "/dev/full", "./app"]);
    assert_eq!(outcome.stdout, "hi\n");
    outcome.fails(125, &["/dev/full: cannot be written"]);
}

#[test]
fn the_lab_needs_nothing_else() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.whyslow(["lab"]);
    assert!(outcome.succeeds().stderr.contains("What is wrong with it"), "{}", outcome.stderr);
    assert!(folder.names().contains(&"lab.whyslow".to_owned()));
}
