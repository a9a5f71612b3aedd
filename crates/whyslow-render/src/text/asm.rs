//! A function's machine code with its samples, loops, source and hints.

use std::ops::Range;

use anstyle::AnsiColor;
use whyslow_asm::{Destination, Flow, Listing, Obstacle, Syntax, Vectors};
use whyslow_words::Percent;

use super::layout::{BOLD, DIM, PLAIN, cut, place, push_line, push_wrapped, styled, wrap};
use crate::names::shorten;
use crate::sanitize::{clean, clean_source};
use crate::units::value;

/// Options for a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AsmView<'a> {
    /// Columns of the terminal.
    pub width: usize,
    /// The assembly syntax.
    pub syntax: Syntax,
    /// Whether to show blocks without samples too.
    pub whole: bool,
    /// Whether to show source lines between the instructions.
    pub source: bool,
    /// Only the instructions of this function, which is inlined into the listed one.
    pub inlined: Option<&'a str>,
}

/// Number of loop columns; deeper loops share the last column.
const DEEPEST: usize = 4;
/// Longer functions are shown without the blocks that have no samples.
const SHORT: usize = 60;
const SHARE: usize = 7;
const OFFSET: usize = 8;

/// Renders a function's code: its cost, loops, hints and instructions.
pub fn asm(listing: &Listing, view: AsmView<'_>) -> String {
    let mut out = String::new();
    head(&mut out, listing, view);
    loops(&mut out, listing, view);
    hints(&mut out, listing, view);
    instructions(&mut out, listing, view);
    out
}

fn head(out: &mut String, listing: &Listing, view: AsmView<'_>) {
    push_line(out, &styled(BOLD, shorten(&clean(&listing.function), view.width)));
    let at =
        listing.place().map(|(file, line)| format!("from {}, ", place(&clean(file), line, view.width / 2)));
    let size = listing.body.end().wrapping_sub(listing.body.start);
    let what = format!(
        "{}{} instructions in {size} bytes of {}",
        at.unwrap_or_default(),
        listing.body.instructions.len(),
        clean(&listing.module)
    );
    push_wrapped(out, PLAIN, &what, view.width);
    if let Some(measure) = &listing.measure {
        let of = |part: u64| Percent(part as f64 / measure.whole.max(1) as f64);
        let (own, total) = (listing.own(), listing.weights.total());
        let costs = format!(
            "self {} of {} ({}), total {}; shares below are of the function's total",
            of(own),
            clean(&measure.metric),
            value(own, measure.unit),
            of(total)
        );
        push_wrapped(out, PLAIN, &costs, view.width);
    }
    for note in listing.skid().into_iter().chain(listing.notes.iter().map(String::as_str)) {
        push_wrapped(out, DIM, &clean(note), view.width);
    }
}

fn share(listing: &Listing, part: u64) -> String {
    let total = listing.weights.total();
    if part == 0 || total == 0 { String::new() } else { Percent(part as f64 / total as f64).to_string() }
}

fn offset(listing: &Listing, address: u64) -> String {
    format!("+{:#x}", address.wrapping_sub(listing.body.start))
}

fn loops(out: &mut String, listing: &Listing, view: AsmView<'_>) {
    const MOST: usize = 12;
    let body = &listing.body;
    let weights = listing.weights.of_loops(body);
    let known = listing.weights.are_known();
    let mut shown: Vec<usize> = (0..body.loops.len()).filter(|&at| !known || weights[at] > 0).collect();
    if shown.is_empty() {
        return;
    }
    shown.sort_by_key(|&at| std::cmp::Reverse(weights[at]));
    let left_out = shown.len().saturating_sub(MOST);
    shown.truncate(MOST);
    shown.sort_unstable();
    out.push('\n');
    push_line(out, &styled(BOLD, format!("{:>SHARE$}  loop", "share")));
    let extents = body.loop_extents();
    for at in shown {
        let (first, last) = extents[at];
        let head = body.blocks[body.loops[at].head].instructions.start;
        let line = listing.own_line_of(head).map(|(file, line)| place(&clean(file), line, view.width / 2));
        let verdict = verdict(listing, at).map(|words| format!("{words}  ")).unwrap_or_default();
        let text = format!(
            "{:>SHARE$}  {}L{} {} to {}  {verdict}{}",
            share(listing, weights[at]),
            "  ".repeat((body.loops[at].depth as usize).saturating_sub(1).min(8)),
            at + 1,
            offset(listing, body.instructions[first].address),
            offset(listing, body.instructions[last].address),
            line.unwrap_or_default()
        );
        push_line(out, &cut(&text, view.width));
    }
    if left_out > 0 {
        push_line(out, &styled(DIM, format!("{:>SHARE$}  {left_out} more loops with smaller shares", "")));
    }
}

