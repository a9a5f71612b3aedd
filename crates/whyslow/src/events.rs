//! The options that choose events: from the words of `-e` to what is recorded.

use std::path::{Path, PathBuf};

use clap::Args;
use whyslow_capture::{NotRecorded, Probe, Target, WantedSamples};
use whyslow_events::{EventError, Kind, Machine, NotCounted, Spec, What, parse, usual_name};
use whyslow_proc::process;
use whyslow_symbols::{NoEntry, entries};

use crate::failure::{Failure, Result};

/// What `--faults` stands for.
const FAULTS: [&str; 2] = ["page-faults", "major-faults"];

/// Which events are recorded beside CPU time.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "Recording options")]
pub(crate) struct EventOptions {
    /// Record these events too, each as a metric of its own, such as cache-misses,page-faults,sched:sched_process_exec or
    /// 'uprobe:parse' (calls of a function); `whyslow list` shows what there is
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    events: Vec<String>,
    /// Take one sample per so many events [default: every one, and of the CPU's events -F in a second]
    #[arg(short = 'c', long, value_name = "N", requires = "events", value_parser = clap::value_parser!(u64).range(1..))]
    period: Option<u64>,
    /// Record page faults too: which code touches fresh memory
    #[arg(long)]
    faults: bool,
}

/// The events that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Those of which nothing is wrong yet.
    pub(crate) samples: Vec<WantedSamples>,
    /// Those that this user or this machine does not have.
    pub(crate) not_there: Vec<NotRecorded>,
}

impl EventOptions {
    /// What is to be recorded of a target. A name that means nothing is an error; an event that may not be had is not.
    pub(crate) fn resolve(&self, target: &Target) -> Result<Wanted> {
        let mut wanted = Wanted::default();
        let machine = Machine::this();
        let mut specs = Vec::new();
        for list in &self.events {
            specs.extend(read(list)?.into_iter().map(|spec| (spec.period.or(self.period), spec)));
        }
        for name in FAULTS.iter().filter(|_| self.faults) {
            specs.extend(read(name)?.into_iter().map(|spec| (Some(1), spec)));
        }
        for (period, spec) in specs {
            let name = metric_name(&spec);
            if wanted.samples.iter().any(|known| known.name == name) {
                continue;
            }
            match machine.resolve(&spec) {
                Ok(event) => {
                    let probe = probe_of(&spec, target)?;
                    wanted.samples.push(WantedSamples { name, event, period, probe });
                }
                Err(error) => match error.refusal() {
                    Some(why) => {
                        let not = NotCounted { why, error: 0 };
                        wanted.not_there.push(NotRecorded { name, kind: Kind::Tracepoint, not });
                    }
                    None => return Err(explain(&error)),
                },
            }
        }
        Ok(wanted)
    }
}

/// Reads a list of events.
pub(crate) fn read(list: &str) -> Result<Vec<Spec>> {
    parse(list)
        .map_err(|error| Failure::new(format!("-e: {error}")).next("whyslow list, which shows what there is"))
}

/// Why there is no such event, in words.
pub(crate) fn explain(error: &EventError) -> Failure {
    let failure = Failure::new(format!("-e: {error}"));
    match error.fix() {
        Some(fix) => failure.next(fix),
        None => failure.next("whyslow list, which shows what there is"),
    }
}

/// What the metric of an event is called: as it was written, but by its usual name.
fn metric_name(spec: &Spec) -> String {
    let What::Named(written) = &spec.what else { return spec.text.clone() };
    match usual_name(written) {
        Some(usual) => spec.text.replacen(written.as_str(), &usual, 1),
        None => spec.text.clone(),
    }
}

/// The places of a function, if the event is one.
fn probe_of(spec: &Spec, target: &Target) -> Result<Option<Probe>> {
    /// More instances would need as many events on each CPU.
    const MOST: usize = 100;
    let What::Uprobe { file, function, .. } = &spec.what else { return Ok(None) };
    let file = match file {
        Some(file) => library(file, target)?,
        None => program(target)?,
    };
    let shown = file.display();
    let found = match entries(&file, function) {
        Ok(found) => found,
        Err(error) => return Err(no_entry(&error, &spec.text, function, &file)),
    };
    if found.offsets.is_empty() {
        return Err(Failure::new(format!("-e {}: {shown} has no code of it", spec.text)).next(
            "the file that has the code, not the one with the debug information: uprobe:FILE:FUNCTION",
        ));
    }
    if found.offsets.len() > MOST {
        return Err(Failure::new(format!(
            "-e {}: {shown} has {} instances of {}, and at most {MOST} can be watched",
            spec.text,
            found.offsets.len(),
            found.name
        ))
        .next("a function that calls it"));
    }
    Ok(Some(Probe { file, offsets: found.offsets }))
}

