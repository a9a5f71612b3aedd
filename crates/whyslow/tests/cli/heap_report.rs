//! Heap recordings in `report`, `flame`, `export` and `view`.

use serde_json::Value;
use whyslow_analyze::testing;

use crate::harness::{Folder, Outcome};

const HEAP: &str = "
main@app.rs:3;load@app.rs:10;std::alloc : allocations=4 bytes_allocated=4000 frees=1 bytes_freed=1000 peak_bytes=3000 peak_blocks=3 live_at_exit_blocks=3 live_at_exit_bytes=3000 definitely_lost_blocks=3 definitely_lost_bytes=3000 made_ms=10 freed_ms=60
worker: main@app.rs:3;parse@app.rs:20;std::alloc : allocations=90 bytes_allocated=900 frees=90 bytes_freed=900 peak_bytes=10 peak_blocks=1 temporary=90 made_ms=20 freed_ms=40
";

/// A folder with a recording of the heap alone and one of CPU time and heap.
fn folder() -> Folder {
    let folder = Folder::new();
    folder.save("heap.whyslow", &testing::heap_profile(HEAP));
    let mut both = testing::profile("main@app.rs:3;parse@app.rs:20 300");
    testing::add_heap(&mut both, HEAP);
    folder.save("both.whyslow", &both);
    folder.profile("cpu.whyslow", "main@app.rs:3;parse@app.rs:20 300");
    folder
}

fn whyslow(args: &[&str]) -> Outcome {
    let outcome = folder().whyslow(args);
    outcome.succeeds();
    outcome
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&whyslow(&[args, &["--format", "json"]].concat()).stdout).unwrap()
}

#[test]
fn the_heap_is_the_default_view_if_nothing_else_was_recorded() {
    let default = whyslow(&["report", "heap.whyslow"]).stdout;
    assert_eq!(default, whyslow(&["report", "heap.whyslow", "heap"]).stdout);
    assert!(default.contains("leaks: 2.93 KiB definitely lost in 3 blocks"), "{default}");
    let both = whyslow(&["report", "both.whyslow"]).stdout;
    assert_eq!(both, whyslow(&["report", "both.whyslow", "functions"]).stdout);
    assert!(both.contains("\n300 ms in 300 samples"), "{both}");
    assert!(whyslow(&["report", "both.whyslow", "heap"]).stdout.contains("load"));
}

#[test]
fn json_has_the_heap_in_every_view() {
    for view in
        [&["functions"][..], &["tree"], &["callers", "parse"], &["threads"], &["heap"], &["quality"], &[]]
    {
        for file in ["heap.whyslow", "both.whyslow"] {
            let report = json(&[&["report", file], view].concat());
            assert_eq!(report["heap"]["allocations"], 94, "{view:?}");
            assert_eq!(report["sites"][0]["function"], "load");
            assert_eq!(report["sites"][0]["leaks"]["definitely"]["bytes"], 3000);
        }
    }
    let short = json(&["report", "heap.whyslow", "-n", "1"]);
    assert_eq!((short["sites"].as_array().unwrap().len(), &short["sites_left_out"]), (1, &1.into()));
}

#[test]
fn metric_selects_by_name() {
    let report = json(&["report", "both.whyslow", "--metric", "temporary-allocations"]);
    assert_eq!(report["metric"], serde_json::json!({"name": "temporary-allocations", "unit": "count"}));
    assert_eq!((&report["value"], &report["functions"][0]["name"]), (&90.into(), &"std::alloc".into()));
    let text = whyslow(&["report", "both.whyslow", "tree", "--metric", "live-at-peak"]).stdout;
    assert!(text.contains("\n2.94 KiB of live-at-peak; callees below each function"), "{text}");
    let folded = whyslow(&["export", "both.whyslow", "--to", "folded", "--metric", "bytes-allocated"]).stdout;
    assert!(folded.contains("main;load;std::alloc 4000"), "{folded}");
    let svg = whyslow(&["flame", "heap.whyslow", "--metric", "live-at-exit", "-o", "-"]).stdout;
    assert!(svg.contains("live-at-exit; 0.10 s; good: every allocation counted"), "no subtitle");
}

