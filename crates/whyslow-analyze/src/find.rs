//! Finds the function a user means.

use whyslow_profile::{AsyncForm, Profile};

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

/// The labels of the function that `query` names, all with the same name: an exact match, else the end of its
/// path (`mod::f`), else a part of the name. The first of these that matches anything decides.
pub(crate) fn find(profile: &Profile, table: &FunctionTable, query: &str) -> Result<Vec<Label>, FindError> {
    let path_end = format!("::{query}");
    let lower = query.to_lowercase();
    let ways: [&dyn Fn(&str) -> bool; 4] = [
        &|name| name == query || AsyncForm::split(name).1 == query,
        &|name| name.ends_with(&path_end),
        &|name| name.contains(query),
        &|name| name.to_lowercase().contains(&lower),
    ];
    for matches in ways {
        let mut found: Vec<(String, Vec<Label>)> = Vec::new();
        for row in table.rows.iter().filter(|_| !query.is_empty()) {
            let name = labels::name(profile, row.label);
            if matches(&name) {
                match found.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, labels)) => labels.push(row.label),
                    None => found.push((name.into_owned(), vec![row.label])),
                }
            }
        }
        match found.len() {
            0 => {}
            1 => return Ok(found.swap_remove(0).1),
            _ => {
                let candidates = found.into_iter().map(|(name, _)| name).collect();
                return Err(FindError::Ambiguous { query: query.to_owned(), candidates });
            }
        }
    }
    let by_symbol = table.rows.iter().map(|row| row.label).filter(|label| match label {
        Label::Function(id) => {
            let raw = profile.functions.get(id.index()).map(|function| profile.text(function.raw_name));
            raw == Some(query) && !query.is_empty()
        }
        _ => false,
    });
    let by_symbol: Vec<Label> = by_symbol.collect();
    if !by_symbol.is_empty() {
        return Ok(by_symbol);
    }
    let names = table.rows.iter().map(|row| labels::name(profile, row.label).into_owned());
    Err(FindError::Unknown { query: query.to_owned(), nearest: nearest(query, names) })
}

/// Longer parts of names are cut: the distance takes quadratic time.
const COMPARED: usize = 64;

/// The names whose last part is most similar to that of `query`, at most three.
pub fn nearest(query: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    let wanted = last_part(query);
    let allowed = wanted.chars().count().div_ceil(3);
    let scored = names.map(|name| (strsim::levenshtein(&wanted, &last_part(&name)), name));
    let mut close = scored.filter(|(distance, _)| *distance <= allowed).collect::<Vec<_>>();
    close.sort();
    close.dedup();
    close.truncate(3);
    close.into_iter().map(|(_, name)| name).collect()
}

fn last_part(name: &str) -> String {
    name.rsplit("::").next().unwrap_or(name).to_lowercase().chars().take(COMPARED).collect()
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
        let labels = find(&profile, &table, query)?;
        Ok(labels.into_iter().map(|label| labels::name(&profile, label).into_owned()).collect())
    }

    #[test]
    fn exact_then_path_end_then_part() {
        assert_eq!(found("readline").unwrap(), ["readline"]);
        assert_eq!(found("json::read").unwrap(), ["json::read"]);
        assert_eq!(found("parse").unwrap(), ["app::parse"]);
        assert_eq!(found("ADLI").unwrap(), ["readline"]);
    }

    #[test]
    fn several_matches_are_listed_heaviest_first() {
        let error = found("read").unwrap_err();
        assert_eq!(error.to_string(), "'read' could be any of 2 functions: 'json::read', 'app::read'");
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
