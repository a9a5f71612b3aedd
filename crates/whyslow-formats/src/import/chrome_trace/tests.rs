//! Imports with known results.

use super::*;
use crate::import::testing::folded;

const EVENTS: &str = r#"[
{"ph":"M","name":"process_name","pid":7,"args":{"name":"app"}},
{"ph":"M","name":"thread_name","pid":7,"tid":8,"args":{"name":"worker"}},
{"ph":"X","name":"outer","pid":7,"tid":8,"ts":1000,"dur":100,"args":{"n":3,"s":"x"}},
{"ph":"X","name":"inner","pid":7,"tid":8,"ts":1010,"dur":20},
{"ph":"B","name":"outer","pid":7,"tid":8,"ts":1200},
{"ph":"B","name":"inner","pid":7,"tid":8,"ts":1230.5},
{"ph":"E","pid":7,"tid":8,"ts":1240.5},
{"ph":"E","pid":7,"tid":8,"ts":1250},
{"ph":"i","name":"tick","pid":7,"tid":8,"ts":1100,"s":"t"},
{"ph":"C","name":"memory","pid":7,"ts":1000,"args":{"used":10,"free":90}},
{"ph":"b","cat":"net","id":"0x1","name":"load","pid":7,"ts":1005},
{"ph":"e","cat":"net","id":"0x1","name":"load","pid":7,"ts":1105},
{"ph":"s","name":"flow","pid":7,"tid":8,"ts":1000}
]"#;

fn import(text: &str) -> Imported {
    assert!(looks_like(text.as_bytes()));
    read(text.as_bytes(), &ImportOptions::default()).expect("it is a trace")
}

#[test]
fn slices_become_spans_and_stacks() {
    for text in [EVENTS.to_owned(), format!(r#"{{"displayTimeUnit":"ms","traceEvents":{EVENTS},"x":[1]}}"#)] {
        let imported = import(&text);
        let profile = &imported.profile;
        assert_eq!(folded(&imported), ["outer 120000", "outer;inner 30000"]);
        let spans: Vec<(&str, bool, u64, u64, &str)> = profile
            .spans
            .iter()
            .map(|span| {
                let detail = span.detail.map_or("", |detail| profile.text(detail));
                (profile.text(span.name), span.thread.is_some(), span.start_ns, span.end_ns, detail)
            })
            .collect();
        let expected = [
            ("outer", true, 0, 100_000, "n: 3, s: x"),
            ("inner", true, 10_000, 30_000, ""),
            ("outer", true, 200_000, 250_000, ""),
            ("inner", true, 230_500, 240_500, ""),
            ("tick", true, 100_000, 100_000, ""),
            ("load", false, 5_000, 105_000, ""),
        ];
        assert_eq!(spans, expected);
        assert_eq!(profile.text(profile.threads[0].name), "worker");
        assert_eq!(profile.text(profile.processes[0].name), "app");
        let counters: Vec<(&str, i64)> = (0..profile.counter_values.len())
            .map(|row| {
                let counter = &profile.counters[profile.counter_values.counter[row].index()];
                (profile.text(counter.name), profile.counter_values.value[row])
            })
            .collect();
        assert_eq!(counters, [("memory free", 90), ("memory used", 10)]);
        assert_eq!(profile.meta.duration_ns, 250_000);
        assert!(imported.notes(ImportNote::OtherEvents { events: 1 }));
    }
}

#[test]
fn a_truncated_list_is_read() {
    let cut = &EVENTS[..EVENTS.len() - 1];
    assert!(folded(&import(cut)).contains(&"outer 120000".to_owned()));
    let half = &EVENTS[..EVENTS.len() - 20];
    assert!(import(half).notes(ImportNote::EventsWithoutEnd));
    let object = format!(r#"{{"traceEvents":{half}"#);
    let error = read(object.as_bytes(), &ImportOptions::default()).expect_err("cut").to_string();
    assert!(error.starts_with("cannot be read as a Chrome trace: byte "), "{error}");
}

#[test]
fn odd_traces_get_notes() {
    let imported = import(
        r#"[{"ph":"E","pid":"p","tid":"t","ts":5},{"ph":"B","name":"a","pid":"p","tid":"t","ts":10},
            {"ph":"X","name":"b","pid":"p","tid":"t","ts":20,"dur":30},
            {"ph":"X","name":"c","pid":"p","tid":"t","ts":30,"dur":40}, null]"#,
    );
    // `a` never ends and is assumed to last until 70. `c` outlives `b`.
    assert_eq!(folded(&imported), ["a 30000", "a;b 10000", "a;b;c 20000"]);
    assert_eq!(imported.profile.spans.len(), 3);
    assert_eq!(imported.profile.meta.notes.len(), 3, "{:?}", imported.profile.meta.notes);
    assert!(read(b"[]", &ImportOptions::default()).is_err());
    assert!(read(b"[{\"ph\":\"M\"}]", &ImportOptions::default()).is_err());
}

const CPU_PROFILE: &str = r#"{"nodes":[
{"id":1,"callFrame":{"functionName":"(root)","url":"","lineNumber":-1},"children":[2,3]},
{"id":2,"callFrame":{"functionName":"main","url":"file:///a.js","lineNumber":9},"children":[4]},
{"id":3,"callFrame":{"functionName":"(idle)","url":"","lineNumber":-1}},
{"id":4,"callFrame":{"functionName":"","url":"file:///a.js","lineNumber":19}}],
"startTime":100,"endTime":1000,"samples":[2,4,3,2],"timeDeltas":[10,20,30,40]}"#;

