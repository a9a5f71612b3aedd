//! Runs real programs under the agent, with a collector that checks every record against the program's own
//! counts.

#![expect(unsafe_code, reason = "the collector's side of the area is shared memory")]

mod fake;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use fake::{Area, Collector, Counts, Replay, Wish};
use whyslow_agent_wire::area::{flag, heap_flag};
use whyslow_agent_wire::record::op;

/// Compiles one of the test programs for this test.
fn program(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    compile("cc", name, source, flags)
}

fn compile(compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let mut compiler = Command::new(compiler);
    compiler.args(["-O1", "-g", "-fno-builtin", "-pthread"]).args(flags).arg("-o").arg(&built).arg(source);
    assert!(compiler.status().expect("a C compiler").success());
    built
}

struct Run {
    areas: Vec<Area>,
    /// The counts that the processes report themselves.
    counts: HashMap<u32, Counts>,
    status: ExitStatus,
}

fn stress(name: &str, wish: Wish, arguments: &[&str]) -> Run {
    let stress = program(name, "stress.c", &[]);
    let collector = Collector::new(wish);
    let mut command = collector.command(&stress);
    let run = finish(collector, &mut command, arguments);
    fs::remove_file(stress).expect("it is there");
    run
}

fn finish(collector: Collector, command: &mut Command, arguments: &[&str]) -> Run {
    let file = collector.folder.path().join("counts");
    let status = command.args(arguments).env("COUNTS", &file).status().expect("it starts");
    let text = fs::read_to_string(&file).unwrap_or_default();
    let counts = text.lines().map(|line| {
        let n: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        let counts = Counts { allocations: n[1], frees: n[2], bytes: n[3], live: n[4], live_bytes: n[5] };
        (n[0] as u32, counts)
    });
    let counts = counts.collect();
    Run { areas: collector.finish(), counts, status }
}

fn assert_exact(run: &Run) -> Replay {
    assert_exact_but(run, 0)
}

/// The same, when a known number of events find no ring.
fn assert_exact_but(run: &Run, ringless: u64) -> Replay {
    let area = &run.areas[0];
    let header = area.header();
    let lost = (load(&header.lost_events), load(&header.lost_ringless));
    assert_eq!(lost, (0, ringless), "nothing else is lost");
    let replay = Replay::new(&area.records);
    assert_eq!(replay.overwritten, 0, "no address is allocated twice at a time");
    for (pid, counts) in &run.counts {
        assert_eq!(replay.counts.get(pid).copied().unwrap_or_default(), *counts, "of process {pid}");
    }
    replay
}

fn load(word: &std::sync::atomic::AtomicU64) -> u64 {
    word.load(std::sync::atomic::Ordering::Relaxed)
}

#[test]
fn every_function_is_counted_and_behaves_like_libcs() {
    let run = stress("functions", Wish::default(), &["functions"]);
    assert!(run.status.success());
    let replay = assert_exact(&run);
    assert_eq!(replay.unknown.len(), 0);
    let resizes = run.areas[0].records.iter().filter(|record| record.op == op::REALLOC).count();
    assert_eq!(resizes, 500);
    let failed = run.areas[0].records.iter().filter(|record| record.op == op::REALLOC_FAILED).count();
    assert_eq!(failed, 2);
}

#[test]
fn blocks_that_change_threads_are_in_order() {
    for threads in ["1", "2", "16"] {
        let run = stress("threads", Wish::default(), &["threads", threads]);
        assert!(run.status.success());
        let replay = assert_exact(&run);
        assert_eq!(replay.unknown.len(), 0, "with {threads} threads");
    }
}

#[test]
fn rings_of_exited_threads_are_reused() {
    let run = stress("many", Wish::default(), &["many"]);
    assert!(run.status.success());
    assert_exact(&run);
    let used = run.areas[0].header().rings_used.load(std::sync::atomic::Ordering::Relaxed);
    assert!(used <= 600, "1000 threads, 100 at a time, used {used} rings");
}

#[test]
fn a_thousand_threads_at_once() {
    let run = stress("crowd", Wish::default(), &["crowd"]);
    assert!(run.status.success());
    assert_exact(&run);
}

