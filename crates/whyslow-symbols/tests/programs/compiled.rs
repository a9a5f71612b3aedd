//! Compiles programs with many flavours of debug info, which must all give the same answers.

use std::path::Path;

use object::{Object as _, ObjectSection as _};

use crate::common::{
    addresses_of, build_id, frames, has_chain, options, profile, run, rust_program, spread, with_folders,
};
use whyslow_elf::ElfFile;
use whyslow_profile::{CodeKind, Optimised, Profile, SymbolState};
use whyslow_symbols::{DebugFolders, Options, Wanted, inlined_functions, symbolize};

#[track_caller]
fn chain_of(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), flags) else { return };
    has_chain_of(&program, &format!("{flags:?}"));
}

#[track_caller]
fn has_chain_of(program: &Path, what: &str) {
    let mut profile = profile(program, None, &addresses_of(program, "5outer"));
    let summary = symbolize(&mut profile, &options());
    assert!(has_chain(&profile), "{what} {summary:?}\n{:#?}", frames(&profile));
    assert_eq!(summary.unresolved, 0);
    assert_eq!(profile.modules[0].symbols, SymbolState::Lines);
}

#[track_caller]
fn assert_inlined_functions_are_found(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), flags) else { return };
    let file = ElfFile::open(&program).unwrap();
    let inlined = |wanted: &str| inlined_functions(&file, None, &Wanted::new(wanted));
    for name in ["app::inner", "APP::INN", "inner"] {
        let found = inlined(name);
        let inner = found.iter().find(|function| function.name == "app::inner");
        let hosts: Vec<&str> = inner
            .unwrap_or_else(|| panic!("{flags:?} {name}: {found:?}"))
            .hosts
            .iter()
            .map(|host| &*host.0)
            .collect();
        assert_eq!(hosts, ["app::outer"], "{flags:?}");
    }
    let place = inlined("app::middle")[0].hosts[0].1.clone();
    assert!(place.is_none_or(|(file, line)| file.ends_with("app.rs") && line == 3), "{flags:?}");
    assert_eq!((inlined("app::outer"), inlined("no_such_function"), inlined("")), (vec![], vec![], vec![]));
}

#[test]
fn inlined_functions_are_found_in_their_callers() {
    assert_inlined_functions_are_found(&["-O", "-g"]);
    assert_inlined_functions_are_found(&["-O", "-Cdebuginfo=1", "-Csymbol-mangling-version=v0"]);
    assert_inlined_functions_are_found(&["-O", "-g", "-Cdwarf-version=5", "-Csplit-debuginfo=unpacked"]);
}

#[test]
fn inlined_calls_with_dwarf_4() {
    chain_of(&["-O", "-g", "-Cdwarf-version=4"]);
}

#[test]
fn inlined_calls_with_dwarf_5() {
    chain_of(&["-O", "-g", "-Cdwarf-version=5"]);
}

#[test]
fn inlined_calls_with_limited_debug_info() {
    chain_of(&["-O", "-Cdebuginfo=1"]);
    chain_of(&["-O", "-Cdebuginfo=line-tables-only"]);
}

#[test]
fn inlined_calls_with_v0_names() {
    chain_of(&["-O", "-g", "-Csymbol-mangling-version=v0"]);
}

#[test]
fn a_program_at_a_fixed_address() {
    chain_of(&["-O", "-g", "-Crelocation-model=static", "-Ctarget-feature=+crt-static"]);
}

#[test]
fn split_units_next_to_the_objects() {
    chain_of(&["-O", "-g", "-Csplit-debuginfo=unpacked"]);
    chain_of(&["-O", "-g", "-Csplit-debuginfo=unpacked", "-Cdwarf-version=5"]);
}

#[test]
fn split_units_in_a_package() {
    chain_of(&["-O", "-g", "-Csplit-debuginfo=packed"]);
    chain_of(&["-O", "-g", "-Csplit-debuginfo=packed", "-Cdwarf-version=5"]);
}

