use whyslow_profile::{Metric, Profile, Syscalls};
use whyslow_unwind::{Registers, X86_64};

use super::text::address_words;
use super::*;
use crate::Input;
use crate::input::{Dump, Task};
use crate::testing::{Recorded, at};

const PID: u32 = 100;
const MAIN: (u32, u32) = (PID, PID);
const READ: i64 = 0;
const WRITE: i64 = 1;
const CLOSE: i64 = 3;
const RT_SIGRETURN: i64 = 15;
const DUP2: i64 = 33;
const SOCKET: i64 = 41;
const CONNECT: i64 = 42;
const FORK: i64 = 57;
const EXECVE: i64 = 59;
const EXIT_GROUP: i64 = 231;
const OPENAT: i64 = 257;
const HERE: i64 = -100;
/// The lowest address of the stacks here.
const SP: u64 = 0x7000;

fn recorded() -> Recorded {
    let mut recorded = Recorded::with(|rows, setup| {
        setup.calls = Some(Metric::of_syscalls().map(|metric| rows.metric(metric)));
    });
    recorded.converter.add_process(PID, "app");
    recorded.exec(MAIN, "app", 0);
    recorded.map(PID, "/app", 0x1000);
    recorded
}

fn task(tid: u32) -> Task {
    Task { pid: if tid >= 200 { tid } else { PID }, tid }
}

fn arguments(first: &[i64]) -> [u64; 6] {
    let mut arguments = [0; 6];
    arguments.iter_mut().zip(first).for_each(|(argument, value)| *argument = value.cast_unsigned());
    arguments
}

fn enter(recorded: &mut Recorded, tid: u32, number: i64, first: &[i64], time_ns: u64) {
    recorded.converter.take(&Input::Enters(Enters {
        task: task(tid),
        time_ns: at(time_ns),
        number,
        arguments: arguments(first),
        stack: None,
        is_32_bit: false,
    }));
}

/// The stack of an entry: an address in the program, and the bytes on the stack.
fn stack(recorded: &mut Recorded, number: i64, first: &[i64], (ip, bytes): (u64, &[u8]), time_ns: u64) {
    let registers = Registers::<X86_64>::new(ip, SP, SP).into();
    recorded.converter.take(&Input::Enters(Enters {
        task: task(PID),
        time_ns: at(time_ns),
        number,
        arguments: arguments(first),
        stack: Some(UserStack::Dump(registers, Dump { sp: SP, bytes, cut: false })),
        is_32_bit: false,
    }));
}

fn exit(recorded: &mut Recorded, tid: u32, number: i64, result: i64, time_ns: u64) {
    recorded.converter.take(&Input::Returns(Returns {
        task: task(tid),
        time_ns: at(time_ns),
        number,
        result,
    }));
}

fn call(recorded: &mut Recorded, number: i64, first: &[i64], result: i64, time_ns: u64) {
    enter(recorded, PID, number, first, time_ns);
    exit(recorded, PID, number, result, time_ns + 1);
}

/// Call, file, error, count, time and bytes of each row.
fn rows(mut recorded: Recorded, end: u64) -> Vec<String> {
    recorded.converter.end(at(end));
    let profile = recorded.profile();
    profile.syscalls.iter().map(|row| words(&profile, row)).collect()
}

fn words(profile: &Profile, row: &Syscalls) -> String {
    let text = |id: Option<StringId>| id.map_or("-", |id| profile.text(id));
    let (file, error) = (text(row.file), text(row.error));
    format!("{} {file} {error} {}x {}ns {}B", profile.text(row.call), row.count, row.total_ns, row.bytes)
}

