//! Warnings about how modules were built.

use whyslow_profile::{ModuleId, ModuleKind, Optimised, Profile, StackId, SymbolState};

use super::warning::{ModuleShare, Warning};
use crate::labels::module_file_name;
use crate::selection::Weights;
use crate::units::share;

/// A module with less than this share of the samples is not worth a warning.
pub(super) const NOTABLE_MODULE: f64 = 0.05;

/// Libraries that every program has and nobody rebuilds.
const SYSTEM_LIBRARIES: [&str; 9] = [
    "libc.so",
    "libc-",
    "libc.musl",
    "ld-linux",
    "ld-musl",
    "libm.so",
    "libpthread",
    "libgcc_s",
    "libstdc++",
];

pub(super) fn warn(profile: &Profile, weights: &Weights, warnings: &mut Vec<Warning>) {
    let mut value = vec![0u64; profile.modules.len()];
    for stack in 0..profile.stacks.len() {
        let location = profile.stacks.location(StackId::from(stack));
        if let Some(module) = profile.locations.module[location.index()] {
            let sum = &mut value[module.index()];
            *sum = sum.saturating_add(weights.value[stack]);
        }
    }

    let mut debug_builds = Vec::new();
    let mut stripped = Vec::new();
    let mut without_lines = Vec::new();
    let mut missing = Vec::new();
    let mut not_loaded = Vec::new();
    for (index, module) in profile.modules.iter().enumerate() {
        let name = module_file_name(profile, ModuleId::from(index));
        let share = share(value[index], weights.total_value);
        let ours = !matches!(module.kind, ModuleKind::Kernel | ModuleKind::Vdso | ModuleKind::Jit)
            && !SYSTEM_LIBRARIES.iter().any(|library| name.starts_with(library));
        if !ours || share < NOTABLE_MODULE {
            continue;
        }
        let row = ModuleShare { name: name.to_owned(), share };
        if module.optimised == Optimised::No {
            debug_builds.push(row.clone());
        }
        match module.symbols {
            SymbolState::Stripped => stripped.push(row),
            SymbolState::Names => without_lines.push(row),
            SymbolState::Missing => missing.push(row),
            SymbolState::NotLoaded => not_loaded.push(row),
            SymbolState::Lines => {}
        }
    }
    type Group = (Vec<ModuleShare>, fn(Vec<ModuleShare>) -> Warning);
    let groups: [Group; 5] = [
        (debug_builds, Warning::DebugBuild),
        (stripped, Warning::Stripped),
        (without_lines, Warning::NoDebugInfo),
        (missing, Warning::MissingFile),
        (not_loaded, Warning::NotSymbolised),
    ];
    for (mut modules, warning) in groups {
        if !modules.is_empty() {
            modules.sort_by(|a, b| b.share.total_cmp(&a.share));
            warnings.push(warning(modules));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quality::Quality;
    use crate::testing;

    fn messages(profile: &Profile) -> Vec<String> {
        Quality::of(profile).warnings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn only_modules_that_matter_are_named() {
        let profile = testing::profile("main 900\nmain;[libz.so] 60\nmain;[libtiny.so] 40");
        assert_eq!(
            messages(&profile),
            ["libz.so (6.0 % of the samples) is stripped: its functions have no names"]
        );
    }

    #[test]
    fn system_libraries_and_the_kernel_are_left_alone() {
        let folded = "main;[libc.so.6] 100\nmain;[ld-linux-x86-64.so.2] 100\nmain;[kernel] 100";
        assert_eq!(messages(&testing::profile(folded)), [""; 0]);
    }

    #[test]
    fn a_debug_build_is_serious() {
        let mut profile = testing::profile("main 900");
        profile.modules[0].optimised = Optimised::No;
        let quality = Quality::of(&profile);
        assert_eq!(quality.grade, crate::quality::Grade::Poor);
        assert!(quality.warnings[0].fix().unwrap().contains("--release"));
    }

    #[test]
    fn a_program_without_lines_says_which_setting_brings_them() {
        let mut profile = testing::profile("main 900");
        profile.modules[0].symbols = SymbolState::Names;
        let quality = Quality::of(&profile);
        assert!(quality.warnings[0].fix().unwrap().contains("debug = \"line-tables-only\""));
    }
}
