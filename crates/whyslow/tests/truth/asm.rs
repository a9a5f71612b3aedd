//! `whyslow asm` against loops whose machine code is known, built in several ways.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use whyslow_lab_harness::{is_installed, run};

use crate::recorded::{PATIENCE, has_perf_events, whyslow};

/// Compiles `lab/programs/kernels.rs` with these arguments for rustc.
fn build(folder: &Path, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/programs/kernels.rs");
    let program = folder.join("kernels");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc
        .args(["--edition", "2024", "-C", "debuginfo=1"])
        .args(arguments)
        .arg("-o")
        .arg(&program)
        .arg(source);
    let output = run(&mut rustc, PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = run(whyslow(folder).args(arguments).args(["--format", "json"]), PATIENCE).unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(folder: &Path, arguments: &[&str]) -> String {
    let output = run(whyslow(folder).args(arguments), PATIENCE).unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn hints(listing: &Value) -> Vec<&str> {
    listing["hints"].as_array().unwrap().iter().map(|hint| hint["id"].as_str().unwrap()).collect()
}

fn has_feature(name: &str) -> bool {
    whyslow_capture::this_host().features.iter().any(|feature| feature == name)
}

/// A kernel, the hints that it must have and those that it must not have, however it was built.
const TRUTH: [(&str, &[&str], &[&str]); 19] = [
    ("sum_slice", &["scalar-loop", "serial-chain"], &["bounds-check", "narrow-vectors"]),
    ("sum_integers", &[], &["scalar-loop", "bounds-check", "serial-chain"]),
    ("sum_by_index", &[], &["scalar-loop", "bounds-check", "serial-chain"]),
    ("look_up", &["bounds-check"], &["scalar-loop", "serial-chain", "strided-access"]),
    ("dot_product", &["serial-chain"], &["bounds-check", "strided-access"]),
    ("saxpy", &[], &["scalar-loop", "serial-chain", "bounds-check", "strided-access"]),
    ("strided_walk", &["strided-access"], &["bounds-check", "serial-chain"]),
    ("sum_in_lanes", &[], &["serial-chain", "bounds-check"]),
    ("divide", &["division"], &["bounds-check", "square-root"]),
    ("convert", &["float-conversion"], &["bounds-check", "division"]),
    ("hash_bytes", &["serial-chain"], &["scalar-loop", "bounds-check", "pointer-chase"]),
    ("follow_links", &["pointer-chase"], &["scalar-loop", "serial-chain", "bounds-check"]),
    ("count_shared", &["locked-instruction"], &["scalar-loop"]),
    ("call_pointers", &["indirect-call"], &["small-callee"]),
    ("allocate", &["allocation"], &["memory-call"]),
    ("move_large", &["memory-call"], &["allocation"]),
    ("square_roots", &["square-root"], &["division", "bounds-check", "serial-chain"]),
    ("call_small", &["small-callee"], &["call-in-loop", "indirect-call", "square-root"]),
    ("call_large", &["call-in-loop"], &["small-callee", "indirect-call", "spills"]),
];

/// Builds, records and checks every kernel. `vectors_are_narrow` is set if the build targets the baseline
/// CPU.
fn hints_are_right(arguments: &[&str], vectors_are_narrow: bool) {
    if !has_perf_events() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), arguments);
    let file = "kernels.whyslow";
    let mut record = whyslow(folder.path());
    let output =
        run(record.args(["record", "-q", "-F", "1999", "-o", file, "--"]).arg(program).arg("4"), PATIENCE);
    assert!(output.unwrap().status.success());
    let functions = json(folder.path(), &["report", file, "functions", "--no-inline"]);
    let rows = functions["functions"].as_array().unwrap();
    for (kernel, must, must_not) in TRUTH {
        let name = format!("kernels::{kernel}");
        let listing = json(folder.path(), &["asm", file, &name]);
        let found = hints(&listing);
        let said = format!("{kernel} built with {arguments:?}: {found:?}");
        assert!(must.iter().all(|id| found.contains(id)), "{said}, and not all of {must:?}");
        assert!(!must_not.iter().any(|id| found.contains(id)), "{said}, and nothing of {must_not:?}");
        if ["dot_product", "saxpy"].contains(&kernel) {
            assert_eq!(found.contains(&"no-fused-multiply-add"), has_feature("fma"), "{said}");
        }
        if ["saxpy", "sum_integers", "sum_by_index"].contains(&kernel) {
            let expected = vectors_are_narrow && has_feature("avx2");
            assert_eq!(found.contains(&"narrow-vectors"), expected, "{said}");
        }

        // The instructions' samples are the function's, and hot loops have nearly all of them.
        let own: u64 =
            listing["instructions"].as_array().unwrap().iter().map(|row| row["own"].as_u64().unwrap()).sum();
        let row = rows.iter().find(|row| row["name"] == name.as_str());
        assert_eq!(
            Some(own).filter(|own| *own > 0),
            row.and_then(|row| row["self_ns"].as_u64()).filter(|own| *own > 0),
            "{said}"
        );
        let heaviest =
            listing["loops"].as_array().unwrap().iter().map(|row| row["weight"].as_u64().unwrap()).max();
        assert!(heaviest.unwrap() * 10 > listing["total"].as_u64().unwrap() * 8, "{said}");
        // The user's line, not that of an iterator of the standard library.
        assert!(
            listing["hints"]
                .as_array()
                .unwrap()
                .iter()
                .all(|hint| { hint["file"].as_str().is_none_or(|file| file.ends_with("kernels.rs")) }),
            "{said}"
        );
    }

    // Calls through the GOT have names, and keep them after the program is deleted.
    let named = |listing: &Value| {
        let rows = listing["instructions"].as_array().unwrap();
        rows.iter().any(|row| row["callee"] == "core::panicking::panic_bounds_check")
    };
    assert!(named(&json(folder.path(), &["asm", file, "kernels::look_up"])));
    std::fs::remove_file(folder.path().join("kernels")).unwrap();
    let alone = json(folder.path(), &["asm", file, "kernels::look_up"]);
    assert!(named(&alone) && hints(&alone).contains(&"bounds-check"), "{alone:#}");
    assert!(!alone["notes"].as_array().unwrap().is_empty(), "that lines are missing is said");
}

#[test]
fn hints_at_opt_level_3() {
    hints_are_right(&["-C", "opt-level=3"], true);
}

#[test]
fn hints_at_opt_level_2() {
    hints_are_right(&["-C", "opt-level=2"], true);
}

#[test]
fn hints_with_lto() {
    hints_are_right(&["-C", "opt-level=3", "-C", "lto=fat"], true);
}

#[test]
fn hints_for_code_built_for_newer_cpus() {
    if has_feature("avx2") && has_feature("fma") && has_feature("bmi2") {
        hints_are_right(&["-C", "opt-level=3", "-C", "target-cpu=x86-64-v3"], false);
    } else {
        whyslow_lab_harness::skip("this processor is older than x86-64-v3");
    }
}

#[test]
fn aligns_two_builds_and_finds_functions() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &["-C", "opt-level=3"]);
    let old = folder.path().join("old");
    std::fs::rename(&program, &old).unwrap();
    let same = text(folder.path(), &["asm", "--diff", "old", "old", "kernels::saxpy"]);
    assert!(same.contains("the same instructions"), "{same}");
    build(
        folder.path(),
        &["-C", "opt-level=3", "-C", "overflow-checks=yes", "-C", "debuginfo=0", "-C", "opt-level=1"],
    );
    let diff = json(folder.path(), &["asm", "--diff", "old", "kernels", "kernels::divide"]);
    let rows = diff["rows"].as_array().unwrap();
    let of = |change: &str| rows.iter().filter(|row| row["change"] == change).count();
    assert!(of("same") > 0 && of("added") + of("removed") > 0, "{diff:#}");
    let side = |side: &str| diff[side]["instructions"].as_u64().unwrap() as usize;
    assert_eq!((side("before"), side("after")), (of("same") + of("removed"), of("same") + of("added")));

    let list = text(folder.path(), &["asm", "old", "--list", "SUM_"]);
    assert!(list.contains("kernels::sum_by_index") && !list.contains("saxpy"), "{list}");
    let callers = text(folder.path(), &["asm", "old", "--callers-of", "panic_bounds_check"]);
    assert!(callers.contains("kernels::look_up") && !callers.contains("kernels::saxpy"), "{callers}");
    let att = text(folder.path(), &["asm", "old", "kernels::divide", "--syntax", "att"]);
    assert!(att.contains("%r") && att.contains("There are no samples"), "{att}");
}

