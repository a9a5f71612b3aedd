//! Installs what the tests need besides Rust, if this user may, and reports what is missing.

use std::sync::OnceLock;

use anyhow::Result;

use crate::process;

/// A program that some tests need: its command, or the path of a library; its Debian packages; what does not
/// work without it.
pub(crate) struct Tool {
    pub(crate) command: &'static str,
    package: &'static str,
    pub(crate) without_it: &'static str,
}

const TOOLS: &[Tool] = &[
    Tool { command: "cc", package: "gcc libc6-dev", without_it: "programs cannot be linked" },
    Tool { command: "g++", package: "g++", without_it: "tests of C++ programs are skipped" },
    Tool { command: "go", package: "golang-go", without_it: "tests of Go programs are skipped" },
    Tool { command: "perf", package: "linux-perf", without_it: "reports are not compared with perf's" },
    Tool { command: "strace", package: "strace", without_it: "traced programs are not recorded" },
    Tool { command: "bwrap", package: "bubblewrap", without_it: "programs in another root are not recorded" },
    Tool {
        command: "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2",
        package: "libjemalloc2",
        without_it: "it is not tested as a preloaded allocator",
    },
    Tool {
        command: "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2",
        package: "libmimalloc2.0",
        without_it: "it is not tested as a preloaded allocator",
    },
    Tool {
        command: "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
        package: "libtcmalloc-minimal4",
        without_it: "it is not tested as a preloaded allocator",
    },
    Tool {
        command: "objcopy",
        package: "binutils",
        without_it: "tests of stripped and split files are skipped",
    },
    Tool {
        command: "valgrind",
        package: "valgrind",
        without_it: "`whyslow cache` and `whyslow memcheck` are not tested, leaks are not compared with memcheck",
    },
    Tool { command: "llvm-mca", package: "llvm", without_it: "`asm --mca` is tested only without it" },
    Tool { command: "script", package: "bsdutils", without_it: "prompts at a terminal are not tested" },
    Tool { command: "musl-gcc", package: "musl-tools", without_it: "tests of musl programs are skipped" },
    Tool {
        command: "heaptrack_print",
        package: "heaptrack",
        without_it: "exports to heaptrack's format are not read back",
    },
    Tool { command: "chromium", package: "chromium", without_it: "browser tests are skipped" },
    Tool { command: "firefox-esr", package: "firefox-esr", without_it: "browser tests run only in Chromium" },
    Tool { command: "node", package: "nodejs", without_it: "browser tests are skipped" },
    Tool { command: "npm", package: "npm", without_it: "browser tests are skipped" },
];

/// `cargo xtask setup`
pub(crate) fn run() -> Result<bool> {
    for tool in install_missing() {
        println!("missing: {} ({})", tool.command, tool.without_it);
    }
    println!("setup is done; next: cargo xtask test");
    Ok(true)
}

/// Installs missing tools, and returns those that are still missing.
pub(crate) fn install_missing() -> Vec<&'static Tool> {
    let missing = |tools: &mut dyn Iterator<Item = &'static Tool>| {
        tools.filter(|tool| process::find(tool.command).is_none()).collect::<Vec<_>>()
    };
    mount_tracefs();
    let before = missing(&mut TOOLS.iter());
    if before.is_empty() {
        return before;
    }
    let packages = before.iter().flat_map(|tool| tool.package.split(' ')).collect::<Vec<_>>();
    if !may_install() {
        eprintln!(
            "not installed: {}. To install them, run as root on Debian: apt-get install {}",
            names(&before),
            packages.join(" ")
        );
        return before;
    }
    // One by one, so that an unavailable package does not prevent the others.
    for package in packages {
        install(package);
    }
    missing(&mut before.into_iter())
}

/// Mounts tracefs, where the kernel publishes its tracepoints. Most systems do that at boot. If it cannot be
/// mounted, tests note what they skip.
fn mount_tracefs() {
    const FOLDER: &str = "/sys/kernel/tracing";
    let is_missing = std::fs::read_dir(FOLDER).is_ok_and(|mut entries| entries.next().is_none());
    if is_root() && is_missing {
        let mut mount = process::command("mount");
        mount.args(["-t", "tracefs", "tracefs", FOLDER]);
        let _ = process::succeeds(&mut mount);
    }
}

fn names(tools: &[&Tool]) -> String {
    tools.iter().map(|tool| tool.command).collect::<Vec<_>>().join(", ")
}

/// Root on a system with apt.
fn may_install() -> bool {
    is_root() && process::find("apt-get").is_some()
}

/// The owner of `/proc/self` is the user of this process.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// Installs a Debian package if this user may. Returns whether that succeeded.
pub(crate) fn install(package: &str) -> bool {
    static LISTS_ARE_FRESH: OnceLock<bool> = OnceLock::new();
    if !may_install() {
        return false;
    }
    let apt = |arguments: &[&str]| {
        let mut apt = process::command("apt-get");
        apt.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(std::process::Stdio::null());
        process::succeeds(&mut apt).unwrap_or(false)
    };
    LISTS_ARE_FRESH.get_or_init(|| apt(&["update", "-qq"]));
    apt(&["install", "-qq", "-y", "--no-install-recommends", package])
}