#[test]
fn copies_of_deleted_programs() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-g"]) else { return };
    let id = build_id(&program);
    let addresses = addresses_of(&program, "5outer");
    let copies = folder.path().join("copies");
    let whole_path = copies.join(program.strip_prefix("/").unwrap());
    for copy in [whole_path, copies.join("app")] {
        std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
        let mut deleted = profile(&program, Some(&id), &addresses);
        std::fs::rename(&program, &copy).unwrap();
        let found =
            |profile: &Profile| Options { files: whyslow_symbols::copies(profile, &copies), ..options() };
        let options = found(&deleted);
        let summary = symbolize(&mut deleted, &options);
        assert!(has_chain(&deleted), "{} {summary:?}", copy.display());
        let mut other = profile(&program, Some("0123456789abcdef0123456789abcdef01234567"), &addresses);
        let options = found(&other);
        symbolize(&mut other, &options);
        assert_eq!(other.modules[0].symbols, SymbolState::Missing, "another build is no copy");
        std::fs::rename(&copy, &program).unwrap();
    }
}

#[test]
fn compressed_sections() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-g"]) else { return };
    // Not every linker writes all of them.
    for (kind, section) in [("zlib", ".debug_info"), ("zstd", ".debug_info"), ("zlib-gnu", ".zdebug_info")] {
        let option = format!("--compress-debug-sections={kind}");
        if !run("objcopy", folder.path(), &[&option, "app", kind]) {
            return;
        }
        let packed = folder.path().join(kind);
        let size = |file: &Path| file.metadata().unwrap().len();
        assert!(size(&packed) < size(&program), "{kind} has changed nothing");
        let bytes = std::fs::read(&packed).unwrap();
        let elf = object::File::parse(&*bytes).unwrap();
        assert!(elf.sections().any(|found| found.name() == Ok(section)), "{kind}: no {section}");
        has_chain_of(&packed, kind);
    }
}

/// A program, a copy of it without debug info, and the debug info alone.
fn separated(link: bool) -> Option<(tempfile::TempDir, Vec<u64>)> {
    let folder = tempfile::tempdir().unwrap();
    let program = rust_program(folder.path(), &["-O", "-g"])?;
    let addresses = addresses_of(&program, "5outer");
    let place = folder.path();
    let made = run("objcopy", place, &["--only-keep-debug", "app", "app.debug"])
        && run("objcopy", place, &["--strip-all", "app", "stripped"])
        && (!link || run("objcopy", place, &["--add-gnu-debuglink=app.debug", "stripped"]));
    made.then_some((folder, addresses))
}

#[test]
fn a_separate_debug_file_by_link() {
    let Some((folder, addresses)) = separated(true) else { return };
    let mut linked = profile(&folder.path().join("stripped"), None, &addresses);
    symbolize(&mut linked, &options());
    assert!(has_chain(&linked), "{:#?}", frames(&linked));
    // The debug file has the symbol table too: it names code without debug info, such as the C start-up code.
    let start = addresses_of(&folder.path().join("app"), "_start");
    let mut named = profile(&folder.path().join("stripped"), None, &start[..1]);
    symbolize(&mut named, &options());
    assert_eq!(frames(&named)[0][0].0, "_start");

    // A file with another checksum belongs to another build.
    let debug = folder.path().join("app.debug");
    let mut bytes = std::fs::read(&debug).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&debug, bytes).unwrap();
    let mut changed = profile(&folder.path().join("stripped"), None, &addresses);
    symbolize(&mut changed, &options());
    assert_eq!(changed.modules[0].symbols, SymbolState::Stripped);
}

