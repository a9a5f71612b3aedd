//! Import and export: one line says what a file is, and what an export cannot hold.

use std::fs;

use whyslow_analyze::testing;

use crate::harness::{Folder, outcome};

const SPEEDSCOPE: &str = r#"{"$schema":"https://www.speedscope.app/file-format-schema.json",
    "shared":{"frames":[{"name":"main"},{"name":"parse"}]},
    "profiles":[{"type":"sampled","name":"one","unit":"milliseconds","startValue":0,"endValue":3,"samples":[[0],[0,1]],"weights":[1,2]}]}"#;

#[test]
fn every_command_reads_an_imported_file() {
    let folder = Folder::new();
    folder.file("run.json", SPEEDSCOPE);
    let outcome = folder.whyslow(["import", "run.json"]);
    assert_eq!(
        outcome.succeeds().stderr,
        "whyslow: run.json: a speedscope profile: 2 samples, 1 thread\n\
         whyslow: wrote run.whyslow; next: whyslow report run.whyslow   whyslow view run.whyslow\n"
    );
    assert_eq!(folder.names(), ["run.json", "run.whyslow"]);
    assert!(folder.whyslow(["report", "run.whyslow"]).succeeds().stdout.contains("parse"));
    folder.whyslow(["flame", "run.whyslow", "-o", "-"]).succeeds();
    let folded = folder.whyslow(["export", "run.whyslow", "--to", "folded"]);
    assert_eq!(folded.succeeds().stdout, "main 1000000\nmain;parse 2000000\n");
}

#[test]
fn every_export_can_be_imported_again() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;parse;+next 3\nworker: main;read 2");
    let folded = folder.whyslow(["export", "x.whyslow", "--to", "folded"]).stdout;
    for (format, file) in [
        ("firefox", "y.json"),
        ("firefox", "y.json.gz"),
        ("pprof", "y.pb.gz"),
        ("speedscope", "y.json"),
        ("perf-script", "y.txt"),
        ("folded", "y.folded"),
        ("chrome-trace", "y.json.gz"),
        ("callgrind", "y.out"),
    ] {
        folder.whyslow(["export", "x.whyslow", "--to", format, "-o", file]).succeeds();
        folder.whyslow(["import", file, "-o", "y.whyslow"]).succeeds();
        let again = folder.whyslow(["export", "y.whyslow", "--to", "folded"]);
        assert_eq!(again.succeeds().stdout, folded, "{format}");
    }
    assert!(fs::read(folder.path().join("y.json.gz")).unwrap().starts_with(&[0x1f, 0x8b]));
}

#[test]
fn imports_from_stdin() {
    let folder = Folder::new();
    folder.file("stacks.folded", "main;parse 300\nmain 100\n");
    let stacks = fs::File::open(folder.path().join("stacks.folded")).unwrap();
    let imported = outcome(folder.command().args(["import", "-"]).stdin(stacks));
    let next = "next: whyslow report stdin.whyslow   whyslow view stdin.whyslow";
    assert!(imported.succeeds().stderr.contains(next), "{imported:?}");
    assert_eq!(folder.names(), ["stacks.folded", "stdin.whyslow"]);
    let folded = folder.whyslow(["export", "stdin.whyslow", "--to", "folded"]);
    assert_eq!(folded.succeeds().stdout, "main 100\nmain;parse 300\n");
}

#[test]
fn import_reports_code_without_names() {
    let folder = Folder::new();
    let sample =
        |time: usize, symbol: &str| format!("app 7 {time}.5: 10 cycles: \n\t12 {symbol} (/gone/app)\n\n");
    let text: String =
        (0..300).map(|time| sample(time, if time < 250 { "[unknown]" } else { "main" })).collect();
    folder.file("run.txt", text);
    let outcome = folder.whyslow(["import", "run.txt"]);
    assert!(
        outcome.succeeds().stderr.contains("83.3 % of the samples are in functions without a name"),
        "{}",
        outcome.stderr
    );
    let report = folder.whyslow(["report", "run.whyslow", "quality"]);
    assert!(report.succeeds().stdout.starts_with("poor"), "{}", report.stdout);
}

#[test]
fn exact_counts_have_no_error() {
    let folder = Folder::new();
    folder.file(
        "callgrind.out.1",
        "version: 1\ncmd: ./app\nevents: Ir\nfn=main\n1 10\ncfn=work\ncalls=3 2\n1 990\n\nfn=work\n2 990\n",
    );
    let report = folder.whyslow(["report", "callgrind.out.1", "functions"]);
    let counted = "good: counted, 100.0 % of stacks complete\n\n1,000 simulated Ir\n";
    assert!(report.succeeds().stdout.starts_with(counted), "{}", report.stdout);
    assert!(!report.stdout.contains('±'), "{}", report.stdout);
    let quality = folder.whyslow(["report", "callgrind.out.1", "quality"]);
    assert!(
        quality.succeeds().stdout.starts_with("good: counted, 100.0 % of stacks complete"),
        "{}",
        quality.stdout
    );
    assert!(!quality.stdout.contains("--stack-size"), "{}", quality.stdout);
    let calls = folder.whyslow(["export", "callgrind.out.1", "--to", "folded", "--metric", "calls"]);
    assert_eq!(calls.succeeds().stdout, "main;work 3\n");
}

