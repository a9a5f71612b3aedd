//! A profile streamed in several appends reads back as the same tables as one written at once.

use std::fs::File;

use proptest::prelude::*;
use whyslow_profile::{
    Builder, CausalTarget, Frame, Function, FunctionId, LocationId, MetricId, Profile, ProfileNs, StackId,
    StringId, Trigger, file,
};

use crate::support::{self, Random};

/// Adds the rows of a profile to a builder and flushes at random points.
fn stream(profile: &Profile, path: &std::path::Path, r: &mut Random) -> file::Writer {
    let mut writer = file::Writer::new(File::create(path).unwrap(), &profile.meta).unwrap();
    let mut builder = Builder::new();
    let mut flush = |builder: &mut Builder| {
        if r.below(8) == 0 {
            writer.append(builder).unwrap();
        }
    };
    for (row, text) in profile.strings.iter().enumerate() {
        assert_eq!(builder.string(text), StringId::from(row));
        flush(&mut builder);
    }
    for process in &profile.processes {
        // First only a number, then renamed; a parent can be set before it has a row.
        let parent = process.parent;
        let id = builder.process(whyslow_profile::Process { parent: None, start_ns: 0, ..process.clone() });
        flush(&mut builder);
        let start_ns = process.start_ns;
        builder.update_process(id, |row| row.start_ns = start_ns);
        assert_eq!(builder.process_row(id).parent, None);
        if parent.is_none_or(|parent| parent < id) {
            builder.update_process(id, |row| row.parent = parent);
        }
    }
    for (row, process) in profile.processes.iter().enumerate() {
        builder.update_process(row.into(), |row| row.parent = process.parent);
        flush(&mut builder);
    }
    for thread in &profile.threads {
        let id = builder.thread(whyslow_profile::Thread { end_ns: None, ..thread.clone() });
        flush(&mut builder);
        builder.update_thread(id, |row| row.end_ns = thread.end_ns);
        assert_eq!(builder.thread_row(id), thread);
    }
    for module in &profile.modules {
        builder.module(module.clone());
        flush(&mut builder);
    }
    for row in 1..profile.locations.len() {
        let id = builder.location(profile.locations.module[row], profile.locations.address[row]);
        assert_eq!(id, LocationId::from(row));
        flush(&mut builder);
    }
    for id in (0..profile.stacks.len()).map(StackId::from) {
        assert_eq!(builder.stack(profile.stacks.parent(id), profile.stacks.location(id)), id);
        flush(&mut builder);
    }
    for metric in &profile.metrics {
        let id = builder.metric(metric.renamed(profile.text(metric.name)));
        if metric.origin.sampler().trigger == Trigger::Cycles {
            builder.cycle_worth(id, 1.0);
        }
    }
    for (metric, samples) in (0..).map(MetricId).zip(&profile.samples) {
        for row in 0..samples.len() {
            let (time, value) = (samples.time_ns[row], samples.value[row]);
            builder.sample(metric, ProfileNs(time), samples.thread[row], samples.stack[row], value);
            flush(&mut builder);
        }
    }
    for detail in profile.wait_details.rows() {
        builder.wait_detail(detail);
        flush(&mut builder);
    }
    for span in &profile.spans {
        builder.span(span.clone());
        flush(&mut builder);
    }
    for counter in &profile.counters {
        builder.counter(counter.clone());
        flush(&mut builder);
    }
    let values = &profile.counter_values;
    for row in 0..values.len() {
        builder.counter_value(values.counter[row], ProfileNs(values.time_ns[row]), values.value[row]);
        flush(&mut builder);
    }
    for row in &profile.syscalls {
        builder.syscalls(row.clone());
        flush(&mut builder);
    }
    for target in &profile.causal.targets {
        let id = builder.causal_target(CausalTarget { samples: 0, ..*target });
        flush(&mut builder);
        builder.update_causal_target(id, |row| row.samples = target.samples);
    }
    for point in &profile.causal.points {
        builder.progress_point(*point);
        flush(&mut builder);
    }
    for experiment in &profile.causal.experiments {
        builder.experiment(*experiment);
        flush(&mut builder);
    }
    for row in &profile.causal.visits {
        builder.visits(*row);
        flush(&mut builder);
    }
    builder.heap(profile.heap.clone());
    writer.append(&mut builder).unwrap();
    assert_eq!(builder.pending_samples(), 0);
    writer
}