#[test]
fn a_separate_debug_file_by_build_id() {
    let Some((folder, addresses)) = separated(false) else { return };
    let stripped = folder.path().join("stripped");
    let id = build_id(&stripped);
    let place = folder.path().join("debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::rename(folder.path().join("app.debug"), place.join(format!("{}.debug", &id[2..]))).unwrap();
    let mut found = profile(&stripped, Some(&id), &addresses);
    symbolize(
        &mut found,
        &with_folders(DebugFolders {
            installed: vec![folder.path().join("debug")],
            ..DebugFolders::default()
        }),
    );
    assert!(has_chain(&found), "{:#?}", frames(&found));
}

#[test]
fn a_debug_file_that_debuginfod_has_downloaded() {
    let Some((folder, addresses)) = separated(false) else { return };
    let stripped = folder.path().join("stripped");
    let id = build_id(&stripped);
    let cache = folder.path().join("client");
    std::fs::create_dir_all(cache.join(&id)).unwrap();
    std::fs::rename(folder.path().join("app.debug"), cache.join(&id).join("debuginfo")).unwrap();
    let mut found = profile(&stripped, Some(&id), &addresses);
    symbolize(&mut found, &with_folders(DebugFolders { downloaded: vec![cache], ..DebugFolders::default() }));
    assert!(has_chain(&found), "{:#?}", frames(&found));
}

#[test]
fn the_functions_of_a_stripped_program_are_distinct() {
    let Some((folder, outer)) = separated(false) else { return };
    let main = addresses_of(&folder.path().join("app"), "3app4main");
    let addresses = [outer.as_slice(), &main].concat();
    let mut stripped = profile(&folder.path().join("stripped"), None, &addresses);
    let summary = symbolize(&mut stripped, &options());
    assert_eq!((summary.resolved, summary.unresolved), (addresses.len(), 0));
    assert_eq!(stripped.modules[0].symbols, SymbolState::Stripped);
    let names: Vec<String> = frames(&stripped).into_iter().map(|frames| frames[0].0.clone()).collect();
    let (in_outer, in_main) = names.split_at(outer.len());
    assert!(in_outer.iter().all(|name| *name == format!("stripped+{:#x}", outer[0])), "{in_outer:?}");
    assert!(in_main.iter().all(|name| *name == format!("stripped+{:#x}", main[0])), "{in_main:?}");
    let nameless = |function: &whyslow_profile::Function| stripped.text(function.raw_name).is_empty();
    assert!(stripped.functions.iter().all(nameless), "they have no linker's name");
}

#[test]
fn a_stripped_go_program_keeps_its_names() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("app.go"), "package main\nfunc main() { println(len(\"x\")) }\n")
        .unwrap();
    for (name, flags) in [("whole", ""), ("stripped", "-s -w")] {
        if !run("go", folder.path(), &["build", "-o", name, "-ldflags", flags, "app.go"]) {
            return;
        }
    }
    let addresses = addresses_of(&folder.path().join("whole"), "main.main");
    let mut stripped = profile(&folder.path().join("stripped"), None, &addresses);
    symbolize(&mut stripped, &options());
    assert!(frames(&stripped).iter().all(|frames| frames[0].0 == "main.main"), "{:?}", frames(&stripped));
    assert_eq!(stripped.modules[0].symbols, SymbolState::Names);
}

#[test]
fn a_program_without_its_own_debug_info_has_names() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-Cdebuginfo=0", "-Cstrip=none"]) else { return };
    let mut profile = profile(&program, None, &addresses_of(&program, "5outer"));
    symbolize(&mut profile, &options());
    assert!(frames(&profile).iter().all(|frames| frames.len() == 1 && frames[0].0 == "app::outer"));
    assert_eq!(profile.modules[0].symbols, SymbolState::Names);
    assert_eq!(profile.modules[0].optimised, Optimised::Unknown);
}

