//! Properties that must hold for every profile.

use proptest::prelude::*;
use whyslow_profile::{CodeKind, HeapCounts, Profile};

use crate::diff::{Change, Diff, DiffRow, Side, Verdict};
use crate::heap::{self, Sites};
use crate::testing;
use crate::{
    By, CallTree, Callers, Charges, FunctionTable, HotLines, HotPath, Lines, Outline, OwnTable, Quality,
    Selection, SortBy, Threads, TreeOptions,
};

/// Stacks over few names, so that recursion, inlining and merging happen often.
fn profiles() -> impl Strategy<Value = Profile> {
    let frame =
        prop::sample::select(vec!["a", "b", "c", "+a", "+b", "std::x@s.rs:3", "[libz.so]", "[unknown]"]);
    let root = prop::sample::select(vec!["main", "[truncated]", "main@m.rs:4"]);
    let thread = prop::sample::select(vec!["", "worker: "]);
    let line = (thread, root, prop::collection::vec(frame, 0..8), 0u64..5);
    prop::collection::vec(line, 0..12).prop_map(|lines| {
        let mut text = String::new();
        for (thread, root, frames, count) in lines {
            let mut stack = vec![root];
            // Only named code has inlined functions.
            for frame in frames {
                let onto_nothing =
                    frame.starts_with('+') && stack.last().is_some_and(|last| last.starts_with('['));
                stack.push(if onto_nothing { "c" } else { frame });
            }
            text.push_str(&format!("{thread}{} {count}\n", stack.join(";")));
        }
        testing::profile(&text)
    })
}

/// Heap recordings over the same names; nothing is freed that was not allocated.
fn heaps() -> impl Strategy<Value = Profile> {
    let frames = ["a@a.rs:1", "b@a.rs:2", "dep::c@c.rs:3", "std::x@s.rs:3", "[libz.so]", "[unknown]"];
    let stack = prop::collection::vec(prop::sample::select(frames.to_vec()), 1..5);
    let line = (stack, 0u64..9, 0u64..100, 0u64..100, 0u64..50, 0u64..50);
    prop::collection::vec(line, 0..12).prop_map(|lines| {
        let mut text = String::new();
        for (stack, count, bytes, freed, peak, made) in lines {
            text.push_str(&format!(
                "{} : allocations={count} bytes_allocated={bytes} bytes_freed={} peak_bytes={peak} max_bytes={peak} \
                 made_ms={made} freed_ms={}\n",
                stack.join(";"),
                freed.min(bytes),
                made + freed,
            ));
        }
        testing::heap_profile(&text)
    })
}

fn options() -> impl Strategy<Value = TreeOptions> {
    (any::<bool>(), any::<bool>(), prop_oneof![Just(usize::MAX), 0usize..6]).prop_map(
        |(inline, inverted, max_depth)| TreeOptions { inline, inverted, max_depth, ..TreeOptions::default() },
    )
}

fn check_tree(tree: &CallTree, whole: u64) -> Result<(), TestCaseError> {
    prop_assert_eq!(tree.total_value[0], whole);
    prop_assert_eq!(tree.self_value.iter().sum::<u64>(), whole);
    let children = tree.children();
    for node in 0..tree.len() {
        prop_assert!(tree.total_value[node] >= tree.self_value[node]);
        prop_assert!(node == 0 || (tree.parent[node] as usize) < node);
        let below: u64 = children.of(node as u32).iter().map(|&child| tree.total_value[child as usize]).sum();
        prop_assert_eq!(tree.total_value[node], tree.self_value[node] + below);
    }
    Ok(())
}

fn compared(before: &Profile, after: &Profile) -> Diff {
    let everything = Selection::default();
    let side = |profile| Side { profile, selection: &everything };
    Diff::build(side(before), side(after), true)
}

/// A change with its sides swapped.
fn turned(change: &Change) -> Change {
    let verdict = match change.verdict {
        Verdict::More => Verdict::Less,
        Verdict::Less => Verdict::More,
        other => other,
    };
    Change { before: change.after, after: change.before, margin: change.margin, ratio: None, verdict }
}

/// Every change of a comparison, in an order that does not depend on its direction.
fn changes(diff: &Diff, of: impl Fn(&Change) -> Change) -> Vec<String> {
    let row = |row: &DiffRow| format!("{:?} {:?}", of(&row.own), row.total.as_ref().map(&of));
    let totals = diff.totals.iter().map(|total| format!("{} {:?}", total.what, of(&total.change)));
    let mut all = diff.rows.iter().map(row).chain(totals).collect::<Vec<_>>();
    all.sort();
    all
}

fn either() -> impl Strategy<Value = (Profile, Profile)> {
    prop_oneof![(profiles(), profiles()), (heaps(), heaps()), (sampled_heaps(), sampled_heaps())]
}

fn sampled_heaps() -> impl Strategy<Value = Profile> {
    heaps().prop_map(|mut profile| {
        testing::sampled_heap(&mut profile, 16);
        profile
    })
}

