//! Tests the crate against a fake recorder: a named pipe. The programs that mark are this test binary,
//! started again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use whyslow_mark::wire::{CUT, HEADER, Kind, NAME_MOST, RECORD_MOST, Record, VERSION};

const PROGRAM: &str = "WHYSLOW_MARK_TEST_PROGRAM";

/// The programs. As a test, this does nothing.
#[test]
fn program() {
    let Ok(program) = std::env::var(PROGRAM) else { return };
    let say = |line: &str| {
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "\n>{line}").unwrap();
        stdout.flush().unwrap();
    };
    let wait = || {
        say("ready");
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line).unwrap();
    };
    wait();
    match program.as_str() {
        "once" => {
            let outer = whyslow_mark::span_with("outer", || "detail".to_owned());
            drop(whyslow_mark::span("inner"));
            drop(outer);
            whyslow_mark::moment("moment");
            whyslow_mark::counter("counter", -3);
        }
        "hostile names" => {
            for name in ["", "a\nb", "a\0b", "\u{1b}[31m", &"é".repeat(500_000)] {
                drop(whyslow_mark::span_with(name, || name.to_owned()));
            }
        }
        "threads" => {
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    scope.spawn(move || {
                        for number in 0..150 {
                            drop(whyslow_mark::span(&format!("{thread} {number}")));
                        }
                    });
                }
            });
        }
        "flood" => {
            for _ in 0..10_000 {
                whyslow_mark::moment("drop of water");
            }
            wait();
            whyslow_mark::moment("last");
        }
        "late" => {
            assert!(!whyslow_mark::is_recorded());
            wait();
            while !whyslow_mark::is_recorded() {
                std::thread::sleep(Duration::from_millis(1));
            }
            whyslow_mark::moment("late");
        }
        "left alone" => {
            whyslow_mark::moment("here");
            wait();
            // The pipe has no reader any more: marks must neither block nor end the program, and must
            // eventually stop.
            while whyslow_mark::is_recorded() {
                whyslow_mark::moment("is anybody there?");
            }
            whyslow_mark::moment("not sent");
        }
        #[cfg(feature = "tracing")]
        "traced" => {
            use tracing_subscriber::prelude::*;
            let layer = whyslow_mark::TracingLayer::new().with_events();
            tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer)).unwrap();
            let load = tracing::info_span!("load", path = "a b", size = tracing::field::Empty);
            load.in_scope(|| {
                load.record("size", 7);
                tracing::info_span!("parse").in_scope(|| tracing::info!(line = 3, "an odd line"));
            });
            // Enter again, like a task that is polled again.
            load.in_scope(|| ());
        }
        other => panic!("there is no program {other}"),
    }
    say(if whyslow_mark::is_recorded() { "recorded" } else { "not recorded" });
}

struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(program: &str, runtime: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "program", "--nocapture"])
            .env(PROGRAM, program)
            .env("XDG_RUNTIME_DIR", runtime)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { child, stdout };
        assert_eq!(program.said(), "ready");
        program
    }

    fn said(&mut self) -> String {
        let mut line = String::new();
        while !line.starts_with('>') {
            line.clear();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the program ended early");
        }
        line.trim_start_matches('>').trim_end().to_owned()
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    /// Lets the program run to its end and returns its last output.
    fn finish(mut self) -> String {
        self.go();
        let last = self.said();
        let mut rest = Vec::new();
        self.stdout.read_to_end(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        last
    }
}

/// A runtime folder with the pipe of one process.
struct Recorder {
    runtime: tempfile::TempDir,
}

struct Mark {
    kind: Kind,
    tid: u32,
    lost: u32,
    start_ns: u64,
    end_ns: u64,
    name: String,
    detail: String,
}

impl Recorder {
    fn new() -> Self {
        let runtime = tempfile::tempdir().unwrap();
        fs::create_dir(runtime.path().join("whyslow")).unwrap();
        let recorder = Self { runtime };
        recorder.set_mode(0o700);
        recorder
    }

    fn set_mode(&self, mode: u32) {
        let folder = self.runtime.path().join("whyslow");
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn path(&self, program: &Program) -> PathBuf {
        self.runtime.path().join("whyslow").join(program.child.id().to_string())
    }

    fn pipe(&self, program: &Program) -> File {
        let path = self.path(program);
        assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap().success());
        const O_NONBLOCK: i32 = 0o4000;
        File::options().read(true).write(true).custom_flags(O_NONBLOCK).open(path).unwrap()
    }
}

fn read(mut pipe: &File) -> Vec<Mark> {
    let mut bytes = Vec::new();
    let mut buffer = [0; RECORD_MOST];
    while let Ok(length @ 1..) = pipe.read(&mut buffer) {
        bytes.extend_from_slice(&buffer[..length]);
    }
    let mut marks = Vec::new();
    let mut rest = &bytes[..];
    while let Some((record, length)) = Record::decode(rest).unwrap() {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let Record { kind, tid, lost, start_ns, end_ns, name, detail } = record;
        marks.push(Mark { kind, tid, lost, start_ns, end_ns, name: text(name), detail: text(detail) });
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
    marks
}

#[test]
fn marks_arrive_unchanged() {
    let recorder = Recorder::new();
    let program = Program::start("once", recorder.runtime.path());
    let pipe = recorder.pipe(&program);
    let pid = program.child.id();
    assert_eq!(program.finish(), "recorded");
    let marks = read(&pipe);
    let kinds = marks.iter().map(|mark| (mark.kind, mark.name.as_str())).collect::<Vec<_>>();
    let expected = [
        (Kind::Hello, ""),
        (Kind::Span, "inner"),
        (Kind::Span, "outer"),
        (Kind::Moment, "moment"),
        (Kind::Counter, "counter"),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(marks[0].end_ns, VERSION);
    let (inner, outer) = (&marks[1], &marks[2]);
    assert_eq!((inner.detail.as_str(), outer.detail.as_str()), ("", "detail"));
    assert!(
        outer.start_ns <= inner.start_ns && inner.start_ns <= inner.end_ns && inner.end_ns <= outer.end_ns
    );
    assert_eq!(marks[3].start_ns, marks[3].end_ns);
    assert_eq!(marks[4].end_ns.cast_signed(), -3);
    assert!(marks.iter().all(|mark| mark.tid == marks[0].tid && mark.tid >= pid && mark.lost == 0));
}

#[test]
fn without_a_recorder_marks_do_nothing() {
    let runtime = tempfile::tempdir().unwrap();
    for program in ["once", "hostile names", "threads"] {
        assert_eq!(Program::start(program, runtime.path()).finish(), "not recorded");
    }
    assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0);
}

#[test]
fn names_may_hold_anything_and_are_cut() {
    let recorder = Recorder::new();
    let program = Program::start("hostile names", recorder.runtime.path());
    let pipe = recorder.pipe(&program);
    program.finish();
    let marks = read(&pipe);
    let names = marks[1..5].iter().map(|mark| mark.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["", "a\nb", "a\0b", "\u{1b}[31m"]);
    let long = &marks[5];
    assert!(long.name.len() <= NAME_MOST && long.name.ends_with(CUT) && long.detail.ends_with(CUT));
    assert!(HEADER + long.name.len() + long.detail.len() <= RECORD_MOST);
}

#[test]
fn threads_do_not_tear_each_others_marks() {
    let recorder = Recorder::new();
    let program = Program::start("threads", recorder.runtime.path());
    let pipe = recorder.pipe(&program);
    assert_eq!(program.finish(), "recorded");
    // All of them fit into the pipe.
    let marks = read(&pipe);
    assert_eq!(marks.len(), 1 + 8 * 150);
    let mut threads = marks[1..].iter().map(|mark| mark.tid).collect::<Vec<_>>();
    threads.sort_unstable();
    threads.dedup();
    assert_eq!(threads.len(), 8);
    let mut names = marks[1..].iter().map(|mark| &mark.name).collect::<Vec<_>>();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), marks.len() - 1, "every mark once");
}

