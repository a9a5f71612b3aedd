//! Memory errors: one program for each class yields exactly that finding, with the lines that its source marks.

use std::path::Path;
use std::process::Output;

use serde_json::Value;
use whyslow_lab_harness::{Variant, build_or_skip, is_installed, run};

use crate::heap_recorded::{code, text};
use crate::recorded::{PATIENCE, whyslow};

/// What is known of one run.
struct Checked {
    json: Value,
    output: Output,
    /// What is left in the working folder besides the answer.
    left: Vec<String>,
}

fn check(program: &str, options: &[&str], arguments: &[&str]) -> Option<Checked> {
    if !is_installed("valgrind") {
        return None;
    }
    Some(check_program(&build_or_skip(program, Variant::Release)?, options, arguments))
}

fn check_program(program: &Path, options: &[&str], arguments: &[&str]) -> Checked {
    let folder = tempfile::tempdir().unwrap();
    let answer = tempfile::NamedTempFile::new().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["memcheck", "--format", "json", "-o"]).arg(answer.path()).args(options);
    let output = run(command.arg("--").arg(program).args(arguments), PATIENCE).unwrap();
    let json = std::fs::read(answer.path()).unwrap();
    let json =
        serde_json::from_slice(&json).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)));
    let left = std::fs::read_dir(folder.path()).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    Checked { json, output, left }
}

impl Checked {
    /// The findings as `id:line`, with the lines of other places after them, without notes.
    fn findings(&self) -> Vec<String> {
        let all = self.json["findings"].as_array().unwrap().iter();
        all.filter(|finding| finding["severity"] != "note").map(shown).collect()
    }

    /// The findings of one kind.
    fn of(&self, id: &str) -> Vec<&Value> {
        self.json["findings"].as_array().unwrap().iter().filter(|finding| finding["id"] == id).collect()
    }

    fn said(&self) -> String {
        text(&self.output.stderr)
    }
}

/// `invalid-read:40 allocated:38`
fn shown(finding: &Value) -> String {
    let word = |value: &Value| value.as_str().unwrap().split(' ').next().unwrap().to_owned();
    let mut shown = format!("{}:{}", word(&finding["id"]), finding["line"]);
    for site in finding["sites"].as_array().unwrap() {
        shown.push_str(&format!(" {}:{}", word(&site["role"]), site["line"]));
    }
    shown
}

/// The line of the source with this mark.
fn line(source: &str, mark: &str) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/programs");
    let text = std::fs::read_to_string(folder.join(source)).unwrap();
    let is_marked = |line: &str| {
        let (_, rest) = line.split_once(mark)?;
        (!rest.starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric())).then_some(())
    };
    1 + text.lines().position(|line| is_marked(line).is_some()).unwrap_or_else(|| panic!("{source}: {mark}"))
}

fn c(mark: &str) -> usize {
    line("memory_errors.c", mark)
}

