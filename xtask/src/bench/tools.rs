//! The compared tools as command lines, and how to install the peers.

use anyhow::Result;

use crate::process::{self, cargo, target_folder};
use crate::setup;

/// How one tool records a program and draws it. `OUT` is the run's folder, `TARGET` the program.
pub(super) struct Tool {
    pub(super) name: &'static str,
    /// The command that records.
    pub(super) record: &'static str,
    /// A shell command for the remaining steps to the result.
    pub(super) then: &'static str,
    /// The files that it keeps in the run's folder.
    pub(super) files: &'static [&'static str],
    /// The file that the user waits for.
    pub(super) result: &'static str,
    /// What whyslow's cache holds from earlier runs.
    pub(super) cache: Cache,
    /// Whether it fails at `perf_event_paranoid` 2, even if its user has all permissions.
    pub(super) wants_paranoid_1: bool,
}

/// What whyslow's symbol cache holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Cache {
    /// The program and everything else, as in the second recording of it.
    Warm,
    /// Only the kernel's symbols, as after a rebuild of the program (and, since the cache is by file, of all
    /// libraries).
    NewBinary,
    /// Nothing: the first recording ever on a machine.
    Empty,
}

pub(super) const PLAIN: &str = "plain";
pub(super) const WHYSLOW: &str = "whyslow";
pub(super) const WHYSLOW_COLD: &str = "whyslow, empty cache";
pub(super) const WHYSLOW_REBUILT: &str = "whyslow, new binary";
pub(super) const WHYSLOW_RECORD: &str = "whyslow, no picture";
pub(super) const PERF: &str = "perf + inferno";
pub(super) const SAMPLY: &str = "samply";
pub(super) const SAMPLY_SYMBOLS: &str = "samply, with symbols";
pub(super) const FLAMEGRAPH: &str = "cargo-flamegraph";

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: PLAIN,
        record: "TARGET",
        then: "",
        files: &[],
        result: "",
        cache: Cache::Empty,
        wants_paranoid_1: false,
    },
    Tool {
        name: WHYSLOW,
        record: "whyslow record -q -F 997 -o OUT/run.whyslow --flame OUT/flame.svg -- TARGET",
        then: "",
        files: &["run.whyslow"],
        result: "flame.svg",
        cache: Cache::Warm,
        wants_paranoid_1: false,
    },
    Tool {
        name: WHYSLOW_REBUILT,
        record: "whyslow record -q -F 997 -o OUT/run.whyslow --flame OUT/flame.svg -- TARGET",
        then: "",
        files: &["run.whyslow"],
        result: "flame.svg",
        cache: Cache::NewBinary,
        wants_paranoid_1: false,
    },
    Tool {
        name: WHYSLOW_COLD,
        record: "whyslow record -q -F 997 -o OUT/run.whyslow --flame OUT/flame.svg -- TARGET",
        then: "",
        files: &["run.whyslow"],
        result: "flame.svg",
        cache: Cache::Empty,
        wants_paranoid_1: false,
    },
    Tool {
        name: WHYSLOW_RECORD,
        record: "whyslow record -q -F 997 -o OUT/run.whyslow -- TARGET",
        then: "",
        files: &["run.whyslow"],
        result: "run.whyslow",
        cache: Cache::Warm,
        wants_paranoid_1: false,
    },
    Tool {
        name: PERF,
        record: "perf record -q -e cpu-clock -F 997 --call-graph dwarf -o OUT/perf.data -- TARGET",
        then: "perf script -i OUT/perf.data | inferno-collapse-perf | inferno-flamegraph > OUT/flame.svg",
        files: &["perf.data"],
        result: "flame.svg",
        cache: Cache::Empty,
        wants_paranoid_1: false,
    },
    Tool {
        name: SAMPLY,
        record: "samply record --save-only --rate 997 -o OUT/run.json.gz -- TARGET",
        then: "",
        files: &["run.json.gz"],
        result: "run.json.gz",
        cache: Cache::Empty,
        wants_paranoid_1: true,
    },
    Tool {
        name: SAMPLY_SYMBOLS,
        record: "samply record --save-only --unstable-presymbolicate --rate 997 -o OUT/run.json.gz -- TARGET",
        then: "",
        files: &["run.json.gz", "run.json.syms.json"],
        result: "run.json.gz",
        cache: Cache::Empty,
        wants_paranoid_1: true,
    },
    Tool {
        name: FLAMEGRAPH,
        record: "flamegraph -F 997 -o OUT/flame.svg -- TARGET",
        then: "",
        files: &["perf.data"],
        result: "flame.svg",
        cache: Cache::Empty,
        wants_paranoid_1: false,
    },
];

/// Builds whyslow and installs missing peers. Returns the search path for all of them.
pub(super) fn prepare() -> Result<std::ffi::OsString> {
    if !process::succeeds(cargo().args(["build", "--quiet", "--release", "--package", "whyslow"]))? {
        eprintln!("building whyslow failed: its rows will be missing");
    }
    if process::find("perf").is_none() && !setup::install("linux-perf") {
        eprintln!("perf is not installed: its rows will be missing");
    }
    let peers = target_folder().join("peers");
    for (package, command) in
        [("samply", "samply"), ("inferno", "inferno-collapse-perf"), ("flamegraph", "flamegraph")]
    {
        if !peers.join("bin").join(command).exists() {
            // Without --locked: the lock files of some releases name versions that have been yanked.
            let mut install = cargo();
            install.args(["install", "--quiet", package, "--root"]).arg(&peers);
            process::must(install.arg("--target-dir").arg(target_folder().join("peers-build")))?;
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = [target_folder().join("release"), peers.join("bin")].into_iter();
    Ok(std::env::join_paths(folders.chain(std::env::split_paths(&path)))?)
}

/// Builds whyslow, installs what one section needs, and returns the search path.
pub(super) fn prepare_only(tools: &[&str]) -> Result<std::ffi::OsString> {
    process::must(cargo().args(["build", "--quiet", "--release", "--package", "whyslow"]))?;
    for tool in tools {
        if process::find(tool).is_none() && !setup::install(tool) {
            eprintln!("{tool} is not installed: its rows will be missing");
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(target_folder().join("release"));
    Ok(std::env::join_paths(folders.chain(std::env::split_paths(&path)))?)
}

/// The versions of the compared programs, as each of them prints it.
pub(super) fn versions(path: &std::ffi::OsStr) -> Vec<String> {
    let said = |program: &str, arguments: &[&str]| {
        let output = process::command(program).args(arguments).env("PATH", path).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.lines().next()?.trim().to_owned())
    };
    let peers =
        process::output(cargo().args(["install", "--list", "--root"]).arg(target_folder().join("peers")));
    let peers = peers.unwrap_or_default();
    let inferno = peers.lines().find(|line| line.starts_with("inferno ")).map(|line| line.replace(':', ""));
    let commit = said("git", &["rev-parse", "--short", "HEAD"]).map(|commit| format!("commit {commit}"));
    [
        said("whyslow", &["--version"]),
        commit,
        said("perf", &["--version"]),
        said("samply", &["--version"]),
        said("flamegraph", &["--version"]),
        inferno,
        said("rustc", &["--version"]),
    ]
    .into_iter()
    .flatten()
    .collect()
}
