//! Tree maps as SVG: areas in proportion to bytes, groups as frames around what is in them.

mod layout;

use std::fmt::Write as _;

use whyslow_analyze::size::Sizes;
use whyslow_profile::size::Part;
use whyslow_profile::{CodeKind, bracketed};
use whyslow_words::Percent;

use crate::flame::text::{push_xml, visible};
use crate::names::{columns, cut, shorten};
use crate::svg::label;
use crate::units::bytes;
use layout::{Rect, squarify};

const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 800.0;
const TOP: f64 = 56.0;
const STRIP: f64 = 16.0;
/// Pixels of a character of the labels.
const CHARACTER: f64 = 6.7;
/// Smaller rectangles are one, in square pixels.
const SMALLEST: f64 = 6.0;

const STYLE: &str = "\
svg{font:13px system-ui,sans-serif;background:#fff;color:#1b1f24}text{fill:currentColor}.title{font-size:16px;font-weight:600}.dim{fill:#57606a}\
.n{font:11px ui-monospace,monospace;fill:#111;pointer-events:none}.b{font-weight:600}rect{stroke:#fff;stroke-width:.6}\
.g{fill:#d0d7de}.k0{fill:#f09a48}.k1{fill:#f8db8d}.k2{fill:#54c8f6}.k3{fill:#cf84c8}.k4{fill:#5bb077}.k5{fill:#a9b3bb}.k6{fill:#eceef0}\
rect:hover{stroke:#111;stroke-width:2}\
@media(prefers-color-scheme:dark){svg{background:#0d1117;color:#e6edf3}.dim{fill:#9198a1}.g{fill:#8b949e}}";

/// They would hide everything else, and no program needs them to run.
const LEFT_OUT: [Part; 2] = [Part::Debug, Part::Symbols];

/// Kinds in the order of their classes `k0`, `k1`, …, with their names in the legend.
const KINDS: [(Option<CodeKind>, &str); 7] = [
    (Some(CodeKind::Yours), "your code"),
    (Some(CodeKind::Dependency), "dependency"),
    (Some(CodeKind::Std), "std"),
    (Some(CodeKind::Allocator), "allocator"),
    (Some(CodeKind::Runtime), "runtime"),
    (Some(CodeKind::Unknown), "other code"),
    (None, "no function"),
];

/// The class of a kind of code.
fn class(kind: Option<CodeKind>) -> usize {
    match kind {
        Some(CodeKind::Yours) => 0,
        Some(CodeKind::Dependency) => 1,
        Some(CodeKind::Std) => 2,
        Some(CodeKind::Allocator) => 3,
        Some(CodeKind::Runtime | CodeKind::Kernel) => 4,
        Some(CodeKind::Unknown) => 5,
        None => 6,
    }
}

/// A rectangle to draw.
struct Block<'a> {
    name: &'a str,
    bytes: u64,
    kind: Option<CodeKind>,
}

/// A frame around blocks.
struct Group<'a> {
    name: &'a str,
    bytes: u64,
    blocks: Vec<Block<'a>>,
}

fn groups(sizes: &Sizes) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = sizes
        .groups
        .iter()
        .map(|row| Group { name: &row.name, bytes: row.bytes.total(), blocks: Vec::new() })
        .collect();
    let rows: rustc_hash::FxHashMap<&str, usize> =
        sizes.groups.iter().enumerate().map(|(at, row)| (row.name.as_str(), at)).collect();
    let functions = sizes.functions.iter().map(|row| {
        (row.group.as_str(), Block { name: &row.name, bytes: row.bytes.total(), kind: Some(row.kind) })
    });
    let others = sizes
        .unowned
        .iter()
        .map(|row| (row.group.as_str(), Block { name: &row.name, bytes: row.bytes, kind: None }));
    for (group, block) in functions.chain(others) {
        if let Some(at) = rows.get(group) {
            groups[*at].blocks.push(block);
        }
    }
    let is_left_out = |name: &str| LEFT_OUT.iter().any(|part| name == bracketed(part.label()));
    groups.retain(|group| !is_left_out(group.name));
    for group in &mut groups {
        group.blocks.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(b.name)));
    }
    groups
}

/// Draws a file: a frame per crate, a rectangle per function over all its instances.
pub fn of_sizes(file: &str, sizes: &Sizes) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\">\n<style>{STYLE}</style>\n"
    );
    let title = cut(&visible(file), 100);
    label(&mut out, "title", 8.0, 24.0, "start", &format!("{title}: {}", bytes(sizes.total)));
    let left_out: u64 = LEFT_OUT.iter().map(|part| sizes.part(*part)).sum();
    let mut what = "areas are bytes in the file; point at one for its name and size".to_owned();
    if left_out > 0 {
        what.push_str(&format!("; without {} of debug information and symbol table", bytes(left_out)));
    }
    label(&mut out, "dim", 8.0, 44.0, "start", &what);
    legend(&mut out);
    let groups = groups(sizes);
    let values: Vec<f64> = groups.iter().map(|group| group.bytes as f64).collect();
    let whole = Rect { x: 0.0, y: TOP, width: WIDTH, height: HEIGHT - TOP };
    let (mut small, mut small_area) = (0, None::<Rect>);
    let mut small_bytes = 0;
    for (group, rect) in groups.iter().zip(squarify(&values, whole)) {
        if rect.area() < SMALLEST {
            small += 1;
            small_bytes += group.bytes;
            small_area = Some(join(small_area, rect));
        } else {
            draw_group(&mut out, group, rect, sizes.total);
        }
    }
    if let Some(rect) = small_area {
        block(&mut out, rect, "g", &format!("{small} smaller: {}", bytes(small_bytes)), None);
    }
    out.push_str("</svg>\n");
    out
}

