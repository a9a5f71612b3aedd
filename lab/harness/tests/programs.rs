//! Builds every lab program, runs each briefly, and checks its claims.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use whyslow_lab_harness::{
    ChurnPaths, Truth, Variant, build_or_skip, build_runtime_or_skip, lab_folder, programs, run,
};

/// A short run of a program, and the claims its output must contain.
struct Case {
    name: &'static str,
    arguments: &'static [&'static str],
    shares: &'static [(&'static str, f64)],
    counts: &'static [(&'static str, u64)],
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case { name: "allocations", arguments: &["100000"], shares: &[], counts: &[("allocations", 300_000)] },
    Case { name: "blocks", arguments: &[], shares: &[], counts: &[("reads", 40_000)] },
    Case { name: "bigframe", arguments: &["20"], shares: &[("spin", 1.0)], counts: &[] },
    Case { name: "branches", arguments: &["1000", "2"], shares: &[("leaf", 1.0)], counts: &[("frames", 1001)] },
    Case { name: "causal_barrier", arguments: &["--units", "10"], shares: &[], counts: &[("units", 10)] },
    Case { name: "causal_latency", arguments: &["--units", "10", "--scale", "after=0.5"], shares: &[], counts: &[("units", 10)] },
    Case { name: "causal_lock", arguments: &["--units", "20", "--scale", "long_section=0.5"], shares: &[], counts: &[] },
    Case { name: "causal_null", arguments: &["sort", "--units", "10"], shares: &[], counts: &[("units", 10)] },
    Case { name: "causal_points", arguments: &["--units", "10", "--scale", "work=0.5"], shares: &[], counts: &[("units", 10)] },
    Case { name: "causal_pthread", arguments: &["lock", "--units", "20", "--scale", "outside=0.5"], shares: &[], counts: &[] },
    Case { name: "causal_pthread", arguments: &["barrier", "--units", "10", "--scale", "work_a=0.5"], shares: &[], counts: &[("units", 10)] },
    Case { name: "causal_queue", arguments: &["--units", "10"], shares: &[], counts: &[("units", 10)] },
    Case { name: "causal_sequence", arguments: &["--units", "5", "--scale", "front=0"], shares: &[], counts: &[("units", 5)] },
    Case { name: "causal_short", arguments: &["--us", "200", "--units", "10", "--scale", "burn=0.5"], shares: &[], counts: &[("units", 10)] },
    Case { name: "causal_sleeper", arguments: &["--units", "10"], shares: &[], counts: &[("units", 10)] },
    Case { name: "chain", arguments: &["20"], shares: &[("first", 0.2), ("second", 0.3), ("third", 0.5)], counts: &[] },
    Case { name: "changed", arguments: &["20"], shares: &[("alpha", 0.5), ("beta", 0.3), ("gamma", 0.2)], counts: &[] },
    Case { name: "churn", arguments: &["1", "20"], shares: &[], counts: &[("rounds", 20)] },
    Case { name: "churn", arguments: &["1", "20", "mix"], shares: &[], counts: &[("rounds", 20)] },
    Case { name: "coroutine", arguments: &["20"], shares: &[("on_main", 0.25), ("on_own", 0.75)], counts: &[] },
    Case { name: "deep", arguments: &["500", "20"], shares: &[("leaf", 1.0)], counts: &[] },
    Case { name: "dlopen_host", arguments: &["20"], shares: &[("plugin_work", 0.8), ("host_work", 0.2)], counts: &[] },
    Case { name: "events", arguments: &["100", "30", "1"], shares: &[], counts: &[] },
    Case { name: "exits", arguments: &["print"], shares: &[], counts: &[] },
    Case { name: "forktree", arguments: &["20"], shares: &[("root_work", 0.1), ("forked_work", 0.1), ("branch_work", 0.2), ("leaf_work", 0.6)], counts: &[("processes", 10)] },
    Case { name: "short_lived", arguments: &["20"], shares: &[("thread_work", 0.3), ("process_work", 0.3), ("long_work", 0.4)], counts: &[] },
    Case { name: "inherits", arguments: &[], shares: &[], counts: &[] },
    Case { name: "inlined", arguments: &["20"], shares: &[("plain", 0.6), ("generic", 0.4)], counts: &[] },
    Case { name: "jit", arguments: &["20", "unnamed"], shares: &[("jit_hot", 0.75), ("jit_warm", 0.25)], counts: &[] },
    Case { name: "many", arguments: &["threads", "200", "20"], shares: &[("work", 1.0)], counts: &[("threads", 200)] },
    Case { name: "many", arguments: &["processes", "20", "20"], shares: &[("work", 1.0)], counts: &[("processes", 20)] },
    Case { name: "fsync", arguments: &["fsync.data", "2", "1"], shares: &[], counts: &[] },
    Case { name: "growth", arguments: &["100"], shares: &[], counts: &[("constant", 30_000_000), ("quadratic", 1250)] },
    Case { name: "kernels", arguments: &["0.2"], shares: &[], counts: &[] },
    Case { name: "markers", arguments: &["20"], shares: &[("load", 0.4)], counts: &[("load", 50)] },
    Case { name: "memory_errors", arguments: &["clean"], shares: &[], counts: &[] },
    Case { name: "memory_unsafe", arguments: &["clean"], shares: &[], counts: &[] },
    Case { name: "naps", arguments: &["20"], shares: &[], counts: &[("sleeps", 100), ("slept_us", 59_500)] },
    Case { name: "plt", arguments: &["20"], shares: &[], counts: &[("calls", 6_800_000)] },
    Case { name: "refuse", arguments: &[], shares: &[("refused", 1.0)], counts: &[] },
    Case { name: "timer_hostile", arguments: &["masked", "20"], shares: &[("busy", 1.0)], counts: &[] },
    Case { name: "timer_hostile", arguments: &["storm", "20"], shares: &[], counts: &[] },
    Case { name: "pthreads", arguments: &["10"], shares: &[], counts: &[] },
    Case { name: "quadratic", arguments: &["2000"], shares: &[], counts: &[("comparisons", 2_001_000)] },
    Case { name: "ratio", arguments: &["1", "20"], shares: &[("alpha", 0.5), ("beta", 0.3), ("gamma", 0.2)], counts: &[] },
    Case { name: "ratio", arguments: &["4", "20"], shares: &[("alpha", 0.5), ("beta", 0.3), ("gamma", 0.2)], counts: &[] },
    Case { name: "serial", arguments: &["20"], shares: &[], counts: &[] },
    Case { name: "signals", arguments: &["20", "raise"], shares: &[("handler_work", 0.5), ("interrupted", 0.5)], counts: &[] },
    Case { name: "sleepy", arguments: &["100"], shares: &[("brief_work", 1.0)], counts: &[("work_ms", 2)] },
    Case { name: "spans", arguments: &["20"], shares: &[("outer", 0.375), ("alpha", 0.25), ("beta", 0.125)], counts: &[("tick", 1000)] },
    Case { name: "grid", arguments: &[], shares: &[], counts: &[("sum", 4_000_000)] },
    Case { name: "matrix", arguments: &[], shares: &[], counts: &[("sum", 8_000_000)] },
    Case { name: "matrix", arguments: &["threads"], shares: &[], counts: &[("sum", 8_000_000)] },
    Case { name: "strides", arguments: &["1"], shares: &[], counts: &[("additions", 33_554_432)] },
    Case { name: "swallowed", arguments: &["20"], shares: &[("caller", 0.8), ("other", 0.2)], counts: &[] },
    Case { name: "syscalls", arguments: &["20"], shares: &[], counts: &[] },
    Case { name: "tailcall", arguments: &["20"], shares: &[("before", 0.25), ("after", 0.75)], counts: &[] },
    Case { name: "turns", arguments: &["5"], shares: &[], counts: &[] },
    Case { name: "usage", arguments: &["400", "4", "10"], shares: &[], counts: &[("faults", 700), ("helper_faults", 100), ("sleeps", 6), ("moved_bytes", 262_144)] },
    Case { name: "calls", arguments: &["200"], shares: &[], counts: &[] },
    Case { name: "waits", arguments: &["1"], shares: &[], counts: &[] },
    Case { name: "threads", arguments: &["40", "20"], shares: &[("even_work", 0.75), ("odd_work", 0.25)], counts: &[("threads", 40)] },
];

