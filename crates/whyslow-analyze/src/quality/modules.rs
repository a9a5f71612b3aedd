//! Warnings about how modules were built.

use whyslow_profile::{Function, ModuleId, ModuleKind, Optimised, Profile, StackId, SymbolState, Unit};

use super::jit;
use super::warning::{BuiltWith, ModuleShare, Warning};
use crate::command::cargo_again;
use crate::labels::{is_named, module_file_name};
use crate::selection::Weights;
use crate::units::share;

/// Modules with a smaller share of the samples get no warning.
pub(super) const NOTABLE_MODULE: f64 = 0.05;

/// whyslow's library that records the heap inside the program.
const AGENT: &str = "whyslow-agent.so";

/// Libraries that every program has and that users do not rebuild, and whyslow's own.
const SYSTEM_LIBRARIES: [&str; 10] = [
    AGENT,
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

/// What the time in a module belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    /// The program.
    Program,
    /// The kernel, on behalf of its caller.
    Kernel,
    /// whyslow's agent.
    Agent,
}

/// The owner of each module.
pub(super) fn owners(profile: &Profile) -> Vec<Owner> {
    let modules = profile.modules.iter().enumerate();
    modules
        .map(|(index, module)| match module.kind {
            ModuleKind::Kernel => Owner::Kernel,
            _ if module_file_name(profile, ModuleId::from(index)) == AGENT => Owner::Agent,
            _ => Owner::Program,
        })
        .collect()
}

/// Warns about modules that have a notable share of the weights, which are in this unit. Only CPU time is
/// affected by slow code: `of_cpu_time` says whether the weights are CPU time.
pub(super) fn warn(
    profile: &Profile,
    weights: &Weights,
    unit: Unit,
    of_cpu_time: bool,
    warnings: &mut Vec<Warning>,
) {
    if profile.modules.is_empty() {
        return;
    }
    let mut value = vec![0u64; profile.modules.len()];
    for stack in (0..profile.stacks.len()).filter(|&stack| weights.value[stack] > 0) {
        let location = profile.stacks.location(StackId::from(stack));
        if let Some(module) = profile.locations.module[location.index()] {
            let sum = &mut value[module.index()];
            *sum = sum.saturating_add(weights.value[stack]);
        }
    }

    let unnamed = unnamed(profile, weights);
    let built_with = built_with(profile);
    let mut debug_builds = Vec::new();
    let mut stripped = Vec::new();
    let mut without_lines = Vec::new();
    let mut missing = Vec::new();
    let mut replaced = Vec::new();
    let mut not_loaded = Vec::new();
    for (index, module) in profile.modules.iter().enumerate() {
        let name = module_file_name(profile, ModuleId::from(index));
        let share = share(value[index], weights.total_value);
        let no_file = matches!(
            module.kind,
            ModuleKind::Kernel
                | ModuleKind::Vdso
                | ModuleKind::Jit
                | ModuleKind::NotSampled
                | ModuleKind::Waiting(_)
                | ModuleKind::SystemCall
                | ModuleKind::LeftOut
        );
        let ours = !no_file && !SYSTEM_LIBRARIES.iter().any(|library| name.starts_with(library));
        if !ours || share < NOTABLE_MODULE {
            continue;
        }
        let row = ModuleShare {
            name: name.to_owned(),
            share,
            unit,
            built_with: built_with[index],
            system_path: system_path(profile.text(module.path)),
            unnamed_share: self::share(unnamed[index], weights.total_value),
            distribution: profile.meta.host.distribution.clone(),
            cargo_again: cargo_again(profile, profile.text(module.path)),
        };
        if module.optimised == Optimised::No && of_cpu_time {
            debug_builds.push(row.clone());
        }
        match module.symbols {
            SymbolState::Stripped if row.unnamed_share >= NOTABLE_MODULE => stripped.push(row),
            // Lines of an interpreter say nothing of what it runs.
            SymbolState::Names | SymbolState::Stripped if jit::is_of_runtime(name) => {}
            SymbolState::Names | SymbolState::Stripped => {
                // Without its lines, what it calls has no line of it either.
                let share =
                    self::share(on_stack(profile, weights, ModuleId::from(index)), weights.total_value);
                without_lines.push(ModuleShare { share, ..row });
            }
            // Another tool's recording brings names with it.
            SymbolState::Missing | SymbolState::Replaced | SymbolState::NotLoaded
                if row.unnamed_share < NOTABLE_MODULE => {}
            SymbolState::Missing => missing.push(row),
            SymbolState::Replaced => replaced.push(row),
            SymbolState::NotLoaded => not_loaded.push(row),
            SymbolState::Lines => {}
        }
    }
    type Group = (Vec<ModuleShare>, fn(Vec<ModuleShare>) -> Warning);
    let groups: [Group; 6] = [
        (debug_builds, Warning::DebugBuild),
        (stripped, Warning::Stripped),
        (without_lines, Warning::NoDebugInfo),
        (missing, Warning::MissingFile),
        (replaced, Warning::ReplacedFile),
        (not_loaded, Warning::NotSymbolised),
    ];
    for (mut modules, warning) in groups {
        if !modules.is_empty() {
            modules.sort_by(|a, b| b.share.total_cmp(&a.share));
            warnings.push(warning(modules));
        }
    }
}

