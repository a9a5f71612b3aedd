//! Events as metrics, in every view and format.

use whyslow_analyze::testing;
use whyslow_profile::{Origin, Profile, Sampler, Trigger};

use crate::harness::{Folder, can_record, has_perf_events};

/// A recording with page faults and CPU counters.
fn recorded() -> Profile {
    let mut profile = testing::profile("main@a.rs:1;fast@a.rs:2 100\nmain@a.rs:1;slow@a.rs:3 100");
    let sampled = Origin::Sampled(Sampler { trigger: Trigger::Event, rate_hz: 997 });
    let by = |fast, slow| move |name: &str| if name == "fast" { fast } else { slow };
    testing::add_event(&mut profile, "page-faults", Origin::Counted, by(0, 1));
    testing::add_event(&mut profile, "cycles", sampled, by(1000, 2000));
    testing::add_event(&mut profile, "instructions", sampled, by(3000, 1000));
    testing::add_event(&mut profile, "cache-misses", sampled, by(0, 40));
    profile
}

#[test]
fn every_view_shows_the_requested_event() {
    let folder = Folder::new();
    folder.save("a.whyslow", &recorded());
    for view in [
        &["functions"][..],
        &["functions", "--by", "self"],
        &["tree"],
        &["tree", "--inverted"],
        &["callers", "slow"],
        &["lines"],
        &["lines", "slow"],
        &["threads"],
        &["modules"],
        &["crates"],
        &["quality"],
    ] {
        let words = ["report", "a.whyslow"].iter().chain(view).chain(&["--metric", "page-faults"]);
        let outcome = folder.whyslow(words.clone());
        let text = &outcome.succeeds().stdout;
        assert!(text.starts_with("good: counted, 100.0 % of stacks complete"), "{view:?}: {text}");
        assert!(
            !text.contains("fast") && (view[0] == "quality" || text.contains("100.0 %")),
            "{view:?}: {text}"
        );
        let outcome = folder.whyslow(words.chain(&["--format", "json"]));
        let json: serde_json::Value = serde_json::from_str(&outcome.succeeds().stdout).unwrap();
        assert_eq!(json["metric"]["name"], "page-faults", "{view:?}");
        assert_eq!(json["value"], 100, "{view:?}");
    }
    let filtered = folder.whyslow(["report", "a.whyslow", "--metric", "page-faults", "--function", "fast"]);
    filtered.fails(125, &["no samples match all filters"]);
}

#[test]
fn every_format_has_the_requested_event() {
    let folder = Folder::new();
    folder.save("a.whyslow", &recorded());
    let export = |format: &str| {
        let outcome =
            folder.whyslow(["export", "a.whyslow", "--metric", "page-faults", "--to", format, "-o", "out"]);
        outcome.succeeds();
        std::fs::read(folder.path().join("out")).unwrap()
    };
    let text = |format: &str| String::from_utf8(export(format)).unwrap();
    assert_eq!(text("folded"), "main;slow 100\n");
    for (format, words) in [
        ("firefox", "\"length\":100"),
        ("speedscope", "\"endValue\":100"),
        ("perf-script", "1 page-faults:"),
        ("csv", "slow,"),
        ("svg", "page-faults; "),
    ] {
        let text = text(format);
        assert!(text.contains(words) && !text.contains("fast"), "{format}: {text}");
    }
    assert!(!export("html").is_empty());
    export("pprof");
    folder.whyslow(["import", "out", "-o", "back.whyslow"]).succeeds();
    for (metric, sum) in [("page-faults", 100), ("cycles", 300_000), ("cache-misses", 4000)] {
        let json = folder.whyslow(["report", "back.whyslow", "--metric", metric, "--format", "json"]);
        let json: serde_json::Value = serde_json::from_str(&json.succeeds().stdout).unwrap();
        assert_eq!(json["value"], sum, "{metric}");
    }
    let flame = folder.whyslow(["flame", "a.whyslow", "--metric", "cycles", "-o", "f.svg"]);
    flame.succeeds();
    let diff = folder.whyslow(["diff", "a.whyslow", "back.whyslow", "--metric", "page-faults"]);
    assert!(diff.succeeds().stdout.contains("page-faults"), "{}", diff.stdout);
}

#[test]
fn functions_have_ipc_and_misses_if_counters_were_recorded() {
    let folder = Folder::new();
    folder.save("a.whyslow", &recorded());
    let text = folder.whyslow(["report", "a.whyslow"]);
    let text = &text.succeeds().stdout;
    assert!(text.contains("IPC  cache/k"), "{text}");
    let row = text.lines().find(|line| line.contains("slow")).unwrap();
    assert!(row.contains("0.50") && row.contains("40.0"), "{row}");
    let json = folder.whyslow(["report", "a.whyslow", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.succeeds().stdout).unwrap();
    for table in ["functions", "own"] {
        let rows = json[table].as_array().unwrap();
        let fast = rows.iter().find(|row| row["name"] == "fast").unwrap();
        assert_eq!(fast["counters"]["ipc"]["value"], 3.0, "{fast}");
        let misses = &fast["counters"]["per_thousand_instructions"]["cache-misses"];
        assert_eq!(misses["value"], 0.0, "{fast}");
    }
}

#[test]
fn unknown_events_fail_before_the_program_starts() {
    let folder = Folder::new();
    folder.script("app", "touch started");
    for (event, words) in [
        ("cylces", "similar: cycles"),
        ("cycles:x", "are not modifiers"),
        ("uprobe:parse", "not a program with functions"),
        ("uprobe:/no/such/file:parse", "cannot be read"),
        ("page-faults/period=0/", "1 or more"),
    ] {
        folder.whyslow(["record", "-e", event, "./app"]).fails(125, &[words, "try: "]);
    }
    let own = env!("CARGO_BIN_EXE_whyslow");
    folder.whyslow(["record", "-e", "uprobe:no_such_function_here", own]).fails(125, &["has no function"]);
    folder
        .whyslow(["record", "-e", "uprobe:run", own, "--version"])
        .fails(125, &["several functions", "::run"]);
    let lonely = folder.whyslow(["record", "-c", "5", "./app"]);
    assert!(lonely.code == Some(125) && lonely.stderr.contains("--event"), "{}", lonely.stderr);
    assert!(!folder.names().contains(&"started".to_owned()));
}

#[test]
fn warns_about_events_that_are_not_permitted_and_records_the_rest() {
    if !can_record() || !has_perf_events() {
        return;
    }
    let folder = Folder::new();
    let options = ["record", "-o", "a.whyslow", "-e", "r0f0f0f,page-faults", "--", "sh", "-c", "exit 4"];
    let outcome = folder.whyslow(options);
    assert_eq!(outcome.code, Some(4), "{}", outcome.stderr);
    let warned = outcome
        .stderr
        .lines()
        .any(|line| line.contains("r0f0f0f is not recorded: ") && line.contains("try: "));
    let has_counter = folder.whyslow(["report", "a.whyslow", "--metric", "r0f0f0f"]).code == Some(0);
    assert!(warned || has_counter, "{}", outcome.stderr);
    folder.whyslow(["report", "a.whyslow", "--metric", "page-faults"]).succeeds();
}
