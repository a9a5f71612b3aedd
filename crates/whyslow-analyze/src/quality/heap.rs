//! The quality of a heap recording.

use whyslow_profile::heap::metric;
use whyslow_profile::{LeakCheck, Profile};

use super::warning::Warning;
use super::{NOTABLE, StackShares, truncation};
use crate::heap::{has_heap, is_heap_only};
use crate::selection::Selection;
use crate::units::share;

/// The quality of a heap recording.
#[derive(Debug, Clone, PartialEq)]
pub struct HeapQuality {
    /// Whether only the heap was recorded.
    pub only: bool,
    /// Counted allocations.
    pub allocations: u64,
    /// Lost allocations and frees.
    pub lost_events: u64,
    /// Bytes between two samples; `None` if every allocation was counted.
    pub sample_bytes: Option<u64>,
    /// Whether allocations are missing: an allocator or some of its calls were not found in the program, or a
    /// program that it started could not be recorded.
    pub partly_seen: bool,
    /// Share of the allocated bytes with truncated stacks.
    pub cut_share: f64,
}

impl HeapQuality {
    pub(super) fn of(profile: &Profile) -> Option<Self> {
        let only = is_heap_only(profile);
        if !only && !has_heap(profile) {
            return None;
        }
        let facts = profile.meta.heap.as_ref();
        let cut_share = profile.metric_named(metric::BYTES_ALLOCATED).map_or(0.0, |metric| {
            let weights = Selection { metric, ..Selection::default() }.weigh(profile);
            StackShares::of(profile, &weights).truncated
        });
        // A recorder that was killed leaves a timeline but no totals.
        let seen = profile
            .metric_named(metric::ALLOCATIONS)
            .map_or(0, |metric| Selection { metric, ..Selection::default() }.weigh(profile).total_value);
        Some(Self {
            only,
            allocations: profile.heap.totals().allocations.max(seen),
            lost_events: facts.map_or(0, |facts| facts.lost_events),
            sample_bytes: facts.and_then(|facts| facts.sample_bytes),
            partly_seen: profile.meta.misses_allocations(),
            cut_share,
        })
    }

