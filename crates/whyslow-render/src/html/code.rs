//! The viewer's payload for machine code: instructions, branch targets, loops, and hints.

use std::cmp::Reverse;

use whyslow_analyze::{Label, Selection};
use whyslow_asm::{
    Body, Destination, Flow, Hint, Language, Machine, Names, Processor, Syntax, Weights, hints, skid,
};
use whyslow_explain::{Place, language_of};
use whyslow_profile::{Code, LocationId, Profile, StackId, Subject};

use super::container::{Columns, NONE};
use super::payload::collect;
use super::texts::Texts;

/// Functions with a smaller share of all samples in their own code get no hints.
const NOTABLE: f64 = 0.005;
/// Maximum number of functions with hints: each function takes a pass over every stack.
const MOST: usize = 50;

/// Which instruction CPU samples are attributed to, if the reader has to know.
pub(super) fn where_samples_fall(profile: &Profile) -> Option<&'static str> {
    let metric = profile.metrics.iter().find(|metric| metric.of == Subject::Cpu)?;
    skid(metric.origin.sampler().trigger).filter(|_| !profile.code.rows.is_empty())
}

/// Adds the recorded code.
pub(super) fn push_code<'p>(profile: &'p Profile, columns: &mut Columns<'p>, texts: &mut Texts<'_>) {
    let mut rows = profile.code.rows.iter().collect::<Vec<_>>();
    rows.sort_by_key(|row| (row.module, row.start));
    let mut tables = Tables::default();
    if let Some(processor) = Processor::of(&profile.meta.host.arch) {
        let names = Names::of(profile);
        let hot = Hot::of(profile, &rows);
        for (number, row) in (0u32..).zip(&rows) {
            let body = Body::new(processor, row, |branch| names.target(row.module, branch));
            let found = hot.hints(number, row, &body);
            let language = if found.is_empty() { Language::Other } else { language_of_code(profile, row) };
            tables.add(number, &body, (&found, language), texts);
        }
    }
    columns.u32("code.module", collect(&rows, |row| row.module.0));
    columns.f64("code.start", collect(&rows, |row| row.start.0 as f64));
    columns.f64("code.end", rows.into_iter().map(|row| row.start.0 as f64 + row.bytes.len() as f64));
    tables.push(columns);
}

/// The functions with the most CPU samples in their own code.
struct Hot<'p> {
    profile: &'p Profile,
    values: Vec<u64>,
    /// Rows of the code, sorted.
    rows: Vec<u32>,
}

impl<'p> Hot<'p> {
    fn of(profile: &'p Profile, codes: &[&Code]) -> Self {
        let metric = profile.metric_of(Subject::Cpu);
        let weigh = |metric| Selection { metric, ..Selection::default() }.weigh(profile).value;
        let values: Vec<u64> = metric.map(weigh).unwrap_or_default();
        let mut own = vec![0_u64; codes.len()];
        let mut total = 0_u64;
        for (stack, &value) in values.iter().enumerate().filter(|(_, value)| **value > 0) {
            total = total.saturating_add(value);
            let location = profile.stacks.location(StackId::from(stack)).index();
            let Some(module) = profile.locations.module[location] else { continue };
            let address = profile.locations.address[location];
            let after = codes.partition_point(|code| (code.module, code.start) <= (module, address));
            let Some(row) = after.checked_sub(1) else { continue };
            let into = address.0.wrapping_sub(codes[row].start.0);
            if codes[row].module == module && into < codes[row].bytes.len() as u64 {
                own[row] = own[row].saturating_add(value);
            }
        }
        let is_notable = |row: &u32| own[*row as usize] as f64 > total as f64 * NOTABLE;
        let mut rows: Vec<u32> = (0..codes.len() as u32).filter(is_notable).collect();
        rows.sort_by_key(|row| Reverse(own[*row as usize]));
        rows.truncate(MOST);
        rows.sort_unstable();
        Self { profile, values, rows }
    }

