//! `whyslow memcheck --read`: XML of earlier runs, and wrong arguments.

use crate::harness::Folder;

const SAMPLE: &str = include_str!("../../../whyslow-memcheck/tests/samples/errors.xml");

fn folder() -> Folder {
    let folder = Folder::new();
    folder.file("errors.xml", SAMPLE);
    folder
}

#[test]
fn an_earlier_run_is_shown() {
    let outcome = folder().whyslow(["memcheck", "--read", "errors.xml", "-o", "-"]);
    outcome.succeeds();
    insta::assert_snapshot!(outcome.stdout);
}

#[test]
fn stacks_are_shown_in_full_on_request() {
    let outcome = folder().whyslow(["memcheck", "-v", "--all", "--read", "errors.xml", "-o", "-"]);
    insta::assert_snapshot!(outcome.succeeds().stdout);
}

#[test]
fn json_sarif_and_annotations_are_for_other_programs() {
    let folder = folder();
    let json = folder.whyslow(["memcheck", "--read", "errors.xml", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json.succeeds().stdout).unwrap();
    assert_eq!(
        (&json["schema"], &json["findings"][0]["id"]),
        (&"whyslow-memcheck/1".into(), &"use-after-free".into())
    );
    insta::assert_snapshot!("json", serde_json::to_string_pretty(&json).unwrap());
    let sarif = folder.whyslow(["memcheck", "--read", "errors.xml", "--format", "sarif"]);
    let sarif: serde_json::Value = serde_json::from_str(&sarif.succeeds().stdout).unwrap();
    let run = &sarif["runs"][0];
    let result = &run["results"][0];
    assert_eq!((&result["ruleId"], &result["level"]), (&"use-after-free".into(), &"error".into()));
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 20);
    assert_eq!(result["relatedLocations"][1]["message"]["text"], "allocated");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert!(rules.iter().any(|rule| rule["id"] == "use-after-free"));
    let github = folder.whyslow(["memcheck", "--read", "errors.xml", "--format", "github"]);
    let github = github.succeeds().stdout.clone();
    assert!(
        github.starts_with("::error file=/src/parse.c,line=20,title=use-after-free::read of 4 bytes, "),
        "{github}"
    );
    assert_eq!(github.lines().count(), 3);
}

#[test]
fn a_report_that_is_cut_off_is_shown_and_named() {
    let folder = folder();
    folder.file("cut.xml", &SAMPLE[..SAMPLE.find("<fatal_signal>").unwrap()]);
    let outcome = folder.whyslow(["memcheck", "--read", "cut.xml", "-o", "-"]);
    let said = &outcome.succeeds().stdout;
    assert!(
        said.contains("read of 4 bytes") && said.contains("not checked to the end: process 100"),
        "{said}"
    );
    folder
        .whyslow(["memcheck", "--read", "cut.xml", "--fail-on", "bad-size"])
        .fails(3, &["--fail-on bad-size: nothing was found, but not everything was checked"]);
    folder
        .whyslow(["memcheck", "--read", "cut.xml", "--fail-on", "errors"])
        .fails(2, &["--fail-on errors: 2 findings"]);
}

#[test]
fn wrong_files_and_arguments_are_errors_with_the_next_step() {
    let folder = folder();
    folder.file("other.xml", "<html></html>");
    folder.file("bad.supp", "{\n  x\n  Memcheck:Leak\n  call:f\n}\n");
    folder.whyslow(["memcheck"]).fails(125, &["no program to run"]);
    folder.whyslow(["memcheck", "--read", "no.xml"]).fails(125, &["no.xml: cannot be read"]);
    folder
        .whyslow(["memcheck", "--read", "other.xml"])
        .fails(125, &["this is not XML of memcheck", "--xml=yes"]);
    folder
        .whyslow(["memcheck", "--suppressions", "bad.supp", "--", "true"])
        .fails(125, &["bad.supp:4: expected `fun:`"]);
    let outcome = folder.whyslow(["memcheck", "--fail-on", "everything", "--", "true"]);
    assert_eq!(outcome.code, Some(125));
    assert!(outcome.stderr.contains("expected errors, leaks, or one of invalid-read"), "{outcome:?}");
}

#[test]
fn without_valgrind_it_says_how_to_install_it() {
    let folder = Folder::new();
    let mut command = folder.command();
    command.args(["memcheck", "--", "/bin/true"]).env("PATH", folder.path());
    crate::harness::outcome(&mut command).fails(125, &["valgrind is not installed", "apt install valgrind"]);
}

#[test]
fn suppressions_of_an_earlier_run_are_a_file_for_the_next() {
    let folder = folder();
    let outcome = folder.whyslow(["memcheck", "--read", "errors.xml", "--print-suppressions"]);
    insta::assert_snapshot!(outcome.succeeds().stdout);
}