fn start(name: &str, arguments: &[&str]) -> Option<Output> {
    let program = build_or_skip(name, Variant::Release)?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(lab_folder());
    Some(run(&mut command, Duration::from_secs(60)).expect("it ends in time"))
}

#[test]
fn every_program_runs_and_claims_its_known_answer() {
    for case in CASES {
        let Some(output) = start(case.name, case.arguments) else { continue };
        let stdout = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{} {:?}: {output:?}", case.name, case.arguments);
        let truth = Truth::parse(&stdout);
        assert_eq!(truth.shares.len(), case.shares.len(), "{}: {stdout}", case.name);
        for (function, share) in case.shares {
            assert!((truth.shares[*function] - share).abs() < 1e-9, "{}: {stdout}", case.name);
        }
        for (what, count) in case.counts {
            assert_eq!(truth.counts.get(*what), Some(count), "{}: {stdout}", case.name);
        }
        if case.name == "markers" {
            let file = format!("marker-{}.txt", truth.counts["pid"]);
            std::fs::remove_file(lab_folder().join(file)).unwrap();
        }
    }
}

#[test]
fn causal_programs_on_runtimes_do_the_units_that_are_asked_for() {
    for (name, scale) in [
        ("causal_parking_lot", "long_section=0.5"),
        ("causal_rayon", "heavy_task=0"),
        ("causal_tokio", "slow_handler=0.5"),
    ] {
        let Some(program) = build_runtime_or_skip(name) else { return };
        let mut command = Command::new(program);
        command.args(["--units", "10", "--scale", scale]);
        let output = run(&mut command, Duration::from_secs(60)).expect("it ends in time");
        assert!(output.status.success(), "{name}: {output:?}");
        // Several threads may each finish one more.
        let counts = Truth::parse(&String::from_utf8_lossy(&output.stdout)).counts;
        assert!((10..15).contains(&counts["units"]) && counts["ns_per_unit"] > 0, "{name}: {counts:?}");
    }
}

