//! Test support: sample files, and function totals by name.

use std::collections::BTreeMap;
use std::path::PathBuf;

use whyslow_analyze::{CallTree, Selection, TreeOptions};
use whyslow_formats::import::{self, Format, ImportOptions, Imported};
use whyslow_profile::{MetricId, Profile};

/// The path of a sample file.
pub(crate) fn sample(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name)
}

/// Imports a sample file, which must be recognised as this format.
#[track_caller]
pub(crate) fn imported(name: &str, format: Format) -> Imported {
    let (guessed, imported) = import::import(&sample(name), None, &ImportOptions::default()).unwrap();
    assert_eq!(guessed, format);
    imported
}

/// Imports bytes, which must be recognised as this format.
#[track_caller]
pub(crate) fn from_bytes(bytes: &[u8], format: Format) -> Imported {
    let (guessed, imported) = import::import_bytes(bytes, None, &ImportOptions::default()).unwrap();
    assert_eq!(guessed, format);
    imported
}

/// Self and total value per function name, over the samples of a metric; recursion counts once.
pub(crate) fn totals(profile: &Profile, metric: MetricId) -> BTreeMap<String, (u64, u64)> {
    let selection = Selection { metric, ..Selection::default() };
    let tree = CallTree::build(profile, &selection, &TreeOptions::default());
    let mut totals = BTreeMap::<String, (u64, u64)>::new();
    for node in 1..tree.len() {
        let name = CallTree::name(profile, tree.label[node]);
        let mut above = tree.parent[node] as usize;
        let mut again = false;
        while above != 0 {
            again |= CallTree::name(profile, tree.label[above]) == name;
            above = tree.parent[above] as usize;
        }
        let row = totals.entry(name.into_owned()).or_default();
        row.0 += tree.self_value[node];
        if !again {
            row.1 += tree.total_value[node];
        }
    }
    totals
}

/// Self and total as one line per function.
pub(crate) fn lines(profile: &Profile, metric: MetricId) -> Vec<String> {
    totals(profile, metric).iter().map(|(name, (own, total))| format!("{name} {own}/{total}")).collect()
}
