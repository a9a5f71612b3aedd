//! The viewer's payload for a comparison of two sides. `viewer/PAYLOAD.md` describes every column.

use std::fmt::Write as _;
use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;
use whyslow_analyze::diff::{Change, DiffRow, Paths, Place, Verification};
use whyslow_profile::{Carrier, Profile};
use whyslow_words::Fact;

use super::container::{Columns, Description, NONE};
use super::page::{push_paragraph, push_title};
use super::payload::{Family, SCHEMA, collect, symbols};
use super::texts::Texts;
use crate::flame::changes::{VERDICTS, WORDS, colour, verdict_code};
use crate::flame::text::{push_xml, visible};
use crate::json::RemarkJson;
use crate::text::{DiffFile, DiffView, VerifyView, remark_line, verify_summary};
use crate::units::value;

/// Rows in the table for readers without scripts.
const ROWS: usize = 30;

/// A comparison and its call paths.
#[derive(Debug, Clone, Copy)]
pub struct ChangesView<'a> {
    /// The comparison.
    pub diff: DiffView<'a>,
    /// The call paths of both sides.
    pub paths: &'a Paths,
}

#[derive(Serialize)]
struct Header<'a> {
    schema: &'static str,
    carriers: Vec<Family>,
    diff: Head<'a>,
    columns: Description,
}

#[derive(Serialize)]
struct Head<'a> {
    answer: String,
    worth: String,
    metric: &'a str,
    unit: u8,
    runs: usize,
    counted: bool,
    rows_are: &'static str,
    before: SideHead<'a>,
    after: SideHead<'a>,
    remarks: Vec<RemarkJson>,
    totals: Vec<TotalHead<'a>>,
    verdicts: Vec<&'static str>,
    colours: [&'static str; WORDS.len()],
}

#[derive(Serialize)]
struct SideHead<'a> {
    files: Vec<&'a str>,
    command: &'a [String],
}

impl<'a> SideHead<'a> {
    fn of(DiffFile { name, profile, more, .. }: DiffFile<'a>) -> Self {
        let files = std::iter::once(name).chain(more.iter().map(String::as_str)).collect();
        Self { files, command: &profile.meta.command }
    }
}

/// A total of both sides.
#[derive(Serialize)]
struct TotalHead<'a> {
    what: &'a str,
    unit: u8,
    before: u64,
    after: u64,
    margin: Option<f64>,
    ratio: Option<[f64; 3]>,
    verdict: u8,
}

