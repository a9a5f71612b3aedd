//! Warnings and grades of artificial profiles.

use whyslow_profile::{Experiment, Lengths, Metric, MetricId, Module, SpecialFrame, Syscalls, WaitFrame};

use super::*;
use crate::testing;

fn ids(quality: &Quality) -> Vec<&'static str> {
    quality.warnings.iter().map(Warning::id).collect()
}

#[test]
fn recursion_that_is_partly_left_out_is_a_note() {
    let mut profile = testing::profile("main;f;[recursion left out];f;f 300\nmain;g 700");
    let quality = Quality::of(&profile);
    assert_eq!((quality.grade, quality.left_out_share), (Grade::Good, 0.3));
    let text = |quality: &Quality| quality.remarks()[0].text.clone();
    assert_eq!(
        text(&quality),
        "30.0 % of the samples are in recursion deeper than 128 frames: calls that their stacks repeat are shown as \
         [recursion left out]"
    );
    profile.meta.counters.deepest_stack = 11_142;
    assert!(text(&Quality::of(&profile)).contains("in recursion up to 11,142 frames deep"));
}

#[test]
fn a_clean_profile_is_good() {
    let mut profile = testing::profile("main;a 300");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.kernel = KernelView::Included;
    let quality = Quality::of(&profile);
    assert_eq!(quality.grade, Grade::Good);
    assert_eq!(quality.warnings, []);
    assert_eq!(quality.expected_samples, Some(300));
    assert_eq!(quality.achieved_share(), Some(1.0));
}

/// Waits of a program that hardly computes: 4 ms with complete stacks, 3 with truncated ones, 2 without, 1
/// queued for a CPU.
fn waits() -> (Profile, MetricId) {
    let mut profile = testing::profile(
        "main;std::thread::sleep;sys_hrtimer_nanosleep 4
         [truncated];a;sys_futex_wait 3
         [short] 2
         main;a;[queue] 1",
    );
    for module in &mut profile.modules {
        let frame = match profile.strings.get(module.path) {
            "/usr/lib/short" => WaitFrame::TooShort,
            "/usr/lib/queue" => WaitFrame::Queued,
            _ => continue,
        };
        let name = profile.strings.push(frame.label());
        *module = Module::special(SpecialFrame::Waiting(frame), name);
    }
    let waits = std::mem::take(&mut profile.samples[0]);
    let row = profile.set_metric(Metric::off_cpu_time(), waits);
    profile.meta.kernel = KernelView::Hidden;
    profile.meta.counters.throttled = 3;
    (profile, row)
}

#[test]
fn waits_are_judged_by_their_stacks_and_not_by_cpu_samples() {
    let (mut profile, metric) = waits();
    profile.meta.system_time_ns = profile.meta.user_time_ns;
    assert_eq!(ids(&Quality::of(&profile)), ["no-samples", "throttled", "kernel-hidden"]);
    let quality = Quality::of_metric(&profile, metric);
    let known = quality.waits.as_ref().unwrap();
    assert_eq!((known.waits, known.whole, quality.samples), (9, 4, 10));
    assert_eq!((known.whole_share, known.no_stack_share), (4.0 / 9.0, 2.0 / 9.0));
    assert!(!known.in_turns && !known.snapshots);
    assert_eq!(ids(&quality), ["truncated-stacks", "waits-unseen"]);
    assert_eq!(quality.grade, Grade::Fair);
    profile.meta.notes.push(RecordingNote::WaitSnapshots.into());
    profile.meta.notes.push(RecordingNote::WaitsSampled { stacks: 1, waits: 2 }.into());
    profile.meta.counters.lost_samples = 10;
    let quality = Quality::of_metric(&profile, metric);
    let known = quality.waits.as_ref().unwrap();
    assert!(known.in_turns && known.snapshots);
    assert_eq!(quality.trigger, Trigger::Ptrace);
    let lost = |warning: &&Warning| matches!(warning, Warning::Lost { lost: 10, share, .. } if *share == 0.5);
    assert!(quality.warnings.iter().any(|warning| lost(&warning)), "{:?}", quality.warnings);
    assert_eq!(Quality::of_metric(&profile, profile.main_metric()).waits, None);
}

