//! Causal profiling reaches the viewer: points, ranked targets with their words, their code, and their curves.

use whyslow_analyze::testing;
use whyslow_causal::testing::{Line, add_experiments};
use whyslow_causal::words::sentence;
use whyslow_causal::{Verdict, estimate};
use whyslow_profile::Profile;
use whyslow_render::html::{Page, first_view, write_payload};

use crate::decoder::{NONE, Payload};

fn program() -> Profile {
    let mut profile =
        testing::profile("app::main@m.rs:1;app::parse@m.rs:12 60\napp::main@m.rs:1;app::hash@m.rs:44 40");
    let lines: [Line<'_>; 3] = [
        ("app::parse", "m.rs", 12, 0.6, |speedup| 0.5 * speedup),
        ("app::hash", "m.rs", 44, 0.4, |_| 0.0),
        ("gone::elsewhere", "x.rs", 7, 0.01, |_| 0.0),
    ];
    add_experiments(&mut profile, "unit", &lines, 8);
    profile
}

fn payload(profile: &Profile) -> Payload {
    let mut bytes = Vec::new();
    write_payload(&Page::new(profile, "run.whyslow"), &mut bytes).unwrap();
    Payload::decode(&bytes)
}

#[test]
fn targets_are_ranked_and_worded_as_in_the_report_with_the_placebo_last() {
    let profile = program();
    let found = estimate(&profile.causal, 2);
    let payload = payload(&profile);
    assert_eq!(payload.texts("causal_points.name"), [Some("unit".to_owned())]);
    let rows: Vec<_> = found.points[0].rows.iter().chain(&found.points[0].placebo).collect();
    let target = |row: &whyslow_causal::Row| profile.causal.targets[row.target.index()];
    let names: Vec<_> = rows.iter().map(|row| Some(profile.text(target(row).function).to_owned())).collect();
    assert_eq!(payload.texts("causal.name"), names);
    assert_eq!(names[0].as_deref(), Some("app::parse"));
    let words: Vec<_> = rows.iter().map(|row| Some(sentence(row, &target(row)))).collect();
    assert_eq!(payload.texts("causal.words"), words);
    assert_eq!((payload.u8("causal.verdict")[0], payload.u8("causal.kind")), (0, vec![0, 0, 0, 2]));
    assert!(matches!(rows[1].verdict, Verdict::None { .. }) && payload.u8("causal.verdict")[1] == 1);
    assert_eq!(payload.header["causal"]["experiments"], profile.causal.experiments.len());
    assert!(payload.header["causal"].get("refused").is_none());
}

#[test]
fn a_target_leads_to_its_function_and_its_curve_is_complete() {
    let profile = program();
    let found = estimate(&profile.causal, 2);
    let payload = payload(&profile);
    let functions = payload.texts("functions.name");
    let of = payload.u32("causal.function");
    assert_eq!(functions[of[0] as usize].as_deref(), Some("app::parse"));
    let gone =
        payload.texts("causal.name").iter().position(|name| name.as_deref() == Some("gone::elsewhere"));
    assert_eq!(of[gone.unwrap()], NONE);
    let rows = payload.u32("causal_curve.row");
    assert!(rows.is_sorted());
    let first: Vec<_> = (0..rows.len()).filter(|at| rows[*at] == 0).collect();
    let curve = &found.points[0].rows[0].curve;
    assert_eq!(first.len(), curve.len());
    for (at, one) in first.iter().zip(curve) {
        assert_eq!(payload.f64("causal_curve.speedup")[*at], one.speedup);
        assert_eq!(payload.f64("causal_curve.effect")[*at], one.effect);
        assert_eq!(payload.f64("causal_curve.low")[*at], one.low);
        assert_eq!(payload.f64("causal_curve.high")[*at], one.high);
    }
}

#[test]
fn an_overloaded_machine_has_a_reason_and_no_rows() {
    let mut profile = program();
    profile.causal.experiments.iter_mut().for_each(|row| row.queued = 0.95);
    let payload = payload(&profile);
    assert!(
        payload.header["causal"]["refused"].as_str().unwrap().contains("95"),
        "{}",
        payload.header["causal"]
    );
    assert!(payload.u32("causal.point").is_empty());
}

#[test]
fn a_page_begins_with_experiments_only_if_there_are_some() {
    assert_eq!(first_view(&program()), "tab=causal");
    let plain = testing::profile("main;a 1");
    assert_eq!(first_view(&plain), "");
    let payload = payload(&plain);
    assert!(
        payload.header.get("causal").is_none()
            && !payload.names().iter().any(|name| name.starts_with("causal"))
    );
}