impl<'a> ChangesView<'a> {
    /// The names of both sides.
    pub(super) fn title(&self) -> String {
        let name = |file: DiffFile<'a>| match file.profile.meta.command.as_slice() {
            [] => file.name.to_owned(),
            words => words.join(" "),
        };
        let [before, after] = [self.diff.before, self.diff.after].map(name);
        match before == after {
            true => format!("{after}: what changed"),
            false => format!("{before} → {after}"),
        }
    }

    /// The answer in one paragraph; empty if there is nothing to compare.
    fn answer(&self) -> String {
        let verification = Verification::of(self.diff.diff);
        verification.map_or_else(String::new, |verification| {
            verify_summary(&VerifyView { diff: self.diff, verification: &verification, aim: None })
        })
    }

    /// The answer and the rows that changed most, for readers without scripts.
    pub(super) fn without_scripts(&self) -> String {
        let diff = self.diff.diff;
        let mut html = String::new();
        push_title(&mut html, &self.title());
        push_paragraph(&mut html, &self.answer());
        for caveat in &diff.caveats {
            push_paragraph(&mut html, &remark_line(&caveat.remark()));
        }
        push_paragraph(&mut html, "The viewer needs JavaScript, which is off here. What changed most:");
        html.push_str("<table>\n<tr><th>before</th><th>after</th><th></th><th></th></tr>\n");
        for row in diff.rows.iter().take(ROWS) {
            let Change { before, after, .. } = row.own;
            let verdict = row.own.proven();
            let [before, after] = [before, after].map(|side| value(side, diff.unit));
            let _ = write!(html, "<tr><td>{before}</td><td>{after}</td><td>{}</td><td>", verdict.label());
            push_xml(&mut html, &visible(&self.name(row)));
            html.push_str("</td></tr>\n");
        }
        html.push_str("</table>\n");
        html
    }

    fn name(&self, row: &DiffRow) -> String {
        let (profile, place) = match (row.after, row.before) {
            (Some(place), _) => (self.diff.after.profile, place),
            (None, Some(place)) => (self.diff.before.profile, place),
            (None, None) => return String::new(),
        };
        whyslow_analyze::CallTree::name(profile, place.label).into_owned()
    }

    /// Writes the container.
    pub(super) fn write_container(&self, out: &mut dyn Write) -> io::Result<()> {
        let diff = self.diff.diff;
        let totals = diff.totals.iter().map(|total| TotalHead {
            what: &total.what,
            unit: total.unit.code(),
            before: total.change.before,
            after: total.change.after,
            margin: total.change.margin,
            ratio: total.change.ratio.map(|ratio| [ratio.estimate, ratio.low, ratio.high]),
            verdict: verdict_code(total.change.proven()),
        });
        let head = |columns| Header {
            schema: SCHEMA,
            carriers: Carrier::all().map(Family::of).collect(),
            diff: Head {
                answer: self.answer(),
                worth: self.diff.worth(),
                metric: &diff.metric,
                unit: diff.unit.code(),
                runs: diff.runs,
                counted: diff.counted,
                rows_are: if diff.sites { "lines" } else { "functions" },
                before: SideHead::of(self.diff.before),
                after: SideHead::of(self.diff.after),
                remarks: diff.caveats.iter().map(|caveat| caveat.remark().into()).collect(),
                totals: totals.collect(),
                verdicts: VERDICTS.map(whyslow_analyze::diff::Verdict::label).to_vec(),
                colours: WORDS,
            },
            columns,
        };
        self.columns().write(head, out)
    }

    fn columns(&self) -> Columns<'a> {
        let Paths { profile, tree, own, total, .. } = self.paths;
        let mut columns = Columns::default();
        let mut texts = Texts::new(&profile.strings);
        symbols(profile, &mut columns, &mut texts);
        columns.u32("paths.parent", tree.parent.iter().copied());
        let function = |label: &whyslow_analyze::Label| match label {
            whyslow_analyze::Label::Function(id) => id.0,
            _ => NONE,
        };
        columns.u32("paths.function", collect(&tree.label, function));
        columns.u8("paths.inlined", collect(&tree.inlined, |inlined| u8::from(*inlined)));
        columns.f64("paths.self", tree.self_value.iter().map(|value| *value as f64));
        columns.f64("paths.total", tree.total_value.iter().map(|value| *value as f64));
        columns.u8("paths.colour", collect(total, |change| colour(change) as u8));
        push_changes(&mut columns, "paths_own", own.iter());
        push_changes(&mut columns, "paths_total", total.iter());
        self.push_rows(&mut columns, &mut texts);
        let (bytes, ends) = texts.finish();
        columns.u8("strings.bytes", bytes);
        columns.u32("strings.ends", ends);
        columns
    }

    /// Adds functions, or lines, compared regardless of their callers.
    fn push_rows(&self, columns: &mut Columns<'a>, texts: &mut Texts<'_>) {
        let rows = &self.diff.diff.rows;
        let of_side = |side: usize| {
            let places = (0u32..).zip(&self.paths.places);
            places.filter_map(|(row, places)| Some((places[side]?.label, row))).collect::<FxHashMap<_, _>>()
        };
        let [old, new] = [of_side(0), of_side(1)];
        let function = |row: &DiffRow| {
            let of = |of: &FxHashMap<_, u32>, place: Option<Place>| of.get(&place?.label).copied();
            of(&new, row.after).or_else(|| of(&old, row.before)).unwrap_or(NONE)
        };
        columns.u32("rows.function", collect(rows, function));
        columns.u8(
            "rows.seen",
            collect(rows, |row| match (row.before, row.after) {
                (Some(_), None) => 1,
                (None, Some(_)) => 2,
                _ => 0,
            }),
        );
        let (before, after) = (self.diff.before.profile, self.diff.after.profile);
        let mut file = |profile: &Profile, place: Place| {
            place.file.map_or(NONE, |file| texts.add(profile.text(file).to_owned()))
        };
        columns.u32(
            "rows.file",
            collect(rows, |row| match (row.after, row.before) {
                (Some(place), _) => file(after, place),
                (None, Some(place)) => file(before, place),
                (None, None) => NONE,
            }),
        );
        columns.u32("rows.line", collect(rows, |row| row.after.or(row.before).map_or(0, |place| place.line)));
        push_changes(columns, "rows_own", rows.iter().map(|row| &row.own));
        if !self.diff.diff.sites {
            push_changes(
                columns,
                "rows_total",
                rows.iter().map(|row| row.total.as_ref().unwrap_or(&row.own)),
            );
        }
    }
}

/// Adds both values of each change and its verdict.
fn push_changes<'c>(
    columns: &mut Columns<'_>,
    table: &str,
    changes: impl ExactSizeIterator<Item = &'c Change> + Clone,
) {
    let mut push = |name: &str, value: fn(&Change) -> f64| {
        columns.f64(format!("{table}.{name}"), changes.clone().map(value).collect::<Vec<_>>());
    };
    push("before", |change| change.before as f64);
    push("after", |change| change.after as f64);
    push("margin", |change| change.margin.unwrap_or(f64::NAN));
    push("ratio", |change| change.ratio.map_or(f64::NAN, |ratio| ratio.estimate));
    push("low", |change| change.ratio.map_or(f64::NAN, |ratio| ratio.low));
    push("high", |change| change.ratio.map_or(f64::NAN, |ratio| ratio.high));
    push("q", |change| change.ratio.map_or(f64::NAN, |ratio| ratio.q));
    let verdicts = changes.map(|change| verdict_code(change.proven())).collect::<Vec<_>>();
    columns.u8(format!("{table}.verdict"), verdicts);
}