#[test]
fn every_program_has_a_case() {
    let without: Vec<String> = programs()
        .unwrap()
        .into_iter()
        // Heap programs have their own tests, in `heap.rs`.
        .filter(|p| !CASES.iter().any(|c| c.name == p) && p != "closures" && !p.starts_with("heap_"))
        .collect();
    assert!(without.is_empty(), "add a case for {without:?}");
}

#[test]
fn counted_shares_add_up_to_one() {
    for (name, arguments) in [
        ("closures", &["20"][..]),
        ("signals", &["20", "timer"]),
        ("signals", &["20", "altstack"]),
        // Its handlers are rare and long.
        ("signals", &["500", "altstack-long"]),
    ] {
        let Some(output) = start(name, arguments) else { continue };
        let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
        let sum: f64 = truth.shares.values().sum();
        assert!((sum - 1.0).abs() < 1e-4, "{name}: {truth:?}");
        assert!(truth.shares.values().all(|share| *share > 0.0), "{name}: {truth:?}");
    }
}

#[test]
fn jit_publishes_its_names() {
    let Some(program) = build_or_skip("jit", Variant::Release) else { return };
    let folder = lab_folder();
    let run_mode = |mode| {
        let output =
            run(Command::new(&program).args(["5", mode]).current_dir(&folder), Duration::from_secs(20));
        Truth::parse(&String::from_utf8_lossy(&output.unwrap().stdout)).counts["pid"]
    };
    let map = format!("/tmp/perf-{}.map", run_mode("perfmap"));
    let text = std::fs::read_to_string(&map).unwrap();
    std::fs::remove_file(map).unwrap();
    assert!(text.lines().count() == 2 && text.contains(" jit_hot\n"), "{text}");

    let dump = folder.join(format!("jit-{}.dump", run_mode("jitdump")));
    let bytes = std::fs::read(&dump).unwrap();
    std::fs::remove_file(dump).unwrap();
    assert_eq!(bytes[..4], 0x4a69_5444_u32.to_ne_bytes());
    assert!(bytes.windows(9).any(|w| w == b"jit_warm\0"));
}

