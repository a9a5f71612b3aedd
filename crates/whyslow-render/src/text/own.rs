//! Functions and lines of the user's code, each with the library code it calls.

use whyslow_analyze::{By, CallTree, HotLine, HotLines, Label, Nearness, OwnRow, OwnTable};
use whyslow_profile::{CodeKind, ModuleKind, Profile, SpecialFrame, bracketed, is_bracketed};

use super::functions::{definition, intro};
use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, cut, kind_style, label_name, left, number_of, place, push_line,
    push_wrapped, right, styled,
};
use super::ratios;
use crate::sanitize::{clean, clean_source};
use crate::units::{Percent, value};

const SHARE: usize = 8;
const TIME: usize = 10;
const KIND: usize = 11;
/// Spaces between two columns of text.
const GAP: usize = 2;
/// Narrower columns are left out.
const NARROWEST: usize = 12;

/// The meaning of `own`.
pub(super) const MEANING: &str = "own: your function plus the libraries it calls";

/// Renders the functions that time is charged to, at most `limit` of them.
pub fn own_functions(profile: &Profile, table: &OwnTable, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let intro = intro(profile, table.total_value, table.total_samples, None, page);
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    push_wrapped(&mut out, DIM, &format!("{MEANING}; see --by self, --by total"), page.width);
    ratios::push_meaning(&mut out, &table.ratios, page);
    out.push('\n');
    out.push_str(&own_rows(profile, table, limit, true, page));
    push_more(&mut out, table.rows.len(), limit, "more function", "more functions");
    out
}

fn push_more(out: &mut String, all: usize, limit: usize, one: &str, many: &str) {
    if all > limit {
        push_line(out, &styled(DIM, format!("and {}", number_of((all - limit) as u64, one, many))));
    }
}

/// Renders the header and the first rows; with `numbers`, also self and the value.
pub(super) fn own_rows(
    profile: &Profile,
    table: &OwnTable,
    limit: usize,
    numbers: bool,
    page: Page,
) -> String {
    let shown = &table.rows[..table.rows.len().min(limit)];
    if shown.is_empty() {
        return String::new();
    }
    let share = |part: u64| Percent(part as f64 / table.total_value.max(1) as f64).to_string();
    // The kind column is needed only if some function is not the user's.
    let kinds = shown.iter().any(|row| row.nearness != Nearness::Own);
    let mut header = right("own", SHARE);
    if numbers {
        header.push_str(&format!("{}{}", right("self", SHARE), right("own", TIME)));
        header.push_str(&ratios::header(&table.ratios, page));
    }
    header.push_str("  ");
    if kinds {
        header.push_str(&left("kind", KIND));
    }
    let room = page.width.saturating_sub(columns(&header));
    let names = shown.iter().map(|row| name_in_crate(profile, row.label)).collect::<Vec<_>>();
    let mut places = shown.iter().map(|row| hottest_line(profile, row, room / 4)).collect::<Vec<_>>();
    // Beside lines, a function without one shows its file.
    if places.iter().any(|place| !place.is_empty()) {
        for (place, row) in places.iter_mut().zip(shown).filter(|(place, _)| place.is_empty()) {
            *place = module_of(profile, row.label, room / 4);
        }
    }
    let mosts = shown.iter().map(|row| Most::of(profile, row, share)).collect::<Vec<_>>();
    let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let widths = Widths::share_out(
        room,
        widest(&mut names.iter().map(|name| columns(name))),
        widest(&mut places.iter().map(|place| columns(place))),
        widest(&mut mosts.iter().map(Most::columns)),
    );
    let names = names.iter().map(|name| page.fit(name, widths.name)).collect::<Vec<_>>();
    let mosts = mosts.iter().map(|most| most.text(widths.most, page)).collect::<Vec<_>>();
    // Shortened names may need less room.
    let name_column = widest(&mut names.iter().map(|name| columns(name))).max("function".len());
    let cells = |name: String, name_width: usize, place: &str, most: &str| {
        let mut text = name + &" ".repeat(name_column.saturating_sub(name_width) + GAP);
        if widths.place > 0 {
            text.push_str(&styled(DIM, left(place, widths.place + GAP)));
        }
        if widths.most > 0 {
            text.push_str(most);
        }
        text
    };
    let mut out = String::new();
    let title = cut("hottest line", widths.place);
    header.push_str(&cells("function".to_owned(), "function".len(), &title, &cut("mostly in", widths.most)));
    push_line(&mut out, &styled(BOLD, header.trim_end()));
    for (((row, name), place), most) in shown.iter().zip(&names).zip(&places).zip(&mosts) {
        let kind = CallTree::kind(profile, row.label);
        let mut text = right(&share(row.own_value), SHARE);
        if numbers {
            text.push_str(&right(&share(row.self_value), SHARE));
            text.push_str(&right(&value(row.own_value, page.unit), TIME));
            text.push_str(&ratios::cells(&table.ratios, row.label, page));
        }
        text.push_str("  ");
        if kinds {
            text.push_str(&styled(kind_style(kind), left(kind.label(), KIND)));
        }
        text.push_str(&cells(styled(kind_style(kind), name), columns(name), place, most));
        push_line(&mut out, &text);
    }
    out
}