/// Whether the compiler vectorised an innermost loop, how wide, and what was in the way; `None` for loops without
/// arithmetic that nothing keeps from vectors.
fn verdict(listing: &Listing, at: usize) -> Option<String> {
    let Vectors { bytes, available, in_part, obstacle } = listing.vectors(at)?;
    let why = match obstacle {
        Some(Obstacle::IndexChecks) => ", because each index is checked",
        Some(Obstacle::OverflowChecks) => ", because each result is checked for overflow",
        Some(Obstacle::EarlyExit) => ", because it may end the program",
        Some(Obstacle::OrderOfSums) => ", because the order of sums is fixed",
        Some(Obstacle::Calls) => ", because it calls functions",
        Some(Obstacle::PreviousStep) => ", because each step needs the previous one",
        Some(Obstacle::SeveralExits) => ", because it may stop at any step",
        Some(Obstacle::IntegerDivision) => ", because no vector instruction divides integers",
        _ => "",
    };
    let Some(bytes) = bytes else { return Some(format!("scalar{why}")) };
    let part = if in_part { " in part" } else { "" };
    let wider = available.filter(|wider| *wider > bytes).map(|wider| format!(" of the processor's {wider}"));
    Some(format!("vectorised{part}, {bytes}{} bytes a step{why}", wider.unwrap_or_default()))
}

fn hints(out: &mut String, listing: &Listing, view: AsmView<'_>) {
    const ADDRESSES: usize = 6;
    if listing.hints.is_empty() {
        return;
    }
    out.push('\n');
    push_line(out, &styled(BOLD, "hints"));
    for hint in &listing.hints {
        let at = hint.in_loop.map_or(String::new(), |at| format!(" in L{}", at + 1));
        let weight = match (hint.loop_weight, hint.weight) {
            (0, _) => String::new(),
            (whole, 0) => format!(", {}", share(listing, whole)),
            (whole, shown) => {
                format!(", {} ({} at these instructions)", share(listing, whole), share(listing, shown))
            }
        };
        let title = format!("{}{at}{weight}", hint.kind.id());
        push_line(out, &format!("  {}", styled(AnsiColor::Yellow.on_default().bold(), title)));
        let mut addresses: Vec<String> =
            hint.addresses.iter().take(ADDRESSES).map(|&address| offset(listing, address)).collect();
        if hint.addresses.len() > ADDRESSES {
            addresses.push("…".to_owned());
        }
        let said = format!("{} {} ({})", clean(&hint.sentence), listing.advice(hint), addresses.join(" "));
        for line in wrap(&said, view.width.saturating_sub(4)) {
            push_line(out, &format!("    {line}"));
        }
    }
}

fn instructions(out: &mut String, listing: &Listing, view: AsmView<'_>) {
    let body = &listing.body;
    let texts = body.texts(view.syntax);
    let lanes = Lanes::of(listing);
    let hottest = hottest(listing);
    out.push('\n');
    let mut source = Shown::default();
    for range in shown_blocks(listing, view) {
        let range = match range {
            Part::Shown(range) => range,
            Part::LeftOut(count) => {
                let which = if view.inlined.is_some() {
                    "other instructions"
                } else {
                    "instructions without samples"
                };
                let text = format!("{:>SHARE$}  ⋮ {count} {which} (--all shows them)", "");
                push_line(out, &styled(DIM, text));
                source = Shown::default();
                continue;
            }
        };
        for index in range {
            if view.source {
                source.before(out, listing, index, view);
            }
            let row = &body.instructions[index];
            let lead = format!(
                "{:>SHARE$} {} {:>OFFSET$} {} ",
                share(listing, listing.weights.own_at(index)),
                lanes.draw(index),
                offset(listing, row.address),
                mark(listing, index, &lanes)
            );
            let called = listing.weights.called.get(index).copied().unwrap_or(0);
            let called = match called {
                0 => String::new(),
                called if row.is_call() => format!("   ({} in callees)", share(listing, called)),
                // Page faults, interrupts, signals.
                called => format!("   ({} in interrupts and faults)", share(listing, called)),
            };
            let text = format!("{}{called}", clean(&texts[index]));
            let line = cut(&format!("{lead}{text}"), view.width);
            match hottest {
                Some(at) if at == index => {
                    push_line(out, &styled(AnsiColor::Red.on_default().bold(), line.trim_end()));
                }
                _ => push_line(out, &line),
            }
        }
    }
}

