//! Forks, execs, exits, reused numbers, and late records.

use whyslow_profile::{ModuleKind, ThreadId};

use super::*;
use crate::Running;
use crate::testing::{Recorded, at, process_words, thread_of, thread_words};

const APP: (u32, u32) = (100, 100);

/// A recording of a program with one thread and a page of code.
fn recorded() -> Recorded {
    let mut recorded = Recorded::new();
    recorded.converter.add_process(100, "app");
    recorded.map(100, "/bin/app", 0x1000);
    recorded
}

/// Rounds of records in which nothing happens.
fn rounds(recorded: &mut Recorded) {
    (0..10).for_each(|_| recorded.converter.begin_drain());
}

/// The kernel reports -1 for the number of a thread that has left its process but not its CPU.
#[test]
fn a_sample_during_exit_belongs_to_the_exited_thread() {
    let mut recorded = recorded();
    recorded.fork(100, (100, 101), 1000);
    recorded.exit((100, 101), 2000);
    recorded.sample_at((100, u32::MAX), 2001, 0x1010);
    let profile = recorded.profile();
    assert_eq!(thread_words(&profile), ["100 app 0..", "101 app 1000..2000"]);
    assert_eq!(thread_of(&profile, 0), ThreadId(1));
}

#[test]
fn a_child_starts_with_its_parents_code_and_then_has_its_own() {
    let mut recorded = recorded();
    recorded.fork(100, (101, 101), 10);
    recorded.map(101, "/lib/plugin", 0x1000);
    recorded.map(100, "/lib/other", 0x5000);
    for pid in [100, 101] {
        recorded.sample_at((pid, pid), 20, 0x1010);
        recorded.sample_at((pid, pid), 21, 0x5010);
    }
    assert_eq!(recorded.stacks(), ["/bin/app+10", "/lib/other+10", "/lib/plugin+10", "?5010"]);
}

#[test]
fn an_exec_forgets_the_code_and_all_other_threads() {
    let mut recorded = recorded();
    recorded.fork(100, (100, 101), 5);
    recorded.exec(APP, "next", 10);
    recorded.sample_at(APP, 20, 0x1010);
    recorded.map(100, "/bin/next", 0x2000);
    recorded.map(100, "/lib/shared.so", 0x3000);
    recorded.sample_at(APP, 30, 0x2010);
    let kinds = |profile: &whyslow_profile::Profile| {
        profile.modules.iter().map(|module| module.kind).collect::<Vec<_>>()
    };
    let profile = recorded.profile();
    assert_eq!(process_words(&profile), ["100 next 0.."]);
    assert_eq!(thread_words(&profile), ["100 next 0..", "101 app 5..10"]);
    assert_eq!(kinds(&profile)[1..], [ModuleKind::Program, ModuleKind::Library]);
}

#[test]
fn an_exec_drops_the_code_of_the_previous_program() {
    let mut recorded = recorded();
    recorded.sample_at(APP, 1, 0x1010);
    recorded.exec(APP, "next", 10);
    recorded.sample_at(APP, 20, 0x1010);
    recorded.map(100, "/bin/next", 0x1000);
    recorded.sample_at(APP, 30, 0x1010);
    assert_eq!(recorded.stacks(), ["/bin/app+10", "?1010", "/bin/next+10"]);
}

#[test]
fn an_exec_of_a_program_that_maps_nothing_is_counted() {
    let mut recorded = recorded();
    recorded.exec(APP, "secret", 10);
    recorded.exit(APP, 20);
    assert_eq!(recorded.converter.tables.counters.unobservable_execs, 1);
    assert_eq!(recorded.converter.world.reported, ["100 started", "100 ended"]);
}

/// The number of a process is reused at once, and after a while.
#[test]
fn a_reused_number_is_another_process() {
    for wait in [false, true] {
        let mut recorded = recorded();
        recorded.fork(100, (101, 101), 10);
        recorded.map(101, "/lib/first", 0x2000);
        recorded.sample_at((101, 101), 11, 0x2010);
        recorded.exit((101, 101), 20);
        if wait {
            rounds(&mut recorded);
        }
        recorded.fork(100, (101, 101), 30);
        recorded.sample_at((101, 101), 31, 0x2010);
        rounds(&mut recorded);
        recorded.sample_at((101, 101), 32, 0x2010);
        let rows = recorded.rows();
        let expected = [(1, 1, "/lib/first+10"), (2, 2, "?2010"), (2, 2, "?2010")];
        assert_eq!(rows, expected.map(|(process, thread, stack)| (process, thread, stack.to_owned())));
    }
}

