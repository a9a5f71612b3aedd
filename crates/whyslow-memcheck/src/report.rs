//! What memcheck says of each process: its XML, protocol 4 and later, in memcheck's own terms.

use std::collections::HashMap;

use crate::descriptors::OpenDescriptor;
use crate::xml::{self, Element};

/// One process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// That of the process that started it.
    pub parent: u32,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Valgrind's version as it names itself: `3.19.0`.
    pub version: String,
    /// Whether another process forked it, without executing a program.
    pub is_forked: bool,
    /// The reports in order.
    pub reports: Vec<Report>,
    /// How often each report happened, by its number.
    pub counts: HashMap<u64, u64>,
    /// Names of suppressions, and how many reports each suppressed.
    pub suppressed: Vec<(String, u64)>,
    /// The signal that ended it.
    pub crash: Option<Crash>,
    /// Stacks of descriptors: older versions write them without a report around them.
    pub loose_stacks: Vec<Vec<Frame>>,
    /// How far memcheck came.
    pub state: State,
}

/// How far memcheck came with a process.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Its report ends in the middle.
    #[default]
    Cut,
    /// It executed another program, whose report follows. Its leaks were not checked.
    Replaced,
    /// Leaks are checked, everything is counted.
    Finished,
}

/// One error or leak.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Report {
    /// Its number in the process.
    pub unique: u64,
    /// memcheck's number of the thread, 1 for the main thread.
    pub thread: u32,
    /// The thread's name, if it has one.
    pub thread_name: String,
    /// memcheck's name for the kind: `InvalidRead`.
    pub kind: String,
    /// What happened, in memcheck's words.
    pub what: String,
    /// For leaks, how much.
    pub leaked: Option<Leaked>,
    /// For descriptors, its number and file.
    pub descriptor: Option<(u64, String)>,
    /// Where, innermost first.
    pub stack: Vec<Frame>,
    /// More about it.
    pub notes: Vec<Note>,
    /// The suppression that would hide it, as Valgrind writes it; empty if it was not asked for.
    pub suppression: String,
}

/// More about a report: a sentence, and the stack that it is about.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Note {
    /// memcheck's words.
    pub text: String,
    /// Innermost first.
    pub stack: Vec<Frame>,
}

/// How much a leak is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Leaked {
    /// Bytes, with those of indirectly lost blocks.
    pub bytes: u64,
    /// Blocks without indirectly lost ones.
    pub blocks: u64,
    /// Those of the bytes that are lost with others that point to them.
    pub indirect: u64,
}

/// A signal that ended the process.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Crash {
    /// memcheck's number of the thread.
    pub thread: u32,
    /// `SIGSEGV`
    pub signal: String,
    /// What happened, in memcheck's words; may be empty.
    pub event: String,
    /// The address that was accessed.
    pub address: Option<u64>,
    /// Where, innermost first.
    pub stack: Vec<Frame>,
}

/// A frame of a stack.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The address of the instruction.
    pub address: u64,
    /// The program or library.
    pub object: String,
    /// The function; empty if unknown.
    pub function: String,
    /// The folder of the source file.
    pub folder: String,
    /// The source file; empty if unknown.
    pub file: String,
    /// The line; 0 if unknown.
    pub line: u32,
}

impl Frame {
    /// The path of the source file, as far as known.
    pub fn path(&self) -> Option<String> {
        match (self.folder.as_str(), self.file.as_str()) {
            (_, "") => None,
            ("", file) => Some(file.to_owned()),
            (_, file) if file.starts_with('/') => Some(file.to_owned()),
            (folder, file) => Some(format!("{}/{file}", folder.trim_end_matches('/'))),
        }
    }
}

/// Reads memcheck's XML: usually one process, several if it executed other programs. If a forked process wrote into
/// its parent's file, as in older versions, it is a process of its own here.
pub fn read(bytes: &[u8]) -> Vec<Process> {
    let root = xml::elements(bytes);
    let mut processes = Vec::new();
    // The start of a file can be missing.
    if root.child("error").is_some() || root.child("suppcounts").is_some() {
        processes.push(process(&root));
    }
    for output in root.all(OUTPUT) {
        add(output, &mut processes);
    }
    for at in 1..processes.len() {
        let (before, rest) = processes.split_at_mut(at);
        if let Some(replaced) = before.last_mut().filter(|process| process.pid == rest[0].pid)
            && replaced.state == State::Cut
        {
            replaced.state = State::Replaced;
        }
    }
    processes
}

impl Process {
    /// Adds the descriptors that are open at exit, from the log: older versions have only their stacks in the XML,
    /// in the same order.
    pub fn add_descriptors(&mut self, open: &[OpenDescriptor]) {
        let has_stacks = open.len() == self.loose_stacks.len();
        for (at, descriptor) in open.iter().enumerate() {
            let stack = if has_stacks { self.loose_stacks[at].clone() } else { Vec::new() };
            self.reports.push(Report {
                // No number that memcheck gives.
                unique: u64::MAX,
                kind: "FdNotClosed".to_owned(),
                what: descriptor.what.clone(),
                descriptor: Some((descriptor.number, descriptor.what.clone())),
                stack,
                ..Report::default()
            });
        }
    }
}

