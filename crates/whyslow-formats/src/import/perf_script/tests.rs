//! Imports with known results, and real output of `perf script`.

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

/// The stacks of the metric in this row, outermost first. Inlined frames have a plus.
fn stacks(imported: &Imported, row: usize) -> Vec<String> {
    let profile = &imported.profile;
    let name = |location: LocationId| {
        let frames = profile.frames.of(location).iter();
        let names: Vec<&str> =
            frames.map(|frame| profile.text(profile.functions[frame.function.index()].name)).collect();
        match profile.locations.module[location.index()] {
            _ if !names.is_empty() => names.join("+"),
            Some(module) => format!("[{}]", profile.text(profile.modules[module.index()].path)),
            None => "?".to_owned(),
        }
    };
    let samples = &profile.samples[row];
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
    assert_eq!(stacks(&imported, 1), ["?;[/usr/lib/libfoo.so.1];clear_page_erms 499998500 7"]);
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
    assert!(imported.notes(ImportNote::NoProcessNumbers));
    // Without call stacks, samples follow each other without an empty line, padded on the left.
    let imported = import(
        "     bad 7 1.5: 10 task-clock:  dead f+0x1 (/bin/bad)\n     bad 7 1.6: 10 task-clock:  beef g (/bin/bad)\n",
    );
    assert_eq!(stacks(&imported, 0), ["f 0 10", "g 100000000 10"]);
    assert!(imported.notes(ImportNote::NoCallStacks));
}

/// The threads with a sample each: `comm pid/tid`.
fn threads(imported: &Imported) -> Vec<String> {
    let profile = &imported.profile;
    let name = |thread: &ThreadId| {
        let row = &profile.threads[thread.index()];
        format!("{} {}/{}", profile.text(row.name), profile.processes[row.process.index()].pid, row.tid)
    };
    profile.samples[0].thread.iter().map(name).collect()
}

#[test]
fn any_selection_of_fields_is_read() {
    let frames = "\t    114f alpha (/tmp/t)\n\t   2724a main (/tmp/t)\n\n";
    for (head, thread) in [
        ("a b 7/8 ", "a b 7/8"),
        ("a b ", "a b 0/0"),
        ("a b     7 ", "a b 7/7"),
        ("a b U     cycles:pppH: ", "a b 0/0"),
        ("cycles: ", "all threads 0/0"),
        ("a b     7 K     [001]   541.510748: cycles: ", "a b 7/7"),
        ("a b     7/8 K  cycles: ", "a b 7/8"),
        ("  541.510748: ", "all threads 0/0"),
        ("[000]   541.510748: cycles: ", "all threads 0/0"),
        ("7/8 cycles: ", "all threads 7/8"),
        ("", "all threads 0/0"),
    ] {
        let text = format!("{head}\n{frames}{head}\n{frames}");
        assert!(looks_like(text.as_bytes()), "{head:?}");
        let imported = import(&text);
        assert_eq!(stacks(&imported, 0), ["main;alpha 0 1"; 2], "{head:?}");
        assert_eq!(threads(&imported), [thread; 2], "{head:?}");
    }
    // Without call stacks and with few fields, everything is on one line.
    let text = "     55722da10145 alpha (/tmp/t)\n     55722da10146 e1 (/tmp/t)\n";
    let one_line = |text: &str| stacks(&import(text), 0);
    assert_eq!(
        one_line(text),
        ["e1;alpha 0 1"],
        "addresses alone are a stack: perf prints an empty line between"
    );
    let text = "   bad 7/8      55722da10145 alpha (/tmp/t)\n   bad 7/8      55722da10148 beta (/tmp/t)\n";
    assert!(looks_like(text.as_bytes()));
    assert_eq!(one_line(text), ["alpha 0 1", "beta 0 1"]);
}

