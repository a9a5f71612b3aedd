//! Builds packages of `lab/` that have dependencies, each with its own lock file.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::allocators::{Linking, Lto, build_allocator};
use crate::compile::{CompilerMissing, lab, lab_folder};

/// Builds `lab/runtimes` and returns the path of one of its programs. Cargo skips the build if it is up to
/// date.
pub fn build_runtime(program: &str) -> Result<PathBuf> {
    build_package("runtimes", program)
}

/// Builds every package of `lab/` in all ways that tests use, so that no test waits for the build of another.
pub fn build_packages() -> Result<()> {
    for lto in Lto::ALL {
        build_allocator("system", lto, Linking::Dynamic)?;
    }
    build_allocator("system", Lto::Fat, Linking::Static)?;
    build_runtime("tokio_tasks")?;
    build_package("patterns", "patterns").map(drop)
}

/// Builds `lab/patterns`. `None` without cargo.
pub fn build_patterns_or_skip() -> Option<PathBuf> {
    or_skip("patterns", build_package("patterns", "patterns"))
}

fn build_package(package: &str, program: &str) -> Result<PathBuf> {
    let folder = lab_folder().join(package);
    finish(cargo_build(package, "release", &folder)).with_context(|| format!("lab/{package}"))?;
    Ok(folder.join("release").join(program))
}

/// [`build_runtime`] for tests: [`skip`](crate::skip)s and returns `None` without cargo; panics on other
/// errors.
pub fn build_runtime_or_skip(program: &str) -> Option<PathBuf> {
    or_skip(program, build_runtime(program))
}

/// The built file. `None` if a compiler is missing, which is noted.
pub(crate) fn or_skip(name: &str, built: Result<PathBuf>) -> Option<PathBuf> {
    match built {
        Ok(path) => Some(path),
        Err(error) => match error.downcast_ref::<CompilerMissing>() {
            Some(missing) => {
                crate::skip(&missing.to_string());
                None
            }
            None => panic!("cannot build {name}: {error:#}"),
        },
    }
}

/// Builds all programs of a package.
pub(crate) fn cargo_build(package: &str, profile: &str, target: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo's variables describe the calling test, not these programs.
    for (name, _) in std::env::vars_os() {
        let is_about_caller = name.to_str().is_some_and(|name| {
            (name.starts_with("CARGO") && !matches!(name, "CARGO_HOME" | "CARGO_NET_OFFLINE"))
                || name.ends_with("RUSTFLAGS")
        });
        if is_about_caller {
            cargo.env_remove(name);
        }
    }
    cargo.current_dir(lab().join(package));
    cargo.args(["build", "--quiet", "--locked", "--bins", "--profile", profile, "--target-dir"]).arg(target);
    cargo
}

/// Waits for a build.
pub(crate) fn finish(mut cargo: Command) -> Result<()> {
    let output = match cargo.output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(CompilerMissing { compiler: "cargo".into() }.into());
        }
        other => other.context("cannot run cargo")?,
    };
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
