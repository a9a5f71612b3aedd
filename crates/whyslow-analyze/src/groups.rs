//! The cost of each module or crate: self, and total with everything it calls.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::{CodeKind, ModuleId, ModuleKind, Profile};

use crate::functions::{Cost, Share};
use crate::labels::{self, Label, Labels};
use crate::selection::{Selection, Weights};

/// How functions are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBy {
    /// The file their code is in: program, library, kernel.
    Module,
    /// The crate, or the C library, they belong to.
    Crate,
}

/// One module or one crate.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupRow {
    /// Its name: the path of a module, or a name in brackets for code without a module.
    pub name: String,
    /// The module, in a table of modules.
    pub module: Option<ModuleId>,
    /// The kind of code with most of its self time.
    pub kind: CodeKind,
    /// Value of the samples whose innermost frame is in it.
    pub self_value: u64,
    /// Value of the samples with it anywhere on their stack, each counted once.
    pub total_value: u64,
    /// How many samples `self_value` is made of.
    pub self_samples: u64,
    /// How many samples `total_value` is made of.
    pub total_samples: u64,
}

/// The cost of every module or crate, largest self cost first.
#[derive(Debug, Clone, PartialEq)]
pub struct Groups {
    /// One row per module or crate.
    pub rows: Vec<GroupRow>,
    /// Value of all selected samples.
    pub total_value: u64,
    /// How many samples were selected.
    pub total_samples: u64,
}

/// The key of a row: crates differ by name, modules by row.
#[derive(PartialEq, Eq, Hash)]
enum Key<'p> {
    Module(ModuleId),
    Crate(&'p str),
    /// Code without a module, and truncated frames.
    Special(Label),
}

impl<'p> Key<'p> {
    fn of(profile: &'p Profile, label: Label, by: GroupBy) -> Self {
        let function = match label {
            Label::Function(id) => profile.functions.get(id.index()),
            _ => None,
        };
        let module = match label {
            Label::Module(module) => Some(module),
            _ => function.and_then(|function| function.module),
        };
        let crate_name = function.and_then(|function| function.crate_name);
        match (by, crate_name, module) {
            (GroupBy::Crate, Some(name), _) => Self::Crate(profile.text(name)),
            (_, _, Some(module)) => Self::Module(module),
            // Imported functions have a name but no module.
            (_, _, None) if function.is_some() => Self::Special(Label::Unknown),
            _ => Self::Special(label),
        }
    }

    fn name(&self, profile: &Profile, by: GroupBy) -> String {
        match (self, by) {
            (Self::Module(module), GroupBy::Module) => {
                profile.text(profile.modules[module.index()].path).to_owned()
            }
            (Self::Module(module), GroupBy::Crate) => labels::module_name(profile, *module),
            (Self::Crate(name), _) => (*name).to_owned(),
            (Self::Special(label), _) => labels::name(profile, *label).into_owned(),
        }
    }
}

impl Groups {
    /// Adds up the selected samples.
    pub fn build(profile: &Profile, selection: &Selection, by: GroupBy) -> Self {
        Self::from_weights(profile, &selection.weigh(profile), by)
    }