#[test]
fn a_cpuprofile_is_read() {
    let imported = import(CPU_PROFILE);
    // The last sample lasts until `endTime`.
    assert_eq!(folded(&imported), ["main 820000", "main;(anonymous) 30000"]);
    let without_end = import(&CPU_PROFILE.replace("\"endTime\":1000,", ""));
    assert_eq!(folded(&without_end), ["main 60000", "main;(anonymous) 30000"]);
    let profile = &imported.profile;
    assert_eq!(profile.samples[0].time_ns, [0, 20_000, 90_000]);
    let frame = profile.frames.of(profile.stacks.location(profile.samples[0].stack[0]))[0];
    assert_eq!((frame.line, frame.file.map(|file| profile.text(file))), (10, Some("file:///a.js")));
    assert!(imported.notes(ImportNote::IdleLeftOut));
}

#[test]
fn samples_are_put_in_the_order_of_time() {
    let text = CPU_PROFILE.replace("[2,4,3,2]", "[2,2,4,2]").replace("[10,20,30,40]", "[10,40,-20,60]");
    // At 110, 150, 130 and 190.
    assert_eq!(folded(&import(&text)), ["main 870000", "main;(anonymous) 20000"]);
}

#[test]
fn an_old_cpuprofile_with_a_tree_is_read() {
    let text = r#"{"typeId":"CPU","head":{"functionName":"(root)","id":1,"hitCount":0,"children":[
        {"functionName":"a","url":"a.js","lineNumber":5,"id":2,"hitCount":1,"children":[
         {"functionName":"b","url":"a.js","lineNumber":9,"id":3,"hitCount":1,"children":[]}]}]},
        "startTime":1,"endTime":2,"samples":[2,3,1],"timestamps":[1000,1010,1030]}"#;
    assert_eq!(folded(&import(text)), ["a 10000", "a;b 20000"]);
}