proptest! {
    #[test]
    fn a_profile_does_not_differ_from_itself((profile, _) in either()) {
        let diff = compared(&profile, &profile);
        for row in &diff.rows {
            prop_assert_eq!(row.before, row.after);
            prop_assert_eq!((row.own.difference(), row.total.map_or(0, |total| total.difference())), (0, 0));
            prop_assert!(!row.own.verdict.is_claim());
        }
        prop_assert!(diff.totals.iter().all(|total| total.change.difference() == 0));
    }

    #[test]
    fn swapping_the_sides_reverses_every_change((before, after) in either()) {
        let there = changes(&compared(&before, &after), |change| *change);
        prop_assert_eq!(there, changes(&compared(&after, &before), turned));
    }

    #[test]
    fn rows_of_both_sides_add_up((before, after) in either()) {
        let diff = compared(&before, &after);
        let whole = |profile: &Profile| Selection::default().weigh(profile).total_value;
        prop_assert_eq!(diff.rows.iter().map(|row| row.own.before).sum::<u64>(), whole(&before));
        prop_assert_eq!(diff.rows.iter().map(|row| row.own.after).sum::<u64>(), whole(&after));
    }

    #[test]
    fn every_tree_holds_every_sample_once(profile in profiles(), options in options()) {
        let whole = Selection::default().weigh(&profile).total_value;
        check_tree(&CallTree::build(&profile, &Selection::default(), &options), whole)?;
        let outline = Outline::build(&profile, &Selection::default(), &options);
        check_tree(&outline.tree, whole)?;
        prop_assert!(outline.items(0.0).len() < outline.tree.len());
    }

    #[test]
    fn every_sample_is_charged_once_and_the_hot_path_leads_to_the_largest(profile in profiles(), inline in any::<bool>()) {
        let weights = Selection::default().weigh(&profile);
        let charges = Charges::new(&profile, inline);
        let own = OwnTable::build(&profile, &weights, &charges);
        prop_assert_eq!(own.rows.iter().map(|row| row.own_value).sum::<u64>(), weights.total_value);
        for row in &own.rows {
            let beneath = row.beneath.map_or(0, |beneath| beneath.value);
            prop_assert!(row.self_value + beneath <= row.own_value);
        }
        let path = HotPath::find(&profile, &weights, &charges, &own);
        prop_assert_eq!(path.steps.get(path.own_step).map(|step| step.label), own.rows.first().map(|row| row.label));
        prop_assert!(path.path_value <= path.own_value);
        for pair in path.steps.windows(2) {
            prop_assert!(pair[1].total_value <= pair[0].total_value);
            prop_assert!(pair[1].leading_value <= pair[0].leading_value);
        }
        for step in &path.steps[path.own_step.min(path.steps.len())..] {
            prop_assert!(step.leading_value <= path.path_value);
        }
        for (by, value) in [(By::Own, 0), (By::SelfValue, 1)] {
            let lines = HotLines::build(&profile, &weights, &charges, by);
            let sum = lines.rows.iter().map(|row| [row.own_value, row.self_value][value]).sum::<u64>();
            prop_assert_eq!(sum, weights.total_value);
        }
    }

    #[test]
    fn self_adds_up_and_no_total_is_more_than_everything(profile in profiles(), inline in any::<bool>()) {
        let table = FunctionTable::build(&profile, &Selection::default(), inline, SortBy::SelfValue);
        prop_assert_eq!(table.rows.iter().map(|row| row.self_value).sum::<u64>(), table.total_value);
        for row in &table.rows {
            prop_assert!(row.self_value <= row.total_value);
            prop_assert!(row.total_value <= table.total_value);
            prop_assert!(table.total_share(row).value <= 1.0);
        }
    }

    #[test]
    fn the_root_children_of_an_inverted_tree_are_the_self_times(profile in profiles(), inline in any::<bool>()) {
        let options = TreeOptions { inline, inverted: true, ..TreeOptions::default() };
        let tree = CallTree::build(&profile, &Selection::default(), &options);
        let table = FunctionTable::build(&profile, &Selection::default(), inline, SortBy::SelfValue);
        let children = tree.children();
        for row in &table.rows {
            let node = children.of(0).iter().find(|&&node| tree.label[node as usize] == row.label);
            prop_assert_eq!(node.map_or(0, |&node| tree.total_value[node as usize]), row.self_value);
        }
    }

    #[test]
    fn a_filter_never_adds(profile in profiles(), kind in prop::sample::select(CodeKind::ALL), end in 0u64..40) {
        let everything = Selection::default();
        let function = Some(crate::FunctionFilter::new("a|z"));
        let filters = [
            Selection { kinds: vec![kind], ..everything.clone() },
            Selection { function, ..everything.clone() },
            Selection { threads: vec!["work".parse().unwrap()], ..everything.clone() },
            Selection { time_ns: Some(0..end * testing::SAMPLE_NS), ..everything.clone() },
        ];
        let whole = everything.weigh(&profile);
        for filter in filters {
            let part = filter.weigh(&profile);
            prop_assert!(part.value.iter().zip(&whole.value).all(|(part, whole)| part <= whole));
            prop_assert_eq!(Threads::build(&profile, &filter).total_value, part.total_value);
        }
    }

    #[test]
    fn callers_callees_and_lines_agree_with_the_table(profile in profiles()) {
        let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::Total);
        for row in &table.rows {
            let name = CallTree::name(&profile, row.label);
            let callers = Callers::build(&profile, &Selection::default(), &name, true).unwrap();
            prop_assert_eq!(callers.total_value, row.total_value);
            prop_assert_eq!(callers.self_value, row.self_value);
            prop_assert_eq!(callers.samples, row.total_samples);
            check_tree(&callers.callers.tree, row.total_value)?;
            check_tree(&callers.callees.tree, row.total_value)?;
            let lines = Lines::build(&profile, &Selection::default(), &name).unwrap();
            prop_assert_eq!(lines.total_value, row.total_value);
            prop_assert!(lines.rows.iter().all(|line| line.total_value <= row.total_value));
        }
    }

    #[test]
    fn lines_that_allocate_add_up_to_the_heap(profile in heaps()) {
        let sites = Sites::build(&profile);
        let sum = |of: fn(&HeapCounts) -> u64| sites.rows.iter().map(|row| of(&row.counts)).sum::<u64>();
        let totals = profile.heap.totals();
        prop_assert_eq!(sites.totals, totals);
        prop_assert_eq!(sum(|counts| counts.allocations), totals.allocations);
        prop_assert_eq!(sum(|counts| counts.bytes_allocated), totals.bytes_allocated);
        prop_assert_eq!(sum(|counts| counts.peak_bytes), totals.peak_bytes);
        prop_assert_eq!(sites.rows.iter().map(|row| row.counts.max_bytes).max().unwrap_or(0), totals.max_bytes);
        prop_assert_eq!(sites.rows.iter().map(|row| row.rows.len()).sum::<usize>(), profile.heap.sites.len());
        prop_assert!(sites.rows.is_sorted_by_key(|row| std::cmp::Reverse(row.counts.peak_bytes)));
        Quality::of(&profile);
    }

    #[test]
    fn live_at_the_end_is_everything_not_freed(profile in heaps()) {
        let totals = profile.heap.totals();
        if let Some((_, samples)) = heap::live_at(&profile, u64::MAX) {
            let live: u64 = samples.value.iter().sum();
            prop_assert_eq!(live, totals.bytes_allocated - totals.bytes_freed);
            prop_assert_eq!(heap::live_over_time(&profile, 7).last().copied().unwrap_or(0) >= live, true);
        }
    }

    #[test]
    fn quality_shares_are_between_zero_and_one(profile in profiles()) {
        let quality = Quality::of(&profile);
        for share in [quality.truncated_share, quality.unresolved_share, quality.nameless_share] {
            prop_assert!((0.0..=1.0).contains(&share));
        }
        prop_assert!(quality.nameless_share <= quality.unresolved_share);
    }
}