/// Many system calls fill the ring buffers; the lost share is of all records.
#[test]
fn lost_share_includes_records_of_system_calls() {
    let mut profile = testing::profile("main;a 300");
    profile.meta.counters.lost_samples = 100;
    let lost_share = |profile: &Profile| {
        let quality = Quality::of(profile);
        quality.warnings.iter().find_map(|warning| match warning {
            Warning::Lost { share, .. } => Some(*share),
            _ => None,
        })
    };
    assert_eq!(lost_share(&profile), Some(0.25));
    let samples = &profile.samples[0];
    profile.syscalls.push(Syscalls {
        time_ns: 0,
        thread: samples.thread[0],
        stack: samples.stack[0],
        call: profile.modules[0].path,
        file: None,
        error: None,
        count: 300,
        spread: 0,
        total_ns: 0,
        max_ns: 0,
        bytes: 0,
        lengths: Lengths::default(),
    });
    assert_eq!(lost_share(&profile), Some(0.1));
}

#[test]
fn program_that_never_waits_has_good_wait_quality() {
    let (mut profile, metric) = waits();
    profile.samples[metric.index()] = Default::default();
    let quality = Quality::of_metric(&profile, metric);
    assert_eq!((quality.grade, quality.waits.unwrap().waits), (Grade::Good, 0));
    assert_eq!(quality.warnings, []);
}

#[test]
fn shares_are_by_value() {
    let quality = Quality::of(&testing::profile(
        "main;a 50\n[truncated];b 25\nmain;[libz.so] 15\n[libz.so];[unknown] 10",
    ));
    assert_eq!(quality.truncated_share, 0.25);
    assert_eq!(quality.unresolved_share, 0.25);
    assert_eq!(quality.nameless_share, 0.10);
    assert_eq!(ids(&quality), ["too-few-samples", "stripped", "truncated-stacks", "unknown-code"]);
    assert_eq!(quality.grade, Grade::Fair);
}

#[test]
fn counters_become_warnings_with_a_fix() {
    let mut profile = testing::profile("main;a 300");
    testing::sampled_by(&mut profile, Trigger::Cycles, 1000);
    let meta = &mut profile.meta;
    meta.kernel = KernelView::Hidden;
    meta.system_time_ns = meta.user_time_ns;
    meta.user_time_ns *= 2;
    meta.counters.lost_samples = 100;
    meta.counters.throttled = 2;
    meta.counters.unobservable_execs = 1;
    meta.counters.lost_records = 3;
    meta.notes.push(Note::Text("a note".to_owned()));
    profile.sealed = false;
    let quality = Quality::of(&profile);
    assert_eq!(
        ids(&quality),
        [
            "lost-samples",
            "fewer-samples",
            "incomplete",
            "lost-records",
            "throttled",
            "kernel-hidden",
            "unobservable-execs",
            "recorder-note"
        ]
    );
    assert_eq!(quality.grade, Grade::Poor);
    assert_eq!(quality.expected_samples, Some(600));
    assert!((quality.missing_kernel_share - 1.0 / 3.0).abs() < 1e-12);
    assert!(quality.warnings.iter().take(7).all(|warning| warning.fix().is_some()));
    let fixes: String = quality.warnings.iter().filter_map(Warning::fix).collect();
    assert!(fixes.contains("-F 500") && !fixes.contains("-F 4000"), "{fixes}");
}

#[test]
fn agent_time_is_separate_from_the_programs() {
    let profile = testing::profile(
        "main;[whyslow-agent.so] 20
         main;[whyslow-agent.so];[kernel] 10
         main;[whyslow-agent.so];malloc 70
         main;[kernel] 100
         main 200",
    );
    let quality = Quality::of(&profile);
    assert_eq!(ids(&quality), ["agent-time"]);
    assert!(quality.warnings[0].to_string().starts_with("7.5 % of the CPU time is whyslow's own"));
    assert_eq!(quality.grade, Grade::Good);
}

