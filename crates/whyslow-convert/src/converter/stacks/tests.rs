//! Stacks of a synthetic recording.

use super::*;
use crate::input::{Input, Task};
use crate::testing::{Recorded, TestStack, at};

const APP: (u32, u32) = (100, 100);
/// A sample copies five of ten frames of 4 KB.
const FRAME: usize = 4 << 10;
const COPIED: usize = 5 * FRAME;
const SP: u64 = 0x7000_0000;

fn recorded() -> Recorded {
    let mut recorded = Recorded::new();
    recorded.converter.add_process(100, "app");
    recorded.map(100, "/app", 0x1000);
    recorded
}

/// A stack of ten functions with the given outermost one.
fn stack(outermost: u64) -> TestStack {
    let functions: Vec<u64> = (0..9).map(|at| 0x1100 + at).chain([outermost]).collect();
    TestStack::new(SP, &functions, FRAME, 0)
}

/// Sets what each read of the memory returns.
fn has(recorded: &mut Recorded, versions: &[&TestStack]) {
    let versions = versions.iter().map(|stack| vec![(*stack).clone()]).collect();
    recorded.converter.world.memory.insert(100, versions);
    recorded.converter.world.reads.set(0);
}

fn reads(recorded: &Recorded) -> usize {
    recorded.converter.world.reads.get()
}

/// The outermost frames of all samples.
fn ends(recorded: Recorded) -> Vec<String> {
    let last = |stack: &String| stack.rsplit(' ').next().unwrap_or_default().to_owned();
    recorded.stacks().iter().map(last).collect()
}

#[test]
fn a_complete_dump_needs_no_read() {
    let mut recorded = recorded();
    recorded.sample(APP, 1, stack(0x1abc).dump(usize::MAX));
    assert_eq!((reads(&recorded), recorded.converter.tables.counters.complete_in_dump), (0, 1));
    let stacks = recorded.stacks();
    assert!(stacks[0].starts_with("/app+100 /app+100 /app+101 "), "{stacks:?}");
    assert!(stacks[0].ends_with(" /app+abb"), "{stacks:?}");
}

#[test]
fn outer_frames_are_read_once_and_then_reused() {
    let mut recorded = recorded();
    let stack = stack(0x1abc);
    has(&mut recorded, &[&stack]);
    recorded.sample(APP, 1, stack.dump(COPIED));
    let after_first = reads(&recorded);
    // Inner frames may have changed since, and another drain may have started.
    recorded.converter.begin_drain();
    let mut inner = stack.clone();
    inner.bytes[0x20] = 1;
    recorded.sample(APP, 2, inner.dump(COPIED));
    assert_eq!(reads(&recorded), after_first);
    let counters = &recorded.converter.tables.counters;
    assert_eq!((counters.completed_by_read, counters.completed_by_join, counters.truncated), (1, 1, 0));
    assert!(recorded.converter.has_read_live() || after_first > 0);
    assert_eq!(ends(recorded), ["/app+abb", "/app+abb"]);
}

/// A walk reuses the previous one's frames, but only from where every word is the same.
#[test]
fn a_walk_is_reused_only_where_all_words_are_equal() {
    let functions = |inner: u64, middle: u64, outer: u64| {
        let functions = (0..9).map(|at| match at {
            0 => inner,
            5 => middle,
            at => 0x1100 + at,
        });
        TestStack::new(SP, &functions.chain([outer]).collect::<Vec<u64>>(), FRAME, 0)
    };
    let cases = [
        (0x1100, 0x1105, 0x1abc),
        (0x1100, 0x1105, 0x1abc),
        (0x1800, 0x1105, 0x1abc),
        (0x1100, 0x1905, 0x1abc),
        (0x1100, 0x1905, 0x1def),
        (0x1100, 0x1105, 0x1def),
        (0x1100, 0x1105, 0x1abc),
    ];
    let mut together = recorded();
    let mut alone = Vec::new();
    for (inner, middle, outer) in cases {
        together.sample(APP, 1, functions(inner, middle, outer).dump(usize::MAX));
        let mut single = recorded();
        single.sample(APP, 1, functions(inner, middle, outer).dump(usize::MAX));
        alone.extend(single.stacks());
    }
    assert_eq!(together.converter.tables.counters.complete_in_dump, cases.len() as u64);
    assert_eq!(together.stacks(), alone);
}

