//! Imports folded stacks: `outermost;…;innermost VALUE`, one stack per line.
//!
//! Marks at the end of a frame are recognised: `_[i]` is inlined into the frame before it, `_[k]` is kernel
//! code, `_[j]` is JIT-compiled. If lines end in two numbers (before and after, from tools that compare), the
//! second is the one that flame graphs show. The first becomes a separate metric. Lines that are not stacks
//! are skipped and counted.

mod values;

use std::ops::Range;

use rustc_hash::FxHashMap;
use whyslow_profile::{
    Frame, ImportNote, LocationId, Metric, ModuleId, ModuleKind, SpecialFrame, StackId, Unit,
};

use self::values::{Columns, ValueFormat, split_value};
use super::assemble::{Assembly, FunctionText};
use super::{Format, ImportError, ImportOptions, Imported, lines, others, parallel};

/// Whether all lines are stacks, or most are and some of them have several frames.
pub(super) fn looks_like(start: &[u8]) -> bool {
    let decoded = utf16(start);
    let start = lines::whole(decoded.as_deref().unwrap_or(start));
    let (mut all, mut stacks, mut several) = (0, 0, false);
    for (_, line) in content(without_mark(start)) {
        all += 1;
        if let Some((stack, _)) = split_value(line).filter(|(stack, _)| !stack.trim_ascii().is_empty()) {
            stacks += 1;
            several |= stack.contains(&b';');
        }
    }
    lines::is_text(start)
        && !others::is_strace(start)
        && stacks > 0
        && (stacks == all || several && 2 * stacks > all)
}

/// The text without a UTF-8 byte-order mark.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

