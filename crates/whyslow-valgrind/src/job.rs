//! One run of a program under a tool of Valgrind: its command line, its files, its end.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::Path;
use std::process::{self, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use whyslow_capture::{Command, attend, can_start, restored_command};
use whyslow_profile::ExitStatus;

use crate::process::{self as processes, ProcessRun};
use crate::sink::Sink;
use crate::{Valgrind, ValgrindError};

/// A tool of Valgrind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Caches and branches by line.
    Cachegrind,
    /// The same with calls.
    Callgrind,
    /// Blocks of the heap and what is read and written in them.
    Dhat,
    /// Memory errors, as XML.
    Memcheck,
}

/// What to run.
#[derive(Debug)]
pub struct Job {
    /// The tool.
    pub tool: Tool,
    /// The tool's own options. Those of files, children and logs are added to them.
    pub options: Vec<OsString>,
    /// The program.
    pub command: Command,
    /// Whether programs that the program starts run under Valgrind too.
    pub children: bool,
    /// What the program reads and writes.
    pub streams: Streams,
}

/// The standard streams of the program.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Streams {
    /// Those of whyslow.
    #[default]
    Inherit,
    /// /dev/null.
    Null,
}

/// A program that ran under Valgrind.
#[derive(Debug)]
pub struct Run {
    /// How the program ended: Valgrind ends in the same way.
    pub exit: ExitStatus,
    /// Whether the user asked it to end: Ctrl-C, or a signal that was passed on.
    pub asked_to_end: bool,
    /// How long it ran.
    pub elapsed: Duration,
    /// Each process that ran under Valgrind. The first is the program itself; the others are in the order of
    /// their numbers. A process that executes another program has the files of its last program.
    pub processes: Vec<ProcessRun>,
    /// Whether forked processes report what they find: without room for its sockets, memcheck's do not.
    pub forks_are_checked: bool,
    /// Keeps signals blocked: a second Ctrl-C must not lose the results.
    _attended: whyslow_capture::Attended,
    /// Its files are deleted with it.
    _folder: TempDir,
}

impl Tool {
    /// Its name for `--tool`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cachegrind => "cachegrind",
            Self::Callgrind => "callgrind",
            Self::Dhat => "dhat",
            Self::Memcheck => "memcheck",
        }
    }

    /// The options that write its results to a file.
    fn output_options(self, file: &OsStr) -> Vec<OsString> {
        let option = |name: &str| {
            let mut option = OsString::from(name);
            option.push(file);
            option
        };
        match self {
            Self::Cachegrind => vec![option("--cachegrind-out-file=")],
            Self::Callgrind => vec![option("--callgrind-out-file=")],
            Self::Dhat => vec![option("--dhat-out-file=")],
            // Without the last one, the copy of a process after a fork writes into the XML of its parent.
            Self::Memcheck => {
                vec!["--xml=yes".into(), option("--xml-file="), "--child-silent-after-fork=yes".into()]
            }
        }
    }
}

impl Job {
    /// A job with the streams of whyslow, and with the programs that the program starts.
    pub fn new(tool: Tool, command: Command) -> Self {
        Self { tool, options: Vec::new(), command, children: true, streams: Streams::default() }
    }

    /// Valgrind's arguments, up to the program's.
    fn arguments(&self, folder: &Path, sink: Option<&Sink>) -> Vec<OsString> {
        let file = |name: &str| {
            let mut path = without_patterns(folder.as_os_str());
            path.push(format!("/{name}.%p"));
            path
        };
        let mut log = OsString::from("--log-file=");
        log.push(file(processes::LOG));
        let children = if self.children { "yes" } else { "no" };
        let mut all: Vec<OsString> = vec![format!("--tool={}", self.tool.name()).into()];
        all.extend(self.options.iter().cloned());
        // After the tool's options and those of the user's ~/.valgrindrc: the last one counts.
        all.push(format!("--trace-children={children}").into());
        // Without it, a killed program leaves pipes in the temporary folder.
        all.push("--vgdb=no".into());
        match sink {
            Some(sink) => all.extend(sink.options().map(OsString::from)),
            None => {
                all.push(log);
                all.extend(self.tool.output_options(&file(processes::OUTPUT)));
            }
        }
        all.push("--".into());
        all
    }

    fn command(&self, valgrind: &Path, folder: &Path, sink: Option<&Sink>) -> process::Command {
        let mut command = restored_command(valgrind);
        command.args(self.arguments(folder, sink)).arg(&self.command.program).args(&self.command.args);
        command.envs(self.command.env.iter().cloned());
        if let Some(folder) = &self.command.folder {
            command.current_dir(folder);
        }
        if self.streams == Streams::Null {
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        } else if self.command.silent {
            command.stdout(Stdio::null());
        }
        command
    }
}

impl Valgrind {
    /// Runs a program to its end. `tick` is called a few times per second with the time so far.
    ///
    /// The program has its standard streams to itself: Valgrind writes to files in a temporary folder, which
    /// exists as long as the [`Run`]. Only what Valgrind says before it runs the program goes to standard error.
    pub fn run(&self, job: &Job, tick: &mut dyn FnMut(Duration)) -> Result<Run, ValgrindError> {
        can_start(&job.command).map_err(ValgrindError::Program)?;
        let folder = tempfile::Builder::new().prefix("whyslow-").tempdir().map_err(ValgrindError::Folder)?;
        let path = folder.path().canonicalize().map_err(ValgrindError::Folder)?;
        // Without room for the sockets, memcheck writes to files, and what forked processes find is missing.
        let sink = (job.tool == Tool::Memcheck).then(|| Sink::begin(&path)).and_then(Result::ok);
        let ended = attend(&mut job.command(&self.program, &path, sink.as_ref()), tick);
        let is_kept_apart = sink.is_some();
        let parents = sink.map(Sink::finish).unwrap_or_default();
        let attended = ended.map_err(ValgrindError::System)?;
        let mut processes = processes::found(&path, attended.pid, &job.command);
        for process in processes.iter_mut().filter(|process| process.parent.is_none()) {
            process.parent = parents.get(&process.pid).copied();
        }
        if processes.first().is_none_or(|first| first.pid != attended.pid) {
            let program = job.command.program.to_string_lossy().into_owned();
            return Err(ValgrindError::NotRun { program, exit: attended.exit });
        }
        Ok(Run {
            exit: attended.exit,
            asked_to_end: attended.asked_to_end,
            elapsed: attended.elapsed,
            processes,
            forks_are_checked: job.tool != Tool::Memcheck || is_kept_apart,
            _attended: attended,
            _folder: folder,
        })
    }
}

/// In names of files, Valgrind replaces `%p` and the like; `%%` is a percent sign.
fn without_patterns(path: &OsStr) -> OsString {
    let bytes = path.as_bytes().iter().flat_map(|byte| {
        let times = if *byte == b'%' { 2 } else { 1 };
        std::iter::repeat_n(*byte, times)
    });
    OsString::from_vec(bytes.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_with_percent_signs_are_no_patterns() {
        let mut job = Job::new(Tool::Dhat, Command::default());
        job.options.push("--mode=copy".into());
        let arguments = job.arguments(Path::new("/tmp/100%p"), None);
        let arguments: Vec<&str> = arguments.iter().filter_map(|word| word.to_str()).collect();
        assert_eq!(
            arguments,
            [
                "--tool=dhat",
                "--mode=copy",
                "--trace-children=yes",
                "--vgdb=no",
                "--log-file=/tmp/100%%p/log.%p",
                "--dhat-out-file=/tmp/100%%p/out.%p",
                "--"
            ]
        );
    }
}
