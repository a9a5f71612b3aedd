//! Runs a program in memcheck, or reads its files, and puts names, kinds of code and suppressions to its reports.

mod lists;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use whyslow_capture::Command;
use whyslow_memcheck::{Answer, Frame, Judge, Process, State, findings, open_descriptors};
use whyslow_profile::{CodeKind, ExitStatus, ModuleKind};
use whyslow_symbols::{Given, describe};
use whyslow_valgrind::{Job, Tool};

pub(crate) use self::lists::Lists;
use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::valgrind;

/// What is read of the XML of one process.
const LONGEST: u64 = 512 << 20;
/// Frames that Valgrind records for each stack.
const FRAMES: u32 = 40;

/// What memcheck found, and how much it saw.
pub(crate) struct Checked {
    pub(crate) answer: Answer,
    /// How the program ended; `None` for files of earlier runs.
    pub(crate) exit: Option<ExitStatus>,
    pub(crate) elapsed: Option<Duration>,
    pub(crate) thorough: Option<bool>,
    /// Valgrind's version.
    pub(crate) version: String,
    /// What memcheck did not check or did not report, in sentences.
    pub(crate) missing: Vec<String>,
}

impl Checked {
    /// Whether everything was checked.
    pub(crate) fn is_complete(&self) -> bool {
        self.missing.is_empty() && !self.answer.processes.is_empty() && self.answer.cut().next().is_none()
    }
}

/// Runs a program in memcheck.
pub(crate) fn checked(
    command: Command,
    thorough: bool,
    children: bool,
    lists: &Lists,
    volume: Volume,
) -> Result<Checked> {
    let installed = valgrind::find()?;
    let mut options = vec![
        "--leak-check=full".to_owned(),
        "--show-leak-kinds=all".to_owned(),
        "--track-fds=yes".to_owned(),
        "--gen-suppressions=all".to_owned(),
        "--keep-debuginfo=yes".to_owned(),
        format!("--num-callers={FRAMES}"),
    ];
    if thorough {
        options.extend(["--track-origins=yes", "--expensive-definedness-checks=yes"].map(str::to_owned));
    }
    let mut options: Vec<std::ffi::OsString> = options.into_iter().map(Into::into).collect();
    let folder = lists.write()?;
    options.extend(folder.option());
    let name =
        Path::new(&command.program).file_name().unwrap_or(&command.program).to_string_lossy().into_owned();
    let job = Job { options, children, ..Job::new(Tool::Memcheck, command) };
    let doing = format!("checking {name}, 20 to 50 times slower than natively");
    let run = valgrind::run(&installed, &job, &doing, None, volume)?;
    let mut missing = Vec::new();
    let mut processes = Vec::new();
    for one in &run.processes {
        let words = one.words();
        let bytes = one.output.as_deref().map(bytes_of).transpose()?.unwrap_or_default();
        let mut found = whyslow_memcheck::read(&bytes);
        if found.is_empty() {
            let command = one.command.clone();
            found.push(Process { pid: one.pid, command, ..Process::default() });
        }
        for process in &mut found {
            // A forked process says neither who nor whose it is.
            if process.pid == 0 {
                process.pid = one.pid;
                process.parent = one.parent.unwrap_or(0);
            }
        }
        if let Some(last) = found.last_mut() {
            last.add_descriptors(&open_descriptors(&words));
        }
        if words.lines().any(|line| line.starts_with("More than ") && line.contains("errors detected")) {
            missing.push(format!(
                "process {}: memcheck stopped reporting after 1,000 different errors; fix those first",
                one.pid
            ));
        }
        processes.extend(found);
    }
    name_forked(&mut processes);
    if !children {
        // Until it executed a program that is not checked, a forked process is a copy of its parent.
        processes.retain(|process| {
            !process.is_forked || process.state != State::Cut || !process.reports.is_empty()
        });
    }
    if !run.forks_are_checked {
        missing.push(
            "what forked processes do is not checked: the limit of open files leaves no room (ulimit -n)"
                .to_owned(),
        );
    }
    Ok(Checked {
        answer: judged(&processes, lists),
        exit: Some(run.exit),
        elapsed: Some(run.elapsed),
        thorough: Some(thorough),
        version: version_of(&processes),
        missing,
    })
}

