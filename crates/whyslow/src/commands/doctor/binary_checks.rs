//! Checks a binary, with what to change in its build.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use whyslow_elf::{DebugFolders, FileBytes};
use whyslow_unwind::UnwindTables;
use whyslow_words::number_of;

use super::binary::{Binary, DebugInfo, Kind, NotElf};
use super::checkup::{Check, Item};
use crate::failure::{Failure, Result};

/// From this share on, frame pointers are enough to unwind.
const ENOUGH: f64 = 0.6;

/// Checks a file.
pub(super) fn check(path: &Path) -> Result<Vec<Item>> {
    let name = path.display();
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Failure::new(format!("{name}: no such file"))
            .next("the path of a program, such as ./target/release/app"),
        _ => Failure::new(format!("{name}: cannot be read: {error}")),
    })?;
    if metadata.is_dir() {
        return Err(Failure::new(format!("{name}: this is a folder")).next("the path of a program in it"));
    }
    let bytes = match FileBytes::open(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Ok(vec![
                Item::problem(Check::File, "you may not read it")
                    .so("the kernel removes perf events from programs that the user may not read")
                    .fix(format!("chmod +r {name}, as its owner")),
            ]);
        }
        Err(error) => return Err(Failure::new(format!("{name}: cannot be read: {error}"))),
    };
    let folders = DebugFolders::usual();
    let path = &path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let binary = match Binary::parse(path, &bytes, &folders) {
        Ok(binary) => binary,
        Err(NotElf::Script(interpreter)) => {
            return Ok(vec![
                Item::loss(Check::File, format!("a script for {interpreter}"))
                    .so("profiles show the interpreter's functions, not the script's")
                    .fix("whyslow doctor PROGRAM, with the program that the script starts"),
            ]);
        }
        Err(NotElf::Other(why)) => {
            return Err(Failure::new(format!("{name}: not an ELF program or library: {why}"))
                .next("the path of a program, such as ./target/release/app"));
        }
    };
    Ok(judge(&binary, metadata.mode(), std::env::consts::ARCH))
}

fn judge(binary: &Binary, mode: u32, host: &str) -> Vec<Item> {
    vec![
        file(binary, mode, host),
        debug_info(binary),
        symbols(binary),
        optimisation(binary),
        unwinding(binary),
        frame_pointers(binary),
        build_id(binary),
    ]
}

fn file(binary: &Binary, mode: u32, host: &str) -> Item {
    const CHECK: Check = Check::File;
    let linked = if binary.is_static { "static" } else { "dynamic" };
    let language = if binary.is_rust { ", Rust" } else { "" };
    let found = match binary.kind {
        Kind::Program => format!("{} program, {linked}{language}", binary.arch),
        Kind::Library => format!("{} library{language}", binary.arch),
        Kind::Other => format!("{} object file or core dump", binary.arch),
    };
    if binary.arch != host {
        return Item::problem(CHECK, found)
            .so(format!("it does not run on this {host} machine"))
            .fix("a build for this machine");
    }
    if mode & 0o6000 != 0 && binary.kind == Kind::Program {
        return Item::problem(CHECK, format!("{found}, set-uid"))
            .so("the kernel removes perf events from programs that change their user")
            .fix("recording a copy: cp drops the set-uid bit");
    }
    if mode & 0o111 == 0 && binary.kind == Kind::Program {
        return Item::problem(CHECK, format!("{found}, not executable"))
            .so("it cannot be started")
            .fix("chmod +x");
    }
    match binary.kind {
        Kind::Other => Item::note(CHECK, found).so("it cannot be run"),
        Kind::Program | Kind::Library => Item::ok(CHECK, found),
    }
}

fn debug_info(binary: &Binary) -> Item {
    const CHECK: Check = Check::DebugInfo;
    let fix = if binary.is_rust {
        "cargo whyslow, or CARGO_PROFILE_RELEASE_DEBUG=1 CARGO_PROFILE_RELEASE_STRIP=none cargo build --release"
    } else {
        "compile with -g"
    };
    let lost = "no source lines; inlined functions count as part of their callers";
    match &binary.debug {
        DebugInfo::Lines => Item::ok(CHECK, "lines and inlined functions"),
        DebugInfo::Split => Item::ok(CHECK, "in .dwo or .dwp files: keep them where the build put them"),
        DebugInfo::Separate(file) => {
            Item::ok(CHECK, format!("lines and inlined functions, in {}", file.display()))
        }
        DebugInfo::Link(file) => Item::loss(CHECK, format!("in another file, {file}, which is missing"))
            .so(lost)
            .fix(
                "install its debug package (-dbgsym, -debuginfo), or put the file next to the program or into .debug there",
            ),
        DebugInfo::OnlyStd => Item::loss(CHECK, "only of the standard library").so(lost).fix(fix),
        DebugInfo::None => Item::loss(CHECK, "none").so(lost).fix(fix),
    }
}

