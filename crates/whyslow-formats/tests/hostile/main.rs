//! Randomly and deliberately broken files of other tools: the result is always a profile or an error with a
//! position, never a panic, and the memory is at most a bounded multiple of the file's size.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]

mod changes;
#[path = "../../../whyslow-profile/tests/support/counting.rs"]
mod counting;
mod recordings;

use std::io::{self, Write};
use std::path::PathBuf;

use proptest::prelude::*;
use whyslow_analyze::{FunctionTable, Selection, SortBy};
use whyslow_formats::export::{
    Export, write_callgrind, write_chrome_trace, write_coz, write_csv, write_firefox, write_perf_script,
    write_pprof, write_speedscope,
};
use whyslow_formats::import::{Format, ImportError, ImportOptions, import_bytes};

use crate::changes::{Change, change, changes};
use crate::counting::peak_of;

/// The files that are changed, and their formats.
const SAMPLES: [(&str, Format); 12] = [
    ("samply.json", Format::Firefox),
    ("firefox-70.json", Format::Firefox),
    ("pprof.pb", Format::Pprof),
    ("speedscope.json", Format::Speedscope),
    ("dhat.json", Format::Dhat),
    ("heaptrack.txt", Format::Heaptrack),
    ("massif.out.1", Format::Massif),
    ("callgrind.out.1", Format::Callgrind),
    ("folded.txt", Format::Folded),
    ("perf-script.txt", Format::PerfScript),
    ("profile.coz", Format::Coz),
    ("profile-json.coz", Format::Coz),
];
/// The text formats, in which a part of a file can be valid.
const TEXTS: [Format; 7] = [
    Format::Pprof,
    Format::Heaptrack,
    Format::Massif,
    Format::Callgrind,
    Format::Folded,
    Format::PerfScript,
    Format::Coz,
];

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(name)).unwrap()
}

/// Tables of rows are wider than the text they are read from.
fn allowed(file_len: usize) -> usize {
    (1 << 20) + 100 * file_len
}

