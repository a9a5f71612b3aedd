//! What to record: running processes by number or name, the whole machine, or a program.

use std::ffi::{OsStr, OsString};
use std::str::FromStr;

use clap::Args;
use whyslow_capture::{Command, Target};
use whyslow_proc::process;

use crate::cli::Volume;
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::recording::{Keep, KeepOptions, name_of};
use crate::values;

/// The target, other than a program.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Target")]
pub(crate) struct TargetArgs {
    /// Record running processes by PID or name, comma-separated
    #[arg(short, long, value_name = "PID|NAME", value_delimiter = ',', value_parser = Wanted::from_str)]
    pid: Vec<Wanted>,
    /// Record every process; with PROGRAM, until it exits
    #[arg(short, long, conflicts_with = "pid")]
    all: bool,
    /// perf's options: stacks are always recorded
    #[arg(short = 'g', hide = true)]
    graph: bool,
    /// The same
    #[arg(long, hide = true, value_name = "METHOD")]
    call_graph: Option<String>,
}

/// A process to record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Number(u32),
    Name(String),
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.parse() {
            Ok(0) => Err("0 is not a process".to_owned()),
            Ok(number) => Ok(Self::Number(number)),
            Err(_) if text.is_empty() => Err("expected a process number or name".to_owned()),
            Err(_) if text.bytes().all(|byte| byte.is_ascii_digit()) => {
                Err("no process number is that large".to_owned())
            }
            Err(_) => Ok(Self::Name(text.to_owned())),
        }
    }
}

impl TargetArgs {
    /// The program to start, and how long to record. `-p PID -- sleep 10` means ten seconds, as with perf.
    pub(crate) fn until<'a>(
        &self,
        program: &'a [OsString],
        keep: &KeepOptions,
    ) -> Result<(&'a [OsString], Keep)> {
        let keep = keep.resolved();
        if self.pid.is_empty() || program.is_empty() {
            return Ok((program, keep));
        }
        let seconds = match program {
            [sleep, time] if sleep == "sleep" => {
                time.to_str().and_then(|time| values::positive_duration(time).ok())
            }
            _ => None,
        };
        let Some(time) = seconds else {
            let words: Vec<String> = program.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let command = whyslow_words::command_line(&words);
            return Err(Failure::new(format!(
                "-p records running processes, and does not start `{command}`"
            ))
            .next(format!(
                "-p PID --duration 10s; or whyslow record -a -- {command}, for everything while it runs"
            )));
        };
        Ok((&[], Keep { duration: Some(time), ..keep }))
    }

    /// The target and the name of its profile; `None` without a target.
    pub(crate) fn target(&self, program: &[OsString], volume: Volume) -> Result<Option<(Target, OsString)>> {
        target(&self.pid, self.all, program, volume)
    }
}

/// The target and the name of its profile; `None` without a target.
pub(crate) fn target(
    pid: &[Wanted],
    all: bool,
    program: &[OsString],
    volume: Volume,
) -> Result<Option<(Target, OsString)>> {
    let command = program.split_first().map(|(program, args)| Command {
        program: program.clone(),
        args: args.to_vec(),
        ..Command::default()
    });
    if !pid.is_empty() {
        return processes(pid, volume).map(Some);
    }
    Ok(match (all, command) {
        (true, while_runs) => Some((Target::System { while_runs }, OsString::from("system"))),
        (false, Some(command)) => {
            let name = name_of(&command.program).to_owned();
            Some((Target::Command(command), name))
        }
        (false, None) => None,
    })
}

