//! `whyslow report`: each view, as text and JSON.

use serde_json::Value;
use whyslow_profile::{Span, ThreadId};

use crate::harness::{Folder, Outcome, outcome};

const STACKS: &str = "
main@app.rs:3;parse@app.rs:10;std::read 60
main@app.rs:4;+small@app.rs:20 30
worker: main@app.rs:3;parse@app.rs:11 10
";

fn folder() -> Folder {
    let folder = Folder::new();
    let mut profile = whyslow_analyze::testing::profile(STACKS);
    let (name, detail) = (profile.strings.push("load"), profile.strings.push("a <file>"));
    for (thread, start_ns, end_ns) in [(0, 0, 20_000_000), (1, 90_000_000, 95_000_000)] {
        profile.spans.push(Span {
            name,
            thread: Some(ThreadId(thread)),
            start_ns,
            end_ns,
            detail: Some(detail),
        });
    }
    folder.save("x.whyslow", &profile);
    folder
}

fn report(args: &[&str]) -> Outcome {
    let outcome = folder().whyslow(["report", "x.whyslow"].iter().chain(args));
    outcome.succeeds();
    assert_eq!(outcome.stderr, "");
    outcome
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&report(&[args, &["--format", "json"]].concat()).stdout).unwrap()
}

#[test]
fn functions_are_the_default_view() {
    assert_eq!(report(&[]).stdout, report(&["functions"]).stdout);
    assert!(report(&[]).stdout.contains("std::read"));
    let json = json(&[]);
    assert_eq!((&json["samples"], &json["duration_ns"]), (&Value::from(100), &Value::from(100_000_000)));
    let first = &json["functions"][0];
    assert_eq!(
        (&first["name"], &first["kind"], &first["self_share"]),
        (&"std::read".into(), &"std".into(), &0.6.into())
    );
    for field in ["crate", "file", "line", "self_ns", "total_ns", "total_share"] {
        assert!(first.get(field).is_some(), "{field}");
    }
    for field in ["lost", "throttled", "truncated_share", "unresolved_share", "source", "kernel", "warnings"]
    {
        assert!(json["quality"].get(field).is_some(), "{field}");
    }
}

#[test]
fn options_sort_and_limit_functions() {
    assert_eq!(json(&["--by", "total"])["functions"][0]["name"], "main");
    let count = |args: &[&str]| json(args)["functions"].as_array().unwrap().len();
    assert_eq!((count(&[]), count(&["-n", "2"]), count(&["-n", "0"])), (4, 2, 4));
    assert_eq!(count(&["--min-share", "20%"]), 2);
    assert_eq!(count(&["--no-inline"]), 3);
}

#[test]
fn filters_select_samples() {
    assert_eq!(json(&["--thread", "worker"])["samples"], 10);
    assert_eq!(json(&["--function", "^small$"])["samples"], 30);
    assert_eq!(json(&["--kind", "std"])["samples"], 60);
    assert_eq!(json(&["--kind", "std,yours"])["samples"], 100);
    assert_eq!(json(&["--time", "..50ms"])["samples"], 50);
    assert_eq!(json(&["--process", "app", "--thread", "worker"])["samples"], 10);
    assert_eq!(json(&["--span", "load"])["samples"], 25);
    assert_eq!(json(&["--span", "#1"])["samples"], 5);
    assert_eq!(json(&["--span", "load", "--thread", "worker"])["samples"], 5);
    let outcome = folder().whyslow(["report", "x.whyslow", "--span", "lod"]);
    outcome.fails(125, &["x.whyslow: ", "no span is called 'lod'", "'load'"]);
}

