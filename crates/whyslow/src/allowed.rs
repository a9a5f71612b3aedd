//! Findings that the user allows: comments in the source, and whyslow.toml.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use whyslow_answers::allowed::{add, in_source};
use whyslow_answers::whole_explanation;
use whyslow_explain::{Allowed, Explanation};
use whyslow_profile::Profile;

use crate::failure::{Failure, Result, warn};

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
pub(crate) fn read(config: Option<&Path>, profile: &Profile) -> Result<Allowed> {
    let mut allowed = in_source(profile);
    if let Some(path) = config.map(Path::to_owned).or_else(default_config) {
        let failed = |why: String| Failure::new(format!("{}: {why}", path.display()));
        let text = std::fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
        let file = toml::from_str::<File>(&text).map_err(|error| failed(error.message().to_owned()))?;
        for entry in &file.explain.allow {
            add(&mut allowed, profile, entry).map_err(|error| failed(format!("explain.allow: {error}")))?;
        }
    }
    Ok(allowed)
}

/// The findings of a whole profile, for the viewer: those of `whyslow explain` without options.
pub(crate) fn for_viewer(profile: &Profile, file: &str) -> Explanation {
    let allowed = read(None, profile).unwrap_or_else(|failure| {
        warn(&format!("{failure}; the viewer also shows the findings that this file allows"));
        in_source(profile)
    });
    whole_explanation(profile, &allowed, file)
}

/// The nearest whyslow.toml, in this folder or above it.
fn default_config() -> Option<PathBuf> {
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join("whyslow.toml")).find(|path| path.is_file())
}