/// Each variant is what its name says, as far as its files show.
#[test]
fn variants_have_the_expected_sections() {
    let contains = |path: &Path, section: &[u8]| {
        std::fs::read(path).unwrap().windows(section.len()).any(|bytes| bytes == section)
    };
    for name in ["inlined", "chain"] {
        for variant in Variant::ALL {
            let Some(program) = build_or_skip(name, variant) else { continue };
            let output = run(Command::new(&program).arg("5"), Duration::from_secs(60)).unwrap();
            assert!(output.status.success(), "{name} {variant:?}: {output:?}");
            let sibling = |suffix| PathBuf::from(format!("{}.{suffix}", program.display()));
            match variant {
                Variant::Stripped => assert!(!contains(&program, b"\0.symtab\0"), "{name}"),
                Variant::FramePointers => assert!(!contains(&program, b"\0.debug_frame\0"), "{name}"),
                Variant::DebugFrame if name == "chain" => {
                    assert!(contains(&program, b"\0.debug_frame\0"), "{name}");
                }
                Variant::SplitPacked => assert!(sibling("dwp").exists(), "{name}"),
                Variant::DebugLink => {
                    assert!(contains(&program, b"\0.gnu_debuglink\0"), "{name}");
                    assert!(!contains(&program, b"\0.debug_info\0"), "{name}");
                    assert!(contains(&sibling("debug"), b"\0.debug_info\0"), "{name}");
                }
                _ => {}
            }
        }
    }
}

#[test]
fn churn_paths_are_all_different() {
    let Some(churn) = build_or_skip("churn", Variant::Release) else { return };
    for mode in ["same", "mix"] {
        ChurnPaths::read(&churn, mode).unwrap();
        let output = run(Command::new(&churn).args(["paths", mode]), Duration::from_secs(20)).unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        // Even the outermost ten frames alone identify the path.
        let outermost: std::collections::HashSet<Vec<&str>> =
            text.lines().map(|line| line.split(' ').skip(1).take(10).collect()).collect();
        assert_eq!(outermost.len(), 64, "{mode}");
    }
}

#[test]
fn exits_exits_as_requested() {
    use std::os::unix::process::ExitStatusExt;
    let Some(code) = start("exits", &["code", "42"]) else { return };
    assert_eq!(code.status.code(), Some(42));
    assert_eq!(start("exits", &["signal", "15"]).unwrap().status.signal(), Some(15));
    assert_eq!(start("exits", &["abort"]).unwrap().status.signal(), Some(6));
    let print = start("exits", &["print"]).unwrap();
    assert_eq!((&print.stdout[..], &print.stderr[..]), (&b"to stdout\n"[..], &b"to stderr\n"[..]));
    let report = String::from_utf8(start("exits", &["report"]).unwrap().stdout).unwrap();
    let mut waits = Command::new(build_or_skip("exits", Variant::Release).unwrap())
        .arg("wait")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // SIGTERM would end it before its handler is set. The first line says that it is set.
    let mut ready = [0; 6];
    std::io::Read::read_exact(waits.stdout.as_mut().unwrap(), &mut ready).unwrap();
    Command::new("kill").arg(waits.id().to_string()).status().unwrap();
    assert_eq!(waits.wait_with_output().unwrap().status.code(), Some(40 + 15));
    for word in ["argv 1 \"report\"", "cwd ", "env \"PATH\"", "status SigBlk", "files 0 1 2"] {
        assert!(report.contains(word), "{word}: {report}");
    }
}
