//! Attaching without permission for perf events: running threads are briefly stopped with ptrace.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use whyslow_lab_harness::{Truth, Variant, binomial_ok, build_or_skip, run};
use whyslow_profile::{KernelView, Note, RecordingNote, Sampling, Trigger, file};

use crate::recorded::{PATIENCE, Recorded, refused, twice_at_most, whyslow};

/// A program that already runs, killed at the end of the test.
pub(crate) struct Started(Child);

impl Started {
    pub(crate) fn new(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        let started = Self(command.args(args).stdout(Stdio::null()).spawn().unwrap());
        // Until its exec, it is a copy of this process.
        while std::fs::read_link(format!("/proc/{}/exe", started.pid())).ok() != program.canonicalize().ok() {
            std::thread::yield_now();
        }
        started
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Samples a process for this long.
fn sample(pid: u32, duration: &str) -> Recorded {
    sample_into(tempfile::tempdir().unwrap(), pid, duration)
}

/// The file that appears in a folder as soon as samples are taken.
const FILE: &str = "run.whyslow";

/// Waits until a recorder takes samples.
fn until_sampling(folder: &Path) {
    let patience = Instant::now() + PATIENCE;
    while !folder.join(FILE).exists() {
        assert!(Instant::now() < patience, "nothing is recorded");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn sample_into(folder: tempfile::TempDir, pid: u32, duration: &str) -> Recorded {
    let mut command = whyslow(folder.path());
    command.args(["record", "--sampler", "ptrace", "-o", FILE, "--duration", duration]);
    let output = run(command.args(["-p", &pid.to_string()]), PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let profile = file::read(&folder.path().join(FILE)).unwrap();
    Recorded { profile, truth: Truth::default(), folder }
}

fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat[stat.rfind(')').unwrap() + 2..].chars().next().unwrap()
}

#[test]
fn finds_fixed_ratios_on_one_thread_and_on_several() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    for threads in ["1", "4"] {
        let started = Started::new(&program, &[threads, "600000"]);
        twice_at_most(|| {
            const ENOUGH_SAMPLES: u64 = 20;
            // A program that shares its CPU with others needs longer for them.
            let sampled = ["2s", "8s", "32s"].iter().map(|duration| sample(started.pid(), duration));
            let recorded = sampled.into_iter().find(|recorded| recorded.samples() >= ENOUGH_SAMPLES);
            let recorded = recorded.expect("enough samples");
            let meta = &recorded.profile.meta;
            assert_eq!((meta.sampling, meta.kernel), (Sampling::Ptrace, KernelView::Callers));
            assert_eq!(recorded.profile.main_sampler().trigger, Trigger::Ptrace);
            recorded.assert_complete("ratio");
            let samples = recorded.samples();
            for (function, truth) in [("alpha", 0.5), ("beta", 0.3), ("gamma", 0.2)] {
                let share = recorded.total_share(function);
                if !binomial_ok(share, truth, samples) {
                    return Err(format!("{function} has {share} of {samples}"));
                }
            }
            Ok(())
        });
    }
}

/// Samples a shell that waits for input before it runs a script. Also returns its output.
fn sample_script(script: &str) -> (Recorded, String) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("read go; {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let (pid, mut go) = (shell.id(), shell.stdin.take().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let recorded = std::thread::scope(|scope| {
        let sampling = scope.spawn(move || sample_into(folder, pid, "240s"));
        until_sampling(&path);
        go.write_all(b"\n").unwrap();
        sampling.join().unwrap()
    });
    let output = shell.wait_with_output().unwrap();
    assert!(output.status.success());
    (recorded, String::from_utf8(output.stdout).unwrap())
}

/// Seconds in the shell's `1m2.345s`.
fn seconds(word: &str) -> f64 {
    let (minutes, seconds) = word.trim_end_matches('s').split_once('m').unwrap();
    minutes.parse::<f64>().unwrap() * 60.0 + seconds.parse::<f64>().unwrap()
}

#[test]
fn samples_stand_for_the_cpu_time_that_the_kernel_counts() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let (recorded, printed) = sample_script(&format!("{} 2 1000 >/dev/null; times", program.display()));
    let used: f64 = printed.split_whitespace().map(seconds).sum();
    let sampled = recorded.profile.samples[0].value.iter().sum::<u64>() as f64 / 1e9;
    assert!((sampled / used - 1.0).abs() < 0.1, "samples stand for {sampled} s, {used} s were used");
}