/// A function's name, with its crate if debug info names the function without a path.
pub(super) fn name_in_crate(profile: &Profile, label: Label) -> String {
    let name = label_name(profile, label);
    let crate_name = match label {
        Label::Function(id) if !name.contains("::") => profile.functions[id.index()].crate_name,
        _ => None,
    };
    let kind = CallTree::kind(profile, label);
    match crate_name.map(|id| clean(profile.text(id))) {
        Some(crate_name)
            if matches!(kind, CodeKind::Yours | CodeKind::Dependency)
                && !name.contains(&*crate_name)
                && !is_c(profile, label) =>
        {
            format!("{crate_name}::…::{name}")
        }
        _ => name,
    }
}

/// Whether a function has a plain name, as in C: its library is no path.
fn is_c(profile: &Profile, label: Label) -> bool {
    let Label::Function(id) = label else { return false };
    let function = &profile.functions[id.index()];
    function.raw_name == function.name || profile.text(function.raw_name) == profile.text(function.name)
}

/// The file that a function without lines is in: `[libz.so.1]`; `[jit]` for compiled code in memory.
fn module_of(profile: &Profile, label: Label, width: usize) -> String {
    let Label::Function(id) = label else { return String::new() };
    let module = profile.functions[id.index()].module.and_then(|row| profile.modules.get(row.index()));
    let path = module.map_or("", |module| profile.text(module.path));
    let file = path.rsplit('/').next().unwrap_or(path);
    if module.is_some_and(|module| module.kind == ModuleKind::Jit) {
        SpecialFrame::Jit.text().to_owned()
    } else if file.is_empty() || is_bracketed(file) {
        String::new()
    } else {
        cut(&bracketed(&clean(file)), width)
    }
}

/// The hottest line of a function, or its definition if no line is known.
fn hottest_line(profile: &Profile, row: &OwnRow, width: usize) -> String {
    match row.line {
        Some(hottest) => place(&clean(profile.text(hottest.file)), hottest.line, width),
        None => definition(profile, row.label, width),
    }
}

/// The function that has most of another function's own time: itself or a callee.
struct Most {
    share: String,
    name: String,
}

impl Most {
    fn of(profile: &Profile, row: &OwnRow, share: impl Fn(u64) -> String) -> Self {
        match row.beneath {
            Some(beneath) if beneath.value > row.self_value => {
                Self { share: share(beneath.value), name: name_in_crate(profile, beneath.label) }
            }
            _ => Self { share: share(row.self_value), name: "itself".to_owned() },
        }
    }

    fn columns(&self) -> usize {
        SHARE + columns(&self.name)
    }

