//! The JSON of comparisons: the names that programs rely on, and their description.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod described;

use described::assert_described;
use serde_json::{Value, json};
use whyslow_analyze::diff::{Diff, Side};
use whyslow_analyze::testing::{self, SAMPLE_NS};
use whyslow_analyze::{Quality, Selection};
use whyslow_profile::Profile;
use whyslow_render::json;
use whyslow_render::text::{DiffFile, DiffView};

fn compared(before: &Profile, after: &Profile, limit: Option<usize>) -> Value {
    let everything = Selection::default();
    let side = |profile| Side { profile, selection: &everything };
    let diff = Diff::build(side(before), side(after), true);
    let qualities = [before, after].map(Quality::of);
    let view = DiffView {
        diff: &diff,
        before: DiffFile { name: "a.whyslow", profile: before, quality: &qualities[0], more: &[] },
        after: DiffFile { name: "b.whyslow", profile: after, quality: &qualities[1], more: &[] },
        limit,
        paths: None,
        focus: None,
    };
    serde_json::from_str(&json::to_string(&json::diff(&view)).unwrap()).unwrap()
}

fn heaps() -> [Profile; 2] {
    [
        testing::heap_profile(
            "main;app::load@l.rs:7 : allocations=6 bytes_allocated=600
             main;app::old@l.rs:9 : allocations=1 bytes_allocated=50",
        ),
        testing::heap_profile(
            "main;app::load@l.rs:8 : allocations=1 bytes_allocated=480
             _start;dep::new@d.rs:1 : allocations=2 bytes_allocated=20",
        ),
    ]
}

fn times() -> [Profile; 2] {
    let mut after = testing::profile("main;parse 100\nmain;hash 500");
    after.meta.command.push("-v".to_owned());
    [testing::profile("main;parse 500\nmain;hash 500"), after]
}

#[test]
fn allocation_sites_have_counted_changes() {
    let [before, after] = heaps();
    let diff = compared(&before, &after, None);
    assert_eq!(diff["schema"], json::DIFF_SCHEMA);
    assert_eq!(diff["metric"], json!({"name": "bytes-allocated", "unit": "bytes"}));
    assert_eq!(
        (&diff["counted"], &diff["rows_are"], &diff["runs"]),
        (&true.into(), &"lines".into(), &json!([1, 1]))
    );
    assert_eq!((&diff["before"]["file"], &diff["after"]["file"]), (&"a.whyslow".into(), &"b.whyslow".into()));
    assert_eq!(diff["before"]["quality"]["grade"], "good");
    assert_eq!(diff["shared_metrics"][1], "allocations");
    assert_eq!(
        diff["totals"][0],
        json!({
            "what": "allocations", "unit": "count", "before": 7, "after": 3, "change": -4, "relative": -4.0 / 7.0,
            "margin": null, "verdict": "less"
        })
    );
    assert_eq!(
        diff["rows"],
        json!([
            {
                "name": "app::load", "crate": "app", "kind": "yours", "seen": "both",
                "place_before": {"file": "l.rs", "line": 7}, "place_after": {"file": "l.rs", "line": 8},
                "before": 600, "after": 480, "change": -120, "relative": -0.2, "margin": null, "verdict": "less"
            },
            {
                "name": "app::old", "crate": "app", "kind": "yours", "seen": "before",
                "place_before": {"file": "l.rs", "line": 9}, "place_after": null,
                "before": 50, "after": 0, "change": -50, "relative": -1.0, "margin": null, "verdict": "less"
            },
            {
                "name": "dep::new", "crate": "dep", "kind": "dependency", "seen": "after",
                "place_before": null, "place_after": {"file": "d.rs", "line": 1},
                "before": 0, "after": 20, "change": 20, "relative": null, "margin": null, "verdict": "more"
            }
        ])
    );
    let short = compared(&before, &after, Some(1));
    assert_eq!((short["rows"].as_array().unwrap().len(), &short["rows_left_out"]), (1, &2.into()));
}

#[test]
fn functions_have_margins_and_totals() {
    let [before, after] = times();
    let diff = compared(&before, &after, None);
    assert_eq!((&diff["counted"], &diff["rows_are"]), (&false.into(), &"functions".into()));
    assert_eq!(diff["caveats"][0]["id"], "arguments");
    assert!(diff["caveats"][0]["message"].as_str().unwrap().ends_with("none before, `-v` after"));
    let [parse, hash] = [0, 1].map(|row| &diff["rows"][row]);
    assert_eq!((&parse["name"], &parse["verdict"]), (&"parse".into(), &"undecided".into()));
    assert_eq!(parse["change"].as_i64(), Some(-400 * SAMPLE_NS as i64));
    let margin = parse["margin"].as_f64().unwrap() / SAMPLE_NS as f64;
    assert!((margin - 1.96 * 602f64.sqrt()).abs() < 0.01, "{margin}");
    assert_eq!(parse["total"]["change"], parse["change"]);
    assert_eq!((&hash["change"], &hash["verdict"]), (&0.into(), &"undecided".into()));
}

#[test]
fn every_name_is_described() {
    let diffs = [heaps(), times()].map(|[before, after]| {
        let mut diff = compared(&before, &after, None);
        // The report's schema describes these.
        for side in ["before", "after"] {
            let fields = diff[side].as_object_mut().unwrap();
            fields["quality"].take();
            fields["host"].take();
            fields["exit"].take();
        }
        diff
    });
    assert_described(&diffs, include_str!("../../../docs/diff-json.md"));
}
