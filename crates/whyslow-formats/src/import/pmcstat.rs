//! Imports the call graphs of FreeBSD's pmcstat: `pmcstat -R FILE -G OUTPUT`.
//!
//! ```text
//! @ EVENT [3 samples]
//!
//! 100.0%  [3]        innermost @ /boot/kernel/kernel
//!  66.67%  [2]         caller
//!   100.0%  [2]          outermost @ /usr/sbin/daemon
//! ```
//! One more space is one level further out. What a line's callers do not cover ends in that line.

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

pub(super) fn looks_like(start: &[u8]) -> bool {
    let line = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    event(&String::from_utf8_lossy(line)).is_some()
}

/// The event of a head: `@ EVENT [3 samples]`.
fn event(line: &str) -> Option<&str> {
    let (event, count) = line.strip_prefix("@ ")?.rsplit_once(" [")?;
    count.trim_end().strip_suffix(" samples]")?.parse::<u64>().ok()?;
    Some(event)
}

/// A line of a call graph.
struct Row {
    level: usize,
    samples: u64,
    name: String,
    module: String,
}

impl Row {
    /// `66.67%  [2]  caller`, with ` @ MODULE` at the end where the module changes.
    fn parse(line: &str) -> Option<Self> {
        let level = line.len() - line.trim_start_matches(' ').len();
        let (share, rest) = line.trim().split_once('%')?;
        share.parse::<f64>().ok()?;
        let (samples, name) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
        let (name, module) = name.trim().split_once(" @ ").unwrap_or((name.trim(), ""));
        let (name, module) = (name.to_owned(), module.trim().to_owned());
        Some(Self { level, samples: samples.parse().ok()?, name, module })
    }
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut stacks = StackText::of_samples(Format::Pmcstat, "pmcstat");
    let mut left_out = lines::LeftOut::default();
    let mut path: Vec<Row> = Vec::new();
    let mut first: Option<String> = None;
    for (number, line) in lines::numbered(bytes) {
        if let Some(event) = event(&line) {
            if first.as_ref().is_some_and(|first| first != event) {
                left_out.add(number, "a second event, which is not read");
                break;
            }
            first = Some(event.to_owned());
            continue;
        }
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        match Row::parse(&line) {
            Some(mut row) if row.level <= path.len() => {
                close(&mut stacks, &mut path, row.level);
                if let Some(inner) = path.last_mut() {
                    inner.samples = inner.samples.saturating_sub(row.samples);
                    if row.module.is_empty() {
                        row.module.clone_from(&inner.module);
                    }
                }
                path.push(row);
            }
            Some(_) => left_out.add(number, "a line without the function that it calls"),
            None => left_out.add(number, "no share and number of samples"),
        }
    }
    close(&mut stacks, &mut path, 0);
    stacks.finish(left_out)
}

/// Removes the rows from a level on, and adds the stacks that end in them.
fn close(stacks: &mut StackText, path: &mut Vec<Row>, level: usize) {
    while path.len() > level {
        // The path leads from the innermost function outwards.
        let frames: Vec<TextFrame<'_>> =
            path.iter().rev().map(|row| TextFrame::new(&row.name, &row.module)).collect();
        stacks.add("", &frames, 0, path.last().map_or(0, |row| row.samples));
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::testing::folded;

    #[test]
    fn graphs_are_read_from_the_inside() {
        let text = "@ cycles [10 samples]\n\n60.00%  [6]        copy @ /boot/kernel/kernel\n\
            \x2083.33%  [5]         write\n  80.00%  [4]          main @ /bin/app\n  20.00%  [1]          flush\n\n\
            # comment\n40.00%  [4]        idle @ /boot/kernel/kernel\nodd\n";
        assert!(looks_like(text.as_bytes()));
        let imported = read(text.as_bytes(), &ImportOptions::default()).expect("it is a call graph");
        assert_eq!(folded(&imported), ["copy 1", "flush;write;copy 1", "idle 4", "main;write;copy 4"]);
        let profile = &imported.profile;
        let mut modules: Vec<&str> = profile.modules.iter().map(|module| profile.text(module.path)).collect();
        modules.sort_unstable();
        assert_eq!(modules, ["/bin/app", "/boot/kernel/kernel"]);
        assert_eq!(profile.meta.notes.len(), 1);
        assert!(!looks_like(b"@ mail [3 letters]\n"));
    }
}