/// The image was read later than the first sample, whose inner frames it does not have.
#[test]
fn words_that_only_the_dump_had_are_compared_with_the_image() {
    let functions = |third: u64| {
        [0x1100, 0x1101, third].into_iter().chain(0x1103..0x1109).chain([0x1abc]).collect::<Vec<u64>>()
    };
    let sampled = TestStack::new(SP, &functions(0x1102), FRAME, 0);
    let read = TestStack::new(SP, &functions(0x1902), FRAME, 0);
    let deeper = [vec![0x1200, 0x1201, 0x1202], functions(0x1902)].concat();
    let deeper = TestStack::new(SP - 3 * FRAME as u64, &deeper, FRAME, 0);
    let mut together = recorded();
    has(&mut together, &[&read]);
    together.sample(APP, 1, sampled.dump(COPIED));
    together.sample(APP, 2, deeper.dump(COPIED));
    let counters = &together.converter.tables.counters;
    assert_eq!((counters.completed_by_read, counters.completed_by_join), (1, 1));
    let mut alone = recorded();
    has(&mut alone, &[&deeper]);
    alone.sample(APP, 2, deeper.dump(COPIED));
    assert_eq!(together.stacks()[1..], alone.stacks()[..]);
}

/// The memory for stacks is limited, so its size must be known.
#[test]
fn accounts_for_the_memory_of_kept_stacks() {
    let mut recorded = recorded();
    let kept = |recorded: &Recorded| {
        let (counted, kept) = recorded.converter.stacks.memory();
        assert_eq!(counted, kept);
        kept
    };
    let stack = stack(0x1abc);
    recorded.sample(APP, 1, stack.dump(usize::MAX));
    let of_a_walk = kept(&recorded);
    assert!(of_a_walk > 0);
    has(&mut recorded, &[&stack]);
    recorded.sample(APP, 2, stack.dump(COPIED));
    assert!(kept(&recorded) > of_a_walk);
    let task = Task { pid: APP.0, tid: APP.1 };
    recorded.converter.take(&Input::Named { task, name: "app".into(), by_exec: true, time_ns: at(3) });
    assert_eq!(kept(&recorded), 0);
    recorded.map(100, "/app", 0x1000);
    recorded.sample(APP, 4, stack.dump(usize::MAX));
    assert!(kept(&recorded) > 0);
    recorded.converter.take(&Input::Ended { task, time_ns: at(5) });
    assert_eq!(kept(&recorded), 0);
    // The kernel may sample it once more; its state is dropped some drains later.
    recorded.sample(APP, 6, stack.dump(usize::MAX));
    (0..9).for_each(|_| recorded.converter.begin_drain());
    assert_eq!(kept(&recorded), 0);
}

/// The outer frames come from an image that both samples agree with. Between them, the second sample has
/// another caller.
#[test]
fn a_joined_walk_is_reused_only_where_the_dump_is_equal() {
    let with = |middle: u64| {
        let functions = (0..9).map(|at| if at == 2 { middle } else { 0x1100 + at });
        TestStack::new(SP, &functions.chain([0x1abc]).collect::<Vec<u64>>(), FRAME, 0)
    };
    let (first, second) = (with(0x1102), with(0x1802));
    let mut recorded = recorded();
    has(&mut recorded, &[&first]);
    recorded.sample(APP, 1, first.dump(COPIED));
    recorded.sample(APP, 2, second.dump(COPIED));
    let counters = &recorded.converter.tables.counters;
    assert_eq!((counters.completed_by_read, counters.completed_by_join, counters.truncated), (1, 1, 0));
    let stacks = recorded.stacks();
    assert!(stacks[0].contains(" /app+101 ") && stacks[0].ends_with(" /app+abb"), "{stacks:?}");
    assert_eq!(stacks[1], stacks[0].replace(" /app+101 ", " /app+801 "));
}

#[test]
fn a_walk_is_not_reused_after_mappings_changed() {
    let mut recorded = recorded();
    let stack = stack(0x1abc);
    recorded.sample(APP, 1, stack.dump(usize::MAX));
    recorded.map(100, "/other", 0x1000);
    recorded.sample(APP, 2, stack.dump(usize::MAX));
    assert_eq!(ends(recorded), ["/app+abb", "/other+abb"]);
}

/// The outer frames of the previous walk come from an image that the sample does not agree with.
#[test]
fn a_joined_walk_is_reused_only_with_its_image() {
    let mut recorded = recorded();
    let (then, mut now) = (stack(0x1abc), stack(0x1def));
    now.bytes[COPIED - 0x100] ^= 1;
    has(&mut recorded, &[&then]);
    recorded.sample(APP, 1, then.dump(COPIED));
    recorded.sample(APP, 2, then.dump(COPIED));
    has(&mut recorded, &[&now]);
    recorded.sample(APP, 3, now.dump(COPIED));
    recorded.converter.begin_drain();
    recorded.sample(APP, 4, now.dump(COPIED));
    recorded.sample(APP, 5, then.dump(COPIED));
    let counters = &recorded.converter.tables.counters;
    assert_eq!((counters.completed_by_read, counters.completed_by_join, counters.truncated), (2, 2, 1));
    assert_eq!(ends(recorded), ["/app+abb", "/app+abb", "...", "/app+dee", "/app+abb"]);
}