#[test]
fn kinds_crates_and_definitions_of_a_whole_program() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-g"]) else { return };
    let mut profile = profile(&program, None, &spread(&program, 4));
    symbolize(&mut profile, &options());
    let find = |name: &str| {
        let row = profile.functions.iter().find(|function| profile.text(function.name) == name);
        row.unwrap_or_else(|| panic!("no {name}"))
    };
    let outer = find("app::outer");
    assert_eq!((outer.kind, outer.line), (CodeKind::Yours, 2));
    assert_eq!(outer.crate_name.map(|name| profile.text(name)), Some("app"));
    assert_eq!(find("app::main").kind, CodeKind::Yours);
    assert_eq!(find("main").kind, CodeKind::Runtime);
    assert_eq!(find("_start").kind, CodeKind::Runtime);
    assert_eq!(find("std::rt::lang_start_internal").kind, CodeKind::Runtime);
    assert_eq!(find("core::fmt::write").kind, CodeKind::Std);
}

fn optimised_with(flags: &[&str]) -> Option<Optimised> {
    let folder = tempfile::tempdir().unwrap();
    let program = rust_program(folder.path(), flags)?;
    let mut profile = profile(&program, None, &spread(&program, 4));
    symbolize(&mut profile, &options());
    Some(profile.modules[0].optimised)
}

#[test]
fn debug_and_release_builds_are_distinguished() {
    assert!(optimised_with(&["-g"]).is_none_or(|found| found != Optimised::Yes));
    assert!(optimised_with(&["-O", "-g"]).is_none_or(|found| found == Optimised::Yes));
}

fn c_program(compiler: &str, source: &str, flags: &[&str]) -> Option<Profile> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("app.c"), source).unwrap();
    let mut arguments = vec!["app.c", "-o", "app"];
    arguments.extend(flags);
    if !run(compiler, folder.path(), &arguments) {
        return None;
    }
    let program = folder.path().join("app");
    let mut profile = profile(&program, None, &addresses_of(&program, "busy"));
    symbolize(&mut profile, &options());
    Some(profile)
}

const C: &str = "static void twice(volatile int *x) { *x = *x * 2; }
__attribute__((noinline)) int busy(volatile int *x) {
    twice(x);
    return 1;
}
int main(int count, char **arguments) { return busy(&count); }
";

#[test]
fn c_programs() {
    for (flags, optimised) in [
        (["-O2", "-g", "-gdwarf-5"], Optimised::Yes),
        (["-O0", "-g", "-gdwarf-4"], Optimised::No),
        (["-O2", "-g", "-gz=zlib"], Optimised::Yes),
    ] {
        let Some(profile) = c_program("gcc", C, &flags) else { return };
        let all = frames(&profile);
        assert!(all.iter().all(|frames| frames.first().is_some_and(|frame| frame.0 == "busy")), "{all:#?}");
        assert!(all.iter().any(|frames| frames[0].1 == "app.c" && (2..=5).contains(&frames[0].2)));
        let inlined =
            all.iter().any(|frames| frames.len() == 2 && frames[1].0 == "twice" && frames[1].2 == 1);
        assert_eq!(inlined, optimised == Optimised::Yes);
        assert_eq!(profile.modules[0].optimised, optimised);
        let busy = profile.functions.iter().find(|function| profile.text(function.name) == "busy").unwrap();
        assert_eq!((busy.kind, busy.line), (CodeKind::Yours, 2));
    }
}

#[test]
fn cpp_names() {
    let source = "namespace app { struct Thing { int n; int busy(int x); };
__attribute__((noinline)) int Thing::busy(int x) { return x * n; } }
int main(int count, char **) { app::Thing thing{count}; return thing.busy(count); }
";
    let Some(profile) = c_program("g++", source, &["-O1", "-g", "-x", "c++"]) else { return };
    let all = frames(&profile);
    assert!(
        all.iter().all(|frames| frames[0].0 == "app::Thing::busy(int)" && frames[0].1 == "app.c"),
        "{all:#?}"
    );
}

