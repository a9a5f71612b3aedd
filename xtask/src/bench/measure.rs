//! Measures one run of one tool on one program.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::programs::Program;
use super::tools::{Cache, PLAIN, Tool};
use super::usage::{self, Usage, now_unix_ns};
use crate::process;

/// The costs of one run, in seconds and bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    /// CPU time of the program itself.
    pub(super) target_cpu: f64,
    /// CPU time of the recorder until the program exited.
    pub(super) running_cpu: f64,
    /// CPU time of the recorder: that of the whole recording command, minus the program.
    pub(super) recorder_cpu: f64,
    /// The same, plus getting from the recording to the result.
    pub(super) total_cpu: f64,
    /// From the program's exit to the result on disk.
    pub(super) to_result: f64,
    /// Bytes kept on disk.
    pub(super) file_bytes: f64,
    /// The largest resident set of any process except the plain program.
    pub(super) max_resident: f64,
    /// Opening the file again: a flame graph, a report.
    pub(super) second_flame: Option<f64>,
    pub(super) second_report: Option<f64>,
}

/// Where runs happen.
pub(super) struct Bench {
    pub(super) wrapper: PathBuf,
    pub(super) folder: PathBuf,
    /// Search path with all tools.
    pub(super) path: OsString,
}

impl Bench {
    /// Prepares a folder for runs.
    pub(super) fn new(folder: &Path, path: OsString) -> Result<Self> {
        std::fs::create_dir(folder.join("warm-cache"))?;
        Ok(Self { wrapper: usage::build_wrapper(folder)?, folder: folder.to_path_buf(), path })
    }

    /// Runs a tool on a program. The files of the run are in the returned folder until the next run.
    pub(super) fn run(&self, tool: &Tool, program: &Program) -> Result<(Run, PathBuf)> {
        let out = self.folder.join("run");
        let cold = self.folder.join("cold-cache");
        for folder in [&out, &cold] {
            let _ = std::fs::remove_dir_all(folder);
            std::fs::create_dir_all(folder)?;
        }
        let warm = self.folder.join("warm-cache");
        if tool.cache == Cache::NewBinary {
            keep_kernel_names(&warm, &cold)?;
        }
        let cache = if tool.cache == Cache::Warm { warm } else { cold };

        let inner = self.folder.join("target.usage");
        let mut target = vec![self.wrapper.clone().into_os_string(), inner.clone().into_os_string()];
        target.extend(program.command.iter().cloned());
        let recorder =
            self.timed(&expand(tool.record, &out, &target), &out, &cache, tool.wants_paranoid_1)?;
        let target = Usage::read(&inner).with_context(|| self.log())?;
        let after = if tool.then.is_empty() {
            Usage::default()
        } else {
            let script = tool.then.replace("OUT", &out.to_string_lossy());
            self.timed(&["sh".into(), "-c".into(), script.into()], &out, &cache, false)?
        };
        let done = now_unix_ns();
        let is_plain = tool.name == PLAIN;
        if !is_plain {
            let result = out.join(tool.result);
            let size = std::fs::metadata(&result).map_or(0, |metadata| metadata.len());
            ensure!(size > 0, "{} wrote no {}: {}", tool.name, tool.result, self.log());
        }
        let recorder_ns = recorder.cpu_ns.saturating_sub(target.cpu_ns);
        let sizes = tool.files.iter().map(|file| std::fs::metadata(out.join(file)).map_or(0, |it| it.len()));
        let mut run = Run {
            target_cpu: seconds(target.cpu_ns),
            running_cpu: seconds(target.parent_cpu_ns),
            recorder_cpu: seconds(recorder_ns),
            total_cpu: seconds(recorder_ns + after.cpu_ns),
            to_result: seconds(done.saturating_sub(target.end_unix_ns)),
            file_bytes: sizes.sum::<u64>() as f64,
            max_resident: recorder.max_resident_kb as f64 * 1024.0,
            second_flame: None,
            second_report: None,
        };
        if tool.files == ["run.whyslow"] {
            run.second_flame =
                Some(self.time_command("whyslow flame -q OUT/run.whyslow -o OUT/again.svg", &out, &cache)?);
            run.second_report = Some(self.time_command("whyslow report OUT/run.whyslow", &out, &cache)?);
        }
        Ok((run, out))
    }

