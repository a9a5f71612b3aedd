//! System calls against a program's own counts: as root, where the kernel reports each one, and as an
//! ordinary user, for whom it only counts reads and writes.

use std::path::Path;

use whyslow_analyze::{CallTree, Charges, Selection, SyscallRow, SyscallTable, has_syscalls};
use whyslow_lab_harness::{Truth, Variant, build_or_skip, run, skip, try_again};
use whyslow_profile::{Metric, Note, Profile, RecordingNote, file};

use crate::heap_recorded::as_nobody;
use crate::recorded::{PATIENCE, has_perf_events, whyslow};

/// Few enough that every call has its stack.
const LINES: u64 = 200;
/// Too many for every call to have its stack. A busy machine may lose records of the first ones: nothing of the last
/// one is lost, because it fits into the buffers.
const MANY: [u64; 3] = [20_000, 5_000, 1_250];

/// Whether this machine shows its tracepoints.
pub(crate) fn has_tracepoints() -> bool {
    let there =
        has_perf_events() && Path::new("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id").exists();
    if !there {
        skip("the kernel's tracepoints are not readable here");
    }
    there
}

struct Recorded {
    profile: Profile,
    truth: Truth,
    stderr: String,
    folder: tempfile::TempDir,
}

fn record(more: &[&str], lines: u64) -> Option<Recorded> {
    let program = build_or_skip("calls", Variant::Release)?;
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args(["record", "--syscalls", "-o", "run.whyslow"]).args(more).arg("--").arg(program);
    command.arg(lines.to_string()).arg(folder.path());
    let output = run(&mut command, PATIENCE).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    Some(Recorded { profile: file::read(&folder.path().join("run.whyslow")).unwrap(), truth, stderr, folder })
}

fn table(profile: &Profile) -> SyscallTable {
    SyscallTable::build(profile, &Selection::default(), &Charges::new(profile, true))
}

/// The calls of one kind that a function makes.
#[track_caller]
fn row<'a>(profile: &Profile, table: &'a SyscallTable, call: &str, function: &str) -> &'a SyscallRow {
    let is = |row: &&SyscallRow| {
        profile.text(row.call) == call && CallTree::name(profile, row.label).ends_with(function)
    };
    let rows: Vec<_> = table.rows.iter().filter(is).collect();
    assert_eq!(rows.len(), 1, "{call} of {function}: {rows:?}");
    rows[0]
}

#[track_caller]
fn assert_every_call_is_there(profile: &Profile, truth: &Truth) {
    let table = table(profile);
    let of = |call, function| row(profile, &table, call, function);
    let names = |row: &SyscallRow| -> Vec<String> {
        row.targets.iter().map(|(name, _)| profile.text(*name).to_owned()).collect()
    };
    let writes = of("write", "save_rows");
    assert_eq!((writes.cost.count, writes.cost.bytes, writes.cost.failed), (LINES, 12 * LINES, 0));
    assert!(matches!(&names(writes)[..], [name] if name.contains("/rows-")), "{:?}", names(writes));
    let reads = of("read", "load_rows");
    assert_eq!((reads.cost.count, reads.cost.bytes), (LINES + 1, 12 * LINES));
    assert!(matches!(&names(reads)[..], [name] if name.contains("/rows-")), "{:?}", names(reads));
    let opens = of("openat", "look_for");
    assert_eq!((opens.cost.count, opens.cost.failed), (LINES / 2, LINES / 2));
    assert_eq!(
        (opens.errors.len(), profile.text(opens.errors[0].0), opens.errors[0].1),
        (1, "ENOENT", LINES / 2)
    );
    let passed = of("write", "pass_on");
    assert_eq!((passed.cost.count, passed.cost.bytes), (LINES / 4, 2 * LINES));
    let taken = of("read", "take_over");
    assert_eq!((taken.cost.count, taken.cost.bytes), (LINES / 4, 2 * LINES));
    let asked = of("sendto", "ask");
    assert_eq!((asked.cost.count, asked.cost.bytes), (LINES / 8, 6 * LINES / 8));
    let peer = format!("TCP socket to 127.0.0.1:{}", truth.counts["port"]);
    assert_eq!(names(asked), [peer]);
    assert_eq!(of("recvfrom", "answer").cost.bytes, 6 * LINES / 8);
    let slept = &of("clock_nanosleep", "rest").cost;
    let slept_ns = truth.counts["rest_us"] as f64 * 1000.0;
    assert!((slept.total_ns as f64 / slept_ns - 1.0).abs() < 0.05, "{slept:?} for {slept_ns}");
    assert_eq!((slept.count, slept.max_ns), (1, slept.total_ns));
}

#[test]
fn small_writes_to_a_file_are_a_finding_if_there_are_many() {
    if !has_tracepoints() {
        return;
    }
    for (lines, is_found) in [(LINES, false), (100 * LINES, true)] {
        let Some(Recorded { folder, .. }) = record(&[], lines) else { return };
        let report =
            run(whyslow(folder.path()).args(["report", "run.whyslow", "syscalls"]), PATIENCE).unwrap();
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        assert!(report.contains("save_rows"), "{report}");
        // Which of the two takes longer depends on the machine.
        let found = ["[unbuffered-writes]", "[unbuffered-reads]"].iter().any(|id| report.contains(id));
        let each = ["12 B each on average", "11 B each on average"].iter().any(|it| report.contains(it));
        assert_eq!((found, each), (is_found, is_found), "{report}");
    }
}

