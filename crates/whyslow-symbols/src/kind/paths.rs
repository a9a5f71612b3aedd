//! Facts from the path of a source file, a program or a library.

use whyslow_processor::Processor;
use whyslow_profile::CodeKind;

/// Whether a source path belongs to the standard library.
pub(crate) fn is_std_path(path: &str) -> bool {
    std_crate_of_path(path).is_some()
}

pub(super) fn std_crate_of_path(path: &str) -> Option<String> {
    let inside = if let Some(at) = path.find("/rustlib/src/rust/") {
        &path[at + "/rustlib/src/rust/".len()..]
    } else if let Some(rest) = path.strip_prefix("/rustc/") {
        rest.split_once('/').map_or("", |(_, rest)| rest)
    } else if let Some(rest) = path.strip_prefix("/rust/deps/") {
        return Some(rust_name(without_version(rest.split('/').next()?)));
    } else if path.starts_with("library/std/")
        || path.starts_with("library/core/")
        || path.starts_with("library/alloc/")
    {
        path
    } else {
        return None;
    };
    let Some(library) = inside.strip_prefix("library/") else { return Some("std".to_owned()) };
    let folder = library.split('/').next().unwrap_or(library);
    Some(match folder {
        "stdarch" | "portable-simd" => "core".to_owned(),
        folder => rust_name(folder),
    })
}

/// Headers with code that the compiler puts into the user's program: templates of the C++ standard library
/// and libc's inline functions.
pub(super) fn header_of_path(path: &str) -> Option<(CodeKind, &'static str)> {
    if path.contains("/c++/v1/") {
        return Some((CodeKind::Std, "libc++"));
    }
    // Their folder ends with the compiler's version: `c++/12/`, `c++/4.8.5/`.
    let version = path.split_once("/c++/").map_or("", |(_, rest)| rest);
    if version.starts_with(|digit: char| digit.is_ascii_digit()) {
        return Some((CodeKind::Std, "libstdc++"));
    }
    let inside = path.strip_prefix("/usr/include/")?;
    (inside.starts_with("bits/") || inside.contains("/bits/")).then_some((CodeKind::Runtime, "libc"))
}

/// The library of another installed header: `eigen3` of `/usr/include/eigen3/Eigen/src/Core/Product.h`.
pub(super) fn installed_header_of_path(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("/usr/include/").or_else(|| path.strip_prefix("/usr/local/include/"))?;
    let mut parts = inside.split('/');
    let first = parts.next()?;
    let of_processor = Processor::ALL.iter().any(|processor| processor.library_folder() == first);
    let first = if of_processor { parts.next()? } else { first };
    Some(first.split('.').next().unwrap_or(first))
}

/// A package with fetched source: its folder, and its crate name.
pub(super) struct Package<'a> {
    pub(super) folder: &'a str,
    pub(super) name: String,
}

/// The package of a file in cargo's registry, a git checkout, Debian's registry, or a vendor folder.
pub(super) fn package_of_path(path: &str) -> Option<Package<'_>> {
    // The folder ends after this many parts of the rest.
    let package = |rest: &str, parts: usize| {
        let length = rest.match_indices('/').nth(parts - 1).map(|(at, _)| at)?;
        let folder = &path[..path.len() - rest.len() + length];
        let name = rest[..length].rsplit('/').next().unwrap_or_default();
        Some(Package { folder, name: rust_name(without_version(name)) })
    };
    if let Some((_, rest)) = path.split_once("/registry/src/") {
        return package(rest, 2);
    }
    if let Some((_, rest)) = path.split_once("/git/checkouts/") {
        let Package { folder, .. } = package(rest, 2)?;
        return Some(Package { folder, name: checked_out(rest)? });
    }
    if let Some((_, rest)) = path.split_once("/usr/share/cargo/registry/") {
        return package(rest, 1);
    }
    let rest = match path.split_once("/vendor/") {
        Some((_, rest)) => rest,
        None => path.strip_prefix("vendor/")?,
    };
    package(rest, 1)
}

/// The crate of a path below the folder of git checkouts.
fn checked_out(rest: &str) -> Option<String> {
    let mut parts = rest.split('/');
    let repository = parts.next()?;
    let _revision = parts.next()?;
    // In a repository with several crates, the folder that holds `src` is the crate.
    let folders: Vec<&str> = parts.take_while(|&part| part != "src").collect();
    let is_file = folders.last().is_some_and(|last| last.contains('.'));
    Some(match folders.last() {
        Some(folder) if !is_file => rust_name(folder),
        _ => rust_name(repository.rsplit_once('-').map_or(repository, |(name, _)| name)),
    })
}

pub(super) fn dependency_of_path(path: &str) -> Option<String> {
    package_of_path(path).map(|package| package.name)
}

/// `app` of `/x/target/debug/deps/app-0123456789abcdef`, `my_app` of `/x/my-app`.
pub(super) fn program_name(path: &str) -> String {
    let file = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = file.rsplit('/').next().unwrap_or(file);
    let stem = match file.rsplit_once('-') {
        Some((stem, hash)) if hash.len() == 16 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()) => stem,
        _ => file,
    };
    rust_name(stem)
}

/// `libc` of `/lib/x86_64-linux-gnu/libc.so.6`, `ld-linux-x86-64` of the loader.
pub(super) fn library_name(path: &str) -> &str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = path.rsplit('/').next().unwrap_or(path);
    file.find(".so").map_or(file, |at| &file[..at])
}

pub(super) fn is_runtime_library(library: &str) -> bool {
    // Old glibc files carry their version in the name: libc-2.31.so.
    let name = without_version(library);
    matches!(
        name,
        "libc"
            | "libm"
            | "libpthread"
            | "libdl"
            | "librt"
            | "libgcc_s"
            | "ld"
            | "libresolv"
            | "libanl"
            | "libutil"
    ) || name.starts_with("ld-linux")
        || name.starts_with("ld-musl")
}

/// The name of the interpreter or virtual machine that a program or library is: what runs in it is the user's, the
/// file is not. `python` of `/usr/bin/python3.11` and `libpython3.11.so.1.0`.
pub(super) fn interpreter(path: &str) -> Option<&'static str> {
    const NAMES: [&str; 17] = [
        "python", "ruby", "php", "perl", "luajit", "lua", "node", "nodejs", "java", "jvm", "jli", "julia",
        "coreclr", "clrjit", "dotnet", "guile", "beam",
    ];
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let file = path.rsplit('/').next().unwrap_or(path);
    let file = file.strip_prefix("lib").filter(|_| file.contains(".so")).unwrap_or(file);
    let is = |name: &&str| {
        let rest = file.strip_prefix(*name).map(|rest| rest.strip_prefix('-').unwrap_or(rest));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(|c: char| c == '.' || c.is_ascii_digit()))
    };
    NAMES.iter().copied().find(is)
}

pub(super) fn is_system_path(path: &str) -> bool {
    ["/lib/", "/lib64/", "/lib32/", "/usr/", "/nix/store/", "/opt/"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

/// `NAME` of `NAME-1.2.3` or `NAME-1.2.3-beta.1`; the whole text without a version.
fn without_version(package: &str) -> &str {
    let is_version = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        digits > 0 && text.as_bytes().get(digits) == Some(&b'.')
    };
    package
        .match_indices('-')
        .find(|&(at, _)| is_version(&package[at + 1..]))
        .map_or(package, |(at, _)| &package[..at])
}

fn rust_name(package: &str) -> String {
    package.replace('-', "_")
}