#[test]
fn a_whole_v8_profile_in_one_event_is_read() {
    let (start, end) =
        (r#"[{"ph":"I","name":"CpuProfile","pid":1,"tid":2,"ts":5,"args":{"data":{"cpuProfile":"#, "}}}]");
    let imported = import(&format!("{start}{CPU_PROFILE}{end}"));
    assert_eq!(folded(&imported), ["main 820000", "main;(anonymous) 30000"]);
    assert_eq!(imported.profile.threads[0].tid, 2);
    assert!(imported.profile.spans.is_empty());
}

#[test]
fn edges_are_joined_in_the_order_of_time_and_by_name() {
    let event = |phase: &str, name: &str, ts: u32| {
        format!(r#"{{"ph":"{phase}","name":"{name}","pid":1,"tid":1,"ts":{ts}}}"#)
    };
    let trace = |events: &[String]| import(&format!("[{}]", events.join(",")));
    let unsorted =
        trace(&[event("E", "", 30), event("B", "a", 10), event("E", "b", 25), event("B", "b", 20)]);
    assert_eq!(folded(&unsorted), ["a 15000", "a;b 5000"]);
    assert!(unsorted.profile.meta.notes.is_empty(), "{:?}", unsorted.profile.meta.notes);
    // The outer one ends first, at the same time.
    let crossed =
        trace(&[event("B", "a", 10), event("B", "b", 20), event("E", "a", 30), event("E", "b", 30)]);
    assert_eq!(folded(&crossed), ["a 10000", "a;b 10000"]);
    let equal = trace(&[event("B", "a", 10), event("B", "b", 10), event("E", "", 30), event("E", "", 30)]);
    assert_eq!(folded(&equal), ["a;b 20000"]);
    let other = trace(&[event("B", "a", 10), event("E", "x", 20), event("E", "a", 30)]);
    assert_eq!(folded(&other), ["a 20000"]);
    assert!(other.notes(ImportNote::UnmatchedEvents { events: 1 }));
}

#[test]
fn slices_of_thread_time_have_a_length() {
    let imported = import(r#"[{"ph":"X","name":"f","pid":1,"tid":1,"ts":10,"tts":5,"tdur":7}]"#);
    assert_eq!(folded(&imported), ["f 7000"]);
}

#[test]
fn parts_of_a_v8_profile_are_joined() {
    let imported = import(
        r#"[{"ph":"P","name":"Profile","id":"0x5","pid":1,"tid":2,"ts":90,"args":{"data":{"startTime":100}}},
{"ph":"P","name":"ProfileChunk","id":"0x5","pid":1,"tid":3,"ts":95,"args":{"data":{"cpuProfile":{"nodes":[
 {"id":1,"callFrame":{"functionName":"(root)"}},{"id":2,"parent":1,"callFrame":{"functionName":"f"}}],
 "samples":[2]},"timeDeltas":[10]}}},
{"ph":"P","name":"ProfileChunk","id":"0x5","pid":1,"tid":3,"ts":99,"args":{"data":{"cpuProfile":{"nodes":[
 {"id":3,"parent":2,"callFrame":{"functionName":"g"}}],"samples":[3]},"timeDeltas":[20]}}}]"#,
    );
    assert_eq!(folded(&imported), ["f 20000", "f;g 20000"]);
    assert_eq!(imported.profile.threads[0].tid, 2);
}

#[test]
fn times_in_quotes_are_numbers() {
    let events = |quote: &str| {
        let q = quote;
        import(&format!(
            r#"[{{"ph":"X","name":"f","pid":{q}1{q},"tid":{q}2{q},"ts":{q}100{q},"dur":{q}50.5{q}}}]"#
        ))
    };
    let (quoted, plain) = (events("\""), events(""));
    assert_eq!(plain.profile.spans.len(), 1);
    let times = |imported: &Imported| {
        imported.profile.spans.iter().map(|span| span.end_ns - span.start_ns).collect::<Vec<_>>()
    };
    assert_eq!(times(&quoted), times(&plain));
}

#[test]
fn nodes_that_call_themselves_do_not_hang() {
    let text = r#"{"nodes":[{"id":1,"callFrame":{"functionName":"f"},"children":[2]},
        {"id":2,"callFrame":{"functionName":"g"},"children":[1]}],"samples":[1,2],"timeDeltas":[1,1]}"#;
    let imported = import(text);
    assert!(imported.profile.samples.iter().all(whyslow_profile::Samples::is_empty));
}

