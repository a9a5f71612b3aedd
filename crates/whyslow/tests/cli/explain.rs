//! `whyslow explain`: findings as text, JSON, SARIF and annotations; allowed findings; `--fail-on`.

use serde_json::Value;
use whyslow_analyze::testing;

use crate::harness::{Folder, Outcome};

/// 30 % in the growth of a vector, 20 % in hashing at two lines, the rest in no known pattern.
const STACKS: &str = "
main@src/main.rs:3;read@src/main.rs:12;alloc::vec::Vec<T,A>::push;alloc::raw_vec::RawVec<T,A>::grow_one;alloc::raw_vec::RawVecInner<A>::finish_grow 300
main@src/main.rs:4;count@src/main.rs:20;core::hash::BuildHasher::hash_one;core::hash::sip::Hasher<S>::write 150
main@src/main.rs:4;count@src/main.rs:22;core::hash::BuildHasher::hash_one;core::hash::sip::Hasher<S>::write 50
main@src/main.rs:5;work@src/main.rs:30 500
";
const SOURCE: &str = "\n\n\n\n\n\n\n\n\n\nfor row in all {\n    rows.push(row);\n";

fn folder() -> Folder {
    let folder = Folder::new();
    let mut profile = testing::profile(STACKS);
    testing::add_source(&mut profile, "src/main.rs", SOURCE);
    folder.save("x.whyslow", &profile);
    folder
}

fn explain(folder: &Folder, args: &[&str]) -> Outcome {
    folder.whyslow(["explain", "x.whyslow"].iter().chain(args))
}

fn findings(folder: &Folder, args: &[&str]) -> Vec<Value> {
    let outcome = explain(folder, &[args, &["--format", "json"]].concat());
    let mut json: Value = serde_json::from_str(&outcome.succeeds().stdout).unwrap();
    json["findings"].as_array_mut().unwrap().drain(..).collect()
}

