//! Real programs to record, and real data for them.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::{self, cargo, target_folder};

/// Installs a program from the package registry, built with debug info, and returns its executable.
pub(crate) fn install_with_debug_info(
    package: &str,
    program: &str,
    version: Option<&str>,
) -> Result<PathBuf> {
    let folder = match version {
        Some(version) => target_folder().join(format!("peers/{program}-{version}")),
        None => target_folder().join("peers").join(program),
    };
    let executable = folder.join("bin").join(program);
    if !executable.exists() {
        let mut install = cargo();
        install.args(["install", "--quiet", "--locked", package, "--root"]).arg(&folder);
        install.args(version.iter().flat_map(|version| ["--version", version]));
        install.arg("--target-dir").arg(target_folder().join("peers-build"));
        install.args(["--config", "profile.release.debug=1", "--config", "profile.release.strip='none'"]);
        process::must(&mut install)?;
    }
    Ok(executable)
}

/// The folder that holds the unpacked sources of the packages this project depends on.
pub(crate) fn dependency_sources() -> Result<OsString> {
    let rustc = process::output(process::command("rustc").arg("-vV"))?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--offline", "--filter-platform", host]);
    let metadata = process::output(&mut metadata)?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let manifest = packages.iter().find(|package| package["source"].is_string());
    let manifest = manifest.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|path| std::path::Path::new(path).ancestors().nth(2));
    Ok(folder.context("no dependency has sources")?.as_os_str().to_owned())
}