/// Reads the XML of earlier runs.
pub(crate) fn read(files: &[PathBuf], lists: &Lists) -> Result<Checked> {
    let mut processes = Vec::new();
    for file in files {
        let found = whyslow_memcheck::read(&bytes_of(file)?);
        if found.is_empty() {
            return Err(Failure::new(format!("{}: this is not XML of memcheck", file.display()))
                .next("valgrind --xml=yes --xml-file=FILE PROGRAM, or whyslow memcheck -- PROGRAM"));
        }
        processes.extend(found);
    }
    Ok(Checked {
        answer: judged(&processes, lists),
        exit: None,
        elapsed: None,
        thorough: None,
        version: version_of(&processes),
        missing: Vec::new(),
    })
}

/// Forked processes run the program of their parent.
fn name_forked(processes: &mut [Process]) {
    for at in 0..processes.len() {
        if processes[at].is_forked && processes[at].command.is_empty() {
            let parent = processes[at].parent;
            let of_parent =
                processes.iter().find(|process| process.pid == parent && !process.command.is_empty());
            processes[at].command = of_parent.map(|process| process.command.clone()).unwrap_or_default();
        }
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST).read_to_end(&mut bytes))
        .map_err(|error| Failure::new(format!("{}: cannot be read: {error}", path.display())))?;
    Ok(bytes)
}

fn version_of(processes: &[Process]) -> String {
    processes
        .iter()
        .map(|process| process.version.clone())
        .find(|version| !version.is_empty())
        .unwrap_or_default()
}

fn judged(processes: &[Process], lists: &Lists) -> Answer {
    let known: RefCell<HashMap<Frame, (String, CodeKind)>> = RefCell::default();
    let describe = |frame: &Frame| {
        known.borrow_mut().entry(frame.clone()).or_insert_with(|| name_and_kind(frame)).clone()
    };
    let hidden_by = |report: &whyslow_memcheck::Report| lists.hides(report);
    let mut answer = findings(processes, &Judge { describe: &describe, hidden_by: &hidden_by });
    lists.name_sources(&mut answer);
    answer
}

/// The display name of a frame and its kind of code.
fn name_and_kind(frame: &Frame) -> (String, CodeKind) {
    let path = frame.path();
    let is_library = frame.object.ends_with(".so") || frame.object.contains(".so.");
    let described = describe(&Given {
        name: &frame.function,
        file: path.as_deref(),
        module_kind: match (frame.object.is_empty(), is_library) {
            (true, _) => ModuleKind::Unknown,
            (_, true) => ModuleKind::Library,
            _ => ModuleKind::Program,
        },
        module_path: &frame.object,
    });
    let name = if described.name.is_empty() { format!("{:#x}", frame.address) } else { described.name };
    // Valgrind's own versions of malloc, memcpy and the like.
    let is_valgrinds = frame.object.contains("/vgpreload_");
    match described.kind {
        CodeKind::Allocator => (name, CodeKind::Allocator),
        _ if is_valgrinds => (name, CodeKind::Runtime),
        kind => (name, kind),
    }
}

/// Source files, each read once.
#[derive(Default)]
pub(crate) struct Sources(RefCell<HashMap<PathBuf, Vec<String>>>);

impl Sources {
    /// A line of a file; lines are counted from 1.
    pub(crate) fn line(&self, path: &Path, line: u32) -> Option<String> {
        /// A larger file is no source.
        const LARGEST: u64 = 16 << 20;
        let mut files = self.0.borrow_mut();
        let lines = files.entry(path.to_owned()).or_insert_with(|| {
            let file =
                File::open(path).ok().filter(|file| file.metadata().is_ok_and(|about| about.is_file()));
            let lines = file
                .map(|file| BufReader::new(file.take(LARGEST)).lines().map_while(std::result::Result::ok));
            lines.map(Iterator::collect).unwrap_or_default()
        });
        lines.get(usize::try_from(line).ok()?.checked_sub(1)?).cloned()
    }
}
