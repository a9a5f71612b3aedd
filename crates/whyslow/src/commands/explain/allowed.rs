//! Findings that the user allows: comments in the source, and whyslow.toml.

use std::path::{Path, PathBuf};

use regex::Regex;
use serde::Deserialize;
use whyslow_explain::{Allowed, rule};
use whyslow_profile::Profile;

use crate::failure::{Failure, Result};

/// The section of whyslow.toml about findings.
#[derive(Debug, Default, Deserialize)]
struct File {
    #[serde(default)]
    explain: Explain,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Explain {
    /// `ID`, `ID:FILE` or `ID:FILE:LINE`.
    #[serde(default)]
    allow: Vec<String>,
}

/// The allowed findings for a profile.
pub(super) fn read(config: Option<&Path>, profile: &Profile) -> Result<Allowed> {
    let mut allowed = in_source(profile);
    if let Some(path) = config.map(Path::to_owned).or_else(default_config) {
        let failed = |why: String| Failure::new(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
        let file = toml::from_str::<File>(&text).map_err(|error| failed(error.message().to_owned()))?;
        for entry in &file.explain.allow {
            add(&mut allowed, profile, entry).map_err(failed)?;
        }
    }
    Ok(allowed)
}

/// The nearest whyslow.toml, in this folder or above it.
fn default_config() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join("whyslow.toml")).find(|path| path.is_file())
}

/// Comments `whyslow: allow(ID, …)` in the source lines of the profile. They apply to their line and the
/// next.
pub(super) fn in_source(profile: &Profile) -> Allowed {
    let mut allowed = Allowed::default();
    let Ok(comment) = Regex::new(r"whyslow: *allow\(([^)]*)\)") else { return allowed };
    for row in &profile.sources.rows {
        let Some(found) = comment.captures(profile.text(row.text)) else { continue };
        for id in found[1].split(',').map(str::trim) {
            for line in [row.line, row.line + 1] {
                allowed.lines.insert((row.file, line, id.to_owned()));
            }
        }
    }
    allowed
}

fn add(allowed: &mut Allowed, profile: &Profile, entry: &str) -> std::result::Result<(), String> {
    let mut parts = entry.splitn(3, ':');
    let id = parts.next().unwrap_or_default();
    if rule(id).is_none() {
        return Err(format!(
            "explain.allow: '{entry}': no rule is called '{id}'; whyslow explain --rules lists all"
        ));
    }
    let Some(file) = parts.next() else {
        allowed.rules.insert(id.to_owned());
        return Ok(());
    };
    let line = parts.next().map(|line| {
        line.parse::<u32>().map_err(|_| format!("explain.allow: '{entry}': '{line}' is not a line number"))
    });
    let line = line.transpose()?;
    let is_meant = |path: &str| Path::new(path).ends_with(file);
    for (location, _) in (0..profile.locations.len()).map(|row| (row, ())) {
        for frame in profile.frames.of(location.into()) {
            let Some(path) = frame.file.filter(|path| is_meant(profile.text(*path))) else { continue };
            if line.is_none_or(|line| line == frame.line) {
                allowed.lines.insert((path, frame.line, id.to_owned()));
            }
        }
    }
    Ok(())
}