/// The program has returned from the sample's outer frames and has called in by another path.
#[test]
fn a_stack_that_has_changed_is_not_joined() {
    let mut recorded = recorded();
    let (then, mut now) = (stack(0x1abc), stack(0x1def));
    now.bytes[COPIED - 0x100] ^= 1;
    has(&mut recorded, &[&now]);
    recorded.sample(APP, 1, then.dump(COPIED));
    assert_eq!(recorded.converter.tables.counters.truncated, 1);
    assert_eq!(ends(recorded), ["..."]);
}

/// The stack changed during the read, which may have returned parts of both versions.
#[test]
fn a_stack_that_changes_during_the_read_is_not_joined_or_kept() {
    let mut recorded = recorded();
    let (then, mut now) = (stack(0x1abc), stack(0x1def));
    now.bytes[COPIED - 0x100] ^= 1;
    has(&mut recorded, &[&then, &now]);
    recorded.sample(APP, 1, then.dump(COPIED));
    recorded.sample(APP, 2, then.dump(COPIED));
    assert_eq!(recorded.converter.tables.counters.truncated, 2);
    assert_eq!(ends(recorded), ["...", "..."]);
}

/// The stack was different during the read, and the same as before afterwards.
#[test]
fn a_stack_that_briefly_changed_is_not_joined() {
    let mut recorded = recorded();
    let (then, mut changed) = (stack(0x1abc), stack(0x1def));
    changed.bytes[COPIED - 0x100] ^= 1;
    has(&mut recorded, &[&changed, &then]);
    recorded.sample(APP, 1, then.dump(COPIED));
    assert_eq!(ends(recorded), ["..."]);
}

#[test]
fn the_same_bytes_at_another_address_prove_nothing() {
    let mut recorded = recorded();
    let functions: Vec<u64> = (0..9).map(|at| 0x1100 + at).chain([0x1def]).collect();
    has(&mut recorded, &[&TestStack::new(SP + 8, &functions, FRAME, 0)]);
    recorded.sample(APP, 1, stack(0x1abc).dump(COPIED));
    assert_eq!(ends(recorded), ["..."]);
}

/// Threads of one program have equal stacks at different addresses, and at different times at the same
/// address.
#[test]
fn a_threads_stack_is_not_used_for_another_thread() {
    let mut recorded = recorded();
    recorded.fork(100, (100, 101), 1);
    let stack = stack(0x1abc);
    has(&mut recorded, &[&stack]);
    recorded.sample(APP, 2, stack.dump(COPIED));
    recorded.converter.world.memory.clear();
    recorded.sample((100, 101), 3, stack.dump(COPIED));
    assert_eq!(ends(recorded), ["/app+abb", "..."]);
}

#[test]
fn the_stack_of_an_exited_thread_is_not_used_for_its_successor() {
    let mut recorded = recorded();
    let stack = stack(0x1abc);
    has(&mut recorded, &[&stack]);
    recorded.fork(100, (100, 101), 1);
    recorded.sample((100, 101), 2, stack.dump(COPIED));
    recorded.exit((100, 101), 3);
    recorded.fork(100, (100, 101), 4);
    recorded.converter.world.memory.clear();
    recorded.sample((100, 101), 5, stack.dump(COPIED));
    assert_eq!(ends(recorded), ["/app+abb", "..."]);
}

#[test]
fn an_exec_forgets_the_stack() {
    let mut recorded = recorded();
    let stack = stack(0x1abc);
    has(&mut recorded, &[&stack]);
    recorded.sample(APP, 2, stack.dump(COPIED));
    recorded.exec(APP, "next", 3);
    recorded.map(100, "/next", 0x1000);
    recorded.converter.world.memory.clear();
    recorded.sample(APP, 5, stack.dump(COPIED));
    assert_eq!(ends(recorded), ["/app+abb", "..."]);
}

#[test]
fn an_unreadable_process_is_not_read_again_before_its_next_exec() {
    let mut recorded = recorded();
    let stack = stack(0x1abc);
    has(&mut recorded, &[&stack]);
    recorded.converter.world.refusing = vec![100];
    recorded.sample(APP, 1, stack.dump(COPIED));
    recorded.converter.begin_drain();
    recorded.sample(APP, 2, stack.dump(COPIED));
    assert_eq!(reads(&recorded), 1);
    recorded.converter.world.refusing.clear();
    recorded.exec(APP, "next", 3);
    recorded.map(100, "/next", 0x1000);
    recorded.sample(APP, 4, stack.dump(COPIED));
    assert_eq!(ends(recorded), ["...", "...", "/next+abb"]);
}

