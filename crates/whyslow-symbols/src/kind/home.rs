//! Finds the own source of programs that were installed from a registry, where all of it looks like
//! dependencies.

use std::fs;
use std::path::Path;

use super::names::{crate_of_name, same_family};
use super::paths::{Package, package_of_path, program_name};

/// The program's own packages.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    /// Folders of packages with functions of the program's own crate.
    folders: Vec<String>,
    /// Names of these packages.
    packages: Vec<String>,
    /// The repositories in their manifests.
    repositories: Vec<String>,
}

impl Home {
    /// Finds the packages by the functions of a program: the file that defines `main`, and those of the crate
    /// with the program's name. Only their manifests are read.
    pub(crate) fn of<'a>(
        module_path: &str,
        functions: impl Iterator<Item = (&'a str, &'a str)>,
        manifest: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let program = program_name(module_path);
        let mut home = Self::default();
        for (name, file) in functions {
            let is_main = name.strip_suffix("::main").is_some_and(|own| !own.contains("::"));
            if !is_main && crate_of_name(name) != Some(&program) {
                continue;
            }
            let Some(Package { folder, name }) = package_of_path(file) else { continue };
            if !home.folders.iter().any(|known| known == folder) {
                home.folders.push(folder.to_owned());
                home.packages.push(name);
                home.repositories.extend(manifest(folder).as_deref().and_then(repository));
            }
        }
        home
    }

    /// Whether a source file belongs to the program's own packages, or to others of their repository.
    pub(crate) fn owns(&self, file: &str, manifest: impl Fn(&str) -> Option<String>) -> bool {
        if self.folders.is_empty() {
            return false;
        }
        let Some(Package { folder, name }) = package_of_path(file) else { return false };
        if self.folders.iter().any(|known| known == folder) {
            return true;
        }
        match manifest(folder).as_deref().and_then(repository) {
            Some(its) if !self.repositories.is_empty() => self.repositories.contains(&its),
            // Without manifests, compare the names.
            _ => self.packages.iter().any(|package| same_family(&name, package)),
        }
    }
}

/// The manifest of a package on this machine.
pub(crate) fn manifest(folder: &str) -> Option<String> {
    fs::read_to_string(Path::new(folder).join("Cargo.toml")).ok()
}

/// The repository in a manifest, without the part that differs between its packages: `github.com/me/app` of
/// `repository = "https://github.com/me/app/tree/main/crates/core"`.
fn repository(manifest: &str) -> Option<String> {
    let value =
        manifest.lines().find_map(|line| line.trim().strip_prefix("repository")?.trim().strip_prefix('='))?;
    let url = value.trim().trim_matches(['"', '\'']);
    let (_, path) = url.split_once("://")?;
    let path = path.split(['#', '?']).next().unwrap_or(path);
    let inside = ["/tree/", "/blob/", "/src/", "/-/"].iter().filter_map(|folder| path.find(folder)).min();
    let path = &path[..inside.unwrap_or(path.len())];
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!path.is_empty()).then(|| path.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REGISTRY: &str = "/home/me/.cargo/registry/src/index-0123456789abcdef";

    fn manifest(folder: &str) -> Option<String> {
        let package = folder.rsplit('/').next()?;
        let url = match package {
            "typos-cli-1.0.0" | "typos-0.10.0" | "varcon-1.0.0" => "https://github.com/crate-ci/typos.git",
            "grep-searcher-0.1.0" => "https://github.com/crate-ci/typos/tree/master/crates/searcher",
            "winnow-0.7.0" | "typos-like-1.0.0" => "https://github.com/winnow-rs/winnow",
            _ => return None,
        };
        Some(format!("[package]\nname = \"x\"\nrepository = \"{url}\"\n"))
    }

    #[test]
    fn packages_of_the_programs_repository_are_its_own() {
        let main = format!("{REGISTRY}/typos-cli-1.0.0/src/bin/typos-cli/main.rs");
        let home =
            Home::of("/home/me/.cargo/bin/typos", [("typos::main", main.as_str())].into_iter(), manifest);
        for (package, own) in [
            ("typos-cli-1.0.0", true),
            ("typos-0.10.0", true),
            ("varcon-1.0.0", true),
            ("grep-searcher-0.1.0", true),
            ("winnow-0.7.0", false),
            ("typos-like-1.0.0", false),
            ("typos-unread-1.0.0", true),
            ("serde-1.0.0", false),
        ] {
            assert_eq!(home.owns(&format!("{REGISTRY}/{package}/src/lib.rs"), manifest), own, "{package}");
        }
        assert!(!home.owns("/rustc/0/library/core/src/lib.rs", manifest));
    }

    #[test]
    fn a_program_built_next_to_its_source_has_no_package() {
        let home = Home::of("/x/app", [("app::main", "/home/me/app/src/main.rs")].into_iter(), manifest);
        assert_eq!(home, Home::default());
        assert!(!home.owns(&format!("{REGISTRY}/app-core-1.0.0/src/lib.rs"), manifest));
    }

    #[test]
    fn one_checkout_of_a_repository_is_one_package() {
        let main = "/home/me/.cargo/git/checkouts/app-0123456789abcdef/89abcde/cli/src/main.rs";
        let home = Home::of("/x/tool", [("tool::main", main)].into_iter(), manifest);
        assert!(
            home.owns("/home/me/.cargo/git/checkouts/app-0123456789abcdef/89abcde/core/src/lib.rs", manifest)
        );
        assert!(
            !home.owns("/home/me/.cargo/git/checkouts/other-0123456789abcdef/89abcde/src/lib.rs", manifest)
        );
    }

    #[test]
    fn repositories_are_compared_without_folders() {
        let found = |url: &str| repository(&format!("repository = \"{url}\""));
        let app = Some("github.com/me/app".to_owned());
        for url in [
            "https://github.com/me/app",
            "https://github.com/Me/App.git",
            "http://github.com/me/app/",
            "https://github.com/me/app/tree/main/crates/core",
            "https://github.com/me/app#readme",
        ] {
            assert_eq!(found(url), app, "{url}");
        }
        assert_eq!(found("https://gitlab.com/a/b/c/-/tree/x"), Some("gitlab.com/a/b/c".to_owned()));
        assert_eq!(found(""), None);
        assert_eq!(repository("name = \"x\""), None);
    }
}