/// The records of a thread's exit, and of the start of another process's thread with its number, are missing.
#[test]
fn a_threads_number_in_another_process_is_another_thread() {
    let mut recorded = recorded();
    recorded.fork(100, (100, 105), 10);
    recorded.fork(100, (200, 200), 20);
    recorded.sample_at((200, 105), 30, 0x1010);
    let profile = recorded.profile();
    let thread = &profile.threads[thread_of(&profile, 0).index()];
    assert_eq!(profile.processes[thread.process.index()].pid, 200);
}

#[test]
fn forgets_exited_threads_and_keeps_running_ones() {
    let mut recorded = recorded();
    for tid in 101..1000 {
        recorded.fork(100, (100, tid), 10);
        recorded.exit((100, tid), 20);
    }
    recorded.exit(APP, 30);
    recorded.fork(100, (100, 2000), 25);
    rounds(&mut recorded);
    assert_eq!(recorded.converter.tasks.kept(), (1, 1));
    assert_eq!(recorded.converter.tasks.threads_of(100), Some(1));
    recorded.exit((100, 2000), 40);
    rounds(&mut recorded);
    assert_eq!(recorded.converter.tasks.kept(), (0, 0));
    let profile = recorded.profile();
    assert_eq!(process_words(&profile), ["100 app 0..40"], "it ends with its last thread");
}

#[test]
fn a_late_fork_record_creates_no_second_thread() {
    let mut recorded = recorded();
    recorded.sample_at((100, 101), 3000, 0x1010);
    recorded.fork(100, (100, 101), 2000);
    assert_eq!(thread_words(&recorded.profile()), ["100 app 0..", "101 app 2000.."]);
}

/// The records of the parent's CPU can be later than those of the child's.
#[test]
fn a_late_fork_record_creates_no_second_process() {
    let mut recorded = recorded();
    recorded.sample_at((101, 101), 3000, 0x1010);
    recorded.map(101, "/lib/early", 0x8000);
    recorded.fork(100, (101, 101), 2000);
    recorded.sample_at((101, 101), 3001, 0x1010);
    recorded.sample_at((101, 101), 3002, 0x8010);
    let profile = recorded.profile();
    let stacks = (0..3).map(|at| crate::testing::stack_words(&profile, at)).collect::<Vec<_>>();
    assert_eq!(stacks, ["?1010", "/bin/app+10", "/lib/early+10"]);
    assert_eq!(process_words(&profile), ["100 app 0..", "101 app 2000.."]);
    assert_eq!(thread_words(&profile), ["100 app 0..", "101 app 2000.."]);
    assert_eq!(profile.processes[1].parent, Some(ProcessId(0)));
}

/// On a busy machine, a process that has announced its exit can queue for its last turn on a CPU, and be
/// sampled there.
#[test]
fn a_sample_long_after_the_exit_creates_no_second_process() {
    let mut recorded = recorded();
    recorded.fork(100, (101, 101), 1000);
    recorded.fork(101, (101, 102), 1500);
    recorded.exit((101, 102), 2000);
    recorded.exit((101, 101), 3000);
    for time in [4000, 5000] {
        rounds(&mut recorded);
        assert!(recorded.converter.tasks.process(101).is_none(), "its state is dropped");
        for tid in [101, 102] {
            recorded.sample_at((101, tid), time, 0x1010);
        }
    }
    recorded.fork(100, (101, 101), 6000);
    recorded.sample_at((101, 101), 7000, 0x1010);
    let profile = recorded.profile();
    assert_eq!(process_words(&profile), ["100 app 0..", "101 app 1000..3000", "101 app 6000.."]);
    let threads = profile.threads.iter().map(|thread| (thread.process.0, thread.tid));
    assert_eq!(threads.collect::<Vec<_>>(), [(0, 100), (1, 101), (1, 102), (2, 101)]);
    assert_eq!((0..5).map(|at| thread_of(&profile, at).0).collect::<Vec<_>>(), [1, 2, 1, 2, 3]);
}

