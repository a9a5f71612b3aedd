//! Broken recordings of perf, Valgrind, Chrome and V8.

use proptest::prelude::*;
use whyslow_formats::import::{Format, ImportError, ImportOptions, import_bytes};

use crate::changes::changes;
use crate::counting::peak_of;
use crate::{changed_bytes_survive, sample, survives};

const RECORDINGS: [(&str, Format); 10] = [
    ("stacks.perf.data", Format::PerfData),
    ("callchains.perf.data", Format::PerfData),
    ("packed.perf.data", Format::PerfData),
    ("pipe.perf.data", Format::PerfData),
    ("perf-script.txt", Format::PerfScript),
    ("folded.txt", Format::Folded),
    ("callgrind.out.1", Format::Callgrind),
    ("cachegrind.out.1", Format::Cachegrind),
    ("chrome-trace.json", Format::ChromeTrace),
    ("v8.cpuprofile", Format::ChromeTrace),
];

#[test]
fn a_truncated_recording_is_an_error_with_a_position() {
    for (name, format) in RECORDINGS {
        let whole = sample(name);
        for len in (0..whole.len() - 2).step_by(1 + whole.len() / 150) {
            let result = survives(&whole[..len], format);
            // A stream or a text may end between two of its records.
            if format == Format::PerfData && name != "pipe.perf.data" || format == Format::ChromeTrace {
                assert!(matches!(result, Err(ImportError::AtByte { .. })), "{name} cut at {len}: {result:?}");
            }
        }
    }
}

/// A perf.data file with every offset and length made huge.
#[test]
fn huge_claims_in_perf_data_take_little_memory() {
    for name in ["stacks.perf.data", "callchains.perf.data", "packed.perf.data", "pipe.perf.data"] {
        let whole = sample(name);
        for at in (8..104).step_by(8).chain((104..whole.len() - 8).step_by(whole.len() / 100)) {
            for claim in [u64::MAX, u64::MAX / 2, 1 << 40, u64::from(u32::MAX), whole.len() as u64] {
                let mut bytes = whole.clone();
                bytes[at..at + 8].copy_from_slice(&claim.to_le_bytes());
                let _ = survives(&bytes, Format::PerfData);
            }
        }
    }
}

/// Mappings that forks copy over and over.
#[test]
fn forks_of_large_address_spaces_are_bounded() {
    let whole = sample("callchains.perf.data");
    let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let data = word(40);
    let mut bytes = whole[..data].to_vec();
    let id = [0_u8; 8 * 4];
    let mut record = |kind: u32, misc: u16, body: &[u8]| {
        bytes.extend(kind.to_le_bytes());
        bytes.extend(misc.to_le_bytes());
        bytes.extend(((8 + body.len() + id.len()) as u16).to_le_bytes());
        bytes.extend(body);
        bytes.extend(id);
    };
    let map = |pid: u32, start: u64| {
        let mut body = [pid.to_le_bytes(), pid.to_le_bytes()].concat();
        [start, 0x1000, 0].iter().for_each(|number| body.extend(number.to_le_bytes()));
        body.extend(*b"//anon\0\0");
        body
    };
    for at in 0..3000 {
        record(1, 2, &map(1, at * 0x2000));
    }
    for child in 2..3000_u32 {
        let numbers = [child, 1, child, 1];
        let mut body: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        body.extend(0_u64.to_le_bytes());
        record(7, 0, &body);
        record(1, 2, &map(child, 0x1000));
    }
    let len = bytes.len() - data;
    bytes[48..56].copy_from_slice(&(len as u64).to_le_bytes());
    bytes[72..104].fill(0);
    let (_, peak) = peak_of(|| import_bytes(&bytes, Some(Format::PerfData), &ImportOptions::default()));
    assert!(peak < 400 << 20, "{peak}");
}

/// A callgrind file in which everything calls everything, and a trace that is one deep stack.
#[test]
fn endless_calls_end() {
    let mut text = "version: 1\nevents: Ir\n".to_owned();
    for caller in 0..300 {
        text.push_str(&format!("fn=f{caller}\n1 5\n"));
        for callee in 0..300 {
            text.push_str(&format!("cfn=f{callee}\ncalls=1 1\n2 1000000\n"));
        }
    }
    survives(text.as_bytes(), Format::Callgrind).unwrap();
    let deep: String =
        (0..50_000).map(|at| format!("{{\"ph\":\"B\",\"name\":\"f\",\"ts\":{at}}},")).collect();
    let (_, imported) =
        import_bytes(format!("[{deep}").as_bytes(), Some(Format::ChromeTrace), &ImportOptions::default())
            .unwrap();
    assert_eq!(imported.profile.spans.len(), 50_000);
}

#[test]
fn values_whose_sum_overflows_are_rejected() {
    let huge = u64::MAX;
    for (text, format) in [
        (format!("a {huge}\na {huge}\n"), Format::Folded),
        (
            format!("a 1 1.0: {huge} cycles: \n\t1 f (x)\n\na 1 1.0: {huge} cycles: \n\t1 f (x)\n"),
            Format::PerfScript,
        ),
        (format!("desc: x\nevents: Ir\nfn=f\n1 {huge}\nfn=g\n1 {huge}\n"), Format::Cachegrind),
    ] {
        assert!(matches!(survives(text.as_bytes(), format), Err(ImportError::TooLarge { .. })), "{format}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]
    #[test]
    fn changed_recordings_survive(which in 0..RECORDINGS.len(), changes in changes(7)) {
        let (name, format) = RECORDINGS[which];
        changed_bytes_survive(sample(name), format, changes);
    }
}