fn hottest(listing: &Listing) -> Option<usize> {
    let own = listing.weights.own.iter().enumerate();
    own.filter(|(_, weight)| **weight > 0)
        .max_by_key(|(index, weight)| (**weight, std::cmp::Reverse(*index)))
        .map(|(index, _)| index)
}

/// The mark of an instruction: a branch up, down or out of the function, or a branch target.
fn mark(listing: &Listing, index: usize, lanes: &Lanes) -> char {
    let body = &listing.body;
    let row = &body.instructions[index];
    let target = match row.flow {
        Flow::Branch(target) | Flow::Jump(Destination::Code(target)) => Some(target),
        Flow::Call(_) => return '→',
        Flow::Return => return '←',
        Flow::Jump(_) => return if body.call_at(index).is_some() { '→' } else { '↕' },
        Flow::Next | Flow::Stop | Flow::Bad => None,
    };
    match target {
        Some(target) if body.instruction_at(target).is_none() => '→',
        Some(target) if target <= row.address => '↑',
        Some(_) => '↓',
        None if lanes.is_target[index] => '•',
        None => ' ',
    }
}

/// Loops, drawn as brackets on the left.
struct Lanes {
    /// The loops of each column: first and last instruction, and the loop.
    columns: Vec<Vec<(usize, usize, usize)>>,
    /// Whether an instruction is a branch target within the function.
    is_target: Vec<bool>,
    /// The loops around each loop, by column.
    of: Vec<[Option<usize>; DEEPEST]>,
}

impl Lanes {
    fn of(listing: &Listing) -> Self {
        let body = &listing.body;
        let deepest = body.loops.iter().map(|found| found.depth as usize).max().unwrap_or(0).min(DEEPEST);
        let mut columns = vec![Vec::new(); deepest];
        for (at, ((first, last), found)) in body.loop_extents().into_iter().zip(&body.loops).enumerate() {
            if found.depth as usize <= deepest {
                columns[found.depth as usize - 1].push((first, last, at));
            }
        }
        columns.iter_mut().for_each(|column| column.sort_unstable());
        let mut is_target = vec![false; body.instructions.len()];
        for row in &body.instructions {
            if let Flow::Branch(target) | Flow::Jump(Destination::Code(target)) = row.flow
                && let Ok(at) = body.instructions.binary_search_by_key(&target, |row| row.address)
            {
                is_target[at] = true;
            }
        }
        // Outer loops precede the loops inside them.
        let mut around: Vec<[Option<usize>; DEEPEST]> = Vec::with_capacity(body.loops.len());
        for (at, found) in body.loops.iter().enumerate() {
            let mut path = found.parent.map_or([None; DEEPEST], |parent| around[parent]);
            if let Some(column) = path.get_mut(found.depth as usize - 1) {
                *column = Some(at);
            }
            around.push(path);
        }
        let mut of = vec![[None; DEEPEST]; body.instructions.len()];
        for block in &body.blocks {
            if let Some(found) = block.in_loop {
                of[block.instructions.clone()].fill(around[found]);
            }
        }
        Self { columns, is_target, of }
    }

    /// One character per column: the bracket of a loop around the instruction. Rarely executed code can lie
    /// between the blocks of a loop without being part of it.
    fn draw(&self, index: usize) -> String {
        let column = |(depth, rows): (usize, &Vec<(usize, usize, usize)>)| {
            let after = rows.partition_point(|&(first, ..)| first <= index);
            let inside = rows[..after].iter().rev().find(|&&(_, last, _)| index <= last);
            match inside {
                None => ' ',
                Some(&(.., at)) if self.of[index][depth] != Some(at) => ' ',
                Some(&(first, last, _)) if first == last => '⟳',
                Some(&(first, ..)) if first == index => '╭',
                Some(&(_, last, _)) if last == index => '╰',
                Some(_) => '│',
            }
        };
        self.columns.iter().enumerate().map(column).collect()
    }
}

enum Part {
    Shown(Range<usize>),
    /// The number of instructions left out.
    LeftOut(usize),
}

