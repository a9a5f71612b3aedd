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
        let lost = where_lost(profile, weights);
        return Warning::NoUnwindInfo {
            share: truncated_share,
            built_with: lost.as_ref().map_or(BuiltWith::Unknown, |lost| lost.built_with),
            in_assembly: lost.as_ref().is_some_and(|lost| lost.in_assembly),
            module: lost.map(|lost| lost.module),
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
    let lost = weights.and_then(|weights| where_lost(profile, &weights));
    let built_with = lost.as_ref().map_or(BuiltWith::Unknown, |lost| lost.built_with);
    Warning::CutHeapStacks { share, module: lost.map(|lost| lost.module), built_with }
}

/// Where stacks end.
struct Lost {
    /// The file.
    module: String,
    built_with: BuiltWith,
    /// Whether most of them end in functions written in assembly.
    in_assembly: bool,
}

/// The module in whose code most truncated stacks end.
fn where_lost(profile: &Profile, weights: &Weights) -> Option<Lost> {
    let stacks = &profile.stacks;
    let mut outermost: Vec<Option<(ModuleId, bool)>> = vec![None; stacks.len()];
    // All, and those in assembly.
    let mut sums: FxHashMap<ModuleId, (u64, u64)> = FxHashMap::default();
    for stack in 0..stacks.len() {
        let id = StackId::from(stack);
        outermost[stack] = stacks.parent(id).and_then(|parent| {
            if stacks.location(parent) == LocationId::TRUNCATED {
                let location = stacks.location(id);
                Some((profile.locations.module[location.index()]?, is_assembly(profile, location)))
            } else {
                outermost[parent.index()]
            }
        });
        if let Some((module, in_assembly)) = outermost[stack] {
            let (sum, of_assembly) = sums.entry(module).or_default();
            *sum = sum.saturating_add(weights.value[stack]);
            *of_assembly = of_assembly.saturating_add(if in_assembly { weights.value[stack] } else { 0 });
        }
    }
    let (module, (sum, of_assembly)) =
        sums.into_iter().max_by_key(|&(module, (sum, _))| (sum, std::cmp::Reverse(module)))?;
    let built_with = match modules::is_of_system(profile, module) {
        true => BuiltWith::Package,
        false => modules::built_with(profile)[module.index()],
    };
    let module = module_file_name(profile, module).to_owned();
    Some(Lost { module, built_with, in_assembly: of_assembly > sum / 2 })
}

/// Whether the code at a location is written in assembly, by its file.
fn is_assembly(profile: &Profile, location: LocationId) -> bool {
    let mut files = profile.frames.of(location).iter().filter_map(|frame| frame.file);
    files.any(|file| [".S", ".s", ".asm"].iter().any(|end| profile.text(file).ends_with(end)))
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
    fn assembly_without_tables_needs_no_other_compiler_option() {
        let change = |profile: &mut Profile| profile.meta.counters.no_unwind_info = 300;
        let warning = warning("[truncated];hash@hash.S:306 300", change);
        assert_eq!(
            warning.to_string(),
            "100.0 % of the samples have truncated stacks: assembly in app has no unwind tables"
        );
        let fix = warning.fix().unwrap();
        assert!(fix.starts_with("add `.cfi` directives to it; or read") && !fix.contains("gcc"), "{fix}");
    }

    #[test]
    fn handler_on_its_own_stack_is_not_a_missing_table() {
        let change = |profile: &mut Profile| profile.meta.counters.cut_at_signal = 300;
        let warning = warning("[truncated];on_signal;work 300", change);
        assert_eq!((warning.id(), warning.severity()), ("cut-at-signal", Severity::Warning));
    }
}