/// A thread that only waits has no CPU samples. Views of other data answer all the same.
#[test]
fn views_of_waits_and_threads_need_no_cpu_samples() {
    use whyslow_profile::{Metric, Samples};
    let folder = Folder::new();
    let mut profile = whyslow_analyze::testing::profile(
        "main;app::f 5\nsleeper: app::g;std::thread::sleep;sys_nanosleep 1",
    );
    let stack = profile.samples[0].stack[5];
    let cpu = &mut profile.samples[0];
    cpu.time_ns.truncate(5);
    cpu.thread.truncate(5);
    cpu.stack.truncate(5);
    cpu.value.truncate(5);
    let mut waits = Samples::default();
    waits.push(900_000_000, ThreadId(1), stack, 800_000_000);
    profile.set_metric(Metric::off_cpu_time(), waits);
    profile.meta.duration_ns = 1_000_000_000;
    folder.save("x.whyslow", &profile);
    for filter in [["--thread", "sleeper"], ["--time", "500ms..700ms"]] {
        for view in ["waits", "locks", "critical-path", "threads", "parallelism", "tasks", "spans"] {
            let outcome = folder.whyslow(["report", "x.whyslow", view, filter[0], filter[1]]);
            outcome.succeeds();
        }
        let waits = folder.whyslow(["report", "x.whyslow", "waits", filter[0], filter[1]]);
        assert!(waits.stdout.contains("sleep"), "{waits:?}");
        folder
            .whyslow(["report", "x.whyslow", filter[0], filter[1]])
            .fails(125, &["no samples match all filters"]);
    }
    let late = folder.whyslow(["report", "x.whyslow", "waits", "--time", "5s..6s"]);
    late.fails(125, &["the time range is outside the recording, which lasts 1.00 s"]);
}

#[test]
fn a_span_can_cover_all_threads() {
    let folder = Folder::new();
    let mut profile = whyslow_analyze::testing::profile(STACKS);
    let name = profile.strings.push("wait");
    // `main` waits for the worker, which has the last 10 samples.
    let (start_ns, end_ns) = (90_000_000, 95_000_000);
    profile.spans.push(Span { name, thread: Some(ThreadId(0)), start_ns, end_ns, detail: None });
    folder.save("x.whyslow", &profile);
    let own = folder.whyslow(["report", "x.whyslow", "--span", "wait"]);
    own.fails(125, &["own thread has no sample", "other threads have 5", "--span-threads all"]);
    let all = ["report", "x.whyslow", "--span", "wait", "--span-threads", "all", "--format", "json"];
    let all = folder.whyslow(all);
    all.succeeds();
    assert_eq!(serde_json::from_str::<Value>(&all.stdout).unwrap()["samples"], 5);
    let wrong = folder.whyslow(["report", "x.whyslow", "--span-threads", "some"]);
    assert!(wrong.stderr.contains("is not `own` (the span's thread) or `all`"), "{wrong:?}");
}

#[test]
fn sums_spans_by_name() {
    let json = json(&["spans"]);
    let span = &json["spans"][0];
    let number = |field: &str| span[field].as_u64();
    assert_eq!((&span["name"], &span["share"]), (&"load".into(), &0.25.into()));
    assert_eq!(
        (number("count"), number("total_ns"), number("samples")),
        (Some(2), Some(25_000_000), Some(25))
    );
    assert_eq!((number("p50_ns"), number("max_ns")), (Some(5_000_000), Some(20_000_000)));
    assert_eq!((&span["longest"]["row"], &span["longest"]["detail"]), (&0.into(), &"a <file>".into()));
    assert_eq!(json["spans_left_out"], 0);
}

#[test]
fn every_view_has_text_and_json() {
    for (view, words) in [
        (&["tree"][..], "parse"),
        (&["tree", "--inverted"], "std::read"),
        (&["callers", "parse"], "main"),
        (&["lines", "parse"], "app.rs"),
        (&["lines"], "app.rs"),
        (&["lines", "--by", "self"], "std::read"),
        (&["functions", "--by", "self"], "std::read"),
        (&["threads"], "worker"),
        (&["spans"], "load"),
        (&["quality"], "samples"),
    ] {
        let text = report(view).stdout;
        assert!(text.contains(words) && !text.contains('\x1b'), "{view:?}: {text}");
        let json = json(view);
        assert_eq!(json["view"], view[0]);
        assert!(json["quality"]["grade"].is_string(), "{view:?}");
        let verdict = format!("{}: ", json["quality"]["grade"].as_str().unwrap());
        assert!(text.starts_with(&verdict), "{view:?} does not start with the quality: {text}");
    }
}

#[test]
fn lines_of_all_functions_have_no_total() {
    folder()
        .whyslow(["report", "x.whyslow", "lines", "--by", "total"])
        .fails(125, &["--by own or --by self"]);
}