    /// Runs a command inside the wrapper.
    fn timed(&self, words: &[OsString], out: &Path, cache: &Path, show_paranoid_1: bool) -> Result<Usage> {
        let usage = self.folder.join("recorder.usage");
        let _ = std::fs::remove_file(&usage);
        let mut command = self.command(&self.wrapper, out, cache);
        if show_paranoid_1 && paranoid_level() > 1 {
            // In a separate mount namespace, so that the machine's setting does not change. Only root can do
            // this, and for root the kernel ignores the setting.
            let level = self.folder.join("paranoid");
            std::fs::write(&level, "1\n")?;
            command = self.command(Path::new("unshare"), out, cache);
            command.args(["--mount", "sh", "-c"]);
            command
                .arg(format!("mount --bind \"$0\" {PARANOID} && exec \"$@\""))
                .arg(level)
                .arg(&self.wrapper);
        }
        command.arg(&usage).args(words);
        command.stdout(File::create(self.folder.join("stdout"))?);
        command.stderr(File::create(self.folder.join("stderr"))?);
        command.status().context("cannot start the wrapper")?;
        Usage::read(&usage).with_context(|| self.log())
    }

    /// An empty folder for the files of one run.
    pub(super) fn fresh_folder(&self) -> Result<PathBuf> {
        let out = self.folder.join("run");
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir_all(&out)?;
        Ok(out)
    }

    /// Runs a command inside the wrapper, and also returns its standard output.
    pub(super) fn timed_output(&self, words: &[OsString], out: &Path) -> Result<(Usage, String)> {
        let usage = self.timed(words, out, &self.folder.join("warm-cache"), false)?;
        Ok((usage, std::fs::read_to_string(self.folder.join("stdout"))?))
    }

    /// Wall time of a command, in seconds.
    fn time_command(&self, template: &str, out: &Path, cache: &Path) -> Result<f64> {
        let words = expand(template, out, &[]);
        let mut command = self.command(Path::new(&words[0]), out, cache);
        command.args(&words[1..]).stdout(File::create(self.folder.join("stdout"))?);
        let start = Instant::now();
        let status = command.status()?;
        let time = start.elapsed().as_secs_f64();
        ensure!(status.success(), "{template} failed");
        Ok(time)
    }

    /// The standard output of a command on the files of a run.
    pub(super) fn output(&self, template: &str, out: &Path) -> Result<String> {
        let words = expand(template, out, &[]);
        let mut command = self.command(Path::new(&words[0]), out, &self.folder.join("warm-cache"));
        process::output(command.args(&words[1..]))
    }

    pub(super) fn command(&self, program: &Path, out: &Path, cache: &Path) -> Command {
        // A relative name is looked up in the child's PATH only if it is set there.
        let found =
            std::env::split_paths(&self.path).map(|folder| folder.join(program)).find(|file| file.is_file());
        let mut command = process::command(found.unwrap_or_else(|| program.to_path_buf()));
        command.env("PATH", &self.path).env("XDG_CACHE_HOME", cache).current_dir(out);
        command
    }

    /// The messages of the last command.
    fn log(&self) -> String {
        let text = std::fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
        text.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n")
    }
}

const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

fn paranoid_level() -> i32 {
    std::fs::read_to_string(PARANOID).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

pub(super) fn expand(template: &str, out: &Path, target: &[OsString]) -> Vec<OsString> {
    let out = out.to_string_lossy();
    let words = template.split_whitespace();
    words
        .flat_map(|word| match word {
            "TARGET" => target.to_vec(),
            _ => vec![OsStr::new(&word.replace("OUT", &out)).to_owned()],
        })
        .collect()
}

/// Copies the kernel's symbols from a cache.
fn keep_kernel_names(from: &Path, to: &Path) -> Result<()> {
    let symbols = |cache: &Path| cache.join("whyslow/symbols");
    std::fs::create_dir_all(symbols(to))?;
    for entry in std::fs::read_dir(symbols(from)).into_iter().flatten() {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with("kernel-") {
            std::fs::copy(symbols(from).join(&name), symbols(to).join(&name))?;
        }
    }
    Ok(())
}
