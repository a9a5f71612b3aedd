//! The environment in which cargo would run an executable.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::build::{Build, Executable};
use super::metadata::Package;

/// The variables that `cargo run`, `cargo test` and `cargo bench` set.
pub(super) fn of(
    build: &Build,
    executable: &Executable,
    package: Option<&Package>,
) -> Vec<(OsString, OsString)> {
    let mut vars = BTreeMap::new();
    if let Some(package) = package {
        for (name, value) in package_variables(package) {
            vars.insert(name.to_owned(), OsString::from(value));
        }
        for binary in build.executables.iter().filter(|other| {
            other.package_id == executable.package_id && other.kinds.iter().any(|kind| kind == "bin")
        }) {
            vars.insert(format!("CARGO_BIN_EXE_{}", binary.name), binary.path.clone().into());
        }
    }
    if let Some(script) = build.scripts.iter().find(|script| script.package_id == executable.package_id) {
        vars.insert("OUT_DIR".to_owned(), script.out_dir.clone().into());
        vars.extend(script.env.iter().map(|(name, value)| (name.clone(), OsString::from(value))));
    }
    if let Ok(paths) = env::join_paths(library_path(build, executable)) {
        vars.insert("LD_LIBRARY_PATH".to_owned(), paths);
    }
    vars.into_iter().map(|(name, value)| (name.into(), value)).collect()
}

fn package_variables(package: &Package) -> Vec<(&'static str, String)> {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (numbers, pre) = package
        .version
        .split('+')
        .next()
        .unwrap_or_default()
        .split_once('-')
        .unwrap_or((package.version.split('+').next().unwrap_or_default(), ""));
    let mut numbers = numbers.split('.').map(str::to_owned);
    let mut number = || numbers.next().unwrap_or_default();
    vec![
        ("CARGO_MANIFEST_DIR", package.folder().unwrap_or(Path::new("")).to_string_lossy().into_owned()),
        ("CARGO_MANIFEST_PATH", package.manifest_path.to_string_lossy().into_owned()),
        ("CARGO_PKG_NAME", package.name.clone()),
        ("CARGO_PKG_VERSION", package.version.clone()),
        ("CARGO_PKG_VERSION_MAJOR", number()),
        ("CARGO_PKG_VERSION_MINOR", number()),
        ("CARGO_PKG_VERSION_PATCH", number()),
        ("CARGO_PKG_VERSION_PRE", pre.to_owned()),
        ("CARGO_PKG_AUTHORS", package.authors.join(":")),
        ("CARGO_PKG_DESCRIPTION", text(&package.description)),
        ("CARGO_PKG_HOMEPAGE", text(&package.homepage)),
        ("CARGO_PKG_REPOSITORY", text(&package.repository)),
        ("CARGO_PKG_LICENSE", text(&package.license)),
        ("CARGO_PKG_LICENSE_FILE", text(&package.license_file)),
        ("CARGO_PKG_README", text(&package.readme)),
        ("CARGO_PKG_RUST_VERSION", text(&package.rust_version)),
    ]
}

/// Folders for shared libraries: those of build scripts, of this build, of the toolchain, then the user's.
fn library_path(build: &Build, executable: &Executable) -> Vec<PathBuf> {
    let output = executable.path.parent().unwrap_or(Path::new("."));
    // Tests and benchmarks are in `deps`, examples in `examples`.
    let root = match output.file_name() {
        Some(name) if name == "deps" || name == "examples" => output.parent().unwrap_or(output),
        _ => output,
    };
    let of_scripts = build.scripts.iter().flat_map(|script| &script.linked_paths);
    let mut paths = of_scripts
        .map(|path| PathBuf::from(path.split_once('=').map_or(path.as_str(), |(_, path)| path)))
        .filter(|path| path.starts_with(root))
        .collect::<Vec<_>>();
    paths.extend([root.to_owned(), root.join("deps")]);
    paths.extend(toolchain_libraries());
    if let Some(inherited) = env::var_os("LD_LIBRARY_PATH") {
        paths.extend(env::split_paths(&inherited).filter(|path| !path.as_os_str().is_empty()));
    }
    paths
}

/// The folder of libstd.so, for programs that link to it.
fn toolchain_libraries() -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = whyslow_capture::restored_command(rustc).args(["--print", "target-libdir"]).output().ok()?;
    let folder = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    folder.is_dir().then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_the_version() {
        let package = Package { version: "1.2.3-rc.1+x".into(), ..Package::default() };
        let vars = package_variables(&package);
        let get =
            |name: &str| vars.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str()).unwrap();
        assert_eq!(get("CARGO_PKG_VERSION_MAJOR"), "1");
        assert_eq!(get("CARGO_PKG_VERSION_PATCH"), "3");
        assert_eq!(get("CARGO_PKG_VERSION_PRE"), "rc.1");
    }
}
