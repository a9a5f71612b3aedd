//! DHAT's JSON, version 2, as its viewer reads it. Frames are named from inside the program.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use rustc_hash::FxHashMap;

use crate::outcome::Site;
use crate::profiler::Recorded;
use crate::stack::Place;
use crate::symbols::{Frame, Symbols};

/// Blocks that live less than so many microseconds are called short-lived.
const SHORT_LIVED_US: u64 = 10;

/// The frames of all points, each once.
struct FrameTable {
    texts: Vec<String>,
    rows: FxHashMap<String, usize>,
}

impl FrameTable {
    fn row(&mut self, text: String) -> usize {
        *self.rows.entry(text).or_insert_with_key(|text| {
            self.texts.push(text.clone());
            self.texts.len() - 1
        })
    }
}

fn frame_text(place: Place, frame: &Frame) -> String {
    let mut text = format!("{:#x}: {}", place.return_address.saturating_sub(1), frame.function);
    if let Some(file) = &frame.file {
        let _ = write!(text, " ({file}:{}:{})", frame.line, frame.column);
    }
    text
}

/// The numbers of one point of the file.
#[derive(Default)]
struct Point {
    numbers: [u64; 9],
    frames: Vec<usize>,
}

const NAMES: [&str; 9] = ["tb", "tbk", "tl", "mb", "mbk", "gb", "gbk", "eb", "ebk"];

fn numbers(site: &Site) -> [u64; 9] {
    [
        site.made.bytes,
        site.made.blocks,
        site.lifetime_ns / 1000,
        site.most.bytes,
        site.most.blocks,
        site.at_peak.bytes,
        site.at_peak.blocks,
        site.live.bytes,
        site.live.blocks,
    ]
}

/// Writes what was recorded.
pub(crate) fn write(recorded: &Recorded, path: &Path) -> io::Result<()> {
    let mut symbols = Symbols::new();
    // The viewer takes row 0 for the root.
    let mut table = FrameTable { texts: vec!["[root]".to_owned()], rows: FxHashMap::default() };
    let mut points: Vec<Point> = Vec::new();
    let mut point_of: FxHashMap<Vec<usize>, usize> = FxHashMap::default();
    for site in &recorded.outcome.sites {
        let named = symbols.of_stack(site.stack);
        let mut frames: Vec<usize> =
            named.iter().map(|(place, frame)| table.row(frame_text(*place, frame))).collect();
        if frames.is_empty() {
            frames.push(table.row("[stack not known]".to_owned()));
        }
        frames.truncate(recorded.settings.most_frames.unwrap_or(usize::MAX));
        // The viewer refuses a file in which two points have the same frames.
        let row = *point_of.entry(frames).or_insert_with_key(|frames| {
            points.push(Point { frames: frames.clone(), ..Point::default() });
            points.len() - 1
        });
        for (sum, number) in points[row].numbers.iter_mut().zip(numbers(site)) {
            *sum += number;
        }
    }

    let command =
        std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let mut json = format!(
        "{{\"dhatFileVersion\":2,\"mode\":\"rust-heap\",\"verb\":\"Allocated\",\"bklt\":true,\"bkacc\":false,\
         \"tu\":\"us\",\"Mtu\":\"s\",\"tuth\":{SHORT_LIVED_US},\"cmd\":{},\"pid\":{},\"tg\":{},\"te\":{},\"pps\":[",
        quoted(&command),
        std::process::id(),
        recorded.outcome.totals.peak_ns / 1000,
        recorded.outcome.end_ns / 1000,
    );
    for (number, point) in points.iter().enumerate() {
        json.push_str(if number == 0 { "\n{" } else { ",\n{" });
        for (name, number) in NAMES.iter().zip(point.numbers) {
            let _ = write!(json, "\"{name}\":{number},");
        }
        let frames: Vec<String> = point.frames.iter().map(ToString::to_string).collect();
        let _ = write!(json, "\"fs\":[{}]}}", frames.join(","));
    }
    json.push_str("],\"ftbl\":[");
    for (number, text) in table.texts.iter().enumerate() {
        json.push_str(if number == 0 { "\n" } else { ",\n" });
        json.push_str(&quoted(text));
    }
    json.push_str("]}\n");
    fs::write(path, json)
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(json, "\\u{:04x}", u32::from(control));
            }
            other => json.push(other),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_by_a_json_reader() {
        for text in ["", "plain", "a \"quote\" and \\", "line\nend\t\u{1}\u{7f}\u{9f}", "é\u{1f980}"] {
            std::assert_eq!(serde_json::from_str::<String>(&quoted(text)).unwrap(), text);
        }
    }
}