#[test]
fn ten_thousand_frames_need_no_deep_recursion() {
    let alternating =
        format!("main{};leaf@l.rs:3 2\nmain{} 1", ";f;g;h;i;j".repeat(2_000), ";f".repeat(5_000));
    let profile = testing::profile(&alternating);
    let work = move || {
        let everything = Selection::default();
        for inverted in [false, true] {
            let options = TreeOptions { inverted, ..TreeOptions::default() };
            assert!(CallTree::build(&profile, &everything, &options).len() > 10_000);
            let outline = Outline::build(&profile, &everything, &options);
            outline.items(0.0);
        }
        let (weights, charges) = (everything.weigh(&profile), Charges::new(&profile, true));
        let own = OwnTable::build(&profile, &weights, &charges);
        assert_eq!(HotPath::find(&profile, &weights, &charges, &own).own_value, own.rows[0].own_value);
        let table = FunctionTable::build(&profile, &everything, true, SortBy::SelfValue);
        assert_eq!(table.rows[0].self_samples, 2);
        Callers::build(&profile, &everything, "leaf", true).unwrap();
        Callers::build(&profile, &everything, "f", true).unwrap();
        Lines::build(&profile, &everything, "leaf").unwrap();
        Quality::of(&profile);
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn values_too_large_to_add_do_not_panic() {
    let mut profile = testing::profile("main;a 2\nmain;b 1");
    profile.samples[0].value.fill(u64::MAX);
    let everything = Selection::default();
    let outline = Outline::build(&profile, &everything, &TreeOptions::default());
    outline.items(0.01);
    FunctionTable::build(&profile, &everything, true, SortBy::SelfValue);
    OwnTable::build(&profile, &everything.weigh(&profile), &Charges::new(&profile, true));
    Threads::build(&profile, &everything);
    Quality::of(&profile);
    crate::Overview::of(&profile);
}
