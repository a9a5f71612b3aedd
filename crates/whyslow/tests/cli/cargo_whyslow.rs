//! `cargo whyslow` on small packages without dependencies.

use std::ffi::OsStr;
use std::fs;

use crate::harness::{Folder, Outcome, can_record, outcome};

/// Prints the environment that cargo sets, and the arguments.
const MAIN: &str = r#"
fn main() {
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    println!("{} {}", get("CARGO_PKG_NAME"), get("CARGO_PKG_VERSION_MINOR"));
    println!("{:?}", std::env::args().skip(1).collect::<Vec<_>>());
    println!("{}", std::env::current_dir().unwrap().file_name().unwrap().to_string_lossy());
    std::process::exit(7);
}
"#;

fn package(folder: &Folder, bins: &[&str]) {
    folder.file(
        "pack/Cargo.toml",
        "[package]\nname = \"pack\"\nversion = \"0.4.2\"\nedition = \"2021\"\n[workspace]\n",
    );
    for bin in bins {
        folder.file(&format!("pack/src/bin/{bin}.rs"), MAIN);
    }
}

fn cargo_whyslow(folder: &Folder, args: &[&str]) -> Outcome {
    let mut command = folder.command_of(env!("CARGO_BIN_EXE_cargo-whyslow"));
    // The environment of this build must not leak into the builds of the tests.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_")) {
        if name != "CARGO_HOME" {
            command.env_remove(name);
        }
    }
    command.env_remove("RUSTFLAGS");
    outcome(command.arg("whyslow").args(args).args(["--offline"].iter().filter(|_| !args.contains(&"--"))))
}

#[test]
fn without_a_package_shows_cargos_error() {
    let folder = Folder::new();
    cargo_whyslow(&folder, &[]).fails(101, &["Cargo.toml", "--manifest-path"]);
}

#[test]
fn lists_several_programs() {
    let folder = Folder::new();
    package(&folder, &["one", "two"]);
    let manifest = ["--manifest-path", "pack/Cargo.toml"];
    cargo_whyslow(&folder, &manifest).fails(125, &["there are several programs: one, two", "--bin one"]);
}

#[test]
fn a_failed_build_shows_cargos_error() {
    let folder = Folder::new();
    package(&folder, &[]);
    folder.file("pack/src/main.rs", "fn main() { oops }");
    let outcome = cargo_whyslow(&folder, &["--manifest-path", "pack/Cargo.toml"]);
    assert_eq!(outcome.code, Some(101), "{outcome:?}");
    assert!(
        outcome.stderr.contains("cannot find value `oops`") && !outcome.stderr.contains("whyslow: error"),
        "{outcome:?}"
    );
}

#[test]
fn builds_and_runs_the_program_as_cargo_would() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    package(&folder, &["one", "two"]);
    let manifest = fs::read_to_string(folder.path().join("pack/Cargo.toml")).unwrap();
    let here = folder.path().file_name().unwrap().to_string_lossy().into_owned();
    let outcome = cargo_whyslow(
        &folder,
        &["--manifest-path", "pack/Cargo.toml", "--bin", "two", "-q", "--", "-x", "y"],
    );
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert_eq!(outcome.stdout, format!("pack 4\n[\"-x\", \"y\"]\n{here}\n"));
    assert!(folder.names().contains(&"two.whyslow".to_owned()));
    assert_eq!(fs::read_to_string(folder.path().join("pack/Cargo.toml")).unwrap(), manifest, "not edited");
    assert!(!folder.path().join("pack/target/release").exists(), "the release build is untouched");
}

#[test]
fn a_bench_runs_in_its_package_with_the_argument_bench() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    package(&folder, &["one"]);
    let mut manifest = fs::read_to_string(folder.path().join("pack/Cargo.toml")).unwrap();
    manifest += "[[bench]]\nname = \"speed\"\nharness = false\n";
    folder.file("pack/Cargo.toml", manifest);
    folder.file("pack/benches/speed.rs", MAIN);
    let outcome = cargo_whyslow(&folder, &["--manifest-path", "pack/Cargo.toml", "--bench", "speed", "-q"]);
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (Some(7), "pack 4\n[\"--bench\"]\npack\n"),
        "{outcome:?}"
    );
}

