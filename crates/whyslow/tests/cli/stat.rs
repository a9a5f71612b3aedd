//! `whyslow stat` and `whyslow list`, from the command line.

use std::process::Stdio;

use crate::harness::{Folder, Outcome, has_perf_events, outcome};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn the_answer_goes_to_stderr_and_the_programs_output_is_unchanged() {
    let folder = Folder::new();
    let outcome = folder.whyslow(["stat", "--", "echo", "hello"]);
    assert_eq!(outcome.succeeds().stdout, "hello\n");
    for words in
        ["wall time", "CPU time", "CPUs used", "minor page faults", "voluntary switches", "bytes written"]
    {
        assert!(outcome.stderr.contains(words), "missing {words:?} in {outcome:#?}");
    }
    assert!(!outcome.stderr.contains('\x1b'));
    assert_eq!(folder.names(), [""; 0], "nothing is left behind");
    let quiet = folder.whyslow(["-q", "stat", "--", "echo", "hello"]);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("hello\n", ""));
}

#[test]
fn keeps_the_programs_exit_code_and_signal() {
    let folder = Folder::new();
    assert_eq!(folder.whyslow(["stat", "sh", "-c", "exit 7"]).code, Some(7));
    assert_eq!(folder.whyslow(["stat", "sh", "-c", "kill -9 $$"]).code, Some(137));
    folder.whyslow(["stat", "./nothing"]).fails(127, &["./nothing: not found"]);
    folder.file("data", "no program");
    folder.whyslow(["stat", "./data"]).fails(126, &["./data: cannot be started"]);
    folder.whyslow(["stat"]).fails(125, &["nothing to count", "-p PID"]);
    folder.whyslow(["stat", "-p", "999999999"]).fails(125, &["there is no process"]);
}

#[test]
fn several_runs_exit_with_the_first_failure() {
    let folder = Folder::new();
    let script = folder.script("flaky", "test -e once && exit 0; touch once; exit 3");
    let outcome =
        folder.whyslow(["stat".as_ref(), "-r".as_ref(), "4".as_ref(), "--".as_ref(), script.as_os_str()]);
    assert_eq!(outcome.code, Some(3), "{outcome:#?}");
    assert!(outcome.stderr.contains("1 of 4 runs failed"), "{outcome:#?}");
    assert!(outcome.stderr.contains("± 95 %"), "{outcome:#?}");
    // A signal means that the user wants to stop.
    let outcome = folder.whyslow(["stat", "-r", "4", "--", "sh", "-c", "kill -15 $$"]);
    assert_eq!(outcome.code, Some(128 + 15));
    assert!(outcome.stderr.contains("only 1 of 4 runs"), "{outcome:#?}");
}

#[test]
fn each_run_reads_the_input() {
    let folder = Folder::new();
    let file = folder.file("input", "three little words\n");
    let run =
        |stdin: Stdio| outcome(folder.command().args(["stat", "-r", "3", "--", "wc", "-w"]).stdin(stdin));
    let from_file = run(std::fs::File::open(file).unwrap().into());
    assert_eq!(from_file.succeeds().stdout, "3\n3\n3\n");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let piped = run(reader.into());
    assert!(
        piped.stderr.contains("standard input is a pipe") && piped.stderr.contains("< FILE"),
        "{piped:#?}"
    );
    assert!(!from_file.stderr.contains("standard input"), "{from_file:#?}");
}

#[test]
fn json_has_every_number_with_a_unit_and_a_hint() {
    let folder = Folder::new();
    let outcome = folder.whyslow(["stat", "--format", "json", "-o", "stat.json", "--", "true"]);
    assert_eq!(outcome.succeeds().stderr, "");
    let json = json(&std::fs::read_to_string(folder.path().join("stat.json")).unwrap());
    assert_eq!((json["schema"].as_str(), json["scope"].as_str()), (Some("whyslow-stat/1"), Some("program")));
    assert_eq!(json["exits"][0]["code"], 0);
    assert_eq!(json["command"][0], "true");
    let numbers = json["numbers"].as_array().unwrap();
    let page = include_str!("../../../../docs/stat-json.md");
    for number in numbers {
        let name = number["name"].as_str().unwrap();
        assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/stat-json.md");
        assert!(number["value"].is_number() && number["unit"].is_string(), "{number}");
        assert!(number["suggests"].as_str().is_some_and(|words| words.len() > 10), "{number}");
    }
    for field in ["wall-time", "cpu-time", "cpus-used", "max-resident", "minor-faults", "major-faults"] {
        assert!(numbers.iter().any(|number| number["name"] == field), "{field}");
    }
}