fn ids(findings: &[Value]) -> Vec<&str> {
    findings.iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

#[test]
fn findings_have_a_share_a_line_advice_and_a_bound() {
    let folder = folder();
    let text = explain(&folder, &[]).succeeds().stdout.clone();
    for part in [
        "1. a vector or string is reallocated repeatedly while it is filled",
        "[vec-growth]",
        "30.0 % of CPU time (27.2 to 32.8); at most 1.43 times as fast without it; confidence: high",
        "at read  src/main.rs:12",
        "12 | rows.push(row);",
        "do: set the size up front",
        "check: whyslow verify x.whyslow AFTER.whyslow --function 'read'",
        "2. keys are hashed with SipHash",
        "5.0 % from count  src/main.rs:22",
        "one hotspot: work and its callees take 50.0 % of the",
    ] {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
    let json = findings(&folder, &[]);
    assert_eq!(ids(&json), ["vec-growth", "sip-hash"]);
    let first = &json[0];
    assert_eq!((&first["share"], &first["line"]), (&0.3.into(), &12.into()));
    assert_eq!((&first["function"], &first["file"]), (&"read".into(), &"src/main.rs".into()));
    assert!((first["max_speedup"].as_f64().unwrap() - 1.0 / 0.7).abs() < 1e-9);
    assert!(first["share_low"].as_f64().unwrap() > 0.27 && first["share_high"].as_f64().unwrap() < 0.33);
    for field in ["title", "confidence", "evidence", "advice", "verify", "of"] {
        assert!(!first[field].is_null(), "{field}");
    }
}

#[test]
fn filters_apply_to_findings() {
    let folder = folder();
    assert_eq!(ids(&findings(&folder, &["--function", "count"])), ["sip-hash"]);
    let none = explain(&folder, &["--function", "work"]);
    assert!(none.succeeds().stdout.contains("no known pattern stands out\none hotspot: work"), "{none:?}");
}

#[test]
fn a_comment_or_whyslow_toml_hides_a_finding() {
    let folder = folder();
    let mut profile = testing::profile(STACKS);
    testing::add_source(
        &mut profile,
        "src/main.rs",
        &SOURCE.replacen("rows.push(row);", "rows.push(row); // whyslow: allow(vec-growth, x)", 1),
    );
    folder.save("x.whyslow", &profile);
    assert_eq!(ids(&findings(&folder, &[])), ["sip-hash"]);
    assert!(explain(&folder, &[]).stdout.contains("1 not shown: allowed"));
    // One of two lines is allowed; the other remains a finding.
    folder.file("whyslow.toml", "[explain]\nallow = [\"sip-hash:src/main.rs:20\"]\n");
    let rest = findings(&folder, &[]);
    assert_eq!((ids(&rest), &rest[0]["line"]), (vec!["sip-hash"], &22.into()));
    assert!((rest[0]["share"].as_f64().unwrap() - 0.05).abs() < 1e-9, "{rest:?}");
    folder.file("whyslow.toml", "[explain]\nallow = [\"sip-hash:main.rs\"]\n");
    assert_eq!(ids(&findings(&folder, &[])), [""; 0]);
    folder.file("whyslow.toml", "[explain]\nallow = [\"sip-hash\"]\n[gate]\n");
    assert_eq!(ids(&findings(&folder, &[])), [""; 0]);
    for (wrong, says) in [
        ("allow = [\"siphash\"]", "no rule is called 'siphash'"),
        ("allow = [\"sip-hash:main.rs:x\"]", "'x' is not a line number"),
        ("allows = []", "unknown field"),
    ] {
        folder.file("whyslow.toml", format!("[explain]\n{wrong}\n"));
        let outcome = explain(&folder, &[]);
        assert_eq!(outcome.code, Some(125));
        assert!(outcome.stderr.contains("whyslow.toml") && outcome.stderr.contains(says), "{outcome:?}");
    }
}

#[test]
fn fail_on_exits_with_two() {
    let folder = folder();
    for (ask, code) in [("vec-growth", 2), ("vec-growth=29%", 2), ("vec-growth=31%", 0), ("clone-heavy", 0)] {
        assert_eq!(explain(&folder, &["--fail-on", ask]).code, Some(code), "{ask}");
    }
    let unknown = explain(&folder, &["--fail-on", "growth"]);
    assert!(unknown.code == Some(125) && unknown.stderr.contains("no rule has this id"), "{unknown:?}");
}

#[test]
fn writes_sarif_and_annotations() {
    let folder = folder();
    let sarif: Value =
        serde_json::from_str(&explain(&folder, &["--format", "sarif"]).succeeds().stdout).unwrap();
    let run = &sarif["runs"][0];
    let result = &run["results"][0];
    assert_eq!((&sarif["version"], &result["ruleId"]), (&"2.1.0".into(), &"vec-growth".into()));
    let place = &result["locations"][0]["physicalLocation"];
    assert_eq!(
        (&place["artifactLocation"]["uri"], &place["region"]["startLine"]),
        (&"src/main.rs".into(), &12.into())
    );
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    let has = |id: &Value| rules.iter().filter(|rule| &rule["id"] == id).count() == 1;
    assert!(run["results"].as_array().unwrap().iter().all(|result| has(&result["ruleId"])), "{run:#}");
    let github = explain(&folder, &["--format", "github"]).succeeds().stdout.clone();
    assert!(
        github.starts_with("::warning file=src/main.rs,line=12,title=vec-growth::30.0 %25 of CPU time: "),
        "{github}"
    );
    assert_eq!(github.lines().count(), 2);
}

#[test]
fn a_hotspot_without_lines_is_read_in_its_machine_code() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "app::main;app::count;core::hash::sip::Hasher<S>::write 900\napp::main 10");
    let text = explain(&folder, &[]).succeeds().stdout.replace('\n', " ");
    assert!(text.contains("See its machine code: whyslow asm x.whyslow app::count"), "{text}");
    folder.profile(
        "x.whyslow",
        "app::main@m.rs:1;app::count@m.rs:4;core::hash::sip::Hasher<S>::write 900\napp::main@m.rs:2 10",
    );
    let text = explain(&folder, &[]).succeeds().stdout.replace('\n', " ");
    assert!(text.contains("See its lines: whyslow report x.whyslow lines"), "{text}");
}

#[test]
fn a_hotspot_names_its_hottest_line_only_if_it_has_one() {
    let folder = Folder::new();
    let lines = (1..=60).map(|line| format!("app::main@m.rs:1;app::mix@m.rs:{} 10\n", line + 10));
    folder.profile("x.whyslow", &lines.collect::<String>());
    let text = explain(&folder, &[]).succeeds().stdout.replace('\n', " ");
    assert!(text.contains("app::mix and its callees take 100.0 % of the time. "), "{text}");
}

