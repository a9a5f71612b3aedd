//! Compares two profiles given as text.

use whyslow_profile::heap::metric;

use super::*;
use crate::testing::{self, SAMPLE_NS};

fn compared(before: &Profile, after: &Profile, metric: &str) -> Diff {
    let [first, second] = [before, after].map(|profile| Selection {
        metric: Selection::metric_named(profile, metric).unwrap(),
        ..Selection::default()
    });
    let before = Side { profile: before, selection: &first };
    Diff::build(before, Side { profile: after, selection: &second }, true)
}

/// Rows as `name line→line before→after verdict`.
fn rows(before: &Profile, after: &Profile, diff: &Diff) -> Vec<String> {
    let shown = diff.rows.iter().map(|row| {
        let (profile, place) = match (row.after, row.before) {
            (Some(place), _) => (after, place),
            (_, place) => (before, place.unwrap()),
        };
        let line = |place: Option<Place>| place.map_or("-".to_owned(), |place| place.line.to_string());
        format!(
            "{} {}→{} {}→{} {}",
            labels::name(profile, place.label),
            line(row.before),
            line(row.after),
            row.own.before,
            row.own.after,
            row.own.verdict.label()
        )
    });
    shown.collect()
}

#[test]
fn allocating_lines_are_compared_by_counts() {
    let before = testing::heap_profile(
        "app::main@m.rs:3;app::load@m.rs:10;alloc::grow : allocations=20 bytes_allocated=900
         app::main@m.rs:3;app::load@m.rs:20;alloc::grow : allocations=5 bytes_allocated=50
         app::main@m.rs:4;app::old@m.rs:40 : allocations=3 bytes_allocated=30
         app::main@m.rs:5 : allocations=7 bytes_allocated=70",
    );
    let after = testing::heap_profile(
        "app::main@m.rs:3;app::load@m.rs:12;alloc::with_capacity : allocations=1 bytes_allocated=900
         app::main@m.rs:3;app::load@m.rs:20;alloc::grow : allocations=9 bytes_allocated=90
         app::main@m.rs:4;app::fresh@m.rs:50 : allocations=2 bytes_allocated=20
         app::main@m.rs:9 : allocations=7 bytes_allocated=70",
    );
    let diff = compared(&before, &after, metric::ALLOCATIONS);
    assert!(diff.counted && diff.sites);
    assert_eq!(
        rows(&before, &after, &diff),
        [
            "app::load 10→12 20→1 less",
            "app::load 20→20 5→9 more",
            "app::old 40→- 3→0 less",
            "app::fresh -→50 0→2 more",
            "app::main 5→9 7→7 same",
        ]
    );
    assert!(diff.rows.iter().all(|row| row.own.margin.is_none() && row.total.is_none()));
    let total = |what: &str| diff.totals.iter().find(|total| total.what == what).unwrap().change;
    assert_eq!(total("allocations"), Change::counted(35, 19));
    assert_eq!(total("bytes-allocated"), Change::counted(1050, 1080));
    assert_eq!(total("definitely-lost").verdict, Verdict::Same);
    assert!(diff.shared_metrics.contains(&metric::LIVE_AT_EXIT.to_owned()));
}

#[test]
fn functions_are_compared_in_time_and_not_in_shares() {
    let before = testing::profile("main;parse 500\nmain;hash 500");
    let after = testing::profile("main;parse 100\nmain;hash 500");
    let diff = compared(&before, &after, Metric::CPU_TIME);
    assert!(!diff.counted && !diff.sites);
    let ms = |value: u64| value * SAMPLE_NS;
    assert_eq!(
        rows(&before, &after, &diff),
        [
            format!("parse 0→0 {}→{} less", ms(500), ms(100)),
            format!("hash 0→0 {}→{} undecided", ms(500), ms(500)),
            "main 0→0 0→0 undecided".to_owned(),
        ]
    );
    let parse = &diff.rows[0].own;
    let expected = 1.959_964 * (602.0f64).sqrt() * SAMPLE_NS as f64;
    assert!((parse.margin.unwrap() / expected - 1.0).abs() < 1e-9);
    let names =
        diff.by_total().iter().map(|row| labels::name(&after, row.after.unwrap().label)).collect::<Vec<_>>();
    assert_eq!(names[2], "hash");
    assert_eq!(diff.rows[2].total.unwrap().verdict, Verdict::Less, "main calls parse");
}

#[test]
fn function_without_samples_after_needs_enough_samples_before() {
    let before = testing::profile("main;a 3\nmain;b 40");
    let after = testing::profile("main;c 40");
    let diff = compared(&before, &after, Metric::CPU_TIME);
    let row = |name: &str| {
        let is = |place: Place| labels::name(&before, place.label) == name;
        let found = |row: &&DiffRow| row.before.is_some_and(is);
        *diff.rows.iter().find(found).unwrap()
    };
    assert_eq!((row("a").after, row("a").own.verdict), (None, Verdict::Undecided));
    assert_eq!((row("b").after, row("b").own.verdict), (None, Verdict::Less));
}