    /// The same for stacks whose weights are known already.
    pub fn from_weights(profile: &Profile, weights: &Weights, by: GroupBy) -> Self {
        let labels = Labels::new(profile);
        let mut keys: Vec<Key<'_>> = Vec::new();
        let mut numbers = FxHashMap::default();
        let group_of = (0..labels.len() as u32).map(|code| {
            let label = labels.label(code);
            *numbers.entry(Key::of(profile, label, by)).or_insert_with(|| {
                keys.push(Key::of(profile, label, by));
                keys.len() as u32 - 1
            })
        });
        let group_of = group_of.collect::<Vec<_>>();
        let group = |code: u32| group_of[code as usize];
        let costs = Cost::of_groups(profile, weights, &labels, true, keys.len(), group);
        let kinds = kinds(profile, weights, &labels, &group_of, &keys);
        let mut rows = keys
            .iter()
            .zip(costs)
            .zip(kinds)
            .filter(|((_, cost), _)| cost.total_samples > 0)
            .map(|((key, cost), kind)| GroupRow {
                name: key.name(profile, by),
                module: if let (Key::Module(module), GroupBy::Module) = (key, by) {
                    Some(*module)
                } else {
                    None
                },
                kind,
                self_value: cost.self_value,
                total_value: cost.total_value,
                self_samples: cost.self_samples,
                total_samples: cost.total_samples,
            })
            .collect::<Vec<_>>();
        rows.sort_by(|a, b| {
            let key = |row: &GroupRow| (Reverse(row.self_value), Reverse(row.total_value));
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        Self { rows, total_value: weights.total_value, total_samples: weights.total_count }
    }

    /// The share of everything selected.
    pub fn share(&self, value: u64) -> Share {
        Share::new(value, self.total_value, self.total_samples)
    }
}

/// The kind of a group: the user's if any of its functions is, else that of most of them, by self time, or by
/// number where there is none.
fn kinds(
    profile: &Profile,
    weights: &Weights,
    labels: &Labels,
    group_of: &[u32],
    keys: &[Key<'_>],
) -> Vec<CodeKind> {
    let functions = Cost::of_groups(profile, weights, labels, true, labels.len(), |code| code);
    let mut weight = vec![[(0u64, 0u64); CodeKind::ALL.len()]; keys.len()];
    for (code, cost) in (0u32..).zip(functions).filter(|(_, cost)| cost.total_samples > 0) {
        let kind = labels::kind(profile, labels.label(code));
        let (own, count) = &mut weight[group_of[code as usize] as usize][kind.code() as usize];
        *own = own.saturating_add(cost.self_value);
        *count += 1;
    }
    let heaviest = |mut weights: [(u64, u64); CodeKind::ALL.len()]| {
        let count = |kind: CodeKind| weights[kind.code() as usize].1;
        // A program is the user's even if most of its time is in code that was compiled into it, and a library
        // that also allocates is no allocator.
        if count(CodeKind::Yours) > 0 {
            return CodeKind::Yours;
        }
        let others = CodeKind::ALL.iter().copied().filter(|kind| *kind != CodeKind::Allocator);
        if others.map(count).sum::<u64>() > 0 {
            weights[CodeKind::Allocator.code() as usize] = (0, 0);
        }
        let best = (0..weights.len()).max_by_key(|&kind| (weights[kind], Reverse(kind)));
        CodeKind::from_code(best.unwrap_or(0) as u64)
    };
    let is_libc =
        |key: &Key<'_>| key.name(profile, GroupBy::Crate).trim_start_matches('[').starts_with("libc");
    let is_program = |key: &Key<'_>| match key {
        Key::Module(id) => profile.modules[id.index()].kind == ModuleKind::Program,
        _ => false,
    };
    let kind_of = |(weights, key): (_, &Key<'_>)| match heaviest(weights) {
        CodeKind::Allocator if is_libc(key) => CodeKind::Runtime,
        CodeKind::Allocator | CodeKind::Std if is_program(key) => CodeKind::Unknown,
        kind => kind,
    };
    weight.into_iter().zip(keys).map(kind_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn rows(profile: &Profile, by: GroupBy) -> Vec<String> {
        let groups = Groups::build(profile, &Selection::default(), by);
        let shown = groups.rows.iter().map(|row| {
            format!("{} {} {}/{}", row.name, row.kind.label(), row.self_samples, row.total_samples)
        });
        shown.collect()
    }

    #[test]
    fn crate_on_a_stack_twice_counts_a_sample_once() {
        let mut profile = testing::profile("app::main;lib::run;app::callback;lib::work 3\napp::main 1");
        for function in 0..profile.functions.len() {
            let name = profile.text(profile.functions[function].name).to_owned();
            let crate_name = profile.strings.push(name.split("::").next().unwrap());
            profile.functions[function].crate_name = Some(crate_name);
            profile.functions[function].kind =
                if name.starts_with("lib") { CodeKind::Dependency } else { CodeKind::Yours };
        }
        assert_eq!(rows(&profile, GroupBy::Crate), ["lib dependency 3/3", "app yours 1/4"]);
    }

    #[test]
    fn a_program_is_the_users_and_libc_is_no_allocator() {
        let mut profile = testing::profile("app::main;std::sort 9\napp::main 1\napp::main;[libc.so.6] 3");
        assert!(
            rows(&profile, GroupBy::Module)[0].contains(" yours "),
            "{:?}",
            rows(&profile, GroupBy::Module)
        );
        for function in &mut profile.functions {
            function.kind = CodeKind::Allocator;
        }
        let libc = profile.strings.push("libc");
        profile.functions[0].crate_name = Some(libc);
        let crates = rows(&profile, GroupBy::Crate);
        assert!(crates.iter().any(|row| row.starts_with("libc runtime ")), "{crates:?}");
    }

    #[test]
    fn modules_have_paths_and_code_without_symbols_has_a_row() {
        let profile = testing::profile("main;[libz.so] 2\nmain 1\n[truncated];main 1\n[unknown] 5");
        let names = rows(&profile, GroupBy::Module);
        assert!(names.contains(&"[unknown] unknown 5/5".to_owned()), "{names:?}");
        assert!(names.iter().any(|row| row.contains("libz.so") && row.ends_with("2/2")), "{names:?}");
        assert!(
            names.iter().any(|row| row.starts_with("/home/me/app ") && row.ends_with("2/4")),
            "{names:?}"
        );
    }

    #[test]
    fn own_values_add_up_to_everything() {
        let profile = testing::profile("a;b;c 4\na;b 2\nd 3\n[libz.so] 1");
        for by in [GroupBy::Module, GroupBy::Crate] {
            let groups = Groups::build(&profile, &Selection::default(), by);
            assert_eq!(groups.rows.iter().map(|row| row.self_value).sum::<u64>(), groups.total_value);
        }
    }
}
