//! Imports Visual Studio's call tree as CSV: `vsperfreport /summary:calltree`, in `…_CallTreeSummary.csv`.
//!
//! ```text
//! Level,Function Name,Inclusive Samples,Exclusive Samples,…,Module Name,
//! Level,Function Name,Number of Calls,Elapsed Inclusive Time %,Elapsed Exclusive Time %,
//!     Avg Elapsed Inclusive Time,Avg Elapsed Exclusive Time,Module Name,
//! ```
//! The first counts samples. The second measures calls: times are shares of the total and averages in milliseconds.

use whyslow_profile::{Metric, Unit};

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

const NS_PER_MS: f64 = 1e6;
const FORMAT: Format = Format::VisualStudio;

/// Deeper lines are skipped.
const DEEPEST: usize = 1000;

pub(super) fn looks_like(start: &[u8]) -> bool {
    header(&String::from_utf8_lossy(start.split(|byte| *byte == b'\n').next().unwrap_or_default())).is_some()
}

/// Where the columns are.
struct Columns {
    level: usize,
    name: usize,
    module: Option<usize>,
    cost: Cost,
}

/// The columns of a function's own cost.
enum Cost {
    Samples(usize),
    /// Its share of the time, and what the total is computed from: the calls, and the share and average of the
    /// time with callees.
    Share {
        own: usize,
        calls: usize,
        inclusive: usize,
        average: usize,
    },
}

fn header(line: &str) -> Option<Columns> {
    let names = lines::comma_separated(line.trim_start_matches('\u{feff}').trim_end());
    let at = |name: &str| names.iter().position(|other| other == name);
    let share = || {
        Some(Cost::Share {
            own: at("Elapsed Exclusive Time %")?,
            calls: at("Number of Calls")?,
            inclusive: at("Elapsed Inclusive Time %")?,
            average: at("Avg Elapsed Inclusive Time")?,
        })
    };
    let cost = at("Exclusive Samples").map(Cost::Samples).or_else(share)?;
    Some(Columns { level: at("Level")?, name: at("Function Name")?, module: at("Module Name"), cost })
}

/// A number as Visual Studio prints it: `2,893,824`.
fn number(text: &str) -> Option<f64> {
    text.replace(',', "").parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// A line of the tree.
struct Row {
    level: usize,
    name: String,
    module: String,
    /// Samples, or per cent of the time.
    own: f64,
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut left_out = lines::LeftOut::default();
    let mut lines = lines::numbered(bytes);
    let columns = lines.next().and_then(|(_, line)| header(&line));
    let columns = columns.ok_or_else(|| {
        ImportError::unusable(FORMAT, "the columns `Level`, `Function Name` and of the cost are missing")
    })?;
    let mut rows: Vec<Row> = Vec::new();
    // The largest product of calls and their average is the most precise.
    let (mut longest_ms, mut total_ms) = (0.0, 0.0);
    let mut depth = 0;
    for (line_number, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let fields = lines::comma_separated(line.trim());
        let field = |at: usize| fields.get(at).map(String::as_str).unwrap_or_default();
        let own = match columns.cost {
            Cost::Samples(own) | Cost::Share { own, .. } => number(field(own)),
        };
        let level = field(columns.level).parse::<usize>().ok().filter(|level| *level <= depth.min(DEEPEST));
        let (Some(own), Some(level)) = (own, level) else {
            left_out.add(line_number, "a line has no level below its caller's, or no cost");
            continue;
        };
        if let Cost::Share { calls, inclusive, average, .. } = columns.cost
            && let (Some(calls), Some(share), Some(average)) =
                (number(field(calls)), number(field(inclusive)), number(field(average)))
            && share > 0.0
            && calls * average > longest_ms
        {
            longest_ms = calls * average;
            total_ms = longest_ms / share * 100.0;
        }
        depth = level + 1;
        let module = columns.module.map(field).unwrap_or_default().to_owned();
        rows.push(Row { level, name: field(columns.name).to_owned(), module, own });
    }
    let (metric, scale) = match columns.cost {
        Cost::Samples(_) => (Metric::of_name("samples", Unit::Count), 1.0),
        Cost::Share { .. } => {
            (Metric::of_name(Metric::WALL_TIME, Unit::Nanoseconds), total_ms / 100.0 * NS_PER_MS)
        }
    };
    let mut stacks = StackText::new(FORMAT, "Visual Studio", metric);
    let mut path: Vec<&Row> = Vec::new();
    for row in &rows {
        path.truncate(row.level);
        path.push(row);
        let frames: Vec<TextFrame<'_>> =
            path.iter().map(|row| TextFrame::new(&row.name, &row.module)).collect();
        stacks.add("", &frames, 0, (row.own * scale).round() as u64);
    }
    stacks.finish(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::testing::folded;

    fn import(text: &str) -> Imported {
        assert!(looks_like(text.as_bytes()));
        read(text.as_bytes(), &ImportOptions::default()).expect("it is a call tree")
    }

    #[test]
    fn shares_become_times_by_calls_and_averages() {
        let imported = import(
            "\u{feff}Level,Function Name,Number of Calls,Elapsed Inclusive Time %,Elapsed Exclusive Time %,\
             Avg Elapsed Inclusive Time,Avg Elapsed Exclusive Time,Module Name,\n\
             0,\"app.exe\",0,100.00,0.00,0.00,0.00,\"\",\n\
             1,\"main(int32,bool)\",1,80.00,30.00,160.00,60.00,\"app.exe\",\n\
             2,\"read\",\"1,000\",50.00,50.00,0.10,0.10,\"lib.dll\",\n\
             1,\"idle\",1,20.00,20.00,40.00,40.00,\"app.exe\",\nx,\"odd\",1,1,1,1,1,\"\",\n",
        );
        assert_eq!(
            folded(&imported),
            [
                "app.exe;idle 40000000",
                "app.exe;main(int32,bool) 60000000",
                "app.exe;main(int32,bool);read 100000000"
            ]
        );
        assert_eq!(imported.profile.meta.notes.len(), 1);
    }

    #[test]
    fn samples_are_counted() {
        let imported = import(
            "Level,Function Name,Inclusive Samples,Exclusive Samples,Module Name,\n\
             0,\"main\",\"1,200\",200,\"app.exe\",\n1,\"work\",\"1,000\",\"1,000\",\"app.exe\",\n",
        );
        assert_eq!(folded(&imported), ["main 200", "main;work 1000"]);
        assert!(!looks_like(b"Level,Function Name,Module Name\n"));
    }
}
