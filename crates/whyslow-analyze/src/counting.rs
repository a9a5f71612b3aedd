//! Whether numbers were counted or sampled, and how many samples a row stands for.

use whyslow_profile::{EventSource, Profile, Unit};

use crate::heap::{is_heap_metric, metric_row};

/// Other tools that count, each as an import names it.
const COUNTERS: [&str; 5] = ["callgrind", "cachegrind", "DHAT", "massif", "heaptrack"];

/// Whether the values of a metric were counted, and none is a sample.
pub fn is_counted(profile: &Profile, metric: usize) -> bool {
    let by_tool = matches!(&profile.meta.source, EventSource::Imported(tool)
        if COUNTERS.iter().any(|counter| tool.starts_with(counter)));
    by_tool || is_heap_metric(profile, metric)
}

/// The metric whose values are numbers of samples: other tools add up the samples of equal stacks.
pub(crate) fn sample_counts(profile: &Profile) -> Option<usize> {
    let imported = matches!(profile.meta.source, EventSource::Imported(_));
    metric_row(profile, "samples").filter(|&row| imported && profile.metrics[row].unit == Unit::Count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Quality;
    use crate::testing;
    use crate::{FunctionTable, Overview, Selection, SortBy};
    use whyslow_profile::{Metric, Samples};

    /// Two stacks of 100 and 50 samples, each added up to one row.
    fn added_up() -> Profile {
        let mut profile = testing::profile("main;a 1\nmain;b 1");
        let name = profile.strings.push("samples");
        let mut counts = Samples::default();
        for (row, count) in [(0, 100), (1, 50)] {
            counts.push(0, profile.samples[0].thread[row], profile.samples[0].stack[row], count);
        }
        profile.metrics.push(Metric { name, unit: Unit::Count });
        profile.samples.push(counts);
        profile
    }

    #[test]
    fn rows_that_stand_for_many_samples_count_as_many() {
        let mut profile = added_up();
        let samples = |profile: &Profile| {
            let table = FunctionTable::build(profile, &Selection::default(), true, SortBy::Total);
            (table.total_samples, Quality::of(profile).samples, Overview::of(profile).samples)
        };
        assert_eq!(samples(&profile), (2, 2, 2), "our own metrics are what they are");
        profile.meta.source = EventSource::Imported("pprof".to_owned());
        assert_eq!(samples(&profile), (150, 150, 150));
        let selection = Selection { metric: 1, ..Selection::default() };
        let table = FunctionTable::build(&profile, &selection, true, SortBy::Total);
        assert_eq!((table.total_samples, table.rows[1].self_samples), (150, 100));
    }

    #[test]
    fn what_was_counted_is_not_judged_as_samples() {
        let mut profile = testing::profile("main;a 3\n[truncated];b 2");
        assert!(!is_counted(&profile, 0));
        profile.meta.source = EventSource::Imported("callgrind".to_owned());
        assert!(is_counted(&profile, 0));
        let quality = Quality::of(&profile);
        assert!(quality.counted && quality.warnings.is_empty(), "{:?}", quality.warnings);
    }
}