/// The value of each module's samples whose innermost frame has no name.
fn unnamed(profile: &Profile, weights: &Weights) -> Vec<u64> {
    let mut value = vec![0u64; profile.modules.len()];
    for stack in (0..profile.stacks.len()).filter(|&stack| weights.value[stack] > 0) {
        let location = profile.stacks.location(StackId::from(stack));
        if let Some(module) = profile.locations.module[location.index()]
            && !is_named(profile, location)
        {
            let sum = &mut value[module.index()];
            *sum = sum.saturating_add(weights.value[stack]);
        }
    }
    value
}

/// Whether a module belongs to the system.
pub(super) fn is_of_system(profile: &Profile, module: ModuleId) -> bool {
    let path = profile.modules.get(module.index()).map_or("", |module| profile.text(module.path));
    let name = module_file_name(profile, module);
    system_path(path).is_some() || SYSTEM_LIBRARIES.iter().any(|library| name.starts_with(library))
}

/// The path, if the file belongs to the system.
fn system_path(path: &str) -> Option<String> {
    const FOLDERS: [&str; 7] = ["/usr/", "/lib/", "/lib64/", "/bin/", "/sbin/", "/nix/store/", "/gnu/store/"];
    const OWN: &str = "/usr/local/";
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let is_system = FOLDERS.iter().any(|folder| path.starts_with(folder)) && !path.starts_with(OWN);
    is_system.then(|| path.to_owned())
}

/// What each module was built with, by its functions in the profile.
pub(super) fn built_with(profile: &Profile) -> Vec<BuiltWith> {
    let mut built_with = vec![BuiltWith::Unknown; profile.modules.len()];
    for function in &profile.functions {
        if profile.text(function.raw_name).is_empty() {
            continue;
        }
        let Some(module) = function.module.and_then(|module| built_with.get_mut(module.index())) else {
            continue;
        };
        if is_rust(profile, function) {
            *module = BuiltWith::Cargo;
        } else if is_go(profile, function) {
            *module = BuiltWith::Go;
        } else if *module == BuiltWith::Unknown {
            *module = BuiltWith::Other;
        }
    }
    built_with
}

/// Whether a function is Rust code: by its file, or by its mangled name.
fn is_rust(profile: &Profile, function: &Function) -> bool {
    let raw = profile.text(function.raw_name);
    // `_ZN…17h`, 16 hexadecimal digits and `E`, or `_R…`.
    let hashed = raw.rsplit_once("17h").is_some_and(|(_, hash)| {
        hash.as_bytes().first_chunk::<16>().is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            && hash[16..].starts_with('E')
    });
    raw.starts_with("_R")
        || (raw.starts_with("_ZN") && hashed)
        || function.file.is_some_and(|file| profile.text(file).ends_with(".rs"))
}

/// Whether a function belongs to Go: every Go program has its runtime.
fn is_go(profile: &Profile, function: &Function) -> bool {
    profile.text(function.raw_name).starts_with("runtime.")
        || function.file.is_some_and(|file| profile.text(file).ends_with(".go"))
}