#[test]
fn finds_functions_and_their_inline_sites_by_name() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), &["-C", "opt-level=3"]);
    let failure = |wanted: &str| {
        let output = run(whyslow(folder.path()).args(["asm", "kernels", wanted]), PATIENCE).unwrap();
        assert!(!output.status.success(), "{wanted}");
        String::from_utf8(output.stderr).unwrap()
    };
    let misspelt = failure("sum_by_imdex");
    assert!(misspelt.contains("the nearest are kernels::sum_by_index"), "{misspelt}");
    // The kernels are built in `main`, which the standard library calls through a closure.
    let started = text(folder.path(), &["asm", "kernels", "std::rt::lang_start::closure"]);
    assert!(started.contains("lang_start"), "{started}");
    let inlined = failure("kernels::step_once");
    assert!(
        inlined.contains("kernels::step_once has no code of its own here: it is inlined into"),
        "{inlined}"
    );
    assert!(inlined.contains("kernels::call_small at kernels.rs:"), "{inlined}");
    let list = json(folder.path(), &["asm", "kernels", "--list", "step_once"]);
    let [row] = &list["functions"].as_array().unwrap()[..] else { panic!("{list:#}") };
    assert!(row["inlined_into"][0].as_str().unwrap().starts_with("kernels::call_small at "), "{list:#}");
}