#[test]
fn unknown_and_ambiguous_functions() {
    let folder = folder();
    folder
        .whyslow(["report", "x.whyslow", "callers", "prase"])
        .fails(125, &["x.whyslow: ", "'prase'", "did you mean 'parse'"]);
    folder
        .whyslow(["report", "x.whyslow", "lines", "a"])
        .fails(125, &["x.whyslow: ", "'a' could be any of", "try: more of the name"]);
}

#[test]
fn colours_are_optional() {
    let folder = folder();
    let colours = |variable: &str| {
        let mut command = folder.command();
        command.args(["report", "x.whyslow"]).env("CLICOLOR_FORCE", "1").env(variable, "1");
        outcome(&mut command).stdout.contains('\x1b')
    };
    assert!(colours("CLICOLOR_FORCE"));
    assert!(!colours("NO_COLOR"));
}

#[test]
fn shows_modules_and_crates() {
    let folder = Folder::new();
    folder.profile("app.whyslow", "main;[libz.so] 30\nmain 10");
    let text = folder.whyslow(["report", "app.whyslow", "modules"]).succeeds().stdout.clone();
    assert!(text.contains("75.0 %") && text.contains("libz.so") && text.contains("/home/me/app"), "{text}");
    for view in ["modules", "crates"] {
        let json = folder.whyslow(["report", "app.whyslow", view, "--format", "json", "-n", "1"]);
        let json: serde_json::Value = serde_json::from_str(&json.succeeds().stdout).unwrap();
        assert_eq!((&json["view"], &json["schema"]), (&view.into(), &"whyslow-report/1".into()));
        assert_eq!(json[view][0]["self_samples"], 30);
        assert_eq!(json[format!("{view}_left_out")], 1);
    }
}

/// The rows of a CSV without quotes, by column.
fn csv(args: &[&str]) -> Vec<std::collections::BTreeMap<String, String>> {
    let text = report(&[args, &["--format", "csv"]].concat()).stdout;
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    lines.map(|row| head.iter().cloned().zip(row).collect()).collect()
}

#[test]
fn csv_has_the_numbers_and_names_of_json() {
    let (rows, json) = (csv(&["--by", "self"]), json(&["--by", "self"]));
    let functions = json["functions"].as_array().unwrap();
    assert_eq!(rows.len(), functions.len());
    for (row, function) in rows.iter().zip(functions) {
        for field in ["name", "kind", "file"] {
            assert_eq!(row[field], function[field].as_str().unwrap_or_default(), "{field}");
        }
        for field in ["self_share", "total_share", "self_ns", "total_ns", "self_samples", "line"] {
            let number = row[field].parse::<f64>().ok();
            assert_eq!(number, function[field].as_f64(), "{field} of {}", row["name"]);
        }
    }
    assert_eq!(csv(&["-n", "1"]).len(), 1);
    assert!(csv(&["spans"]).iter().any(|row| row["name"] == "load" && row["count"] == "2"));
}

#[test]
fn every_view_that_is_a_table_is_csv_and_markdown() {
    for view in ["functions", "lines", "threads", "modules", "crates", "spans", "parallelism"] {
        let rows = csv(&[view]);
        assert!(!rows.is_empty() && rows.iter().all(|row| row.len() > 2), "{view}: {rows:?}");
        let text = report(&[view, "--format", "markdown"]).stdout;
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with("| ") && lines[1].starts_with('|') && lines[1].contains("---:|"),
            "{text}"
        );
        assert_eq!(lines.len(), rows.len() + 2, "{view}: {text}");
    }
    assert!(csv(&["lines", "parse"]).iter().any(|row| row["file"] == "app.rs" && row["line"] == "10"));
    assert!(report(&["lines", "parse", "--format", "markdown"]).stdout.contains("| 10 |"));
}

#[test]
fn views_that_are_no_tables_name_the_format_that_they_have() {
    for view in [&["tree"][..], &["callers", "parse"], &["quality"]] {
        let outcome = folder().whyslow([&["report", "x.whyslow"], view, &["--format", "csv"]].concat());
        outcome.fails(125, &["is no table", "--format json"]);
    }
}
