//! Finds the function a user means.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_names::{Fit, Wanted};
use whyslow_profile::{CodeKind, Profile};
use whyslow_words::nearest;

use crate::functions::FunctionTable;
use crate::labels::{self, Label};

/// Why a name does not lead to one function.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// Several functions match.
    #[error("'{query}' could be any of {} functions: {}", .candidates.len(), quoted(.candidates, 10))]
    Ambiguous {
        /// The name that the user gave.
        query: String,
        /// Their names, most expensive first.
        candidates: Vec<String>,
    },
    /// No function matches.
    #[error("no function in the profile is called '{query}'{}", did_you_mean(.nearest))]
    Unknown {
        /// The name that the user gave.
        query: String,
        /// Similar names, best first.
        nearest: Vec<String>,
    },
}

fn quoted(names: &[String], at_most: usize) -> String {
    let mut text = names.iter().take(at_most).map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    if names.len() > at_most {
        text.push_str(", …");
    }
    text
}

fn did_you_mean(nearest: &[String]) -> String {
    if nearest.is_empty() {
        "; `whyslow report FILE functions` lists them".to_owned()
    } else {
        format!("; did you mean {}?", quoted(nearest, 3))
    }
}

/// A function that a text may mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its name.
    pub name: String,
    /// Its labels; several when functions of different files share the name.
    pub labels: Vec<Label>,
    fit: Fit,
    is_yours: bool,
    total_value: u64,
}

/// The functions of a table that fit a text best: your code first, then by fit and total cost.
pub fn candidates(profile: &Profile, table: &FunctionTable, query: &str) -> Vec<Candidate> {
    let wanted = Wanted::new(query);
    let mut found: Vec<Candidate> = Vec::new();
    let mut by_name = FxHashMap::default();
    for row in table.rows.iter().filter(|_| !wanted.text().is_empty()) {
        let Some(fit) = fit(profile, &wanted, row.label) else { continue };
        let name = labels::name(profile, row.label);
        let at = *by_name.entry(name.clone()).or_insert_with(|| {
            let name = name.into_owned();
            found.push(Candidate { name, labels: Vec::new(), fit, is_yours: false, total_value: 0 });
            found.len() - 1
        });
        let candidate = &mut found[at];
        candidate.labels.push(row.label);
        candidate.fit = candidate.fit.min(fit);
        candidate.is_yours |= labels::kind(profile, row.label) == CodeKind::Yours;
        candidate.total_value = candidate.total_value.max(row.total_value);
    }
    let best = found.iter().map(|candidate| candidate.fit.class()).min();
    found.retain(|candidate| Some(candidate.fit.class()) == best);
    // A function comes before its closures, which may have all of its cost.
    found.sort_by_key(|candidate| {
        (!candidate.is_yours, candidate.fit, Reverse(candidate.total_value), candidate.name.len())
    });
    found
}

/// The one that is meant, if that is clear: the first, if the text is its name, it is the only one of your code,
/// or the others are closures in it.
pub fn meant(candidates: &[Candidate]) -> Option<&Candidate> {
    let (first, others) = candidates.split_first()?;
    let is_only_yours = first.is_yours && others.iter().all(|other| !other.is_yours);
    let is_in_first =
        |name: &str| name.strip_prefix(&first.name).is_some_and(|rest| rest.starts_with("::{{"));
    let is_clear =
        first.fit.is_name() || is_only_yours || others.iter().all(|other| is_in_first(&other.name));
    is_clear.then_some(first)
}

/// How well a label fits: by its name or, as some views print it, by its crate or kind of code and its name
/// (`tokio::…::poll`, `kernel::schedule`), or by its symbol.
pub(crate) fn fit(profile: &Profile, wanted: &Wanted, label: Label) -> Option<Fit> {
    let name = labels::name(profile, label);
    let qualified = |owner: &str| {
        let is_for_it = wanted.text().starts_with(owner) && !name.contains("::");
        is_for_it.then(|| wanted.fit(&format!("{owner}::{name}"))).flatten().filter(|fit| fit.is_name())
    };
    let by_crate = || match label {
        Label::Function(id) => {
            let crate_name = profile.functions.get(id.index())?.crate_name?;
            qualified(profile.text(crate_name))
        }
        _ => None,
    };
    let by_kind = || qualified(labels::kind(profile, label).label());
    let by_symbol = || match label {
        Label::Function(id) => {
            let raw = profile.text(profile.functions.get(id.index())?.raw_name);
            (!raw.is_empty() && raw == wanted.text()).then_some(Fit::Equal)
        }
        _ => None,
    };
    wanted.fit(&name).or_else(by_crate).or_else(by_kind).or_else(by_symbol)
}