#[test]
fn children_of_a_program_with_threads_have_their_own_counts() {
    let run = stress("forks", Wish::default(), &["forks"]);
    assert!(run.status.success());
    let replay = assert_exact(&run);
    assert!(run.counts.len() > 100, "every process reported");
    // Each child frees one inherited block, and libc may free others.
    let frees: Vec<u64> = replay.unknown.values().copied().collect();
    assert!(frees.len() >= 100 && frees.iter().all(|count| *count >= 1));
}

#[test]
fn programs_of_another_libc_are_counted_too() {
    if !whyslow_lab_harness::is_installed("musl-gcc") {
        return;
    }
    for arguments in [&["functions"][..], &["threads", "4"], &["many"], &["forks"]] {
        let stress = compile("musl-gcc", "musl", "stress.c", &[]);
        let collector = Collector::new(Wish::default());
        let mut command = collector.command(&stress);
        let run = finish(collector, &mut command, arguments);
        assert!(run.status.success());
        assert_exact(&run);
    }
}

#[test]
fn a_program_without_dlsym_is_recorded() {
    let stress = program("symbols", "stress.c", &[]);
    for arguments in [&["functions"][..], &["threads", "4"], &["ends", "quick_exit"]] {
        let collector = Collector::new(Wish::default());
        collector.rename_in_agent(b"\0dlsym\0", b"\0dlsyx\0");
        let mut command = collector.command(&stress);
        let run = finish(collector, &mut command, arguments);
        assert!(run.status.success());
        assert_exact(&run);
    }
}

#[test]
fn signal_handlers_may_allocate_at_any_instruction() {
    let safe = program("safe", "safe.c", &["-shared", "-fPIC"]);
    let stress = program("signals", "stress.c", &[]);
    let collector = Collector::new(Wish::default());
    let mut command = collector.command_with(&stress, &safe);
    let run = finish(collector, &mut command, &["signals"]);
    assert!(run.status.success());
    let levels: Vec<u32> = run.areas[0].records.iter().map(|record| record.level).collect();
    assert!(levels.contains(&1), "a handler interrupted the agent");
    let replay = Replay::new(&run.areas[0].records);
    assert_eq!(replay.overwritten, 0);
    let lost = load(&run.areas[0].header().lost_events);
    let (pid, own) = run.counts.iter().next().expect("it reported");
    let seen = replay.counts[pid];
    // While libc resizes a block, its own calls and those of a handler cannot be distinguished. Neither is
    // recorded.
    assert!(
        seen.allocations + lost <= own.allocations && seen.allocations + lost + 200 > own.allocations,
        "{seen:?} {own:?} {lost}"
    );
}

#[test]
fn a_signal_handler_may_fork_while_the_agent_walks() {
    let safe = program("safe", "safe.c", &["-shared", "-fPIC"]);
    let stress = program("forking-signals", "stress.c", &[]);
    let collector = Collector::new(Wish::default());
    let mut command = collector.command_with(&stress, &safe);
    let run = finish(collector, &mut command, &["forks_in_signals"]);
    assert!(run.status.success());
    let pids: std::collections::BTreeSet<u32> =
        run.areas[0].records.iter().map(|record| record.pid).collect();
    assert!(pids.len() > 50, "children that returned from the handler are recorded: {}", pids.len());
}

#[test]
fn a_child_that_borrows_its_parents_memory_uses_its_ring() {
    let run = stress("spawns", Wish::default(), &["spawns"]);
    assert!(run.status.success());
    // The first child allocates and frees before its parent has a ring.
    assert_exact_but(&run, 2);
    assert_eq!(run.areas.len(), 21, "each program that was started has its own area");
    let pids: Vec<u32> = run.areas[0].records.iter().map(|record| record.pid).collect();
    assert!(pids.iter().all(|pid| *pid == pids[0]));
}

