//! Runs other programs from the root of the checkout.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The root of the checkout.
pub(crate) fn root() -> &'static Path {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().unwrap_or(xtask)
}

/// The folder that cargo builds into.
pub(crate) fn target_folder() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// A command that starts at the root, without standard input.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root()).stdin(Stdio::null());
    command
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    let mut command = command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Cargo's variables describe this program, not the programs it builds.
    for (name, _) in std::env::vars_os() {
        let is_about_xtask =
            name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name == "CARGO_MANIFEST_DIR");
        if is_about_xtask {
            command.env_remove(name);
        }
    }
    command
}

/// The file of a command, if it is installed.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

/// Prints the command, runs it, and returns whether it succeeded.
pub(crate) fn succeeds(command: &mut Command) -> Result<bool> {
    eprintln!("$ {}", text(command));
    let status = command.status().with_context(|| format!("cannot run {}", text(command)))?;
    Ok(status.success())
}

/// [`succeeds`], for commands that run beside others: prints their output only if they fail, all of it at once.
pub(crate) fn succeeds_quietly(command: &mut Command) -> Result<bool> {
    eprintln!("$ {}", text(command));
    let output = command.output().with_context(|| format!("cannot run {}", text(command)))?;
    if !output.status.success() {
        let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
        eprint!("\n{} failed:\n{}", text(command), said.concat());
    }
    Ok(output.status.success())
}

/// Prints and runs a command that must succeed.
pub(crate) fn must(command: &mut Command) -> Result<()> {
    ensure!(succeeds(command)?, "{} failed", text(command));
    Ok(())
}

/// The standard output of a command that must succeed.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("cannot run {}", text(command)))?;
    ensure!(output.status.success(), "{} failed: {}", text(command), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A command as one would type it, with shortened paths inside the checkout.
pub(crate) fn text(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    let root = format!("{}/", root().display());
    words.map(|word| word.to_string_lossy().replace(&root, "")).collect::<Vec<_>>().join(" ")
}
