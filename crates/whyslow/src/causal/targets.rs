//! What experiments speed up: lines and functions of the user's code, chosen by samples.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use whyslow_capture::{CodeRange, ModuleSamples};
use whyslow_profile::TargetKind;
use whyslow_symbols::{FunctionCode, LineCode, Scope, SourceLine, own_lines};
use whyslow_words::nearest;

/// What the user asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Lines: a part of the file's path, and the number.
    pub(crate) lines: Vec<(String, u32)>,
    /// Functions, by a part of their name.
    pub(crate) functions: Vec<String>,
    /// Functions with all that they call.
    pub(crate) with_callees: Vec<WholeFunction>,
    /// Whose code may be a target.
    pub(crate) scope: Scope,
}

impl Wanted {
    /// Whether the user names targets, so that samples do not choose them.
    pub(crate) fn is_by_name(&self) -> bool {
        !(self.lines.is_empty() && self.functions.is_empty() && self.with_callees.is_empty())
    }

    /// The scope as the user wrote it.
    pub(crate) fn scope_name(&self) -> String {
        match &self.scope {
            Scope::Own => "own".to_owned(),
            Scope::All => "all".to_owned(),
            Scope::Crate(name) => name.clone(),
        }
    }
}

/// A function with all that it calls, and the file that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WholeFunction {
    pub(crate) module: PathBuf,
    pub(crate) code: FunctionCode,
}

/// A target with its code.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Target {
    pub(crate) kind: TargetKind,
    pub(crate) line: SourceLine,
    /// The share of samples in it.
    pub(crate) share: f64,
    pub(crate) ranges: Vec<CodeRange>,
}

impl Target {
    /// Whether what its code calls belongs to it.
    pub(crate) fn with_callees(&self) -> bool {
        self.kind == TargetKind::WithCallees
    }
}

/// All samples so far, by module.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    modules: Vec<(PathBuf, BTreeMap<u64, u64>)>,
    /// The number of samples.
    pub(crate) total: u64,
}

impl Sampled {
    pub(crate) fn add(&mut self, modules: &[ModuleSamples]) {
        for (index, module) in modules.iter().enumerate() {
            if index == self.modules.len() {
                self.modules.push((module.path.clone(), BTreeMap::new()));
            }
            for &(address, count) in &module.samples {
                *self.modules[index].1.entry(address).or_default() += count;
                self.total += count;
            }
        }
    }

    /// The lines in the scope that were sampled, by samples.
    fn lines(&self, scope: &Scope) -> Vec<(usize, LineCode)> {
        let mut lines: Vec<(usize, LineCode)> = Vec::new();
        for (module, (path, samples)) in self.modules.iter().enumerate() {
            let samples: Vec<(u64, u64)> =
                samples.iter().map(|(&address, &count)| (address, count)).collect();
            if !samples.is_empty() {
                lines.extend(own_lines(path, &samples, scope).into_iter().map(|line| (module, line)));
            }
        }
        lines.sort_by_key(|(_, line)| std::cmp::Reverse(line.samples));
        lines
    }
}

/// Lines with a smaller share of the samples are no targets unless they are asked for.
const SMALLEST_SHARE: f64 = 0.02;
/// How many near lines are named.
const MOST_NEAR: usize = 3;
/// The most lines that are chosen by samples.
const MOST_LINES: usize = 8;

/// What was chosen.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// The targets.
    pub(crate) targets: Vec<Target>,
    /// How many samples were in the scope.
    pub(crate) in_scope: u64,
    /// Functions and lines that the user names and that were not sampled, each with names that are near.
    pub(crate) missing: Vec<(String, Vec<String>)>,
}

