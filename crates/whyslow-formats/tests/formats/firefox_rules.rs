//! The Firefox export follows the rules that the Firefox Profiler's own types state for a processed profile.

use serde_json::Value;
use whyslow_analyze::{Selection, testing};
use whyslow_formats::export::{Export, write_firefox};
use whyslow_formats::import::Format;
use whyslow_profile::{Profile, Span};

use crate::support::imported;

fn json(profile: &Profile) -> Value {
    let selection = Selection::default();
    let mut bytes = Vec::new();
    write_firefox(&Export::new(profile, &selection, true), &mut bytes).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Checks that a table has these columns, each as long as the table says.
#[track_caller]
fn columns(table: &Value, names: &[&str]) -> usize {
    let length = table["length"].as_u64().unwrap() as usize;
    for name in names {
        assert_eq!(table[name].as_array().map(Vec::len), Some(length), "column {name}");
    }
    let others = table.as_object().unwrap().keys().filter(|key| *key != "length" && *key != "weightType");
    for key in others {
        assert!(names.contains(&key.as_str()), "{key} is not a column of this version");
    }
    length
}

/// Checks that every value of a column is a row number below `length`, or, if allowed, `null` or -1.
#[track_caller]
fn refers(table: &Value, column: &str, length: usize, none: Option<&Value>) {
    for value in table[column].as_array().unwrap() {
        let is_row = value.as_u64().is_some_and(|row| row < length as u64);
        assert!(is_row || none == Some(value), "{column}: {value} of {length}");
    }
}

#[track_caller]
fn keeps_the_rules(file: &Value) {
    let meta = &file["meta"];
    assert_eq!(meta["preprocessedProfileVersion"], 57);
    for (key, right) in [
        ("interval", Value::is_number as fn(&Value) -> bool),
        ("startTime", Value::is_number),
        ("product", Value::is_string),
        ("stackwalk", Value::is_number),
        ("debug", Value::is_boolean),
        ("markerSchema", Value::is_array),
        ("sampleUnits", Value::is_object),
        ("extensions", Value::is_object),
    ] {
        assert!(right(&meta[key]), "meta.{key}: {}", meta[key]);
    }
    let end = meta["profilingEndTime"].as_f64().unwrap();
    let interval = meta["interval"].as_f64().unwrap();
    for thread in file["threads"].as_array().unwrap() {
        let times = thread["samples"]["time"]
            .as_array()
            .unwrap()
            .iter()
            .chain(thread["markers"]["endTime"].as_array().unwrap());
        let shown = times.filter_map(Value::as_f64).all(|time| time < end);
        assert!(shown && end >= interval, "nothing is shown at or after the end, {end}");
    }
    let colours = [
        "transparent",
        "purple",
        "green",
        "orange",
        "yellow",
        "lightblue",
        "blue",
        "brown",
        "magenta",
        "red",
        "lightred",
        "darkgrey",
        "grey",
    ];
    let categories = meta["categories"].as_array().unwrap();
    assert_eq!(categories.iter().filter(|category| category["color"] == "grey").count(), 1);
    for category in categories {
        assert!(colours.contains(&category["color"].as_str().unwrap()));
        assert_eq!(category["subcategories"][0], "Other");
    }
    for schema in meta["markerSchema"].as_array().unwrap() {
        assert!(schema["name"].is_string() && schema["display"].is_array());
        assert!(
            schema["fields"]
                .as_array()
                .unwrap()
                .iter()
                .all(|field| field["key"].is_string() && field["format"].is_string())
        );
    }
    let libs = file["libs"].as_array().unwrap();
    for lib in libs {
        for key in ["arch", "name", "path", "debugName", "debugPath", "breakpadId"] {
            assert!(lib[key].is_string(), "lib.{key}");
        }
        assert_eq!(lib["breakpadId"].as_str().map(str::len), Some(33));
        assert!(lib["codeId"].is_string() || lib["codeId"].is_null());
    }
    let strings = file["shared"]["stringArray"].as_array().unwrap();
    assert!(strings.iter().all(Value::is_string));
    for thread in file["threads"].as_array().unwrap() {
        thread_keeps_the_rules(thread, strings.len(), libs.len(), categories.len(), meta);
    }
    for counter in file["counters"].as_array().unwrap() {
        columns(&counter["samples"], &["time", "count"]);
        assert!(counter["pid"].is_string() && counter["name"].is_string());
        assert!(
            counter["mainThreadIndex"].as_u64().unwrap() < file["threads"].as_array().unwrap().len() as u64
        );
    }
}

#[track_caller]
fn thread_keeps_the_rules(thread: &Value, strings: usize, libs: usize, categories: usize, meta: &Value) {
    let (null, none) = (Value::Null, Value::from(-1));
    assert!(thread["pid"].is_string() && thread["tid"].is_number() && thread["name"].is_string());
    assert!(
        thread["isMainThread"].is_boolean()
            && thread["processType"].is_string()
            && thread["pausedRanges"].is_array()
    );
    assert!(thread["registerTime"].is_number() && thread["processStartupTime"].is_number());

    let stacks = columns(&thread["stackTable"], &["frame", "prefix"]);
    let frames = columns(
        &thread["frameTable"],
        &[
            "address",
            "inlineDepth",
            "category",
            "subcategory",
            "func",
            "nativeSymbol",
            "innerWindowID",
            "line",
            "column",
        ],
    );
    let funcs = columns(
        &thread["funcTable"],
        &["name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber", "columnNumber"],
    );
    let resources = columns(&thread["resourceTable"], &["lib", "name", "host", "type"]);
    columns(&thread["nativeSymbols"], &["libIndex", "address", "name", "functionSize"]);
    let markers = columns(&thread["markers"], &["data", "name", "startTime", "endTime", "phase", "category"]);

    refers(&thread["stackTable"], "frame", frames, None);
    for (row, prefix) in thread["stackTable"]["prefix"].as_array().unwrap().iter().enumerate() {
        assert!(prefix.is_null() || prefix.as_u64().unwrap() < row as u64, "callers precede callees");
    }
    refers(&thread["frameTable"], "func", funcs, None);
    refers(&thread["frameTable"], "category", categories, None);
    refers(&thread["funcTable"], "name", strings, None);
    refers(&thread["funcTable"], "fileName", strings, Some(&null));
    refers(&thread["funcTable"], "resource", resources, Some(&none));
    refers(&thread["resourceTable"], "lib", libs, None);
    refers(&thread["resourceTable"], "name", strings, None);
    refers(&thread["markers"], "name", strings, None);
    refers(&thread["markers"], "category", categories, None);
    inlined_frames_follow_their_owner(thread);

    let samples = &thread["samples"];
    let has_cpu = samples.get("threadCPUDelta").is_some();
    let names: &[&str] =
        if has_cpu { &["stack", "time", "weight", "threadCPUDelta"] } else { &["stack", "time", "weight"] };
    columns(samples, names);
    refers(samples, "stack", stacks, None);
    assert!(["samples", "tracing-ms", "bytes"].contains(&samples["weightType"].as_str().unwrap()));
    let times: Vec<f64> =
        samples["time"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    assert!(times.is_sorted(), "samples are in order of time");

    let types: Vec<&Value> =
        meta["markerSchema"].as_array().unwrap().iter().map(|schema| &schema["name"]).collect();
    for row in 0..markers {
        assert!(types.contains(&&thread["markers"]["data"][row]["type"]));
        let (phase, end) = (&thread["markers"]["phase"][row], &thread["markers"]["endTime"][row]);
        assert!(*phase == 0 && end.is_null() || *phase == 1 && end.is_number());
    }
}

/// A frame of inline depth n is called by one of depth n - 1 at the same address.
fn inlined_frames_follow_their_owner(thread: &Value) {
    let frame_of = |stack: usize| thread["stackTable"]["frame"][stack].as_u64().unwrap() as usize;
    let frames = &thread["frameTable"];
    for stack in 0..thread["stackTable"]["length"].as_u64().unwrap() as usize {
        let frame = frame_of(stack);
        let depth = frames["inlineDepth"][frame].as_u64().unwrap();
        if depth > 0 {
            let caller = frame_of(thread["stackTable"]["prefix"][stack].as_u64().unwrap() as usize);
            assert_eq!(frames["inlineDepth"][caller], depth - 1);
            assert_eq!(frames["address"][caller], frames["address"][frame]);
        }
    }
}

#[test]
fn synthetic_and_imported_profiles_follow_the_rules() {
    let mut profile =
        testing::profile("main@a.rs:3;a;+b;+c 10\nworker: main;[libfoo.so] 5\n[truncated];x 1\n[unknown] 2");
    let name = profile.strings.push("span");
    profile.spans.push(Span { name, thread: None, start_ns: 0, end_ns: 5, detail: None });
    profile.spans.push(Span { name, thread: Some(1.into()), start_ns: 7, end_ns: 7, detail: Some(name) });
    keeps_the_rules(&json(&profile));
    keeps_the_rules(&json(&imported("samply.json", Format::Firefox).profile));
    keeps_the_rules(&json(&imported("pprof.pb", Format::Pprof).profile));
    keeps_the_rules(&json(&imported("dhat.json", Format::Dhat).profile));
    keeps_the_rules(&json(&Profile::default()));
}
