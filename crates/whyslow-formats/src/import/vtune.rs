//! Imports VTune's report of stacks as CSV: `vtune -R top-down -call-stack-mode all -column="CPU Time:Self",Module
//! -report-out FILE -format csv -csv-delimiter comma`.
//!
//! ```text
//! Function Stack,CPU Time:Self,Module
//! Total,0.0,[Unknown]
//!  main,0.25,app
//! ```
//! One more space is one level deeper. Times are seconds.

use whyslow_profile::{Metric, Sampler};

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

const NS_PER_SECOND: f64 = 1e9;

pub(super) fn looks_like(start: &[u8]) -> bool {
    header(&String::from_utf8_lossy(start.split(|byte| *byte == b'\n').next().unwrap_or_default())).is_some()
}

/// Where the columns are.
#[derive(Debug, Clone, Copy)]
struct Columns {
    time: usize,
    module: Option<usize>,
}

fn header(line: &str) -> Option<Columns> {
    let names = lines::comma_separated(line.trim_start_matches('\u{feff}').trim_end());
    if names.first()? != "Function Stack" {
        return None;
    }
    let time = names.iter().position(|name| name.starts_with("CPU Time:Self"))?;
    Some(Columns { time, module: names.iter().position(|name| name == "Module") })
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut stacks = StackText::new(Format::Vtune, "VTune", Metric::cpu_time(Sampler::default()));
    let mut left_out = lines::LeftOut::default();
    let mut lines = lines::numbered(bytes);
    let columns = lines.next().and_then(|(_, line)| header(&line));
    let columns = columns.ok_or_else(|| {
        ImportError::unusable(Format::Vtune, "the columns `Function Stack` and `CPU Time:Self` are missing")
    })?;
    // Name and module of each level.
    let mut path: Vec<(String, String)> = Vec::new();
    for (number, line) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let level = line.len() - line.trim_start_matches(' ').len();
        let fields = lines::comma_separated(line.trim());
        let seconds = fields.get(columns.time).and_then(|time| time.parse::<f64>().ok());
        let (Some(name), Some(seconds)) = (fields.first(), seconds) else {
            left_out.add(number, "a line has no time");
            continue;
        };
        if level > path.len() {
            left_out.add(number, "a line has no caller");
            continue;
        }
        let module = columns.module.and_then(|at| fields.get(at)).filter(|module| *module != "[Unknown]");
        path.truncate(level);
        path.push((name.clone(), module.cloned().unwrap_or_default()));
        // The first level is the sum of all.
        let frames: Vec<TextFrame<'_>> =
            path.iter().skip(1).map(|(name, module)| TextFrame::new(name, module)).collect();
        stacks.add("", &frames, 0, (seconds * NS_PER_SECOND).round() as u64);
    }
    stacks.finish(left_out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::testing::folded;

    #[test]
    fn own_times_are_the_stacks() {
        let text = "Function Stack,CPU Time:Self,Module\nTotal,0.0,[Unknown]\n main,0.5,app\n\
            \x20 \"f<a, b>\",0.25,app\n   read,0.125,libc.so\n  g,0.0,app\n  h,x,app\n";
        assert!(looks_like(text.as_bytes()));
        let imported = read(text.as_bytes(), &ImportOptions::default()).expect("it is a report");
        assert_eq!(
            folded(&imported),
            ["main 500000000", "main;f<a, b> 250000000", "main;f<a, b>;read 125000000"]
        );
        assert_eq!(imported.profile.meta.notes.len(), 1);
        assert!(!looks_like(b"Function,CPU Time\n"));
    }
}
