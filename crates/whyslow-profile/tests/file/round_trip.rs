//! A profile that is written at once reads back equal.

use proptest::prelude::*;
use whyslow_profile::{
    Builder, LocationId, Meta, Metric, MetricId, Process, Profile, ProfileNs, Sampler, Samples, StackId,
    StringId, Thread, ThreadId, Trigger, Unit, file,
};

use crate::support;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_profile_is_read_back_equal(seed in any::<u64>(), size in 1usize..120, sealed in any::<bool>()) {
        let mut profile = support::profile(seed, size);
        profile.sealed = sealed;
        let read = file::read_bytes(&support::file_bytes(&profile)).unwrap();
        prop_assert_eq!(read, profile);
    }
}

#[test]
fn an_empty_profile_is_read_back() {
    let profile = Profile { sealed: true, ..Profile::default() };
    assert_eq!(file::read_bytes(&support::file_bytes(&profile)).unwrap(), profile);
}

#[test]
fn tables_larger_than_a_chunk_are_split_and_read_back() {
    let mut profile = support::profile(2, 4);
    profile.strings.push(&"long name ".repeat(600_000));
    for number in 0..300_000 {
        profile.strings.push(&number.to_string());
    }
    while profile.stacks.len() < 300_000 {
        profile
            .stacks
            .push(Some(StackId::from(profile.stacks.len() - 1)), whyslow_profile::LocationId::TRUNCATED);
    }
    profile.metrics = vec![Metric::cpu_time(Sampler::default()).renamed(StringId(0))];
    // A million equal samples pack to almost nothing; the reader's limit must allow that in real files.
    let mut samples = Samples::default();
    (0..1_000_000).for_each(|_| samples.push(0, ThreadId(0), StackId(0), 1));
    profile.samples = vec![samples];
    let bytes = support::file_bytes(&profile);
    assert!(bytes.len() < 4_000_000, "{} bytes", bytes.len());
    assert!(file::read_bytes(&bytes).unwrap() == profile);
}

/// A file of a recording whose samples are these numbers of cycles, with another metric that is not time.
fn recorded_cycles(cycles: &[u64], worth: Option<f64>, sealed: bool) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cycles.whyslow");
    let meta = Meta::default();
    let mut writer = file::Writer::new(std::fs::File::create(&path).unwrap(), &meta).unwrap();
    let mut builder = Builder::new();
    let name = builder.string("app");
    let process = builder.process(Process { pid: 1, parent: None, name, start_ns: 0, end_ns: None });
    let thread = builder.thread(Thread { process, tid: 1, name, start_ns: 0, end_ns: None, times: None });
    let stack = builder.stack(None, LocationId::TRUNCATED);
    let others = builder.metric(Metric::unknown("faults", Unit::Count));
    let time = builder.metric(Metric::cpu_time(Sampler { trigger: Trigger::Cycles, rate_hz: 1000 }));
    builder.sample(others, ProfileNs(0), thread, stack, 7);
    writer.append(&mut builder).unwrap();
    cycles.iter().for_each(|value| builder.sample(time, ProfileNs(0), thread, stack, *value));
    worth.into_iter().for_each(|worth| builder.cycle_worth(time, worth));
    writer.append(&mut builder).unwrap();
    if sealed {
        writer.seal().unwrap();
    }
    std::fs::read(&path).unwrap()
}

#[test]
fn cycles_are_nanoseconds_after_reading_and_after_writing_again() {
    let huge = (1 << 60) + 2;
    let once = file::read_bytes(&recorded_cycles(&[3_000_000, 1, huge], Some(0.5), true)).unwrap();
    assert_eq!(once.samples[1].value[..2], [1_500_000, 1]);
    assert_eq!(once.samples[0].value, [7], "only its own samples are cycles");
    assert_eq!((once.main_metric(), once.main_sampler().rate_hz), (MetricId(1), 1000));
    let twice = file::read_bytes(&support::file_bytes(&once)).unwrap();
    assert!(twice == once);
}

#[test]
fn without_the_length_of_a_cycle_the_typical_sample_is_one_interval() {
    for worth in [None, Some(0.0), Some(-1.0), Some(f64::NAN)] {
        let bytes = recorded_cycles(&[3_000_000, 3_000_000, 6_000_000], worth, false);
        let read = file::read_bytes(&bytes).unwrap();
        assert_eq!(read.samples[1].value, [1_000_000, 1_000_000, 2_000_000], "{worth:?}");
    }
}

#[test]
fn writing_replaces_a_file_only_when_it_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept.whyslow");
    let profile = support::profile(1, 20);
    file::write(&path, &profile).unwrap();
    let before = std::fs::read(&path).unwrap();

    let mut unwritable = profile.clone();
    unwritable.strings.push(&"x".repeat(17 << 20));
    file::write(&path, &unwritable).unwrap_err();
    assert!(std::fs::read(&path).unwrap() == before, "the old file is untouched");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");

    let link = folder.path().join("link.whyslow");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let other = support::profile(3, 20);
    file::write(&link, &other).unwrap();
    assert!(link.is_symlink());
    assert!(file::read(&path).unwrap() == other);
}
