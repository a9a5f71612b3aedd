//! DHAT's JSON, version 2, as Valgrind's DHAT and the dhat crate write it: one row per place that allocates.

use serde::Deserialize;
use whyslow_profile::{Frame, LocationId, MetricId, ThreadId, Unit};

use super::assemble::{Assembly, FunctionText};
use super::json::{self, Index, Number, Text};
use super::{Format, ImportError, ImportOptions, Imported};

#[derive(Deserialize)]
struct File<'a> {
    #[serde(rename = "dhatFileVersion")]
    version: u32,
    #[serde(borrow)]
    mode: Option<Text<'a>>,
    #[serde(borrow)]
    bsu: Option<Text<'a>>,
    #[serde(borrow)]
    bksu: Option<Text<'a>>,
    #[serde(borrow)]
    cmd: Option<Text<'a>>,
    pid: Option<Index>,
    #[serde(borrow)]
    tu: Option<Text<'a>>,
    te: Option<Number>,
    pps: Vec<Point>,
    #[serde(borrow)]
    ftbl: Vec<Text<'a>>,
}

/// A place that allocates: what it did in total, what of that lived at the peak and at the end, and its stack.
#[derive(Deserialize)]
struct Point {
    #[serde(default)]
    tb: u64,
    #[serde(default)]
    tbk: u64,
    gb: Option<u64>,
    gbk: Option<u64>,
    eb: Option<u64>,
    ebk: Option<u64>,
    rb: Option<u64>,
    wb: Option<u64>,
    /// Innermost first.
    fs: Vec<Index>,
}

pub(super) fn looks_like(start: &[u8]) -> bool {
    json::has_key(start, "dhatFileVersion")
}

/// The metrics: name, unit, and the value of a point. Those that no point has are left away.
type Column = (&'static str, Unit, fn(&Point) -> Option<u64>);
const COLUMNS: [Column; 8] = [
    ("allocated-bytes", Unit::Bytes, |point| Some(point.tb)),
    ("allocations", Unit::Count, |point| Some(point.tbk)),
    ("peak-bytes", Unit::Bytes, |point| point.gb),
    ("peak-blocks", Unit::Count, |point| point.gbk),
    ("end-bytes", Unit::Bytes, |point| point.eb),
    ("end-blocks", Unit::Count, |point| point.ebk),
    ("read-bytes", Unit::Bytes, |point| point.rb),
    ("written-bytes", Unit::Bytes, |point| point.wb),
];

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let file: File<'_> = json::parse(Format::Dhat, bytes)?;
    if file.version != 2 {
        let what = format!("its version is {}, and 2 is the one that is read", file.version);
        return Err(ImportError::unusable(Format::Dhat, what));
    }
    let mode = file.mode.as_ref().map_or("heap", Text::as_str);
    let mut assembly = Assembly::new(&format!("DHAT ({mode})"));
    let command = file.cmd.as_ref().map_or("", Text::as_str);
    assembly.profile.meta.command = command.split_whitespace().map(str::to_owned).collect();
    if let (Some("us"), Some(end)) = (file.tu.as_ref().map(Text::as_str), file.te) {
        assembly.profile.meta.duration_ns = json::nanoseconds(end.0, 1e3);
    }
    let program = command.split_whitespace().next().unwrap_or("program");
    let pid = file.pid.and_then(|pid| pid.0).unwrap_or(0);
    let process = assembly.process(pid, program.rsplit('/').next().unwrap_or(program));
    let thread = assembly.thread(process, pid, "all threads");

    let custom =
        |unit: &Option<Text<'_>>, usual: &str| unit.as_ref().is_some_and(|unit| unit.as_str() != usual);
    if custom(&file.bsu, "bytes") || custom(&file.bksu, "blocks") {
        let unit = file.bsu.as_ref().map_or("units", Text::as_str);
        assembly.note(format!("its values are counted in {unit}, not in bytes"));
    }
    let locations: Vec<LocationId> =
        file.ftbl.iter().map(|frame| location(&mut assembly, frame.as_str())).collect();
    let columns: Vec<(MetricId, Column)> = COLUMNS
        .into_iter()
        .filter(|(.., value)| file.pps.iter().any(|point| value(point).is_some()) || file.pps.is_empty())
        .map(|column| (assembly.metric(column.0, column.1), column))
        .collect();
    for (row, point) in file.pps.iter().enumerate() {
        add(&mut assembly, row, point, &locations, &columns, thread)?;
    }
    assembly.note("the format has no times and no threads: all samples are at the start, on one thread");
    assembly.finish()
}

fn add(
    assembly: &mut Assembly,
    row: usize,
    point: &Point,
    locations: &[LocationId],
    columns: &[(MetricId, Column)],
    thread: ThreadId,
) -> Result<(), ImportError> {
    let mut stack = None;
    for frame in point.fs.iter().rev() {
        let Some(&location) = frame.of(locations) else {
            let what = format!("point {row} uses a frame beyond the {} there are", locations.len());
            return Err(ImportError::unusable(Format::Dhat, what));
        };
        stack = Some(assembly.stack(stack, location));
    }
    let stack = stack.unwrap_or_else(|| {
        let unknown = assembly.location(None, 0, &[]);
        assembly.stack(None, unknown)
    });
    for &(metric, (.., value)) in columns {
        if let Some(value) = value(point).filter(|&value| value > 0) {
            assembly.sample(metric, 0, thread, stack, value);
        }
    }
    Ok(())
}

/// The place of a frame such as `0x10A2B3: app::f (main.rs:12)`, `[root]`, or `0x4: ??? (in /usr/lib/libc.so.6)`.
fn location(assembly: &mut Assembly, text: &str) -> LocationId {
    let (address, rest) = match text.strip_prefix("0x").and_then(|rest| rest.split_once(": ")) {
        Some((digits, rest)) => (u64::from_str_radix(digits, 16).unwrap_or(0), rest),
        None => (0, text),
    };
    let (name, place) = match rest.strip_suffix(')').and_then(|rest| rest.rsplit_once(" (")) {
        Some((name, place)) => (name, place),
        None => (rest, ""),
    };
    let (file, line) = match place.strip_prefix("in ") {
        Some(_) => (None, 0),
        None => file_and_line(place),
    };
    let module =
        place.strip_prefix("in ").map(|path| format!("[{}]", path.rsplit('/').next().unwrap_or(path)));
    let name = match (name, &module) {
        ("???", Some(module)) => module.as_str(),
        _ => name,
    };
    let function = assembly.function(&FunctionText { name, file, line: 0, module: None });
    let file = file.map(|file| assembly.text(file));
    assembly.location(None, address, &[Frame { function, file, line }])
}

/// `main.rs:12` or `main.rs:12:5`.
fn file_and_line(place: &str) -> (Option<&str>, u32) {
    let Some((before, last)) = place.rsplit_once(':') else {
        return (Some(place).filter(|place| !place.is_empty()), 0);
    };
    let Ok(last) = last.parse() else { return (Some(place), 0) };
    match before.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) {
        Some((file, line)) => (Some(file), line),
        None => (Some(before), last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_apart() {
        assert_eq!(file_and_line("main.rs:12"), (Some("main.rs"), 12));
        assert_eq!(file_and_line("src/main.rs:12:5"), (Some("src/main.rs"), 12));
        assert_eq!(file_and_line("vg_replace_malloc.c"), (Some("vg_replace_malloc.c"), 0));
        assert_eq!(file_and_line(""), (None, 0));
    }
}