#[test]
fn kernel_names_matter_only_when_the_kernel_does() {
    let mut profile = testing::profile("main;[kernel] 10\nmain 290");
    profile.meta.kernel = KernelView::Unnamed;
    assert_eq!(ids(&Quality::of(&profile)), ["kernel-names-hidden"]);
    let mut profile = testing::profile("main;[kernel] 1\nmain 299");
    profile.meta.kernel = KernelView::Unnamed;
    assert_eq!(ids(&Quality::of(&profile)), [""; 0]);
}

#[test]
fn imported_recording_without_names_is_not_good() {
    for (named, unnamed, grade) in [(950, 50, Grade::Good), (800, 200, Grade::Fair), (2, 998, Grade::Poor)] {
        let mut profile = testing::profile(&format!("main {named}\nmain;[libc.so.6] {unnamed}"));
        profile.meta.imported_from = Some("perf script".to_owned());
        let quality = Quality::of(&profile);
        assert_eq!(quality.grade, grade, "{:?}", quality.warnings);
    }
}

#[test]
fn hidden_kernel_time_matters_only_when_there_is_some() {
    let mut profile = testing::profile("main 300");
    profile.meta.kernel = KernelView::Hidden;
    assert_eq!(ids(&Quality::of(&profile)), [""; 0], "the program spent none");
    profile.meta.user_time_ns = 0;
    let quality = Quality::of(&profile);
    assert_eq!(ids(&quality), ["kernel-hidden"]);
    assert!(!quality.warnings[0].to_string().contains("0.0 %"), "{}", quality.warnings[0]);
}

#[test]
fn singular_and_plural_agree() {
    let mut profile = testing::profile("main 1");
    profile.meta.counters.lost_samples = 1;
    profile.meta.counters.lost_records = 1;
    let texts = Quality::of(&profile).warnings.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(
        texts,
        [
            "only 1 sample: shares are rough (up to ±98 points)",
            "1 sample was lost (50.0 % of all)",
            "1 lost record of mapped files, threads or processes: some names may be missing"
        ]
    );
}

#[test]
fn missing_unwind_tables_and_missing_bytes_have_different_warnings() {
    let mut profile = testing::profile("[truncated];b 100\nmain 200");
    profile.meta.counters.no_unwind_info = 90;
    assert_eq!(ids(&Quality::of(&profile)), ["no-unwind-info"]);
}

#[test]
fn nothing_recorded_is_poor() {
    let quality = Quality::of(&Profile::default());
    assert_eq!(quality.grade, Grade::Poor);
    assert_eq!(ids(&quality), ["no-samples", "incomplete"]);
}

fn an_experiment() -> Experiment {
    Experiment {
        start_ns: 0,
        length_ns: 100,
        target: None,
        speedup: 0.0,
        delay_ns: 0,
        hits: 0,
        samples: 0,
        queued: 0.0,
        busy_threads: 1,
        waits: 0,
        run: 0,
    }
}

#[test]
fn delays_of_experiments_are_no_stacks_that_miss_their_callers() {
    let mut profile = testing::profile(
        "[truncated];[whyslow-agent.so] 20
         main 380",
    );
    profile.meta.counters.cut_at_signal = 20;
    assert!(ids(&Quality::of(&profile)).contains(&"cut-at-signal"));
    profile.causal.experiments.push(an_experiment());
    assert_eq!(ids(&Quality::of(&profile)), ["agent-time"]);
}

#[test]
fn an_imported_file_of_experiments_is_not_blamed_for_having_no_samples() {
    let mut profile = Profile::default();
    profile.meta.imported_from = Some("coz".to_owned());
    profile.causal.experiments.push(an_experiment());
    assert!(!ids(&Quality::of(&profile)).contains(&"no-samples"));
    profile.causal.experiments.clear();
    assert!(ids(&Quality::of(&profile)).contains(&"no-samples"));
}