#[test]
fn runs_llvm_mca_on_the_hottest_loop() {
    let folder = tempfile::tempdir().unwrap();
    build(folder.path(), &["-C", "opt-level=3"]);
    let arguments = ["asm", "kernels", "kernels::saxpy", "--mca"];
    let output = run(whyslow(folder.path()).args(arguments).env("PATH", folder.path()), PATIENCE).unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "there is none in an empty folder");
    assert!(said.contains("cannot start llvm-mca") && said.contains("leave out --mca"), "{said}");
    if !is_installed("llvm-mca") {
        return;
    }
    let asked = text(folder.path(), &arguments);
    assert!(asked.contains("llvm-mca of L") && asked.contains("Block RThroughput"), "{asked}");
    assert!(asked.contains("mulps"), "the loop that multiplies: {asked}");
}

#[test]
fn prompts_for_a_function_at_a_terminal() {
    if !has_perf_events() || !is_installed("script") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &["-C", "opt-level=3"]);
    let mut record = whyslow(folder.path());
    record.args(["record", "-q", "-F", "1999", "-o", "k.whyslow", "--"]).arg(program).args(["0.5", "divide"]);
    assert!(run(&mut record, PATIENCE).unwrap().status.success());
    // `script` gives the command a terminal and forwards its input.
    let answered = |answer: &str| {
        let mut shell = Command::new("sh");
        shell.current_dir(folder.path()).env("XDG_CACHE_HOME", folder.path().join("cache"));
        let asm = format!("{} asm k.whyslow", env!("CARGO_BIN_EXE_whyslow"));
        shell.args(["-c", &format!("printf '{answer}\\n' | script -qec '{asm}' typescript")]);
        String::from_utf8_lossy(&run(&mut shell, PATIENCE).unwrap().stdout).into_owned()
    };
    const QUESTION: &str = "number, or a part of the name:";
    for answer in ["1", "divid"] {
        let shown = answered(answer);
        assert!(shown.contains(QUESTION) && shown.contains("kernels::divide"), "{shown}");
        assert!(shown.contains("div") && shown.contains("instructions in"), "{answer}: {shown}");
    }
    let unanswered = answered("");
    assert!(unanswered.contains(QUESTION) && !unanswered.contains("instructions in"), "{unanswered}");
    // Without a terminal, there is no prompt.
    let list = text(folder.path(), &["asm", "k.whyslow"]);
    assert!(!list.contains(QUESTION) && list.contains("kernels::divide"), "{list}");
}