/// Chooses targets by the samples so far.
pub(crate) fn choose(sampled: &Sampled, wanted: &Wanted) -> Choice {
    let lines = sampled.lines(&wanted.scope);
    let in_scope = lines.iter().map(|(_, line)| line.samples).sum();
    let total = sampled.total.max(1) as f64;
    let by_name = wanted.is_by_name();
    let mut targets: Vec<Target> =
        wanted.functions.iter().filter_map(|name| function(name, &lines, total)).collect();
    targets.extend(wanted.with_callees.iter().filter_map(|whole| whole_function(whole, sampled)));
    let is_line = |line: &SourceLine, (file, number): &(String, u32)| {
        line.line == *number && ends_with_path(&line.file, file)
    };
    let is_wanted = |line: &SourceLine| wanted.lines.iter().any(|wanted| is_line(line, wanted));
    let chosen = lines.iter().filter(|(_, line)| match by_name {
        true => is_wanted(&line.line),
        false => line.samples as f64 / total >= SMALLEST_SHARE,
    });
    let chosen = chosen.take(if by_name { usize::MAX } else { MOST_LINES });
    targets.extend(chosen.map(|(module, line)| Target {
        kind: TargetKind::Line,
        line: line.line.clone(),
        share: line.samples as f64 / total,
        ranges: in_module(*module, &line.ranges),
    }));
    if targets.is_empty() && !by_name {
        targets = hot_functions(&lines, total);
    }
    let functions = wanted.functions.iter().filter(|name| function(name, &lines, total).is_none());
    let functions = functions.map(|name| (format!("--function {name}"), near_functions(name, &lines)));
    let missing = wanted.lines.iter().filter(|of| !lines.iter().any(|(_, line)| is_line(&line.line, of)));
    let missing =
        missing.map(|(file, number)| (format!("--line {file}:{number}"), near_lines(file, *number, &lines)));
    let missing = functions.chain(missing).collect();
    Choice { targets, in_scope, missing }
}

/// Sampled functions with a name like this.
fn near_functions(name: &str, lines: &[(usize, LineCode)]) -> Vec<String> {
    let functions: BTreeSet<&String> = lines.iter().flat_map(|(_, line)| &line.functions).collect();
    nearest(name, functions.into_iter().cloned())
}

/// Sampled lines of this file, those that are nearest first; or files with a name like this.
fn near_lines(file: &str, number: u32, lines: &[(usize, LineCode)]) -> Vec<String> {
    let in_file = lines.iter().map(|(_, line)| &line.line).filter(|line| ends_with_path(&line.file, file));
    let mut numbers: Vec<u32> = in_file.map(|line| line.line).collect();
    numbers.sort_by_key(|near| (near.abs_diff(number), *near));
    numbers.dedup();
    if numbers.is_empty() {
        let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
        let files: BTreeSet<String> = lines.iter().map(|(_, line)| name(&line.line.file)).collect();
        return nearest(&name(file), files.into_iter());
    }
    numbers.iter().take(MOST_NEAR).map(|near| format!("{file}:{near}")).collect()
}

/// The functions with the most samples, for programs whose time is spread over many lines.
fn hot_functions(lines: &[(usize, LineCode)], total: f64) -> Vec<Target> {
    let mut samples: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, line) in lines {
        *samples.entry(&line.line.function).or_default() += line.samples;
    }
    let mut hot: Vec<(&str, u64)> = samples.into_iter().collect();
    hot.retain(|(_, count)| *count as f64 / total >= SMALLEST_SHARE);
    hot.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    hot.into_iter().take(MOST_LINES).filter_map(|(name, _)| function(name, lines, total)).collect()
}

/// All code of a function, and what is inlined into it.
fn function(name: &str, lines: &[(usize, LineCode)], total: f64) -> Option<Target> {
    let is_it = |found: &&String| is_named(found, name);
    let inside = || lines.iter().filter(|(_, line)| line.functions.iter().any(|found| is_it(&found)));
    let (_, first) = inside().next()?;
    let full = first.functions.iter().find(is_it)?.clone();
    let mut ranges: Vec<CodeRange> =
        inside().flat_map(|(module, line)| in_module(*module, &line.ranges)).collect();
    ranges.sort_unstable();
    let samples: u64 = inside().map(|(_, line)| line.samples).sum();
    let own =
        inside().find(|(_, line)| line.line.function == full).map_or(&first.line, |(_, line)| &line.line);
    Some(Target {
        kind: TargetKind::Function,
        line: SourceLine { function: full, ..own.clone() },
        share: samples as f64 / total,
        ranges,
    })
}