#[test]
fn source_lines_belong_to_the_frame_above() {
    let imported = import(
        "t 7  12.5: cycles: \n\t 114f next (inlined)\n  iter.h:30\n\t 114f alpha (/tmp/t)\n  t.c:4\n\t 2724a main (/tmp/t)\n  t.c:9\n\n\
         t 7  12.6: cycles: \n\t 114f alpha (/tmp/t)\n  t.c:5\n\n",
    );
    assert_eq!(stacks(&imported, 0), ["main;alpha+next 0 1", "alpha 100000000 1"]);
    let profile = &imported.profile;
    let lines = |row: usize| -> Vec<(String, u32)> {
        let locations = profile.locations_of(profile.samples[0].stack[row]);
        let frames = locations.flat_map(|location| profile.frames.of(location));
        frames.map(|frame| (profile.text(frame.file.expect("a file")).to_owned(), frame.line)).collect()
    };
    assert_eq!(lines(0), [("t.c".to_owned(), 4), ("iter.h".to_owned(), 30), ("t.c".to_owned(), 9)]);
    assert_eq!(lines(1), [("t.c".to_owned(), 5)]);
}

#[test]
fn frames_without_a_source_line_do_not_end_the_stack() {
    let imported = import(
        "t 7  12.5: cycles: \n\tffffffff81000010 do_syscall+0x10 ([kernel.kallsyms])\n  do_syscall+16\n\
         \t 7f10 [unknown] (/lib/libx.so)\n  libx.so[7f10]\n\t 2724a main+0x4 (/tmp/t)\n  t.c:9\n\n",
    );
    assert_eq!(stacks(&imported, 0), ["main;[/lib/libx.so];do_syscall 0 1"]);
    assert_eq!(
        imported.profile.meta.notes,
        [ImportNote::NoProcessNumbers.into(), ImportNote::PerfScriptText.into()]
    );
}

#[test]
fn functions_inlined_into_unknown_code_are_kept() {
    let imported = import(
        "t 7  12.5: cycles: \n\t 114f next (inlined)\n\t 114f [unknown] (/tmp/t)\n\t 2724a main (/tmp/t)\n\n\
         t 7  12.6: cycles: \n\t 114f sum (inlined)\n\t 114f next (inlined)\n\t 114f [unknown] ([unknown])\n\n\
         t 7  12.7: cycles: \n\t 114f [unknown] (/tmp/t)\n\n",
    );
    assert_eq!(stacks(&imported, 0), ["main;next 0 1", "next+sum 100000000 1", "[/tmp/t] 200000000 1"]);
}

#[test]
fn frames_may_lack_their_indentation() {
    let text = "java 19983 cycles:\nffffffff8103d0ca native_write ([kernel.kallsyms])\n7f10 run (/tmp/t)\n\n\
                java 19983 cycles:\nffffffff8103d0ca native_write ([kernel.kallsyms])\n\n";
    assert!(looks_like(text.as_bytes()));
    assert_eq!(stacks(&import(text), 0), ["run;native_write 0 1", "native_write 0 1"]);
    let spaces = "node 31912 cpu-clock: \n            13a8 RegExp:[&<>] (/tmp/perf-7.map)\n\n";
    assert!(looks_like(spaces.as_bytes()));
    assert_eq!(stacks(&import(spaces), 0), ["RegExp:[&<>] 0 1"]);
}

#[test]
fn an_empty_line_may_separate_an_event_from_its_stack() {
    let text = "java 10488  9.5:   1000 cpu-clock:\n\n\t7f10 fput+0xb (/bin/x)\n\t7f20 main+0x9 (/bin/x)\n\n\
                java 10488  9.6:   1000 cpu-clock:\n\n\
                java 10488  9.7:   1000 cpu-clock:\n\t7f20 main+0x9 (/bin/x)\n";
    let imported = import(text);
    assert_eq!(stacks(&imported, 0), ["main;fput 0 1000", "main 200000000 1000"]);
    assert_eq!(imported.profile.metrics.len(), 1);
}

#[test]
fn messages_may_precede_the_samples() {
    let text = format!("[ perf record: Woken up 1 times to write data ]\n{SAMPLE}");
    assert!(looks_like(text.as_bytes()));
    assert_eq!(stacks(&import(&text), 0).len(), 2);
    assert!(!looks_like(
        b"Total: 11111\nROUTINE ======== bar in source1\n   10   110 (flat, cum) 0.99% of Total\n"
    ));
}