/// Interning merges equal rows, so a profile to compare must not have any.
fn without_equal_rows(mut profile: Profile) -> Profile {
    let mut builder = Builder::new();
    let mut strings = whyslow_profile::Strings::default();
    for (row, text) in profile.strings.iter().enumerate() {
        let text = format!("{row} {text}");
        builder.string(&text);
        strings.push(&text);
    }
    profile.strings = strings;
    for (row, address) in profile.locations.address.iter_mut().enumerate().skip(1) {
        address.0 = row as u64;
    }
    let mut stacks = whyslow_profile::Stacks::default();
    for row in 0..profile.locations.len() {
        stacks.push(row.checked_sub(1).map(|row| StackId::from(row / 2)), LocationId::from(row));
    }
    for samples in &mut profile.samples {
        samples.stack.iter_mut().for_each(|stack| stack.0 %= stacks.len() as u32);
    }
    profile.wait_details.waker_stack.iter_mut().flatten().for_each(|stack| stack.0 %= stacks.len() as u32);
    profile.syscalls.iter_mut().for_each(|row| row.stack.0 %= stacks.len() as u32);
    profile.heap.sites.iter_mut().for_each(|site| site.stack.0 %= stacks.len() as u32);
    for stack in profile.wait_details.waker_stack.iter_mut().flatten() {
        stack.0 %= stacks.len() as u32;
    }
    profile.stacks = stacks;
    profile
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streaming_and_writing_at_once_give_the_same_tables(seed in any::<u64>(), size in 1usize..60) {
        let profile = without_equal_rows(support::profile(seed, size));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.whyslow");
        let mut writer = stream(&profile, &path, &mut Random(seed));

        let raw = file::read(&path).unwrap();
        prop_assert!(!raw.sealed);
        prop_assert_eq!(&raw.samples, &profile.samples);
        prop_assert!(raw.functions.is_empty() && raw.frames.is_empty());

        writer.append_symbols(&profile).unwrap();
        writer.meta(&profile.meta).unwrap();
        prop_assert_eq!(writer.len(), std::fs::metadata(&path).unwrap().len());
        writer.seal().unwrap();
        prop_assert_eq!(file::read(&path).unwrap(), profile);
    }
}

#[test]
fn a_builder_shares_equal_texts_addresses_and_stacks_across_flushes() {
    let folder = tempfile::tempdir().unwrap();
    let file = File::create(folder.path().join("p.whyslow")).unwrap();
    let mut writer = file::Writer::new(file, &Profile::default().meta).unwrap();
    let mut builder = Builder::default();
    let add = |builder: &mut Builder| {
        let location = builder.location(None, whyslow_profile::RelativeAddress(0));
        assert_ne!(location, LocationId::TRUNCATED, "row 0 is taken");
        let root = builder.stack(None, location);
        (builder.string("a"), location, root, builder.stack(Some(root), LocationId::TRUNCATED))
    };
    let first = add(&mut builder);
    writer.append(&mut builder).unwrap();
    assert_eq!(add(&mut builder), first);
}

#[test]
fn symbols_are_appended_last_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.whyslow");
    let profile = without_equal_rows(support::profile(4, 10));
    let mut writer = stream(&profile, &path, &mut Random(1));
    let mut symbolised = file::read(&path).unwrap();
    let name = symbolised.strings.push("learned later");
    symbolised.functions = vec![Function {
        name,
        raw_name: name,
        crate_name: None,
        kind: whyslow_profile::CodeKind::Yours,
        file: None,
        line: 1,
        module: None,
    }];
    symbolised.frames.set(LocationId(0), &[Frame { function: FunctionId(0), file: None, line: 7 }]);
    writer.append_symbols(&symbolised).unwrap();
    writer.append_symbols(&symbolised).unwrap_err();
    writer.append(&mut Builder::new()).unwrap_err();
    writer.seal().unwrap();
    symbolised.sealed = true;
    assert_eq!(file::read(&path).unwrap(), symbolised);
}

#[test]
fn heap_sites_can_be_replaced_before_the_symbols() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.whyslow");
    let mut profile = without_equal_rows(support::profile(4, 30));
    assert!(!profile.heap.sites.is_empty());
    let mut writer = stream(&profile, &path, &mut Random(1));
    profile.heap.sites[0].counts.suppressed_blocks += 7;
    writer.replace_heap_sites(&profile.heap).unwrap();
    writer.append_symbols(&profile).unwrap();
    writer.replace_heap_sites(&profile.heap).unwrap_err();
    writer.seal().unwrap();
    assert_eq!(file::read(&path).unwrap(), profile);
}

/// A file with a size limit, as on a full disk: appends fail half-way, and the file remains valid.
#[test]
fn a_failed_append_leaves_the_file_unchanged() {
    let mut profile = without_equal_rows(support::profile(6, 30));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p.whyslow");
    let mut writer = stream(&profile, &path, &mut Random(2));
    let before = std::fs::read(&path).unwrap();
    // The last symbol table cannot be written; those before it already are.
    let code = whyslow_profile::Code {
        module: whyslow_profile::ModuleId(0),
        start: whyslow_profile::RelativeAddress(0),
        bytes: vec![0x90; 17 << 20],
    };
    profile.code.rows.push(code);
    writer.append_symbols(&profile).unwrap_err();
    assert!(std::fs::read(&path).unwrap() == before);
    profile.code.rows.pop();
    writer.append_symbols(&profile).unwrap();
    writer.seal().unwrap();
    assert_eq!(file::read(&path).unwrap(), profile);
}
