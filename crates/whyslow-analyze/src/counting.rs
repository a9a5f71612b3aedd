//! Whether numbers were counted or sampled, and how many samples a row stands for.

use whyslow_profile::{MetricId, Profile, Subject};

/// Whether no value of a metric is a sample.
pub fn is_counted(profile: &Profile, metric: MetricId) -> bool {
    profile.metrics.get(metric.index()).is_some_and(|metric| !metric.origin.is_sampled())
}

/// The metric whose values are sample counts: other tools add up the samples of equal stacks.
pub(crate) fn sample_counts(profile: &Profile) -> Option<MetricId> {
    profile.metric_of(Subject::Samples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Quality;
    use crate::testing;
    use crate::{FunctionTable, Overview, Selection, SortBy};
    use whyslow_profile::{Metric, Origin, Samples, Unit};

    /// Two stacks of 100 and 50 samples, each added up to one row.
    fn added_up() -> Profile {
        let mut profile = testing::profile("main;a 1\nmain;b 1");
        let name = profile.strings.push("samples");
        let mut counts = Samples::default();
        for (row, count) in [(0, 100), (1, 50)] {
            counts.push(0, profile.samples[0].thread[row], profile.samples[0].stack[row], count);
        }
        profile.metrics.push(Metric::of_name("samples", Unit::Count).renamed(name));
        profile.samples.push(counts);
        profile
    }

    #[test]
    fn aggregated_rows_count_all_their_samples() {
        let profile = added_up();
        let samples = |profile: &Profile| {
            let table = FunctionTable::build(profile, &Selection::default(), true, SortBy::Total);
            (table.total_samples, Quality::of(profile).samples, Overview::of(profile).samples)
        };
        assert_eq!(samples(&profile), (150, 150, 150));
        let selection = Selection { metric: MetricId(1), ..Selection::default() };
        let table = FunctionTable::build(&profile, &selection, true, SortBy::Total);
        assert_eq!((table.total_samples, table.rows[1].self_samples), (150, 100));
    }

    #[test]
    fn counted_values_are_not_judged_as_samples() {
        let mut profile = testing::profile("main;a 3\n[truncated];b 2");
        assert!(!is_counted(&profile, MetricId(0)));
        profile.metrics[0].origin = Origin::Simulated;
        assert!(is_counted(&profile, MetricId(0)));
        let quality = Quality::of(&profile);
        assert!(quality.counted && quality.warnings.is_empty(), "{:?}", quality.warnings);
    }
}
