//! Imports with known results.

use whyslow_profile::MetricId;

use super::*;
use crate::{FoldedOptions, write_folded};

/// main calls a and b. Both call leaf, b at three times the cost. leaf's file changes within it.
const SAMPLE: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
pid: 77
cmd:  ./app one
positions: line
events: Ir Dr
summary: 1010 100

ob=(1) /home/me/app
fl=(1) /home/me/main.c
fn=(1) main
10 10 4
cfn=(2) a
calls=1 20
+1 250 24
cfn=(3) b
calls=2 30
* 750 72

fn=(2)
20 50
cfi=(2) /home/me/leaf.h
cfn=(4) leaf
calls=5 1
+2 200 24

fn=(3)
30 150 0
cfi=(2)
cfn=(4)
calls=9 1
32 600 72

fl=(2)
fn=(4)
1 300 84
fi=(3) /home/me/inline.h
+4 500 12
fe=(2)
totals: 1010 100
";

fn import(text: &str) -> Imported {
    read(text.as_bytes(), &ImportOptions::default()).expect("it is callgrind's")
}

fn folded(imported: &Imported, row: u32) -> Vec<String> {
    let mut out = Vec::new();
    let selection = whyslow_analyze::Selection { metric: MetricId(row), ..Default::default() };
    write_folded(&imported.profile, &selection, &FoldedOptions::default(), &mut out)
        .expect("memory takes it");
    let mut lines: Vec<String> = String::from_utf8(out).expect("UTF-8").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn costs_of_calls_are_divided_among_callers_in_proportion() {
    assert!(looks_like(SAMPLE.as_bytes()));
    let imported = import(SAMPLE);
    let expected = ["main 10", "main;a 50", "main;a;leaf 200", "main;b 150", "main;b;leaf 600"];
    assert_eq!(folded(&imported, 0), expected);
    assert_eq!(folded(&imported, 1), ["main 4", "main;a;leaf 24", "main;b;leaf 72"]);
    assert_eq!(imported.profile.meta.command, ["./app", "one"]);
    assert_eq!(imported.profile.processes[0].pid, 77);
}

#[test]
fn lines_belong_to_the_file_of_the_code() {
    let imported = import(SAMPLE);
    let profile = &imported.profile;
    let mut by_line = std::collections::BTreeMap::new();
    for row in 0..profile.samples[0].len() {
        let frame = profile.frames.of(profile.stacks.location(profile.samples[0].stack[row]))[0];
        let file = frame.file.map_or("", |file| profile.text(file));
        *by_line.entry((file, frame.line)).or_insert(0) += profile.samples[0].value[row];
    }
    let expected = [
        (("/home/me/inline.h", 5), 500),
        (("/home/me/leaf.h", 1), 300),
        (("/home/me/main.c", 10), 10),
        (("/home/me/main.c", 20), 50),
        (("/home/me/main.c", 30), 150),
    ];
    assert_eq!(by_line.into_iter().collect::<Vec<_>>(), expected);
}

#[test]
fn recursion_ends_and_own_costs_stay_exact() {
    let text = "events: Ir\nversion: 1\nfn=main\n1 10\ncfn=f\ncalls=1 2\n1 1000\n\nfn=f\n2 600\ncfn=f\ncalls=9 2\n2 5000\ncfn=g\n\
                calls=1 3\n2 400\n\nfn=g\n3 400\n";
    let imported = import(text);
    let profile = &imported.profile;
    assert_eq!(profile.samples[0].value.iter().sum::<u64>(), 1010);
    let own = |name: &str| {
        let samples = &profile.samples[0];
        let named = |row: &usize| {
            let frame = profile.frames.of(profile.stacks.location(samples.stack[*row]))[0];
            profile.text(profile.functions[frame.function.index()].name) == name
        };
        (0..samples.len()).filter(named).map(|row| samples.value[row]).sum::<u64>()
    };
    assert_eq!((own("main"), own("f"), own("g")), (10, 600, 400));
}

#[test]
fn calls_are_counted() {
    let imported = import(SAMPLE);
    let calls = imported.profile.metric_ids().last().unwrap();
    assert_eq!(imported.profile.metric_named("calls"), Some(calls));
    assert_eq!(folded(&imported, calls.0), ["a;leaf 5", "b;leaf 9", "main;a 1", "main;b 2"]);
}

/// A program with far more call paths than there are stacks: `layers` layers of `wide` functions, each of
/// which calls all of the next layer.
fn many_ways(layers: u64, wide: u64) -> String {
    let mut text = String::from("version: 1\nevents: Ir\nfn=main\n1 7\n");
    // A function of layer `l` has an own cost of 3. Its calls share the cost of the next layer evenly.
    let cost_of = |layer: u64| 3 * (layers - layer);
    for f in 0..wide {
        text.push_str(&format!("cfn=f0_{f}\ncalls=1 1\n1 {}\n", cost_of(0) * wide));
    }
    for layer in 0..layers {
        for f in 0..wide {
            text.push_str(&format!("fn=f{layer}_{f}\n1 {}\n", 3 * wide));
            for next in (0..wide).filter(|_| layer + 1 < layers) {
                text.push_str(&format!("cfn=f{}_{next}\ncalls=1 1\n1 {}\n", layer + 1, cost_of(layer + 1)));
            }
        }
    }
    text
}

#[test]
fn inclusive_costs_are_exact_with_more_paths_than_stacks() {
    let (layers, wide) = (12, 12);
    let profile = import(&many_ways(layers, wide)).profile;
    let table = whyslow_analyze::FunctionTable::build(
        &profile,
        &Default::default(),
        true,
        whyslow_analyze::SortBy::Total,
    );
    let total = 7 + layers * wide * 3 * wide;
    assert_eq!(table.total_value, total);
    for row in &table.rows {
        let name = whyslow_analyze::CallTree::name(&profile, row.label);
        let (own, all) = match name.strip_prefix('f').and_then(|name| name.split_once('_')) {
            Some((layer, _)) => (3 * wide, 3 * wide * (layers - layer.parse::<u64>().expect("a number"))),
            None => (7, total),
        };
        assert_eq!((row.self_value, row.total_value), (own, all), "{name}");
    }
    assert_eq!(table.rows.len() as u64, 1 + layers * wide);
}

#[test]
fn addresses_before_lines_and_jumps_are_skipped() {
    let text = "version: 1\npositions: instr line\nevents: Ir\nfn=(1) main\n0x401000 3 5\njcnd=1/2 +4 0\n* 3\n+4 +1 7\n";
    assert_eq!(folded(&import(text), 0), ["main 12"]);
}

#[test]
fn broken_files_are_errors_with_a_line() {
    let broken =
        |text: &str| read(text.as_bytes(), &ImportOptions::default()).expect_err("broken").to_string();
    assert!(broken("events: Ir\nfn=(7)\n").ends_with(": line 2: this number has no name"));
    assert!(broken("events: Ir\n1 2\n").ends_with(": line 2: a cost before the first function"));
    assert!(broken("events: Ir\nfn=f\ncalls=1 1\n1 2\n").ends_with(": line 4: a call without a callee"));
    assert!(broken("events: Ir\nfn=f\n1 x\n").ends_with(": line 3: x is not a cost"));
    assert!(broken("events: Ir\nfn=f\n1x 2\n").ends_with(": line 3: 1x is not a position"));
    assert!(broken("version: 1\n").ends_with(": the counted events are missing"));
    assert!(broken("events: Ir\nhello\n").ends_with(": line 2: unknown line"));
}
