//! Known answers, and the shapes that `perf script` really prints.

use super::*;
use whyslow_profile::CodeKind;

const SAMPLE: &str = "\
# a comment
my app 100/101 [001]  12.000001500:    1003009 cpu-clock:u: \n\
\t    55d0c7a00012 core::iter::next+0x12 (inlined)\n\
\t    55d0c7a00012 app::sum+0x12 (/home/me/app)\n\
\t    55d0c7a00030 app::main+0x30 (/home/me/app)\n\
\n\
   :-1   100/100 [000]  12.5:          7 page-faults: \n\
\tffffffff81000010 clear_page_erms+0x10 ([kernel.kallsyms])\n\
\t    7f0000000000 [unknown] (/usr/lib/libfoo.so.1)\n\
\t               0 [unknown] ([unknown])\n\
\n\
worker x 100/102 [000]  12.600000: 1000 cpu-clock:u:  55d0c7a00012 add(int, int)+0x3 (/tmp/x (deleted))\n";

fn import(text: &str) -> Imported {
    read(text.as_bytes(), &ImportOptions::default()).expect("it is perf script text")
}

/// The stacks of a metric, outermost first, inlined frames with a plus.
fn stacks(imported: &Imported, metric: usize) -> Vec<String> {
    let profile = &imported.profile;
    let name = |location: LocationId| {
        let frames = profile.frames.of(location).iter();
        let names: Vec<&str> =
            frames.map(|frame| profile.text(profile.functions[frame.function.index()].name)).collect();
        if names.is_empty() { "?".to_owned() } else { names.join("+") }
    };
    let samples = &profile.samples[metric];
    (0..samples.len())
        .map(|row| {
            let mut names: Vec<String> = profile.locations_of(samples.stack[row]).map(name).collect();
            names.reverse();
            format!("{} {} {}", names.join(";"), samples.time_ns[row], samples.value[row])
        })
        .collect()
}

#[test]
fn samples_are_read_with_threads_events_and_inlined_frames() {
    let imported = import(SAMPLE);
    let profile = &imported.profile;
    let metrics: Vec<&str> = profile.metrics.iter().map(|metric| profile.text(metric.name)).collect();
    assert_eq!(metrics, ["cpu-time", "page-faults"]);
    assert_eq!(
        stacks(&imported, 0),
        ["app::main;app::sum+core::iter::next 0 1003009", "add(int, int) 599998500 1000"]
    );
    assert_eq!(stacks(&imported, 1), ["?;[libfoo.so.1];clear_page_erms 499998500 7"]);
    let threads: Vec<(u32, &str)> =
        profile.threads.iter().map(|thread| (thread.tid, profile.text(thread.name))).collect();
    assert_eq!(threads, [(101, "my app"), (100, ":-1"), (102, "worker x")]);
    assert_eq!(profile.processes.len(), 1);
    let kind = |name: &str| {
        profile
            .functions
            .iter()
            .find(|function| profile.text(function.name) == name)
            .map(|function| function.kind)
    };
    assert_eq!(kind("app::sum"), Some(CodeKind::Yours));
    assert_eq!(kind("core::iter::next"), Some(CodeKind::Std));
    assert_eq!(kind("clear_page_erms"), Some(CodeKind::Kernel));
    let modules: Vec<&str> = profile.modules.iter().map(|module| profile.text(module.path)).collect();
    assert_eq!(modules, ["/home/me/app", "[kernel]", "/usr/lib/libfoo.so.1", "/tmp/x (deleted)"]);
}

#[test]
fn fields_can_be_missing() {
    // perf script -F comm,tid,cpu,event,sym,dso
    let imported = import("app 7 [000] cycles: \n\tadd (/bin/app)\n\tmain (/bin/app)\n\n");
    assert_eq!(stacks(&imported, 0), ["main;add 0 1"]);
    assert!(imported.notes.iter().any(|note| note.contains("one process")));
    // Without call stacks, samples follow each other without an empty line, padded on the left.
    let imported = import(
        "     bad 7 1.5: 10 task-clock:  dead f+0x1 (/bin/bad)\n     bad 7 1.6: 10 task-clock:  beef g (/bin/bad)\n",
    );
    assert_eq!(stacks(&imported, 0), ["f 0 10", "g 100000000 10"]);
    assert!(imported.notes.iter().any(|note| note.contains("no call stacks")));
}

#[test]
fn what_is_no_sample_is_an_error_with_its_line() {
    let error = read(b"app 7 1.5: 10 cycles: \n\t12 f (x)\n\nrubbish\n", &ImportOptions::default());
    let error = error.expect_err("line 4").to_string();
    assert_eq!(
        error,
        "as perf script text it is wrong at line 4: this is neither a sample nor a frame of one"
    );
    assert!(read(b"# nothing\n", &ImportOptions::default()).is_err());
}

#[test]
fn it_is_recognised_by_its_first_sample() {
    assert!(looks_like(SAMPLE.as_bytes()));
    assert!(!looks_like(b"main;f 12\n"));
    assert!(!looks_like(b"{}"));
    assert!(!looks_like(b"# only a comment"));
}
