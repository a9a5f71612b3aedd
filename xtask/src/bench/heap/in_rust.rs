//! The same load in Rust, for allocators that are linked into the program: `whyslow-alloc` and the dhat
//! crate, compared with whyslow from outside.
//!
//! Each build is a separate package in the target folder, so that this project does not depend on the dhat
//! crate. Cargo fetches it when the benchmark runs.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::{Cost, LOADS, PLAIN, Series, Tool, WHYSLOW, added, cell, median, run};
use crate::bench::measure::Bench;
use crate::bench::report::bytes;
use crate::process::{self, cargo, target_folder};

const DHAT: &str = "dhat crate";
const ALLOC: &str = "whyslow-alloc";

/// What is measured, and with which build.
static TOOLS: [(Tool, Build); 4] = [
    (Tool { name: PLAIN, command: "TARGET", divided_by: 1 }, Build::Plain),
    (
        Tool { name: WHYSLOW, command: "whyslow heap -q -o OUT/run.whyslow -- TARGET", divided_by: 1 },
        Build::Plain,
    ),
    (Tool { name: ALLOC, command: "TARGET", divided_by: 1 }, Build::Alloc),
    (Tool { name: DHAT, command: "TARGET", divided_by: 4 }, Build::Dhat),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Build {
    Plain,
    Alloc,
    Dhat,
}

impl Build {
    const ALL: [Self; 3] = [Self::Plain, Self::Alloc, Self::Dhat];

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Alloc => "whyslow-alloc",
            Self::Dhat => "dhat",
        }
    }

    /// The manifest line for the allocator. It is optional, so it is also a feature with its name.
    fn dependency(self) -> String {
        let crates = process::root().join("crates").display().to_string();
        match self {
            Self::Plain => String::new(),
            Self::Alloc => {
                format!("whyslow-alloc = {{ path = \"{crates}/whyslow-alloc\", optional = true }}\n")
            }
            Self::Dhat => "dhat = { version = \"0.3\", optional = true }\n".into(),
        }
    }

    fn manifest(self) -> String {
        let name = self.name();
        let source = process::root().join("lab/programs/heap_load_rust.rs").display().to_string();
        let default = if self == Self::Plain { String::new() } else { format!("\"{name}\"") };
        let all = ["dhat", "whyslow-alloc"].into_iter().filter(|feature| *feature != name);
        let others = all.map(|feature| format!("{feature} = []\n")).collect::<String>();
        format!(
            "[package]\nname = \"heap-load-{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
             [[bin]]\nname = \"heap-load-{name}\"\npath = \"{source}\"\n\n[features]\ndefault = [{default}]\n{others}\n\
             [dependencies]\n{}\n[profile.release]\ndebug = 1\n",
            self.dependency()
        )
    }

    /// Builds the program. The error says why that is not possible.
    fn build(self) -> Result<PathBuf> {
        let folder = target_folder().join("bench/heap-load").join(self.name());
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join("Cargo.toml"), self.manifest())?;
        let mut command = cargo();
        command.args(["build", "--quiet", "--release", "--manifest-path"]).arg(folder.join("Cargo.toml"));
        command.arg("--target-dir").arg(folder.join("target"));
        ensure!(process::succeeds_quietly(&mut command)?, "cargo failed");
        Ok(folder.join(format!("target/release/heap-load-{}", self.name())))
    }
}

/// The tables.
pub(super) fn section(bench: &Bench, quick: bool, rounds: usize) -> String {
    let mut out = String::from(
        "The same load in Rust (`lab/programs/heap_load_rust.rs`), with a counting allocator linked in. The dhat crate keeps its default of 10 \
         frames, and gets a quarter of the load.\n\n",
    );
    let programs = Build::ALL.map(|build| (build, build.build()));
    for (build, program) in &programs {
        if let Err(error) = program {
            let _ = writeln!(
                out,
                "The load with {} was not measured, because fetching or building it failed ({error:#}).\n",
                build.name()
            );
        }
    }
    let program = |wanted: Build| {
        programs.iter().find(|(build, _)| *build == wanted).and_then(|(_, program)| program.as_deref().ok())
    };
    for (kind, threads, _) in LOADS {
        let mallocs = if quick { 200_000 } else { 1_000_000 };
        let mut all: Vec<Series> = TOOLS.iter().map(|(tool, _)| Series { tool, costs: Vec::new() }).collect();
        for round in 0..rounds {
            for step in 0..TOOLS.len() {
                let at = (round + step) % TOOLS.len();
                let (tool, build) = &TOOLS[at];
                if let Some(program) = program(*build)
                    && all[at].costs.len() == round
                {
                    match once(bench, tool, program, kind, threads, mallocs) {
                        Ok(cost) => all[at].costs.push(cost),
                        Err(error) => eprintln!("{kind} {threads} / {} is left out: {error:#}", tool.name),
                    }
                }
            }
        }
        table(&mut out, &cell(kind, threads), &all);
    }
    out
}

fn once(bench: &Bench, tool: &Tool, program: &Path, kind: &str, threads: u64, mallocs: u64) -> Result<Cost> {
    let arguments = [kind.to_owned(), threads.to_string(), (mallocs / tool.divided_by).to_string()];
    let cost = run(bench, tool, program, &arguments)?;
    eprintln!("{kind} {threads}  Rust, {:<28} {:.0} ns per allocation", tool.name, cost.program_ns);
    Ok(cost)
}

fn table(out: &mut String, name: &str, all: &[Series]) {
    let Some(plain) = all.first().filter(|plain| !plain.costs.is_empty()) else { return };
    let cost = median(plain, |cost| Some(cost.program_ns)).unwrap_or_default();
    let _ = writeln!(out, "### {name}, in Rust\n\nPlain: {cost:.0} ns per allocation.\n");
    out.push_str("| tool | added to the program | largest process |\n|---|---|---|\n");
    for series in &all[1..] {
        let resident = median(series, |cost| Some(cost.resident)).unwrap_or_default();
        let _ = match added(series, plain) {
            Some(added) => writeln!(
                out,
                "| {} | {:.0} ns ({:.0} to {:.0}) | {} |",
                series.tool.name,
                added.median,
                added.low,
                added.high,
                bytes(resident)
            ),
            None => writeln!(out, "| {} | not measured | - |", series.tool.name),
        };
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_build_is_a_separate_workspace_with_one_allocator() {
        for build in Build::ALL {
            let manifest = build.manifest();
            assert!(manifest.contains("\n[workspace]\n"), "{manifest}");
            assert_eq!(manifest.contains("version = \"0.3\""), build == Build::Dhat);
            assert_eq!(manifest.contains("crates/whyslow-alloc"), build == Build::Alloc);
        }
    }

    #[test]
    fn failed_builds_have_a_row_that_says_so() {
        let cost = Cost { program_ns: 100.0, other_ns: 0.0, collector_ns: None, resident: 0.0 };
        let series = |at: usize, costs: &[Cost]| Series { tool: &TOOLS[at].0, costs: costs.to_vec() };
        let mut out = String::new();
        table(&mut out, "deep", &[series(0, &[cost]), series(3, &[])]);
        assert!(out.contains("| dhat crate | not measured | - |"), "{out}");
    }
}