/// The lines that are neither empty nor comments.
fn content(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    lines::numbered_bytes(bytes)
        .map(|(number, line)| (number, line.trim_ascii_end()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
}

/// The text of a UTF-16 file, as PowerShell writes it; `None` if it is not UTF-16.
fn utf16(bytes: &[u8]) -> Option<Vec<u8>> {
    let word: fn([u8; 2]) -> u16 = match bytes {
        [0xff, 0xfe, ..] => u16::from_le_bytes,
        [0xfe, 0xff, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let words = bytes[2..].chunks_exact(2).map(|pair| word([pair[0], pair[1]]));
    let text: String = char::decode_utf16(words).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    Some(text.into_bytes())
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let decoded = utf16(bytes);
    let parts = parts(without_mark(decoded.as_deref().unwrap_or(bytes)));
    // The first lines show the format of the values. If later ones differ, everything is read again.
    let first = parts.first().map_or(&[][..], |part| lines::whole(&part[..part.len().min(FIRST_LINES)]));
    let mut format = Columns::of(first).format();
    loop {
        let (imported, found) = read_as(format, &parts);
        if found == format {
            return imported;
        }
        format = found;
    }
}

/// Reads all parts with this format of the values, and returns the format that they have.
fn read_as(format: ValueFormat, parts: &[&[u8]]) -> (Result<Imported, ImportError>, ValueFormat) {
    let ValueFormat { scale, two } = format;
    let mut assembly = Assembly::new("folded stacks");
    assembly.note(ImportNote::FoldedStacks);
    // Fractional values are not sample counts.
    let metric =
        assembly.metric(Metric::of_name(if scale > 1.0 { "weight" } else { "samples" }, Unit::Count));
    let process = assembly.process(0, "folded");
    let thread = assembly.thread(process, 0, "all threads");
    let before = two.then(|| assembly.metric(Metric::of_name("samples-before", Unit::Count)));
    if before.is_some() {
        assembly.note(ImportNote::TwoColumns);
    }
    if scale > 1.0 {
        assembly.note(ImportNote::Fractions { scale: scale as u64 });
    }
    let mut columns = Columns::default();
    let mut frames = Frames::default();
    let mut left_out = lines::LeftOut::default();
    let mut stacks = 0u64;
    let mut lines_before = 0;
    parallel::in_order(
        parts,
        |part| Part::parse(part, format),
        |part| {
            columns.add(&part.columns);
            frames.begin(&part);
            for line in &part.lines {
                let node = match line.stack {
                    Stack::Plain { shared, ref names } => {
                        frames.plain_stack(&mut assembly, &part, shared, names)
                    }
                    Stack::Marked(text) => frames.marked_stack(&mut assembly, &String::from_utf8_lossy(text)),
                    Stack::None(why) => {
                        left_out.add(lines_before + line.number, why);
                        continue;
                    }
                };
                let Some(node) = node else { continue };
                stacks += 1;
                for (metric, value) in [(Some(metric), line.value), (before, line.earlier)] {
                    if let Some(metric) = metric.filter(|_| value > 0) {
                        assembly.sample(metric, 0, thread, node, value);
                    }
                }
            }
            lines_before += part.line_count;
        },
    );
    let imported = if stacks == 0 {
        let empty = || ImportError::unusable(Format::Folded, "no stacks");
        Err(left_out.error(Format::Folded).unwrap_or_else(empty))
    } else {
        left_out.note().into_iter().for_each(|note| assembly.note(note));
        assembly.finish()
    };
    (imported, columns.format())
}

/// Bytes that the format of the values is first taken from.
const FIRST_LINES: usize = 16 << 10;

/// How many bytes one thread reads at a time: each part looks every name up anew, but all threads should have some.
fn part_size(len: usize) -> usize {
    (len / 32).clamp(1 << 20, 8 << 20)
}

/// The text in parts of whole lines.
fn parts(mut text: &[u8]) -> Vec<&[u8]> {
    let size = part_size(text.len());
    let mut parts = Vec::with_capacity(text.len() / size + 1);
    while text.len() > size
        && let Some(end) = memchr::memchr(b'\n', &text[size..])
    {
        let (part, rest) = text.split_at(size + end + 1);
        parts.push(part);
        text = rest;
    }
    if !text.is_empty() {
        parts.push(text);
    }
    parts
}

/// Some lines as numbers, independent of all other parts.
struct Part<'a> {
    line_count: u64,
    lines: Vec<Line<'a>>,
    /// Each distinct frame without marks.
    texts: Vec<&'a [u8]>,
    /// The rows in `texts` of the frames of plain stacks, one after the other.
    frames: Vec<u32>,
    columns: Columns,
}

struct Line<'a> {
    /// Its line number within the part, from 1.
    number: u64,
    stack: Stack<'a>,
    value: u64,
    /// In a comparison, the value before.
    earlier: u64,
}

enum Stack<'a> {
    /// Frames without marks. The first `shared` are the outermost of the previous plain stack in this part,
    /// the rest are these of [`Part::frames`].
    Plain { shared: u32, names: Range<u32> },
    /// A stack with marks, to be read as text.
    Marked(&'a [u8]),
    /// Not a stack, and why.
    None(&'static str),
}

impl<'a> Part<'a> {
    fn parse(text: &'a [u8], ValueFormat { scale, two }: ValueFormat) -> Self {
        let (lines, texts, frames) = (Vec::new(), Vec::new(), Vec::new());
        let mut part = Self { line_count: 0, lines, texts, frames, columns: Columns::default() };
        let mut names = Names::default();
        for (number, line) in content(text) {
            let (mut value, mut earlier) = (0, 0);
            let stack = match split_value(line) {
                None => Stack::None("no value at the end of the line"),
                Some((mut stack, last)) => {
                    value = last.scaled(scale);
                    let first = split_value(stack);
                    part.columns.add_values(last, first);
                    if two && let Some((rest, first)) = first {
                        (stack, earlier) = (rest, first.scaled(scale));
                    }
                    names.stack(&mut part, stack)
                }
            };
            part.lines.push(Line { number, stack, value, earlier });
        }
        let whole = text.strip_suffix(b"\n").unwrap_or(text);
        part.line_count = memchr::memchr_iter(b'\n', whole).count() as u64 + 1;
        part
    }
}

/// Numbers the frames of a part.
#[derive(Default)]
struct Names<'a> {
    /// The previous plain stack, and where each of its frames ends. Files are usually sorted, so a stack
    /// shares most of its frames with the previous one, and those need no lookup.
    before: &'a [u8],
    ends: Vec<usize>,
    rows: FxHashMap<&'a [u8], u32>,
}

impl<'a> Names<'a> {
    fn stack(&mut self, part: &mut Part<'a>, text: &'a [u8]) -> Stack<'a> {
        let same = common_prefix(text, self.before);
        let is_end = |at: usize| at == text.len() || text[at] == b';';
        while self.ends.last().is_some_and(|&end| end > same || !is_end(end)) {
            self.ends.pop();
        }
        let mut at = self.ends.last().map_or(0, |end| end + 1);
        let rest = text.get(at..).unwrap_or_default();
        if self.ends.is_empty() && rest.trim_ascii().is_empty() {
            return Stack::None("a value without a stack before it");
        }
        // The shared part had no marks.
        if memchr::memchr_iter(b'[', rest).any(|at| at > 0 && rest[at - 1] == b'_')
            || rest.trim_ascii_start().starts_with(SpecialFrame::Truncated.text().as_bytes())
        {
            self.before = b"";
            self.ends.clear();
            return Stack::Marked(text);
        }
        let (shared, first) = (self.ends.len() as u32, part.frames.len() as u32);
        while at <= text.len() {
            let rest = &text[at..];
            let name = &rest[..memchr::memchr(b';', rest).unwrap_or(rest.len())];
            at += name.len();
            let row = *self.rows.entry(name).or_insert_with(|| {
                part.texts.push(name);
                part.texts.len() as u32 - 1
            });
            part.frames.push(row);
            self.ends.push(at);
            at += 1;
        }
        self.before = text;
        Stack::Plain { shared, names: first..part.frames.len() as u32 }
    }
}

/// Turns frames into locations.
#[derive(Default)]
struct Frames {
    kernel: Option<ModuleId>,
    jit: Option<ModuleId>,
    group: Vec<Frame>,
    /// The locations of a part's frames, as far as known.
    of_part: Vec<Option<LocationId>>,
    /// The previous plain stack, outermost first.
    path: Vec<StackId>,
}

impl Frames {
    fn begin(&mut self, part: &Part<'_>) {
        self.path.clear();
        self.of_part.clear();
        self.of_part.resize(part.texts.len(), None);
    }

    /// The stack of a line whose frames have no marks.
    fn plain_stack(
        &mut self,
        assembly: &mut Assembly,
        part: &Part<'_>,
        shared: u32,
        names: &Range<u32>,
    ) -> Option<StackId> {
        self.path.truncate(shared as usize);
        for &name in &part.frames[names.start as usize..names.end as usize] {
            let row = name as usize;
            let location = match self.of_part[row] {
                Some(location) => location,
                None => {
                    let location = plain_location(assembly, part.texts[row]);
                    self.of_part[row] = Some(location);
                    location
                }
            };
            self.path.push(assembly.stack(self.path.last().copied(), location));
        }
        self.path.last().copied()
    }

    /// The stack of a line whose frames may have marks.
    fn marked_stack(&mut self, assembly: &mut Assembly, text: &str) -> Option<StackId> {
        let mut stack = None;
        let mut module = None;
        self.group.clear();
        for name in text.split(';') {
            let name = name.trim();
            if name == SpecialFrame::Truncated.text() && stack.is_none() && self.group.is_empty() {
                stack = Some(assembly.stack(None, LocationId::TRUNCATED));
                continue;
            }
            let (name, mark) = split_mark(name);
            if mark != Mark::Inlined && !self.group.is_empty() {
                stack = Some(self.close(assembly, module, stack));
            }
            module =
                match mark {
                    Mark::Kernel => Some(*self.kernel.get_or_insert_with(|| {
                        assembly.module(SpecialFrame::Kernel.text(), None, ModuleKind::Kernel)
                    })),
                    Mark::Jit => Some(*self.jit.get_or_insert_with(|| {
                        assembly.module(SpecialFrame::Jit.text(), None, ModuleKind::Jit)
                    })),
                    Mark::Inlined => module,
                    Mark::None => None,
                };
            let name = if name.is_empty() { SpecialFrame::NoName.text() } else { name };
            let function = assembly.function(&FunctionText { name, module, ..FunctionText::default() });
            self.group.push(Frame { function, file: None, line: 0 });
        }
        if self.group.is_empty() { stack } else { Some(self.close(assembly, module, stack)) }
    }

    fn close(
        &mut self,
        assembly: &mut Assembly,
        module: Option<ModuleId>,
        parent: Option<StackId>,
    ) -> StackId {
        let location = assembly.location(module, 0, &self.group);
        self.group.clear();
        assembly.stack(parent, location)
    }
}

/// The location of a frame without marks.
fn plain_location(assembly: &mut Assembly, text: &[u8]) -> LocationId {
    let name = String::from_utf8_lossy(text);
    let name = match name.trim() {
        "" => SpecialFrame::NoName.text(),
        name => name,
    };
    let function = assembly.function(&FunctionText { name, ..FunctionText::default() });
    assembly.location(None, 0, &[Frame { function, file: None, line: 0 }])
}

/// The length of the common prefix of two texts, in bytes.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 16;
    let steps = a.chunks_exact(STEP).zip(b.chunks_exact(STEP)).take_while(|(a, b)| a == b).count() * STEP;
    steps + a[steps..].iter().zip(&b[steps..]).take_while(|(a, b)| a == b).count()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Inlined,
    Kernel,
    Jit,
}

