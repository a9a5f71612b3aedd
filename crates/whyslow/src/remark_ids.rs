//! The ids of all remarks, over all families of facts.

use whyslow_analyze::diff::Caveat;
use whyslow_analyze::heap::Advice;
use whyslow_analyze::size::SizeNote;
use whyslow_analyze::stat::CountNote;
use whyslow_analyze::{SyscallNote, Warning};
use whyslow_bench::BenchNote;
use whyslow_formats::export::LeftOut;
use whyslow_profile::{CausalNote, Family, HeapNote, ImportNote, RecordingNote};

use crate::commands::doctor::CHECK_IDS;

/// Ids that are both a warning about one recording and a caveat about one of two.
const OF_BOTH: [&str; 4] = ["incomplete", "debug-build", "kernel-hidden", "no-leak-check"];

fn families() -> [&'static [&'static str]; 13] {
    [
        Warning::IDS,
        RecordingNote::IDS,
        HeapNote::IDS,
        CausalNote::IDS,
        ImportNote::IDS,
        Caveat::IDS,
        LeftOut::IDS,
        CHECK_IDS,
        Advice::IDS,
        CountNote::IDS,
        SyscallNote::IDS,
        BenchNote::IDS,
        SizeNote::IDS,
    ]
}

#[test]
fn each_id_names_one_fact() {
    let mut ids = families().concat();
    assert!(ids.len() > 150, "{}", ids.len());
    for id in OF_BOTH {
        assert!(Warning::IDS.contains(&id) && Caveat::IDS.contains(&id), "{id}");
        let second = ids.iter().rposition(|known| *known == id).unwrap();
        ids.remove(second);
    }
    ids.sort_unstable();
    let twice: Vec<_> = ids.windows(2).filter(|pair| pair[0] == pair[1]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    let odd = |id: &&&str| {
        !id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit())
    };
    assert_eq!(ids.iter().find(odd), None);
}

#[test]
fn every_id_is_described() {
    let page = include_str!("../../../docs/remarks.md");
    let ids = families().concat();
    let missing: Vec<_> = ids.iter().filter(|id| !page.contains(&format!("| `{id}` |"))).collect();
    assert!(missing.is_empty(), "not in docs/remarks.md: {missing:?}");
    let described = page.lines().filter(|line| line.starts_with("| `")).count();
    // The page also has the fields of a remark and the heads of the tables.
    let others = 5 + families().len();
    assert_eq!(described, ids.len() + others, "docs/remarks.md has ids that do not exist");
}