const OUTPUT: &str = "valgrindoutput";

/// Adds the process of an element, and those inside it.
fn add(output: &Element, processes: &mut Vec<Process>) {
    let at = processes.len();
    processes.push(Process::default());
    let process = process(output);
    processes[at] = process;
    for inner in output.all(OUTPUT) {
        add(inner, processes);
    }
}

fn process(output: &Element) -> Process {
    let mut process = Process {
        pid: small(output, "pid"),
        parent: small(output, "ppid"),
        is_forked: !output.all("status").any(|status| status.text_of("state") == "RUNNING"),
        ..Process::default()
    };
    if let Some(argv) = output.child("args").and_then(|args| args.child("argv")) {
        process.command = argv.children.iter().map(|word| word.text.trim().to_owned()).collect();
    }
    if let Some(preamble) = output.child("preamble") {
        let version = preamble.children.iter().find_map(|line| line.text.split_once("Valgrind-"));
        let version = version.and_then(|(_, rest)| rest.split([' ', ',']).next());
        process.version = version.unwrap_or_default().to_owned();
    }
    for element in &output.children {
        match element.name.as_str() {
            "error" => process.reports.extend(report(element)),
            "errorcounts" => {
                for pair in element.all("pair") {
                    if let (Some(unique), Some(count)) = (pair.number_of("unique"), pair.number_of("count")) {
                        // A later list has the whole count.
                        process.counts.insert(unique, count);
                    }
                }
            }
            "suppcounts" => {
                let pairs = element.all("pair").map(|pair| (pair.text_of("name"), pair.number_of("count")));
                let named = pairs.filter(|(name, _)| !name.is_empty());
                process.suppressed =
                    named.map(|(name, count)| (name.to_owned(), count.unwrap_or(1))).collect();
                // It is the last of all.
                process.state = if element.is_cut { State::Cut } else { State::Finished };
            }
            "fatal_signal" => process.crash = Some(crash(element)),
            "stack" => process.loose_stacks.push(frames(element)),
            _ => {}
        }
    }
    process
}

fn small(element: &Element, name: &str) -> u32 {
    element.number_of(name).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}

/// A report; `None` if it is cut off before it says what happened.
fn report(element: &Element) -> Option<Report> {
    let mut report = Report {
        unique: element.number_of("unique").unwrap_or(0),
        thread: small(element, "tid"),
        thread_name: element.text_of("threadname").to_owned(),
        kind: element.text_of("kind").to_owned(),
        ..Report::default()
    };
    let mut has_stack = false;
    for child in &element.children {
        match child.name.as_str() {
            "what" => report.what = child.text.trim().to_owned(),
            "xwhat" => {
                report.what = child.text_of("text").to_owned();
                let blocks = child.number_of("leakedblocks");
                let bytes = child.number_of("leakedbytes");
                let indirect = indirect_bytes(&report.what);
                report.leaked = bytes.map(|bytes| Leaked { bytes, blocks: blocks.unwrap_or(0), indirect });
            }
            "fd" => report.descriptor.get_or_insert_default().0 = xml::number(child.text.trim()).unwrap_or(0),
            "path" => report.descriptor.get_or_insert_default().1 = child.text.trim().to_owned(),
            "auxwhat" => report.notes.push(Note { text: child.text.trim().to_owned(), stack: Vec::new() }),
            "xauxwhat" => {
                report.notes.push(Note { text: child.text_of("text").to_owned(), stack: Vec::new() });
            }
            "stack" => {
                let stack = frames(child);
                match report.notes.last_mut() {
                    Some(note) if has_stack => note.stack = stack,
                    _ if has_stack => {}
                    _ => (report.stack, has_stack) = (stack, true),
                }
            }
            "suppression" => report.suppression = child.text_of("rawtext").to_owned(),
            _ => {}
        }
    }
    (!report.kind.is_empty() && !report.what.is_empty()).then_some(report)
}

/// `41 (8 direct, 33 indirect) bytes in 1 blocks are definitely lost in loss record 3 of 3`
fn indirect_bytes(what: &str) -> u64 {
    let number = what.split_once(" direct, ").and_then(|(_, rest)| rest.split_once(" indirect)"));
    number.and_then(|(number, _)| number.replace(',', "").parse().ok()).unwrap_or(0)
}

fn crash(element: &Element) -> Crash {
    Crash {
        thread: small(element, "tid"),
        signal: element.text_of("signame").to_owned(),
        event: element.text_of("event").to_owned(),
        address: element.number_of("siaddr"),
        stack: element.child("stack").map(frames).unwrap_or_default(),
    }
}

fn frames(stack: &Element) -> Vec<Frame> {
    let frame = |frame: &Element| Frame {
        address: frame.number_of("ip").unwrap_or(0),
        object: frame.text_of("obj").to_owned(),
        function: frame.text_of("fn").to_owned(),
        folder: frame.text_of("dir").to_owned(),
        file: frame.text_of("file").to_owned(),
        line: small(frame, "line"),
    };
    stack.all("frame").filter(|frame| !frame.is_cut).map(frame).collect()
}

#[cfg(test)]
mod tests;
