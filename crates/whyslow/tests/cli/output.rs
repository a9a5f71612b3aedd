//! Where answers go: files are written completely or not at all, and a closed pipe is not an error.

use std::fs;
use std::io::Read;
use std::process::Stdio;

use crate::harness::Folder;

fn wide_profile(folder: &Folder) {
    let stacks: String =
        (0..20_000).map(|n| format!("main;function_with_quite_a_long_name_{n} 1\n")).collect();
    folder.profile("x.whyslow", &stacks);
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let folder = Folder::new();
    wide_profile(&folder);
    for args in
        [&["export", "x.whyslow", "--to", "folded"][..], &["flame", "x.whyslow", "-o", "-"], &["--help"]]
    {
        let mut command = folder.command();
        let mut child = command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut stderr = String::new();
        child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert_eq!((child.wait().unwrap().code(), stderr.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn the_flame_graph_goes_next_to_the_profile_or_to_the_output() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;parse 3\nmain;read 2");
    folder.whyslow(["flame", "x.whyslow"]).succeeds();
    assert_eq!(folder.names(), ["x.svg", "x.whyslow"]);
    assert!(fs::read_to_string(folder.path().join("x.svg")).unwrap().contains("parse"));
    let outcome = folder.whyslow(["flame", "x.whyslow", "-o", "-", "--title", "My title"]);
    assert!(outcome.succeeds().stdout.contains("My title"));
    assert!(outcome.stdout.starts_with("<") && outcome.stderr.is_empty(), "{}", outcome.stderr);
}

#[test]
fn folded_stacks_go_to_stdout() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;parse 3\nworker: main;read 2");
    let outcome = folder.whyslow(["export", "x.whyslow", "--to", "folded"]);
    assert_eq!(outcome.succeeds().stdout, "main;parse 3000000\nmain;read 2000000\n");
    let outcome =
        folder.whyslow(["export", "x.whyslow", "--to", "folded", "--thread", "worker", "-q", "-o", "y"]);
    assert_eq!((outcome.succeeds().stdout.as_str(), outcome.stderr.as_str()), ("", ""));
    assert_eq!(fs::read_to_string(folder.path().join("y")).unwrap(), "main;read 2000000\n");
}

#[test]
fn reports_unwritable_outputs() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main 3");
    folder
        .whyslow(["flame", "x.whyslow", "-o", "no/such/folder.svg"])
        .fails(125, &["no/such/folder.svg: cannot be written", "try: -o"]);
    folder.whyslow(["flame", "x.whyslow", "-o", "."]).fails(125, &[".: cannot be written"]);
    folder
        .whyslow(["export", "x.whyslow", "--to", "folded", "-o", "/dev/full"])
        .fails(125, &["/dev/full: cannot be written"]);
}

#[test]
fn a_full_stdout_is_an_error() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main 3");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output =
        folder.command().args(["export", "x.whyslow", "--to", "folded"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stdout: cannot be written"));
}

#[test]
fn profiles_and_programs_are_never_overwritten() {
    let folder = Folder::new();
    let profile = folder.profile("x.whyslow", "main 3");
    let before = fs::read(&profile).unwrap();
    folder
        .whyslow(["flame", "x.whyslow", "-o", "x.whyslow"])
        .fails(125, &["x.whyslow: ", "does not overwrite"]);
    assert_eq!(fs::read(&profile).unwrap(), before);
    folder.file("app", b"\x7fELF rest");
    folder.whyslow(["--flame", "./app", "ls"]).fails(125, &["./app: ", "does not overwrite"]);
    folder.file("notes.txt", "mine");
    folder.whyslow(["-o", "notes.txt", "true"]).fails(125, &["notes.txt: ", "not a whyslow profile"]);
    assert_eq!(fs::read_to_string(folder.path().join("notes.txt")).unwrap(), "mine");
}

#[test]
fn without_a_browser_flame_only_warns() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main 3");
    let outcome = folder.whyslow(["flame", "x.whyslow", "--open"]);
    assert!(outcome.succeeds().stderr.contains("$BROWSER is not set"), "{}", outcome.stderr);
}

#[test]
fn the_browser_opens_the_flame_graph() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main 3");
    let browser = folder.script("browser", "echo \"$1\" > part && mv part opened");
    let mut command = folder.command();
    command.args(["flame", "x.whyslow", "--open"]).env("BROWSER", browser);
    crate::harness::outcome(&mut command).succeeds();
    // whyslow does not wait for the browser.
    let opened = folder.path().join("opened");
    crate::harness::appears(&opened);
    let opened = fs::read_to_string(opened).unwrap();
    assert!(opened.trim().ends_with("/x.svg"), "{opened}");
}

#[test]
fn opens_an_incomplete_profile_with_a_warning() {
    let folder = Folder::new();
    let path = folder.profile("x.whyslow", "main;parse 3");
    // A killed recorder leaves the sealed length at 0.
    let mut profile = whyslow_profile::file::read(&path).unwrap();
    profile.sealed = false;
    let mut writer =
        whyslow_profile::file::Writer::new(fs::File::create(&path).unwrap(), &profile.meta).unwrap();
    let mut builder = whyslow_profile::Builder::new();
    let name = builder.string("app");
    let process =
        builder.process(whyslow_profile::Process { pid: 1, parent: None, name, start_ns: 0, end_ns: None });
    let thread = builder.thread(whyslow_profile::Thread {
        process,
        tid: 1,
        name,
        start_ns: 0,
        end_ns: None,
        times: None,
    });
    let location = builder.location(None, whyslow_profile::RelativeAddress(16));
    let stack = builder.stack(None, location);
    let metric = builder.metric(whyslow_profile::Metric::cpu_time(whyslow_profile::Sampler::default()));
    builder.sample(metric, whyslow_profile::ProfileNs(5), thread, stack, 1_000_000);
    writer.append(&mut builder).unwrap();
    drop(writer);
    let outcome = folder.whyslow(["export", "x.whyslow", "--to", "folded"]);
    assert_eq!(outcome.succeeds().stdout.lines().count(), 1);
    assert!(outcome.stderr.contains("x.whyslow: incomplete"), "{}", outcome.stderr);
}
