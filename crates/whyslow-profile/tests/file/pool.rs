//! Pooled runs: nothing is lost, and equal rows become one.

use whyslow_profile::{
    Builder, CodeKind, Frame, Function, FunctionId, LocationId, Meta, Metric, Origin, Pool, Process, Profile,
    ProfileNs, RelativeAddress, Sampler, StackId, Subject, Thread, file,
};

use crate::support;

/// All contents of each sample as text: metric, time, process, thread, frames, value.
fn describe(profile: &Profile, offset_ns: u64) -> Vec<String> {
    let mut all = Vec::new();
    for (metric, samples) in profile.metrics.iter().zip(&profile.samples) {
        let name = profile.text(metric.name);
        if metric.of == Subject::Heap {
            continue;
        }
        for at in 0..samples.len() {
            let thread = &profile.threads[samples.thread[at].index()];
            let process = &profile.processes[thread.process.index()];
            let frames = frames(profile, samples.stack[at]);
            all.push(format!(
                "{name:?} {} {} {} {} {:?} {frames:?} {}",
                metric.unit.label(),
                offset_ns.saturating_add(samples.time_ns[at]),
                process.pid,
                thread.tid,
                profile.text(thread.name),
                samples.value[at]
            ));
        }
    }
    all.sort();
    all
}

fn frames(profile: &Profile, stack: StackId) -> Vec<String> {
    // The placeholder of missing frames always means itself, even if a random profile gives it frames.
    let locations = profile.locations_of(stack).filter(|location| *location != LocationId::TRUNCATED);
    let locations = locations.map(|location| {
        let module = profile.locations.module[location.index()];
        let module = module.map(|module| profile.text(profile.modules[module.index()].path));
        let names = profile.frames.of(location).iter().map(|frame| {
            let function = &profile.functions[frame.function.index()];
            (profile.text(function.name), frame.file.map(|file| profile.text(file)), frame.line)
        });
        let names = names.collect::<Vec<_>>();
        format!("{module:?}+{:x} {names:?}", profile.locations.address[location.index()].0)
    });
    locations.collect()
}

fn pooled(runs: &[&Profile]) -> Profile {
    let mut pool = Pool::new();
    runs.iter().for_each(|run| pool.add(run));
    pool.finish()
}

#[test]
fn every_sample_of_every_run_is_in_the_pool() {
    for seed in 0..200 {
        let runs = [support::profile(seed, 12), support::profile(seed + 1000, 12)];
        let pool = pooled(&[&runs[0], &runs[1]]);
        let first = pooled(&[&runs[0]]).meta.duration_ns;
        let mut both = describe(&runs[0], 0);
        both.extend(describe(&runs[1], first));
        both.sort();
        assert_eq!(describe(&pool, 0), both, "seed {seed}");
    }
}

#[test]
fn a_pool_is_a_valid_profile() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool.whyslow");
    for seed in 0..50 {
        let (a, b) = (support::profile(seed, 12), support::profile(seed + 1, 12));
        let pool = pooled(&[&a, &b, &a]);
        file::write(&path, &pool).unwrap();
        assert_eq!(describe(&file::read(&path).unwrap(), 0).len(), describe(&pool, 0).len(), "seed {seed}");
    }
}

/// A run of one thread with these stacks and values. Each function is one letter.
fn run(stacks: &[(&str, u64)], duration_ns: u64) -> Profile {
    let mut builder = Builder::new();
    let metric = builder.metric(Metric::cpu_time(Sampler { rate_hz: 1000, ..Sampler::default() }));
    let name = builder.string("app");
    let process = builder.process(Process { pid: 1, parent: None, name, start_ns: 0, end_ns: None });
    let thread = builder.thread(Thread { process, tid: 1, name, start_ns: 0, end_ns: None, times: None });
    // Addresses follow the order in which a run meets its functions: they differ from run to run, like those
    // of a JIT.
    let mut letters = Vec::new();
    for (time_ns, (stack, value)) in (0..).zip(stacks) {
        let mut node = None;
        for letter in stack.chars() {
            let known = letters.iter().position(|known| *known == letter).unwrap_or_else(|| {
                letters.push(letter);
                letters.len() - 1
            });
            node = Some(builder.location(None, RelativeAddress(known as u64)))
                .map(|location| builder.stack(node, location));
        }
        builder.sample(metric, ProfileNs(time_ns), thread, node.unwrap(), *value);
    }
    let meta = Meta { duration_ns, user_time_ns: duration_ns, ..Meta::default() };
    let mut profile = builder.into_profile(meta).unwrap();
    for (index, letter) in letters.iter().enumerate() {
        let name = profile.strings.push(&letter.to_string());
        let function = FunctionId::from(profile.functions.len());
        let kind = CodeKind::Yours;
        let row =
            Function { name, raw_name: name, crate_name: None, kind, file: None, line: 0, module: None };
        profile.functions.push(row);
        profile.frames.set(LocationId::from(index + 1), &[Frame { function, file: None, line: 0 }]);
    }
    profile
}

#[test]
fn equal_stacks_of_two_runs_are_one() {
    let (a, b) = (run(&[("mp", 3), ("mq", 1)], 1_000), run(&[("mp", 5), ("mq", 2)], 500));
    let pool = pooled(&[&a, &b]);
    assert_eq!(pool.stacks.len(), 3, "m, mp, mq");
    assert_eq!(pool.functions.len(), 3);
    assert_eq!(pool.threads.len(), 2);
    assert_eq!(pool.samples[0].value.iter().sum::<u64>(), 11);
    assert_eq!((pool.meta.duration_ns, pool.meta.user_time_ns), (1_500, 1_500));
    assert!(pool.samples[0].time_ns[2..].iter().all(|time| *time >= 1_000), "the second run comes second");
}

#[test]
fn an_address_with_another_meaning_is_another_row() {
    let (a, b) = (run(&[("mp", 3)], 1_000), run(&[("mq", 5)], 500));
    let pool = pooled(&[&a, &b]);
    assert_eq!(pool.locations.len(), 4, "the place-holder, m, p and q");
    assert_eq!(pool.stacks.len(), 3);
}

#[test]
fn rates_are_weighted_by_the_time_they_were_used() {
    let (mut a, b) = (run(&[("m", 1)], 3_000_000_000), run(&[("m", 1)], 1_000_000_000));
    a.metrics[0].origin = Origin::Sampled(Sampler { rate_hz: 2000, ..Sampler::default() });
    assert_eq!(pooled(&[&a, &b]).main_sampler().rate_hz, 1750);
}