/// The blocks to show: those with samples and their neighbours in loops with samples, or all.
fn shown_blocks(listing: &Listing, view: AsmView<'_>) -> Vec<Part> {
    let body = &listing.body;
    let all = body.instructions.len();
    if let Some(inlined) = view.inlined.filter(|_| !view.whole) {
        let is_of_it = |index: usize| {
            listing
                .frames
                .get(index)
                .is_some_and(|frames| frames.iter().skip(1).any(|frame| frame.function == inlined))
        };
        return parts((0..all).map(|index| (index..index + 1, is_of_it(index))));
    }
    if view.whole || all <= SHORT || !listing.weights.are_known() {
        return vec![Part::Shown(0..all)];
    }
    let is_hot = |range: &Range<usize>| range.clone().any(|index| listing.weights.at(index) > 0);
    let blocks = body.blocks.iter().map(|block| block.instructions.clone());
    parts(blocks.map(|range| (range.clone(), is_hot(&range))))
}

/// Joins ranges that are shown, and those that are not.
fn parts(ranges: impl Iterator<Item = (Range<usize>, bool)>) -> Vec<Part> {
    /// Shorter gaps are shown in full.
    const GAP: usize = 6;
    let mut parts: Vec<Part> = Vec::new();
    for (range, is_hot) in ranges {
        let is_gap = matches!(&parts[..], [.., Part::Shown(_), Part::LeftOut(count)] if *count <= GAP);
        if is_hot && is_gap {
            parts.pop();
        }
        match (is_hot, parts.last_mut()) {
            (true, Some(Part::Shown(last))) => last.end = range.end,
            (true, _) => parts.push(Part::Shown(range)),
            (false, Some(Part::LeftOut(count))) => *count += range.len(),
            (false, _) => parts.push(Part::LeftOut(range.len())),
        }
    }
    parts
}

/// The source position printed last.
#[derive(Default)]
struct Shown {
    functions: Vec<String>,
    line: Option<(String, u32)>,
}

