//! Files that end early: an unsealed one opens up to its last complete chunk, a sealed one is an error.

use std::fs::File;

use whyslow_profile::{Builder, Meta, Profile, ProfileNs, StackId, file, file::ReadError};

use crate::support;

fn unsealed() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.whyslow");
    let meta = Meta { recorder: "test".into(), ..Meta::default() };
    let mut writer = file::Writer::new(File::create(&path).unwrap(), &meta).unwrap();
    let mut builder = Builder::new();
    let metric = builder.metric(whyslow_profile::Metric::cpu_time(whyslow_profile::Sampler::default()));
    let name = builder.string("main");
    let process =
        builder.process(whyslow_profile::Process { pid: 1, parent: None, name, start_ns: 0, end_ns: None });
    let thread = builder.thread(whyslow_profile::Thread {
        process,
        tid: 1,
        name,
        start_ns: 0,
        end_ns: None,
        times: None,
    });
    let mut stack: Option<StackId> = None;
    for time in 0..40 {
        let location = builder.location(None, whyslow_profile::RelativeAddress(time));
        stack = Some(builder.stack(stack, location));
        builder.sample(metric, ProfileNs(time), thread, stack.unwrap(), 1);
        if time % 10 == 9 {
            writer.append(&mut builder).unwrap();
        }
    }
    std::fs::read(&path).unwrap()
}

/// The profile without its seal, as a killed recorder leaves it.
fn prefix_of(part: &Profile, whole: &Profile) -> bool {
    let samples =
        |profile: &Profile| profile.samples.first().map_or(Vec::new(), |table| table.time_ns.clone());
    !part.sealed && samples(whole).starts_with(&samples(part))
}

#[test]
fn an_unsealed_file_opens_up_to_its_last_whole_chunk() {
    let bytes = unsealed();
    let whole = file::read_bytes(&bytes).unwrap();
    assert_eq!((whole.sealed, whole.samples[0].len()), (false, 40));
    let mut seen = std::collections::BTreeSet::new();
    for len in 0..=bytes.len() {
        match file::read_bytes(&bytes[..len]) {
            Ok(part) => {
                assert!(prefix_of(&part, &whole), "{len} bytes");
                seen.insert(part.samples.first().map_or(0, whyslow_profile::Samples::len));
            }
            Err(ReadError::Empty) => assert!(len == 0 || len >= support::HEADER_LEN, "{len} bytes"),
            Err(ReadError::CutOff { .. }) => assert!(len < support::HEADER_LEN, "{len} bytes"),
            Err(error) => panic!("{len} bytes: {error}"),
        }
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 10, 20, 30, 40]);
}

#[test]
fn a_sealed_file_that_is_cut_off_is_an_error_at_every_length() {
    let bytes = support::file_bytes(&support::profile(8, 30));
    for len in 1..bytes.len() {
        let error = file::read_bytes(&bytes[..len]).unwrap_err();
        assert!(matches!(error, ReadError::CutOff { actual, .. } if actual == len as u64), "{len}: {error}");
    }
    assert!(matches!(file::read_bytes(&[]), Err(ReadError::Empty)));
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(file::read_bytes(&longer), Err(ReadError::Damaged { .. })));
}

#[test]
fn a_file_that_is_not_a_profile_is_refused_without_reading_all_of_it() {
    assert!(matches!(file::read_bytes(b"PERFILE2 and so on"), Err(ReadError::NotAProfile)));
    assert!(matches!(file::read_bytes(b"x"), Err(ReadError::NotAProfile)));
    assert!(matches!(file::read("/dev/zero".as_ref()), Err(ReadError::NotAProfile)));
    assert!(matches!(file::read("/".as_ref()), Err(ReadError::Io(_))));
}