#[test]
fn side_without_samples_has_the_grain_of_the_other() {
    let (before, after) = (testing::profile("main;a 5\nmain;b 6"), testing::profile(""));
    let diff = compared(&before, &after, Metric::CPU_TIME);
    assert_eq!(
        diff.rows.iter().map(|row| row.own.verdict.label()).collect::<Vec<_>>(),
        ["less", "undecided", "undecided"]
    );
}

#[test]
fn functions_of_one_side_are_listed_once_unless_a_line_remains() {
    let before = testing::heap_profile(
        "main;app::old@m.rs:1 : allocations=1
         main;app::old@m.rs:2 : allocations=2
         main;app::both@m.rs:5 : allocations=9
         main;app::both@m.rs:6 : allocations=9",
    );
    let after =
        testing::heap_profile("main;app::both@m.rs:6 : allocations=9\nmain;app::new@m.rs:9 : allocations=4");
    let diff = compared(&before, &after, metric::ALLOCATIONS);
    let only = |which| {
        diff.only(which).iter().map(|only| (only.place.line, only.value, only.decided)).collect::<Vec<_>>()
    };
    assert_eq!(only(Which::Before), [(2, 3, true)]);
    assert_eq!(only(Which::After), [(9, 4, true)]);
}

#[test]
fn a_sampled_heap_has_intervals() {
    let mut before = testing::heap_profile(
        "main;app::small@m.rs:1 : allocations=400000 bytes_allocated=6400000
         main;app::few@m.rs:2 : allocations=65536 bytes_allocated=1048576
         main;app::large@m.rs:3 : allocations=2 bytes_allocated=40000000",
    );
    testing::sampled_heap(&mut before, 1 << 19);
    let mut after = testing::heap_profile(
        "main;app::small@m.rs:1 : allocations=100000 bytes_allocated=1600000
         main;app::large@m.rs:3 : allocations=3 bytes_allocated=60000000",
    );
    testing::sampled_heap(&mut after, 1 << 19);
    let diff = compared(&before, &after, metric::BYTES_ALLOCATED);
    assert!(!diff.counted);
    assert_eq!(
        rows(&before, &after, &diff),
        [
            "app::large 3→3 40000000→60000000 more",
            "app::small 1→1 6400000→1600000 less",
            "app::few 2→- 1048576→0 undecided",
        ]
    );
    let margin = diff.rows[1].own.margin.unwrap();
    assert!((margin / (1.96 * (524_288.0f64 * (8_000_000.0 + 2.0 * 524_288.0)).sqrt()) - 1.0).abs() < 1e-3);
    assert_eq!(diff.rows[0].own.margin.map(|margin| margin < 1.0), Some(true), "all of them are recorded");
}

#[test]
fn a_selection_is_compared_alone() {
    let before = testing::profile("main;a 100\nworker: main;b 50");
    let after = testing::profile("main;a 10\nworker: main;b 50");
    let selection = Selection { threads: vec!["worker".parse().unwrap()], ..Selection::default() };
    let side = |profile| Side { profile, selection: &selection };
    let diff = Diff::build(side(&before), side(&after), true);
    assert_eq!(diff.totals.len(), 1);
    assert_eq!(diff.totals[0].what, Metric::CPU_TIME);
    assert_eq!((diff.totals[0].change.before, diff.totals[0].change.after), (50 * SAMPLE_NS, 50 * SAMPLE_NS));
    assert!(diff.rows.iter().all(|row| row.own.verdict == Verdict::Undecided));
}

#[test]
fn metrics_of_another_unit_are_not_shared() {
    let before = testing::heap_profile("main;a : allocations=1");
    let mut after = before.clone();
    after.metrics[1].unit = Unit::Bytes;
    assert!(!shared_metrics(&before, &after).contains(&metric::ALLOCATIONS.to_owned()));
    assert_eq!(shared_metrics(&before, &testing::profile("main 1")), [""; 0]);
}

#[test]
fn functions_without_a_name_are_the_same_only_in_one_build() {
    let of_build = |build_id: &str| {
        let mut profile = testing::profile("main;gzip+0x3a40 300");
        for function in profile.functions.iter_mut().filter(|function| function.line == 0).skip(1) {
            function.raw_name = profile.strings.push("");
        }
        profile.modules[0].build_id = Some(profile.strings.push(build_id));
        profile
    };
    let matched = |before: &Profile, after: &Profile| {
        let diff = compared(before, after, Metric::CPU_TIME);
        diff.rows.iter().filter(|row| row.before.is_some() && row.after.is_some()).count()
    };
    assert_eq!(matched(&of_build("aa"), &of_build("aa")), 2);
    assert_eq!(matched(&of_build("aa"), &of_build("bb")), 1, "only main");
}
