//! `cargo whyslow asm`: builds, then shows the machine code, LLVM IR or MIR of a function.

use std::path::Path;

use clap::Args;
use whyslow_profile::ModuleKind;
use whyslow_symbols::{Given, describe};

use super::build;
use super::metadata::Metadata;
use super::target::{self, Choice, TargetArgs};
use super::{BuildArgs, refuse_other_machines};
use crate::cli::Volume;
use crate::commands::asm::{self, ViewArgs};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::print;
use crate::shell;

/// Build, then show a function's machine code, LLVM IR or MIR
#[derive(Debug, Args)]
#[command(
    override_usage = "cargo whyslow asm [OPTIONS] FUNCTION [INDEX]",
    after_help = "\
Examples:
  cargo whyslow asm                     list the program's functions
  cargo whyslow asm parse_line          machine code with source
  cargo whyslow asm parse_line --llvm   LLVM IR, after optimisation
  cargo whyslow asm parse_line --mir    MIR
  cargo whyslow asm --bench sums sum 2  a benchmark; the second match for `sum`

The machine code is that of the linked program, LTO included. A missing function
is inlined into its callers, generic and never instantiated, or unused. LLVM IR
and MIR are those of the target's crate, else of the package's library. If the
package has only a library, the code is that of the library alone."
)]
pub(crate) struct CargoAsmArgs {
    /// Part of the function's name
    #[arg(value_name = "FUNCTION")]
    wanted: Option<String>,
    /// Which one, if several match; 1 is the first
    #[arg(value_name = "INDEX")]
    index: Option<usize>,
    /// Show machine code with Rust source (the default)
    #[arg(long, conflicts_with_all = ["llvm", "mir"])]
    rust: bool,
    /// Show rustc's LLVM IR, after optimisation
    #[arg(long, conflicts_with = "mir")]
    llvm: bool,
    /// Show rustc's MIR
    #[arg(long)]
    mir: bool,
    #[command(flatten)]
    view: ViewArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    build: BuildArgs,
}

/// Builds, then shows.
pub(crate) fn run(args: &CargoAsmArgs, volume: Volume) -> Result<Exit> {
    refuse_other_machines(&args.build)?;
    let metadata = Metadata::load(&args.build, None)?;
    if let Some(package) = target::only_library(&args.target, &metadata) {
        return if args.llvm || args.mir {
            intermediate(args, &package.name, [library_words(Some(&package.name))], volume)
        } else {
            library(args, &package.name, volume)
        };
    }
    let choice = target::choose(&args.target, &metadata)?;
    if args.llvm || args.mir {
        return intermediate(args, &choice.name, crates_of(&choice), volume);
    }
    let built = match build::run(&args.build, choice.build_args(), volume)? {
        Ok(built) => built,
        // cargo has printed why.
        Err(code) => return Ok(Exit::Cargo(code)),
    };
    let path = &built.executable(&choice)?.path;
    match &args.wanted {
        Some(wanted) => asm::run_built(&choice.name, path, wanted, args.index, &args.view),
        None => asm::list_built(path, &args.view),
    }
}

/// cargo's arguments to build a library and pass arguments to rustc.
fn library_words(package: Option<&str>) -> Vec<String> {
    let mut words = vec!["rustc".to_owned(), "--lib".to_owned()];
    if let Some(package) = package {
        words.extend(["--package".to_owned(), package.to_owned()]);
    }
    words
}

/// The crates that may have a function of a target: the target's, then the package's library.
fn crates_of(choice: &Choice) -> [Vec<String>; 2] {
    let of_library = library_words(choice.package.as_deref());
    let mut of_target = choice.build_args();
    if choice.is_test() && of_target.first().is_some_and(|word| word == "test") {
        // The library's unit tests are built from its source.
        of_target.clone_from(&of_library);
    } else {
        of_target[0] = "rustc".to_owned();
    }
    [of_target, of_library]
}

fn temporary_folder() -> Result<tempfile::TempDir> {
    tempfile::tempdir().map_err(|error| Failure::new(format!("cannot create a temporary folder: {error}")))
}

/// Shows a function of a library that no program in the package uses.
fn library(args: &CargoAsmArgs, package: &str, volume: Volume) -> Result<Exit> {
    let folder = temporary_folder()?;
    let [object, mir] = ["object.o", "text.mir"].map(|name| folder.path().join(name));
    let for_rustc = [
        format!("--emit=obj={}", object.display()),
        format!("--emit=mir={}", mir.display()),
        "-Ccodegen-units=1".to_owned(),
    ];
    if let Err(code) = build::run_with(&args.build, None, library_words(Some(package)), &for_rustc, volume)? {
        return Ok(Exit::Cargo(code));
    }
    let linked = folder.path().join(format!("{package}.so"));
    link(&object, &linked)?;
    let Some(wanted) = &args.wanted else { return asm::list_built(&linked, &args.view) };
    asm::run_built(package, &linked, wanted, args.index, &args.view).map_err(|failure| {
        // Only compiled functions have code; MIR has all functions.
        match &mir_functions(&read(&mir).unwrap_or_default(), wanted)[..] {
            [(name, _)] if !asm::has_function(&linked, wanted) => Failure::new(format!(
                "{name} has no code in the library {package}: it is generic or inlined, and the library itself does not use it"
            ))
            .next({
                let wanted = shell::quoted(wanted);
                format!("cargo whyslow asm {wanted} --mir, or an example that uses it: cargo whyslow asm --example NAME {wanted}")
            }),
            _ => failure,
        }
    })
}