/// The value of the samples that have a frame of this module.
fn on_stack(profile: &Profile, weights: &Weights, module: ModuleId) -> u64 {
    let mut has = vec![false; profile.stacks.len()];
    let mut sum = 0u64;
    // A stack comes after its callers.
    for index in 0..profile.stacks.len() {
        let stack = StackId::from(index);
        let is_below = profile.stacks.parent(stack).is_some_and(|parent| has[parent.index()]);
        has[index] =
            is_below || profile.locations.module[profile.stacks.location(stack).index()] == Some(module);
        if has[index] {
            sum = sum.saturating_add(weights.value[index]);
        }
    }
    sum
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
    fn names_only_modules_with_a_notable_share() {
        let profile = testing::profile("main 900\nmain;[libz.so] 60\nmain;[libtiny.so] 40");
        assert_eq!(
            messages(&profile),
            [
                "libz.so (6.0 % of the samples) is stripped: its functions have no names and are shown by address"
            ]
        );
    }

    /// A stripped program still has the names that it exports.
    #[test]
    fn says_how_much_of_a_stripped_file_has_no_names() {
        let mut exported = testing::profile("main 300");
        exported.modules[0].symbols = SymbolState::Stripped;
        assert_eq!(
            messages(&exported),
            ["app (100.0 % of the samples) is without debug info: no lines and no inlined functions"]
        );
        let mut partly = testing::profile("main 300\nmain;[part.so] 100");
        partly.modules[0].symbols = SymbolState::Stripped;
        for module in &mut partly.locations.module {
            *module = Some(ModuleId(0));
        }
        assert_eq!(
            messages(&partly)[0],
            "app (100.0 % of the samples) is stripped: functions with 25.0 % of the samples have no names and are \
             shown by address"
        );
    }

    #[test]
    fn a_rust_program_without_lines_has_the_command_that_names_them() {
        let fix = |file: &str, command: &[&str]| {
            let mut profile = testing::profile("main;a 900");
            profile.modules[0].path = profile.strings.push(file);
            profile.modules[0].symbols = SymbolState::Names;
            profile.functions[0].raw_name = profile.strings.push("_RNvCs1234_3app4main");
            profile.meta.command = command.iter().map(|word| (*word).to_owned()).collect();
            Quality::of(&profile).warnings[0].fix().unwrap()
        };
        let program = fix("/home/me/target/release/app", &["target/release/app", "-n", "my file"]);
        assert!(program.contains("`cargo whyslow --bin app -- -n 'my file'`"), "{program}");
        let example = fix("/home/me/target/release/examples/demo", &["target/release/examples/demo"]);
        assert!(example.contains("`cargo whyslow --example demo`"), "{example}");
        let other = fix("/home/me/target/release/libx.so", &["target/release/app"]);
        assert!(other.contains("`cargo whyslow -- ARGS`"), "{other}");
    }

    #[test]
    fn ignores_system_libraries_and_the_kernel() {
        let folded = "main;[libc.so.6] 100\nmain;[ld-linux-x86-64.so.2] 100\nmain;[kernel] 100";
        assert_eq!(messages(&testing::profile(folded)), [""; 0]);
    }

    #[test]
    fn a_debug_build_is_serious() {
        let mut profile = testing::profile("main@main.rs:1 900");
        profile.modules[0].optimised = Optimised::No;
        let quality = Quality::of(&profile);
        assert_eq!(quality.grade, crate::quality::Grade::Poor);
        assert!(quality.warnings[0].fix().unwrap().contains("--release"));
    }

    /// The fix for a program whose functions have these mangled names.
    fn fix(raw_names: &[&str], change: impl Fn(&mut whyslow_profile::Module)) -> String {
        let mut profile = testing::profile("main;a 900");
        change(&mut profile.modules[0]);
        profile.functions.truncate(raw_names.len());
        for (row, raw_name) in raw_names.iter().enumerate() {
            profile.functions[row].raw_name = profile.strings.push(raw_name);
        }
        if raw_names.is_empty() {
            profile.frames = Default::default();
        }
        Quality::of(&profile).warnings[0].fix().unwrap()
    }

    #[test]
    fn program_without_lines_gets_the_setting_that_adds_them() {
        for rust in ["_RNvCs1234_7mycrate3foo", "_ZN4core3fmt5write17h0123456789abcdefE.llvm.1"] {
            let fix = fix(&["main", rust], |module| module.symbols = SymbolState::Names);
            assert!(fix.contains("debug = \"line-tables-only\"") && !fix.contains("gcc"), "{fix}");
        }
    }

    #[test]
    fn program_without_rust_gets_no_cargo_advice() {
        let names = ["main", "_ZN3Foo3barEv"];
        let fixes = [
            fix(&names, |module| module.symbols = SymbolState::Names),
            fix(&names, |module| module.symbols = SymbolState::Stripped),
            fix(&names, |module| module.optimised = Optimised::No),
        ];
        for fix in fixes {
            assert!(fix.contains("gcc") && !fix.to_lowercase().contains("cargo"), "{fix}");
        }
    }

    #[test]
    fn go_program_gets_go_advice() {
        let fix = fix(&["main.main", "runtime.mallocgc"], |module| module.symbols = SymbolState::Names);
        assert!(fix.contains("ldflags") && !fix.contains("gcc") && !fix.contains("Cargo"), "{fix}");
    }

    #[test]
    fn file_without_symbols_gets_advice_for_both() {
        let fix = fix(&[], |module| module.symbols = SymbolState::Stripped);
        assert!(fix.contains("Cargo.toml") && fix.contains("gcc -g"), "{fix}");
    }

    #[test]
    fn system_file_gets_advice_on_packages() {
        let quality = Quality::of(&testing::profile("main 100\nmain;[libz.so] 100"));
        let fix = quality.warnings.iter().find(|warning| warning.id() == "stripped").unwrap().fix().unwrap();
        assert!(
            fix.contains("dbgsym") && fix.contains("debuginfod-find debuginfo /usr/lib/libz.so"),
            "{fix}"
        );
        let mut debian = testing::profile("main 100\nmain;[libz.so] 100");
        debian.meta.host.distribution = "debian".to_owned();
        let of_debian = Quality::of(&debian).warnings[0].fix().unwrap();
        assert!(
            of_debian.contains(
                "`DEBUGINFOD_URLS=https://debuginfod.debian.net debuginfod-find debuginfo /usr/lib/libz.so`"
            ),
            "{of_debian}"
        );
        assert!(!fix.contains("gcc") && !fix.contains("Cargo"), "{fix}");
        assert_eq!(system_path("/usr/local/bin/app"), None);
        assert_eq!(system_path("/home/me/app"), None);
        assert_eq!(system_path("/usr/bin/gzip (deleted)").as_deref(), Some("/usr/bin/gzip"));
    }

    /// A program whose functions have no names.
    fn unnamed_app() -> Profile {
        let mut profile = testing::profile("main 900");
        let empty = profile.strings.push("");
        profile.functions.iter_mut().for_each(|function| (function.name, function.raw_name) = (empty, empty));
        profile
    }

    #[test]
    fn names_of_an_import_need_no_file() {
        for state in [SymbolState::Missing, SymbolState::Replaced, SymbolState::NotLoaded] {
            let (mut named, mut unnamed) = (testing::profile("main 900"), unnamed_app());
            named.modules[0].symbols = state;
            unnamed.modules[0].symbols = state;
            assert_eq!(messages(&named), [""; 0], "{state:?}");
            assert!(!messages(&unnamed).is_empty(), "{state:?}");
        }
    }

    #[test]
    fn deleted_file_is_not_reported_as_missing() {
        let mut profile = unnamed_app();
        profile.modules[0].symbols = SymbolState::Replaced;
        assert_eq!(
            messages(&profile),
            [
                "app (100.0 % of the samples) was deleted or replaced before the names of its functions could be read"
            ]
        );
    }

    #[test]
    fn functions_shown_by_address_have_no_name() {
        let mut profile = testing::profile("main;app+0x40 300\nmain 100");
        let empty = profile.strings.push("");
        let text = |profile: &Profile, function: &Function| profile.text(function.name).to_owned();
        let row =
            profile.functions.iter().position(|function| text(&profile, function) == "app+0x40").unwrap();
        profile.functions[row].raw_name = empty;
        let quality = Quality::of(&profile);
        assert_eq!((quality.unresolved_share, quality.nameless_share), (0.75, 0.0));
    }
}