    fn hints(&self, number: u32, code: &Code, body: &Body) -> Vec<Hint> {
        if self.rows.binary_search(&number).is_err() {
            return Vec::new();
        }
        let weights = Weights::with_misses(body, code.module, self.profile, self.values.clone());
        hints(body, &weights, &Machine::of(&self.profile.meta.host))
    }
}

/// The language of a function's code, by a sampled frame of its own.
fn language_of_code(profile: &Profile, code: &Code) -> Language {
    let is_there = |location: &LocationId| {
        let row = location.index();
        let into = profile.locations.address[row].0.wrapping_sub(code.start.0);
        profile.locations.module[row] == Some(code.module) && into < code.bytes.len() as u64
    };
    let mut locations = (0..profile.locations.len()).map(LocationId::from).filter(is_there);
    let frame = locations.find_map(|location| profile.frames.of(location).first());
    let place = frame.map(|frame| Place {
        label: Label::Function(frame.function),
        file: frame.file,
        line: frame.line,
    });
    place.map_or(Language::Other, |place| language_of(profile, &place))
}

/// The columns under construction.
#[derive(Default)]
struct Tables {
    code: Vec<u32>,
    address: Vec<f64>,
    text: Vec<u32>,
    target: Vec<u32>,
    in_loop: Vec<u32>,
    /// Code, parent, first and last instruction.
    loops: [Vec<u32>; 4],
    /// Code, loop, id, sentence, advice.
    hints: [Vec<u32>; 5],
    /// Hint and instruction.
    shown: [Vec<u32>; 2],
}

impl Tables {
    /// `language` is that of the code.
    fn add(
        &mut self,
        number: u32,
        body: &Body,
        (hints, language): (&[Hint], Language),
        texts: &mut Texts<'_>,
    ) {
        let (first_row, first_loop) = (self.code.len() as u32, self.loops[0].len() as u32);
        let row = |at: usize| first_row + at as u32;
        let loop_row = |at: Option<usize>| at.map_or(NONE, |at| first_loop + at as u32);
        for (at, (instruction, text)) in body.instructions.iter().zip(body.texts(Syntax::Intel)).enumerate() {
            let target = match instruction.flow {
                Flow::Branch(target) | Flow::Jump(Destination::Code(target)) => body.instruction_at(target),
                _ => None,
            };
            self.code.push(number);
            self.address.push(instruction.address as f64);
            self.text.push(texts.add(text));
            self.target.push(target.map_or(NONE, row));
            self.in_loop.push(loop_row(body.loop_of(at)));
        }
        for (found, (first, last)) in body.loops.iter().zip(body.loop_extents()) {
            push(&mut self.loops, [number, loop_row(found.parent), row(first), row(last)]);
        }
        for hint in hints {
            let hint_row = self.hints[0].len() as u32;
            let id = texts.add(hint.kind.id().to_owned());
            let advice = hint.advice.in_language(language);
            let (sentence, advice) = (texts.add(hint.sentence.clone()), texts.add(advice.to_owned()));
            push(&mut self.hints, [number, loop_row(hint.in_loop), id, sentence, advice]);
            for at in hint.addresses.iter().filter_map(|address| body.instruction_at(*address)) {
                push(&mut self.shown, [hint_row, row(at)]);
            }
        }
    }

    fn push(self, columns: &mut Columns<'_>) {
        columns.u32("instructions.code", self.code);
        columns.f64("instructions.address", self.address);
        columns.u32("instructions.text", self.text);
        columns.u32("instructions.target", self.target);
        columns.u32("instructions.loop", self.in_loop);
        push_table("loops", ["code", "parent", "first", "last"], self.loops, columns);
        push_table("hints", ["code", "loop", "id", "sentence", "advice"], self.hints, columns);
        push_table("hint_instructions", ["hint", "instruction"], self.shown, columns);
    }
}

fn push<const N: usize>(columns: &mut [Vec<u32>; N], row: [u32; N]) {
    columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
}

fn push_table<const N: usize>(table: &str, names: [&str; N], rows: [Vec<u32>; N], columns: &mut Columns<'_>) {
    for (name, rows) in names.into_iter().zip(rows) {
        columns.u32(format!("{table}.{name}"), rows);
    }
}