#[test]
fn a_file_that_was_rebuilt_is_not_used() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-g"]) else { return };
    let mut profile = profile(&program, Some("00112233445566778899"), &addresses_of(&program, "5outer"));
    let summary = symbolize(&mut profile, &options());
    assert_eq!(profile.modules[0].symbols, SymbolState::Replaced);
    assert_eq!(summary.resolved, 0);
    assert_eq!(summary.problems.len(), 1);
}

#[test]
fn the_cache_gives_the_same_answers_without_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-g"]) else { return };
    let id = build_id(&program);
    let addresses = spread(&program, 64);
    let options = Options { cache: Some(folder.path().join("cache")), keep_code: false, ..options() };
    let (first, rest) = addresses.split_at(addresses.len() / 2);
    let mut half = profile(&program, Some(&id), first);
    assert_eq!(symbolize(&mut half, &options).from_cache, 0);
    let mut whole = profile(&program, Some(&id), &addresses);
    assert_eq!(symbolize(&mut whole, &options).from_cache, first.len());
    let mut fresh = profile(&program, Some(&id), &addresses);
    symbolize(&mut fresh, &Options { cache: None, ..options.clone() });
    assert_eq!(frames(&whole), frames(&fresh));

    std::fs::remove_file(&program).unwrap();
    let mut again = profile(&program, Some(&id), &addresses);
    let summary = symbolize(&mut again, &options);
    assert_eq!(summary.from_cache, addresses.len());
    assert_eq!(frames(&again), frames(&fresh));
    assert_eq!(again.modules[0].symbols, fresh.modules[0].symbols);
    assert_eq!(again.modules[0].optimised, fresh.modules[0].optimised);
    assert!(!rest.is_empty());
}

#[test]
fn source_lines_and_code_of_hot_functions_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-g"]) else { return };
    let addresses = addresses_of(&program, "5outer");
    let mut profile = profile(&program, None, &addresses);
    let summary = symbolize(&mut profile, &options());
    assert!(summary.newer_sources.is_empty());
    let texts: Vec<&str> = profile.sources.rows.iter().map(|row| profile.text(row.text)).collect();
    assert!(texts.contains(&"        sum ^= data[at]; // line 18"), "{texts:#?}");
    assert_eq!(profile.code.rows.len(), 1);
    let code = &profile.code.rows[0];
    assert_eq!((code.start.0, code.bytes.len()), (addresses[0], addresses.len()));

    // A file saved after the build is kept, and reported as newer.
    let source = std::fs::File::options().append(true).open(folder.path().join("app.rs")).unwrap();
    source.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
    let mut later = crate::common::profile(&program, None, &addresses);
    assert_eq!(symbolize(&mut later, &options()).newer_sources.len(), 1);
    assert!(!later.sources.rows.is_empty());
}

#[test]
fn callees_of_kept_code_are_named() {
    let source = "#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static long helper(long x) { return x * 3; }
__attribute__((noinline)) long busy(char *to, const char *from, long size) {
    char *copy = malloc(size);
    memcpy(copy, from, size);
    memcpy(to, copy, size / 2);
    free(copy);
    return helper(size) + helper(to[0]);
}
int main(int count, char **words) { return (int)busy(words[0], words[count - 1], count); }
";
    // With linker stubs, through GOT slots, and at fixed addresses.
    for arguments in [&["-O1", "-g"][..], &["-O1", "-g", "-fno-plt"], &["-O1", "-g", "-static", "-no-pie"]] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("app.c"), source).unwrap();
        let program = folder.path().join("app");
        let mut command = std::process::Command::new("cc");
        command.args(arguments).arg("-fno-inline").arg("-o").arg(&program).arg(folder.path().join("app.c"));
        let Ok(built) = command.output() else {
            whyslow_lab_harness::skip("cc is not installed");
            return;
        };
        if !built.status.success() {
            whyslow_lab_harness::skip(&format!("cc {arguments:?} does not work"));
            continue;
        }
        let addresses = addresses_of(&program, "busy");
        let mut profile = profile(&program, None, &addresses);
        profile.meta.host.arch = "x86_64".to_owned();
        symbolize(&mut profile, &options());
        let mut names: Vec<String> =
            profile.targets.iter().map(|row| profile.text(row.name).replace("@plt", "")).collect();
        names.sort();
        names.dedup();
        // A static program chooses its memcpy at start, and calls it through a stub without a name.
        let is_static = arguments.contains(&"-static");
        for wanted in ["free", "helper", "malloc", "memcpy"].iter().take(if is_static { 3 } else { 4 }) {
            let has = names.iter().any(|name| name == wanted || name.ends_with(wanted));
            assert!(has, "{wanted} is not in {names:?} of {arguments:?}");
        }
        let helper = profile.targets.iter().find(|row| profile.text(row.name) == "helper");
        assert!(helper.is_some_and(|row| row.size > 0 && !row.is_slot));
        let through_slots = profile.targets.iter().any(|row| row.is_slot);
        assert_eq!(through_slots, arguments.contains(&"-fno-plt"));

        let count = profile.targets.len();
        symbolize(&mut profile, &options());
        assert_eq!(profile.targets.len(), count, "known targets are not searched again");
    }
}

