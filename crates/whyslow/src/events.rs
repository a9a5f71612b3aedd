//! The options that choose events: from `-e` to the events that are recorded.

use std::path::{Path, PathBuf};

use clap::Args;
use whyslow_capture::{NotRecorded, Probe, Target, WantedSamples};
use whyslow_events::{EventError, Kind, Machine, NotCounted, Spec, What, parse, usual_name};
use whyslow_proc::process;
use whyslow_processor::Processor;
use whyslow_symbols::{NoEntry, entries};

use crate::failure::{Failure, Result};

/// The events of `--faults`.
const FAULTS: [&str; 2] = ["page-faults", "major-faults"];

/// Events to record in addition to CPU time.
#[derive(Debug, Default, Clone, Args)]
#[command(next_help_heading = "What to record")]
pub(crate) struct EventOptions {
    /// Record these events too, such as cache-misses or 'uprobe:parse' (see `whyslow list`)
    #[arg(short = 'e', long = "event", value_name = "EVENTS")]
    events: Vec<String>,
    /// Sample every Nth event [default: every event; CPU events at -F per second]
    #[arg(short = 'c', long, value_name = "N", requires = "events", value_parser = clap::value_parser!(u64).range(1..))]
    period: Option<u64>,
    /// Record page faults: which code first touches memory
    #[arg(long)]
    faults: bool,
}

/// The requested events.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// Events to record.
    pub(crate) samples: Vec<WantedSamples>,
    /// Events that this machine does not have, or that this user may not record.
    pub(crate) not_there: Vec<NotRecorded>,
}

impl EventOptions {
    /// The events to record of a target. An unknown name is an error; an event that is not permitted is not.
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

/// Parses a list of events.
pub(crate) fn read(list: &str) -> Result<Vec<Spec>> {
    parse(list).map_err(|error| Failure::new(format!("-e: {error}")).next("whyslow list, to see all events"))
}

/// Explains why an event does not exist.
pub(crate) fn explain(error: &EventError) -> Failure {
    let failure = Failure::new(format!("-e: {error}"));
    match error.fix() {
        Some(fix) => failure.next(fix),
        None => failure.next("whyslow list, to see all events"),
    }
}

/// The name of an event's metric: as written, but with the event's usual name.
fn metric_name(spec: &Spec) -> String {
    let What::Named(written) = &spec.what else { return spec.text.clone() };
    match usual_name(written) {
        Some(usual) => spec.text.replacen(written.as_str(), &usual, 1),
        None => spec.text.clone(),
    }
}

/// The addresses of a function, if the event is a uprobe.
fn probe_of(spec: &Spec, target: &Target) -> Result<Option<Probe>> {
    /// More instances would need that many events on each CPU.
    const MAX: usize = 100;
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
        return Err(Failure::new(format!("-e {}: {shown} has no code for it", spec.text))
            .next("uprobe:FILE:FUNCTION with the file that has the code, not the one with the debug info"));
    }
    if found.offsets.len() > MAX {
        return Err(Failure::new(format!(
            "-e {}: {shown} has {} instances of {}; whyslow can probe at most {MAX}",
            spec.text,
            found.offsets.len(),
            found.name
        ))
        .next("a function that calls it"));
    }
    Ok(Some(Probe { file, offsets: found.offsets }))
}

/// The recorded program.
fn program(target: &Target) -> Result<PathBuf> {
    let found = match target {
        Target::Command(command) => match command.file() {
            // Starting the program reports that it is missing.
            Some(file) => Some(file.canonicalize().unwrap_or(file)),
            None => Some(PathBuf::from(&command.program)),
        },
        Target::Processes(pids) => pids.first().map(|pid| process::program_file(*pid)),
        Target::System { .. } => None,
    };
    found.ok_or_else(|| {
        Failure::new("-e uprobe: recording the whole machine needs the file that has the function")
            .next("uprobe:FILE:FUNCTION, such as uprobe:libc.so.6:malloc")
    })
}

/// A file by its path, or a library by its name.
fn library(written: &str, target: &Target) -> Result<PathBuf> {
    const FOLDERS: [&str; 4] = ["/lib64", "/usr/lib64", "/usr/local/lib", "/usr/lib"];
    let path = Path::new(written);
    if written.contains('/') || path.is_file() {
        return Ok(path.canonicalize().unwrap_or_else(|_| path.to_owned()));
    }
    let next_to_program = program(target).ok().and_then(|program| Some(program.parent()?.join(written)));
    let of_processor = ["/lib", "/usr/lib"].map(|lib| Path::new(lib).join(Processor::HOST.library_folder()));
    let usual = of_processor.into_iter().chain(FOLDERS.map(PathBuf::from)).map(|folder| folder.join(written));
    let found = next_to_program.into_iter().chain(usual).find(|path| path.is_file());
    found.and_then(|path| path.canonicalize().ok()).ok_or_else(|| {
        Failure::new(format!("-e: no library `{written}` in the usual folders"))
            .next("its full path: uprobe:/path/to/it:FUNCTION")
    })
}

/// Explains why a function cannot be probed.
fn no_entry(error: &NoEntry, event: &str, function: &str, file: &Path) -> Failure {
    let file = file.display();
    let (what, next) = match error {
        NoEntry::Unreadable(error) => {
            (format!("{file}: cannot be read: {error}"), "a program that you may read".to_owned())
        }
        NoEntry::NotElf => (
            format!("{file} is not a program with functions (a script?)"),
            "uprobe:FILE:FUNCTION with the file that has them".to_owned(),
        ),
        NoEntry::NoSymbols => (
            format!("{file} has no function names: it is stripped"),
            "building it with `strip = false`, or installing its debug symbols".to_owned(),
        ),
        NoEntry::Ambiguous(names) => {
            const MAX: usize = 8;
            let more = names.len().saturating_sub(MAX);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let names = names.iter().take(MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
            (
                format!("several functions in {file} match: {names}{more}"),
                "the full name of one of them".to_owned(),
            )
        }
        NoEntry::Inlined => (
            format!("`{function}` has no code of its own in {file}: every call is inlined"),
            "#[inline(never)] on it, or a function that calls it".to_owned(),
        ),
        NoEntry::Absent(similar) if similar.is_empty() => {
            (format!("{file} has no function `{function}`"), format!("`nm -C {file}`, to list its functions"))
        }
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
    fn metrics_have_the_events_usual_names() {
        let is = |name: &str, period| (name.to_owned(), Some(period));
        assert_eq!(
            names(&["faults:u,cs", "cycles/period=9/"], false),
            [is("page-faults:u", 7), is("context-switches", 7), is("cycles", 9)]
        );
        assert_eq!(
            names(&["page-faults"], true),
            [is("page-faults", 7), is("major-faults", 1)],
            "no event is recorded twice"
        );
    }

    #[test]
    fn unknown_events_are_errors_that_suggest_similar_ones() {
        let fails = |list: &str| {
            let options = EventOptions { events: vec![list.to_owned()], ..EventOptions::default() };
            options.resolve(&Target::System { while_runs: None }).unwrap_err().to_string()
        };
        assert!(fails("cylces").contains("similar: cycles"), "{}", fails("cylces"));
        assert!(fails("cycles:x").contains("are not modifiers"));
        assert!(fails("uprobe:main").contains("uprobe:FILE:FUNCTION"), "{}", fails("uprobe:main"));
        let script = format!("uprobe:{}:main", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
        assert!(fails(&script).contains("not a program with functions"), "{}", fails(&script));
    }
}