#[test]
fn calls_of_one_site_and_result_are_one_row_and_three_metrics() {
    let mut recorded = recorded();
    for at in 0..5 {
        stack(&mut recorded, WRITE, &[7, 0x50, 12], (0x1100, &[]), 100 * at + 10);
        enter(&mut recorded, PID, WRITE, &[7, 0x50, 12], 100 * at + 12);
        exit(&mut recorded, PID, WRITE, 12, 100 * at + 20 + at);
    }
    call(&mut recorded, WRITE, &[7], -32, 600);
    recorded.converter.end(at(700));
    let profile = recorded.profile();
    let rows: Vec<String> = profile.syscalls.iter().map(|row| words(&profile, row)).collect();
    assert_eq!(rows, ["write fd 7 - 5x 50ns 60B", "write fd 7 EPIPE 1x 1ns 0B"]);
    assert_eq!(
        (profile.syscalls[0].max_ns, profile.syscalls[0].spread, profile.syscalls[1].spread),
        (12, 0, 1)
    );
    let totals: Vec<u64> = profile.samples[1..].iter().map(|table| table.value.iter().sum()).collect();
    assert_eq!(totals, [6, 51, 60]);
    let leaf = profile.locations.module[profile.stacks.location(profile.syscalls[0].stack).index()].unwrap();
    assert_eq!(profile.text(profile.modules[leaf.index()].path), "[write]");
}

#[test]
fn copying_the_stack_does_not_count_for_the_call() {
    let mut recorded = recorded();
    enter(&mut recorded, PID, READ, &[7], 100);
    stack(&mut recorded, READ, &[7], (0x1100, &[]), 105);
    exit(&mut recorded, PID, READ, 0, 110);
    recorded.converter.end(at(700));
    let profile = recorded.profile();
    assert_eq!((profile.syscalls[0].total_ns, profile.syscalls[0].spread), (5, 0));
}

/// Three of 4 calls with stacks are from one site, so 75 of a hundred without are too.
#[test]
fn calls_without_stacks_count_at_the_sites_of_their_kind() {
    let mut recorded = recorded();
    for (at, ip) in [0x1100, 0x1100, 0x1200, 0x1100].into_iter().enumerate() {
        let time = 100 * at as u64;
        stack(&mut recorded, WRITE, &[7], (ip, &[]), time);
        call(&mut recorded, WRITE, &[7], 1, time);
    }
    (10..110).for_each(|at| call(&mut recorded, WRITE, &[7], 1, 100 * at));
    call(&mut recorded, WRITE, &[8], 1, 50_000);
    recorded.converter.end(at(60_000));
    let profile = recorded.profile();
    let mut counts: Vec<(u64, u64)> = profile.syscalls.iter().map(|row| (row.count, row.spread)).collect();
    counts.sort_unstable();
    assert_eq!(counts, [(1, 1), (26, 25), (78, 75)]);
    let has_site = |row: &Syscalls| profile.stacks.parent(row.stack).is_some();
    assert!(profile.syscalls.iter().all(has_site), "a call on a new descriptor has the site of another");
}

#[test]
fn a_missing_exit_is_not_taken_from_a_later_call() {
    let mut recorded = recorded();
    enter(&mut recorded, PID, READ, &[7], 100);
    enter(&mut recorded, PID, WRITE, &[7], 200);
    exit(&mut recorded, PID, WRITE, 5, 210);
    enter(&mut recorded, PID, READ, &[7], 300);
    exit(&mut recorded, PID, WRITE, 5, 310);
    // The exit of this call and the entry of the next one, of the same kind, are lost.
    enter(&mut recorded, PID, READ, &[7], 400);
    recorded.converter.take(&Input::Lost { records: 2, cpu: None, time_ns: at(0) });
    exit(&mut recorded, PID, READ, 5, 900);
    assert_eq!(recorded.converter.unpaired_calls(), 3);
    assert_eq!(rows(recorded, 1000), ["write fd 7 - 1x 10ns 5B"]);
}

#[test]
fn a_fork_returns_twice_and_counts_once_and_descriptors_are_inherited() {
    let mut recorded = recorded();
    stack(&mut recorded, OPENAT, &[HERE, SP as i64], (0x1100, b"log\0"), 10);
    call(&mut recorded, OPENAT, &[HERE, SP as i64], 3, 10);
    enter(&mut recorded, PID, FORK, &[], 100);
    recorded.fork(PID, (200, 200), 110);
    exit(&mut recorded, 200, FORK, 0, 120);
    exit(&mut recorded, PID, FORK, 200, 130);
    enter(&mut recorded, 200, WRITE, &[3], 140);
    exit(&mut recorded, 200, WRITE, 9, 150);
    assert_eq!(
        rows(recorded, 200),
        ["openat - - 1x 1ns 0B", "fork - - 1x 30ns 0B", "write log - 1x 10ns 9B"]
    );
}

