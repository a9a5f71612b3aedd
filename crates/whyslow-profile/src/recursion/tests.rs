use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{Builder, Meta, Metric, Process, ProfileNs, Sampler, Thread};

/// A profile with one sample per stack; each stack is a list of addresses, outermost first.
fn recorded(
    stacks: &[Vec<u64>],
    root: Option<LocationId>,
    add: impl Fn(&mut Builder, Option<StackId>, &[LocationId]) -> StackId,
) -> Profile {
    let mut builder = Builder::new();
    let metric = builder.metric(Metric::cpu_time(Sampler::default()));
    let name = builder.string("app");
    let process = builder.process(Process { pid: 1, parent: None, name, start_ns: 0, end_ns: None });
    let thread = builder.thread(Thread { process, tid: 1, name, start_ns: 0, end_ns: None, times: None });
    for stack in stacks {
        let root = root.map(|location| builder.stack(None, location));
        let locations: Vec<_> = stack.iter().map(|at| builder.location(None, RelativeAddress(*at))).collect();
        let stack = add(&mut builder, root, &locations);
        builder.sample(metric, ProfileNs(0), thread, stack, 1);
    }
    builder.into_profile(Meta::default()).unwrap()
}

fn whole(builder: &mut Builder, root: Option<StackId>, locations: &[LocationId]) -> StackId {
    builder.stack_of(root, locations.iter().copied()).unwrap()
}

fn exact(builder: &mut Builder, root: Option<StackId>, locations: &[LocationId]) -> StackId {
    locations.iter().fold(root, |stack, &location| Some(builder.stack(stack, location))).unwrap()
}

/// Adds a stack in two steps, the second from where the first one ended, as a walk does that meets an earlier one.
fn in_steps(builder: &mut Builder, _: Option<StackId>, locations: &[LocationId]) -> StackId {
    let mut outers: Vec<Outer> = Vec::new();
    for &location in locations {
        outers.push(builder.call(outers.last().copied(), location));
    }
    let met = &outers[..outers.len() / 2 + 1];
    let mut walked: Vec<Outer> = Vec::new();
    for &location in &locations[met.len()..] {
        walked.push(builder.call(walked.last().or(met.last()).copied(), location));
    }
    builder.innermost(walked.iter().rev().chain(met.iter().rev()).copied()).unwrap()
}

/// The addresses of each sample, outermost first; `None` where frames are left out.
fn read(profile: &Profile) -> Vec<Vec<Option<u64>>> {
    let address = |location| {
        let is_address = !profile.is_left_out(location);
        is_address.then(|| profile.locations.address[location.index()].0)
    };
    let read = |stack: &StackId| {
        let mut addresses: Vec<_> = profile.locations_of(*stack).map(address).collect();
        addresses.reverse();
        addresses
    };
    profile.samples[0].stack.iter().map(read).collect()
}

fn calls(stack: &[Option<u64>]) -> BTreeSet<(u64, u64)> {
    stack.windows(2).filter_map(|pair| Some((pair[0]?, pair[1]?))).collect()
}

fn addresses(stack: &[Option<u64>]) -> BTreeSet<u64> {
    stack.iter().copied().flatten().collect()
}

fn all(stack: &[u64]) -> Vec<Option<u64>> {
    stack.iter().copied().map(Some).collect()
}

#[test]
fn stacks_that_are_short_or_do_not_repeat_stay_as_they_are() {
    let recursion = (0..EXACT as u64).map(|at| 1 + at % 2).collect::<Vec<_>>();
    let deep = (0..5000).collect::<Vec<_>>();
    let stacks = [vec![7], recursion, deep];
    for add in [whole, in_steps] {
        let profile = recorded(&stacks, None, add);
        assert_eq!(read(&profile), stacks.clone().map(|stack| all(&stack)));
        assert!(profile.modules.is_empty());
    }
}