#[test]
fn shows_live_bytes_at_any_time() {
    let live =
        |args: &[&str]| json(&[&["report", "heap.whyslow", "functions"], args].concat())["value"].clone();
    assert_eq!(live(&["--live-at", "5ms"]), 0);
    assert_eq!(live(&["--live-at", "15ms"]), 4000);
    assert_eq!(live(&["--live-at", "30ms", "--metric", "live"]), 4900);
    assert_eq!(live(&["--metric", "live"]), 3000);
    assert_eq!(live(&["--metric", "live", "--time", "20ms..50ms"]), 4000);
    assert_eq!(live(&["--metric", "live", "--thread", "worker", "--time", "..30ms"]), 900);
}

#[test]
fn explains_bad_metrics_and_views() {
    let why = |args: &[&str]| {
        let outcome = folder().whyslow(args);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(125), ""));
        outcome.stderr
    };
    let unknown = why(&["report", "heap.whyslow", "--metric", "bytes"]);
    assert!(unknown.contains("the profile has no metric 'bytes', only 'bytes-allocated'"), "{unknown}");
    assert!(unknown.contains("'live'"), "{unknown}");
    assert!(
        why(&["report", "cpu.whyslow", "--live-at", "1s"])
            .contains("only 'cpu-time'; try: whyslow heap -- PROGRAM")
    );
    assert!(
        why(&["report", "cpu.whyslow", "--metric", "wall-time"]).contains("try: whyslow record --off-cpu")
    );
    assert!(why(&["report", "cpu.whyslow", "heap"]).contains("whyslow heap -- PROGRAM"));
    assert!(why(&["report", "heap.whyslow", "heap", "--metric", "live"]).contains("functions"));
    assert!(why(&["flame", "heap.whyslow", "--live-at", "1s", "--time", "..2s"]).contains("--live-at"));
    assert!(
        why(&["flame", "heap.whyslow", "--live-at", "1s", "--metric", "allocations"]).contains("--live-at")
    );
}

#[test]
fn without_cpu_samples_quality_does_not_mention_them() {
    let text = whyslow(&["report", "heap.whyslow", "quality"]).stdout;
    assert!(!text.contains("samples") && !text.contains("kernel"), "{text}");
    let quality = &json(&["report", "heap.whyslow"])["quality"];
    assert_eq!(quality["warnings"], serde_json::json!([]));
}

#[test]
fn the_viewers_page_opens_with_the_metric() {
    let folder = folder();
    let outcome = folder.whyslow(["view", "both.whyslow", "--metric", "bytes-allocated", "-o", "x.html"]);
    outcome.succeeds();
    assert!(folder.read("x.html").contains("<div id=\"app\" data-view=\"m=1\"></div>"));
    let export = ["export", "both.whyslow", "--to", "html", "--metric", "bytes-allocated", "-o", "y.html"];
    folder.whyslow(export).succeeds();
    assert!(folder.read("y.html").contains("data-view=\"m=1\""));
}

#[test]
fn leaks_have_a_view_of_their_own_with_callers() {
    let folder = Folder::new();
    let lost = "main@app.rs:3;load@app.rs:12;make@app.rs:20 : allocations=2 bytes_allocated=64 live_at_exit_blocks=2 \
                live_at_exit_bytes=64 definitely_lost_blocks=2 definitely_lost_bytes=64";
    let mut profile = testing::heap_profile(lost);
    if let Some(facts) = &mut profile.meta.heap {
        facts.leaks = whyslow_profile::LeakCheck::AtExit;
    }
    folder.save("lost.whyslow", &profile);
    let text = folder.whyslow(["report", "lost.whyslow", "leaks"]).succeeds().stdout.clone();
    for part in ["leaks: 64 B definitely lost in 2 blocks", "make", "called by load (app.rs:12)"] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    folder.profile("cpu.whyslow", "main 1");
    folder.whyslow(["report", "cpu.whyslow", "leaks"]).fails(125, &["the heap was not recorded"]);
}