/// A read takes time, during which the program's other samples wait.
#[test]
fn a_stack_is_read_at_most_once_per_thread_and_drain() {
    let mut recorded = recorded();
    let (now, mut before) = (stack(0x1abc), stack(0x1def));
    before.bytes[COPIED - 0x100] ^= 1;
    has(&mut recorded, &[&now]);
    recorded.sample(APP, 1, now.dump(COPIED));
    let after_first = reads(&recorded);
    recorded.sample(APP, 2, before.dump(COPIED));
    assert_eq!(reads(&recorded), after_first);
    assert_eq!(ends(recorded), ["/app+abb", "..."]);
}

/// A signal handler on its own stack that has interrupted a function on another stack.
fn in_handler(recorded: &mut Recorded, interrupted: &TestStack) -> TestStack {
    const RETURNS_TO: u64 = 0x3008;
    // Bytes that look like a call, then code that returns to the kernel's signal frame.
    let code = [0x90, 0x90, 0x90, 0xe8, 0, 0, 0, 0, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05, 0x90];
    let file = whyslow_elf::testing::Built::default().load(0x1000, &code).bytes();
    recorded.converter.world.files.insert("/c".to_owned(), file);
    recorded.map_file(100, "/c", 0x3000, (2, 0));
    let mut handler = TestStack::new(0x5000_0000, &[0x1800, RETURNS_TO], FRAME, 9);
    let registers = FRAME + 40;
    for (at, value) in [(10, interrupted.bp), (15, interrupted.sp), (16, interrupted.ip)] {
        let at = registers + 8 * at;
        handler.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    handler
}

#[test]
fn the_interrupted_stack_behind_a_signal_is_read_and_then_reused() {
    let mut recorded = recorded();
    let interrupted = stack(0x1abc);
    let handler = in_handler(&mut recorded, &interrupted);
    recorded.converter.world.memory.insert(100, vec![vec![handler.clone(), interrupted]]);
    recorded.sample(APP, 1, handler.dump(usize::MAX));
    let after_first = reads(&recorded);
    recorded.sample(APP, 2, handler.dump(usize::MAX));
    assert_eq!(reads(&recorded), after_first);
    let counters = &recorded.converter.tables.counters;
    assert_eq!((counters.completed_by_read, counters.completed_by_join), (1, 1));
    let stacks = recorded.stacks();
    assert!(stacks[0].starts_with("/app+800 /c+8 /app+100 /app+100 "), "{stacks:?}");
    assert!(stacks.iter().all(|stack| stack.ends_with(" /app+abb")), "{stacks:?}");
}

/// The handler has returned and the next signal has arrived: the stack behind it is another one.
#[test]
fn nothing_is_used_behind_a_handler_that_has_returned() {
    let (interrupted, later) = (stack(0x1abc), stack(0x1def));
    // Before the first check, before its stack is read, and before the second check.
    for returned_before in 0..3 {
        let mut recorded = recorded();
        let handler = in_handler(&mut recorded, &interrupted);
        let mut next = handler.clone();
        next.bytes[FRAME + 48] ^= 1;
        let mut versions = vec![vec![handler.clone(), interrupted.clone()]; returned_before];
        versions.push(vec![next, later.clone()]);
        recorded.converter.world.memory.insert(100, versions);
        recorded.sample(APP, 1, handler.dump(usize::MAX));
        assert_eq!(recorded.converter.tables.counters.cut_at_signal, 1, "{returned_before}");
        assert_eq!(recorded.stacks(), ["/app+800 /c+8 /app+100 ..."], "{returned_before}");
    }
}

/// The kernel copied everything: the frame pointer leads nowhere, and the current memory would not help.
#[test]
fn a_dump_that_was_not_truncated_is_not_completed() {
    let mut recorded = recorded();
    let stack = stack(0x1abc);
    has(&mut recorded, &[&stack]);
    let UserStack::Dump(registers, dump) = stack.dump(COPIED) else { unreachable!() };
    recorded.sample(APP, 1, UserStack::Dump(registers, Dump { cut: false, ..dump }));
    assert_eq!((reads(&recorded), recorded.converter.tables.counters.no_unwind_info), (0, 1));
    assert_eq!(ends(recorded), ["..."]);
}

#[test]
fn a_sample_without_an_address_keeps_its_time() {
    let mut recorded = recorded();
    recorded.sample(APP, 1, UserStack::None);
    recorded.sample(APP, 2, UserStack::Address(None));
    assert_eq!(recorded.profile().samples[0].value, [1, 1]);
}