#[test]
fn warns_about_a_debug_build() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    package(&folder, &["one"]);
    let outcome = cargo_whyslow(&folder, &["--manifest-path", "pack/Cargo.toml", "--dev", "-q"]);
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(outcome.stderr.contains("WITHOUT OPTIMISATION"), "{outcome:?}");
}

#[test]
fn unit_tests_can_be_recorded() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    package(&folder, &[]);
    folder.file("pack/src/lib.rs", "#[test]\nfn works() { assert_eq!(1 + 1, 2); }\n");
    let outcome = cargo_whyslow(&folder, &["--manifest-path", "pack/Cargo.toml", "--lib", "-q"]);
    assert!(outcome.succeeds().stdout.contains("test works ... ok"), "{outcome:?}");
}

#[test]
fn accepts_common_spellings_of_options() {
    if !can_record() {
        return;
    }
    let folder = Folder::new();
    package(&folder, &["one"]);
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let asked =
        ["--manifest-path", "pack/Cargo.toml", "--release", "--freq", "99", "--target", &target, "-q"];
    let outcome = cargo_whyslow(&folder, &asked);
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(folder.path().join("pack/target").join(&target).exists(), "built for the target");
    let report = cargo_whyslow_reading(&folder, &["report", "one.whyslow", "quality", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&report.succeeds().stdout).unwrap();
    assert_eq!(report["quality"]["frequency_hz"], 99);
}

/// Commands that do not build accept none of cargo's options.
fn cargo_whyslow_reading(folder: &Folder, args: &[&str]) -> Outcome {
    let mut command = folder.command_of(env!("CARGO_BIN_EXE_cargo-whyslow"));
    outcome(command.arg("whyslow").args(args))
}

#[test]
fn heap_builds_and_records_a_package() {
    let folder = Folder::new();
    package(&folder, &["one"]);
    let asked = ["heap", "--manifest-path", "pack/Cargo.toml", "--offline", "--bin", "one", "--", "-x"];
    let outcome = cargo_whyslow(&folder, &asked);
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert!(outcome.stdout.contains("[\"-x\"]"), "{outcome:?}");
    assert!(outcome.stderr.contains("allocations") && outcome.stderr.contains("live at peak"), "{outcome:?}");
}

/// -r means --runs here, as in `whyslow stat`.
#[test]
fn stat_builds_and_counts_a_package() {
    let folder = Folder::new();
    package(&folder, &["one"]);
    let asked =
        ["stat", "--manifest-path", "pack/Cargo.toml", "--offline", "--bin", "one", "-r", "2", "--", "-x"];
    let outcome = cargo_whyslow(&folder, &asked);
    assert_eq!(outcome.code, Some(7), "{outcome:?}");
    assert_eq!(outcome.stdout.matches("[\"-x\"]").count(), 2, "{outcome:?}");
    assert!(outcome.stderr.contains("2 runs") && outcome.stderr.contains("max resident"), "{outcome:?}");
}

#[test]
fn refuses_a_target_of_another_machine_before_the_build() {
    let folder = Folder::new();
    package(&folder, &["one"]);
    let asked = ["--manifest-path", "pack/Cargo.toml", "--target", "riscv64gc-unknown-linux-gnu"];
    cargo_whyslow(&folder, &asked).fails(125, &["--target riscv64gc-unknown-linux-gnu", "cannot run"]);
}

#[test]
fn asm_shows_machine_code_llvm_ir_and_mir() {
    let folder = Folder::new();
    folder.file(
        "pack/Cargo.toml",
        "[package]\nname = \"pack\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n",
    );
    folder.file(
        "pack/src/lib.rs",
        "#[inline(never)]\npub fn triple(x: u64) -> u64 { std::hint::black_box(x) * 3 }\n",
    );
    folder.file(
        "pack/src/main.rs",
        "fn main() { println!(\"{}\", pack::triple(std::env::args().count() as u64)); }\n",
    );
    let manifest = folder.path().join("pack/Cargo.toml");
    let shown = |kind: &[&str]| {
        let words = [&["asm", "-q", "triple", "--manifest-path", manifest.to_str().unwrap()], kind].concat();
        cargo_whyslow(&folder, &words).succeeds().stdout.clone()
    };
    let code = shown(&["--rust"]);
    assert!(code.contains("pack::triple") && code.contains("ret") && code.contains("lib.rs:2"), "{code}");
    // The function is in the library, not in the binary.
    assert!(shown(&["--llvm"]).starts_with("define "));
    assert!(shown(&["--mir"]).starts_with("fn triple"));
}

/// Functions of a library: one with code, one inlined, one generic that is never instantiated.
const LIBRARY: &str = r#"
#[inline(never)]
pub fn total(values: &[u64]) -> u64 {
    values.iter().map(|value| doubled(*value)).fold(0, u64::wrapping_add)
}

#[inline(always)]
fn doubled(value: u64) -> u64 {
    value.wrapping_mul(2)
}

pub fn largest_of_any<T: Ord + Copy>(values: &[T]) -> Option<T> {
    values.iter().copied().max()
}
"#;

#[test]
fn asm_shows_a_library_without_a_program() {
    let folder = Folder::new();
    package(&folder, &[]);
    folder.file("pack/src/lib.rs", LIBRARY);
    let asm = |args: &[&str]| {
        let manifest = ["--manifest-path", "pack/Cargo.toml", "-q"];
        cargo_whyslow(&folder, &[&["asm"], args, &manifest].concat())
    };
    let shown = asm(&["pack::total"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("pack::total") && shown.stdout.contains("ret"), "{shown:?}");
    assert!(shown.stdout.contains("pack/src/lib.rs:4"), "source lines: {shown:?}");
    let (llvm, mir) = (asm(&["total", "--llvm"]), asm(&["largest_of_any", "--mir"]));
    assert!(llvm.stdout.contains("define ") && mir.stdout.contains("fn largest_of_any"), "{llvm:?} {mir:?}");
    let list = asm(&[]);
    assert!(list.stdout.contains("pack::total") && !list.stdout.contains("largest"), "{list:?}");
    asm(&["largest_of_any"])
        .fails(125, &["largest_of_any has no code in the library pack: it is generic", "--mir"]);
    asm(&["doubled"])
        .fails(125, &["pack::doubled has no code of its own here: it is inlined into", "pack::total"]);
    asm(&["no_such_function"]).fails(125, &["no function has \"no_such_function\" in its name"]);
}

#[test]
fn a_link_to_whyslow_is_cargo_whyslow() {
    let folder = Folder::new();
    let link = folder.path().join("cargo-whyslow");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_whyslow"), &link).unwrap();
    let help = |program: &OsStr| {
        outcome(folder.command_of(program).args(["whyslow", "--help"])).succeeds().stdout.clone()
    };
    assert_eq!(help(link.as_os_str()), help(env!("CARGO_BIN_EXE_cargo-whyslow").as_ref()));
}

#[test]
fn without_whyslow_the_launcher_says_how_to_get_it() {
    let folder = Folder::new();
    let alone = folder.path().join("cargo-whyslow");
    fs::copy(env!("CARGO_BIN_EXE_cargo-whyslow"), &alone).unwrap();
    let mut command = folder.command_of(alone);
    outcome(command.args(["whyslow", "--help"]).env("PATH", folder.path())).fails(
        125,
        &["cannot start whyslow: No such file or directory", "try: cargo install --path crates/whyslow"],
    );
}