/// A child is gone before it can be asked. Its parent has the same input, and the child's own changes to its
/// descriptors say nothing about it.
#[test]
fn a_child_has_the_input_and_output_of_its_parent_also_after_exec() {
    let mut recorded = recorded();
    for (descriptor, name) in [(0, "/in"), (1, "/out"), (7, "/other")] {
        recorded.converter.world.descriptors.insert((PID, descriptor), (name.to_owned(), at(500)));
    }
    recorded.fork(PID, (200, 200), 110);
    for (descriptor, time) in [(0, 120), (7, 130)] {
        enter(&mut recorded, 200, READ, &[descriptor], time);
        exit(&mut recorded, 200, READ, 1, time + 1);
    }
    enter(&mut recorded, 200, CLOSE, &[0], 140);
    exit(&mut recorded, 200, CLOSE, 0, 141);
    recorded.exec((200, 200), "other", 150);
    enter(&mut recorded, 200, WRITE, &[1], 160);
    exit(&mut recorded, 200, WRITE, 9, 161);
    recorded.exit((200, 200), 200);
    let rows = rows(recorded, 1000);
    assert_eq!(
        rows,
        ["read /in - 1x 1ns 1B", "read fd 7 - 1x 1ns 1B", "close /in - 1x 1ns 0B", "write /out - 1x 1ns 9B"]
    );
}

#[test]
fn counts_calls_that_exit_or_execute_and_signal_handlers_that_return() {
    let mut recorded = recorded();
    enter(&mut recorded, PID, EXECVE, &[], 100);
    recorded.exec(MAIN, "other", 120);
    exit(&mut recorded, PID, EXECVE, 0, 130);
    enter(&mut recorded, PID, RT_SIGRETURN, &[], 200);
    exit(&mut recorded, PID, -1, -4, 210);
    recorded.fork(PID, (PID, 101), 220);
    enter(&mut recorded, 101, READ, &[7], 230);
    recorded.exit((PID, 101), 300);
    enter(&mut recorded, PID, EXIT_GROUP, &[], 400);
    recorded.exit(MAIN, 500);
    assert_eq!(
        rows(recorded, 900),
        [
            "execve - - 1x 30ns 0B",
            "rt_sigreturn - - 1x 10ns 0B",
            "read fd 7 - 1x 70ns 0B",
            "exit_group - - 1x 0ns 0B"
        ]
    );
}

#[test]
fn calls_refused_by_a_filter_have_no_entry_and_are_counted() {
    let mut recorded = recorded();
    exit(&mut recorded, PID, READ, -1, 5);
    call(&mut recorded, CLOSE, &[9], 0, 10);
    exit(&mut recorded, PID, SOCKET, -1, 20);
    assert_eq!(rows(recorded, 100), ["close - - 1x 1ns 0B", "socket - EPERM 1x 0ns 0B"]);
}

#[test]
fn unfinished_calls_last_until_the_end_of_the_recording() {
    let mut recorded = recorded();
    enter(&mut recorded, PID, READ, &[7], 100);
    assert_eq!(rows(recorded, 1100), ["read fd 7 - 1x 1000ns 0B"]);
}

#[test]
fn descriptors_are_followed_from_open_to_close() {
    let mut recorded = recorded();
    let open = [HERE, SP as i64];
    for (name, time) in [(&b"first\0"[..], 100), (&b"second\0"[..], 200)] {
        stack(&mut recorded, OPENAT, &open, (0x1100, name), time);
        call(&mut recorded, OPENAT, &open, 3, time);
        call(&mut recorded, READ, &[3], 10, time + 10);
        call(&mut recorded, DUP2, &[3, 5], 5, time + 20);
        call(&mut recorded, CLOSE, &[3], 0, time + 30);
        call(&mut recorded, WRITE, &[5], 20, time + 40);
    }
    // A path that was not copied provides no name, nor does a call that failed.
    call(&mut recorded, OPENAT, &[HERE, 0x10], 3, 300);
    call(&mut recorded, OPENAT, &open, -2, 310);
    call(&mut recorded, READ, &[3], 1, 320);
    let rows = rows(recorded, 1000);
    let of = |call: &str| rows.iter().filter(|row| row.starts_with(call)).cloned().collect::<Vec<_>>();
    assert_eq!(of("read"), ["read first - 1x 1ns 10B", "read second - 1x 1ns 10B", "read fd 3 - 1x 1ns 1B"]);
    assert_eq!(of("write"), ["write first - 1x 1ns 20B", "write second - 1x 1ns 20B"]);
    assert_eq!(of("close"), ["close first - 1x 1ns 0B", "close second - 1x 1ns 0B"]);
    assert_eq!(of("openat"), ["openat - - 3x 3ns 0B", "openat - ENOENT 1x 1ns 0B"]);
}

