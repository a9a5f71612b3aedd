//! Chooses the executable to record.

use clap::Args;

use super::metadata::{Metadata, Package};
use crate::failure::{Failure, Result};

/// The target to build.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Target")]
#[group(multiple = true)]
pub(crate) struct TargetArgs {
    /// Build this binary [default: the only one, or the package's default-run]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["example", "test", "bench", "lib"])]
    bin: Option<String>,
    /// Build this example
    #[arg(long, value_name = "NAME", conflicts_with_all = ["test", "bench", "lib"])]
    example: Option<String>,
    /// Build this integration test
    #[arg(long, value_name = "NAME", conflicts_with_all = ["bench", "lib"])]
    test: Option<String>,
    /// Build this benchmark
    #[arg(long, value_name = "NAME", conflicts_with = "lib")]
    bench: Option<String>,
    /// Build the unit tests of the library
    #[arg(long)]
    lib: bool,
    /// The package in the workspace
    #[arg(short, long, value_name = "PACKAGE")]
    package: Option<String>,
}

/// Kinds of executable that cargo builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bin,
    Example,
    Test,
    Bench,
    UnitTests,
}

impl Kind {
    /// The word in cargo's messages.
    fn word(self) -> &'static str {
        match self {
            Self::Bin => "bin",
            Self::Example => "example",
            Self::Test => "test",
            Self::Bench => "bench",
            Self::UnitTests => "lib",
        }
    }
}

/// The chosen executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) package: Option<String>,
}

impl Choice {
    /// Tests and benchmarks run in their package's folder.
    pub(super) fn runs_in_package(&self) -> bool {
        matches!(self.kind, Kind::Test | Kind::Bench | Kind::UnitTests)
    }

    /// Benchmarks get the argument `--bench`.
    pub(super) fn is_bench(&self) -> bool {
        self.kind == Kind::Bench
    }

    /// Whether it is built as a test.
    pub(super) fn is_test(&self) -> bool {
        matches!(self.kind, Kind::Test | Kind::Bench | Kind::UnitTests)
    }

    /// cargo's arguments to build only this.
    pub(super) fn build_args(&self) -> Vec<String> {
        let mut args = match self.kind {
            Kind::UnitTests => vec!["test".to_owned(), "--no-run".to_owned(), "--lib".to_owned()],
            kind => vec!["build".to_owned(), format!("--{}", kind.word()), self.name.clone()],
        };
        if let Some(package) = &self.package {
            args.extend(["--package".to_owned(), package.clone()]);
        }
        args
    }

    /// Whether a target in cargo's messages is this one.
    pub(super) fn is(&self, kinds: &[String], name: &str) -> bool {
        match self.kind {
            // Libraries have several kinds: lib, rlib, cdylib, proc-macro.
            Kind::UnitTests => !kinds
                .iter()
                .any(|kind| ["bin", "example", "test", "bench", "custom-build"].contains(&&**kind)),
            kind => name == self.name && kinds.iter().any(|k| k == kind.word()),
        }
    }
}

/// Chooses the executable, or fails with a list of choices.
pub(super) fn choose(args: &TargetArgs, metadata: &Metadata) -> Result<Choice> {
    let named = [
        (Kind::Bin, &args.bin),
        (Kind::Example, &args.example),
        (Kind::Test, &args.test),
        (Kind::Bench, &args.bench),
    ];
    for (kind, name) in named {
        if let Some(name) = name {
            return Ok(Choice { kind, name: name.clone(), package: args.package.clone() });
        }
    }
    let packages = metadata.selected(args.package.as_deref());
    if args.lib {
        return match packages.as_slice() {
            [package] => Ok(Choice {
                kind: Kind::UnitTests,
                name: package.name.clone(),
                package: Some(package.name.clone()),
            }),
            _ => Err(Failure::new(format!("--lib: there are several packages: {}", names(&packages)))
                .next("-p with the name of one of them")),
        };
    }
    default_binary(&packages, args)
}

/// The selected package, if it has a library and no program, and no other target was named.
pub(super) fn only_library<'m>(args: &TargetArgs, metadata: &'m Metadata) -> Option<&'m Package> {
    let is_named =
        args.bin.is_some() || args.example.is_some() || args.test.is_some() || args.bench.is_some();
    let packages = metadata.selected(args.package.as_deref());
    let [package] = packages[..] else { return None };
    let has = |kind: &str| package.targets_of(kind).next().is_some();
    let has_library = ["lib", "rlib", "dylib", "cdylib", "staticlib"].into_iter().any(has);
    (!is_named && !args.lib && has_library && !has("bin")).then_some(package)
}