#[test]
fn reports_time_without_samples_without_blaming_the_samples() {
    let mut profile = testing::profile("main;a 300\nshort: [not sampled] 100");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.sampling = Sampling::Threads;
    profile.meta.kernel = KernelView::Included;
    profile.meta.counters.unsampled_threads = 50;
    let quality = Quality::of(&profile);
    assert_eq!((quality.not_sampled_share, quality.samples), (0.25, 300));
    assert_eq!((quality.unresolved_share, quality.nameless_share), (0.0, 0.0));
    assert_eq!(ids(&quality), ["not-sampled"]);
    assert_eq!(
        quality.warnings[0].to_string(),
        "25.0 % of the CPU time has no sample (50 threads have none at all): it is shown as [not sampled] under its \
         process and thread"
    );
}

#[test]
fn hidden_kernel_time_is_named_once_and_only_when_there_is_some() {
    let mut profile = testing::profile("main;a 300\n[not sampled] 100");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    let meta = &mut profile.meta;
    meta.sampling = Sampling::Threads;
    meta.kernel = KernelView::Hidden;
    (meta.user_time_ns, meta.system_time_ns) = (300_000_000, 100_000_000);
    let quality = Quality::of(&profile);
    assert_eq!(ids(&quality), ["kernel-hidden"]);
    assert_eq!(
        quality.warnings[0].to_string(),
        "no permission to sample the kernel: its 25.0 % of the CPU time is shown as [not sampled]"
    );
    let mut profile = testing::profile("main;a 300");
    profile.meta.kernel = KernelView::Hidden;
    (profile.meta.user_time_ns, profile.meta.system_time_ns) = (300_000_000, 1000);
    assert_eq!(ids(&Quality::of(&profile)), [""; 0], "0.0 % is not worth a warning");
    (profile.meta.user_time_ns, profile.meta.system_time_ns) = (0, 0);
    let message = Quality::of(&profile).warnings[0].to_string();
    assert_eq!(message, "kernel time is not in the profile", "how much is not known of attached processes");
}

#[test]
fn reports_still_running_processes_once() {
    let row = whyslow_profile::StillRunning { name: "daemon".to_owned(), processes: 1 };
    let note = HeapNote::ProcessesWentOn { pid: 7, name: "daemon".to_owned(), more: 0 };
    let mut profile = testing::profile("main;a 300");
    let heap = "main;b : allocations=9 frees=9 bytes_allocated=9";
    testing::add_heap(&mut profile, heap);
    let mut alone = testing::heap_profile(heap);
    for profile in [&mut profile, &mut alone] {
        profile.meta.still_running = vec![row.clone()];
        profile.meta.notes = vec![note.clone().into()];
    }
    let ids =
        |profile: &Profile| Quality::of(profile).remarks().iter().map(|remark| remark.id).collect::<Vec<_>>();
    assert_eq!(ids(&profile), ["still-running"]);
    assert_eq!(ids(&alone), ["processes-went-on"]);
    alone.meta.notes.clear();
    assert_eq!(ids(&alone), ["still-running"]);
}

#[test]
fn names_still_running_processes() {
    let mut profile = testing::profile("main;a 300");
    let row = |name: &str, processes| whyslow_profile::StillRunning { name: name.to_owned(), processes };
    profile.meta.still_running = vec![row("app", 1), row("worker", 2)];
    let message = |profile: &Profile| Quality::of(profile).warnings[0].to_string();
    assert_eq!(
        message(&profile),
        "3 processes were still running when the recording ended (app, worker (×2)): their later time is not in the profile"
    );
    profile.meta.exit = Some(whyslow_profile::ExitStatus::Code(0));
    profile.meta.still_running = vec![row("daemon", 1)];
    assert_eq!(
        message(&profile),
        "1 process was left running by the program when it ended (daemon): its later time is not in the profile"
    );
}

/// Events of whole CPUs share their rings with every process of the machine.
#[test]
fn records_that_other_processes_lost_are_not_the_programs() {
    let mut profile = testing::profile("main;a 1120");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.sampling = Sampling::Cpus;
    profile.meta.kernel = KernelView::Included;
    profile.meta.user_time_ns = 1_114_000_000;
    profile.meta.counters.lost_samples = 4496;
    let quality = Quality::of(&profile);
    assert_eq!((quality.lost, quality.grade, quality.warnings.len()), (0, Grade::Good, 0));
    assert!(quality.achieved_share().is_some_and(|share| share < 1.01), "{:?}", quality.achieved_share());
    profile.meta.user_time_ns = 2_240_000_000;
    let quality = Quality::of(&profile);
    assert_eq!((quality.lost, quality.grade), (1120, Grade::Poor));
    assert_eq!(quality.warnings[0].to_string(), "1,120 samples were lost (50.0 % of all)");
    profile.meta.sampling = Sampling::Threads;
    assert_eq!(Quality::of(&profile).lost, 4496, "rings of threads hold nothing else");
}

