//! The programs of `lab/corpus`: what their first lines say, how they are built, and what is found in them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{Found, Judged, Judgement, Lab, PATIENCE, bounded, gain};
use crate::process::{self, cargo, root};

/// A program with one planted inefficiency, or with none.
pub(super) struct Program {
    pub(super) name: String,
    /// Its source file, without folders.
    source: String,
    executable: PathBuf,
    /// Rules of which any one names the planted inefficiency. Empty if nothing is planted.
    planted: Vec<String>,
    /// Rules that are true of the program too, in both halves.
    also: Vec<String>,
    /// What its recording needs: options of `whyslow record`, or another command.
    record: Vec<String>,
}

/// The result of a program.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) planted: Vec<String>,
    /// The findings of the half with the planted inefficiency, then those of the other half.
    pub(super) findings: Vec<Judged>,
    /// The finding of the planted inefficiency.
    pub(super) hit: Option<Found>,
    /// How many times as fast the other half is.
    pub(super) gain: Option<f64>,
}

/// A planted inefficiency that no rule knows.
pub(super) const NONE_KNOWN: &str = "none-known";

impl Program {
    fn read(source: &Path, executable: PathBuf) -> Result<Self> {
        let text = std::fs::read_to_string(source)?;
        let name = |path: &Path| path.file_stem().map(|name| name.to_string_lossy().into_owned());
        let head = text
            .lines()
            .map(|line| line.trim_start_matches(['/', '*', '!', ' ']).trim_end_matches([' ', '*', '/']));
        let of = |key: &str| {
            let value = head.clone().take(8).find_map(|line| line.strip_prefix(key));
            value
                .map(|value| value.split([',', ' ']).filter(|id| !id.is_empty()).map(str::to_owned).collect())
        };
        let planted: Vec<String> =
            of("planted:").with_context(|| format!("{} plants nothing", source.display()))?;
        Ok(Self {
            name: name(source).context("no name")?,
            source: source.file_name().context("no name")?.to_string_lossy().into_owned(),
            executable,
            planted: if planted == ["nothing"] { Vec::new() } else { planted },
            also: of("also:").unwrap_or_default(),
            record: of("record:").unwrap_or_default(),
        })
    }

    fn judged(&self, half: &str, found: Found) -> Judged {
        let is_here = found.file.is_empty() || found.file.ends_with(&self.source);
        let judgement = if half == "slow" && is_here && self.planted.contains(&found.id) {
            Judgement::Planted
        } else if self.also.contains(&found.id) {
            Judgement::Right
        } else {
            Judgement::Wrong
        };
        let program =
            if self.planted.is_empty() { self.name.clone() } else { format!("{} {half}", self.name) };
        Judged { program, found, judgement }
    }
}

/// Builds all programs.
pub(super) fn build(lab: &Lab) -> Result<Vec<Program>> {
    let corpus = root().join("lab/corpus");
    let target = lab.folder.join("target");
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "--manifest-path"]).arg(corpus.join("Cargo.toml"));
    process::must(build.arg("--target-dir").arg(&target))?;
    let mut programs = Vec::new();
    for source in sources(&corpus.join("src/bin"))? {
        let executable = target.join("release").join(source.file_stem().unwrap_or_default());
        programs.push(Program::read(&source, executable)?);
    }
    for source in sources(&corpus.join("c"))? {
        let is_c = source.extension().is_some_and(|end| end == "c");
        let executable = lab.folder.join(source.file_stem().unwrap_or_default());
        let mut compile = process::command(if is_c { "cc" } else { "c++" });
        compile.args(["-O2", "-g", "-pthread", if is_c { "-std=gnu11" } else { "-std=c++17" }, "-o"]);
        if !is_newer(&executable, &source) {
            process::must(compile.arg(&executable).arg(&source))?;
        }
        programs.push(Program::read(&source, executable)?);
    }
    Ok(programs)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        files.push(entry?.path());
    }
    files.sort();
    Ok(files)
}

fn is_newer(built: &Path, source: &Path) -> bool {
    let changed = |path: &Path| std::fs::metadata(path).and_then(|file| file.modified()).ok();
    changed(built).zip(changed(source)).is_some_and(|(built, source)| built > source)
}

/// Records both halves of a program, compares their answers and their times.
pub(super) fn run(lab: &Lab, program: &Program) -> Result<Row> {
    let mut findings = Vec::new();
    let halves: &[&str] = if program.planted.is_empty() { &["fast"] } else { &["slow", "fast"] };
    let answer = |half: &str| {
        let output = whyslow_lab_harness::run(bounded(&program.executable).arg(half), PATIENCE)?;
        ensure!(output.status.success(), "{} {half}: {}", program.name, output.status);
        anyhow::Ok(output.stdout)
    };
    ensure!(answer(halves[0])? == answer("fast")?, "the halves of {} have different answers", program.name);
    for half in halves {
        let found = lab.explain(&program.record, &program.executable, &[half])?;
        findings.extend(found.into_iter().map(|found| program.judged(half, found)));
    }
    let hit = findings.iter().find(|row| row.judgement == Judgement::Planted).map(|row| row.found.clone());
    let is_time = hit.as_ref().is_some_and(|hit| hit.of != "CPU time");
    let gain = match program.planted[..] {
        [] => None,
        _ => Some(gain::measure(lab, &program.executable, is_time)?),
    };
    Ok(Row { name: program.name.clone(), planted: program.planted.clone(), findings, hit, gain })
}