#[test]
fn distinguishes_libraries_loaded_at_the_same_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut paths = Vec::new();
    for (name, size) in [("one", "-DSIZE=33"), ("two", "-DSIZE=97")] {
        let built = program(name, "plugin.c", &["-shared", "-fPIC", size]);
        let path = folder.path().join(format!("{name}.so"));
        fs::copy(built, &path).expect("a copy");
        paths.push(path.to_str().expect("text").to_owned());
    }
    let run = stress("plugins", Wish::default(), &["plugins", &paths[0], &paths[1]]);
    assert!(run.status.success());
    assert_exact(&run);
    let area = &run.areas[0];
    let mut seen = 0;
    let mut places = Vec::new();
    for record in area.records.iter().filter(|record| record.op == op::ALLOC) {
        let expected = match record.size {
            33 => &paths[0],
            97 => &paths[1],
            _ => continue,
        };
        let frames = area.frames(record.stack);
        assert!(frames.len() >= 3, "make, main, its caller");
        assert_eq!(area.module_of(frames[0]).as_ref(), Some(expected));
        places.push(frames[0].0);
        seen += 1;
    }
    assert_eq!(seen, 120);
    places.sort_unstable();
    places.dedup();
    assert!(places.len() < 40, "the libraries were loaded at the same addresses again");
}

#[test]
fn records_survive_any_kind_of_exit() {
    for how in ["exit", "_exit", "quick_exit", "abort", "kill", "segv"] {
        for flags in [0, flag::WAIT_AT_EXIT] {
            let run = stress("ends", Wish { flags, ..Wish::default() }, &["ends", how]);
            assert_eq!(run.status.success(), how.contains("exit"));
            assert_exact(&run);
            assert_eq!(run.counts.values().next().expect("it reported").live, 1000);
        }
    }
}

#[test]
fn mappings_are_recorded_on_request() {
    let run = stress("maps", Wish { heap_flags: heap_flag::MAPS, ..Wish::default() }, &["maps"]);
    assert!(run.status.success());
    let maps = |kind| {
        let of_kind = run.areas[0].records.iter().filter(move |record| record.op == kind);
        of_kind.map(|record| record.size).collect::<Vec<_>>()
    };
    assert_eq!(maps(op::MAP), [10, 2, 256]);
    assert_eq!(maps(op::UNMAP), [1, 2]);
}

#[test]
fn bytes_that_were_never_written_are_counted() {
    let run = stress("unused", Wish { heap_flags: heap_flag::UNUSED, ..Wish::default() }, &["unused"]);
    assert!(run.status.success());
    let unused: Vec<u64> =
        run.areas[0].records.iter().filter(|record| record.op == op::UNUSED).map(|r| r.size).collect();
    let size = 33 + 64 * 2000;
    // Four bytes are checked at a time. At its resize, the third block had 45 bytes left. At its end it had
    // those plus the new ones, minus the 500.
    assert_eq!(unused, [33 + 640 - 100, 97 - 52, size - 52 - 500, 33]);
}

#[test]
fn counting_unused_bytes_does_not_change_program_data() {
    for arguments in [&["moved"][..], &["functions"], &["threads", "4"]] {
        let run = stress("moved", Wish { heap_flags: heap_flag::UNUSED, ..Wish::default() }, arguments);
        assert!(run.status.success());
    }
}

#[test]
fn samples_are_unbiased_and_their_frees_are_recorded() {
    let rate = 4096;
    let run = stress("sample", Wish { sample_bytes: rate, ..Wish::default() }, &["sample"]);
    assert!(run.status.success());
    let area = &run.areas[0];
    for (kind, size, count) in [
        (op::ALLOC, 33u64, 200_000f64),
        (op::ALLOC, 33 + 64 * 16, 210_000.0),
        (op::ALLOC, 33 + 64 * 160, 200_000.0),
        (op::ALLOC, 33 + 64 * 32, 100_000.0),
        (op::REALLOC, 33 + 64 * 64, 100_000.0),
    ] {
        let samples = area.records.iter().filter(|record| record.op == kind && record.size == size).count();
        let chance = 1.0 - (-(size as f64) / rate as f64).exp();
        let (mean, deviation) = (count * chance, (count * chance * (1.0 - chance)).sqrt());
        let off = (samples as f64 - mean) / deviation;
        assert!(off.abs() < 5.0, "{samples} samples of size {size}, {mean} expected");
    }
    let replay = Replay::new(&area.records);
    let live = replay.counts.values().next().expect("one process").live as f64;
    let expected = 10_000.0 * (1.0 - (-(1057.0) / rate as f64).exp());
    assert!(
        (live - expected).abs() < 5.0 * expected.sqrt(),
        "{live} sampled blocks live, {expected} expected"
    );
    let sampled = area.records.iter().find(|record| record.op == op::ALLOC).expect("some");
    assert!(area.filtered(sampled.address) > 0);
}

