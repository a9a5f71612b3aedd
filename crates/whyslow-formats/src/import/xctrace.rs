//! Imports the time profile that `xctrace export` writes as XML.
//!
//! ```text
//! <row><sample-time id="1">57246708</sample-time><thread id="2" fmt="main 0x84"/><weight id="9">1000000</weight>
//!   <backtrace id="10"><frame id="11" name="read"><binary id="12" name="libc"/></frame><frame ref="3"/></backtrace></row>
//! ```
//! Frames are innermost first. An element with `ref` stands for the earlier one with this `id`.

use rustc_hash::FxHashMap;
use whyslow_profile::{Metric, Sampler};

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

pub(super) fn looks_like(start: &[u8]) -> bool {
    let text = start.trim_ascii_start();
    text.starts_with(b"<") && memchr::memmem::find(text, b"<trace-query-result").is_some()
}

#[derive(Debug, Default, Clone)]
struct Frame {
    name: String,
    module: String,
    file: String,
    line: u32,
}

/// A row while it is read.
#[derive(Debug, Default)]
struct Row {
    time_ns: u64,
    weight: u64,
    thread: String,
    frames: Vec<Frame>,
}

/// Elements that later ones refer to, by id.
#[derive(Debug, Default)]
struct Known {
    /// Texts: times, weights, names of threads and modules, paths.
    texts: FxHashMap<String, String>,
    frames: FxHashMap<String, Frame>,
    stacks: FxHashMap<String, Vec<Frame>>,
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let text = String::from_utf8_lossy(bytes);
    let mut stacks = StackText::new(Format::Xctrace, "xctrace", Metric::cpu_time(Sampler::default()));
    let (mut known, mut row) = (Known::default(), Row::default());
    // The ids of the open stacks, and the open frame with its id.
    let mut open: Vec<String> = Vec::new();
    let mut frame: Option<(String, Frame)> = None;
    let mut first = None;
    for tag in Tags(&text) {
        let id = tag.attribute("id").unwrap_or_default();
        let reference = tag.attribute("ref");
        match (tag.name, tag.is_end) {
            ("row", false) => row = Row::default(),
            ("row", true) => {
                let frames: Vec<TextFrame<'_>> = row.frames.iter().rev().map(text_frame).collect();
                let since = row.time_ns.saturating_sub(*first.get_or_insert(row.time_ns));
                stacks.add(&row.thread, &frames, since, row.weight);
            }
            ("sample-time", false) => row.time_ns = known.text(&tag, &tag.content()).parse().unwrap_or(0),
            ("weight" | "cycle-weight", false) => {
                row.weight = known.text(&tag, &tag.content()).parse().unwrap_or(0);
            }
            ("thread", false) => {
                let name = tag.attribute("fmt").unwrap_or_default();
                row.thread = known.text(&tag, name.split(" (").next().unwrap_or("").trim());
            }
            ("backtrace" | "tagged-backtrace", false) => match reference {
                Some(reference) => {
                    let frames = known.stacks.get(&reference).cloned().unwrap_or_default();
                    open.iter().for_each(|id| {
                        known.stacks.insert(id.clone(), frames.clone());
                    });
                    row.frames = frames;
                }
                None if !tag.is_alone => open.push(id),
                None => {}
            },
            ("backtrace" | "tagged-backtrace", true) => {
                if let Some(id) = open.pop() {
                    known.stacks.insert(id, row.frames.clone());
                }
            }
            ("frame", false) => match reference {
                Some(reference) => row.frames.extend(known.frames.get(&reference).cloned()),
                None => {
                    let name = tag.attribute("name").unwrap_or_default();
                    let new = Frame { name, ..Frame::default() };
                    if tag.is_alone {
                        known.frames.insert(id, new.clone());
                        row.frames.push(new);
                    } else {
                        frame = Some((id, new));
                    }
                }
            },
            ("frame", true) => {
                if let Some((id, frame)) = frame.take() {
                    known.frames.insert(id, frame.clone());
                    row.frames.push(frame);
                }
            }
            ("binary", false) => {
                let module = known.text(&tag, &tag.attribute("name").unwrap_or_default());
                frame.iter_mut().for_each(|(_, frame)| frame.module.clone_from(&module));
            }
            ("source", false) => {
                let line = tag.attribute("line").and_then(|line| line.parse().ok()).unwrap_or(0);
                frame.iter_mut().for_each(|(_, frame)| frame.line = line);
            }
            ("path", false) => {
                let path = known.text(&tag, &tag.content());
                frame.iter_mut().for_each(|(_, frame)| frame.file.clone_from(&path));
            }
            _ => {}
        }
    }
    stacks.finish(lines::LeftOut::default())
}

