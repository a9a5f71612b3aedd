//! Builds with cargo and reads cargo's messages.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use serde::Deserialize;

use super::target::Choice;
use super::{BuildArgs, Checkout, cargo, cargo_cannot_start};
use crate::cli::Volume;
use crate::failure::{Failure, Result};

/// The results of a build that matter for running it.
#[derive(Debug, Default)]
pub(super) struct Build {
    pub(super) executables: Vec<Executable>,
    pub(super) scripts: Vec<Script>,
}

/// An executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executable {
    pub(super) package_id: String,
    pub(super) kinds: Vec<String>,
    pub(super) name: String,
    pub(super) path: PathBuf,
    is_test: bool,
    opt_level: String,
}

/// The output of a build script.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Script {
    pub(super) package_id: String,
    #[serde(default)]
    pub(super) linked_paths: Vec<String>,
    #[serde(default)]
    pub(super) env: Vec<(String, String)>,
    pub(super) out_dir: PathBuf,
}

/// The relevant lines of `cargo build --message-format=json`.
#[derive(Debug, Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Message {
    CompilerArtifact {
        package_id: String,
        target: super::metadata::PackageTarget,
        profile: ArtifactProfile,
        executable: Option<PathBuf>,
    },
    BuildScriptExecuted(Script),
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct ArtifactProfile {
    opt_level: String,
    test: bool,
}

/// Runs cargo with these arguments. The inner error is cargo's exit code; cargo has printed why to stderr.
pub(super) fn run(
    args: &BuildArgs,
    targets: Vec<String>,
    volume: Volume,
) -> Result<std::result::Result<Build, i32>> {
    run_with(args, None, targets, &[], volume)
}

/// Like [`run`], of a checkout, and with arguments that `cargo rustc` passes to rustc.
pub(super) fn run_with(
    args: &BuildArgs,
    at: Option<&Checkout>,
    targets: Vec<String>,
    for_rustc: &[String],
    volume: Volume,
) -> Result<std::result::Result<Build, i32>> {
    let mut command = cargo(at);
    command.args(cargo_args(args, at, targets)).stdout(Stdio::piped());
    if volume == Volume::Quiet {
        command.arg("--quiet");
    }
    if !for_rustc.is_empty() {
        command.arg("--").args(for_rustc);
    }
    let mut child = command.spawn().map_err(|error| cargo_cannot_start(&error))?;
    let mut build = Build::default();
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).lines().map_while(std::result::Result::ok) {
            build.add(&line);
        }
    }
    let status = child.wait().map_err(|error| cargo_cannot_start(&error))?;
    Ok(if status.success() { Ok(build) } else { Err(status.code().unwrap_or(101)) })
}

/// cargo's arguments.
fn cargo_args(args: &BuildArgs, at: Option<&Checkout>, targets: Vec<String>) -> Vec<String> {
    let mut words = targets;
    words.push("--message-format=json-render-diagnostics".to_owned());
    words.extend(profile_args(args));
    for features in &args.features {
        words.extend(["--features".to_owned(), features.clone()]);
    }
    let flags = [
        ("--all-features", args.all_features),
        ("--no-default-features", args.no_default_features),
        ("--offline", args.offline),
        ("--locked", args.locked),
    ];
    words.extend(flags.iter().filter(|(_, given)| *given).map(|(flag, _)| (*flag).to_owned()));
    let target_dir = at.map(|checkout| &checkout.target_dir).or(args.target_dir.as_ref());
    let paths = [("--manifest-path", args.manifest_path.as_ref()), ("--target-dir", target_dir)];
    for (option, path) in paths {
        if let Some(path) = path {
            words.extend([option.to_owned(), path.to_string_lossy().into_owned()]);
        }
    }
    for (option, value) in [("--jobs", &args.jobs), ("--target", &args.target)] {
        if let Some(value) = value {
            words.extend([option.to_owned(), value.clone()]);
        }
    }
    words
}