impl Shown {
    /// Prints the source of the next instruction, unless it is already printed.
    fn before(&mut self, out: &mut String, listing: &Listing, index: usize, view: AsmView<'_>) {
        let Some(frames) = listing.frames.get(index).filter(|frames| !frames.is_empty()) else { return };
        let functions: Vec<String> = frames.iter().map(|frame| frame.function.clone()).collect();
        let line = listing.line_of(index).map(|(file, line)| (file.to_owned(), line));
        let is_said = functions == self.functions && (line.is_none() || line == self.line);
        if is_said {
            return;
        }
        let depth = frames.len() - 1;
        let mut text = format!("{:>SHARE$}  {}", "", "› ".repeat(depth.min(6)));
        if depth > 0 && functions != self.functions {
            let name = frames.last().map_or("", |frame| frame.function.as_str());
            text = format!("{text}{}  ", shorten(&clean(name), view.width / 3));
        }
        if let Some((file, number)) = &line {
            let source = listing.sources.get(&(file.clone(), *number));
            let source = source.map(|text| clean_source(text).trim_start().to_owned()).unwrap_or_default();
            text = format!("{text}{}  {source}", place(&clean(file), *number, view.width / 3));
        }
        let colour = if depth > 0 { AnsiColor::Cyan } else { AnsiColor::Green };
        push_line(out, &styled(colour.on_default(), cut(&text, view.width).trim_end()));
        self.functions = functions;
        self.line = line;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use whyslow_asm::{
        Body, Callee, Kind, Language, Machine, Measure, Processor, SourceFrame, Weights, hints,
    };
    use whyslow_profile::{Code, ModuleId, RelativeAddress, Trigger, Unit};

    use super::super::tests::plain;
    use super::*;

    /// A loop that checks an index and divides, followed by a panic.
    fn listing() -> Listing {
        let bytes = vec![
            0x31, 0xc9, // xor ecx, ecx
            0x48, 0x39, 0xf1, // cmp rcx, rsi
            0x73, 0x0d, // jae panic
            0x48, 0x8b, 0x04, 0xcf, // mov rax, [rdi+rcx*8]
            0x48, 0xf7, 0xf3, // div rbx
            0x48, 0xff, 0xc1, // inc rcx
            0x75, 0xef, // jne cmp
            0xc3, // ret
            0xff, 0x15, 0x10, 0, 0, 0, // call [rip+0x10]
        ];
        let code = Code { module: ModuleId(0), start: RelativeAddress(0x1000), bytes };
        let body = Body::new(Processor::X86_64, &code, |_| {
            Some(Callee { name: "core::panicking::panic_bounds_check".to_owned(), size: None })
        });
        let own = vec![0, 5, 0, 10, 20, 60, 5, 0, 0];
        let weights = Weights { own, called: vec![0; 9], missed_branches: Vec::new() };
        let hints = hints(&body, &weights, &Machine::default());
        let frame = |function: &str, line: u32| SourceFrame {
            function: function.to_owned(),
            file: Some("src/main.rs".to_owned()),
            line,
        };
        let frames = (0..9).map(|index| match index {
            3 => vec![frame("app::rates", 8), frame("app::get", 3)],
            _ => vec![frame("app::rates", if index < 3 { 7 } else { 8 })],
        });
        let lines = [
            (3, "    values[at]"),
            (7, "    for at in 0..count {"),
            (8, "        sum += get(values, at) / by;"),
        ];
        Listing {
            function: "app::rates\u{1b}[31m".to_owned(),
            module: "/app".to_owned(),
            body,
            weights,
            measure: Some(Measure {
                metric: "cpu-time".to_owned(),
                unit: Unit::Nanoseconds,
                trigger: Trigger::CpuClock,
                whole: 200,
            }),
            frames: frames.collect(),
            sources: lines
                .iter()
                .map(|(line, text)| (("src/main.rs".to_owned(), *line), (*text).to_owned()))
                .collect::<HashMap<_, _>>(),
            machine: Machine::default(),
            language: Language::Rust,
            hints,
            notes: Vec::new(),
        }
    }

    fn written(listing: &Listing, whole: bool) -> String {
        let view = AsmView { width: 100, syntax: Syntax::Intel, whole, source: true, inlined: None };
        let text = asm(listing, view);
        plain(&text)
    }

    #[test]
    fn a_function_is_shown_with_its_loop_source_and_hints() {
        insta::assert_snapshot!(written(&listing(), false));
    }

    #[test]
    fn advice_is_for_the_language_of_the_code() {
        let of = |file: &str, language: Language| {
            let mut listing = Listing { language, ..listing() };
            for frame in listing.frames.iter_mut().flatten() {
                frame.file = (!file.is_empty()).then(|| file.to_owned());
            }
            let division = listing.hints.iter().find(|hint| hint.kind == Kind::Division).unwrap();
            listing.advice(division)
        };
        assert!(of("src/main.rs", Language::Native).contains("`u32` is faster"));
        assert!(of("src/main.c", Language::Rust).contains("`uint32_t` is faster"));
        assert!(of("", Language::Native).contains("`uint32_t` is faster"));
        assert!(of("main.go", Language::Rust).contains("32 bits are faster"));
    }

    #[test]
    fn hostile_names_are_escaped() {
        let text = asm(
            &listing(),
            AsmView { width: 100, syntax: Syntax::Intel, whole: true, source: true, inlined: None },
        );
        assert!(!text.contains("rates\u{1b}"), "{text:?}");
    }

    #[test]
    fn innermost_loops_say_whether_they_are_vectorised() {
        let tail = [0x48, 0x39, 0xf7, 0x75, 0xf3, 0xc3]; // cmp rdi, rsi; jne start; ret
        let packed = [&[0xc5, 0xfd, 0xfe, 0x07, 0x48, 0x83, 0xc7, 0x20][..], &tail].concat(); // vpaddd ymm; add rdi, 32
        let single = [&[0xf3, 0x0f, 0x58, 0x07, 0x48, 0x83, 0xc7, 0x04][..], &tail].concat(); // addss; add rdi, 4
        let verdict = |bytes: &[u8], features: &[&str]| {
            let bytes = bytes.to_vec();
            let code = Code { module: ModuleId(0), start: RelativeAddress(0x1000), bytes };
            let body = Body::new(Processor::X86_64, &code, |_| None);
            let count = body.instructions.len();
            let weights =
                Weights { own: vec![10; count], called: vec![0; count], missed_branches: Vec::new() };
            let machine = Machine::new(features.iter().copied());
            let hints = hints(&body, &weights, &machine);
            super::verdict(&Listing { body, weights, machine, hints, ..listing() }, 0)
        };
        assert_eq!(verdict(&packed, &[]).as_deref(), Some("vectorised, 32 bytes a step"));
        assert_eq!(verdict(&packed, &["avx2"]).as_deref(), Some("vectorised, 32 bytes a step"));
        assert_eq!(
            verdict(&packed, &["avx2", "avx512f"]).as_deref(),
            Some("vectorised, 32 of the processor's 64 bytes a step")
        );
        assert_eq!(verdict(&single, &[]).as_deref(), Some("scalar, because the order of sums is fixed"));
        let division = "scalar, because no vector instruction divides integers";
        assert_eq!(super::verdict(&listing(), 0).as_deref(), Some(division));
    }
}
