//! `whyslow diff`: two profiles compared.

use serde_json::Value;
use whyslow_analyze::testing;
use whyslow_lab_harness::{Variant, build_or_skip};

use crate::harness::Folder;

const BEFORE: &str = "
main@app.rs:3;load@app.rs:10;std::alloc : allocations=40 bytes_allocated=4000 frees=40 bytes_freed=4000 peak_bytes=3000
worker: main@app.rs:3;parse@app.rs:20;std::alloc : allocations=90 bytes_allocated=900 temporary=90
";
const AFTER: &str = "
main@app.rs:3;load@app.rs:12;std::alloc : allocations=1 bytes_allocated=4000 frees=1 bytes_freed=4000 peak_bytes=4000
worker: main@app.rs:3;parse@app.rs:20;std::alloc : allocations=90 bytes_allocated=900 temporary=90
";

fn folder() -> Folder {
    let folder = Folder::new();
    folder.save("before.whyslow", &testing::heap_profile(BEFORE));
    folder.save("after.whyslow", &testing::heap_profile(AFTER));
    folder.profile("slow.whyslow", "main@app.rs:3;parse@app.rs:20 900\nmain@app.rs:3;gone@app.rs:30 90");
    folder.profile("fast.whyslow", "main@app.rs:3;parse@app.rs:20 300");
    folder
}

fn json(folder: &Folder, args: &[&str]) -> Value {
    let outcome = folder.whyslow([&["diff", "--format", "json"], args].concat());
    serde_json::from_str(&outcome.succeeds().stdout).unwrap()
}

#[test]
fn the_main_metric_of_both_is_compared() {
    let folder = folder();
    let heap = folder.whyslow(["diff", "before.whyslow", "after.whyslow"]);
    let text = &heap.succeeds().stdout;
    assert!(
        text.contains("counted exactly") && text.contains("lines by bytes-allocated: 2 the same"),
        "{text}"
    );
    assert_eq!(heap.stderr, "");
    let cpu = folder.whyslow(["diff", "slow.whyslow", "fast.whyslow"]);
    let text = &cpu.succeeds().stdout;
    assert!(text.contains("functions by cpu-time in themselves: 2 changed, 1 undecided"), "{text}");
    assert!(text.contains("only before: gone 90.0 ms"), "{text}");
}

#[test]
fn another_metric_and_filters_can_be_asked_for() {
    let folder = folder();
    let diff = json(&folder, &["before.whyslow", "after.whyslow", "--metric", "allocations"]);
    assert_eq!((&diff["rows"][0]["name"], &diff["rows"][0]["change"]), (&"load".into(), &(-39).into()));
    let diff = json(&folder, &["before.whyslow", "after.whyslow", "--metric", "live-at-peak"]);
    assert_eq!(diff["rows"][0]["change"], 1000);
    let diff = json(&folder, &["before.whyslow", "after.whyslow", "--thread", "worker"]);
    assert_eq!((&diff["totals"][0]["before"], diff["rows"].as_array().unwrap().len()), (&900.into(), 1));
    let diff = json(&folder, &["before.whyslow", "after.whyslow", "--live-at", "0s"]);
    assert_eq!(diff["metric"]["name"], "live");
    let diff = json(&folder, &["before.whyslow", "after.whyslow", "-n", "1"]);
    assert_eq!(diff["rows_left_out"], 1);
}

#[test]
fn a_metric_that_both_have_is_found() {
    let folder = folder();
    let mut both = testing::profile("main@app.rs:3;parse@app.rs:20 300");
    testing::add_heap(&mut both, BEFORE);
    folder.save("both.whyslow", &both);
    let diff = json(&folder, &["both.whyslow", "after.whyslow"]);
    assert_eq!(diff["metric"]["name"], "bytes-allocated");
    let diff = json(&folder, &["slow.whyslow", "both.whyslow"]);
    assert_eq!(
        (&diff["metric"]["name"], &diff["shared_metrics"]),
        (&"cpu-time".into(), &serde_json::json!(["cpu-time"]))
    );
}

#[test]
fn what_cannot_be_compared_is_explained() {
    let folder = folder();
    let nothing = folder.whyslow(["diff", "slow.whyslow", "after.whyslow"]);
    nothing.fails(
        125,
        &["no metric in common: slow.whyslow has cpu-time; after.whyslow has bytes", "; try: record both"],
    );
    let wrong = folder.whyslow(["diff", "before.whyslow", "after.whyslow", "--metric", "cpu-time"]);
    wrong.fails(125, &["before.whyslow: there is no metric 'cpu-time'; try: --metric", "live-at-peak"]);
    folder.whyslow(["diff", "before.whyslow", "none.whyslow"]).fails(125, &["none.whyslow: no such file"]);
    let both = folder.whyslow(["diff", "slow.whyslow", "fast.whyslow", "--function", "nowhere"]);
    both.fails(125, &["slow.whyslow: no function matches 'nowhere'"]);
}

#[test]
fn what_one_side_lacks_is_gone_and_no_error() {
    let folder = folder();
    let outcome = folder.whyslow(["diff", "slow.whyslow", "fast.whyslow", "--function", "gone"]);
    outcome.succeeds();
    assert!(outcome.stderr.contains("fast.whyslow: no function matches 'gone'"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("only before: gone 90.0 ms, main 90.0 ms"), "{}", outcome.stdout);
}

#[test]
fn an_incomplete_file_is_compared_with_a_warning() {
    let folder = folder();
    let mut killed = testing::profile("main@app.rs:3;parse@app.rs:20 300");
    killed.sealed = false;
    folder.save("killed.whyslow", &killed);
    let bytes = std::fs::read(folder.path().join("killed.whyslow")).unwrap();
    folder.file("killed.whyslow", &bytes[..bytes.len() - 1]);
    let outcome = folder.whyslow(["diff", "slow.whyslow", "killed.whyslow"]);
    assert!(outcome.succeeds().stdout.contains("warning: after is incomplete"), "{outcome:#?}");
}

/// A Vec of 4,000 numbers grows twice more than one of 1,000: to 2,048 and to 4,096.
#[test]
fn a_recorded_program_differs_by_what_it_did() {
    let Some(program) = build_or_skip("heap_vec", Variant::Release) else { return };
    let folder = Folder::new();
    for elements in ["1000", "4000"] {
        let file = format!("{elements}.whyslow");
        let mut command = folder.command();
        command.args(["heap", "-q", "-o", &file, "--"]).arg(&program).arg(elements);
        crate::harness::outcome(&mut command).succeeds();
    }
    let row = |metric: &str, name: &str| {
        let diff = json(&folder, &["1000.whyslow", "4000.whyslow", "--metric", metric]);
        assert_eq!((&diff["counted"], &diff["caveats"][0]["id"]), (&true.into(), &"arguments".into()));
        let rows = diff["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row["name"].as_str().unwrap().ends_with(name)).unwrap()
    };
    let grown = row("allocations", "grow_vec");
    assert_eq!([&grown["before"], &grown["after"], &grown["change"]], [9, 11, 2]);
    assert_eq!((&grown["verdict"], &grown["seen"]), (&"more".into(), &"both".into()));
    assert_eq!(row("bytes-allocated", "grow_vec")["change"], 8 * (2048 + 4096));
    assert_eq!(row("bytes-allocated", "right_size")["change"], 8 * 3000);
    assert_eq!(row("allocations", "boxes")["verdict"], "same");
}
