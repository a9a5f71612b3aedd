//! Compares one function in two builds or profiles, aligned by what its instructions do.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use whyslow_asm::{Aligned, Hint, Listing, align};
use whyslow_render::json;
use whyslow_render::sanitize::clean;
use whyslow_render::units::Percent;

use super::ViewArgs;
use crate::cli::Format;
use crate::failure::{Failure, Result};

/// The number of equal rows around each difference. Other equal rows are left out.
const CONTEXT: usize = 3;

#[derive(Serialize)]
struct Diff<'a> {
    schema: &'static str,
    before: Side<'a>,
    after: Side<'a>,
    hints_gone: Vec<&'static str>,
    hints_new: Vec<&'static str>,
    rows: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Side<'a> {
    function: &'a str,
    module: &'a str,
    instructions: usize,
    loops: usize,
    own: u64,
}

#[derive(Serialize)]
struct Row<'a> {
    change: &'static str,
    before: Option<Text<'a>>,
    after: Option<Text<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
    address: u64,
    text: &'a str,
    own: u64,
}

/// The differences between two versions of a function.
pub(super) fn diff(before: &Listing, after: &Listing, args: &ViewArgs) -> Result<String> {
    let syntax = args.syntax.into();
    let (old, new) = (before.body.texts(syntax), after.body.texts(syntax));
    let rows = align(&before.body, &after.body);
    let gone = missing(&before.hints, &after.hints);
    let fresh = missing(&after.hints, &before.hints);
    if args.format == Format::Json {
        let of_old = |at: usize| Text {
            address: before.body.instructions[at].address,
            text: &old[at],
            own: before.weights.own_at(at),
        };
        let of_new = |at: usize| Text {
            address: after.body.instructions[at].address,
            text: &new[at],
            own: after.weights.own_at(at),
        };
        let rows = rows.iter().map(|row| match *row {
            Aligned::Both(a, b) => Row { change: "same", before: Some(of_old(a)), after: Some(of_new(b)) },
            Aligned::Removed(a) => Row { change: "removed", before: Some(of_old(a)), after: None },
            Aligned::Added(b) => Row { change: "added", before: None, after: Some(of_new(b)) },
        });
        let document = Diff {
            schema: "whyslow-asm-diff/1",
            before: side(before),
            after: side(after),
            hints_gone: gone,
            hints_new: fresh,
            rows: rows.collect(),
        };
        return json::to_string(&document).map_err(|error| Failure::new(error.to_string()));
    }
    let mut out = String::new();
    for (word, listing) in [("before", before), ("after ", after)] {
        let share = listing.measure.as_ref().map_or(String::new(), |measure| {
            format!(", {} of {}", Percent(listing.own() as f64 / measure.whole.max(1) as f64), measure.metric)
        });
        let _ = writeln!(
            out,
            "{word}  {} of {}: {} instructions, {} loops{share}",
            clean(&listing.function),
            clean(&listing.module),
            listing.body.instructions.len(),
            listing.body.loops.len()
        );
    }
    for (word, ids) in [("removed hints", &gone), ("new hints", &fresh)] {
        if !ids.is_empty() {
            let _ = writeln!(out, "{word}: {}", ids.join(", "));
        }
    }
    let changed = rows.iter().filter(|row| !matches!(row, Aligned::Both(..))).count();
    if changed == 0 {
        out.push_str("the same instructions, except for registers, addresses and stack offsets\n");
        return Ok(out);
    }
    out.push('\n');
    let near = near_changes(&rows);
    let mut left_out = 0;
    for (row, near) in rows.iter().zip(near) {
        if !near && !args.all {
            left_out += 1;
            continue;
        }
        if std::mem::take(&mut left_out) > 0 {
            out.push_str("              ⋮\n");
        }
        let (mark, style, share, text) = match *row {
            Aligned::Both(_, b) => (' ', Style::new(), share(after, b), &new[b]),
            Aligned::Removed(a) => ('-', AnsiColor::Red.on_default(), share(before, a), &old[a]),
            Aligned::Added(b) => ('+', AnsiColor::Green.on_default(), share(after, b), &new[b]),
        };
        let _ = writeln!(out, "{style}{share:>7} {mark} {}{style:#}", clean(text));
    }
    Ok(out)
}

fn side(listing: &Listing) -> Side<'_> {
    Side {
        function: &listing.function,
        module: &listing.module,
        instructions: listing.body.instructions.len(),
        loops: listing.body.loops.len(),
        own: listing.own(),
    }
}

fn share(listing: &Listing, at: usize) -> String {
    match (listing.weights.own_at(at), listing.weights.total()) {
        (0, _) | (_, 0) => String::new(),
        (own, total) => Percent(own as f64 / total as f64).to_string(),
    }
}

/// Ids of hints that are only in the first list.
fn missing(of: &[Hint], among: &[Hint]) -> Vec<&'static str> {
    let has = |hint: &&Hint| !among.iter().any(|other| other.kind == hint.kind);
    let mut ids: Vec<&str> = of.iter().filter(has).map(|hint| hint.kind.id()).collect();
    ids.dedup();
    ids
}

/// Whether each row is within a few rows of a difference.
fn near_changes(rows: &[Aligned]) -> Vec<bool> {
    let mut near = vec![false; rows.len()];
    for (at, _) in rows.iter().enumerate().filter(|(_, row)| !matches!(row, Aligned::Both(..))) {
        let end = (at + CONTEXT + 1).min(rows.len());
        near[at.saturating_sub(CONTEXT)..end].fill(true);
    }
    near
}
