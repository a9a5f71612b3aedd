//! Files of other versions: newer ones are reported, and additions of later versions are skipped.

use whyslow_profile::{
    KernelView, LeakCheck, Metric, Module, ModuleKind, NoLeakCheck, Note, Origin, OverTime, Profile, Sampler,
    Samples, SpecialFrame, StackId, Subject, ThreadId, Trigger, Unit, WaitFrame, file, file::ReadError,
};

use crate::support::{self, RawChunk};

#[test]
fn a_newer_version_is_a_clear_error() {
    let mut bytes = support::file_bytes(&support::profile(1, 10));
    let len = bytes.len() as u64;
    bytes.splice(..support::HEADER_LEN, support::header(file::VERSION + 1, len));
    let error = file::read_bytes(&bytes).unwrap_err();
    assert!(matches!(error, ReadError::Newer { found } if found == file::VERSION + 1));
    assert_eq!(error.to_string(), "it has file version 3, and this whyslow reads versions up to 2");
}

#[test]
fn splitting_and_joining_a_file_changes_nothing() {
    let profile = support::profile(12, 40);
    let chunks = support::split(&support::file_bytes(&profile));
    assert!(chunks.len() > 8);
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

#[test]
fn unknown_kinds_of_chunk_are_skipped() {
    let profile = support::profile(12, 40);
    let mut chunks = support::split(&support::file_bytes(&profile));
    for at in (0..=chunks.len()).rev() {
        chunks.insert(at, RawChunk { kind: *b"NEW!", raw: b"not columns at all".to_vec() });
    }
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

/// A column as `column.rs` documents it, with one zero per row (rows and name are short).
fn column_of_zeros(name: &str, kind: u8, rows: u8) -> Vec<u8> {
    assert!(rows < 128);
    [&[name.len() as u8][..], name.as_bytes(), &[kind, rows, rows], &vec![0; rows.into()]].concat()
}

#[test]
fn unknown_columns_and_types_of_column_are_skipped() {
    let mut profile = support::profile(12, 40);
    profile.sources.rows.clear();
    let mut chunks = support::split(&support::file_bytes(&profile));
    for chunk in chunks.iter_mut().filter(|chunk| chunk.kind != *b"META") {
        // The number of rows follows the name and the type of the first column.
        let rows = chunk.raw[2 + usize::from(chunk.raw[0])];
        let new = [column_of_zeros("new", 0, rows), column_of_zeros("newer", 77, rows)].concat();
        chunk.raw.splice(..0, new);
    }
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

/// A reader skips what it does not know, so renaming a column simulates a file that lacks it.
#[test]
fn waits_of_earlier_files_have_no_variable() {
    let mut profile = support::profile(12, 40);
    assert!(profile.wait_details.data.iter().any(Option::is_some));
    let mut chunks = support::split(&support::file_bytes(&profile));
    for chunk in chunks.iter_mut().filter(|chunk| chunk.kind == *b"WAIT") {
        let name = b"data_module";
        let at = chunk.raw.windows(name.len()).position(|bytes| bytes == name).unwrap();
        chunk.raw[at] = b'D';
    }
    profile.wait_details.data.fill(None);
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

/// Earlier files have only the names of frames that stand for waits.
#[test]
fn wait_frames_of_earlier_files_are_known_by_name() {
    let mut profile = support::profile(12, 40);
    profile.modules.iter_mut().for_each(|module| module.kind = ModuleKind::Library);
    let names = [
        ("[queued for a CPU]", WaitFrame::Queued),
        ("[waiting for a CPU]", WaitFrame::Queued),
        ("[wait too short to be looked at]", WaitFrame::TooShort),
        ("[pipe]", WaitFrame::Pipe),
        ("[a fortune teller]", WaitFrame::Unknown),
    ];
    for (name, frame) in names {
        let name = profile.strings.push(name);
        profile.modules.push(Module::special(SpecialFrame::Waiting(frame), name));
    }
    let mut chunks = support::split(&support::file_bytes(&profile));
    for chunk in chunks.iter_mut().filter(|chunk| chunk.kind == *b"MODS") {
        let name = b"waiting";
        let at = chunk.raw.windows(name.len()).position(|bytes| bytes == name).unwrap();
        chunk.raw[at] = b'W';
    }
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

#[test]
fn facts_that_only_a_later_version_knows_read_as_unknown() {
    let mut profile = support::profile(12, 40);
    profile.meta.kernel = KernelView::Unknown;
    profile.meta.exit = None;
    let mut chunks = support::split(&support::file_bytes(&profile));
    let meta = chunks.iter_mut().find(|chunk| chunk.kind == *b"META").unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&meta.raw).unwrap();
    json["kernel"] = "translucent".into();
    json["exit"] = serde_json::json!({"asleep": true});
    json["added_later"] = 1.into();
    meta.raw = serde_json::to_vec(&json).unwrap();
    assert!(file::read_bytes(&support::join(&chunks, true)).unwrap() == profile);
}

#[test]
fn sentences_of_earlier_files_are_notes() {
    let profile = support::profile(12, 40);
    let mut chunks = support::split(&support::file_bytes(&profile));
    let meta = chunks.iter_mut().find(|chunk| chunk.kind == *b"META").unwrap();
    let facts = serde_json::json!({
        "notes": ["3 marks of the program are missing", "pooled from 2 recordings"],
        "heap": {"peak_bytes": 7, "leaks": {"impossible": "signal 9 ended the program"}},
    });
    meta.raw = serde_json::to_vec(&facts).unwrap();
    let read = file::read_bytes(&support::join(&chunks, true)).unwrap();
    let sentences = ["3 marks of the program are missing", "pooled from 2 recordings"];
    assert_eq!(read.meta.notes, sentences.map(|text| Note::Text(text.to_owned())));
    let why = NoLeakCheck::Text { text: "signal 9 ended the program".to_owned() };
    let heap = read.meta.heap.as_ref().unwrap();
    assert_eq!((heap.peak_bytes, &heap.leaks), (7, &LeakCheck::Impossible(why)));
    // They are unchanged after another write.
    let again = file::read_bytes(&support::file_bytes(&read)).unwrap();
    assert_eq!((again.meta.notes, again.meta.heap), (read.meta.notes, read.meta.heap));
}

/// A file of version 1 with these facts about the whole recording, and metrics with these names and units.
fn version_1(facts: serde_json::Value, metrics: &[(&str, Unit)]) -> Profile {
    let mut profile = support::profile(12, 40);
    (profile.meta, profile.metrics, profile.samples) = Default::default();
    for &(name, unit) in metrics {
        let name = profile.strings.push(name);
        profile.metrics.push(Metric::unknown(name, unit));
        let mut samples = Samples::default();
        samples.push(0, ThreadId(0), StackId(0), 3_000);
        profile.samples.push(samples);
    }
    let mut chunks = support::split(&support::file_bytes(&profile));
    let meta = chunks.iter_mut().find(|chunk| chunk.kind == *b"META").unwrap();
    meta.raw = serde_json::to_vec(&facts).unwrap();
    let mut bytes = support::join(&chunks, true);
    let len = bytes.len() as u64;
    bytes.splice(..support::HEADER_LEN, support::header(1, len));
    file::read_bytes(&bytes).unwrap()
}

#[test]
fn metrics_of_version_1_take_the_facts_of_their_recording() {
    let time =
        [("cpu-time", Unit::Nanoseconds), ("bytes-allocated", Unit::Bytes), ("live-at-peak", Unit::Bytes)];
    let facts = serde_json::json!({"source": "cycles", "frequency_hz": 997, "ns_per_cycle": 0.5});
    let profile = version_1(facts, &time);
    let sampler = Sampler { trigger: Trigger::Cycles, rate_hz: 997 };
    assert_eq!(profile.metrics[0].origin, Origin::Sampled(sampler));
    assert_eq!(
        profile.metrics.iter().map(|metric| metric.of).collect::<Vec<_>>(),
        [Subject::Cpu, Subject::Heap, Subject::Heap]
    );
    assert_eq!(profile.metrics[2].over_time, OverTime::Level);
    let values = profile.samples.iter().map(|samples| samples.value[0]).collect::<Vec<_>>();
    assert_eq!(values, [1_500, 3_000, 3_000], "only time is cycles");

    let sampled = version_1(serde_json::json!({"heap": {"sample_bytes": 512}}), &time[1..]);
    assert_eq!(sampled.metrics[0].origin, Origin::Estimated);

    let imported = |tool: &str, name| {
        let facts = serde_json::json!({"source": {"imported": tool}, "frequency_hz": 99});
        let profile = version_1(facts, &[(name, Unit::Count)]);
        assert_eq!(profile.meta.imported_from.as_deref(), Some(tool));
        profile.metrics[0].origin
    };
    assert_eq!(imported("callgrind", "Ir"), Origin::Simulated);
    assert_eq!(imported("heaptrack 1.4", "leaked"), Origin::Counted);
    assert_eq!(imported("pprof", "misses"), Origin::Unknown);
    assert_eq!(imported("perf record", "cpu-time").sampler().rate_hz, 99);

    let later = version_1(serde_json::json!({"source": {"quantum_counter": {"spin": 0.5}}}), &time[..1]);
    assert_eq!(later.metrics[0].origin.sampler().trigger, Trigger::Unknown);
}