/// Links an object file, so that it can be read like any library. Symbols of other crates remain undefined,
/// by name.
fn link(object: &Path, linked: &Path) -> Result<()> {
    let cannot = |why: &str| {
        Failure::new(format!("cannot link the library's code: {why}")).next(
            "installing a C compiler (cc), or a target that uses the library: --example, --test, --bench",
        )
    };
    let output = whyslow_capture::restored_command("cc")
        .args(["-shared", "-nostdlib", "-Wl,--unresolved-symbols=ignore-all", "-o"])
        .args([linked, object])
        .output()
        .map_err(|error| cannot(&format!("cc: {error}")))?;
    if output.status.success() { Ok(()) } else { Err(cannot(String::from_utf8_lossy(&output.stderr).trim())) }
}

/// Prints the LLVM IR or MIR of one function, from the first of these crates that has it.
fn intermediate<const N: usize>(
    args: &CargoAsmArgs,
    name: &str,
    crates: [Vec<String>; N],
    volume: Volume,
) -> Result<Exit> {
    let wanted = args
        .wanted
        .as_deref()
        .ok_or_else(|| Failure::new("no function given").next("cargo whyslow asm FUNCTION --llvm"))?;
    let folder = temporary_folder()?;
    let kind = if args.mir { "mir" } else { "llvm-ir" };
    for (number, words) in crates.into_iter().enumerate() {
        // A new file name each time; otherwise cargo considers the build fresh.
        let file = folder.path().join(format!("{number}.{kind}"));
        let for_rustc = [format!("--emit={kind}={}", file.display()), "-Ccodegen-units=1".to_owned()];
        match build::run_with(&args.build, None, words, &for_rustc, volume)? {
            Ok(_) => {}
            Err(code) if number == 0 => return Ok(Exit::Cargo(code)),
            // The package has no library.
            Err(_) => break,
        }
        let text = read(&file)?;
        let mut found = if args.mir { mir_functions(&text, wanted) } else { llvm_functions(&text, wanted) };
        if let Some(index) = args.index {
            found = index.checked_sub(1).and_then(|at| found.get(at).cloned()).into_iter().collect();
        }
        match &found[..] {
            [] => {}
            [(_, one)] => {
                print(one)?;
                return Ok(Exit::Success);
            }
            several => {
                let names: Vec<String> = several
                    .iter()
                    .take(12)
                    .enumerate()
                    .map(|(at, (name, _))| format!("\n  {} {name}", at + 1))
                    .collect();
                return Err(Failure::new(format!(
                    "several functions have {wanted:?} in their name:{}\n",
                    names.concat()
                ))
                .next(format!(
                    "cargo whyslow asm {} 1 --{}",
                    shell::quoted(wanted),
                    if args.mir { "mir" } else { "llvm" }
                )));
            }
        }
    }
    Err(Failure::new(format!("no function of {name} has {wanted:?} in its name"))
        .next("another part of the name; --package for another crate of the workspace"))
}

fn read(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::new(format!("rustc did not write {}: {error}", file.display())))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Matching functions in LLVM IR: the name, and the lines from `define` to the closing brace.
fn llvm_functions(text: &str, wanted: &str) -> Vec<(String, String)> {
    let name = |line: &str| {
        let line = line.strip_prefix("define ")?;
        let symbol = line.split_once('@')?.1;
        let symbol = match symbol.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?.0,
            None => symbol.split_once('(')?.0,
        };
        let given = Given { name: symbol, file: None, module_kind: ModuleKind::Program, module_path: "" };
        Some(describe(&given).name)
    };
    sections(text, wanted, name)
}

/// Matching functions in MIR.
fn mir_functions(text: &str, wanted: &str) -> Vec<(String, String)> {
    let name = |line: &str| {
        let line = line.strip_prefix("fn ").or_else(|| line.strip_prefix("const fn "))?;
        Some(line.split_once('(')?.0.to_owned())
    };
    sections(text, wanted, name)
}

/// The parts of a text from a line with a name to a line that is only a brace. If some names end in the
/// wanted text, only those; else all names that contain it.
fn sections(text: &str, wanted: &str, name: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let lower = wanted.to_lowercase();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        if open.is_none() {
            open = name(line)
                .filter(|name| name.to_lowercase().contains(&lower))
                .map(|name| (name, String::new()));
        }
        if let Some((_, body)) = &mut open {
            body.push_str(line);
            body.push('\n');
            if line == "}" {
                found.extend(open.take());
            }
        }
    }
    let ends = |(name, _): &(String, String)| name == wanted || name.ends_with(&format!("::{wanted}"));
    if found.iter().any(ends) {
        found.retain(ends);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_functions_in_llvm_ir_by_name() {
        let text = "; comment\n\
            define internal i32 @_ZN3app5parse17h0123456789abcdefE(i32 %0) unnamed_addr #0 {\nstart:\n  ret i32 %0\n}\n\
            define void @\"_ZN3app10parse_line17h0123456789abcdefE\"() {\n  ret void\n}\n\
            declare void @parse()\n";
        let names =
            |wanted| llvm_functions(text, wanted).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names("parse"), ["app::parse"]);
        assert_eq!(names("parse_l"), ["app::parse_line"]);
        assert_eq!(names("pars"), ["app::parse", "app::parse_line"]);
        assert!(llvm_functions(text, "parse")[0].1.ends_with("ret i32 %0\n}\n"));
    }

    #[test]
    fn finds_functions_in_mir() {
        let text = "// MIR\nfn app::sum(_1: &[u32]) -> u32 {\n    bb0: {\n    }\n}\n\nfn main() -> () {\n}\n";
        let [(name, body)] = &mir_functions(text, "sum")[..] else { panic!() };
        assert_eq!((name.as_str(), body.lines().count()), ("app::sum", 4));
    }
}