    pub(super) fn warn(&self, profile: &Profile, warnings: &mut Vec<Warning>) {
        let Some(facts) = &profile.meta.heap else { return };
        let totals = profile.heap.totals();
        // Without CPU samples only the processes with an agent are known.
        let processes = (profile.processes.len() as u64).max(1);
        let missing = processes.saturating_sub(facts.processes);
        if missing > 0 {
            warnings.push(Warning::HeapNotRecorded { processes: missing, of: processes });
        } else if self.allocations == 0 {
            warnings.push(Warning::NoAllocations);
        }
        let lost = self.lost_events;
        if lost > 0 {
            let seen = totals.allocations.saturating_add(totals.frees);
            warnings.push(Warning::LostHeapEvents { lost, share: share(lost, lost.saturating_add(seen)) });
        }
        let frees = facts.unknown_frees;
        if frees > 0 {
            let share = share(frees, frees.saturating_add(totals.frees));
            warnings.push(Warning::UnknownFrees { frees, share });
        }
        if self.cut_share >= NOTABLE {
            warnings.push(truncation::explain_heap(profile, self.cut_share));
        }
        if let Some(sample_bytes) = facts.sample_bytes {
            warnings.push(Warning::HeapSampled { sample_bytes, error: facts.sample_error });
        }
        if let LeakCheck::Impossible(why) = &facts.leaks {
            warnings.push(Warning::NoLeakCheck(why.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::{Grade, Quality};
    use crate::testing;
    use whyslow_profile::{HeapFacts, HeapNote, KernelView, NoLeakCheck, Optimised, SymbolState};

    const ONE: &str = "main;app::load@l.rs:7 : allocations=99 frees=98 bytes_allocated=100 peak_bytes=50";

    fn judged(change: impl FnOnce(&mut HeapFacts)) -> Quality {
        let mut profile = testing::heap_profile(ONE);
        change(profile.meta.heap.as_mut().unwrap());
        Quality::of(&profile)
    }

    fn ids(quality: &Quality) -> Vec<&'static str> {
        quality.warnings.iter().map(Warning::id).collect()
    }

    #[test]
    fn heap_gets_no_warnings_about_cpu_samples() {
        let mut profile = testing::heap_profile(ONE);
        profile.meta.kernel = KernelView::Hidden;
        profile.meta.user_time_ns = 5_000_000_000;
        profile.modules[0].optimised = Optimised::No;
        let quality = Quality::of(&profile);
        assert_eq!((ids(&quality), quality.grade), (vec![], Grade::Good));
        assert_eq!(quality.expected_samples, None);
    }

    #[test]
    fn killed_recorder_leaves_a_timeline() {
        let mut profile = testing::heap_profile(ONE);
        profile.meta = whyslow_profile::Meta::default();
        profile.heap = whyslow_profile::Heap::default();
        profile.sealed = false;
        let quality = Quality::of(&profile);
        assert_eq!(ids(&quality), ["incomplete"]);
        assert_eq!(quality.heap.map(|heap| (heap.only, heap.allocations)), Some((true, 99)));
    }

    #[test]
    fn heap_still_warns_about_missing_debug_info() {
        let mut profile = testing::heap_profile(ONE);
        profile.modules[0].symbols = SymbolState::Names;
        let quality = Quality::of(&profile);
        assert_eq!(ids(&quality), ["no-debug-info"]);
        assert!(quality.warnings[0].to_string().starts_with("app (100.0 % of the bytes) is"));
    }

    #[test]
    fn lost_events_are_serious() {
        let quality = judged(|facts| facts.lost_events = 3);
        assert_eq!((ids(&quality), quality.grade), (vec!["lost-heap-events"], Grade::Poor));
        assert!(
            quality.warnings[0].to_string().starts_with("3 allocations and frees were lost (1.5 % of all)")
        );
    }

    #[test]
    fn each_heap_problem_has_its_warning() {
        let quality = judged(|facts| {
            facts.unknown_frees = 2;
            facts.sample_bytes = Some(524_288);
            facts.sample_error = Some(0.01);
            facts.leaks = LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 9 });
        });
        assert_eq!(ids(&quality), ["unknown-frees", "heap-sampled", "no-leak-check"]);
        assert!(quality.warnings[1].to_string().ends_with("estimates (bytes allocated ±2.0 %)"));
        assert_eq!(quality.warnings[2].to_string(), "no leak check: signal 9 ended the program");
    }

    #[test]
    fn imprecise_estimates_lower_the_grade() {
        let judged = |error| {
            judged(|facts| {
                facts.sample_bytes = Some(524_288);
                facts.sample_error = Some(error);
            })
        };
        assert_eq!((judged(0.02).grade, judged(0.4).grade), (Grade::Good, Grade::Fair));
    }

    #[test]
    fn counts_processes_without_an_agent() {
        assert_eq!(ids(&judged(|facts| facts.processes = 0)), ["heap-not-recorded"]);
        let mut profile = testing::heap_profile(ONE);
        profile.processes.push(profile.processes[0].clone());
        let quality = Quality::of(&profile);
        assert_eq!(quality.warnings[0].to_string(), "the heap of 1 of 2 processes is not in the recording");
        assert_eq!(quality.grade, Grade::Fair);
        assert_eq!(ids(&Quality::of(&testing::heap_profile(""))), ["no-allocations"]);
    }

    #[test]
    fn program_left_out_lowers_the_grade() {
        let quality = judged(|facts| facts.programs_left_out = 1);
        assert_eq!((quality.grade, quality.heap.map(|heap| heap.partly_seen)), (Grade::Fair, Some(true)));
    }

    #[test]
    fn allocator_that_is_not_hooked_lowers_the_grade() {
        let mut profile = testing::heap_profile(ONE);
        profile.meta.notes = vec![HeapNote::GoHeap { path: "/app".to_owned() }.into()];
        let quality = Quality::of(&profile);
        assert_eq!((quality.grade, quality.heap.map(|heap| heap.partly_seen)), (Grade::Fair, Some(true)));
        profile.meta.notes = vec![HeapNote::StacksNotKept.into()];
        assert_eq!(Quality::of(&profile).grade, Grade::Good);
    }

    #[test]
    fn heap_alone_leaves_out_warnings_about_cpu_samples() {
        let mut profile = testing::profile("main;a 3");
        testing::add_heap(&mut profile, ONE);
        let quality = Quality::of(&profile);
        assert_eq!((ids(&quality), quality.grade), (vec!["too-few-samples"], Grade::Poor));
        let alone = quality.of_heap_alone();
        assert_eq!((ids(&alone), alone.grade), (vec![], Grade::Good));
        assert!(alone.heap.is_some_and(|heap| heap.only));
    }

    #[test]
    fn fix_for_truncated_stacks_fits_the_code_that_truncates_them() {
        let fix = |outermost: &str| {
            let heap = format!("[truncated];{outermost};b : allocations=1 bytes_allocated=9");
            let quality = Quality::of(&testing::heap_profile(&heap));
            quality.warnings.iter().find(|warning| warning.id() == "cut-heap-stacks").and_then(Warning::fix)
        };
        assert!(fix("[ld-musl-x86_64.so.1]").unwrap().starts_with("musl is built without them"));
        assert!(fix("app::work@/home/me/src/main.rs:3").unwrap().contains("RUSTFLAGS"));
        assert!(fix("c_work@/home/me/work.c:3").unwrap().starts_with("build with `gcc"));
    }

    #[test]
    fn heap_recorded_with_cpu_samples_has_its_own_warnings() {
        let mut profile = testing::profile("main;a 300");
        testing::add_heap(
            &mut profile,
            "[truncated];b : allocations=1 bytes_allocated=9\nmain;c : bytes_allocated=1",
        );
        let quality = Quality::of(&profile);
        assert_eq!(ids(&quality), ["cut-heap-stacks"]);
        assert!(quality.warnings[0].to_string().ends_with("app has code without unwind tables"));
        assert_eq!((quality.grade, quality.truncated_share), (Grade::Poor, 0.0));
        assert_eq!(quality.heap.map(|heap| (heap.only, heap.cut_share)), Some((false, 0.9)));
    }
}