fn symbols(binary: &Binary) -> Item {
    const CHECK: Check = Check::Symbols;
    let fix = if binary.is_rust {
        "strip = \"none\" in the profile, or cargo whyslow"
    } else {
        "link without -s, and do not strip"
    };
    match binary.symbols {
        (0, 0) => Item::loss(CHECK, "none").so("functions appear as addresses").fix(fix),
        (0, dynamic) => Item::loss(CHECK, format!("only {dynamic} dynamic ones"))
            .so("most functions appear as addresses")
            .fix(fix),
        (all, _) => Item::ok(CHECK, number_of(all as u64, "symbol", "symbols")),
    }
}

fn optimisation(binary: &Binary) -> Item {
    const CHECK: Check = Check::Optimisation;
    match binary.optimised {
        Some(true) => Item::ok(CHECK, "yes"),
        Some(false) => Item::loss(CHECK, "none: a debug build")
            .so("its profile differs from that of the program you ship")
            .fix(if binary.is_rust { "cargo build --release, or cargo whyslow" } else { "compile with -O2" }),
        None => Item::ok(CHECK, "not known: the file does not say"),
    }
}

fn unwinding(binary: &Binary) -> Item {
    const CHECK: Check = Check::UnwindTables;
    match binary.tables {
        UnwindTables { index: true, .. } => Item::ok(CHECK, ".eh_frame with index"),
        UnwindTables { eh_frame: true, .. } => Item::ok(CHECK, ".eh_frame"),
        UnwindTables { debug_frame: true, .. } => Item::ok(CHECK, ".debug_frame"),
        _ => Item::loss(CHECK, "none")
            .so("stacks are complete only where the code keeps frame pointers")
            .fix(if binary.is_rust {
                "RUSTFLAGS=\"-C force-unwind-tables=yes\""
            } else {
                "compile with -fasynchronous-unwind-tables"
            }),
    }
}

fn frame_pointers(binary: &Binary) -> Item {
    const CHECK: Check = Check::FramePointers;
    let tables = binary.tables != UnwindTables::default();
    match binary.frame_pointers {
        None => Item::ok(CHECK, "not known: there are no symbols to check"),
        Some(share) if share >= ENOUGH => Item::ok(CHECK, format!("in {:.0} % of functions", share * 100.0)),
        Some(share) if tables => {
            Item::ok(CHECK, format!("in {:.0} % of functions; not needed with unwind tables", share * 100.0))
        }
        Some(share) => Item::loss(CHECK, format!("in {:.0} % of functions", share * 100.0))
            .so("without unwind tables, stacks are truncated")
            .fix(if binary.is_rust {
                "RUSTFLAGS=\"-C force-frame-pointers=yes\""
            } else {
                "compile with -fno-omit-frame-pointer"
            }),
    }
}

fn build_id(binary: &Binary) -> Item {
    const CHECK: Check = Check::BuildId;
    match &binary.build_id {
        Some(id) => Item::ok(CHECK, id.clone()),
        None => Item::loss(CHECK, "none")
            .so("symbols are not cached between runs, and separate debug info is not found by id")
            .fix(if binary.is_rust {
                "RUSTFLAGS=\"-C link-arg=-Wl,--build-id\""
            } else {
                "link with -Wl,--build-id"
            }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_words::Severity;

    fn good() -> Binary {
        Binary {
            arch: "x86_64".into(),
            is_rust: true,
            debug: DebugInfo::Lines,
            symbols: (1000, 10),
            tables: UnwindTables { eh_frame: true, index: true, debug_frame: false },
            build_id: Some("ab12".into()),
            optimised: Some(true),
            frame_pointers: Some(0.1),
            ..Binary::default()
        }
    }

    fn states(binary: &Binary, mode: u32) -> Vec<(Check, Severity)> {
        let items = judge(binary, mode, "x86_64");
        items
            .into_iter()
            .filter(|item| item.severity != Severity::Fine)
            .map(|item| (item.check, item.severity))
            .collect()
    }

    #[test]
    fn a_good_build_has_no_remarks() {
        assert_eq!(states(&good(), 0o755), []);
    }

    #[test]
    fn reports_each_missing_part() {
        let stripped = Binary { debug: DebugInfo::None, symbols: (0, 10), frame_pointers: None, ..good() };
        assert_eq!(
            states(&stripped, 0o755),
            [(Check::DebugInfo, Severity::Warning), (Check::Symbols, Severity::Warning)]
        );
        let debug = Binary { optimised: Some(false), ..good() };
        assert_eq!(states(&debug, 0o755), [(Check::Optimisation, Severity::Warning)]);
        let bare = Binary { tables: UnwindTables::default(), build_id: None, ..good() };
        assert_eq!(
            states(&bare, 0o755),
            [
                (Check::UnwindTables, Severity::Warning),
                (Check::FramePointers, Severity::Warning),
                (Check::BuildId, Severity::Warning)
            ]
        );
    }

    #[test]
    fn reports_files_that_cannot_be_recorded_as_problems() {
        assert_eq!(states(&good(), 0o4755), [(Check::File, Severity::Serious)]);
        assert_eq!(states(&good(), 0o644), [(Check::File, Severity::Serious)]);
        assert_eq!(
            states(&Binary { arch: "aarch64".into(), ..good() }, 0o755),
            [(Check::File, Severity::Serious)]
        );
    }
}