#[test]
fn lines_of_inlined_calls_agree_with_binutils() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = rust_program(folder.path(), &["-O", "-g"]) else { return };
    let mut addresses = addresses_of(&program, "5outer");
    addresses.extend(spread(&program, 64));
    let mut command = std::process::Command::new("addr2line");
    command.arg("-ai").arg("-e").arg(&program).args(addresses.iter().map(|address| format!("{address:#x}")));
    let Ok(output) = command.output() else {
        whyslow_lab_harness::skip("addr2line is not installed");
        return;
    };
    let mut expected: Vec<Vec<u32>> = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        if line.starts_with("0x") {
            expected.push(Vec::new());
        } else if let Some(lines) = expected.last_mut() {
            let place = line.split(" (discriminator").next().unwrap_or(line);
            lines.push(place.rsplit(':').next().and_then(|number| number.parse().ok()).unwrap_or(0));
        }
    }
    let mut profile = profile(&program, None, &addresses);
    symbolize(&mut profile, &options());
    assert_eq!(expected.len(), addresses.len());
    for ((address, expected), frames) in addresses.iter().zip(expected).zip(frames(&profile)) {
        let found: Vec<u32> = frames.iter().rev().map(|frame| frame.2).collect();
        let nothing = found.is_empty() && expected == [0];
        assert!(found == expected || nothing, "{address:#x}: {frames:?}, binutils {expected:?}");
    }
}

#[test]
fn functions_of_the_running_kernel() {
    let kallsyms = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let address = |name: &str| {
        let line = kallsyms.lines().find(|line| line.split(' ').nth(2) == Some(name))?;
        u64::from_str_radix(line.split(' ').next()?, 16).ok().filter(|&address| address > 0)
    };
    let (Some(base), Some(read)) = (address("_text"), address("vfs_read")) else {
        whyslow_lab_harness::skip("the kernel hides its symbols");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let options = Options { cache: Some(folder.path().to_owned()), ..options() };
    // The second answer comes from the cached table.
    for _ in 0..2 {
        let mut profile = profile(std::path::Path::new("[kernel]"), None, &[read.wrapping_sub(base) + 1]);
        profile.modules[0].kind = whyslow_profile::ModuleKind::Kernel;
        let summary = symbolize(&mut profile, &options);
        assert_eq!(summary.resolved, 1);
        let kept = std::fs::read_dir(folder.path().join("symbols")).unwrap();
        assert_eq!(kept.count(), 1, "one table for the kernel");
        let function = &profile.functions[0];
        assert_eq!((profile.text(function.name), function.kind), ("vfs_read", CodeKind::Kernel));
        assert_eq!(profile.modules[0].symbols, SymbolState::Names);
    }
}
