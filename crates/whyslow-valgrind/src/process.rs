//! What Valgrind left of each process: its log, its results, and its command.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use whyslow_capture::Command;

/// The names of files, before the number of their process.
pub(crate) const LOG: &str = "log";
pub(crate) const OUTPUT: &str = "out";
/// What is read of a log: more than any that Valgrind's own words fill.
const LONGEST_LOG: u64 = 16 << 20;
/// The part of a log or XML file that says whose it is.
const HEAD: u64 = 64 << 10;

/// A process that ran under Valgrind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessRun {
    /// Its number.
    pub pid: u32,
    /// The process that started it, if its files say so.
    pub parent: Option<u32>,
    /// Its program and arguments; empty if its files do not say so, as after a fork without exec.
    pub command: Vec<String>,
    /// Valgrind's words. With XML, they are in the results, and this file is empty.
    pub log: Option<PathBuf>,
    /// The tool's results. None if the process was killed before it could write them.
    pub output: Option<PathBuf>,
}

impl ProcessRun {
    /// Valgrind's words about this process: without the number of the process before each line, and without what
    /// the program wrote between them (Valgrind 3.19 lets it inherit the log's descriptor).
    pub fn words(&self) -> String {
        let text = self.log.as_deref().map(|log| read(log, LONGEST_LOG)).unwrap_or_default();
        said(&text, self.pid).map(|line| format!("{line}\n")).collect()
    }
}

/// The processes whose files are in a folder, the main one first.
pub(crate) fn found(folder: &Path, main: u32, command: &Command) -> Vec<ProcessRun> {
    let mut all: BTreeMap<u32, ProcessRun> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some((kind, pid)) = name.to_str().and_then(|name| name.split_once('.')) else { continue };
        let Ok(pid) = pid.parse::<u32>() else { continue };
        let process = all.entry(pid).or_insert_with(|| ProcessRun { pid, ..ProcessRun::default() });
        match kind {
            LOG => process.log = Some(entry.path()),
            OUTPUT => process.output = Some(entry.path()),
            _ => {}
        }
    }
    let mut all: Vec<ProcessRun> = all.into_values().collect();
    for process in &mut all {
        let log = process.log.as_deref().map(|log| read(log, HEAD)).unwrap_or_default();
        (process.parent, process.command) = head_of_log(&log, process.pid);
        if process.command.is_empty()
            && let Some(xml) = &process.output
        {
            (process.parent, process.command) = head_of_xml(&read(xml, HEAD));
        }
    }
    all.sort_by_key(|process| process.pid != main);
    // The log escapes its words; those of the main process are known. It may have executed another program.
    if let Some(first) = all.first_mut().filter(|first| first.pid == main) {
        let words = std::iter::once(&command.program).chain(&command.args);
        let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
        if first.command.is_empty() {
            first.command = words;
        }
    }
    all
}

fn read(path: &Path, most: u64) -> String {
    let mut bytes = Vec::new();
    // A file that cannot be read says nothing.
    let _ = File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Valgrind's lines in a log: `==12== Command: ls` and `--12-- warning: x` have the number of the process before
/// them.
fn said(log: &str, pid: u32) -> impl Iterator<Item = &str> {
    let marks = ["==", "--", "**"].map(|mark| format!("{mark}{pid}{mark}"));
    log.lines().filter_map(move |line| {
        // Its decoder knows no process.
        if line.starts_with("vex ") {
            return Some(line);
        }
        let rest = marks.iter().find_map(|mark| Some(line.split_once(mark.as_str())?.1))?;
        Some(rest.strip_prefix(' ').unwrap_or(rest))
    })
}

/// The parent and the command that a log starts with.
fn head_of_log(log: &str, pid: u32) -> (Option<u32>, Vec<String>) {
    let mut lines = said(log, pid);
    let command = lines.by_ref().find_map(|line| line.strip_prefix("Command: ")).map(escaped_words);
    let parent = lines.find_map(|line| line.strip_prefix("Parent PID: ")?.trim().parse().ok());
    (parent, command.unwrap_or_default())
}

/// Words separated by spaces; a backslash stands before a character that a shell would interpret.
fn escaped_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, words.last_mut()) {
            (' ', _) => words.push(String::new()),
            ('\\', Some(word)) => word.extend(characters.next()),
            (other, Some(word)) => word.push(other),
            (_, None) => {}
        }
    }
    words
}

/// The same of an XML file.
fn head_of_xml(xml: &str) -> (Option<u32>, Vec<String>) {
    let between = |text: &str, start: &str, end: &str| -> Option<String> {
        let (_, rest) = text.split_once(start)?;
        Some(rest.split_once(end)?.0.to_owned())
    };
    let parent = between(xml, "<ppid>", "</ppid>").and_then(|pid| pid.trim().parse().ok());
    let Some(argv) = between(xml, "<argv>", "</argv>") else { return (parent, Vec::new()) };
    let program = between(&argv, "<exe>", "</exe>").into_iter();
    let words = argv.split("<arg>").skip(1).filter_map(|word| Some(word.split_once("</arg>")?.0.to_owned()));
    (parent, program.chain(words).map(|word| unescaped(&word)).collect())
}

/// The text of an XML element.
fn unescaped(text: &str) -> String {
    text.replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG_TEXT: &str = "\
==17819== Cachegrind, a cache and branch-prediction profiler
==17819== Command: ./t a\\ \\ b c\\\"
==17819== Parent PID: 17808
==17819== 
--17819-- warning: L3 cache found, using its data for the LL simulation.
";

    #[test]
    fn a_log_says_whose_it_is() {
        let (parent, command) = head_of_log(LOG_TEXT, 17819);
        assert_eq!(parent, Some(17808));
        assert_eq!(command, ["./t", "a  b", "c\""]);
        assert_eq!(head_of_log("garbage", 1), (None, Vec::new()));
    }

    #[test]
    fn xml_says_whose_it_is() {
        let xml = "<pid>2</pid>\n<ppid>1</ppid><args><vargv><exe>vg</exe><arg>-x</arg></vargv>
            <argv><exe>./a</exe><arg>a &amp;lt; b</arg><arg></arg></argv></args>";
        assert_eq!(head_of_xml(xml), (Some(1), vec!["./a".to_owned(), "a &lt; b".to_owned(), String::new()]));
        assert_eq!(head_of_xml("<ppid>1</ppid><argv><exe>cut"), (Some(1), Vec::new()));
    }

    #[test]
    fn processes_are_found_by_their_files() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("log.7", &LOG_TEXT.replace("17819", "7"));
        write("out.7", "");
        write("log.9", "==9== Command: main\n");
        write("log.x", "");
        write("other", "");
        let found = found(folder.path(), 9, &Command::default());
        assert_eq!(found.iter().map(|process| process.pid).collect::<Vec<_>>(), [9, 7]);
        assert_eq!(found[0].output, None);
        assert_eq!(found[1].output, Some(folder.path().join("out.7")));
        assert!(found[1].words().contains("\nwarning: L3 cache found"));
        assert_eq!(found[1].words().lines().next().unwrap().split(',').next(), Some("Cachegrind"));
    }

    #[test]
    fn words_of_the_program_are_no_words_of_valgrind() {
        let log =
            "==12== a\nvex amd64->IR: x\nmine==12==\nmine\n==13== other\n--12-- warning\n**12** x==12==";
        assert_eq!(said(log, 12).collect::<Vec<_>>(), ["a", "vex amd64->IR: x", "", "warning", ""]);
    }
}