/// The program that is recorded.
fn program(target: &Target) -> Result<PathBuf> {
    let found = match target {
        Target::Command(command) => match command.file() {
            // That it is not there is told when it is started.
            Some(file) => Some(file.canonicalize().unwrap_or(file)),
            None => Some(PathBuf::from(&command.program)),
        },
        Target::Processes(pids) => pids.first().map(|pid| process::program_file(*pid)),
        Target::System { .. } => None,
    };
    found.ok_or_else(|| {
        Failure::new("-e: a function is in a file, and for the whole machine none is known")
            .next("uprobe:FILE:FUNCTION, such as uprobe:libc.so.6:malloc")
    })
}

/// A file as it is written, or a library by its name.
fn library(written: &str, target: &Target) -> Result<PathBuf> {
    const FOLDERS: [&str; 6] = [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
        "/usr/local/lib",
        "/usr/lib",
    ];
    let path = Path::new(written);
    if written.contains('/') || path.is_file() {
        return Ok(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    }
    let beside = program(target).ok().and_then(|program| Some(program.parent()?.join(written)));
    let usual = FOLDERS.iter().map(|folder| Path::new(folder).join(written));
    let found = beside.into_iter().chain(usual).find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        Failure::new(format!("-e: there is no library `{written}` in the usual folders"))
            .next("its whole path: uprobe:/path/to/it:FUNCTION")
    })
}

/// Why a function cannot be watched, in words.
fn no_entry(error: &NoEntry, event: &str, function: &str, file: &Path) -> Failure {
    let file = file.display();
    let (what, next) = match error {
        NoEntry::Unreadable(error) => {
            (format!("{file} cannot be read: {error}"), "a program that you may read".to_owned())
        }
        NoEntry::NotElf => (
            format!("{file} is no program with functions (a script?)"),
            "the file that has them: uprobe:FILE:FUNCTION".to_owned(),
        ),
        NoEntry::NoSymbols => (
            format!("{file} does not tell the names of its functions: it is stripped"),
            "build it with `strip = false`, or install its debug symbols".to_owned(),
        ),
        NoEntry::Ambiguous(names) => {
            const MOST: usize = 8;
            let more = names.len().saturating_sub(MOST);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = names.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(", ");
            (
                format!("several functions of {file} are called so: {names}{more}"),
                "the whole name of one of them".to_owned(),
            )
        }
        NoEntry::Inlined => (
            format!("`{function}` has no code of its own in {file}: it is inlined wherever it is called"),
            "#[inline(never)] on it, or a function that calls it".to_owned(),
        ),
        NoEntry::Absent(similar) if similar.is_empty() => (
            format!("{file} has no function `{function}`"),
            format!("`nm -C {file}`, which lists those that it has"),
        ),
        NoEntry::Absent(similar) => (
            format!("{file} has no function `{function}`; similar: {}", similar.join(", ")),
            "one of those".to_owned(),
        ),
    };
    Failure::new(format!("-e {event}: {what}")).next(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(events: &[&str], faults: bool) -> Vec<(String, Option<u64>)> {
        let events = events.iter().map(|list| (*list).to_owned()).collect();
        let options = EventOptions { events, period: Some(7), faults };
        let wanted = options.resolve(&Target::System { while_runs: None }).unwrap();
        wanted.samples.into_iter().map(|wanted| (wanted.name, wanted.period)).collect()
    }

    #[test]
    fn metrics_are_called_by_the_usual_names() {
        let is = |name: &str, period| (name.to_owned(), Some(period));
        assert_eq!(
            names(&["faults:u,cs", "cycles/period=9/"], false),
            [is("page-faults:u", 7), is("context-switches", 7), is("cycles", 9)]
        );
        assert_eq!(
            names(&["page-faults"], true),
            [is("page-faults", 7), is("major-faults", 1)],
            "no event twice"
        );
    }

    #[test]
    fn what_is_no_event_is_an_error_that_says_what_there_is() {
        let fails = |list: &str| {
            let options = EventOptions { events: vec![list.to_owned()], ..EventOptions::default() };
            options.resolve(&Target::System { while_runs: None }).unwrap_err().to_string()
        };
        assert!(fails("cylces").contains("similar: cycles"), "{}", fails("cylces"));
        assert!(fails("cycles:x").contains("no modifiers"));
        assert!(fails("uprobe:main").contains("uprobe:FILE:FUNCTION"), "{}", fails("uprobe:main"));
        let script = format!("uprobe:{}:main", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(fails(&script).contains("no program with functions"), "{}", fails(&script));
    }
}