#[test]
fn flame_graphs_of_counts_do_not_mention_time() {
    let folder = Folder::new();
    folder.file("run.folded", "main;parse 200\nmain 85\n");
    let picture = folder.whyslow(["flame", "run.folded", "-o", "-"]);
    assert!(picture.succeeds().stdout.contains("samples; good: 285 samples"), "{:.2000}", picture.stdout);
    assert!(!picture.stdout.contains("CPU time"), "{:.2000}", picture.stdout);
}

#[test]
fn export_says_once_what_the_format_cannot_hold() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;parse 3");
    let outcome = folder.whyslow(["export", "x.whyslow", "--to", "pprof", "-o", "x.pb.gz"]);
    assert_eq!(
        outcome.succeeds().stderr,
        "whyslow: wrote x.pb.gz\nwhyslow: note: this format cannot hold: when each sample was taken\n"
    );
    assert_eq!(folder.whyslow(["-q", "export", "x.whyslow", "--to", "pprof", "-o", "x.pb.gz"]).stderr, "");
}

#[test]
fn exports_flame_graphs_pages_and_tables() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main;unwanted 3\nworker: main;wanted 2");
    let export = |to: &str| folder.whyslow(["export", "x.whyslow", "--to", to, "--thread", "worker"]);
    let svg = export("svg");
    assert!(
        svg.succeeds().stdout.starts_with('<')
            && svg.stdout.contains("wanted")
            && !svg.stdout.contains("unwanted")
    );
    let html = export("html");
    assert!(html.succeeds().stdout.starts_with("<!"), "{:.100}", html.stdout);
    assert!(html.stderr.contains("filters"), "{}", html.stderr);
    let csv = export("csv");
    assert_eq!(csv.succeeds().stdout.lines().count(), 3, "{}", csv.stdout);
}

#[test]
fn import_errors_say_what_is_wrong_and_where() {
    let folder = Folder::new();
    let import = |name: &str, bytes: &[u8], says: &[&str]| {
        folder.file(name, bytes);
        let outcome = folder.whyslow(["import", name]);
        outcome.fails(125, &[name, "; try: "]);
        outcome.fails(125, says);
    };
    import("a", b"hello world", &["unknown file format", "whyslow import --help"]);
    import("b", &SPEEDSCOPE.as_bytes()[..150], &["cannot be read as a speedscope profile: byte 150"]);
    import("c", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xff, 0xff], &["broken gzip data at byte"]);
    import("d", b"{\"dhatFileVersion\":1,\"pps\":[],\"ftbl\":[]}", &["version 1 is not supported"]);
    folder.whyslow(["import", "nowhere"]).fails(125, &["nowhere: no such file"]);
    folder.whyslow(["import", "."]).fails(125, &[".: this is a folder"]);
    folder.profile("x.whyslow", "main 1");
    folder
        .whyslow(["import", "x.whyslow", "-o", "y.whyslow"])
        .fails(125, &["already", "whyslow report x.whyslow"]);
    let names = folder.names();
    assert_eq!(names, ["a", "b", "c", "d", "x.whyslow"], "nothing is written");
    let outcome = folder.whyslow(["import", "a", "--format", "word"]);
    assert!(outcome.stderr.contains("formats are perf-data, firefox,"), "{}", outcome.stderr);
}

#[test]
fn import_does_not_overwrite_recordings_and_other_files() {
    let folder = Folder::new();
    folder.file("run.json", SPEEDSCOPE);
    let recording = folder.profile("run.whyslow", "main 1");
    let before = fs::read(&recording).unwrap();
    folder.whyslow(["import", "run.json"]).fails(125, &["run.whyslow: it is a whyslow recording", "try: -o"]);
    assert_eq!(fs::read(&recording).unwrap(), before);
    folder.file("notes.txt", "mine");
    folder
        .whyslow(["import", "run.json", "-o", "notes.txt"])
        .fails(125, &["notes.txt: it exists and is not a profile"]);
    folder.whyslow(["import", "run.json", "-o", "run.whyslow"]).succeeds();
    folder.whyslow(["import", "run.json"]).succeeds();
}

#[test]
fn query_commands_read_files_of_other_tools() {
    let folder = Folder::new();
    folder.file("run.json", SPEEDSCOPE);
    assert!(folder.whyslow(["report", "run.json"]).succeeds().stdout.contains("parse"));
    folder.whyslow(["flame", "run.json"]).succeeds();
    folder.whyslow(["export", "run.json", "--to", "pprof", "-o", "run.pb.gz"]).succeeds();
    assert_eq!(folder.names(), ["run.json", "run.pb.gz", "run.svg"]);
    folder.file("cut.json", &SPEEDSCOPE[..150]);
    folder
        .whyslow(["report", "cut.json"])
        .fails(125, &["cut.json: cannot be read as a speedscope profile: byte 150"]);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let folder = Folder::new();
    folder.file(
        "run.json",
        SPEEDSCOPE.replace("\"profiles\":[", "\"profiles\":[{\"type\":\"\\u001b[31mred\"},"),
    );
    let outcome = folder.whyslow(["import", "run.json"]);
    assert!(
        outcome.succeeds().stderr.contains("note: ") && !outcome.stderr.contains('\x1b'),
        "{:?}",
        outcome.stderr
    );
}