    fn text(&self, width: usize, page: Page) -> String {
        let share = right(&self.share, SHARE - 1);
        format!("{share} {}", page.fit(&self.name, width.saturating_sub(columns(&share) + 1)))
    }
}

/// The widths of the text columns; 0 for a column that is left out.
struct Widths {
    name: usize,
    place: usize,
    most: usize,
}

impl Widths {
    /// Gives each column the width it needs; if the room is too small, the longest column shrinks.
    fn share_out(room: usize, name: usize, place: usize, most: usize) -> Self {
        let gap = |width: usize| if width > 0 { width + GAP } else { 0 };
        let place = if place > 0 && room >= 5 * NARROWEST { place.max("hottest line".len()) } else { 0 };
        let most = most.max("mostly in".len());
        let rest = room.saturating_sub(gap(place) + GAP);
        // Function names take more than half of the room only if the other columns need less.
        let half = rest * 9 / 16;
        let most = most.min(rest.saturating_sub(name.min(half)));
        if most < NARROWEST {
            return Self { name: room.saturating_sub(gap(place)), place, most: 0 };
        }
        Self { name: rest - most, place, most }
    }
}

/// Renders the most expensive lines of all functions, at most `limit` of them.
pub fn hot_lines(profile: &Profile, lines: &HotLines, limit: usize, page: Page) -> String {
    let mut out = String::new();
    let intro = intro(profile, lines.total_value, lines.total_samples, None, page);
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    let meaning = match lines.by {
        By::Own => "own: your line plus the libraries it calls; see --by self",
        By::SelfValue => "self: the line itself; see --by own",
    };
    push_wrapped(&mut out, DIM, meaning, page.width);
    out.push('\n');
    let shown = &lines.rows[..lines.rows.len().min(limit)];
    let numbers = 2 * SHARE + GAP;
    let room = page.width.saturating_sub(numbers);
    let names = shown.iter().map(|row| page.fit(&name_in_crate(profile, row.label), room * 3 / 10));
    let names = names.collect::<Vec<_>>();
    let places = shown.iter().map(|row| place_of(profile, row, room * 3 / 10)).collect::<Vec<_>>();
    let widest = |texts: &[String], title: &str| {
        texts.iter().map(|text| columns(text)).max().unwrap_or(0).max(columns(title))
    };
    let (name_width, place_width) = (widest(&names, "function"), widest(&places, "line"));
    let header = format!(
        "{}{}  {}{}source",
        right("own", SHARE),
        right("self", SHARE),
        left("line", place_width + GAP),
        left("function", name_width + GAP)
    );
    push_line(&mut out, &styled(BOLD, header));
    let share = |part: u64| Percent(part as f64 / lines.total_value.max(1) as f64).to_string();
    for ((row, name), place) in shown.iter().zip(&names).zip(&places) {
        let style = kind_style(CallTree::kind(profile, row.label));
        let source = row.text.map_or(String::new(), |text| clean_source(profile.text(text)));
        let used = numbers + place_width + name_width + 2 * GAP;
        let source = cut(source.trim_start(), page.width.saturating_sub(used));
        let (own, itself) = (share(row.own_value), share(row.self_value));
        let numbers = format!("{}{}  ", right(&own, SHARE), right(&itself, SHARE));
        let (place, name) = (left(place, place_width + GAP), left(name, name_width + GAP));
        push_line(&mut out, &format!("{numbers}{place}{}{source}", styled(style, name)));
    }
    push_more(&mut out, lines.rows.len(), limit, "more line", "more lines");
    if lines.rows.iter().all(|row| row.line == 0) {
        out.push('\n');
        let why = "No line numbers: the code was built without debug info.";
        push_wrapped(&mut out, PLAIN, why, page.width);
    }
    out
}

fn place_of(profile: &Profile, row: &HotLine, width: usize) -> String {
    row.file.map_or_else(|| "?".to_owned(), |file| place(&clean(profile.text(file)), row.line, width))
}