fn split_mark(name: &str) -> (&str, Mark) {
    for (mark, kind) in [("_[i]", Mark::Inlined), ("_[k]", Mark::Kernel), ("_[j]", Mark::Jit)] {
        if let Some(name) = name.strip_suffix(mark) {
            return (name, kind);
        }
    }
    (name, Mark::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FoldedOptions, write_folded};
    use whyslow_profile::{CodeKind, Profile};

    fn import(text: &str) -> Imported {
        read(text.as_bytes(), &ImportOptions::default()).expect("it is folded")
    }

    fn export(imported: &Imported) -> String {
        let mut out = Vec::new();
        let options = FoldedOptions { mark_inlined: true, ..FoldedOptions::default() };
        write_folded(&imported.profile, &Default::default(), &options, &mut out).expect("memory takes it");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn the_last_line_can_change_how_all_values_are_read() {
        let sums = |text: &str| {
            let Profile { samples, metrics, strings, .. } = import(text).profile;
            let name = |row: usize| strings.get(metrics[row].name).to_owned();
            let sums = samples.iter().map(|samples| samples.value.iter().sum::<u64>()).enumerate();
            sums.map(|(row, sum)| (name(row), sum)).collect::<Vec<_>>()
        };
        let whole = "main;a 1\n".repeat(FIRST_LINES);
        assert_eq!(sums(&whole), [("samples".to_owned(), FIRST_LINES as u64)]);
        let fraction = format!("{whole}main;b 0.5\n");
        assert_eq!(sums(&fraction), [("weight".to_owned(), 10 * FIRST_LINES as u64 + 5)]);
        let two = "main;a 1 2\n".repeat(FIRST_LINES);
        let both = [
            ("samples".to_owned(), 2 * FIRST_LINES as u64),
            ("samples-before".to_owned(), FIRST_LINES as u64),
        ];
        assert_eq!(sums(&two), both);
        let one = format!("{two}main;b 7\n");
        assert_eq!(sums(&one), [("samples".to_owned(), 2 * FIRST_LINES as u64 + 7)]);
    }

    #[test]
    fn exported_stacks_are_imported_again() {
        let text = "main;b;c 30\nmain;a 5\nmain;a;x_[i];y_[i];f<[u8: 4]> 20\n[truncated stack];g 1\n";
        let imported = import(text);
        let mut lines: Vec<String> = export(&imported).lines().map(str::to_owned).collect();
        let mut expected: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected);
        assert!(imported.profile.is_truncated(imported.profile.samples[0].stack[3]));
    }

    #[test]
    fn a_large_file_is_read_in_parts_as_if_it_were_one() {
        let line = |number: usize| match number {
            45_000 => "no value".to_owned(),
            number => {
                format!("main;a{};module::function_{};leaf{} {}", number % 3, number % 50, number % 7, number)
            }
        };
        let text = (1..=60_000).map(|number| line(number) + "\n").collect::<String>();
        assert!(parts(text.as_bytes()).len() > 1);
        let imported = import(&text);
        let what = "no value at the end of the line".to_owned();
        assert!(imported.notes(ImportNote::UnreadableLines { lines: 1, first: 45_000, what }));
        let profile = &imported.profile;
        assert_eq!(profile.stacks.len(), 1 + 3 + 150 + 1050);
        let lines = (1..=60_000).filter(|number| *number != 45_000);
        for (row, number) in lines.enumerate() {
            let names = profile.stacks.towards_root(profile.samples[0].stack[row]).map(|stack| {
                let [frame] = profile.frames.of(profile.stacks.location(stack)) else { panic!("one frame") };
                profile.text(profile.functions[frame.function.index()].name)
            });
            let mut names: Vec<&str> = names.collect();
            names.reverse();
            assert_eq!(format!("{} {}", names.join(";"), profile.samples[0].value[row]), line(number));
        }
    }

    #[test]
    fn marks_decide_the_kind_of_code() {
        let imported = import("main;do_syscall_64_[k];vfs_read_[k] 2\n");
        let kinds: Vec<CodeKind> = imported.profile.functions.iter().map(|function| function.kind).collect();
        assert_eq!(kinds, [CodeKind::Unknown, CodeKind::Kernel, CodeKind::Kernel]);
    }

    #[test]
    fn the_second_of_two_columns_is_shown() {
        let imported = import("a;b 10 20\na 5 0\n");
        let profile = &imported.profile;
        let names: Vec<&str> = profile.metrics.iter().map(|metric| profile.text(metric.name)).collect();
        assert_eq!(names, ["samples", "samples-before"]);
        assert_eq!((&profile.samples[0].value, &profile.samples[1].value), (&vec![20], &vec![10, 5]));
        let imported = import("a;part 2 10\na 5\n");
        assert_eq!(imported.profile.samples[0].value, [10, 5], "a name may end in a number");
        assert_eq!(imported.profile.text(imported.profile.functions[1].name), "part 2");
    }

    #[test]
    fn fractions_are_not_rounded_away() {
        let imported = import("a;b 0.25\na 0.1\nc 3\nd 2.0\n");
        assert_eq!(imported.profile.samples[0].value, [25, 10, 300, 200]);
        assert!(imported.notes(ImportNote::Fractions { scale: 100 }));
        assert_eq!(import("a 6.\nb 1.0\n").profile.samples[0].value, [6, 1]);
    }

    #[test]
    fn lines_that_are_not_stacks_are_skipped_with_a_note() {
        let imported = import("# made by a tool\na;b 1\n\na;b\n12\nc 2\n");
        assert_eq!(imported.profile.samples[0].value, [1, 2]);
        let what = "no value at the end of the line".to_owned();
        assert!(imported.notes(ImportNote::UnreadableLines { lines: 2, first: 4, what }));
        let error = read(b"# only\na;b\n", &ImportOptions::default()).expect_err("no value");
        assert_eq!(
            error.to_string(),
            "cannot be read as folded stacks: line 2: no value at the end of the line"
        );
        assert!(read(b"\n", &ImportOptions::default()).is_err());
    }

    #[test]
    fn utf16_is_read() {
        let text = "main;größe 3\nmain 4\n";
        let words: Vec<u16> = text.encode_utf16().collect();
        let little: Vec<u8> = [0xfeff].iter().chain(&words).flat_map(|word| word.to_le_bytes()).collect();
        let big: Vec<u8> = [0xfeff].iter().chain(&words).flat_map(|word| word.to_be_bytes()).collect();
        for bytes in [little, big, [b"\xef\xbb\xbf", text.as_bytes()].concat()] {
            assert!(looks_like(&bytes));
            let imported = read(&bytes, &ImportOptions::default()).expect("it is folded");
            assert_eq!(export(&imported), "main 4\nmain;größe 3\n");
        }
    }

    #[test]
    fn other_texts_are_not_taken_for_folded_stacks() {
        assert!(looks_like(b"a;b 1\nc 22\ncut li"));
        assert!(looks_like(b"main 1.5\n"));
        assert!(looks_like(
            b"# a comment\na;b 1\nc 2\nd 2\ne 2\nf 2\ng 2\nh 2\ni 2\nTHIS IS A BAD LINE\nj 1\n"
        ));
        assert!(!looks_like(b"a 1\nb\n"));
        assert!(!looks_like(b"{\"a\": 1}\n"));
        assert!(!looks_like(b""));
        assert!(!looks_like(b"\0\x01 1\n"));
        assert!(!looks_like(b"hello world\n"));
    }
}