/// The heap's collector can learn of a process while the kernel's fork record is still in a ring.
#[test]
fn a_process_reported_by_its_agent_before_the_kernel_is_one_process() {
    let mut recorded = recorded();
    let process = recorded.converter.process_at(101, None, "worker", at(3000));
    let thread = recorded.converter.thread_at(Task { pid: 101, tid: 101 }, "worker", at(3000));
    recorded.fork(100, (101, 101), 2000);
    recorded.exec((101, 101), "app", 2500);
    recorded.sample_at((101, 101), 4000, 0x1010);
    recorded.exit((101, 101), 5000);
    let profile = recorded.profile();
    assert_eq!((profile.processes.len(), profile.threads.len()), (2, 2));
    let row = &profile.processes[process.index()];
    assert_eq!((row.start_ns, row.end_ns, row.parent), (2000, Some(5000), Some(ProcessId(0))));
    assert_eq!(thread_of(&profile, 0), thread);
}

/// The same, if the world listed the threads of the process, which then seem to have always existed.
#[test]
fn a_late_fork_record_creates_no_second_thread_of_a_listed_process() {
    let mut recorded = recorded();
    let (name, threads) = (Some("child".to_owned()), vec![(101, None)]);
    recorded.converter.world.running.insert(101, Running { name, threads, mappings: Vec::new() });
    recorded.sample_at((101, 101), 3000, 0x1010);
    recorded.fork(100, (101, 101), 2000);
    recorded.sample_at((101, 101), 3001, 0x1010);
    assert_eq!(recorded.rows().iter().map(|(_, thread, _)| *thread).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_fork_later_than_the_first_record_is_another_process() {
    let mut recorded = recorded();
    recorded.sample_at((101, 101), 1000, 0x1010);
    recorded.fork(100, (101, 101), 2000);
    assert_eq!(process_words(&recorded.profile()), ["100 app 0..", "101 pid 101 0..", "101 app 2000.."]);
}

#[test]
fn an_unannounced_process_is_described_by_the_world() {
    let mut recorded = recorded();
    let key = crate::FileKey { path: "/bin/daemon".to_owned(), device: (0, 0), inode: 7 };
    let [start, end] = [0x4000, 0x5000].map(whyslow_numbers::RunTimeAddress);
    let mapping = crate::FileMapping { key, generation: 0, start, end, offset: 0 };
    let running = Running {
        name: Some("daemon".to_owned()),
        threads: vec![(300, None), (301, Some("worker".to_owned()))],
        mappings: vec![crate::RunningMapping { mapping, executable: true, is_program: true }],
    };
    recorded.converter.world.running.insert(300, running);
    recorded.sample_at((300, 301), 50, 0x4010);
    recorded.sample_at((400, 400), 60, 0x4010);
    let profile = recorded.profile();
    assert_eq!(
        thread_words(&profile),
        ["100 app 0..", "300 daemon 0..", "301 worker 0..", "400 unknown 60.."]
    );
    assert_eq!(process_words(&profile), ["100 app 0..", "300 daemon 0..", "400 pid 400 0.."]);
    assert_eq!(crate::testing::stack_words(&profile, 0), "/bin/daemon+10");
}

/// Another source, such as the heap's, refers to processes by number, and after they have exited.
#[test]
fn other_sources_find_the_process_that_had_a_number_at_the_time() {
    let mut recorded = Recorded::new();
    recorded.converter.add_process(100, "app");
    for (start, end) in [(10, 20), (30, 40)] {
        recorded.fork(100, (101, 101), start);
        recorded.exit((101, 101), end);
    }
    rounds(&mut recorded);
    let converter = &mut recorded.converter;
    let processes = [5, 15, 35, 50].map(|time| converter.process_at(101, None, "?", at(time)).0);
    assert_eq!(processes, [1, 1, 2, 2]);
    assert_eq!(
        [15, 35].map(|time| converter.thread_at(Task { pid: 101, tid: 101 }, "?", at(time)).0),
        [1, 2]
    );
    let new = converter.thread_at(Task { pid: 102, tid: 103 }, "agent", at(60));
    assert_eq!(converter.thread_at(Task { pid: 102, tid: 103 }, "agent", at(70)), new);
    assert_eq!(
        process_words(&recorded.profile()),
        ["100 app 0..", "101 app 10..20", "101 app 30..40", "102 agent 60.."]
    );
}

#[test]
fn the_idle_loop_and_tasks_without_a_number_have_no_rows() {
    let mut recorded = recorded();
    recorded.sample_at((0, 0), 1, 0x1010);
    recorded.sample_at((u32::MAX, u32::MAX), 1, 0x1010);
    assert_eq!(recorded.converter.idle_samples, 1);
    assert!(recorded.stacks().is_empty());
}