#[test]
fn each_class_of_error_is_found_at_its_line() {
    for (class, expected) in [
        ("clean", vec![]),
        ("invalid-read", vec!["invalid-read:{at} allocated:{allocated}"]),
        ("invalid-write", vec!["invalid-write:{at} allocated:{allocated}"]),
        ("use-after-free", vec!["use-after-free:{at} freed:{freed} allocated:{allocated}"]),
        ("invalid-jump", vec!["invalid-jump:null"]),
        ("decision", vec!["uninitialised:{at}"]),
        ("local", vec!["uninitialised:{at}"]),
        ("syscall-argument", vec!["syscall-argument:{at} allocated:{allocated}"]),
        ("double-free", vec!["double-free:{at} freed:{freed} allocated:{allocated}"]),
        ("invalid-free", vec!["invalid-free:{at} allocated:{allocated}"]),
        ("mismatched-free", vec!["mismatched-free:{at} allocated:{at}"]),
        ("overlap", vec!["overlap:{at}"]),
        ("bad-size", vec!["bad-size:{at}"]),
        ("descriptor-open", vec![]),
        ("leak-definite", vec!["leak-definite:{at}"]),
        ("leak-possible", vec!["leak-possible:{at}"]),
        ("leak-reachable", vec![]),
        ("crash", vec!["invalid-write:{at}"]),
        ("aborts", vec!["crash:{at}"]),
        ("several", vec!["invalid-read:{at} allocated:{allocated}"]),
    ] {
        let Some(checked) = check("memory_errors", &[], &[class]) else { return };
        let filled = |pattern: &str| {
            ["at", "allocated", "freed"].iter().fold(pattern.to_owned(), |text, mark| {
                let hole = format!("{{{mark}}}");
                if text.contains(&hole) {
                    text.replace(&hole, &c(&format!("{mark}: {class}")).to_string())
                } else {
                    text
                }
            })
        };
        let expected: Vec<String> = expected.into_iter().map(filled).collect();
        assert_eq!(checked.findings(), expected, "{class}: {}", checked.said());
        assert_eq!(text(&checked.output.stdout), format!("{class}\n"), "the program's own output");
        assert_eq!(checked.left, [""; 0], "{class}");
        let exit = match class {
            "crash" | "invalid-jump" => 128 + 11,
            "aborts" => 128 + 6,
            _ => 0,
        };
        assert_eq!(code(&checked.output), exit, "{class}");
        assert_eq!(checked.json["complete"], true, "{class}");
    }
}

#[test]
fn findings_say_how_much_and_where_from_the_block_it_is() {
    let Some(read) = check("memory_errors", &[], &["invalid-read"]) else { return };
    let finding = read.of("invalid-read")[0];
    assert_eq!(finding["title"], "read of 4 bytes, 8 bytes after a block of 40 bytes");
    assert_eq!(finding["address"]["distance"], 8);
    let Some(crash) = check("memory_errors", &[], &["crash"]) else { return };
    let finding = crash.of("invalid-write")[0];
    assert_eq!(finding["crash"], "SIGSEGV");
    assert_eq!(finding["title"], "write of 4 bytes through a null pointer; SIGSEGV ended the program here");
    let Some(several) = check("memory_errors", &[], &["several"]) else { return };
    assert_eq!(several.of("invalid-read")[0]["times"], 10);
}

/// Notes: no errors, shown on request.
#[test]
fn memory_and_descriptors_in_use_at_exit_are_notes() {
    let Some(open) = check("memory_errors", &["--all"], &["descriptor-open"]) else { return };
    let found: Vec<String> = open.of("descriptor-open").into_iter().map(shown).collect();
    assert_eq!(found, [format!("descriptor-open:{}", c("at: descriptor-open"))]);
    assert!(open.said().contains("is open at exit: /dev/null"), "{}", open.said());
    let Some(reachable) = check("memory_errors", &["--fail-on", "errors"], &["leak-reachable"]) else {
        return;
    };
    let found: Vec<String> = reachable.of("leak-reachable").into_iter().map(shown).collect();
    assert_eq!(found, [format!("leak-reachable:{}", c("at: leak-reachable"))]);
    assert_eq!(code(&reachable.output), 0);
    let Some(indirect) = check("memory_errors", &[], &["leak-indirect"]) else { return };
    let found: Vec<String> = indirect.of("leak-indirect").into_iter().map(shown).collect();
    assert_eq!(found, [format!("leak-indirect:{}", c("at: leak-indirect"))]);
    let definite = indirect.of("leak-definite")[0];
    assert_eq!(definite["line"], c("allocated: leak-indirect"));
    assert_eq!([&definite["bytes"], &definite["indirect_bytes"]], [41, 33]);
}

