//! Findings that the user allows: in comments of the source, and as entries of a list.

use std::path::Path;

use regex::Regex;
use whyslow_explain::{Allowed, NoSuchRule, RuleId};
use whyslow_profile::Profile;

/// An entry that allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AllowError {
    /// No rule has this id.
    #[error("'{entry}': {error}; whyslow explain --rules lists all")]
    UnknownRule {
        /// The entry.
        entry: String,
        /// The id in it.
        error: NoSuchRule,
    },
    /// The line is not a number.
    #[error("'{entry}': '{line}' is not a line number")]
    NotALine {
        /// The entry.
        entry: String,
        /// Its line.
        line: String,
    },
}

/// Comments `whyslow: allow(ID, …)` in the source lines of the profile. They apply to their line and the
/// next.
pub fn in_source(profile: &Profile) -> Allowed {
    let mut allowed = Allowed::default();
    let Ok(comment) = Regex::new(r"whyslow: *allow\(([^)]*)\)") else { return allowed };
    for row in &profile.sources.rows {
        let Some(found) = comment.captures(profile.text(row.text)) else { continue };
        // Ids of later versions allow nothing here.
        for id in found[1].split(',').filter_map(|id| id.trim().parse::<RuleId>().ok()) {
            for line in [row.line, row.line + 1] {
                allowed.lines.insert((row.file, line, id));
            }
        }
    }
    allowed
}

/// Adds an entry `ID`, `ID:FILE` or `ID:FILE:LINE`.
pub fn add(allowed: &mut Allowed, profile: &Profile, entry: &str) -> Result<(), AllowError> {
    let mut parts = entry.splitn(3, ':');
    let unknown = |error| AllowError::UnknownRule { entry: entry.to_owned(), error };
    let id = parts.next().unwrap_or_default().parse::<RuleId>().map_err(unknown)?;
    let Some(file) = parts.next() else {
        allowed.rules.insert(id);
        return Ok(());
    };
    let not_a_line = |line: &str| AllowError::NotALine { entry: entry.to_owned(), line: line.to_owned() };
    let line = parts.next().map(|line| line.parse::<u32>().map_err(|_| not_a_line(line))).transpose()?;
    let is_meant = |path: &str| Path::new(path).ends_with(file);
    for location in 0..profile.locations.len() {
        for frame in profile.frames.of(location.into()) {
            let Some(path) = frame.file.filter(|path| is_meant(profile.text(*path))) else { continue };
            if line.is_none_or(|line| line == frame.line) {
                allowed.lines.insert((path, frame.line, id));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_analyze::testing::{add_source, profile};

    #[test]
    fn entries_allow_a_rule_a_file_or_a_line() {
        let profile = profile("main: app::f@src/a.rs:3 1\nmain: app::g@src/b.rs:4 1");
        let mut allowed = Allowed::default();
        add(&mut allowed, &profile, "vec-growth").unwrap();
        add(&mut allowed, &profile, "clone-heavy:src/a.rs").unwrap();
        add(&mut allowed, &profile, "clone-heavy:src/b.rs:9").unwrap();
        assert!(allowed.rules.contains(&RuleId::VecGrowth));
        let lines = allowed.lines.iter().map(|(file, line, _)| (profile.text(*file), *line));
        assert_eq!(lines.collect::<Vec<_>>(), [("src/a.rs", 3)]);
        let error = add(&mut allowed, &profile, "no-such-rule").unwrap_err();
        assert!(matches!(error, AllowError::UnknownRule { .. }), "{error}");
        let error = add(&mut allowed, &profile, "vec-growth:a.rs:x").unwrap_err();
        assert!(matches!(error, AllowError::NotALine { .. }), "{error}");
    }

    #[test]
    fn a_comment_applies_to_its_line_and_the_next() {
        let mut profile = profile("main: app::f@src/a.rs:2 1");
        add_source(&mut profile, "src/a.rs", "// whyslow: allow(vec-growth)\nv.push(1);");
        let mut lines =
            in_source(&profile).lines.into_iter().map(|(_, line, id)| (line, id)).collect::<Vec<_>>();
        lines.sort_by_key(|(line, _)| *line);
        assert_eq!(lines, [(1, RuleId::VecGrowth), (2, RuleId::VecGrowth)]);
    }
}