fn legend(out: &mut String) {
    let mut x = WIDTH - 8.0;
    for (kind, name) in KINDS.iter().rev() {
        x -= columns(name) as f64 * 7.0 + 4.0;
        label(out, "dim", x, 24.0, "start", name);
        x -= 16.0;
        let _ = writeln!(
            out,
            "<rect class=\"k{}\" x=\"{x:.1}\" y=\"13\" width=\"12\" height=\"12\"/>",
            class(*kind)
        );
        x -= 12.0;
    }
}

/// The smallest rectangle around two.
fn join(one: Option<Rect>, other: Rect) -> Rect {
    let Some(one) = one else { return other };
    let (x, y) = (one.x.min(other.x), one.y.min(other.y));
    let right = (one.x + one.width).max(other.x + other.width);
    let bottom = (one.y + one.height).max(other.y + other.height);
    Rect { x, y, width: right - x, height: bottom - y }
}

fn draw_group(out: &mut String, group: &Group<'_>, rect: Rect, total: u64) {
    let words = |name: &str, size: u64| {
        let share = Percent(size as f64 / total.max(1) as f64);
        format!("{}\n{} ({share})", visible(name), bytes(size))
    };
    let has_strip = rect.width > 40.0 && rect.height > 2.0 * STRIP;
    block(out, rect, "g", &words(group.name, group.bytes), None);
    if has_strip {
        let text = format!("{} {}", group.name, bytes(group.bytes));
        name_at(out, rect.x + 3.0, rect.y + 12.0, &cut(&visible(&text), fitting(rect.width)), true);
    }
    let inside = rect.inside(1.0, if has_strip { STRIP - 1.0 } else { 0.0 });
    let values: Vec<f64> = group.blocks.iter().map(|block| block.bytes as f64).collect();
    let mut small: Option<(Rect, u64, u64)> = None;
    for (one, place) in group.blocks.iter().zip(squarify(&values, inside)) {
        if place.area() < SMALLEST {
            let (area, count, size) =
                small.map_or((None, 0, 0), |(area, count, size)| (Some(area), count, size));
            small = Some((join(area, place), count + 1, size + one.bytes));
            continue;
        }
        let text = words(one.name, one.bytes);
        block(
            out,
            place,
            &format!("k{}", class(one.kind)),
            &format!("{text}\n{}", visible(group.name)),
            Some(one.name),
        );
    }
    if let Some((area, count, size)) = small {
        let text = format!("{count} smaller: {}\n{}", bytes(size), visible(group.name));
        block(out, area, "k5", &text, None);
    }
}

fn block(out: &mut String, rect: Rect, class: &str, tip: &str, name: Option<&str>) {
    let Rect { x, y, width, height } = rect;
    let _ = write!(
        out,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"><title>"
    );
    push_xml(out, tip);
    out.push_str("</title></rect>\n");
    if let Some(name) = name.filter(|_| width > 44.0 && height > 14.0) {
        name_at(out, x + 3.0, y + 12.0, &visible(&shorten(name, fitting(width))), false);
    }
}

fn fitting(width: f64) -> usize {
    ((width - 6.0) / CHARACTER).max(0.0) as usize
}

fn name_at(out: &mut String, x: f64, y: f64, text: &str, bold: bool) {
    let class = if bold { "n b" } else { "n" };
    let _ = write!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">");
    push_xml(out, text);
    out.push_str("</text>\n");
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::size::{Bytes, FunctionSize, SizeRow, Unowned};

    use super::*;

    #[test]
    fn a_tree_map_is_well_formed_whatever_the_names_contain() {
        let row = |name: &str, code: u64| SizeRow {
            name: name.to_owned(),
            part: None,
            bytes: Bytes { code, ..Bytes::default() },
        };
        let function = |name: &str, code: u64| FunctionSize {
            name: name.to_owned(),
            group: "<app> & \"co\"".to_owned(),
            kind: CodeKind::Yours,
            bytes: Bytes { code, ..Bytes::default() },
            instances: 1,
            is_function: true,
            is_named: true,
        };
        let sizes = Sizes {
            total: 1_000_010,
            parts: Vec::new(),
            sections: Vec::new(),
            groups: vec![row("<app> & \"co\"", 900_000), row("[read-only data]", 100_000), row("tiny", 10)],
            functions: vec![function("</title><script>\u{202e}\0", 600_000), function("f::<T>", 300_000)],
            unowned: vec![Unowned {
                name: ".rodata".to_owned(),
                group: "[read-only data]".to_owned(),
                bytes: 100_000,
            }],
            files: Vec::new(),
            purposes: Vec::new(),
        };
        let svg = of_sizes("a<b>\x1b", &sizes);
        let mut reader = quick_xml::Reader::from_str(&svg);
        let mut rectangles = 0;
        loop {
            match reader.read_event().expect("well-formed") {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Start(tag) if tag.name().as_ref() == b"rect" => rectangles += 1,
                _ => {}
            }
        }
        // Two groups, three blocks, one for what is too small.
        assert_eq!(rectangles, 6);
        assert!(!svg.contains("<script"));
    }
}
