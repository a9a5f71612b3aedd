//! Waits from made-up records and looks.

use std::ops::Range;

use whyslow_profile::{Metric, ModuleKind, ThreadId, WaitFrame, WokenBy};

use crate::testing::{Recorded, at};
use crate::{Input, Sample, Task, UserStack, WaitSetup, WaitSnapshot, WaitStackSource, Wakes};

const MS: u64 = 1_000_000;
const PID: u32 = 100;
const MAIN: (u32, u32) = (PID, PID);

fn recorded() -> Recorded {
    recorded_by(WaitStackSource::Leaving, false)
}

fn recorded_by(stacks: WaitStackSource, estimates_queues: bool) -> Recorded {
    let mut recorded = Recorded::with(|rows, setup| {
        let metric = rows.metric(Metric::off_cpu_time());
        setup.switches = true;
        setup.waits = Some(WaitSetup { metric, stacks, estimates_queues, lengths_known: true });
    });
    recorded.converter.add_process(PID, "app");
    recorded.exec(MAIN, "app", 0);
    recorded
}

fn leave(recorded: &mut Recorded, tid: u32, preempted: bool, time_ns: u64) {
    let task = Task { pid: PID, tid };
    let user = UserStack::Frames(&[0x1000]);
    let metric = recorded.metric;
    recorded.converter.take(&Input::Leaves(Sample {
        metric,
        time_ns: at(time_ns),
        task,
        value: 1,
        user,
        kernel: &[],
    }));
    recorded.converter.take(&Input::Switched {
        tid,
        runs: false,
        preempted,
        cpu: Some(3),
        time_ns: at(time_ns),
    });
}

fn come_back(recorded: &mut Recorded, tid: u32, time_ns: u64) {
    recorded.converter.take(&Input::Switched {
        tid,
        runs: true,
        preempted: false,
        cpu: Some(3),
        time_ns: at(time_ns),
    });
}

/// Milliseconds of each wait, and whether the thread was queued for a CPU.
fn rows(mut recorded: Recorded, end: u64) -> Vec<(u64, bool)> {
    recorded.converter.end(at(end));
    let profile = recorded.profile();
    let samples = &profile.samples[1];
    let for_cpu = |stack| {
        let location = profile.stacks.location(stack);
        let module = profile.locations.module[location.index()];
        module.is_some_and(|module| matches!(profile.modules[module.index()].kind, ModuleKind::Waiting(_)))
    };
    (0..samples.len()).map(|row| (samples.value[row] / MS, for_cpu(samples.stack[row]))).collect()
}

#[test]
fn a_wait_lasts_until_the_thread_runs_and_queued_time_is_separate() {
    let mut recorded = recorded();
    leave(&mut recorded, PID, false, 2 * MS);
    come_back(&mut recorded, PID, 7 * MS);
    leave(&mut recorded, PID, true, 8 * MS);
    come_back(&mut recorded, PID, 11 * MS);
    assert_eq!(rows(recorded, 20 * MS), [(5, false), (3, true)]);
}

#[test]
fn a_pause_divides_a_wait_and_leaves_out_the_time_in_between() {
    let mut recorded = recorded();
    leave(&mut recorded, PID, false, 2 * MS);
    recorded.converter.pause(at(5 * MS));
    come_back(&mut recorded, PID, 6 * MS);
    leave(&mut recorded, PID, false, 7 * MS);
    recorded.fork(PID, (PID, 101), 8 * MS);
    recorded.converter.resume(at(20 * MS));
    recorded.converter.take(&Input::Waits { tid: PID, time_ns: at(20 * MS) });
    come_back(&mut recorded, PID, 27 * MS);
    recorded.converter.end(at(30 * MS));
    let times = recorded.profile().threads[0].times.unwrap();
    assert_eq!([times.ran_ns, times.blocked_ns, times.waits], [5 * MS, 10 * MS, 2]);
}

#[test]
fn a_thread_queues_for_its_first_cpu_and_may_still_be_blocked_at_the_end() {
    let mut recorded = recorded();
    recorded.fork(PID, (PID, 101), 2 * MS);
    come_back(&mut recorded, 101, 4 * MS);
    leave(&mut recorded, 101, false, 5 * MS);
    assert_eq!(rows(recorded, 15 * MS), [(2, true), (10, false)]);
}

