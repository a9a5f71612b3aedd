//! A recording that is steered and watched while it runs.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use whyslow_capture::{Control, Options, Order, Progress, Recorder, SamplerChoice, Target, Watch};
use whyslow_lab_harness::{Variant, build_or_skip};
use whyslow_profile::{Builder, Profile, file};

use crate::ptrace::Started;
use crate::recorded::{PATIENCE, has_perf_events};

/// Counts the rows that it is shown.
struct Counts(Rc<Cell<usize>>);

impl Watch for Counts {
    fn rows(&mut self, rows: &Builder) {
        self.0.set(self.0.get() + rows.pending_samples());
    }
}

/// Waits until the recording is so far.
fn until(control: &Control, is_so_far: impl Fn(Progress) -> bool) -> Progress {
    let patience = Instant::now() + PATIENCE;
    while !is_so_far(control.progress()) {
        assert!(Instant::now() < patience, "{:?}", control.progress());
        std::thread::sleep(Duration::from_millis(2));
    }
    control.progress()
}

/// Records a process, with a pause in between.
fn record_with_pause(pid: u32, options: &Options, output: &Path) -> Profile {
    const ENOUGH: u64 = 20;
    let recorder = Recorder::new().unwrap();
    let (control, seen) = (recorder.control(), Rc::default());
    let recorder = recorder.watched_by(Box::new(Counts(Rc::clone(&seen))));
    let steering = std::thread::spawn(move || {
        until(&control, |progress| progress.samples >= ENOUGH);
        control.give(Order::Mark("before".to_owned()));
        control.give(Order::Pause);
        let paused = until(&control, |progress| progress.is_paused);
        let gap = Duration::from_millis(300);
        let later = until(&control, |progress| progress.elapsed >= paused.elapsed + gap);
        assert_eq!((later.samples, later.is_paused), (paused.samples, true));
        control.give(Order::Resume);
        until(&control, |progress| !progress.is_paused && progress.samples >= later.samples + ENOUGH);
        control.give(Order::Stop);
    });
    let recording = recorder.record(&Target::Processes(vec![pid]), options, output).unwrap();
    steering.join().unwrap();
    assert!(recording.write_error.is_none() && recording.exit.is_none());
    drop(recording);
    let profile = file::read(output).unwrap();
    let rows: usize = profile.samples.iter().map(whyslow_profile::Samples::len).sum();
    assert_eq!(seen.get(), rows, "each row is seen once");
    profile
}

fn assert_gap(profile: &Profile) {
    let span = |name| profile.spans.iter().find(|span| profile.text(span.name) == name).unwrap();
    let (pause, mark) = (span("recording paused"), span("before"));
    assert!(pause.end_ns - pause.start_ns >= 300_000_000, "{pause:?}");
    assert_eq!(mark.start_ns, mark.end_ns, "a moment");
    for samples in &profile.samples {
        // What the pause ends has a row at its start.
        let is_inside = |time: &&u64| (pause.start_ns + 1..pause.end_ns).contains(*time);
        assert_eq!(samples.time_ns.iter().filter(is_inside).count(), 0, "{pause:?}");
    }
    let cpu_time = &profile.samples[0].time_ns;
    assert!(cpu_time.iter().any(|time| *time < pause.start_ns), "samples before the pause");
    assert!(cpu_time.iter().any(|time| *time >= pause.end_ns), "samples after it");
}

#[test]
fn a_paused_recording_has_a_gap_and_goes_on_after_it() {
    let Some(program) = build_or_skip("ratio", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let started = Started::new(&program, &["2", "600000"]);
    let by_ptrace = Options { sampler: SamplerChoice::Ptrace, off_cpu: true, ..Options::default() };
    assert_gap(&record_with_pause(started.pid(), &by_ptrace, &folder.path().join("ptrace.whyslow")));
    if has_perf_events() {
        let waits = Options { off_cpu: true, ..Options::default() };
        let profile = record_with_pause(started.pid(), &waits, &folder.path().join("perf.whyslow"));
        assert_gap(&profile);
        let recorded_ns: u64 = {
            let pause = profile.spans.iter().find(|span| profile.text(span.name) == "recording paused");
            profile.meta.duration_ns - pause.map_or(0, |span| span.end_ns - span.start_ns)
        };
        for thread in &profile.threads {
            let times = thread.times.unwrap_or_default();
            let sum = times.ran_ns + times.queued_ns + times.blocked_ns;
            assert!(sum <= recorded_ns + 10_000_000, "{sum} of {recorded_ns} ns: {times:?}");
        }
    }
}