/// A line of either disassembler, without differences in notation: operand sizes, spaces, comments, number
/// formats.
fn normal(text: &str) -> String {
    let mut text = text.split(['#', '<', '→']).next().unwrap_or_default().to_lowercase();
    // Longer words first: each contains the next one.
    for size in ["xmmword", "ymmword", "zmmword", "dword", "qword", "oword", "fword", "tbyte", "byte", "word"]
    {
        text = text.replace(&format!("{size} ptr "), "");
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words.replace(", ", ",").replace("movabs", "mov").replace("ds:", "");
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        let is_start =
            letter.is_ascii_digit() && !out.ends_with(|before: char| before.is_ascii_alphanumeric());
        if is_start {
            let hex = rest.strip_prefix("0x");
            let digits = hex.unwrap_or(rest);
            let end = digits.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(digits.len());
            let number = u64::from_str_radix(&digits[..end], if hex.is_some() { 16 } else { 10 });
            match number {
                Ok(number) if number.cast_signed() < 0 && out.ends_with('+') => {
                    out.pop();
                    out.push_str(&number.cast_signed().to_string());
                }
                Ok(number) => out.push_str(&number.to_string()),
                Err(_) => out.push_str(&digits[..end]),
            }
            rest = &digits[end..];
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    without_repeated_operand(out.replace("*1", "").replace("+0]", "]"))
}

/// `imul rax,rax,9` as `imul rax,9`: a register that is multiplied with a number may be written once or twice.
fn without_repeated_operand(text: String) -> String {
    let operands = text.strip_prefix("imul ").map(|operands| operands.split(',').collect::<Vec<_>>());
    match operands.as_deref() {
        Some([to, from, number]) if to == from => format!("imul {to},{number}"),
        _ => text,
    }
}

#[test]
fn instructions_match_objdumps() {
    if !is_installed("objdump") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), &["-C", "opt-level=3"]);
    let mut objdump = Command::new("objdump");
    objdump.args(["-d", "-M", "intel", "--no-show-raw-insn", "-j", ".text"]).arg(&program);
    let theirs = String::from_utf8(run(&mut objdump, PATIENCE).unwrap().stdout).unwrap();
    let theirs: std::collections::BTreeMap<u64, &str> = theirs
        .lines()
        .filter_map(|line| {
            let (address, text) = line.trim_start().split_once(":\t")?;
            Some((u64::from_str_radix(address, 16).ok()?, text))
        })
        .collect();
    let mut compared = 0;
    for kernel in TRUTH.iter().map(|row| row.0).chain(["main"]) {
        let listing = json(folder.path(), &["asm", "kernels", &format!("kernels::{kernel}")]);
        for row in listing["instructions"].as_array().unwrap() {
            let ours = row["text"].as_str().unwrap();
            let address = row["address"].as_u64().unwrap();
            let Some(theirs) = theirs.get(&address) else {
                panic!("objdump has nothing at {address:#x}: {ours}")
            };
            // Padding has many spellings, and branches are compared by their targets.
            if ours.contains("nop") || ours == "xchg ax, ax" {
                continue;
            }
            let is_direct = theirs.starts_with('j') || (theirs.starts_with("call") && !theirs.contains('['));
            if is_direct && !theirs.contains('[') {
                let mnemonic = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
                assert_eq!(mnemonic(ours), mnemonic(theirs), "{address:#x}");
                if let Some(target) = row["target"].as_u64() {
                    let where_to = theirs.split_whitespace().nth(1).unwrap();
                    assert_eq!(
                        Ok(target),
                        u64::from_str_radix(where_to, 16),
                        "{address:#x}: {ours} | {theirs}"
                    );
                }
            } else {
                assert_eq!(normal(ours), normal(theirs), "{address:#x}: {ours} | {theirs}");
            }
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared} instructions");
}
