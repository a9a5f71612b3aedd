//! Resource usage of a run: the small program `timed.c` runs between the recorder and the program, and around
//! the recorder.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

use crate::process;

/// What a command and its descendants used.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Usage {
    pub(super) cpu_ns: u64,
    pub(super) max_resident_kb: u64,
    pub(super) end_unix_ns: u64,
    /// CPU time of the wrapper's parent when the command ended.
    pub(super) parent_cpu_ns: u64,
}

impl Usage {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
        let [cpu_ns, max_resident_kb, end_unix_ns, parent_cpu_ns] = numbers[..] else {
            anyhow::bail!("cannot parse usage {text:?}")
        };
        Ok(Self { cpu_ns, max_resident_kb, end_unix_ns, parent_cpu_ns })
    }
}

/// Compiles the wrapper.
pub(super) fn build_wrapper(folder: &Path) -> Result<PathBuf> {
    let source = process::root().join("xtask/src/bench/timed.c");
    let program = folder.join("timed");
    process::must(process::command("cc").args(["-O2", "-s", "-o"]).arg(&program).arg(source))?;
    Ok(program)
}

pub(super) fn now_unix_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