#[test]
fn explains_a_difference() {
    let folder = folder();
    folder.profile(
        "y.whyslow",
        &STACKS.replace("finish_grow 300", "finish_grow 1").replace("write 150", "write 400"),
    );
    let text = folder.whyslow(["explain", "x.whyslow", "y.whyslow"]).succeeds().stdout.clone();
    let lines = text.lines().filter(|line| line.contains('→')).collect::<Vec<_>>();
    assert!(lines[0].starts_with("undecided ") && lines[0].contains("20.0 % →"), "{text}");
    assert!(lines[1].starts_with("only before ") && lines[1].contains("30.0 % →        -"), "{text}");
    assert!(text.contains("One recording per side cannot show run-to-run noise"), "{text}");
    let json = folder.whyslow(["explain", "x.whyslow", "y.whyslow", "--format", "json"]);
    let json: Value = serde_json::from_str(&json.succeeds().stdout).unwrap();
    assert_eq!(
        (&json["changes"][0]["became"], &json["changes"][1]["became"]),
        (&"undecided".into(), &"gone".into())
    );
    assert_eq!(json["changes"][1]["after"], Value::Null);
    let same = folder.whyslow(["explain", "x.whyslow", "x.whyslow"]).succeeds().stdout.clone();
    assert!(
        same.lines().filter(|line| line.contains('→')).all(|line| line.starts_with("undecided")),
        "{same}"
    );
}

#[test]
fn small_shares_are_not_findings_and_rules_have_pages() {
    let folder = folder();
    folder
        .profile("few.whyslow", "main;alloc::raw_vec::RawVec<T,A>::grow_one;alloc::raw_vec::finish_grow 150");
    let few = folder.whyslow(["explain", "few.whyslow"]).succeeds().stdout.clone();
    assert!(few.contains("too few samples: 150 of the 200 needed"), "{few}");
    folder.profile(
        "small.whyslow",
        "main;alloc::raw_vec::RawVec<T,A>::grow_one;alloc::raw_vec::finish_grow 25\nmain 975",
    );
    assert!(folder.whyslow(["explain", "small.whyslow"]).stdout.contains("no known pattern"));
    let page = folder.whyslow(["explain", "--rule", "vec-growth"]).succeeds().stdout.clone();
    assert!(page.starts_with("# vec-growth\n"), "{page}");
    let list = folder.whyslow(["explain", "--rules"]).succeeds().stdout.clone();
    assert!(list.lines().any(|line| line.starts_with("vec-growth  ")), "{list}");
    let missing = folder.whyslow(["explain", "no.whyslow"]);
    assert!(missing.code == Some(125) && missing.stderr.contains("no.whyslow"), "{missing:?}");
}

#[test]
fn suggested_commands_quote_the_file_and_mean_the_very_one() {
    let folder = Folder::new();
    let name = "a; touch PWNED; $(id) .whyslow";
    folder.save(name, &testing::profile(STACKS));
    let explained = folder.whyslow(["explain", name, "--format", "json"]).succeeds().stdout.clone();
    let explained: Value = serde_json::from_str(&explained).unwrap();
    let check = explained["findings"][0]["verify"].as_str().unwrap();
    assert!(check.starts_with("whyslow verify 'a; touch PWNED; $(id) .whyslow' AFTER.whyslow"), "{check}");
    let text = folder.whyslow(["explain", name]).succeeds().stdout.clone();
    assert!(text.contains(check) || text.contains("'a; touch PWNED; $(id) .whyslow'"), "{text}");
    for wrong in [
        &["report", name, "callers"][..],
        &["report", name, "heap"],
        &["import", name],
        &["asm", name, "none"],
    ] {
        let outcome = folder.whyslow(wrong);
        let next = outcome.stderr.split("try: ").nth(1).unwrap_or_default();
        assert!(!next.contains(" a; touch"), "{wrong:?}: {}", outcome.stderr);
    }
    // The latest recording is named by its number: the plain name is another file's after the next recording.
    std::fs::hard_link(folder.path().join(name), folder.path().join("a; touch PWNED; $(id) .7.whyslow"))
        .unwrap();
    let text = folder.whyslow(["explain", name]).succeeds().stdout.clone();
    assert!(text.contains("'a; touch PWNED; $(id) .7.whyslow'"), "{text}");
}