/// What a text means, and what else it could.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) labels: Vec<Label>,
    /// The names of other functions that the text fits as well.
    pub(crate) others: Vec<String>,
}

/// The function that `query` names; an error that lists the candidates if it is a part of several names.
pub(crate) fn find(profile: &Profile, table: &FunctionTable, query: &str) -> Result<Found, FindError> {
    let found = candidates(profile, table, query);
    let Some(one) = meant(&found) else {
        let names = || table.rows.iter().map(|row| labels::name(profile, row.label).into_owned());
        let query = query.to_owned();
        return Err(if found.is_empty() {
            FindError::Unknown { nearest: nearest(&query, names()), query }
        } else {
            FindError::Ambiguous {
                query,
                candidates: found.into_iter().map(|candidate| candidate.name).collect(),
            }
        });
    };
    // A name that is the query itself leads to it only with its kind of code.
    let other = |candidate: &Candidate| match candidate.labels.first() {
        Some(&label) if candidate.name == query => {
            format!("{}::{query}", labels::kind(profile, label).label())
        }
        _ => candidate.name.clone(),
    };
    let others = found.iter().skip(1).map(other).collect();
    Ok(Found { labels: one.labels.clone(), others })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::SortBy;
    use crate::selection::Selection;
    use crate::testing;

    fn found(query: &str) -> Result<Vec<String>, FindError> {
        let profile = testing::profile("app::main;app::parse;json::read 5\napp::main;app::read;readline 2");
        let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::SelfValue);
        let found = find(&profile, &table, query)?;
        Ok(found.labels.into_iter().map(|label| labels::name(&profile, label).into_owned()).collect())
    }

    #[test]
    fn exact_then_path_end_then_part() {
        assert_eq!(found("readline").unwrap(), ["readline"]);
        assert_eq!(found("json::read").unwrap(), ["json::read"]);
        assert_eq!(found("parse").unwrap(), ["app::parse"]);
        assert_eq!(found("ADLI").unwrap(), ["readline"]);
    }

    #[test]
    fn a_part_of_a_name_means_the_function_and_not_its_closures() {
        let profile = testing::profile("app::main;app::divide;app::divide::{{closure}} 5");
        let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::SelfValue);
        let found = find(&profile, &table, "divi").unwrap();
        assert_eq!(labels::name(&profile, found.labels[0]), "app::divide");
    }

    #[test]
    fn of_several_functions_of_one_name_the_heaviest_is_meant() {
        assert_eq!(found("read").unwrap(), ["json::read"]);
        assert_eq!(found("app::read").unwrap(), ["app::read"]);
    }

    #[test]
    fn parts_of_several_names_list_them_heaviest_first() {
        let error = found("rea").unwrap_err();
        let text = "'rea' could be any of 3 functions: 'json::read', 'readline', 'app::read'";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn your_function_is_meant_before_the_kernels_of_the_same_name() {
        let mut profile = testing::profile("main;app::schedule 3\nmain;schedule 9");
        for function in &mut profile.functions {
            let name = profile.strings.get(function.name).to_owned();
            function.kind = if name == "schedule" { CodeKind::Kernel } else { CodeKind::Yours };
        }
        let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::Total);
        let named = |query: &str| {
            let found = find(&profile, &table, query).unwrap();
            let name = |label: &Label| labels::name(&profile, *label).into_owned();
            (found.labels.iter().map(name).collect::<Vec<_>>().join(" "), found.others.join(" "))
        };
        assert_eq!(named("schedule"), ("app::schedule".into(), "kernel::schedule".into()));
        assert_eq!(named("kernel::schedule"), ("schedule".into(), String::new()));
    }

    #[test]
    fn misspelt_name_suggests_the_right_one() {
        let error = found("app::prase").unwrap_err();
        let text = "no function in the profile is called 'app::prase'; did you mean 'app::parse'?";
        assert_eq!(error.to_string(), text);
    }

    #[test]
    fn unknown_name_points_to_the_list() {
        for query in ["", "qqqqqq"] {
            let text = found(query).unwrap_err().to_string();
            assert!(text.ends_with("`whyslow report FILE functions` lists them"), "{text}");
        }
    }
}