fn text_frame(frame: &Frame) -> TextFrame<'_> {
    let file = (!frame.file.is_empty()).then_some(frame.file.as_str());
    TextFrame { name: &frame.name, module: &frame.module, file, line: frame.line }
}

impl Known {
    /// The text of an element, its own or that of the one it refers to.
    fn text(&mut self, tag: &Tag<'_>, own: &str) -> String {
        match (tag.attribute("ref"), tag.attribute("id")) {
            (Some(reference), _) => self.texts.get(&reference).cloned().unwrap_or_default(),
            (None, id) => {
                self.texts.insert(id.unwrap_or_default(), own.to_owned());
                own.to_owned()
            }
        }
    }
}

/// A tag and the text up to the next one.
struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    is_end: bool,
    /// `<name/>`
    is_alone: bool,
    text: &'a str,
}

impl Tag<'_> {
    fn attribute(&self, name: &str) -> Option<String> {
        let mut rest = self.attributes;
        loop {
            let (key, after) = rest.trim_start().split_once('=')?;
            let quote = after.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
            let (value, next) = after[1..].split_once(quote)?;
            if key.trim() == name {
                return Some(unescaped(value));
            }
            rest = next;
        }
    }

    fn content(&self) -> String {
        unescaped(self.text.trim())
    }
}

/// The tags of a text.
struct Tags<'a>(&'a str);

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        let (_, rest) = self.0.split_once('<')?;
        let (tag, rest) = rest.split_once('>')?;
        self.0 = rest;
        let (is_end, tag) = tag.strip_prefix('/').map_or((false, tag), |tag| (true, tag));
        let (is_alone, tag) = tag.strip_suffix('/').map_or((false, tag), |tag| (true, tag));
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        Some(Tag { name, attributes, is_end, is_alone, text: rest.split('<').next().unwrap_or("") })
    }
}

/// Replaces XML's five named characters.
fn unescaped(text: &str) -> String {
    if !text.contains('&') {
        return text.to_owned();
    }
    let names = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    names.iter().fold(text.to_owned(), |text, (name, character)| text.replace(name, character))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::testing::folded;

    #[test]
    fn rows_refer_to_earlier_elements() {
        let text = r#"<?xml version="1.0"?><trace-query-result><node><schema name="time-profile"/>
<row><sample-time id="1">1000</sample-time><thread id="2" fmt="main  0x84 (app, pid: 7)"><tid id="3">9</tid></thread>
<weight id="9" fmt="1.00 ms">1000000</weight><backtrace id="10"><frame id="11" name="f(A&lt;int&gt;&amp;)" addr="0x1">
<binary id="12" name="app"/><source line="7"><path id="23">/src/main.rs</path></source></frame>
<frame id="13" name="start" addr="0x2"><binary ref="12"/></frame></backtrace></row>
<row><sample-time id="14">3000</sample-time><thread ref="2"/><weight ref="9"/><backtrace ref="10"/></row>
<row><sample-time id="15">4000</sample-time><thread ref="2"/><weight ref="9"/><backtrace id="20"><frame id="21" name="0x10"/>
<frame ref="13"/></backtrace></row></node></trace-query-result>"#;
        assert!(looks_like(text.as_bytes()));
        let imported = read(text.as_bytes(), &ImportOptions::default()).expect("it is xctrace's");
        assert_eq!(folded(&imported), ["start;0x10 1000000", "start;f(A<int>&) 2000000"]);
        let profile = &imported.profile;
        assert_eq!(profile.samples[0].time_ns, [0, 2000, 3000]);
        assert_eq!(profile.text(profile.threads[0].name), "main  0x84");
        let leaf = profile.frames.of(profile.stacks.location(profile.samples[0].stack[0]))[0];
        assert_eq!((leaf.line, leaf.file.map(|file| profile.text(file))), (7, Some("/src/main.rs")));
    }
}
