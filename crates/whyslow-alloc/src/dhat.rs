//! Writes DHAT's JSON, version 2, as its viewer reads it. Frames are symbolised inside the program.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use crate::ad_hoc::Events;
use crate::origin::OriginNumbers;
use crate::recorded::{Counted, Recorded};
use crate::stack::Place;
use crate::symbols::{Frame, Symbols};

/// Blocks that live for fewer microseconds than this are called short-lived.
const SHORT_LIVED_US: u64 = 10;

/// The frames of all points, without duplicates.
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

/// The numbers of one point of the file. Events have only the first two.
#[derive(Default)]
struct Point {
    numbers: [u64; 9],
    frames: Vec<usize>,
}

const NAMES: [&str; 9] = ["tb", "tbk", "tl", "mb", "mbk", "gb", "gbk", "eb", "ebk"];

fn heap_numbers(origin: &OriginNumbers) -> [u64; 9] {
    [
        origin.allocated.bytes,
        origin.allocated.blocks,
        origin.lifetime_ns / 1000,
        origin.most.bytes,
        origin.most.blocks,
        origin.at_peak.bytes,
        origin.at_peak.blocks,
        origin.live.bytes,
        origin.live.blocks,
    ]
}

fn event_numbers(counted: Events) -> [u64; 9] {
    [counted.units, counted.events, 0, 0, 0, 0, 0, 0, 0]
}

/// The points of a file, and their frames.
struct Points {
    symbols: Symbols,
    most_frames: usize,
    table: FrameTable,
    points: Vec<Point>,
    rows: FxHashMap<Vec<usize>, usize>,
}

impl Points {
    fn add(&mut self, stack: u32, numbers: [u64; 9]) {
        let named = self.symbols.of_stack(stack, self.most_frames);
        let mut frames: Vec<usize> =
            named.iter().map(|(place, frame)| self.table.row(frame_text(*place, frame))).collect();
        if frames.is_empty() {
            frames.push(self.table.row("[unknown stack]".to_owned()));
        }
        // The viewer rejects a file in which two points have the same frames.
        let row = *self.rows.entry(frames).or_insert_with_key(|frames| {
            self.points.push(Point { frames: frames.clone(), ..Point::default() });
            self.points.len() - 1
        });
        for (sum, number) in self.points[row].numbers.iter_mut().zip(numbers) {
            *sum += number;
        }
    }
}

/// The recording as DHAT's JSON.
pub(crate) fn json(recorded: &Recorded) -> String {
    let mut points = Points {
        symbols: Symbols::new(),
        most_frames: recorded.settings.most_frames.unwrap_or(usize::MAX),
        // The viewer takes row 0 as the root.
        table: FrameTable { texts: vec!["[root]".to_owned()], rows: FxHashMap::default() },
        points: Vec::new(),
        rows: FxHashMap::default(),
    };
    let (mode, is_heap, names, times) = match &recorded.counted {
        Counted::Heap(outcome) => {
            for (site, origin) in outcome.sites.iter().zip(&outcome.origins) {
                // A stack that only reallocates blocks of other stacks is not a point.
                if origin.allocated.blocks > 0 {
                    points.add(site.stack, heap_numbers(origin));
                }
            }
            let times = format!("\"tuth\":{SHORT_LIVED_US},\"tg\":{}", outcome.totals.peak_ns / 1000);
            ("rust-heap", true, &NAMES[..], times)
        }
        Counted::Events { rows, .. } => {
            for row in rows {
                points.add(row.stack, event_numbers(row.counted));
            }
            let units = "\"bu\":\"unit\",\"bsu\":\"units\",\"bksu\":\"events\"";
            ("rust-ad-hoc", false, &NAMES[..2], units.to_owned())
        }
    };
    let command =
        std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ");
    let mut json = format!(
        "{{\"dhatFileVersion\":2,\"mode\":\"{mode}\",\"verb\":\"Allocated\",\"bklt\":{is_heap},\"bkacc\":false,\
         \"tu\":\"µs\",\"Mtu\":\"s\",{times},\"cmd\":{},\"pid\":{},\"te\":{},\"pps\":[",
        quoted(&command),
        std::process::id(),
        recorded.end_ns / 1000,
    );
    for (number, point) in points.points.iter().enumerate() {
        json.push_str(if number == 0 { "\n{" } else { ",\n{" });
        for (name, number) in names.iter().zip(point.numbers) {
            let _ = write!(json, "\"{name}\":{number},");
        }
        let frames: Vec<String> = point.frames.iter().map(ToString::to_string).collect();
        let _ = write!(json, "\"fs\":[{}]}}", frames.join(","));
    }
    json.push_str("],\"ftbl\":[");
    for (number, text) in points.table.texts.iter().enumerate() {
        json.push_str(if number == 0 { "\n" } else { ",\n" });
        json.push_str(&quoted(text));
    }
    json.push_str("]}\n");
    json
}

/// A JSON string literal.
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
