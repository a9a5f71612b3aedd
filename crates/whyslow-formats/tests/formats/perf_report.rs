//! Imported perf recordings agree with `perf report`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use whyslow_analyze::{CallTree, Selection, TreeOptions};
use whyslow_formats::import::{self, ImportOptions};
use whyslow_profile::{MetricId, Profile};

use crate::support::totals;

const PROGRAM: &str = r#"
use std::{hint::black_box, thread};
#[inline(never)]
fn heavy(rounds: u64) -> u64 { (0..rounds).fold(1, |sum, at| black_box(sum * 31 + at % 7)) }
#[inline(never)]
fn light(rounds: u64) -> u64 { (0..rounds).fold(3, |sum, at| black_box(sum * 33 + at % 5)) }
fn work() { for _ in 0..60 { black_box(heavy(black_box(3_000_000))); black_box(light(black_box(1_000_000))); } }
fn main() { let other = thread::spawn(work); work(); other.join().unwrap(); }
"#;

fn run(command: &mut Command) -> Option<String> {
    let output = command.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A recording of the program, or why there is none.
fn record(folder: &Path, arguments: &[&str]) -> Option<std::path::PathBuf> {
    let source = folder.join("spin.rs");
    std::fs::write(&source, PROGRAM).unwrap();
    let program = folder.join("spin");
    run(Command::new("rustc")
        .args(["-O", "-g", "-C", "force-frame-pointers=yes", "-o"])
        .arg(&program)
        .arg(&source))?;
    let data = folder.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "-e", "cpu-clock", "-F", "997"]).args(arguments).arg("-o").arg(&data);
    run(perf.arg("--").arg(&program))?;
    Some(data)
}

/// Self shares of functions in percent, from `perf report`.
fn reported(data: &Path) -> Vec<(f64, String)> {
    let mut perf = Command::new("perf");
    perf.args(["report", "--stdio", "--no-children", "-g", "none", "-s", "sym", "-i"]).arg(data);
    let text = run(&mut perf).unwrap_or_default();
    let rows = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (share, symbol) = line.trim().split_once('%')?;
        let (_, name) = symbol.split_once("] ")?;
        Some((share.parse().ok()?, name.trim().to_owned()))
    });
    rows.take(5).collect()
}

/// Self values as perf computes them: inlined code belongs to the function it is inlined into.
fn own_values(profile: &Profile) -> BTreeMap<String, u64> {
    let options = TreeOptions { inline: false, ..TreeOptions::default() };
    let tree = CallTree::build(profile, &Selection::default(), &options);
    let mut own = BTreeMap::new();
    for node in 1..tree.len() {
        *own.entry(CallTree::name(profile, tree.label[node]).into_owned()).or_default() +=
            tree.self_value[node];
    }
    own
}

#[test]
fn the_top_functions_agree_with_perf_report() {
    for arguments in [&["--call-graph", "dwarf"][..], &["-g"], &["-z", "--call-graph", "dwarf"], &[]] {
        let folder = tempfile::tempdir().unwrap();
        let Some(data) = record(folder.path(), arguments) else {
            if whyslow_lab_harness::is_installed("perf") {
                whyslow_lab_harness::skip("perf events are not permitted here");
            }
            return;
        };
        let (_, mut imported) = import::import(&data, None, &ImportOptions::default()).unwrap();
        let symbols = whyslow_symbols::Options { cache: None, ..Default::default() };
        whyslow_symbols::symbolize(&mut imported.profile, &symbols);
        let profile = &imported.profile;
        let all: u64 = profile.samples[0].value.iter().sum();
        let totals = totals(profile, MetricId(0));
        let reported = reported(&data);
        let top: Vec<&str> = reported.iter().take(2).map(|(_, name)| name.as_str()).collect();
        assert_eq!(top, ["spin::heavy", "spin::light"], "{arguments:?}: {reported:?}");
        let own = own_values(profile);
        for (share, name) in reported.iter().filter(|(share, _)| *share > 2.0) {
            let measured = own.get(name).copied().unwrap_or(0) as f64 / all as f64 * 100.0;
            assert!(
                (measured - share).abs() < 0.1,
                "{arguments:?}: {name} has {measured:.2} %, perf says {share} %"
            );
        }
        if !arguments.is_empty() {
            let work = totals["spin::work"].1 as f64 / all as f64;
            assert!(work > 0.95, "{arguments:?}: stacks reach their callers: {work:.3}");
        }
    }
}