#[test]
fn samples_keep_the_thread_name_of_their_time() {
    let sample = |comm: &str, at: u32| format!("{comm} 9/9 {at}.5: 10 cycles: \n\t12 f (/bin/x)\n\n");
    let imported =
        import(&[sample("perf", 1), sample("gzip", 2), sample("gzip", 3), sample("gzip busy", 4)].concat());
    assert_eq!(threads(&imported), ["perf 9/9", "gzip 9/9", "gzip 9/9", "gzip busy 9/9"]);
    let profile = &imported.profile;
    assert_eq!(profile.processes.len(), 1);
    assert_eq!(profile.text(profile.processes[0].name), "gzip");
}

#[test]
fn symbols_may_have_brackets_anywhere() {
    for (text, symbol, module) in [
        ("114f (anonymous namespace)::f+0x3 (/tmp/t)", "(anonymous namespace)::f", "/tmp/t"),
        ("2222 (anonymous namespace)::f(int)+0x3 (/tmp/t)", "(anonymous namespace)::f(int)", "/tmp/t"),
        ("114f (anonymous namespace)::f(int)", "(anonymous namespace)::f(int)", ""),
        ("114f g(std::function<void ()>)", "g(std::function<void ()>)", ""),
        ("114f g(int (*)(char))+0x1 (/tmp/my (own) app)", "g(int (*)(char))", "/tmp/my (own) app"),
        ("114f f0 (/tmp/t)", "f0", "/tmp/t"),
        ("7f00 114f f (/tmp/t)", "f", "/tmp/t"),
        ("114f (/tmp/t)", "[unknown]", "/tmp/t"),
        ("114f", "[unknown]", ""),
        ("add (/tmp/t)", "add", "/tmp/t"),
    ] {
        let frame = FrameText::parse(text);
        assert_eq!((frame.symbol, frame.module), (symbol, module), "{text}");
    }
    // A name that starts with a bracket is one function, whatever the address.
    let imported = import(
        "t 7 1.5: cycles: \n\t 114f (anonymous namespace)::f+0x1 (/t)\n\n\
         t 7 1.6: cycles: \n\t 1150 (anonymous namespace)::f+0x2 (/t)\n\n",
    );
    assert_eq!(imported.profile.functions.len(), 1);
}

#[test]
fn joined_inlined_java_methods_are_split() {
    let imported = import("java 7 1.5: cycles: \n\t 114f Lapp;::run->Lapp;::sum (/tmp/perf-7.map)\n\n");
    assert_eq!(stacks(&imported, 0), ["Lapp;::run+Lapp;::sum 0 1"]);
    let imported = import("app 7 1.5: cycles: \n\t 114f <fn() -> u8 as core::ops::Fn>::call (/bin/app)\n\n");
    assert_eq!(stacks(&imported, 0), ["<fn() -> u8 as core::ops::Fn>::call 0 1"]);
}

#[test]
fn lines_that_are_not_samples_are_skipped_with_a_note() {
    let text =
        "app 7 1.5: 10 cycles: \n\t12 f (x)\n\nrubbish\napp 7 1.5: PERF_RECORD_COMM exec: t:7/7\nmore\n";
    let imported = import(text);
    assert_eq!(stacks(&imported, 0), ["f 0 10"]);
    let what = "neither a sample nor a stack frame".to_owned();
    assert!(imported.notes(ImportNote::UnreadableLines { lines: 2, first: 4, what }));
    let error =
        read(b"# nothing\nrubbish\n", &ImportOptions::default()).expect_err("nothing else").to_string();
    assert_eq!(error, "cannot be read as perf script text: line 2: neither a sample nor a stack frame");
    assert!(read(b"# nothing\n", &ImportOptions::default()).is_err());
}

#[test]
fn it_is_recognised_by_its_first_sample() {
    assert!(looks_like(SAMPLE.as_bytes()));
    assert!(!looks_like(b"main;f 12\n"));
    assert!(!looks_like(b"{}"));
    assert!(!looks_like(b"# only a comment"));
}
