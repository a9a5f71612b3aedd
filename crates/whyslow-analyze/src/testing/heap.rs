//! Heap recordings written as text, for tests.

use whyslow_profile::heap::metric;
use whyslow_profile::{
    ExitStatus, Growth, HeapCounts, HeapFacts, HeapSite, LeakCheck, Metric, Origin, Profile, Samples,
    Subject, Unit,
};

use super::Made;

const METRICS: [(&str, Unit); 7] = [
    (metric::BYTES_ALLOCATED, Unit::Bytes),
    (metric::ALLOCATIONS, Unit::Count),
    (metric::BYTES_FREED, Unit::Bytes),
    (metric::LIVE_AT_PEAK, Unit::Bytes),
    (metric::LIVE_AT_EXIT, Unit::Bytes),
    (metric::TEMPORARY, Unit::Count),
    (metric::UNUSED, Unit::Bytes),
];

/// A profile with only a heap, one allocating stack per line: a stack as in [`super::profile`], a colon, and
/// numbers by the column names of [`HeapCounts`].
///
/// ```text
/// app::main@m.rs:3;app::load@l.rs:7 : allocations=3 bytes_allocated=300 peak_bytes=200
/// worker: app::work : frees=1 bytes_freed=8 made_ms=3 freed_ms=20 growth=linear
/// ```
/// Bytes are allocated at `made_ms` and freed at `freed_ms` (0 by default); `growth` is a word of [`Growth`].
/// Samples of every metric, the peak and a leak check at exit follow from the numbers.
///
/// # Panics
/// If a line has another format.
pub fn heap_profile(text: &str) -> Profile {
    let mut profile = super::profile("");
    profile.metrics.clear();
    profile.samples.clear();
    add_heap(&mut profile, text);
    profile.meta.duration_ns = 100 * super::SAMPLE_NS;
    profile.meta.exit = Some(ExitStatus::Code(0));
    profile
}

/// Marks the heap as sampled, with one sample per this many bytes.
///
/// # Panics
/// If the profile has no heap.
pub fn sampled_heap(profile: &mut Profile, every: u64) {
    profile.meta.heap.as_mut().expect("a heap").sample_bytes = Some(every);
    for metric in profile.metrics.iter_mut().filter(|metric| metric.of == Subject::Heap) {
        metric.origin = Origin::Estimated;
    }
}

/// Adds a heap recording to a profile; see [`heap_profile`].
///
/// # Panics
/// If a line has another format than [`heap_profile`] describes.
pub fn add_heap(profile: &mut Profile, text: &str) {
    let mut made = Made { profile: std::mem::take(profile), stacks: Vec::new() };
    let first = made.profile.metrics.len();
    for (name, unit) in METRICS {
        let row = made.text(name);
        made.profile.metrics.push(Metric::of_name(name, unit).renamed(row));
        made.profile.samples.push(Samples::default());
    }
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (stack, numbers) = line.rsplit_once(" : ").expect("a stack and its numbers");
        let (thread, stack) = made.thread_and_stack(stack);
        let mut counts = [0; HeapCounts::COLUMNS.len()];
        let mut growth = Growth::Unknown;
        let (mut made_ms, mut freed_ms) = (0, 0);
        for (name, value) in numbers.split_whitespace().map(|word| word.split_once('=').expect("name=value"))
        {
            let number = || value.parse::<u64>().expect("a number");
            match name {
                "made_ms" => made_ms = number(),
                "freed_ms" => freed_ms = number(),
                "growth" => {
                    growth = *Growth::ALL
                        .iter()
                        .find(|growth| growth.label() == value)
                        .expect("a class of growth");
                }
                _ => {
                    let column = HeapCounts::COLUMNS.iter().position(|column| *column == name);
                    counts[column.expect("a column")] = number();
                }
            }
        }
        let counts = HeapCounts::from_numbers(counts);
        let values = [
            (made_ms, counts.bytes_allocated),
            (made_ms, counts.allocations),
            (freed_ms, counts.bytes_freed),
            (made_ms, counts.peak_bytes),
            (made_ms, counts.live_at_exit_bytes),
            (freed_ms, counts.temporary),
            (freed_ms, counts.unused_bytes),
        ];
        for (samples, (ms, value)) in made.profile.samples[first..].iter_mut().zip(values) {
            if value > 0 {
                samples.push(ms * super::SAMPLE_NS, thread, stack, value);
            }
        }
        made.profile.heap.sites.push(HeapSite { stack, counts, growth });
    }
    *profile = made.profile;
    let totals = profile.heap.totals();
    profile.meta.heap = Some(HeapFacts {
        peak_bytes: totals.peak_bytes,
        temporary_within: 1,
        leaks: LeakCheck::AtExit,
        unused: totals.examined_bytes > 0,
        processes: profile.processes.len() as u64,
        allocators: vec!["malloc".to_owned()],
        ..HeapFacts::default()
    });
}