#[test]
fn a_snapshot_after_the_end_of_a_wait_does_not_count() {
    let mut recorded = recorded_by(WaitStackSource::Snapshots, false);
    let snapshot = |recorded: &mut Recorded, time| {
        let [task] = recorded.converter.threads_to_snapshot(9, at(time))[..] else {
            panic!("one thread waits")
        };
        add_snapshot(recorded, task, 7, WaitFrame::Sleep, time..time + 1);
        assert!(recorded.converter.threads_to_snapshot(9, at(time)).is_empty(), "once is enough");
    };
    out(&mut recorded, 2 * MS);
    snapshot(&mut recorded, 3 * MS);
    come_back(&mut recorded, PID, 7 * MS);
    // This wait has ended before its snapshot, which only later records show.
    out(&mut recorded, 8 * MS);
    snapshot(&mut recorded, 10 * MS);
    come_back(&mut recorded, PID, 8 * MS + 1000);
    recorded.converter.end(at(20 * MS));
    let profile = recorded.profile();
    let samples = &profile.samples[1];
    let innermost = |row: usize| {
        let module = profile.locations.module[profile.stacks.location(samples.stack[row]).index()];
        profile.text(profile.modules[module.unwrap().index()].path)
    };
    assert_eq!((innermost(0), innermost(1)), (WaitFrame::Sleep.label(), WaitFrame::TooShort.label()));
    assert_eq!(profile.wait_details.argument, [7, 0], "a snapshot belongs to one wait only");
}

fn add_snapshot(recorded: &mut Recorded, task: Task, argument: u64, frame: WaitFrame, taken: Range<u64>) {
    let taken = at(taken.start)..at(taken.end);
    let user = UserStack::Frames(&[0x1000]);
    recorded.converter.take(&Input::WaitSnapshot(WaitSnapshot { task, user, argument, frame, taken }));
}

/// A thread leaves its CPU, and no stack is recorded.
fn out(recorded: &mut Recorded, time_ns: u64) {
    let cpu = Some(3);
    recorded.converter.take(&Input::Switched {
        tid: PID,
        runs: false,
        preempted: false,
        cpu,
        time_ns: at(time_ns),
    });
}

/// The names of the innermost frames of waits, with the number of each and milliseconds in all.
fn places(recorded: Recorded) -> Vec<(String, u64, u64)> {
    let profile = recorded.profile();
    let samples = &profile.samples[1];
    let mut places: std::collections::BTreeMap<String, (u64, u64)> = std::collections::BTreeMap::new();
    for row in 0..samples.len() {
        let module = profile.locations.module[profile.stacks.location(samples.stack[row]).index()];
        let name = profile.text(profile.modules[module.unwrap().index()].path);
        let place = places.entry(name.to_owned()).or_default();
        *place = (place.0 + 1, place.1 + samples.value[row]);
    }
    places.into_iter().map(|(name, (count, ns))| (name, count, ns / MS)).collect()
}

/// Sleeps of 1 ms and file waits of 2 ms take turns, each followed by 1 ms of running. A snapshot every 7 ms
/// hits some of them, before their records arrive. All waits are counted and timed; the others get the place
/// of one of their length.
#[test]
fn waits_without_a_snapshot_are_charged_to_the_places_that_snapshots_found() {
    let mut recorded = recorded_by(WaitStackSource::Snapshots, false);
    let task = Task { pid: PID, tid: PID };
    for turn in 0..400 {
        let start = turn * 5 * MS;
        let waits =
            [(start, start + MS, WaitFrame::Sleep), (start + 2 * MS, start + 4 * MS, WaitFrame::File)];
        for (since, end, place) in waits {
            let look = since.next_multiple_of(7 * MS) + MS / 2;
            if since < look && look < end {
                add_snapshot(&mut recorded, task, 0, place, look..look + 1000);
            }
            out(&mut recorded, since);
            come_back(&mut recorded, PID, end);
        }
    }
    recorded.converter.end(at(2000 * MS));
    let stacks = recorded.converter.wait_stacks();
    assert_eq!((stacks.waits, stacks.total_ns), (800, 1200 * MS));
    assert!(stacks.with_stack < 250 && stacks.with_stack + stacks.estimated == 800, "{stacks:?}");
    let sleep = (WaitFrame::Sleep.label().to_owned(), 400, 400);
    assert_eq!(places(recorded), [(WaitFrame::File.label().to_owned(), 400, 800), sleep]);
}

/// Run-queue delay after a wait is known only from the kernel's account, which is read now and then.
#[test]
fn queued_time_is_taken_off_the_waits_before_a_reading() {
    let mut recorded = recorded_by(WaitStackSource::Snapshots, true);
    for (since, end) in [(10, 12), (20, 28), (30, 32), (40, 42)] {
        out(&mut recorded, since * MS);
        come_back(&mut recorded, PID, end * MS);
    }
    assert_eq!(recorded.converter.threads_to_read(9), [Task { pid: PID, tid: PID }]);
    // The last wait ends after the reading, which is known only when all records have arrived.
    recorded.converter.take(&Input::Queued { tid: PID, queued_ns: 6 * MS, time_ns: at(41 * MS) });
    recorded.converter.end_drain(at(60 * MS));
    recorded.converter.take(&Input::Queued { tid: PID, queued_ns: 7 * MS, time_ns: at(70 * MS) });
    recorded.converter.end_drain(at(80 * MS));
    recorded.converter.end(at(80 * MS));
    let waits = places(recorded);
    let of = |name: &str| waits.iter().find(|place| place.0 == name).map(|(_, count, ms)| (*count, *ms));
    assert_eq!(of(WaitFrame::Queued.label()), Some((2, 7)), "{waits:?}");
    assert_eq!(of(WaitFrame::TooShort.label()), Some((4, 7)), "{waits:?}");
}