#[test]
fn a_full_pipe_loses_marks_and_says_how_many() {
    let recorder = Recorder::new();
    let mut program = Program::start("flood", recorder.runtime.path());
    let pipe = recorder.pipe(&program);
    program.go();
    assert_eq!(program.said(), "ready");
    let first = read(&pipe);
    assert!(first.len() > 1000 && first.len() < 10_001);
    assert_eq!(program.finish(), "recorded");
    let last = read(&pipe);
    assert_eq!(last[0].name, "last");
    assert_eq!(first.len() - 1 + last[0].lost as usize, 10_000);
}

#[test]
fn a_recorder_that_starts_later_is_found() {
    let recorder = Recorder::new();
    let mut program = Program::start("late", recorder.runtime.path());
    program.go();
    assert_eq!(program.said(), "ready");
    let pipe = recorder.pipe(&program);
    assert_eq!(program.finish(), "recorded");
    assert_eq!(read(&pipe).last().unwrap().name, "late");
}

/// The recorder either removes its pipe, or is killed and leaves it behind.
#[test]
fn a_recorder_that_exited_does_no_harm() {
    for takes_the_pipe in [true, false] {
        let recorder = Recorder::new();
        let mut program = Program::start("left alone", recorder.runtime.path());
        let pipe = recorder.pipe(&program);
        program.go();
        assert_eq!(program.said(), "ready");
        assert_eq!(read(&pipe).len(), 2);
        drop(pipe);
        if takes_the_pipe {
            fs::remove_file(recorder.path(&program)).unwrap();
        }
        assert_eq!(program.finish(), "not recorded");
    }
}

#[test]
fn only_a_pipe_in_a_private_folder_is_used() {
    let recorder = Recorder::new();
    recorder.set_mode(0o755);
    let program = Program::start("once", recorder.runtime.path());
    let pipe = recorder.pipe(&program);
    assert_eq!(program.finish(), "not recorded");
    assert!(read(&pipe).is_empty());

    recorder.set_mode(0o700);
    let program = Program::start("once", recorder.runtime.path());
    let target = recorder.runtime.path().join("precious");
    fs::write(&target, "do not touch").unwrap();
    std::os::unix::fs::symlink(&target, recorder.path(&program)).unwrap();
    assert_eq!(program.finish(), "not recorded");

    let program = Program::start("once", recorder.runtime.path());
    fs::hard_link(&target, recorder.path(&program)).unwrap();
    assert_eq!(program.finish(), "not recorded", "a plain file is no pipe");
    assert_eq!(fs::read_to_string(target).unwrap(), "do not touch");
}

#[cfg(feature = "tracing")]
#[test]
fn spans_of_tracing_are_marked_while_they_are_entered() {
    let recorder = Recorder::new();
    let program = Program::start("traced", recorder.runtime.path());
    let pipe = recorder.pipe(&program);
    assert_eq!(program.finish(), "recorded");
    let marks = read(&pipe);
    let received = marks[1..].iter().map(|mark| (mark.kind, mark.name.as_str(), mark.detail.as_str()));
    let expected = [
        (Kind::Moment, "an odd line", "line=3"),
        (Kind::Span, "parse", ""),
        (Kind::Span, "load", "path=\"a b\" size=7"),
        (Kind::Span, "load", "path=\"a b\" size=7"),
    ];
    assert_eq!(received.collect::<Vec<_>>(), expected);
    assert!(marks[3].start_ns <= marks[2].start_ns && marks[3].end_ns <= marks[4].start_ns);

    let runtime = tempfile::tempdir().unwrap();
    assert_eq!(Program::start("traced", runtime.path()).finish(), "not recorded");
}