/// Whether a user calls a function so: by its path or the end of it, as in Rust, C++ and Go.
fn is_named(function: &str, name: &str) -> bool {
    let before = function.strip_suffix(name);
    before.is_some_and(|before| before.is_empty() || before.ends_with("::") || before.ends_with('.'))
}

/// A function with all that it calls. How much of the time it has is seen when it is sped up.
fn whole_function(whole: &WholeFunction, sampled: &Sampled) -> Option<Target> {
    let module = sampled.modules.iter().position(|(path, _)| *path == whole.module)?;
    Some(Target {
        kind: TargetKind::WithCallees,
        line: whole.code.line.clone(),
        share: 0.0,
        ranges: in_module(module, &whole.code.ranges),
    })
}

fn in_module(module: usize, ranges: &[(u64, u64)]) -> Vec<CodeRange> {
    ranges.iter().map(|&(start, end)| CodeRange { module, start, end }).collect()
}

fn ends_with_path(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/') || end.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<(usize, LineCode)> {
        let line = |function: &str, file: &str, line| {
            let line = SourceLine { function: function.to_owned(), file: file.to_owned(), line };
            (0, LineCode { functions: vec![function.to_owned()], line, ranges: Vec::new(), samples: 1 })
        };
        vec![
            line("app::parse", "/src/main.rs", 10),
            line("app::parse", "/src/main.rs", 14),
            line("app::render", "/src/page.rs", 7),
        ]
    }

    #[test]
    fn a_name_that_means_nothing_is_answered_with_near_ones() {
        assert_eq!(near_functions("pasre", &lines()), ["app::parse"]);
        assert_eq!(near_lines("main.rs", 13, &lines()), ["main.rs:14", "main.rs:10"]);
        assert_eq!(near_lines("pages.rs", 7, &lines()), ["page.rs"]);
        assert!(near_lines("other.c", 7, &lines()).is_empty());
    }

    #[test]
    fn a_function_is_named_by_the_end_of_its_path() {
        assert!(is_named("main.work", "work") && is_named("app::work", "work") && is_named("work", "work"));
        assert!(is_named("app::json::parse", "json::parse") && !is_named("app::rework", "work"));
    }

    #[test]
    fn functions_are_targets_where_no_line_has_enough_samples() {
        let line = |function: &str, line: u32, samples: u64| LineCode {
            line: SourceLine { function: function.to_owned(), file: "main.rs".to_owned(), line },
            functions: vec![function.to_owned(), "app::main".to_owned()],
            ranges: vec![(u64::from(line) * 16, u64::from(line) * 16 + 16)],
            samples,
        };
        let lines = [
            (0, line("app::parse", 1, 9)),
            (0, line("app::hash", 7, 15)),
            (0, line("app::parse", 2, 11)),
            (0, line("app::log", 9, 5)),
        ];
        let found = hot_functions(&lines, 1000.0);
        assert_eq!(found.len(), 1, "{found:?}");
        let Target { kind, line, share, ranges } = &found[0];
        assert_eq!((*kind, line.function.as_str(), *share), (TargetKind::Function, "app::parse", 0.02));
        assert_eq!(ranges.len(), 2, "both lines, though neither has 2 %");
        let names: Vec<_> = hot_functions(&lines, 500.0).into_iter().map(|it| it.line.function).collect();
        assert_eq!(names, ["app::parse", "app::hash"], "the hottest first");
    }

    #[test]
    fn a_file_is_named_by_the_end_of_its_path() {
        assert!(ends_with_path("/src/app/main.rs", "main.rs") && ends_with_path("main.rs", "main.rs"));
        assert!(!ends_with_path("/src/domain.rs", "main.rs"));
    }
}