fn processes(wanted: &[Wanted], volume: Volume) -> Result<(Target, OsString)> {
    let mut pids = Vec::new();
    for one in wanted {
        let found = match one {
            Wanted::Number(number) => vec![process_of(*number, volume)?],
            Wanted::Name(name) => processes_named(name, volume)?,
        };
        for pid in found {
            if !pids.contains(&pid) {
                pids.push(pid);
            }
        }
    }
    let mut names = pids.iter().map(|pid| process::name(*pid).unwrap_or_else(|| format!("pid-{pid}")));
    let first = names.next().unwrap_or_default();
    let name = if names.all(|name| name == first) { first } else { "processes".to_owned() };
    let plain = |c: char| c.is_alphanumeric() || "._-+".contains(c);
    let name = name.replace(|c: char| !plain(c), "-");
    Ok((Target::Processes(pids), OsString::from(name)))
}

/// The process that a number belongs to. For the number of a thread, says which process that is.
fn process_of(number: u32, volume: Volume) -> Result<u32> {
    let Some(pid) = process::process_of(number) else {
        return Err(Failure::new(format!("there is no process {number}"))
            .next("`ps -e` to list processes, or -p NAME"));
    };
    if pid != number && volume > Volume::Quiet {
        let name = process::name(pid).unwrap_or_default();
        note(&format!(
            "whyslow: {number} is a thread of process {pid} ({name}); recording the whole process\n"
        ));
    }
    Ok(pid)
}

/// The processes with a name. Only root sees those of other users.
fn processes_named(name: &str, volume: Volume) -> Result<Vec<u32>> {
    let user = whyslow_proc::user();
    let mut running = Vec::new();
    for pid in process::all() {
        let owner = process::owner(pid);
        if pid != std::process::id()
            && (user == 0 || owner == Some(user))
            && let Some(process) = process::name(pid)
        {
            running.push((pid, process));
        }
    }
    let found: Vec<u32> =
        running.iter().filter(|(pid, process)| has_name(*pid, process, name)).map(|(pid, _)| *pid).collect();
    if found.is_empty() {
        let whose = if user == 0 { "" } else { " of yours" };
        let failure = Failure::new(format!("no process{whose} is called `{name}`"));
        let similar = similar(&running, name);
        return Err(if similar.is_empty() {
            failure.next("`ps -e` to list processes, or -p PID")
        } else {
            failure.next(similar.join(", "))
        });
    }
    if found.len() > 1 && volume > Volume::Quiet {
        let numbers = found.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        note(&format!("whyslow: recording {} processes called `{name}`: {numbers}\n", found.len()));
    }
    Ok(found)
}

/// The kernel keeps 15 bytes of a name. A longer one is compared with the name of the executable.
fn has_name(pid: u32, comm: &str, name: &str) -> bool {
    const KEPT: usize = 15;
    if comm == name {
        return true;
    }
    name.len() > KEPT && name.as_bytes().starts_with(comm.as_bytes()) && comm.len() == KEPT && {
        let file = process::program(pid).unwrap_or_default();
        file.file_name() == Some(OsStr::new(name))
    }
}

/// `-p 12 (app-server)` for each process whose name contains the word.
fn similar(running: &[(u32, String)], word: &str) -> Vec<String> {
    const MAX: usize = 5;
    let word = word.to_lowercase();
    let alike = running.iter().filter(|(_, name)| name.to_lowercase().contains(&word));
    alike.take(MAX).map(|(pid, name)| format!("-p {pid} ({name})")).collect()
}

/// A program and its arguments.
pub(crate) fn command(words: &[OsString]) -> Target {
    Target::Command(program(words))
}

/// The same for those that only run programs.
pub(crate) fn program(words: &[OsString]) -> Command {
    let (program, args) =
        words.split_first().map_or((OsString::new(), &[][..]), |(first, rest)| (first.clone(), rest));
    Command { program, args: args.to_vec(), ..Command::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_numbers_and_names() {
        assert_eq!("12".parse(), Ok(Wanted::Number(12)));
        assert_eq!("app-2".parse(), Ok(Wanted::Name("app-2".to_owned())));
        assert!("0".parse::<Wanted>().is_err());
        assert!("99999999999".parse::<Wanted>().is_err());
        assert!("".parse::<Wanted>().is_err());
    }
}
