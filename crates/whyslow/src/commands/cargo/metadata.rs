//! Reads `cargo metadata`: the packages of the workspace.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde::Deserialize;

use super::{BuildArgs, Checkout, cargo, cargo_cannot_start};
use crate::exit::Exit;
use crate::failure::{Failure, Result};

/// The packages of a workspace.
#[derive(Debug, Deserialize)]
pub(super) struct Metadata {
    packages: Vec<Package>,
    workspace_members: Vec<String>,
    /// What cargo builds by default in the current folder.
    #[serde(default)]
    workspace_default_members: Vec<String>,
    /// cargo's output folder; criterion keeps its results there.
    #[serde(default)]
    pub(super) target_directory: PathBuf,
}

/// A package, with every field that cargo passes on in the environment.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Package {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) manifest_path: PathBuf,
    pub(super) targets: Vec<PackageTarget>,
    #[serde(default)]
    pub(super) dependencies: Vec<Dependency>,
    pub(super) default_run: Option<String>,
    #[serde(default)]
    pub(super) authors: Vec<String>,
    pub(super) description: Option<String>,
    pub(super) homepage: Option<String>,
    pub(super) repository: Option<String>,
    pub(super) license: Option<String>,
    pub(super) license_file: Option<String>,
    pub(super) readme: Option<String>,
    pub(super) rust_version: Option<String>,
}

/// A package that another one depends on.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Dependency {
    name: String,
    req: String,
}

/// A target of a package.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct PackageTarget {
    pub(super) name: String,
    pub(super) kind: Vec<String>,
}

impl Metadata {
    /// Runs `cargo metadata`.
    pub(super) fn load(build: &BuildArgs, at: Option<&Checkout>) -> Result<Self> {
        let mut command = cargo(at);
        command.args(["metadata", "--no-deps", "--format-version", "1", "--quiet"]);
        if let Some(path) = &build.manifest_path {
            command.arg("--manifest-path").arg(path);
        }
        if build.offline {
            command.arg("--offline");
        }
        if build.locked {
            command.arg("--locked");
        }
        let output = command.stderr(Stdio::piped()).output().map_err(|error| cargo_cannot_start(&error))?;
        if !output.status.success() {
            let printed = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("cargo: {}", printed.trim().trim_start_matches("error: ")))
                .next("running it in the folder of a Cargo.toml, or --manifest-path")
                .exit_with(Exit::Cargo(output.status.code().unwrap_or(101))));
        }
        Self::parse(&output.stdout)
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).map_err(|error| {
            Failure::new(format!("cannot parse the output of cargo metadata: {error}"))
                .next("a cargo from 2020 or later")
        })
    }

    /// A package by cargo's id.
    pub(super) fn package(&self, id: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.id == id)
    }

    /// The packages that `-p NAME` selects, or the default ones.
    pub(super) fn selected(&self, name: Option<&str>) -> Vec<&Package> {
        let members = match name {
            None if !self.workspace_default_members.is_empty() => &self.workspace_default_members,
            _ => &self.workspace_members,
        };
        let packages = self.packages.iter().filter(|package| members.contains(&package.id));
        packages.filter(|package| name.is_none_or(|name| package.is(name))).collect()
    }
}

/// Whether a source file in this folder has `#[bench]`.
fn mentions_bench(folder: &Path, depth: usize) -> bool {
    /// Deeper folders would be a loop of links.
    const DEEPEST: usize = 20;
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().map(|entry| entry.path()).any(|path| match path.extension() {
        Some(ending) if ending == "rs" => {
            std::fs::read_to_string(&path).is_ok_and(|text| text.contains("#[bench]"))
        }
        None if depth < DEEPEST && path.is_dir() => mentions_bench(&path, depth + 1),
        _ => false,
    })
}

impl Package {
    /// Whether a package id specification, as for `cargo -p`, matches this package.
    fn is(&self, spec: &str) -> bool {
        spec == self.id || spec.split(['@', ':']).next() == Some(self.name.as_str())
    }

    /// Names of the targets of one kind.
    pub(super) fn targets_of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a str> {
        self.targets
            .iter()
            .filter(move |target| target.kind.iter().any(|k| k == kind))
            .map(|target| target.name.as_str())
    }

    /// The names of the packages it depends on, with their version requirements.
    pub(super) fn requirements(&self) -> Vec<(&str, &str)> {
        self.dependencies.iter().map(|one| (one.name.as_str(), one.req.as_str())).collect()
    }

    /// Whether it may have benchmarks: a bench target, or `#[bench]` in its sources.
    pub(super) fn may_have_benches(&self) -> bool {
        self.targets_of("bench").next().is_some()
            || self.folder().is_some_and(|folder| mentions_bench(&folder.join("src"), 0))
    }

    /// The folder of its Cargo.toml.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.manifest_path.parent()
    }
}
