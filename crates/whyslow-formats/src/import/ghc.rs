//! Imports the report of GHC's profiler: `PROGRAM +RTS -p` (or `-P`), in `PROGRAM.prof`.
//!
//! ```text
//!         total time  =        0.02 secs   (20 ticks @ 1000 us, 1 processor)
//!                                               individual      inherited
//! COST CENTRE  MODULE  SRC         no. entries  %time %alloc   %time %alloc  ticks bytes
//!
//! MAIN         MAIN    <built-in>  100       0    0.0    0.0   100.0  100.0      0   760
//!  main        Main    a.hs:3:1-9  200       1   75.0   50.0   100.0  100.0     15  4096
//! ```
//! One more space is one level deeper. `-P` adds the last two columns; without them, times are shares of the total.

use whyslow_profile::{Metric, Sampler};

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

const TITLE: &[u8] = b"Time and Allocation Profiling Report";
const NS_PER_SECOND: f64 = 1e9;

pub(super) fn looks_like(start: &[u8]) -> bool {
    let first = start.trim_ascii_start().split(|byte| *byte == b'\n').next().unwrap_or_default();
    memchr::memmem::find(first, TITLE).is_some()
}

/// A cost centre that is on the stack.
struct Centre {
    /// `Module.name`.
    name: String,
    file: Option<String>,
    line: u32,
}

/// What the tree's columns hold.
struct Columns {
    has_ticks: bool,
}

impl Columns {
    fn of(line: &str) -> Option<Self> {
        let is_tree = line.starts_with("COST CENTRE") && line.contains("entries");
        is_tree.then(|| Self { has_ticks: line.contains("ticks") })
    }

    /// How many numbers are at the end of a line: number, entries, four shares, ticks and bytes.
    fn numbers(&self) -> usize {
        if self.has_ticks { 8 } else { 6 }
    }
}

/// The whole time, and that of a tick, in nanoseconds.
#[derive(Default)]
struct Total {
    ns: f64,
    tick_ns: f64,
}

impl Total {
    /// `0.02 secs   (20 ticks @ 1000 us, 1 processor)`. The seconds are rounded, so ticks count if they are there.
    fn parse(text: &str) -> Option<Self> {
        let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
        let ticks = || -> Option<Self> {
            let (count, rest) = text.split_once('(')?.1.split_once(" ticks @ ")?;
            let tick_ns = rest.split_once(" us")?.0.trim().parse::<f64>().ok()? * 1000.0;
            Some(Self { ns: count.trim().parse::<f64>().ok()? * tick_ns, tick_ns })
        };
        Some(ticks().unwrap_or(Self { ns: seconds * NS_PER_SECOND, tick_ns: 0.0 }))
    }
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut stacks = StackText::new(Format::Ghc, "GHC", Metric::cpu_time(Sampler::default()));
    let mut left_out = lines::LeftOut::default();
    let (mut total, mut columns) = (Total::default(), None);
    let mut path: Vec<Centre> = Vec::new();
    for (number, line) in lines::numbered(bytes) {
        if let Some((_, text)) = line.split_once("total time").and_then(|(_, rest)| rest.split_once('=')) {
            total = Total::parse(text).unwrap_or_default();
            continue;
        }
        let Some(columns) = &columns else {
            columns = Columns::of(&line);
            continue;
        };
        if line.trim().is_empty() {
            continue;
        }
        let level = line.len() - line.trim_start_matches(' ').len();
        let Some((centre, ns)) = row(&line, columns, &total) else {
            left_out.add(number, "a cost centre has no time");
            continue;
        };
        if level > path.len() {
            left_out.add(number, "a cost centre has no caller");
            continue;
        }
        path.truncate(level);
        path.push(centre);
        let frames: Vec<TextFrame<'_>> = path
            .iter()
            .map(|Centre { name, file, line }| TextFrame {
                name,
                module: "",
                file: file.as_deref(),
                line: *line,
            })
            .collect();
        stacks.add("", &frames, 0, ns);
    }
    if columns.is_none() {
        return Err(ImportError::unusable(Format::Ghc, "the tree of cost centres is missing"));
    }
    stacks.finish(left_out)
}