/// A thread takes its first distance when it first allocates, and a ring only for its first sample.
#[test]
fn short_threads_are_sampled_without_bias_and_cost_no_ring_before() {
    let (size, threads) = (33 + 64 * 16, 2000.0);
    let sampled = |sample_bytes| {
        let run = stress("short", Wish { sample_bytes, ..Wish::default() }, &["short"]);
        assert!(run.status.success());
        let area = &run.areas[0];
        let count =
            area.records.iter().filter(|record| record.op == op::ALLOC && record.size == size).count();
        (count as f64, area.header().rings_used.load(std::sync::atomic::Ordering::Relaxed))
    };
    for rate in [1000, 20_000] {
        let (samples, _) = sampled(rate);
        let chance = 1.0 - (-(size as f64) / rate as f64).exp();
        let (mean, deviation) = (threads * chance, (threads * chance * (1.0 - chance)).sqrt());
        assert!((samples - mean).abs() < 5.0 * deviation, "{samples} samples, {mean} expected");
    }
    assert_eq!(sampled(1 << 50), (0.0, 1));
}

#[test]
fn a_stuck_collector_delays_the_program_for_a_bounded_time() {
    let stress = program("stuck", "stress.c", &[]);
    let collector = Collector::new(Wish::default());
    collector.pause();
    let mut command = collector.command(&stress);
    let begin = Instant::now();
    let run = finish(collector, &mut command, &["threads", "1"]);
    assert!(run.status.success());
    assert!(begin.elapsed().as_secs() < 60);
    assert!(load(&run.areas[0].header().lost_events) > 0);
}

#[test]
fn a_program_outlives_its_recording() {
    let stress = program("outlives", "stress.c", &[]);
    for sample_bytes in [0, 64, 1 << 20] {
        let collector = Collector::new(Wish { sample_bytes, ..Wish::default() });
        collector.leave_early();
        let mut command = collector.command(&stress);
        let run = finish(collector, &mut command, &["threads", "2"]);
        assert!(run.status.success(), "with samples every {sample_bytes} bytes: {}", run.status);
        assert!(!run.areas[0].records.is_empty());
    }
}

#[test]
fn programs_run_normally_without_a_collector() {
    let collector = Collector::new(Wish::default());
    let stress = program("alone", "stress.c", &[]);
    for socket in [None, Some("/nowhere/socket")] {
        for what in [["functions", ""], ["threads", "4"], ["forks", ""]] {
            let mut command = Command::new(&stress);
            command
                .env("LD_PRELOAD", collector.agent())
                .env("COUNTS", collector.folder.path().join("counts"));
            if let Some(socket) = socket {
                command.env(whyslow_agent_wire::SOCKET_VARIABLE, socket);
            }
            assert!(command.args(what).status().expect("it starts").success());
        }
    }
}

#[test]
fn everyday_programs_run_and_their_records_add_up() {
    for (program, arguments) in [
        ("/bin/ls", vec!["-lR", "/etc"]),
        ("/usr/bin/env", vec![]),
        ("/bin/sh", vec!["-c", "ls / | sort | wc"]),
    ] {
        let collector = Collector::new(Wish::default());
        let plain = Command::new(program).args(&arguments).env_clear().output().expect("it starts");
        let output = collector.command(program).args(&arguments).output().expect("it starts");
        assert_eq!(output.status, plain.status);
        if program != "/usr/bin/env" {
            assert_eq!(output.stdout, plain.stdout);
        }
        for area in collector.finish() {
            assert!(!area.records.is_empty());
            let replay = Replay::new(&area.records);
            assert_eq!((replay.overwritten, load(&area.header().lost_events)), (0, 0));
        }
    }
}