/// Waiting threads are not touched, and a process stopped by a signal remains stopped.
#[test]
fn waiting_and_stopped_processes_are_left_alone() {
    let sleeping = Started::new(Path::new("/bin/sleep"), &["1000"]);
    let recorded = sample(sleeping.pid(), "200ms");
    assert_eq!((recorded.samples(), state(sleeping.pid())), (0, 'S'));

    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let stopped = Started::new(&program, &["1", "600000"]);
    Command::new("kill").args(["-STOP", &stopped.pid().to_string()]).status().unwrap();
    while state(stopped.pid()) != 'T' {
        std::thread::yield_now();
    }
    let recorded = sample(stopped.pid(), "200ms");
    assert_eq!((recorded.samples(), state(stopped.pid())), (0, 'T'));
}

#[test]
fn a_program_keeps_its_own_signal_handling() {
    let Some(program) = build_or_skip("timer_hostile", Variant::Release) else { return };
    let mut started = Started::new(&program, &["everything", "300"]);
    let recorded = sample(started.pid(), "240s");
    assert!(started.0.wait().unwrap().success());
    assert!(recorded.samples() > 0);
}

/// Whatever happens to the recorder, no thread is left stopped or traced.
#[test]
fn a_killed_recorder_releases_its_threads() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let started = Started::new(&program, &["4", "600000"]);
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let mut command = whyslow(folder.path());
        command.args(["record", "-q", "--sampler", "ptrace", "-o", FILE, "-p", &started.pid().to_string()]);
        let mut recorder = command.spawn().unwrap();
        until_sampling(folder.path());
        std::thread::sleep(Duration::from_millis(100));
        recorder.kill().unwrap();
        recorder.wait().unwrap();
        std::fs::remove_file(folder.path().join(FILE)).unwrap();
        let status = std::fs::read_to_string(format!("/proc/{}/status", started.pid())).unwrap();
        assert!(status.contains("TracerPid:\t0\n"), "{status}");
        assert!(matches!(state(started.pid()), 'R' | 'S'), "{status}");
    }
}

#[test]
fn follows_children_and_executed_programs() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let program = program.display();
    // The shell executes the first one as a child, and becomes the second.
    let (answer, _) = sample_script(&format!("{program} 1 600; exec {program} 1 600"));
    let profile = &answer.profile;
    let names: Vec<&str> = profile.processes.iter().map(|process| profile.text(process.name)).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names.iter().all(|name| name.starts_with("ratio")), "{names:?}");
    let of = |name: &str| answer.total_share(name);
    assert!(of("alpha") + of("beta") + of("gamma") > 0.8, "{}", of("alpha"));
}

/// Without permission for events, ptrace sampling is chosen automatically, and reported.
#[test]
fn a_running_process_is_sampled_without_permission_for_perf_events() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let started = Started::new(&program, &["1", "600000"]);
    let pid = started.pid().to_string();
    let Some((output, folder)) = refused(&[], &["-o", "run.whyslow", "--duration", "500ms", "-p", &pid])
    else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("ratio::alpha"), "{said}");
    let profile = file::read(&folder.path().join("run.whyslow")).unwrap();
    assert_eq!(profile.meta.sampling, Sampling::Ptrace);
    let is_refusal =
        |note: &Note| matches!(note, Note::Recording(RecordingNote::EventsRefused { ptrace: true, .. }));
    assert!(profile.meta.notes.iter().any(is_refusal), "{:?}", profile.meta.notes);
}

#[test]
fn a_refused_process_gets_an_error_with_the_next_step() {
    let sleeping = Started::new(Path::new("/bin/sleep"), &["1000"]);
    let pid = sleeping.pid().to_string();
    let error_of = |command: &mut Command| {
        let output = run(command, PATIENCE).unwrap();
        assert_eq!(output.status.code(), Some(125));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let sampler = ["record", "--sampler", "ptrace"];
    let own = error_of(whyslow(folder.path()).args(sampler).arg("true"));
    assert!(own.contains("--sampler timer"), "{own}");
    let events = error_of(whyslow(folder.path()).args(sampler).args(["--user-only", "-p", &pid]));
    assert!(events.contains("--sampler perf"), "{events}");
    let timer = error_of(whyslow(folder.path()).args(["record", "--sampler", "timer", "-p", &pid]));
    assert!(timer.contains("--sampler ptrace"), "{timer}");
}