#[test]
fn a_thorough_run_says_where_uninitialised_values_are_from() {
    for (class, function, role) in [
        ("decision", "decision", "allocated and never written"),
        ("local", "local", "a local variable, never written,"),
    ] {
        let Some(checked) = check("memory_errors", &["--thorough"], &[class]) else { return };
        let [finding] = checked.of("uninitialised")[..] else { panic!("{}", checked.said()) };
        assert_eq!(finding["line"], c(&format!("at: {class}")));
        let origin = &finding["sites"][0];
        assert_eq!(
            (&origin["function"], &origin["role"]),
            (&function.into(), &role.into()),
            "{}",
            checked.said()
        );
        // Where a function makes room for its variables is up to the compiler.
        if class == "decision" {
            assert_eq!(origin["line"], c("allocated: decision"), "{}", checked.said());
        }
    }
}

#[test]
fn threads_and_processes_are_named() {
    let at = c("at: invalid-read");
    let Some(thread) = check("memory_errors", &[], &["thread"]) else { return };
    assert_eq!(thread.of("invalid-read")[0]["line"], at);
    assert_eq!(thread.of("invalid-read")[0]["occurrences"][0]["thread"], 2);
    // Four at once: older versions of Valgrind would mix their reports.
    let Some(fork) = check("memory_errors", &[], &["fork"]) else { return };
    let found = fork.findings();
    let freed = format!(
        "double-free:{} freed:{} allocated:{}",
        c("at: double-free"),
        c("freed: double-free"),
        c("allocated: double-free")
    );
    assert_eq!(found, [format!("invalid-read:{at} allocated:{}", c("allocated: invalid-read")), freed]);
    for finding in fork.json["findings"].as_array().unwrap().iter().take(2) {
        assert_eq!((&finding["times"], finding["occurrences"].as_array().unwrap().len()), (&4.into(), 4));
    }
    assert_eq!(fork.json["processes"].as_array().unwrap().len(), 5);
    assert_eq!(fork.json["complete"], true);
}

/// What a process found before it executed another program is not lost.
#[test]
fn a_process_that_executes_a_program_keeps_what_it_found() {
    let Some(exec) = check("memory_errors", &[], &["exec"]) else { return };
    assert_eq!(exec.of("invalid-read")[0]["line"], c("at: invalid-read"), "{}", exec.said());
    assert_eq!(text(&exec.output.stdout), "exec\nclean\n");
    assert_eq!(exec.json["complete"], true);
}

#[test]
fn a_killed_program_has_what_was_found_and_is_not_complete() {
    let Some(killed) = check("memory_errors", &["--fail-on", "leaks"], &["killed"]) else { return };
    assert_eq!(killed.of("invalid-read")[0]["line"], c("at: invalid-read"));
    assert_eq!((code(&killed.output), &killed.json["complete"]), (128 + 9, &false.into()));
    assert!(killed.said().contains("not checked to the end: process "), "{}", killed.said());
}

#[test]
fn a_program_cannot_spoil_its_report() {
    let Some(checked) = check("memory_errors", &[], &["descriptors"]) else { return };
    let read = format!("invalid-read:{} allocated:{}", c("at: invalid-read"), c("allocated: invalid-read"));
    assert_eq!(checked.findings(), [read]);
    assert_eq!(checked.json["complete"], true);
}

/// Threads, a detached one that still runs, caught panics, files, other programs.
#[test]
fn correct_rust_has_no_findings() {
    let Some(checked) = check("memory_unsafe", &["--fail-on", "errors", "--fail-on", "leaks"], &["clean"])
    else {
        return;
    };
    assert_eq!(checked.findings(), [""; 0], "{}", checked.said());
    assert_eq!(code(&checked.output), 0, "{}", checked.said());
    // Without the list of harmless reports there are some, so the list is needed.
    let Some(all) = check("memory_unsafe", &["--no-known"], &["clean"]) else { return };
    assert!(!all.findings().is_empty() && all.json["suppressed"].as_array().unwrap().is_empty());
    let suppressed = checked.json["suppressed"].as_array().unwrap();
    assert!(
        suppressed.iter().any(|one| one["name"].as_str().unwrap().contains("running thread")),
        "{suppressed:?}"
    );
    assert!(suppressed.iter().all(|one| one["why"].as_str().unwrap().ends_with('.')), "{suppressed:?}");
}

