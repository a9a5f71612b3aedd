//! Findings reach the viewer: their words, their lines, and the stacks behind them.

use whyslow_analyze::{Selection, testing};
use whyslow_explain::{Allowed, Explanation, Question, RuleId, explain};
use whyslow_profile::{Metric, MetricId, Profile, Samples, ThreadId};
use whyslow_render::html::{Explained, Page, write_page, write_payload};

use crate::decoder::{NONE, Payload};

/// A third hashes, a third formats.
fn program() -> Profile {
    testing::profile(
        "main: app::main;app::count;core::hash::sip::Hasher::write 300
         main: app::main;app::work 300
         main: app::main;app::show@m.rs:9;core::fmt::write 300",
    )
}

fn explained(profile: &Profile, allowed: &Allowed) -> Explanation {
    let selection = Selection { metric: profile.main_metric(), ..Selection::default() };
    explain(&Question { profile, selection: &selection, only_metric: false, allowed, file: "run.whyslow" })
}

fn payload(profile: &Profile, explanation: Option<&Explanation>) -> Payload {
    let page = match explanation {
        Some(explanation) => {
            Page::explained(profile, "run.whyslow", Explained { explanation, path: "out/run.whyslow" })
        }
        None => Page::new(profile, "run.whyslow"),
    };
    let mut bytes = Vec::new();
    write_payload(&page, &mut bytes).unwrap();
    Payload::decode(&bytes)
}

fn some(texts: &[String]) -> Vec<Option<String>> {
    texts.iter().cloned().map(Some).collect()
}

#[test]
fn findings_are_those_of_explain_in_their_order() {
    let profile = program();
    let explanation = explained(&profile, &Allowed::default());
    let findings = &explanation.findings;
    assert!(findings.iter().any(|finding| finding.rule.id == RuleId::SipHash), "{findings:?}");
    let payload = payload(&profile, Some(&explanation));
    let texts =
        |of: fn(&whyslow_explain::Finding) -> String| some(&findings.iter().map(of).collect::<Vec<_>>());
    assert_eq!(payload.texts("findings.id"), texts(|finding| finding.rule.id.to_string()));
    assert_eq!(payload.texts("findings.title"), texts(|finding| finding.title.clone()));
    assert_eq!(payload.texts("findings.of"), texts(|finding| finding.of.label().to_owned()));
    assert_eq!(payload.texts("findings.confidence"), texts(|finding| finding.confidence.label().to_owned()));
    assert_eq!(payload.texts("findings.advice"), texts(|finding| finding.advice.clone()));
    assert_eq!(payload.texts("findings.verify"), texts(|finding| finding.verify.clone()));
    let numbers = |of: fn(&whyslow_explain::Finding) -> f64| findings.iter().map(of).collect::<Vec<_>>();
    assert_eq!(payload.f64("findings.share"), numbers(|finding| finding.share));
    assert_eq!(payload.f64("findings.low"), numbers(|finding| finding.interval[0]));
    assert_eq!(payload.f64("findings.high"), numbers(|finding| finding.interval[1]));
    assert!(
        payload.texts("findings.gain").iter().flatten().any(|gain| gain.contains("times as fast without it"))
    );
}

#[test]
fn a_finding_names_its_line_and_evidence() {
    let profile = program();
    let explanation = explained(&profile, &Allowed::default());
    let payload = payload(&profile, Some(&explanation));
    let names = payload.texts("functions.name");
    let row = payload.texts("findings.id").iter().position(|id| id.as_deref() == Some("sip-hash")).unwrap();
    let function = payload.u32("findings.function")[row];
    assert_eq!(names[function as usize].as_deref(), Some("app::count"));
    let place = explanation.findings[row].place.unwrap();
    assert_eq!(payload.u32("findings.line")[row], place.line);
    assert_eq!(payload.texts("findings.file")[row].as_deref(), place.file.map(|file| profile.text(file)));
    let evidence = &explanation.findings[row].evidence;
    let rows = payload.u32("finding_evidence.finding");
    let own = (0..rows.len()).filter(|at| rows[*at] as usize == row).collect::<Vec<_>>();
    let texts = payload.texts("finding_evidence.text");
    let words = own.iter().map(|at| texts[*at].clone().unwrap()).collect::<Vec<_>>();
    assert_eq!(words, evidence.iter().map(|evidence| evidence.text.clone()).collect::<Vec<_>>());
    assert!(!words.is_empty(), "something speaks for it");
}