const HEAP: &str = "
main@app.rs:3;load@app.rs:10 : allocations=4 bytes_allocated=4000 frees=1 bytes_freed=1000 peak_bytes=4000 peak_blocks=4 live_at_exit_blocks=3 live_at_exit_bytes=3000 freed_ms=60
main@app.rs:3;parse@app.rs:20 : allocations=90 bytes_allocated=900 frees=90 bytes_freed=900 temporary=90 made_ms=20 freed_ms=20";

#[test]
fn exports_heaps_to_heap_tools() {
    let folder = Folder::new();
    folder.save("heap.whyslow", &testing::heap_profile(HEAP));
    let dhat = folder.whyslow(["export", "heap.whyslow", "--to", "dhat", "-o", "dhat.json"]);
    assert!(dhat.succeeds().stderr.contains("cannot hold: the timeline; "), "{}", dhat.stderr);
    folder.whyslow(["import", "dhat.json", "-o", "again.whyslow"]).succeeds();
    let folded = |file: &str, metric: &str| {
        folder.whyslow(["export", file, "--to", "folded", "--metric", metric]).succeeds().stdout.clone()
    };
    assert_eq!(folded("heap.whyslow", "live-at-peak"), "main;load 4000\n");
    assert_eq!(folded("again.whyslow", "live-at-peak"), "main;load 4000\n");
    assert_eq!(folded("again.whyslow", "allocations"), folded("heap.whyslow", "allocations"));
    // The import from DHAT is a heap again.
    assert!(folder.whyslow(["report", "again.whyslow", "heap"]).succeeds().stdout.contains("load"));
    folder.whyslow(["export", "again.whyslow", "--to", "dhat", "-o", "dhat-again.json"]).succeeds();
    for format in ["heaptrack", "massif"] {
        folder.whyslow(["export", "heap.whyslow", "--to", format, "-o", format]).succeeds();
        folder.whyslow(["import", format, "-o", "back.whyslow"]).succeeds();
        assert_eq!(folded("back.whyslow", "live-at-peak"), "main;load 4000\n", "{format}");
    }
    let view = folder.whyslow(["report", "back.whyslow", "heap"]);
    view.fails(125, &["massif records live bytes and no allocations", "functions --metric live-at-peak"]);
    let heaptrack = folder.whyslow(["export", "heap.whyslow", "--to", "heaptrack"]);
    let text = &heaptrack.succeeds().stdout;
    assert_eq!(text.lines().filter(|line| line.starts_with("+ ")).count(), 94);
    let massif = folder.whyslow(["export", "heap.whyslow", "--to", "massif", "--thread", "main"]);
    let peak = "mem_heap_B=4000\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=peak\n";
    assert!(massif.succeeds().stdout.contains(peak), "{}", massif.stdout);
    assert!(massif.stderr.contains("filters: the whole heap is written"), "{}", massif.stderr);
}

#[test]
fn heap_formats_need_a_heap() {
    let folder = Folder::new();
    folder.profile("x.whyslow", "main 3");
    let outcome = folder.whyslow(["export", "x.whyslow", "--to", "massif", "-o", "massif.out"]);
    outcome.fails(125, &["x.whyslow: the heap was not recorded", "whyslow heap -- PROGRAM"]);
    assert_eq!(folder.names(), ["x.whyslow"], "nothing is left behind");
}

#[test]
fn experiments_of_coz_are_imported_and_exported() {
    let folder = Folder::new();
    folder.file("profile.coz", include_str!("../../../whyslow-formats/tests/samples/profile.coz"));
    let outcome = folder.whyslow(["import", "profile.coz"]);
    let says = "whyslow: profile.coz: a coz profile: 64 experiments, 2 targets, 2 progress points\n";
    assert!(outcome.succeeds().stderr.starts_with(says), "{}", outcome.stderr);
    let exported = folder.whyslow(["export", "profile.whyslow", "--to", "coz", "-o", "again.coz"]);
    assert!(exported.succeeds().stderr.contains("this format cannot hold: delays"), "{}", exported.stderr);
    let again = folder.whyslow(["import", "again.coz"]);
    assert!(again.succeeds().stderr.contains("64 experiments, 2 targets, 2 progress points"), "{again:?}");

    folder.profile("x.whyslow", "main;parse 3");
    let refused = folder.whyslow(["export", "x.whyslow", "--to", "coz"]);
    refused.fails(
        125,
        &["x.whyslow: no experiments of causal profiling were recorded", "whyslow causal -- PROGRAM"],
    );
}