/// Imports hostile bytes and, if they are accepted, uses the profile as commands do.
fn survives(bytes: &[u8], format: Format) -> Result<(), ImportError> {
    let (read, peak) = peak_of(|| import_bytes(bytes, Some(format), &ImportOptions::default()));
    assert!(peak <= allowed(bytes.len()), "{peak} bytes of memory for a file of {}", bytes.len());
    let profile = match read {
        Ok((_, imported)) => imported.profile,
        Err(error) => {
            if let ImportError::AtByte { offset, .. } = &error {
                assert!(*offset <= bytes.len() as u64, "{error}");
            }
            assert!(!error.to_string().is_empty());
            return Err(error);
        }
    };
    for metric in profile.metric_ids() {
        let selection = Selection { metric, ..Selection::default() };
        FunctionTable::build(&profile, &selection, true, SortBy::Total);
        let export = Export::new(&profile, &selection, true);
        let writers = [
            write_firefox,
            write_pprof,
            write_speedscope,
            write_perf_script,
            write_chrome_trace,
            write_callgrind,
            write_csv,
        ];
        for write in writers {
            write(&export, &mut io::sink()).unwrap();
        }
    }
    if !profile.causal.experiments.is_empty() {
        let selection = Selection::default();
        write_coz(&Export::new(&profile, &selection, true), &mut io::sink()).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.whyslow");
    whyslow_profile::file::write(&path, &profile).unwrap();
    assert!(whyslow_profile::file::read(&path).unwrap() == profile);
    Ok(())
}

#[test]
fn a_truncated_file_is_an_error_with_a_position() {
    for (name, format) in SAMPLES {
        let whole = sample(name);
        for len in (0..whole.len()).step_by(1 + whole.len() / 300) {
            let result = survives(&whole[..len], format);
            if !TEXTS.contains(&format) {
                assert!(matches!(result, Err(ImportError::AtByte { .. })), "{name} cut at {len}: {result:?}");
            }
        }
    }
}

#[test]
fn a_file_of_another_format_is_an_error() {
    for (name, _) in SAMPLES {
        let bytes = sample(name);
        for &format in Format::ALL {
            let _ = survives(&bytes, format);
        }
    }
    for &format in Format::ALL {
        for bytes in [
            &b""[..],
            b"\0",
            b"{}",
            b"[]",
            b"null",
            b"\n\n\n",
            &[0xff; 64],
            b"{\"meta\":{},\"threads\":[{}]}",
        ] {
            let _ = survives(bytes, format);
        }
    }
}

#[test]
fn a_file_with_huge_claims_takes_little_memory() {
    // Lengths of gigabytes, in every place that has one.
    for tag in [0x0a, 0x12, 0x1a, 0x22, 0x2a, 0x32] {
        let huge = [tag, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2, 3];
        assert!(matches!(survives(&huge, Format::Pprof), Err(ImportError::AtByte { .. })));
    }
    let firefox = br#"{"meta":{"preprocessedProfileVersion":57,"interval":1e308},"shared":{"stringArray":["f"]},"threads":[
        {"name":"t","samples":{"length":4294967295,"stack":[0,4294967294,1e300,-5],"time":[1e308,-1e308],"weight":[1e308,9e18]},
         "stackTable":{"length":4e9,"frame":[0,0],"prefix":[null,0]},"frameTable":{"func":[0],"inlineDepth":[4e9]},
         "funcTable":{"name":[0]}}]}"#;
    let _ = survives(firefox, Format::Firefox);
    let _ = survives(br#"{"shared":{"frames":[{"name":"f"}]},"profiles":[{"type":"sampled","unit":"seconds","samples":[[0],[0]],"weights":[1e300,1e300]}]}"#, Format::Speedscope);
    let _ = survives(br#"{"dhatFileVersion":2,"pps":[{"tb":18446744073709551615,"tbk":1,"fs":[0]},{"tb":18446744073709551615,"fs":[0]}],"ftbl":["f"]}"#, Format::Dhat);
}

#[test]
fn endless_inlining_ends() {
    let rows = 20_000;
    let list = |row: &dyn Fn(usize) -> String| (0..rows).map(row).collect::<Vec<_>>().join(",");
    let text = format!(
        r#"{{"meta":{{"preprocessedProfileVersion":57,"interval":1}},"shared":{{"stringArray":["f"]}},"threads":[{{"name":"t",
        "samples":{{"stack":[{}],"time":[{}]}},"stackTable":{{"frame":[{}],"prefix":[null,{}]}},
        "frameTable":{{"func":[{}],"inlineDepth":[{}],"address":[{}]}},"funcTable":{{"name":[0]}}}}]}}"#,
        list(&|row| row.to_string()),
        list(&|row| row.to_string()),
        list(&|row| row.to_string()),
        (0..rows - 1).map(|row| row.to_string()).collect::<Vec<_>>().join(","),
        list(&|_| "0".to_owned()),
        list(&|row| row.to_string()),
        list(&|_| "16".to_owned()),
    );
    let (_, imported) = import_bytes(text.as_bytes(), None, &ImportOptions::default()).unwrap();
    assert_eq!(imported.profile.samples[0].len(), rows);
}

#[test]
fn a_gzip_bomb_is_not_unpacked() {
    let import = |line: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        for _ in 0..256 {
            packer.write_all(&line.repeat((1 << 20) / line.len())).unwrap();
        }
        let bomb = packer.finish().unwrap();
        let (read, peak) = peak_of(|| import_bytes(&bomb, None, &ImportOptions::default()));
        assert!(peak < 256 << 20, "{peak}");
        read
    };
    let read = import(b"main;f 1\n");
    assert!(matches!(read, Err(ImportError::TooLarge { .. })), "{read:?}");
    // What is no profile is not unpacked at all.
    let read = import(b" ");
    assert!(matches!(read, Err(ImportError::UnknownFormat)), "{read:?}");
}

/// Whole, and cut where a reader might stop.
fn changed_bytes_survive(mut bytes: Vec<u8>, format: Format, changes: Vec<Change>) {
    for one in changes {
        change(&mut bytes, one);
    }
    let _ = survives(&bytes, format);
    let _ = survives(&bytes[..bytes.len().min(4096)], format);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn changed_files_survive(which in 0..SAMPLES.len(), changes in changes(5)) {
        let (name, format) = SAMPLES[which];
        changed_bytes_survive(sample(name), format, changes);
    }
}