#[test]
fn the_stacks_of_a_finding_add_up_to_its_share() {
    let profile = program();
    let explanation = explained(&profile, &Allowed::default());
    let payload = payload(&profile, Some(&explanation));
    let (rows, stacks) = (payload.u32("finding_stacks.finding"), payload.u32("finding_stacks.stack"));
    let (sampled, values) = (payload.u32("samples.0.stack"), payload.f64("samples.0.value"));
    let all = values.iter().sum::<f64>();
    for (row, finding) in explanation.findings.iter().enumerate() {
        let own = rows.iter().zip(&stacks).filter(|(of, _)| **of as usize == row).map(|(_, stack)| *stack);
        let own = own.collect::<std::collections::BTreeSet<_>>();
        let weighed = sampled.iter().zip(&values).filter(|(stack, _)| own.contains(stack));
        let share = weighed.map(|(_, value)| value).sum::<f64>() / all;
        assert!((share - finding.share).abs() < 1e-9, "{}: {share} and {}", finding.rule.id, finding.share);
    }
}

#[test]
fn the_metric_of_a_finding_has_the_viewers_number() {
    let mut profile = program();
    // Another metric before the main one: the viewer has the main one first.
    let mut samples = Samples::default();
    samples.push(1, ThreadId(0), profile.samples[0].stack[0], 1);
    profile.set_metric(Metric::off_cpu_time(), samples);
    profile.metrics.rotate_left(1);
    profile.samples.rotate_left(1);
    assert_eq!(profile.main_metric(), MetricId(1));
    let explanation = explained(&profile, &Allowed::default());
    let payload = payload(&profile, Some(&explanation));
    let metrics = payload.u32("findings.metric");
    let of_cpu =
        explanation.findings.iter().zip(&metrics).filter(|(finding, _)| finding.of.label() == "CPU time");
    let of_cpu = of_cpu.map(|(_, metric)| *metric).collect::<Vec<_>>();
    assert!(!of_cpu.is_empty());
    assert!(of_cpu.iter().all(|metric| *metric == 0), "{metrics:?}");
    assert_eq!(payload.texts("metrics.name")[0].as_deref(), Some(Metric::CPU_TIME));
    assert!(!metrics.contains(&NONE));
}

#[test]
fn allowed_findings_are_counted_and_the_shape_is_a_sentence() {
    let profile = program();
    let mut allowed = Allowed::default();
    allowed.rules.insert(RuleId::SipHash);
    let explanation = explained(&profile, &allowed);
    let payload = payload(&profile, Some(&explanation));
    assert_eq!(payload.header["explained"]["allowed"], 1);
    assert!(!payload.texts("findings.id").contains(&Some("sip-hash".to_owned())));
    let shape = payload.header["explained"]["shape"].as_str().unwrap();
    assert!(shape.contains("whyslow asm out/run.whyslow app::work"), "{shape}");
}

#[test]
fn findings_are_absent_unless_requested_and_without_any_only_the_shape_is_shown() {
    let profile = program();
    let without = payload(&profile, None);
    assert!(without.header.get("explained").is_none());
    assert!(!without.names().iter().any(|name| name.starts_with("finding")));
    let clean = testing::profile("main: app::main;app::work 300");
    let payload = payload(&clean, Some(&explained(&clean, &Allowed::default())));
    assert!(payload.header["explained"]["shape"].as_str().unwrap().contains("app::"));
    assert!(!payload.names().iter().any(|name| name.starts_with("finding")));
}

#[test]
fn a_recording_of_the_heap_alone_has_shares_of_memory() {
    let mut profile = testing::heap_profile(
        "app::main@m.rs:3;app::load@l.rs:7 : allocations=300 bytes_allocated=300000 peak_bytes=200\n\
         app::main@m.rs:3;app::save@l.rs:9 : allocations=3 bytes_allocated=300 peak_bytes=2",
    );
    // All threads were blocked nearly always.
    (profile.meta.user_time_ns, profile.meta.system_time_ns) = (1, 1);
    let explanation = explained(&profile, &Allowed::default());
    let page = Page::explained(&profile, "x", Explained { explanation: &explanation, path: "x" });
    let mut out = Vec::new();
    write_page(&page, &mut out).unwrap();
    let text = String::from_utf8_lossy(&out);
    let (_, rest) = text.split_once("<noscript>").unwrap();
    assert!(rest.contains("The functions with most of the allocated bytes:"));
    let shape = whyslow_render::text::shape(&profile, &explanation, "x");
    assert!(!shape.contains("time") && !shape.contains("waits"), "{shape}");
}
