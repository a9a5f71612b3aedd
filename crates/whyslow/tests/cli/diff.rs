//! `whyslow diff` and `whyslow verify`: compare profiles.

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
fn compares_the_main_metric() {
    let folder = folder();
    let heap = folder.whyslow(["diff", "before.whyslow", "after.whyslow"]);
    let text = &heap.succeeds().stdout;
    assert!(
        text.contains("counted exactly") && text.contains("lines by bytes-allocated: 2 unchanged"),
        "{text}"
    );
    assert_eq!(heap.stderr, "");
    let cpu = folder.whyslow(["diff", "slow.whyslow", "fast.whyslow"]);
    let text = &cpu.succeeds().stdout;
    assert!(text.contains("functions by self cpu-time: 2 beyond the sampling error, 1 within it"), "{text}");
    assert!(text.contains("only before: gone 90.0 ms"), "{text}");
}

#[test]
fn accepts_a_metric_and_filters() {
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
fn finds_a_metric_that_both_have() {
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
fn explains_what_cannot_be_compared() {
    let folder = folder();
    let nothing = folder.whyslow(["diff", "slow.whyslow", "after.whyslow"]);
    nothing.fails(
        125,
        &["no metric in common: slow.whyslow has cpu-time; after.whyslow has bytes", "; try: recording both"],
    );
    let wrong = folder.whyslow(["diff", "before.whyslow", "after.whyslow", "--metric", "cpu-time"]);
    wrong.fails(125, &["before.whyslow: no metric 'cpu-time'; try: --metric", "live-at-peak"]);
    folder.whyslow(["diff", "before.whyslow", "none.whyslow"]).fails(125, &["none.whyslow: no such file"]);
    let both = folder.whyslow(["diff", "slow.whyslow", "fast.whyslow", "--function", "nowhere"]);
    both.fails(125, &["slow.whyslow: no function matches 'nowhere'"]);
}

#[test]
fn a_filter_may_match_only_one_side() {
    let folder = folder();
    let outcome = folder.whyslow(["diff", "slow.whyslow", "fast.whyslow", "--function", "gone"]);
    outcome.succeeds();
    assert!(outcome.stderr.contains("fast.whyslow: no function matches 'gone'"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("only before: gone 90.0 ms, main 90.0 ms"), "{}", outcome.stdout);
}

#[test]
fn compares_an_incomplete_file_with_a_warning() {
    let folder = folder();
    let mut killed = testing::profile("main@app.rs:3;parse@app.rs:20 300");
    killed.sealed = false;
    folder.save("killed.whyslow", &killed);
    let bytes = std::fs::read(folder.path().join("killed.whyslow")).unwrap();
    folder.file("killed.whyslow", &bytes[..bytes.len() - 1]);
    let outcome = folder.whyslow(["diff", "slow.whyslow", "killed.whyslow"]);
    assert!(outcome.succeeds().stdout.contains("warning: after is incomplete"), "{outcome:#?}");
}

/// A Vec of 4,000 numbers grows two times more than one of 1,000: to 2,048 and to 4,096.
#[test]
fn compares_two_recordings_of_a_program() {
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

/// Five runs per side: `parse` takes a third less, and runs differ by a few samples.
fn runs(folder: &Folder) {
    for (run, noise) in [7, 0, 12, 4, 9].into_iter().enumerate() {
        let run = run + 1;
        folder.profile(
            &format!("old{run}.whyslow"),
            &format!("main@app.rs:3;parse@app.rs:20 {}\nmain@app.rs:3;hash@app.rs:30 {}\nmain@app.rs:3;rare@app.rs:40 3", 600 + noise, 400 - noise),
        );
        folder.profile(
            &format!("new{run}.whyslow"),
            &format!(
                "main@app.rs:3;parse@app.rs:20 {}\nmain@app.rs:3;hash@app.rs:30 {}",
                400 - noise,
                395 + noise
            ),
        );
    }
}

const OLD: [&str; 5] = ["old1.whyslow", "old2.whyslow", "old3.whyslow", "old4.whyslow", "old5.whyslow"];
const NEW: [&str; 5] = ["new1.whyslow", "new2.whyslow", "new3.whyslow", "new4.whyslow", "new5.whyslow"];

#[test]
fn several_runs_per_side_have_ratios() {
    let folder = folder();
    runs(&folder);
    let files = [&["--before"][..], &OLD, &["--after"], &NEW].concat();
    let diff = json(&folder, &files);
    assert_eq!(
        (&diff["runs"], &diff["before"]["files"][4]),
        (&serde_json::json!([5, 5]), &"old5.whyslow".into())
    );
    let parse = &diff["rows"][0];
    assert_eq!(
        (&parse["name"], &parse["verdict"], &parse["before"]),
        (&"parse".into(), &"less".into(), &606_400_000.into())
    );
    let number = |row: &Value, name: &str| row[name].as_f64().unwrap();
    assert!(number(parse, "ratio_low") < 0.65 && 0.65 < number(parse, "ratio_high"), "{parse}");
    assert!(number(parse, "q") <= 0.05 && number(parse, "p") <= number(parse, "q"), "{parse}");
    let others = diff["rows"].as_array().unwrap()[1..].iter();
    assert!(others.clone().all(|row| row["verdict"] == "undecided"), "{diff}");
    let rare = others.clone().find(|row| row["name"] == "rare").unwrap();
    assert_eq!((&rare["ratio"], &rare["seen"]), (&Value::Null, &"before".into()), "too few samples");
    let total = &diff["totals"][0];
    assert_eq!((&total["what"], &total["verdict"]), (&"cpu-time".into(), &"less".into()));
    assert!(number(total, "ratio_high") < 1.0);

    let text = folder.whyslow([&["diff"][..], &files].concat()).succeeds().stdout.clone();
    assert!(
        text.contains("before: 5 runs, old1.whyslow to old5.whyslow") && text.contains("means of 5 runs"),
        "{text}"
    );
    assert!(text.contains("×0.65  0.6") && text.contains("less       parse"), "{text}");
    assert!(!text.contains("single run per side"), "{text}");
}

#[test]
fn three_runs_are_enough_but_few() {
    let folder = folder();
    runs(&folder);
    let files = [&["--before"][..], &OLD[..3], &["--after"], &NEW[..3]].concat();
    let diff = json(&folder, &files);
    assert_eq!(
        (&diff["caveats"][0]["id"], &diff["rows"][0]["verdict"]),
        (&"few-runs".into(), &"less".into())
    );
    let two = folder.whyslow([&["diff", "--before"][..], &OLD[..2], &["--after"], &NEW[..2]].concat());
    assert_eq!(two.code, Some(125));
    assert!(two.stderr.contains("2 runs per side cannot show run-to-run noise"), "{}", two.stderr);
    let unequal = folder.whyslow([&["diff", "--before"][..], &OLD, &["--after"], &NEW[..3]].concat());
    assert!(unequal.stderr.contains("5 runs before and 3 after"), "{}", unequal.stderr);
    let twice = folder.whyslow([&["diff", "--before"][..], &OLD[..3], &["--after"], &OLD[..3]].concat());
    assert!(twice.stderr.contains("given twice"), "{}", twice.stderr);
}

#[test]
fn allocations_that_do_not_vary_are_exact() {
    let folder = Folder::new();
    for run in 1..=3 {
        folder.save(&format!("old{run}.whyslow"), &testing::heap_profile(BEFORE));
        folder.save(&format!("new{run}.whyslow"), &testing::heap_profile(AFTER));
    }
    let files =
        [&["--before"][..], &OLD[..3], &["--after"], &NEW[..3], &["--metric", "allocations"]].concat();
    let diff = json(&folder, &files);
    assert_eq!((&diff["counted"], &diff["rows_are"]), (&true.into(), &"lines".into()));
    let load = &diff["rows"][0];
    assert_eq!(
        (&load["name"], &load["change"], &load["verdict"]),
        (&"load".into(), &(-39).into(), &"less".into())
    );
    assert_eq!((&load["margin"], &load["place_after"]["line"]), (&Value::Null, &12.into()));
}

#[test]
fn records_commands_in_turn_and_keeps_them_on_request() {
    let folder = Folder::new();
    let busy = "sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo printed; echo ${#WHYSLOW_PADDING} >> sizes'";
    let outcome = folder
        .whyslow(["diff", "--runs", "3", "--warmup", "0", "-o", "kept", "--format", "json", busy, busy]);
    if outcome.stderr.contains("not permitted") {
        return;
    }
    let diff: Value = serde_json::from_str(&outcome.succeeds().stdout).unwrap();
    assert_eq!(diff["runs"], serde_json::json!([3, 3]));
    let sizes = std::fs::read_to_string(folder.path().join("sizes")).unwrap();
    let different = sizes.lines().collect::<std::collections::HashSet<_>>();
    assert!(sizes.lines().count() == 6 && different.len() >= 4, "{sizes}");
    assert!(
        outcome.stderr.contains("round 3 of 3") && outcome.stderr.contains("the recordings are in kept"),
        "{outcome:?}"
    );
    let mut kept = std::fs::read_dir(folder.path().join("kept"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect::<Vec<_>>();
    kept.sort();
    let expected = [
        "after-1.whyslow",
        "after-2.whyslow",
        "after-3.whyslow",
        "before-1.whyslow",
        "before-2.whyslow",
        "before-3.whyslow",
    ];
    assert_eq!(kept, expected);
}

#[test]
fn refuses_commands_that_cannot_be_compared() {
    let folder = Folder::new();
    let says = |args: &[&str], words: &str| {
        let outcome = folder.whyslow([&["diff"], args].concat());
        assert_eq!(outcome.code, Some(125), "{outcome:?}");
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    };
    says(
        &["--runs", "3", "./a | ./b", "./c"],
        "has an unquoted |, which only a shell understands; try: sh -c",
    );
    says(&["--runs", "2", "true", "true"], "--runs 2: too few runs");
    says(
        &["--runs", "3", "--warmup", "0", "sh -c 'exit 3'", "true"],
        "exited with 3; try: a command that succeeds",
    );
}

#[test]
fn compares_call_paths_on_request() {
    let folder = folder();
    folder.profile("one.whyslow", "main;a;f 300\nmain;b;f 300\nmain;c 300");
    folder.profile("two.whyslow", "main;a;f 100\nmain;b;f 300\nmain;c 300");
    let diff = json(&folder, &["one.whyslow", "two.whyslow", "--paths"]);
    let path = &diff["paths"][0];
    assert_eq!(
        (&path["path"], &path["verdict"]),
        (&serde_json::json!(["main", "a", "f"]), &"undecided".into()),
        "the largest change comes first, and one run per side proves nothing"
    );
    assert_eq!((&path["change"], &path["total"]["change"]), (&(-200_000_000).into(), &(-200_000_000).into()));
    assert_eq!(json(&folder, &["one.whyslow", "two.whyslow"])["paths"], Value::Null);
    let text = folder.whyslow(["diff", "one.whyslow", "two.whyslow", "--paths"]).succeeds().stdout.clone();
    assert!(
        text.contains("call paths by self cpu-time: 1 beyond the sampling error")
            && text.contains("  main > a > f"),
        "{text}"
    );
}

#[test]
fn shows_a_function_with_its_callers_and_callees() {
    let folder = folder();
    folder.profile("one.whyslow", "main;a;f;g 300\nmain;b;f 300\nmain;c 300");
    folder.profile("two.whyslow", "main;a;f;g 100\nmain;b;f 300\nmain;c 300");
    let diff = json(&folder, &["one.whyslow", "two.whyslow", "--function", "^f$"]);
    let focus = &diff["focus"];
    assert_eq!(
        (&focus["total"]["verdict"], &focus["own"]["before"]),
        (&"undecided".into(), &300_000_000.into())
    );
    assert_eq!(
        (&focus["callers"][0]["name"], &focus["callers"][0]["verdict"]),
        (&"a".into(), &"undecided".into())
    );
    assert_eq!(
        (&focus["callees"][0]["name"], &focus["callees"][0]["after"]),
        (&"g".into(), &100_000_000.into())
    );
    let text =
        folder.whyslow(["diff", "one.whyslow", "two.whyslow", "--function", "^f$"]).succeeds().stdout.clone();
    assert!(text.contains("called by:") && text.contains("calls:"), "{text}");
}

#[test]
fn a_function_inlined_into_its_caller_is_reported_as_moved() {
    let folder = folder();
    folder.profile("one.whyslow", "main;f;g 500\nmain;f 300\nmain;h 200");
    folder.profile("two.whyslow", "main;f 806\nmain;h 199");
    let text = folder.whyslow(["diff", "one.whyslow", "two.whyslow"]).succeeds().stdout.clone();
    assert!(
        text.contains("moved: g (500 ms) is now part of f, which gained 506 ms self; its total is unchanged"),
        "{text}"
    );
    assert!(text.contains("functions by self cpu-time: 4 within it"), "{text}");
    assert!(!text.contains("only before"), "{text}");
}

/// No number of a single run per side that varies from run to run has a verdict, in any format.
#[test]
fn one_run_per_side_has_no_verdict() {
    let folder = Folder::new();
    for (name, factor) in [("one.whyslow", 1), ("two.whyslow", 2)] {
        let mut profile =
            testing::profile(&format!("main;parse {}\nmain;hash {}", 600 * factor, 400 * factor));
        profile.meta.duration_ns = factor * 1_000_000_000;
        profile.meta.user_time_ns = factor * 900_000_000;
        profile.meta.system_time_ns = factor * 100_000_000;
        profile.meta.max_resident_bytes = factor << 24;
        folder.save(name, &profile);
    }
    let files = ["one.whyslow", "two.whyslow"];
    let diff = json(&folder, &files);
    let numbers = diff["totals"].as_array().unwrap().iter().chain(diff["rows"].as_array().unwrap());
    let verdicts = numbers.map(|row| row["verdict"].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(verdicts, vec!["undecided"; 5 + 3]);
    for (command, says) in
        [("diff", "there is no verdict"), ("verify", "Undecided: cpu time 1.00 s → 2.00 s")]
    {
        let text = folder.whyslow([command, files[0], files[1]]).succeeds().stdout.replace('\n', " ");
        assert!(text.contains(says), "{text}");
        let claims = ["more ", "less ", "slower", "faster", "regression", "Worse"];
        assert!(claims.iter().all(|word| !text.contains(word)), "{text}");
    }
}

#[test]
fn merged_files_are_compared_by_the_means_of_their_runs() {
    let folder = Folder::new();
    for run in 0..7u64 {
        let mut profile = testing::profile(&format!("main;parse {}\nmain;hash 400", 600 + run));
        profile.meta.duration_ns = 2_000_000_000;
        profile.meta.user_time_ns = 900_000_000;
        profile.meta.started_unix_ns = run;
        folder.save(&format!("{run}.whyslow"), &profile);
    }
    let files = (0..7).map(|run| format!("{run}.whyslow")).collect::<Vec<_>>();
    let merge = |to: &str, files: &[String]| {
        let files = files.iter().map(String::as_str);
        folder.whyslow(["merge", "-o", to].into_iter().chain(files)).succeeds();
    };
    merge("four.whyslow", &files[..4]);
    merge("five.whyslow", &["four.whyslow".to_owned(), files[4].clone()]);
    merge("two.whyslow", &files[5..]);
    let diff = json(&folder, &["five.whyslow", "two.whyslow"]);
    assert_eq!(diff["caveats"][0]["id"], "merged-runs");
    assert!(diff["caveats"][0]["message"].as_str().unwrap().contains("5 before and 2 after"), "{diff}");
    let number = |what: &str| {
        let all = diff["totals"].as_array().unwrap();
        let total = all.iter().find(|total| total["what"] == what).unwrap();
        [&total["before"], &total["after"]].map(|value| value.as_u64().unwrap() / 1_000_000)
    };
    assert_eq!(
        (number("cpu-time"), number("wall-time"), number("user-time")),
        ([1002, 1005], [2000; 2], [900; 2])
    );
}

#[test]
fn recordings_that_are_not_kept_have_no_names() {
    if !crate::harness::can_record() {
        return;
    }
    let folder = Folder::new();
    let outcome = folder.whyslow(["diff", "--runs", "3", "--warmup", "0", "true", "true"]);
    let text = &outcome.succeeds().stdout;
    assert!(text.contains("before: 3 runs, true\n") && !text.contains(".whyslow"), "{text}");
}

#[test]
fn draws_the_change_as_a_flame_graph() {
    let folder = folder();
    runs(&folder);
    let drawn = folder.whyslow(["flame", "--diff", "slow.whyslow", "fast.whyslow", "-o", "one.svg"]);
    assert!(drawn.succeeds().stderr.contains("flame graph: one.svg"), "{drawn:?}");
    let picture = std::fs::read_to_string(folder.path().join("one.svg")).unwrap();
    assert!(
        picture.contains("cpu-time 990 ms → 300 ms; one run each") && picture.contains("gone"),
        "{picture}"
    );
    let files = [&["diff", "--flame", "many.svg", "--before"][..], &OLD, &["--after"], &NEW].concat();
    folder.whyslow(files).succeeds();
    let picture = std::fs::read_to_string(folder.path().join("many.svg")).unwrap();
    assert!(picture.contains("means of 5 runs each"), "{picture}");
}

#[test]
fn verify_prints_a_paragraph_and_a_table() {
    let folder = folder();
    runs(&folder);
    let files = [&["--before"][..], &OLD, &["--after"], &NEW].concat();
    let verify =
        |more: &[&str]| folder.whyslow([&["verify"][..], &files, more].concat()).succeeds().stdout.clone();
    let answer: Value = serde_json::from_str(&verify(&["--format", "json", "--function", "parse"])).unwrap();
    assert_eq!(
        (&answer["schema"], &answer["whole"]["verdict"]),
        (&"whyslow-verify/1".into(), &"less".into())
    );
    assert_eq!(
        (&answer["aim"]["names"], &answer["aim"]["total"]["verdict"]),
        (&serde_json::json!(["parse"]), &"less".into())
    );
    assert_eq!((&answer["worse"], &answer["better"][0]["name"]), (&serde_json::json!([]), &"parse".into()));
    let hottest = &answer["hottest"][0];
    let share = hottest["share"].as_f64().unwrap();
    assert_eq!((&hottest["name"], share > 0.5), (&"hash".into(), true));
    assert!((hottest["at_most_times_less"].as_f64().unwrap() - 1.0 / (1.0 - share)).abs() < 1e-9);
    let text = verify(&["--function", "parse"]);
    assert_eq!(answer["summary"].as_str().unwrap(), text.split("\n\n").next().unwrap().replace('\n', " "));
    for words in [
        "Faster: cpu time 1.00 s → 795 ms, ×0.79.",
        "The target parse shrank: total 606 ms → 394 ms, ×0.65",
        "No other regression was found.",
        "The hottest function is now hash with 401 ms, 50.5 %: without it, everything would be at most 2.0 times as fast.",
    ] {
        assert!(text.replace('\n', " ").contains(words), "{words}: {text}");
    }
    let markdown = verify(&["--format", "markdown"]);
    assert!(
        markdown.contains(
            "|  | before | after | change | ratio | 95 % | verdict |\n|:---|---:|---:|---:|---:|---:|---:|\n"
        ),
        "{markdown}"
    );
    assert!(
        markdown.contains("The largest saving is in parse")
            && markdown.contains("| parse | 606 ms | 394 ms |"),
        "{markdown}"
    );
}

#[test]
fn verify_gives_no_verdict_on_single_runs() {
    let folder = Folder::new();
    folder.profile("one.whyslow", "main;parse 600\nmain;hash 300\nmain;sort 100");
    folder.profile("two.whyslow", "main;parse 200\nmain;hash 300\nmain;sort 300");
    let text = folder
        .whyslow(["verify", "one.whyslow", "two.whyslow", "--function", "parse"])
        .succeeds()
        .stdout
        .replace('\n', " ");
    assert!(
        text.contains("A single run per side cannot show run-to-run noise, so there is no verdict")
            && text.contains("The target parse is undecided: total 600 ms → 200 ms"),
        "{text}"
    );
    let unknown = folder.whyslow(["verify", "one.whyslow", "two.whyslow", "--function", "nobody"]);
    assert!(unknown.stderr.contains("no function matches 'nobody' on either side"), "{unknown:?}");
}

#[test]
fn counts_that_vary_can_be_undecided() {
    let folder = Folder::new();
    let save = |name: String, load: u32, parse: u32| {
        let sites = format!(
            "main@app.rs:3;load@app.rs:10 : allocations={load} bytes_allocated=10
             main@app.rs:3;parse@app.rs:20 : allocations={parse} bytes_allocated=10
             main@app.rs:3;keep@app.rs:30 : allocations=5 bytes_allocated=10"
        );
        folder.save(&name, &testing::heap_profile(&sites));
    };
    for (run, [before, after]) in [[90, 92], [95, 93], [91, 96]].into_iter().enumerate() {
        save(format!("old{}.whyslow", run + 1), 40, before);
        save(format!("new{}.whyslow", run + 1), 80, after);
    }
    let files =
        [&["diff", "--metric", "allocations", "--before"][..], &OLD[..3], &["--after"], &NEW[..3]].concat();
    let text = folder.whyslow(files).succeeds().stdout.clone();
    assert!(text.contains("lines by allocations: 1 changed, 1 undecided, 1 unchanged"), "{text}");
    assert!(text.contains("×2.00") && text.contains("undecided  parse"), "{text}");
}
