//! Comparisons of two sides reach the viewer with their verdicts.

use whyslow_analyze::diff::{Diff, Paths, Runs, Side};
use whyslow_analyze::{Quality, Selection, testing};
use whyslow_profile::Profile;
use whyslow_render::html::{ChangesView, Content, Page, write_page, write_payload};
use whyslow_render::text::{DiffFile, DiffView};

use crate::decoder::{NONE, Payload};

/// Calls a function with the page of a comparison.
fn with_page<T>(
    before: &[Profile],
    after: &[Profile],
    look: impl FnOnce(&Page<'_>, &Diff, &Paths) -> T,
) -> T {
    let everything = Selection::default();
    let sides = [before, after].map(|profiles| {
        Runs::new(profiles.iter().map(|profile| Side { profile, selection: &everything }).collect())
    });
    let diff = Diff::of_runs(&sides[0], &sides[1], true);
    let paths = Paths::of_runs(&sides[0], &sides[1], true);
    let qualities = [&before[0], &after[0]].map(Quality::of);
    let view = DiffView {
        diff: &diff,
        before: DiffFile { name: "a.whyslow", profile: &sides[0].profile, quality: &qualities[0], more: &[] },
        after: DiffFile { name: "b.whyslow", profile: &sides[1].profile, quality: &qualities[1], more: &[] },
        limit: None,
        paths: None,
        focus: None,
    };
    look(&Page::of(Content::Changes(ChangesView { diff: view, paths: &paths })), &diff, &paths)
}

fn payload(page: &Page<'_>) -> Payload {
    let mut bytes = Vec::new();
    write_payload(page, &mut bytes).unwrap();
    Payload::decode(&bytes)
}

fn times() -> [Profile; 2] {
    [testing::profile("main;a;old 100\nmain;b 200"), testing::profile("main;a;new 300\nmain;b 200")]
}

#[test]
fn call_paths_have_both_sides_colours_and_verdicts() {
    let [before, after] = times();
    with_page(&[before], &[after], |page, _, paths| {
        let payload = payload(page);
        assert_eq!(payload.header["schema"], "whyslow-view/1");
        let head = &payload.header["diff"];
        assert_eq!(
            (&head["metric"], &head["unit"], &head["runs"]),
            (&"cpu-time".into(), &1.into(), &1.into())
        );
        assert!(
            head["answer"].as_str().unwrap().starts_with("Undecided: cpu time 300 ms → 500 ms"),
            "{head}"
        );
        assert!(head["worth"].as_str().unwrap().contains("sampling error"), "{head}");
        assert_eq!(head["totals"][0]["what"], "cpu-time");
        let (functions, texts) = (payload.u32("paths.function"), payload.texts("functions.name"));
        let parents = payload.u32("paths.parent");
        let [before, after] = ["before", "after"].map(|side| payload.f64(&format!("paths_total.{side}")));
        let (colours, verdicts) = (payload.u8("paths.colour"), payload.u8("paths_total.verdict"));
        let path = |node: usize| {
            let mut names = Vec::new();
            let mut at = node;
            while functions[at] != NONE {
                names.insert(0, texts[functions[at] as usize].clone().unwrap());
                at = parents[at] as usize;
            }
            names.join(";")
        };
        let mut lines = (0..functions.len())
            .map(|node| {
                let verdict = head["verdicts"][verdicts[node] as usize].as_str().unwrap();
                let [before, after] =
                    [before[node], after[node]].map(|value| value / testing::SAMPLE_NS as f64);
                let colour = head["colours"][colours[node] as usize].as_str().unwrap();
                format!("{}: {before}→{after} {verdict}, {colour}", path(node))
            })
            .collect::<Vec<_>>();
        lines.sort();
        assert_eq!(
            lines,
            [
                ": 300→500 undecided, more",
                "main: 300→500 undecided, more",
                "main;a: 100→300 undecided, twice or more, new",
                "main;a;new: 0→300 undecided, twice or more, new",
                "main;a;old: 100→0 undecided, half or less, removed",
                "main;b: 200→200 undecided, within noise",
            ]
        );
        assert_eq!(payload.f64("paths.total")[0], paths.tree.total_value[0] as f64);
        assert!(payload.f64("paths_total.margin").iter().all(|margin| *margin > 0.0));
        assert!(payload.f64("paths_total.q").iter().all(|q| q.is_nan()), "one run has no ratio");
    });
}

#[test]
fn rows_are_functions_of_the_paths_in_the_order_of_the_comparison() {
    let [before, after] = times();
    with_page(&[before], &[after], |page, diff, _| {
        let payload = payload(page);
        let texts = payload.texts("functions.name");
        let names = payload.u32("rows.function").into_iter().map(|row| texts[row as usize].clone().unwrap());
        let seen = payload.u8("rows.seen");
        let rows = names.zip(seen).collect::<Vec<_>>();
        assert_eq!(rows[..2], [("new".to_owned(), 2), ("old".to_owned(), 1)]);
        assert_eq!(rows.len(), diff.rows.len());
        assert_eq!(payload.f64("rows_own.after")[0], diff.rows[0].own.after as f64);
        assert_eq!(payload.f64("rows_total.before").len(), rows.len());
    });
}

#[test]
fn several_runs_have_ratios_with_intervals_and_q() {
    let run =
        |on: u64, noise: u64| testing::profile(&format!("main;f {}\nmain;g {}", on + noise, 400 - noise));
    let before = [3, 7, 0, 5, 9].map(|noise| run(200, noise));
    let after = [6, 1, 8, 4, 2].map(|noise| run(300, noise));
    with_page(&before, &after, |page, _, _| {
        let payload = payload(page);
        assert_eq!(payload.header["diff"]["runs"], 5);
        let [low, high, q] = ["low", "high", "q"].map(|name| payload.f64(&format!("rows_own.{name}"))[0]);
        assert!(low < 1.5 && 1.5 < high && q < 0.05, "{low} {high} {q}");
    });
}

#[test]
fn allocation_sites_have_their_place_and_no_callees() {
    let before = testing::heap_profile("main;app::load@l.rs:7 : allocations=6 bytes_allocated=600");
    let after = testing::heap_profile("main;app::load@l.rs:8 : allocations=1 bytes_allocated=480");
    with_page(&[before], &[after], |page, _, _| {
        let payload = payload(page);
        assert_eq!(payload.header["diff"]["rows_are"], "lines");
        assert_eq!(payload.texts("rows.file")[0].as_deref(), Some("l.rs"));
        assert!(!payload.names().contains(&"rows_total.before"));
    });
}

#[test]
fn the_page_shows_the_answer_without_scripts() {
    let [before, mut after] = times();
    after.meta.command.push("<b>".to_owned());
    with_page(&[before], &[after], |page, _, _| {
        let mut out = Vec::new();
        write_page(page, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let noscript = text.split("<noscript>").nth(1).unwrap().split("</noscript>").next().unwrap();
        assert!(noscript.contains("Undecided: cpu time 300 ms → 500 ms"), "{noscript}");
        assert!(
            noscript.contains("<td>0 ns</td><td>300 ms</td><td>undecided</td><td>new</td>"),
            "{noscript}"
        );
        assert!(!noscript.contains("<b>"), "{noscript}");
    });
}