#[test]
fn errors_of_unsafe_rust_are_at_the_users_lines() {
    for (class, id) in [
        ("invalid-read", "invalid-read"),
        ("use-after-free", "use-after-free"),
        ("decision", "uninitialised"),
        ("double-free", "double-free"),
        ("leak-definite", "leak-definite"),
    ] {
        for variant in [Variant::Release, Variant::Debug] {
            if !is_installed("valgrind") {
                return;
            }
            let Some(program) = build_or_skip("memory_unsafe", variant) else { return };
            let checked = check_program(&program, &[], &[class]);
            let [finding] = checked.of(id)[..] else { panic!("{class}: {}", checked.said()) };
            let lines = (finding["line"].as_u64(), line("memory_unsafe.rs", &format!("at: {class}")) as u64);
            assert_eq!(lines.0, Some(lines.1), "{class} {variant:?}: {}", checked.said());
            assert_eq!(checked.findings().len(), 1, "{class} {variant:?}: {}", checked.said());
        }
    }
}

#[test]
fn printed_suppressions_suppress_what_they_are_printed_for() {
    if !is_installed("valgrind") {
        return;
    }
    let Some(program) = build_or_skip("memory_errors", Variant::Release) else { return };
    for class in ["double-free", "leak-definite", "overlap", "several"] {
        let folder = tempfile::tempdir().unwrap();
        let mut print = whyslow(folder.path());
        print.args(["memcheck", "--print-suppressions", "-o", "own.supp", "--"]).arg(&program).arg(class);
        assert_eq!(code(&run(&mut print, PATIENCE).unwrap()), 0);
        let file = folder.path().join("own.supp");
        let printed = std::fs::read_to_string(&file).unwrap();
        let file = file.to_str().unwrap();
        let checked = check_program(&program, &["--fail-on", "errors", "--suppressions", file], &[class]);
        assert_eq!((checked.findings(), code(&checked.output)), (vec![], 0), "{printed}");
        let suppressed = checked.json["suppressed"].as_array().unwrap();
        assert!(
            suppressed.iter().any(|one| one["name"].as_str().unwrap().contains(class) || class == "several"),
            "{suppressed:?}"
        );
    }
    // LeakSanitizer's lines hide leaks, and `whyslow heap` takes the same file.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leaks.supp");
    std::fs::write(&file, "leak:leak_definite\n").unwrap();
    let options = ["--fail-on", "leaks", "--suppressions", file.to_str().unwrap()];
    let checked = check_program(&program, &options, &["leak-definite"]);
    assert_eq!((checked.findings(), code(&checked.output)), (vec![], 0), "{}", checked.said());
    assert_eq!(checked.json["suppressed"][0]["name"], "leak:leak_definite");
}

#[test]
fn errors_fail_a_run_only_on_request() {
    let Some(failed) = check("memory_errors", &["--fail-on", "errors"], &["invalid-write"]) else { return };
    assert_eq!(code(&failed.output), 2);
    assert!(failed.said().contains("--fail-on errors: 1 finding"), "{}", failed.said());
    for (what, class, expected) in [
        ("invalid-write", "invalid-write", 2),
        ("double-free", "invalid-write", 0),
        ("leaks", "leak-possible", 2),
        ("errors", "leak-possible", 0),
        ("errors", "leak-definite", 2),
        ("errors", "clean", 0),
    ] {
        let Some(checked) = check("memory_errors", &["--fail-on", what], &[class]) else { return };
        assert_eq!(code(&checked.output), expected, "{what} {class}");
    }
}