#[test]
fn cpu_time_without_samples_is_named_first_and_not_denied() {
    let mut profile = testing::profile("main;a 300");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.sampling = Sampling::Cpus;
    profile.samples[0] = Default::default();
    profile.meta.user_time_ns = 496_000_000;
    let quality = Quality::of(&profile);
    assert_eq!(
        quality.warnings[0].to_string(),
        "the recording has no samples, although the program used 496 ms of CPU time"
    );
    let fixes: String = quality.warnings.iter().filter_map(Warning::fix).collect();
    assert!(!fixes.contains("almost no CPU time"), "{fixes}");
    let mut profile = testing::profile("main;a 60");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.sampling = Sampling::Cpus;
    profile.meta.user_time_ns = 900_000_000;
    let quality = Quality::of(&profile);
    assert_eq!(ids(&quality), ["fewer-samples", "too-few-samples"]);
    assert_eq!(quality.grade, Grade::Poor);
}

/// The kernel estimates its own share of the CPU time; the time without samples is measured.
#[test]
fn hidden_kernel_time_is_never_more_than_the_time_without_samples() {
    let mut profile = testing::profile("main;a 59\n[not sampled] 41");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    let meta = &mut profile.meta;
    meta.sampling = Sampling::Threads;
    meta.kernel = KernelView::Hidden;
    (meta.user_time_ns, meta.system_time_ns) = (51_900_000, 48_100_000);
    let quality = Quality::of(&profile);
    assert_eq!((quality.missing_kernel_share, quality.not_sampled_share), (0.41, 0.41));
    let texts: Vec<String> = quality.warnings.iter().map(ToString::to_string).collect();
    assert!(texts.iter().all(|text| !text.contains("48.1")), "{texts:?}");
}

#[test]
fn what_was_requested_and_is_missing_comes_first_and_lowers_the_grade() {
    let mut profile = testing::profile("main;a 300");
    profile.meta.kernel = KernelView::Hidden;
    (profile.meta.user_time_ns, profile.meta.system_time_ns) = (300_000_000, 100_000_000);
    profile.meta.notes.push(RecordingNote::WakersNotRecorded.into());
    let quality = Quality::of(&profile);
    let ids: Vec<&str> = quality.remarks().iter().map(|remark| remark.id).collect();
    assert_eq!((ids, quality.grade), (vec!["wakers-not-recorded", "kernel-hidden"], Grade::Fair));
}

#[test]
fn an_event_is_graded_by_how_much_of_it_was_recorded() {
    let graded = |recorded| {
        let mut profile = testing::profile("main;a 300");
        let faults = profile.samples[0].clone();
        let name = Metric::event("page-faults", Unit::Count, whyslow_profile::Origin::Counted);
        let metric = profile.set_metric(name, faults);
        let event = "page-faults".to_owned();
        let missed = RecordingNote::EventsMissed { event, happened: 65_614, recorded, period: 1 };
        profile.meta.notes.push(missed.into());
        Quality::of_metric(&profile, metric).grade
    };
    assert_eq!((graded(31_905), graded(60_000)), (Grade::Poor, Grade::Fair));
}

/// The kernel accounts the program and the children that it waited for.
#[test]
fn samples_of_a_child_that_outlives_the_program_have_no_expected_number() {
    let mut profile = testing::profile("main;a 1120");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.sampling = Sampling::Cpus;
    profile.meta.kernel = KernelView::Included;
    profile.meta.user_time_ns = 3_000_000;
    let quality = Quality::of(&profile);
    assert_eq!((quality.expected_samples, quality.achieved_share()), (None, None));
}