#[test]
fn wrong_events_fail_before_the_program_starts() {
    let folder = Folder::new();
    let stat = |events: &str| folder.whyslow(["stat", "-e", events, "--", "touch", "it-ran"]);
    stat("cylces").fails(125, &["there is no event `cylces`; similar: cycles", "whyslow list"]);
    stat("cycles:x").fails(125, &["`x` are not modifiers"]);
    stat("cycles,,branches").fails(125, &["an event is missing"]);
    stat("gpu/event=1/").fails(125, &["there is no PMU `gpu`"]);
    stat("cpu/event=1").fails(125, &["second slash"]);
    stat("software/nonsense/").fails(125, &["has no `nonsense`"]);
    assert_eq!(folder.names(), [""; 0]);
}

#[test]
fn explains_why_an_event_is_not_counted() {
    // If no event is counted, there is one reason for all.
    if !has_perf_events() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.whyslow(["stat", "-e", "uprobe:main,page-faults", "--", "true"]);
    assert!(
        outcome.succeeds().stderr.contains("uprobe:main is not counted: functions cannot be counted"),
        "{outcome:#?}"
    );
}

#[test]
fn refuses_options_that_contradict_each_other() {
    let folder = Folder::new();
    for args in [
        &["stat", "-r", "0", "ls"][..],
        &["stat", "-r", "2", "-I", "1s", "ls"],
        &["stat", "-r", "2", "-p", "1"],
        &["stat", "-r", "2", "--duration", "1s", "ls"],
        &["stat", "-a", "-p", "1"],
        &["stat", "--per-thread", "-a"],
        &["stat", "-I", "0", "ls"],
    ] {
        let outcome = folder.whyslow(args);
        assert_eq!(outcome.code, Some(125), "{args:?} {outcome:?}");
        assert!(outcome.stderr.starts_with("error: "), "{outcome:?}");
    }
}

#[test]
fn a_time_series_has_a_line_per_interval() {
    let folder = Folder::new();
    let outcome = folder.whyslow(["stat", "-I", "50ms", "--", "sleep", "0.3"]);
    let lines: Vec<&str> = outcome.succeeds().stderr.lines().collect();
    let empty = lines.iter().position(|line| line.is_empty()).unwrap();
    assert!(lines[0].trim_start().starts_with("until") && empty >= 4, "{outcome:#?}");
    assert!(lines[1..empty].iter().all(|line| line.contains(" s ")), "{outcome:#?}");
}

#[test]
fn any_user_can_count_the_machine() {
    let folder = Folder::new();
    let outcome = folder.whyslow(["stat", "-a", "--duration", "100ms"]);
    assert!(outcome.succeeds().stdout.contains("context switches"), "{outcome:#?}");
    let with_program = folder.whyslow(["stat", "-a", "--", "sh", "-c", "exit 5"]);
    assert_eq!((with_program.code, with_program.stdout.as_str()), (Some(5), ""));
}

fn list(arguments: &[&str]) -> Outcome {
    let folder = Folder::new();
    folder.whyslow(std::iter::once("list").chain(arguments.iter().copied()))
}

#[test]
fn the_list_has_every_kind_and_says_what_can_be_counted() {
    let text = list(&[]).succeeds().stdout.clone();
    for words in ["Hardware", "Cache", "Software", "cycles", "dTLB-load-misses", "page-faults"] {
        assert!(text.contains(words), "missing {words} in {text}");
    }
    let json = json(&list(&["--format", "json"]).succeeds().stdout);
    assert_eq!(json["schema"], "whyslow-list/1");
    let events = json["events"].as_array().unwrap();
    let event = |name: &str| events.iter().find(|event| event["name"] == name).unwrap();
    assert_eq!(
        (&event("cycles")["kind"], &event("page-faults")["kind"]),
        (&"hardware".into(), &"software".into())
    );
    for event in events {
        assert_eq!(event["counted"].as_bool(), Some(event["why_not"].is_null()), "{event}");
    }
    // One remark says what is missing and why.
    let no_cycles = event("cycles")["counted"] == false;
    let remarks = json["remarks"].as_array().unwrap();
    let has_remark = remarks.iter().any(|remark| {
        ["no-cpu-counters", "cpu-counters-refused", "counters-refused"].iter().any(|id| remark["id"] == *id)
    });
    assert_eq!(no_cycles, has_remark, "{remarks:#?}");
}

#[test]
fn the_list_can_be_searched() {
    let found = list(&["tlb-load"]).succeeds().stdout.clone();
    assert!(found.contains("dTLB-load-misses") && !found.contains("page-faults"), "{found}");
    list(&["no-such-thing"]).fails(125, &["no event has `no-such-thing` in its name"]);
}