#[test]
fn two_call_sites_ten_thousand_deep_need_few_nodes() {
    // A different pattern of the two sites for each sample.
    let mut state = 1u64;
    let mut site = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        1 + (state >> 63)
    };
    let mut pattern: Vec<u64> = (0..10_000).map(|_| site()).collect();
    let stacks: Vec<Vec<u64>> = (0..100)
        .map(|_| {
            pattern.truncate(5_000);
            pattern.extend((0..5_000).map(|_| site()));
            pattern.clone()
        })
        .collect();
    let profile = recorded(&stacks, None, whole);
    assert!(profile.stacks.len() < 2_500, "{}", profile.stacks.len());
    let truncated = recorded(&stacks, Some(LocationId::TRUNCATED), whole);
    assert!(truncated.stacks.len() < 2_500, "{}", truncated.stacks.len());
    assert!(truncated.samples[0].stack.iter().all(|stack| truncated.is_truncated(*stack)));
}

#[test]
fn a_rare_call_in_the_middle_is_kept_with_its_caller_and_callee() {
    let mut stack: Vec<u64> = (0..2_000).map(|at| 1 + at % 3).collect();
    stack[1_000] = 9;
    let profile = recorded(&[stack.clone()], None, whole);
    let kept = &read(&profile)[0];
    assert!(kept.len() < 160, "{kept:?}");
    assert!(calls(kept).contains(&(stack[999], 9)) && calls(kept).contains(&(9, stack[1_001])), "{kept:?}");
}

#[test]
fn nodes_that_are_forgotten_do_not_matter() {
    let mut builder = Builder::new();
    let stack = |builder: &mut Builder| {
        let location = builder.location(None, RelativeAddress(1));
        let outers: Vec<Outer> = (0..500)
            .scan(None, |caller, _| {
                *caller = Some(builder.call(*caller, location));
                *caller
            })
            .collect();
        builder.innermost(outers.into_iter().rev()).unwrap()
    };
    let first = stack(&mut builder);
    builder.flushed();
    assert_eq!(stack(&mut builder), first);
}

/// Stacks of a few locations, with runs of the same ones.
fn recursive() -> impl Strategy<Value = Vec<Vec<u64>>> {
    let piece = (prop::collection::vec(1..6u64, 1..5), 1..80usize);
    let stack = prop::collection::vec(piece, 1..6)
        .prop_map(|pieces| pieces.into_iter().flat_map(|(cycle, times)| cycle.repeat(times)).collect());
    prop::collection::vec(stack, 1..6)
}

proptest! {
    /// What a table of functions, lines, callers or callees counts is a set per stack.
    #[test]
    fn keeps_every_location_and_every_call(stacks in recursive()) {
        let reference = recorded(&stacks, None, exact);
        let mut rebuilt = recorded(&stacks, None, exact);
        leave_out_recursion(&mut rebuilt);
        for profile in [recorded(&stacks, None, whole), recorded(&stacks, None, in_steps), rebuilt] {
            for (kept, whole) in read(&profile).iter().zip(read(&reference)) {
                prop_assert_eq!(addresses(kept), addresses(&whole));
                prop_assert_eq!(calls(kept), calls(&whole));
                let inner = kept.len().min(INNER);
                prop_assert_eq!(&kept[kept.len() - inner..], &whole[whole.len() - inner..]);
                let outer = kept.len().min(OUTER as usize);
                prop_assert_eq!(&kept[..outer], &whole[..outer]);
            }
        }
    }

    #[test]
    fn the_way_a_stack_is_added_does_not_change_it(stacks in recursive()) {
        let whole = read(&recorded(&stacks, None, whole));
        prop_assert_eq!(&read(&recorded(&stacks, None, in_steps)), &whole);
        let mut rebuilt = recorded(&stacks, None, exact);
        leave_out_recursion(&mut rebuilt);
        prop_assert_eq!(&read(&rebuilt), &whole);
    }

    #[test]
    fn truncated_stacks_keep_every_location_too(stacks in recursive()) {
        let root = Some(LocationId::TRUNCATED);
        let reference = recorded(&stacks, root, exact);
        let profile = recorded(&stacks, root, whole);
        for (kept, whole) in read(&profile).iter().zip(read(&reference)) {
            prop_assert_eq!(addresses(kept), addresses(&whole));
            prop_assert_eq!(calls(kept), calls(&whole));
        }
    }
}
