//! Complete stacks: deep, huge, changing. None may be wrong.

use whyslow_lab_harness::{ChurnPaths, StackVerdict, Variant, build_or_skip, try_again};

use crate::recorded::{Recorded, last_segment, record};

/// Stacks of the `churn` program, counted by verdict.
fn judge(recorded: &Recorded, paths: &ChurnPaths) -> (usize, usize) {
    let (mut judged, mut wrong) = (0, 0);
    for stack in recorded.stacks() {
        let names = recorded.names(stack);
        match paths.judge(names.iter().copied()) {
            StackVerdict::Unknown => {}
            StackVerdict::Wrong => (judged, wrong) = (judged + 1, wrong + 1),
            StackVerdict::Right | StackVerdict::Incomplete => judged += 1,
        }
    }
    (judged, wrong)
}

/// Records `churn` with outer frames that live this long. Returns the number of judged and of wrong stacks.
fn churn(period_ms: &str, run_ms: &str, mode: &str) -> Option<(Recorded, usize, usize)> {
    let program = build_or_skip("churn", Variant::Release)?;
    let paths = ChurnPaths::read(&program, mode).unwrap();
    let recorded = record("churn", Variant::Release, &[period_ms, run_ms, mode])?;
    let (judged, wrong) = judge(&recorded, &paths);
    Some((recorded, judged, wrong))
}

#[test]
fn outer_frames_that_change_every_millisecond_are_never_guessed() {
    let (mut judged, mut wrong) = (0, 0);
    for mode in ["same", "mix"] {
        for period in ["1", "0.2"] {
            let Some((_, some_judged, some_wrong)) = churn(period, "1500", mode) else { return };
            judged += some_judged;
            wrong += some_wrong;
        }
    }
    assert!(judged > 1000, "only {judged} stacks could be judged");
    assert!(wrong * 1000 <= judged, "{wrong} of {judged} stacks are wrong");
}

#[test]
fn outer_frames_that_live_long_enough_are_complete() {
    for mode in ["same", "mix"] {
        // A machine that stalls for 60 ms (a busy host) makes the recorder miss a round, but not every time.
        let mut attempts = 0;
        loop {
            let Some((recorded, judged, wrong)) = churn("60", "1500", mode) else { return };
            assert_eq!(wrong, 0, "{wrong} of {judged} stacks are wrong");
            attempts += 1;
            if recorded.complete_share() >= 0.99 || attempts == 4 {
                recorded.assert_complete("churn 60 ms");
                break;
            }
            try_again(&format!(
                "{mode}: {:.2} % of the stacks are complete",
                recorded.complete_share() * 100.0
            ));
        }
    }
}

#[test]
fn deep_recursion_is_complete_and_exact() {
    let Some(recorded) = record("deep", Variant::Release, &["100", "700"]) else { return };
    recorded.assert_complete("deep");
    let depth = 101;
    for stack in recorded.stacks().filter(|stack| !recorded.profile.is_truncated(*stack)) {
        let names = recorded.names(stack);
        if names.first().map(|name| last_segment(name)) == Some("leaf") {
            let down = names.iter().filter(|name| last_segment(name) == "down").count();
            assert_eq!(down, depth, "{names:?}");
            assert_eq!(last_segment(names[depth + 1]), "main");
        }
    }
    assert!(recorded.self_share("leaf") > 0.97);
}

/// Nearly every stack has a pattern of call sites of its own.
#[test]
fn deep_recursion_through_two_call_sites_needs_few_stack_nodes() {
    let Some(recorded) = record("branches", Variant::Release, &["10000", "100"]) else { return };
    // While it goes down, frames change quickly: some stacks are truncated.
    assert!(recorded.self_share("leaf") > 0.9);
    let mut judged = 0;
    let profile = &recorded.profile;
    assert!(profile.meta.counters.deepest_stack > 10_000, "{:?}", profile.meta.counters);
    assert!(profile.stacks.len() < 20_000, "{} nodes", profile.stacks.len());
    for stack in recorded.stacks().filter(|stack| !profile.is_truncated(*stack)) {
        let names = recorded.names(stack);
        if names.first().map(|name| last_segment(name)) == Some("leaf") {
            let left_out = profile.locations_of(stack).filter(|place| profile.is_left_out(*place)).count();
            // Frames that are left out have no name.
            let rest = names.iter().skip(1).skip_while(|name| ["descend", "?"].contains(&last_segment(name)));
            judged += 1;
            assert!((1..8).contains(&left_out), "{names:?}");
            assert_eq!(rest.map(|name| last_segment(name)).next(), Some("main"), "{names:?}");
        }
    }
    assert!(judged > 0, "no stack is complete");
}

#[test]
fn much_deeper_recursion_is_complete_too() {
    // Touching 6 MB of fresh stack takes some milliseconds, in which frames change quickly: a small part of
    // this run.
    let Some(recorded) = record("deep", Variant::Release, &["10000", "2000"]) else { return };
    recorded.assert_complete("deep 10000");
}

#[test]
fn one_huge_frame_is_crossed() {
    let Some(recorded) = record("bigframe", Variant::Release, &["700"]) else { return };
    recorded.assert_complete("bigframe");
    let share = recorded.share(|names| {
        names.iter().map(|name| last_segment(name)).take(4).eq(["spin", "holder", "caller", "main"])
    });
    assert!(share > 0.97, "spin < holder < caller < main has {share}");
}

#[test]
fn stacks_end_where_programs_and_threads_start() {
    let Some(recorded) = record("ratio", Variant::Release, &["2", "500"]) else { return };
    let share = recorded.share(|names| {
        names.last().is_some_and(|name| ["_start", "clone3", "__clone3", "clone"].contains(name))
    });
    assert!(share > 0.99, "{share} of the stacks end at the start");
}
