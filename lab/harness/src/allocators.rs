//! Builds the programs of `lab/allocators`, which have their allocator linked in, into
//! `<target>/lab/allocators`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::compile::lab_folder;
use crate::packages::{cargo_build, finish, or_skip};

/// The kind of link-time optimisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lto {
    /// None, not even between the parts of one crate.
    Off,
    /// All crates, in parallel.
    Thin,
    /// All crates as one.
    Fat,
}

impl Lto {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::Thin, Self::Fat];

    fn profile(self) -> &'static str {
        match self {
            Self::Off => "lto-off",
            Self::Thin => "lto-thin",
            Self::Fat => "lto-fat",
        }
    }
}

/// How the program is linked with the C library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Linking {
    /// Dynamically.
    Dynamic,
    /// Statically.
    Static,
}

/// Builds `lab/allocators` and returns the path of the program for an allocator: `jemalloc`, `mimalloc`,
/// `bump` or `system`. Cargo skips the build if it is up to date.
pub fn build_allocator(allocator: &str, lto: Lto, linking: Linking) -> Result<PathBuf> {
    let folder = lab_folder().join("allocators");
    // jemalloc takes a minute or more to build, so it is built only once.
    let first = (Lto::Off, Linking::Dynamic);
    if (lto, linking) != first && jemalloc(&folder).is_none() {
        build(&folder, first.0, first.1)?;
    }
    build(&folder, lto, linking)?;
    Ok(built(&folder, lto, linking).join(allocator))
}

/// [`build_allocator`] for tests: [`skip`](crate::skip)s and returns `None` without cargo; panics on other
/// errors.
pub fn build_allocator_or_skip(allocator: &str, lto: Lto, linking: Linking) -> Option<PathBuf> {
    or_skip(allocator, build_allocator(allocator, lto, linking))
}

/// Where cargo puts the programs.
fn built(folder: &Path, lto: Lto, linking: Linking) -> PathBuf {
    match linking {
        Linking::Dynamic => folder.join(lto.profile()),
        Linking::Static => folder.join(TARGET).join(lto.profile()),
    }
}

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The jemalloc archive from the first build.
fn jemalloc(folder: &Path) -> Option<PathBuf> {
    let builds = built(folder, Lto::Off, Linking::Dynamic).join("build");
    let entries = std::fs::read_dir(builds).ok()?.filter_map(Result::ok);
    let archives = entries.map(|entry| entry.path().join("out/lib/libjemalloc_pic.a"));
    archives.into_iter().find(|archive| archive.exists())
}

fn build(folder: &Path, lto: Lto, linking: Linking) -> Result<()> {
    let mut cargo = cargo_build("allocators", lto.profile(), folder);
    if linking == Linking::Static {
        cargo.args(["--target", TARGET]).env("RUSTFLAGS", "-C target-feature=+crt-static");
    }
    if (lto, linking) != (Lto::Off, Linking::Dynamic)
        && let Some(archive) = jemalloc(folder)
    {
        cargo.env("JEMALLOC_OVERRIDE", archive);
    }
    finish(cargo).with_context(|| format!("lab/allocators, {}, {linking:?}", lto.profile()))
}
