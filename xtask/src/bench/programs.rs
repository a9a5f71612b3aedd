//! The programs that are recorded: two with a known answer, and a large real one.

use std::ffi::OsString;
use std::time::Instant;

use anyhow::Result;
use whyslow_lab_harness::{Variant, build};

use crate::process;
use crate::real_programs::{dependency_sources, install_with_debug_info};

pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) what: String,
    pub(super) command: Vec<OsString>,
    /// Whether every stack is known to end in the start of a thread or process.
    pub(super) known_stacks: bool,
}

/// `milliseconds` is about the CPU time that each of them takes.
pub(super) fn all(milliseconds: u64) -> Result<Vec<Program>> {
    let time = milliseconds.to_string();
    let lab = |name, arguments: &[&str]| -> Result<Vec<OsString>> {
        let program = build(name, Variant::Release)?.into_os_string();
        Ok(std::iter::once(program).chain(arguments.iter().map(OsString::from)).collect())
    };
    Ok(vec![
        Program {
            name: "ratio",
            what: "lab/programs/ratio: two busy threads, shallow stacks".into(),
            command: lab("ratio", &["2", &time])?,
            known_stacks: true,
        },
        Program {
            name: "deep",
            what: "lab/programs/deep: one busy thread below 320 KB of stack".into(),
            command: lab("deep", &["500", &time])?,
            known_stacks: true,
        },
        ripgrep(milliseconds)?,
    ])
}

/// ripgrep with debug information, searching the sources of this project's dependencies, again and again.
fn ripgrep(milliseconds: u64) -> Result<Program> {
    let program = install_with_debug_info("ripgrep", "rg", None)?;
    let mut command = vec![program.into_os_string()];
    let pattern = r"(?i)\w{3,}ly\s+\w{5,}(ed|ing)\b";
    command.extend(["--no-config", "-uuu", "-j2", "-c", pattern].map(OsString::from));
    let tree = dependency_sources()?;
    let once = || -> Result<f64> {
        let start = Instant::now();
        process::command(&command[0]).args(&command[1..]).arg(&tree).output()?;
        Ok(start.elapsed().as_secs_f64() * 2.0)
    };
    once()?;
    let times = (milliseconds as f64 / 1000.0 / once()?).ceil().clamp(1.0, 500.0) as usize;
    command.extend(std::iter::repeat_n(tree, times));
    let what =
        format!("ripgrep with debug information, two threads, all sources of the dependencies {times} times");
    Ok(Program { name: "ripgrep", what, command, known_stacks: false })
}