#[test]
fn samples_next_to_events_have_stacks() {
    // Chrome writes numbers. Hermes puts them in quotes, and adds places to names.
    let text = r#"{"traceEvents":[],
        "stackFrames":{"1":{"name":"main","category":"native"},"2":{"name":"work","parent":"1"},
                       "7":{"name":"[root]"},"8":{"name":"render(app.js:12:3)","parent":7}},
        "samples":[{"cpu":0,"tid":5,"ts":1000.5,"name":"cycles","sf":2,"weight":3},
                   {"cpu":"-1","pid":1,"tid":"6","ts":"2000","weight":"1","sf":8},
                   {"tid":5,"ts":1500,"sf":1},{"tid":5,"ts":1500,"sf":99}]}"#;
    assert!(looks_like(text.as_bytes()));
    let imported = read(text.as_bytes(), &ImportOptions::default()).expect("it is a trace");
    let profile = &imported.profile;
    let samples = &profile.samples[0];
    assert_eq!(profile.text(profile.metrics[0].name), "samples");
    assert_eq!((&samples.value, &samples.time_ns), (&vec![3, 1, 1], &vec![0, 499_500, 999_500]));
    let stack = |row: usize| -> Vec<(&str, u32)> {
        let frames =
            profile.locations_of(samples.stack[row]).flat_map(|location| profile.frames.of(location));
        frames
            .map(|frame| (profile.text(profile.functions[frame.function.index()].name), frame.line))
            .collect()
    };
    assert_eq!(stack(0), [("work", 0), ("main", 0)]);
    assert_eq!(stack(1), [("main", 0)]);
    assert_eq!(stack(2), [("render", 12)]);
    assert_eq!(profile.threads.len(), 2);
    assert_eq!(imported.left_out, 1);
    let counted = r#"{"stackFrames":{"1":{"name":"f"}},"samples":[{"name":"cycles:HG","weight":3120373,"ts":1,"sf":1}]}"#;
    let counted = read(counted.as_bytes(), &ImportOptions::default()).expect("it is a trace").profile;
    assert_eq!(counted.text(counted.metrics[0].name), "cycles:HG");
    // A frame that calls itself has no stack.
    let turning = r#"{"stackFrames":{"1":{"name":"a","parent":2},"2":{"name":"b","parent":1}},"samples":[{"ts":1,"sf":1}]}"#;
    let imported = read(turning.as_bytes(), &ImportOptions::default()).expect("it is a trace");
    assert_eq!(imported.left_out, 1);
}

#[test]
fn slices_without_a_thread_are_joined_by_their_id_in_order_of_time() {
    let imported = import(
        r#"[
{"ph":"F","cat":"net","id":"0x1","name":"request","pid":2,"ts":190},
{"ph":"S","cat":"net","id":"0x1","name":"request","pid":1,"ts":100},
{"ph":"b","cat":"ui","id2":{"local":"0x1"},"name":"frame","pid":1,"ts":100},
{"ph":"b","cat":"ui","id2":{"local":"0x2"},"name":"frame","pid":1,"ts":110},
{"ph":"b","cat":"ui","id2":{"local":"0x1"},"name":"frame","pid":2,"ts":120},
{"ph":"e","cat":"ui","id2":{"local":"0x1"},"name":"frame","pid":1,"ts":130},
{"ph":"e","cat":"ui","id2":{"local":"0x2"},"name":"frame","pid":1,"ts":150},
{"ph":"e","cat":"ui","id2":{"local":"0x1"},"name":"frame","pid":2,"ts":180},
{"ph":"b","cat":"gpu","id2":{"global":"0x3"},"name":"swap","pid":1,"ts":100},
{"ph":"e","cat":"gpu","id2":{"global":"0x3"},"name":"swap","pid":2,"ts":105},
{"ph":"e","cat":"gpu","id2":{"global":"0x4"},"name":"swap","pid":2,"ts":106}
]"#,
    );
    let profile = &imported.profile;
    let spans: Vec<(&str, u64, u64)> =
        profile.spans.iter().map(|span| (profile.text(span.name), span.start_ns, span.end_ns)).collect();
    let expected = [
        ("request", 0, 90_000),
        ("frame", 0, 30_000),
        ("frame", 10_000, 50_000),
        ("frame", 20_000, 80_000),
        ("swap", 0, 5_000),
    ];
    assert_eq!(spans, expected);
    assert!(imported.notes(ImportNote::UnmatchedEvents { events: 1 }));
}

#[test]
fn devtools_writes_the_events_after_long_metadata() {
    let scripts = "x".repeat(crate::import::GUESS_BYTES);
    let trace = format!(
        r#"{{"metadata":{{"source":"DevTools","dataOrigin":"TraceEvents","scripts":["{scripts}"]}},"traceEvents":{EVENTS}}}"#
    );
    assert_eq!(crate::import::guess(trace.as_bytes()), Some(Format::ChromeTrace));
    assert_eq!(folded(&import(&trace)), ["outer 120000", "outer;inner 30000"]);
}
