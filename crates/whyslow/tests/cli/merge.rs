//! `whyslow merge`: pools the samples of several runs, and says what cannot be pooled.

use whyslow_analyze::testing;

use crate::harness::Folder;

fn functions(folder: &Folder, file: &str) -> Vec<(String, u64)> {
    let report = folder.whyslow(["report", file, "--format", "json"]).succeeds().stdout.clone();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let rows = report["functions"].as_array().unwrap().iter();
    let mut rows = rows
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row["self_samples"].as_u64().unwrap()))
        .filter(|(_, samples)| *samples > 0)
        .collect::<Vec<_>>();
    rows.sort();
    rows
}

#[test]
fn pools_runs() {
    let folder = Folder::new();
    folder.profile("a.whyslow", "main;parse 3\nmain;print 1");
    folder.profile("b.whyslow", "main;print 5\nmain;check 2");
    let outcome = folder.whyslow(["merge", "a.whyslow", "b.whyslow", "-o", "both.whyslow"]);
    let printed = &outcome.succeeds().stderr;
    assert!(printed.contains("2 recordings, 11 samples, 11.0 ms of CPU time"), "{printed}");
    assert!(printed.contains("next: whyslow report both.whyslow   whyslow view both.whyslow"), "{printed}");
    let own = |name: &str, samples| (name.to_owned(), samples);
    assert_eq!(functions(&folder, "both.whyslow"), [own("check", 2), own("parse", 3), own("print", 6)]);
}

#[test]
fn the_result_is_named_after_the_program() {
    let folder = Folder::new();
    folder.profile("a.whyslow", "main 3");
    folder.profile("b.whyslow", "main 5");
    folder.whyslow(["merge", "a.whyslow", "b.whyslow"]).succeeds();
    assert_eq!(functions(&folder, "app.merged.whyslow"), [("main".to_owned(), 8)]);
}

#[test]
fn refuses_the_same_file_twice() {
    let folder = Folder::new();
    folder.profile("a.whyslow", "main 3");
    let outcome = folder.whyslow(["merge", "a.whyslow", "./a.whyslow"]);
    assert_eq!(outcome.code, Some(125));
    assert!(outcome.stderr.contains("./a.whyslow: given twice"), "{}", outcome.stderr);
}

#[test]
fn does_not_pool_heaps() {
    let folder = Folder::new();
    folder.save("a.whyslow", &testing::heap_profile("main;f : allocations=3 bytes_allocated=30"));
    folder.profile("b.whyslow", "main 5");
    let outcome = folder.whyslow(["merge", "b.whyslow", "a.whyslow"]);
    assert_eq!(outcome.code, Some(125));
    assert!(outcome.stderr.contains("the heaps of several runs do not add up"), "{}", outcome.stderr);
}

#[test]
fn keeps_existing_files_and_notes_other_commands() {
    let folder = Folder::new();
    folder.profile("a.whyslow", "main 300");
    let mut other = testing::profile("main 300");
    other.meta.command = vec!["./other".to_owned()];
    folder.save("b.whyslow", &other);
    folder.file("notes.txt", "precious");
    let outcome = folder.whyslow(["merge", "a.whyslow", "b.whyslow", "-o", "notes.txt"]);
    assert_eq!(outcome.code, Some(125), "{}", outcome.stderr);
    assert_eq!(std::fs::read_to_string(folder.path().join("notes.txt")).unwrap(), "precious");
    let outcome = folder.whyslow(["merge", "a.whyslow", "b.whyslow", "-o", "both.whyslow"]);
    let says = "a.whyslow has recorded `./app`, but b.whyslow `./other`: the profile is the sum of both";
    assert!(outcome.succeeds().stderr.contains(says), "{}", outcome.stderr);
    let quality = folder.whyslow(["report", "both.whyslow", "quality"]).succeeds().stdout.clone();
    assert!(quality.contains("a command other than"), "{quality}");
}