/// Defines a separate profile on the command line: Cargo.toml is not edited, and the user's build results,
/// which are in another folder, are not touched.
///
/// `debug=1`, not "line-tables-only": only with 1 do inlined functions have their linkage names and
/// namespaces; line tables alone say `sum` where 1 says `app::inner::P<u32>::sum`.
fn profile_args(args: &BuildArgs) -> Vec<String> {
    let base = if args.dev { "dev" } else { args.profile.as_deref().unwrap_or("release") };
    let name = if base == "release" { "whyslow".to_owned() } else { format!("whyslow-{base}") };
    let settings = [format!("inherits=\"{base}\""), "debug=1".to_owned(), "strip=\"none\"".to_owned()];
    let mut words = Vec::new();
    for setting in settings {
        words.extend(["--config".to_owned(), format!("profile.{name}.{setting}")]);
    }
    words.extend(["--profile".to_owned(), name]);
    words
}

impl Build {
    /// Adds one line of cargo's output. Lines that are not messages come from build tools and are ignored.
    fn add(&mut self, line: &str) {
        match serde_json::from_str(line) {
            Ok(Message::CompilerArtifact { package_id, target, profile, executable: Some(path) }) => {
                self.executables.push(Executable {
                    package_id,
                    kinds: target.kind,
                    name: target.name,
                    path,
                    is_test: profile.test,
                    opt_level: profile.opt_level,
                });
            }
            Ok(Message::BuildScriptExecuted(script)) => self.scripts.push(script),
            _ => {}
        }
    }

    /// The executable of the chosen target.
    pub(super) fn executable(&self, choice: &Choice) -> Result<&Executable> {
        let fits = |executable: &&Executable| {
            choice.is(&executable.kinds, &executable.name)
                && (executable.is_test || !choice.is_test() || choice.is_bench())
        };
        let found = self.executables.iter().filter(fits).collect::<Vec<_>>();
        match found.as_slice() {
            [one] => Ok(one),
            [] => Err(Failure::new(format!("cargo built no executable for {}", choice.name))
                .next("`cargo build -v`, to see what it builds")),
            several => {
                let packages =
                    several.iter().map(|executable| executable.package_id.as_str()).collect::<Vec<_>>();
                Err(Failure::new(format!(
                    "several packages have a target {}: {}",
                    choice.name,
                    packages.join(", ")
                ))
                .next("-p with the name of one of them"))
            }
        }
    }
}

impl Executable {
    /// Whether it may have a benchmark harness: benchmark targets and unit tests do.
    pub(super) fn has_harness(&self) -> bool {
        self.is_test || self.kinds.iter().any(|kind| kind == "bench")
    }

    pub(super) fn is_unoptimised(&self) -> bool {
        self.opt_level == "0"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_defined_on_the_command_line() {
        let words = profile_args(&BuildArgs::default()).join(" ");
        assert_eq!(
            words,
            "--config profile.whyslow.inherits=\"release\" --config profile.whyslow.debug=1 \
             --config profile.whyslow.strip=\"none\" --profile whyslow"
        );
        let dev = BuildArgs { dev: true, ..BuildArgs::default() };
        assert!(profile_args(&dev).join(" ").ends_with("--profile whyslow-dev"));
    }

    #[test]
    fn other_output_on_stdout_is_ignored() {
        let mut build = Build::default();
        build.add("warning: something a build tool printed");
        build.add(r#"{"reason":"compiler-message","message":{}}"#);
        build.add(r#"{"reason":"build-finished","success":true}"#);
        assert!(build.executables.is_empty());
        build.add(
            r#"{"reason":"compiler-artifact","package_id":"p","target":{"kind":["bin"],"name":"app"},
            "profile":{"opt_level":"3","test":false},"executable":"/t/app"}"#,
        );
        assert_eq!(build.executables.len(), 1);
    }
}