/// The binary that `cargo run` would run.
fn default_binary(packages: &[&Package], args: &TargetArgs) -> Result<Choice> {
    let all = packages
        .iter()
        .flat_map(|package| package.targets_of("bin").map(|name| (*package, name)))
        .collect::<Vec<_>>();
    let default = packages
        .iter()
        .filter_map(|package| Some((*package, package.default_run.as_deref()?)))
        .collect::<Vec<_>>();
    match (all.as_slice(), default.as_slice()) {
        ([(package, name)], _) | (_, [(package, name)]) => {
            Ok(Choice { kind: Kind::Bin, name: (*name).to_owned(), package: Some(package.name.clone()) })
        }
        ([], _) => Err(no_binary(packages, args)),
        (several, _) => {
            let list = several.iter().map(|(_, name)| *name).collect::<Vec<_>>();
            Err(Failure::new(format!("there are several programs: {}", list.join(", ")))
                .next(format!("cargo whyslow --bin {}", list[0])))
        }
    }
}

fn no_binary(packages: &[&Package], args: &TargetArgs) -> Failure {
    if packages.is_empty() {
        let name = args.package.as_deref().unwrap_or_default();
        return Failure::new(format!("-p {name}: no such package in this workspace"))
            .next("-p with a name from `cargo metadata --no-deps`, or no -p");
    }
    let failure = Failure::new(format!("no program to run in {}", names(packages)));
    let others = ["example", "bench", "test"].into_iter().find_map(|kind| {
        packages
            .iter()
            .find_map(|package| package.targets_of(kind).next().map(|name| format!("--{kind} {name}")))
    });
    match others {
        Some(other) => failure.next(format!("cargo whyslow {other}")),
        None => failure.next("cargo whyslow --lib for the unit tests, or an example that uses the library"),
    }
}

fn names(packages: &[&Package]) -> String {
    packages.iter().map(|package| package.name.as_str()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workspace of packages, each with its targets as `kind:name`.
    fn workspace(packages: &[(&str, &[&str], Option<&str>)]) -> Metadata {
        let ids = packages.iter().map(|(name, ..)| *name).collect::<Vec<_>>();
        let packages = packages.iter().map(|(name, targets, default_run)| {
            let targets = targets.iter().filter_map(|target| target.split_once(':'));
            let targets = targets.map(|(kind, name)| serde_json::json!({"kind": [kind], "name": name}));
            serde_json::json!({
                "id": name, "name": name, "version": "1.0.0", "manifest_path": "/w/Cargo.toml",
                "targets": targets.collect::<Vec<_>>(), "default_run": default_run,
            })
        });
        let json = serde_json::json!({"packages": packages.collect::<Vec<_>>(), "workspace_members": ids});
        Metadata::parse(json.to_string().as_bytes()).unwrap()
    }

    fn chosen(metadata: &Metadata, args: TargetArgs) -> std::result::Result<String, String> {
        choose(&args, metadata)
            .map(|choice| choice.build_args().join(" "))
            .map_err(|failure| failure.to_string())
    }

    #[test]
    fn chooses_the_only_binary() {
        let metadata = workspace(&[("app", &["lib:app", "bin:app", "example:demo"], None)]);
        assert_eq!(chosen(&metadata, TargetArgs::default()).unwrap(), "build --bin app --package app");
    }

    #[test]
    fn respects_default_run() {
        let metadata = workspace(&[("app", &["bin:one", "bin:two"], Some("two"))]);
        assert_eq!(chosen(&metadata, TargetArgs::default()).unwrap(), "build --bin two --package app");
    }

    #[test]
    fn lists_several_binaries() {
        let metadata = workspace(&[("a", &["bin:one", "bin:two"], None), ("b", &["bin:three"], None)]);
        let failure = chosen(&metadata, TargetArgs::default()).unwrap_err();
        assert_eq!(failure, "there are several programs: one, two, three; try: cargo whyslow --bin one");
        let args = TargetArgs { package: Some("b".into()), ..TargetArgs::default() };
        assert_eq!(chosen(&metadata, args).unwrap(), "build --bin three --package b");
    }

    #[test]
    fn suggests_other_targets_for_a_library() {
        let metadata = workspace(&[("lib", &["lib:lib", "bench:fast"], None)]);
        let failure = chosen(&metadata, TargetArgs::default()).unwrap_err();
        assert!(failure.contains("cargo whyslow --bench fast"), "{failure}");
    }

    #[test]
    fn a_package_may_have_only_a_library() {
        let metadata =
            workspace(&[("lib", &["lib:lib", "bench:fast"], None), ("app", &["lib:app", "bin:app"], None)]);
        let only = |args: TargetArgs| only_library(&args, &metadata).map(|package| package.name.clone());
        let of = |package: &str| TargetArgs { package: Some(package.into()), ..TargetArgs::default() };
        assert_eq!(only(of("lib")), Some("lib".to_owned()));
        assert_eq!(only(of("app")), None, "it has a program");
        assert_eq!(only(TargetArgs::default()), None, "there are two packages");
        assert_eq!(only(TargetArgs { bench: Some("fast".into()), ..of("lib") }), None);
    }

    #[test]
    fn an_unknown_package_is_an_error() {
        let metadata = workspace(&[("lib", &["lib:lib"], None)]);
        let args = TargetArgs { package: Some("nope".into()), ..TargetArgs::default() };
        assert!(chosen(&metadata, args).unwrap_err().starts_with("-p nope: no such package"));
    }
}