/// With more waiting threads than snapshots, each gets its turn.
#[test]
fn snapshots_are_fair_over_threads() {
    let mut recorded = recorded_by(WaitStackSource::Snapshots, false);
    for tid in 101..151 {
        recorded.fork(PID, (PID, tid), MS);
        come_back(&mut recorded, tid, 2 * MS);
        let preempted = false;
        recorded.converter.take(&Input::Switched {
            tid,
            runs: false,
            preempted,
            cpu: None,
            time_ns: at(3 * MS),
        });
    }
    let mut seen = std::collections::BTreeSet::new();
    for round in 0..5 {
        let tasks = recorded.converter.threads_to_snapshot(10, at((4 + round) * MS));
        assert_eq!(tasks.len(), 10);
        for task in tasks {
            let time = (4 + round) * MS;
            add_snapshot(&mut recorded, task, 0, WaitFrame::Sleep, time..time + 1);
            seen.insert(task.tid);
        }
    }
    assert_eq!(seen.len(), 50);
    assert!(recorded.converter.threads_to_snapshot(10, at(9 * MS)).is_empty());
}

#[test]
fn missing_records_do_not_create_waits() {
    let mut recorded = recorded();
    come_back(&mut recorded, PID, 4 * MS);
    come_back(&mut recorded, PID, 5 * MS);
    leave(&mut recorded, 999, false, 5 * MS);
    assert_eq!(rows(recorded, 4 * MS).iter().map(|(ms, _)| ms).sum::<u64>(), 0);
}

/// The doubtful ones of the waits from 2 to 7 ms, from 8 to 9 and from 10 to 20.
fn doubtful_after(losses: &[(Option<u32>, u64)]) -> (u64, u64) {
    let mut recorded = recorded();
    let mut losses = losses.iter().peekable();
    let mut lose = |recorded: &mut Recorded, until_ms: u64| {
        while let Some((cpu, ms)) = losses.next_if(|(_, ms)| *ms < until_ms) {
            recorded.converter.take(&Input::Lost { records: 5, cpu: *cpu, time_ns: at(ms * MS) });
        }
    };
    for (begin, end) in [(2, 7), (8, 9)] {
        lose(&mut recorded, begin);
        leave(&mut recorded, PID, false, begin * MS);
        lose(&mut recorded, end);
        come_back(&mut recorded, PID, end * MS);
    }
    leave(&mut recorded, PID, false, 10 * MS);
    lose(&mut recorded, 20);
    recorded.converter.end(at(20 * MS));
    let (waits, ns) = recorded.converter.doubtful_waits();
    (waits, ns / MS)
}

#[test]
fn a_wait_with_lost_records_on_its_cpu_is_doubtful() {
    assert_eq!(doubtful_after(&[]), (0, 0));
    assert_eq!(doubtful_after(&[(Some(3), 5)]), (1, 5));
    assert_eq!(doubtful_after(&[(Some(3), 1)]), (0, 0), "before it");
    assert_eq!(doubtful_after(&[(Some(2), 5)]), (0, 0), "on another CPU");
    assert_eq!(doubtful_after(&[(None, 5), (Some(3), 12)]), (2, 15), "anywhere, and until the end");
}

fn wake(recorded: &mut Recorded, tid: u32, by: u32, in_interrupt: bool, time_ns: u64) {
    let (metric, user) = (recorded.metric, UserStack::Frames(&[0x2000]));
    let by = Sample {
        metric,
        time_ns: at(time_ns),
        task: Task { pid: PID, tid: by },
        value: 1,
        user,
        kernel: &[],
    };
    recorded.converter.take(&Input::Wakes(Wakes { tid, by, in_interrupt }));
}

