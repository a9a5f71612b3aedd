//! Explains truncated stacks.

use rustc_hash::FxHashMap;
use whyslow_profile::heap::metric;
use whyslow_profile::{LocationId, ModuleId, Profile, StackId};

use super::jit::RuntimeCode;
use super::modules;
use super::warning::{BuiltWith, Warning};
use crate::labels::module_file_name;
use crate::selection::{Selection, Weights};
use crate::units::share;

/// The maximum number of stack bytes worth copying with each sample.
const MAX_STACK_BYTES: u32 = 60_000;

/// The main reason, as a warning.
pub(super) fn explain(
    profile: &Profile,
    weights: &Weights,
    truncated_share: f64,
    runtimes: &[RuntimeCode],
) -> Warning {
    let counters = &profile.meta.counters;
    let of_all = |samples| share(samples, weights.total_count);
    let (cut, at_signals) = (of_all(counters.truncated), of_all(counters.cut_at_signal));
    let lost = of_all(counters.no_unwind_info);
    let in_jit = runtimes.iter().fold(0u64, |sum, code| sum.saturating_add(code.lost_at));
    let in_jit = share(in_jit, weights.total_value);
    let without_tables = (lost - in_jit).max(0.0);
    let worst = [cut, at_signals, without_tables, in_jit].into_iter().fold(0.0, f64::max);
    if worst > 0.0 && worst == at_signals {
        return Warning::CutAtSignal { share: truncated_share };
    }
    if worst > 0.0
        && worst == in_jit
        && let Some(code) = runtimes.iter().max_by_key(|code| code.lost_at)
    {
        return Warning::JitStacks { share: truncated_share, runtime: code.runtime.clone() };
    }
    if worst > 0.0 && worst == without_tables {
        let (module, built_with) = where_lost(profile, weights).unzip();
        return Warning::NoUnwindInfo {
            share: truncated_share,
            module,
            built_with: built_with.unwrap_or(BuiltWith::Unknown),
        };
    }
    let ours = profile.meta.imported_from.is_none();
    let used = profile.meta.stack_bytes;
    let copy_more = (ours && used < MAX_STACK_BYTES).then_some(MAX_STACK_BYTES);
    Warning::Truncated { share: truncated_share, copy_more }
}

/// The main reason for truncated stacks of allocations.
pub(super) fn explain_heap(profile: &Profile, share: f64) -> Warning {
    let weights = profile
        .metric_named(metric::BYTES_ALLOCATED)
        .map(|metric| Selection { metric, ..Selection::default() }.weigh(profile));
    let (module, built_with) = weights.and_then(|weights| where_lost(profile, &weights)).unzip();
    Warning::CutHeapStacks { share, module, built_with: built_with.unwrap_or(BuiltWith::Unknown) }
}

/// The module in whose code most truncated stacks end.
fn where_lost(profile: &Profile, weights: &Weights) -> Option<(String, BuiltWith)> {
    let stacks = &profile.stacks;
    let mut outermost: Vec<Option<ModuleId>> = vec![None; stacks.len()];
    let mut sums: FxHashMap<ModuleId, u64> = FxHashMap::default();
    for stack in 0..stacks.len() {
        let id = StackId::from(stack);
        outermost[stack] = stacks.parent(id).and_then(|parent| {
            if stacks.location(parent) == LocationId::TRUNCATED {
                profile.locations.module[stacks.location(id).index()]
            } else {
                outermost[parent.index()]
            }
        });
        if let Some(module) = outermost[stack] {
            let sum = sums.entry(module).or_default();
            *sum = sum.saturating_add(weights.value[stack]);
        }
    }
    let (module, _) = sums.into_iter().max_by_key(|&(module, sum)| (sum, std::cmp::Reverse(module)))?;
    let built_with = match modules::is_of_system(profile, module) {
        true => BuiltWith::Package,
        false => modules::built_with(profile)[module.index()],
    };
    Some((module_file_name(profile, module).to_owned(), built_with))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Quality;
    use crate::testing;
    use whyslow_words::Severity;

    fn warning(folded: &str, change: impl FnOnce(&mut Profile)) -> Warning {
        let mut profile = testing::profile(folded);
        change(&mut profile);
        Quality::of(&profile).warnings.remove(0)
    }

    #[test]
    fn never_suggests_copying_less() {
        let with = |stack_bytes| {
            let change = |profile: &mut Profile| {
                profile.meta.stack_bytes = stack_bytes;
                profile.meta.counters.truncated = 300;
            };
            warning("[truncated];b 300", change).fix().unwrap()
        };
        assert!(with(32_000).contains("--stack-size 60000"));
        assert!(!with(65_000).contains("--stack-size") && with(65_000).contains("--inverted"));
    }

    #[test]
    fn does_not_suggest_copying_more_when_samples_were_lost() {
        let mut profile = testing::profile("[truncated];b 300");
        profile.meta.counters.truncated = 300;
        profile.meta.counters.lost_samples = 10;
        let fixes: String = Quality::of(&profile).warnings.iter().filter_map(Warning::fix).collect();
        assert!(fixes.contains("-F 500") && !fixes.contains("--stack-size"), "{fixes}");
    }

    #[test]
    fn names_the_module_without_tables_with_a_fitting_fix() {
        let change = |profile: &mut Profile| profile.meta.counters.no_unwind_info = 300;
        let warning = warning("[truncated];b;c 300", change);
        assert_eq!(
            warning.to_string(),
            "100.0 % of the samples have truncated stacks: app has code without unwind tables"
        );
        assert_eq!(
            warning.fix().as_deref(),
            Some("build with `gcc -fasynchronous-unwind-tables`; assembly needs `.cfi` directives")
        );
    }

    #[test]
    fn handler_on_its_own_stack_is_not_a_missing_table() {
        let change = |profile: &mut Profile| profile.meta.counters.cut_at_signal = 300;
        let warning = warning("[truncated];on_signal;work 300", change);
        assert_eq!((warning.id(), warning.severity()), ("cut-at-signal", Severity::Warning));
    }
}