#[test]
fn sockets_are_named_by_their_peer() {
    let mut recorded = recorded();
    let address = [2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    call(&mut recorded, SOCKET, &[2, 1], 4, 100);
    call(&mut recorded, WRITE, &[4], -107, 110);
    stack(&mut recorded, CONNECT, &[4, SP as i64, 16], (0x1100, &address), 120);
    call(&mut recorded, CONNECT, &[4, SP as i64, 16], 0, 120);
    call(&mut recorded, WRITE, &[4], 5, 130);
    let rows = rows(recorded, 1000);
    assert_eq!(rows[1], "write TCP socket ENOTCONN 1x 1ns 0B");
    assert_eq!(rows[3], "write TCP socket to 127.0.0.1:8080 - 1x 1ns 5B");
    let path = [1, 0, b'/', b'x', 0];
    assert_eq!(address_words(&path).as_deref(), Some("/x"));
    assert_eq!(address_words(&[1, 0, 0, b'a']).as_deref(), Some("@a"));
    let v6 = [&[10, 0, 0, 80][..], &[0; 4], &[0; 15], &[1], &[0; 4]].concat();
    assert_eq!(address_words(&v6).as_deref(), Some("[::1]:80"));
    assert!(
        [&address[..7], &v6[..20], &[16, 0][..], &[]].into_iter().all(|cut| address_words(cut).is_none())
    );
}

/// The world is queried at 500, when records up to 100 were read.
#[test]
fn an_answer_counts_unless_the_descriptor_was_closed_before() {
    let asked = |closed: Option<u64>| {
        let mut recorded = recorded();
        recorded.converter.world.descriptors.insert((PID, 3), ("/data".to_owned(), at(500)));
        call(&mut recorded, READ, &[3], 10, 100);
        recorded.converter.flush(at(0));
        assert!(recorded.converter.tables.builder.pending_samples() > 0);
        if let Some(time) = closed {
            call(&mut recorded, CLOSE, &[3], 0, time);
        }
        call(&mut recorded, READ, &[3], 10, 900);
        rows(recorded, 1000).iter().filter(|row| row.starts_with("read")).cloned().collect::<Vec<_>>()
    };
    assert_eq!(asked(None), ["read /data - 2x 2ns 20B"]);
    assert_eq!(asked(Some(600))[0], "read /data - 1x 1ns 10B");
    assert_eq!(asked(Some(400))[0], "read fd 3 - 1x 1ns 10B");
}

/// A program that opens a file a million times does not fill the memory with answers.
#[test]
fn answers_are_dropped_once_names_are_final() {
    let mut recorded = recorded();
    recorded.converter.world.descriptors.insert((PID, 3), ("/data".to_owned(), at(0)));
    for turn in 1..100 {
        call(&mut recorded, READ, &[3], 10, turn * 100);
        call(&mut recorded, CLOSE, &[3], 0, turn * 100 + 10);
        recorded.converter.flush(at(0));
        assert!(recorded.converter.calls.as_ref().unwrap().files.kept() <= 1);
    }
    let rows = rows(recorded, 100_000);
    assert_eq!(rows.iter().filter(|row| *row == "read /data - 1x 1ns 10B").count(), 99);
}

#[test]
fn calls_of_32_bit_programs_are_not_mistaken_for_others() {
    let mut recorded = recorded();
    let registers = Registers::<X86_64>::new(0x1100, SP, SP).into();
    recorded.converter.take(&Input::Enters(Enters {
        task: task(PID),
        time_ns: at(100),
        number: 4,
        arguments: [0; 6],
        stack: Some(UserStack::Dump(registers, Dump { sp: SP, bytes: &[], cut: false })),
        is_32_bit: true,
    }));
    call(&mut recorded, 4, &[], 12, 100);
    assert_eq!(rows(recorded, 1000), ["32-bit call 4 - - 1x 1ns 0B"]);
}
