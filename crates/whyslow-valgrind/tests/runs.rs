//! Real programs under Valgrind: how they end, their files, their processes, and their descriptors.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

use std::path::Path;
use std::process::Command as Process;
use std::sync::OnceLock;

use tempfile::TempDir;
use whyslow_capture::Command;
use whyslow_lab_harness::{is_installed, skip};
use whyslow_profile::ExitStatus;
use whyslow_valgrind::{Job, Run, Streams, Tool, Valgrind, ValgrindError};

const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int count, char **words) {
    const char *how = count > 1 ? words[1] : "";
    if (!strcmp(how, "crash")) *(volatile int *)0 = 1;
    if (!strcmp(how, "kill")) { if (!fork()) { kill(getppid(), SIGKILL); _exit(0); } pause(); }
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "close")) for (int fd = 0; fd < 4096; fd++) close(fd);
    struct stat file;
    signal(SIGPIPE, SIG_IGN);
    // Pipes belong to whoever runs this test.
    if (!strcmp(how, "write"))
        for (int fd = 3; fd < 4096; fd++)
            if (!fstat(fd, &file) && !S_ISFIFO(file.st_mode)) write(fd, "mixed", 5);
    if (!strcmp(how, "fork") && !fork()) { execl("/bin/sh", "sh", "-c", "exit 9", NULL); }
    wait(NULL);
    return 3;
}
"#;

/// The program, built once.
fn program() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<TempDir>> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        if !is_installed("valgrind") || !is_installed("gcc") {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.c"), PROGRAM).unwrap();
        let build =
            Process::new("gcc").args(["-w", "-g", "-o", "app", "app.c"]).current_dir(&folder).status();
        assert!(build.unwrap().success());
        Some(folder)
    });
    built.as_ref().map(|folder| Box::leak(folder.path().join("app").into_boxed_path()) as &Path)
}

fn run_in(folder: &Path, tool: Tool, how: &str) -> Option<Run> {
    let command = Command {
        program: program()?.into(),
        args: vec![how.into()],
        folder: Some(folder.to_owned()),
        ..Command::default()
    };
    let job = Job { streams: Streams::Null, ..Job::new(tool, command) };
    Some(Valgrind::find().unwrap().run(&job, &mut |_| {}).unwrap())
}

const TOOLS: [Tool; 4] = [Tool::Cachegrind, Tool::Callgrind, Tool::Dhat, Tool::Memcheck];

#[test]
fn every_tool_has_the_programs_end_and_its_results() {
    let folder = tempfile::tempdir().unwrap();
    for tool in TOOLS {
        let Some(run) = run_in(folder.path(), tool, "plain") else { return };
        assert_eq!(run.exit, ExitStatus::Code(3), "{tool:?}");
        let [only] = &run.processes[..] else { panic!("{tool:?}: {:?}", run.processes) };
        assert_eq!(only.command[1..], ["plain"], "{tool:?}");
        assert!(only.output.as_deref().unwrap().metadata().unwrap().len() > 100, "{tool:?}");
        assert!(!run.asked_to_end);
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "the working folder stays empty");
}

#[test]
fn a_program_that_crashes_has_results_and_one_that_is_killed_has_none() {
    let folder = tempfile::tempdir().unwrap();
    for (how, signal, results) in [("crash", 11, true), ("abort", 6, true), ("kill", 9, false)] {
        let Some(run) = run_in(folder.path(), Tool::Cachegrind, how) else { return };
        assert_eq!(run.exit, ExitStatus::Signal(signal), "{how}");
        assert_eq!(run.processes[0].output.is_some(), results, "{how}");
        assert!(run.processes[0].words().contains("Cachegrind"), "{how}");
    }
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "no core file");
}

#[test]
fn children_have_their_own_files() {
    let folder = tempfile::tempdir().unwrap();
    for tool in TOOLS {
        let Some(run) = run_in(folder.path(), tool, "fork") else { return };
        let [main, shell] = &run.processes[..] else { panic!("{tool:?}: {:?}", run.processes) };
        assert_eq!(main.command[1..], ["fork"], "{tool:?}");
        assert_eq!(shell.command, ["/bin/sh", "-c", "exit 9"], "{tool:?}");
        assert_eq!(shell.parent, Some(main.pid), "{tool:?}");
        assert!(shell.output.is_some() && main.output.is_some(), "{tool:?}");
    }
}

#[test]
fn what_a_program_does_to_descriptors_spoils_no_results() {
    let folder = tempfile::tempdir().unwrap();
    for (tool, how) in TOOLS.into_iter().flat_map(|tool| [(tool, "close"), (tool, "write")]) {
        let Some(run) = run_in(folder.path(), tool, how) else { return };
        assert_eq!(run.exit, ExitStatus::Code(3), "{tool:?} {how}");
        let output = std::fs::read(run.processes[0].output.as_deref().unwrap()).unwrap();
        assert!(output.len() > 100, "{tool:?} {how}");
        // The lines of the log are whole; memcheck's are in its XML.
        assert!(tool == Tool::Memcheck || run.processes[0].words().contains("Parent PID: "));
        let mixed = output.windows(5).any(|part| part == b"mixed");
        assert!(!mixed && !run.processes[0].words().contains("mixed"), "{tool:?} {how}");
    }
}

#[test]
fn its_files_go_with_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let Some(run) = run_in(folder.path(), Tool::Dhat, "plain") else { return };
    let output = run.processes[0].output.clone().unwrap();
    assert!(output.exists());
    drop(run);
    assert!(!output.parent().unwrap().exists());
}

#[test]
fn what_cannot_run_is_said_before_valgrind_starts() {
    if program().is_none() {
        return;
    }
    let run = |program: &str| {
        let command = Command { program: program.into(), ..Command::default() };
        let job = Job { streams: Streams::Null, ..Job::new(Tool::Cachegrind, command) };
        Valgrind::find().unwrap().run(&job, &mut |_| {})
    };
    assert!(matches!(run("./no-such-program"), Err(ValgrindError::Program(_))));
    let setuid = ["/usr/bin/passwd", "/usr/bin/su"].into_iter().find(|file| Path::new(file).exists());
    match setuid {
        Some(setuid) => assert!(matches!(run(setuid), Err(ValgrindError::NotRun { .. }))),
        None => skip("no setuid program is installed"),
    }
}