#[test]
fn a_woken_thread_is_queued_for_a_cpu() {
    let mut recorded = recorded();
    recorded.fork(PID, (PID, 101), MS);
    come_back(&mut recorded, 101, MS);
    leave(&mut recorded, PID, false, 2 * MS);
    wake(&mut recorded, PID, 101, false, 5 * MS);
    wake(&mut recorded, PID, 999, true, 6 * MS);
    come_back(&mut recorded, PID, 7 * MS);
    leave(&mut recorded, PID, false, 8 * MS);
    wake(&mut recorded, PID, 0, true, 9 * MS);
    come_back(&mut recorded, PID, 9 * MS);
    recorded.converter.end(at(10 * MS));
    let profile = recorded.profile();
    let details: Vec<_> = profile.wait_details.rows().skip(1).collect();
    let wakeups: Vec<_> =
        details.iter().map(|row| (row.end_ns / MS, row.cpu, row.woken_by, row.waker)).collect();
    let second = profile.threads.iter().position(|row| row.tid == 101).map(ThreadId::from);
    assert_eq!(
        wakeups,
        [(5, Some(3), WokenBy::Thread, second), (9, Some(3), WokenBy::Interrupt, None)],
        "the first waker counts"
    );
    assert!(details[0].waker_stack.is_some() && details[1].waker_stack.is_none());
    let samples = &profile.samples[1];
    assert_eq!(samples.value.iter().map(|ns| ns / MS).collect::<Vec<_>>(), [0, 3, 2, 1]);
}

#[test]
fn a_wakeup_counts_only_for_the_wait_that_it_ends() {
    let mut recorded = recorded();
    // One before it has left its CPU, and one long before a wait that it does not end.
    wake(&mut recorded, PID, 0, true, 2 * MS - 1000);
    leave(&mut recorded, PID, false, 2 * MS);
    come_back(&mut recorded, PID, 5 * MS);
    wake(&mut recorded, PID, 0, true, 6 * MS);
    leave(&mut recorded, PID, false, 8 * MS);
    come_back(&mut recorded, PID, 10 * MS);
    assert_eq!(rows(recorded, 10 * MS), [(0, false), (3, true), (2, false)]);
}

/// It was queued for 3 ms before the recording, is preempted for 2 ms, and is off its CPU for 10 ms, of
/// which the kernel counts 4 as queued.
#[test]
fn uses_the_kernels_run_queue_delay_without_wakeup_records() {
    let mut recorded = recorded();
    let times = |queued: &[u64]| {
        let mut recorded = self::recorded();
        recorded.converter.take(&Input::QueuedAtStart { tid: PID, queued_ns: 3 * MS });
        leave(&mut recorded, PID, true, 2 * MS);
        come_back(&mut recorded, PID, 4 * MS);
        leave(&mut recorded, PID, false, 5 * MS);
        queued.iter().for_each(|ms| {
            recorded.converter.take(&Input::Queued { tid: PID, queued_ns: ms * MS, time_ns: at(16 * MS) });
        });
        come_back(&mut recorded, PID, 15 * MS);
        recorded.converter.end(at(20 * MS));
        let times = recorded.profile().threads[0].times.unwrap();
        assert_eq!(times.ran_ns + times.queued_ns + times.blocked_ns, 20 * MS, "{times:?}");
        [times.queued_ns, times.queued_estimated_ns, times.blocked_ns].map(|ns| ns / MS)
    };
    assert_eq!(times(&[]), [2, 0, 10], "no reading");
    assert_eq!(times(&[6, 9]), [6, 4, 6]);
    assert_eq!(times(&[4]), [2, 0, 10], "read before the last preemption");
    assert_eq!(times(&[900]), [12, 10, 0], "at most the blocked time");
    recorded.fork(PID, (PID, 101), MS);
    recorded.exit((PID, 101), 2 * MS);
    assert_eq!(recorded.converter.living(), [Task { pid: PID, tid: PID }]);
}

#[test]
fn running_queued_and_blocked_time_add_up_to_the_life_of_a_thread() {
    let mut recorded = Recorded::with(|_, setup| setup.switches = true);
    recorded.converter.add_process(PID, "app");
    recorded.exec(MAIN, "app", 0);
    recorded.fork(PID, (PID, 101), 2 * MS);
    come_back(&mut recorded, 101, 4 * MS);
    leave(&mut recorded, 101, false, 5 * MS);
    wake(&mut recorded, 101, PID, false, 8 * MS);
    come_back(&mut recorded, 101, 9 * MS);
    leave(&mut recorded, PID, true, 12 * MS);
    recorded.exit((PID, 101), 14 * MS);
    recorded.converter.end(at(20 * MS));
    let profile = recorded.profile();
    assert_eq!(profile.samples[0].len(), 0, "waits themselves are not recorded");
    let times = |tid: u32| profile.threads.iter().find(|row| row.tid == tid).unwrap().times.unwrap();
    let (first, second) = (times(PID), times(101));
    assert_eq!((first.ran_ns, first.queued_ns, first.blocked_ns), (12 * MS, 8 * MS, 0));
    assert_eq!((first.waits, first.preemptions), (0, 1));
    assert_eq!((second.ran_ns, second.queued_ns, second.blocked_ns), (6 * MS, 3 * MS, 3 * MS));
    assert_eq!((second.waits, second.preemptions), (1, 1), "queueing for the first CPU counts too");
}