/// The cost centre of a line, and its own time.
fn row(line: &str, columns: &Columns, total: &Total) -> Option<(Centre, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let numbers = words.len().checked_sub(columns.numbers()).filter(|at| *at >= 2)?;
    let (share, ticks) = (words[numbers + 2], words.get(numbers + 6));
    let ns = match ticks {
        Some(ticks) if total.tick_ns > 0.0 => ticks.parse::<f64>().ok()? * total.tick_ns,
        _ => share.parse::<f64>().ok()? / 100.0 * total.ns,
    };
    let (file, line) = place(&words[2..numbers].join(" "));
    Some((Centre { name: format!("{}.{}", words[1], words[0]), file, line }, ns.round() as u64))
}

/// The file and line of `a.hs:3:1-9` or `a.hs:(3,1)-(5,9)`.
fn place(source: &str) -> (Option<String>, u32) {
    let Some((file, rest)) = source.split_once(':').filter(|_| !source.starts_with('<')) else {
        return (None, 0);
    };
    let digits = rest.trim_start_matches('(');
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (Some(file.to_owned()), digits[..end].parse().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use whyslow_profile::LocationId;

    use super::*;
    use crate::import::testing::folded;

    const HEAD: &str = "\tMon Jan  5 10:00 2026 Time and Allocation Profiling Report  (Final)\n\n\
        \t   app +RTS -P -RTS\n\n\ttotal time  =        0.02 secs   (20 ticks @ 1000 us, 1 processor)\n\n\
        COST CENTRE MODULE SRC        %time %alloc\n\nmain        Main   a.hs:3:1-9  75.0   50.0\n\n\n";

    fn import(tree: &str) -> Imported {
        let text = format!("{HEAD}{tree}");
        assert!(looks_like(text.as_bytes()));
        read(text.as_bytes(), &ImportOptions::default()).expect("it is a report")
    }

    #[test]
    fn ticks_are_the_times_of_cost_centres() {
        let imported = import(
            "COST CENTRE MODULE SRC no. entries %time %alloc %time %alloc ticks bytes\n\n\
             MAIN MAIN <built-in> 100 0 0.0 0.0 100.0 100.0 0 760\n\
             \x20main Main a.hs:3:1-9 200 1 75.0 50.0 100.0 100.0 15 4096\n\
             \x20 go.\u{3b1} Main a.hs:(5,1)-(7,9) 201 9 25.0 50.0 25.0 50.0 5 4096\n\
             \x20CAF Data.Map <no location info> 202 0 0.0 0.0 0.0 0.0 0 8\n",
        );
        assert_eq!(
            folded(&imported),
            ["MAIN.MAIN;Main.main 15000000", "MAIN.MAIN;Main.main;Main.go.\u{3b1} 5000000"]
        );
        let frames = (0..9).flat_map(|row| imported.profile.frames.of(LocationId(row)));
        let lines: Vec<u32> = frames.map(|frame| frame.line).collect();
        assert!(lines.contains(&3) && lines.contains(&5), "{lines:?}");
    }

    #[test]
    fn without_ticks_times_are_shares_of_the_total() {
        let imported = import(
            "COST CENTRE MODULE no. entries %time %alloc %time %alloc\n\n\
             MAIN MAIN 100 0 10.0 0.0 100.0 100.0\n main Main 200 1 90.0 50.0 90.0 100.0\n\
             \x20  lost Main 201 1 0.0 0.0 0.0 0.0\n odd\n",
        );
        assert_eq!(folded(&imported), ["MAIN.MAIN 2000000", "MAIN.MAIN;Main.main 18000000"]);
        assert_eq!(imported.profile.meta.notes.len(), 1);
    }

    #[test]
    fn a_report_without_a_tree_is_an_error() {
        let error = read(HEAD.as_bytes(), &ImportOptions::default()).expect_err("no tree").to_string();
        assert_eq!(error, "cannot be used as a GHC profile: the tree of cost centres is missing");
    }
}