#[test]
fn counts_every_call_with_its_line_its_file_and_its_error() {
    if !has_tracepoints() {
        return;
    }
    let Some(Recorded { profile, truth, stderr, folder }) = record(&[], LINES) else { return };
    assert_every_call_is_there(&profile, &truth);
    assert!(stderr.contains("system calls took") && stderr.contains("run.whyslow syscalls"), "{stderr}");
    let json = ["report", "run.whyslow", "syscalls", "--format", "json"];
    let json = run(whyslow(folder.path()).args(json), PATIENCE).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let rows = json["syscalls"].as_array().unwrap();
    let calls: u64 = rows.iter().map(|row| row["count"].as_u64().unwrap()).sum();
    assert_eq!(json["samples"].as_u64(), Some(calls));
    // The same sums are in the three metrics.
    let sum = |name: &str| -> u64 {
        profile.samples[profile.metric_named(name).unwrap().index()].value.iter().sum()
    };
    let all = table(&profile).all;
    assert_eq!(
        [sum(Metric::SYSCALLS), sum(Metric::SYSCALL_TIME), sum(Metric::SYSCALL_BYTES)],
        [all.count, all.total_ns, all.bytes]
    );
}

#[test]
fn waits_and_system_calls_are_recorded_together() {
    if !has_tracepoints() {
        return;
    }
    let Some(Recorded { profile, truth, .. }) = record(&["--off-cpu"], LINES) else { return };
    assert_every_call_is_there(&profile, &truth);
    assert!(!profile.samples[profile.metric_named(Metric::OFF_CPU_TIME).unwrap().index()].is_empty());
}

/// No call is missing, however fast they are; only their lines are distributed.
#[test]
fn calls_too_fast_for_stacks_are_all_counted() {
    if !has_tracepoints() {
        return;
    }
    for lines in MANY {
        let Some(Recorded { profile, .. }) = record(&[], lines) else { return };
        let lost = profile.meta.counters.lost_samples;
        if lost == 0 {
            return assert_all_are_counted(&profile, lines);
        }
        try_again(&format!("{lost} records of {lines} lines are lost"));
    }
    panic!("records are lost, however few there are");
}

#[track_caller]
fn assert_all_are_counted(profile: &Profile, lines: u64) {
    let sum = |call: &str, error: Option<&str>| {
        let is = |row: &&whyslow_profile::Syscalls| {
            profile.text(row.call) == call && row.error.map(|error| profile.text(error)) == error
        };
        let rows = profile.syscalls.iter().filter(is);
        rows.fold((0, 0, 0), |sum, row| (sum.0 + row.count, sum.1 + row.bytes, sum.2 + row.spread))
    };
    let (writes, written, without_stack) = sum("write", None);
    assert!((lines + lines / 4..lines + lines / 4 + 10).contains(&writes), "{writes}");
    assert!((14 * lines..14 * lines + 1000).contains(&written), "{written}");
    // On a slow machine all have their stacks.
    assert!(without_stack < writes, "{without_stack} of {writes}");
    assert_eq!(sum("sendto", None).0, lines / 8);
    // The loader also searches for libraries.
    assert!((lines / 2..lines / 2 + 1000).contains(&sum("openat", Some("ENOENT")).0));
    let of_rows =
        |row: &&whyslow_profile::Syscalls| row.file.is_some_and(|file| profile.text(file).contains("/rows-"));
    let rows = profile.syscalls.iter().filter(of_rows).filter(|row| profile.text(row.call) == "write");
    assert_eq!(rows.map(|row| row.count).sum::<u64>(), lines);
    let table = table(profile);
    assert_eq!(table.all.count, profile.syscalls.iter().map(|row| row.count).sum::<u64>());
    let saved = table.rows.iter().filter(|row| CallTree::name(profile, row.label).ends_with("save_rows"));
    let saved: u64 = saved.filter(|row| profile.text(row.call) == "write").map(|row| row.cost.count).sum();
    assert!(saved > lines * 9 / 10, "{saved}");
}

#[test]
fn an_ordinary_user_gets_the_kernels_io_counts() {
    let Some(program) = build_or_skip("calls", Variant::Release) else { return };
    let Some((folder, mut command)) = as_nobody(&program) else { return };
    if !has_perf_events() {
        return;
    }
    let lines = LINES.to_string();
    let arguments = ["record", "--syscalls", "-o", "run.whyslow", "--", "./program", &lines, "."];
    let output = run(command.args(arguments), PATIENCE).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    let io = profile.meta.notes.iter().find_map(|note| match note {
        Note::Recording(RecordingNote::SyscallsNotRecorded { io, .. }) => *io,
        _ => None,
    });
    let Some(io) = io else {
        assert!(has_syscalls(&profile), "{stderr}");
        return;
    };
    // The socket's calls are not reads and writes, and lines are printed.
    assert!((LINES + LINES / 4..LINES + LINES / 4 + 20).contains(&io.writes), "{io:?}");
    assert!((14 * LINES..14 * LINES + 2000).contains(&io.bytes_written), "{io:?}");
    assert!(io.reads >= LINES + LINES / 4 && io.bytes_read >= 14 * LINES, "{io:?}");
    assert!(
        stderr.contains("system calls were not recorded")
            && stderr.contains("sudo whyslow record --syscalls"),
        "{stderr}"
    );
}
