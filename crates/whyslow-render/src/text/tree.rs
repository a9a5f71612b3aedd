//! Call trees drawn with lines.

use whyslow_analyze::{CallTree, Fold, Outline, Repeat};
use whyslow_profile::{Profile, bracketed};
use whyslow_words::Percent;

use super::layout::{
    BOLD, DIM, PLAIN, Page, columns, kind_style, label_name, number_of, push_line, push_wrapped, styled,
};
use crate::units::Count;

const SHARE: usize = 8;
/// Minimum width of a name; deeper calls are left out instead.
const NAME: usize = 24;

/// Options for drawing a tree.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TreeView {
    /// Whether callers are below their callees.
    pub inverted: bool,
    /// Branches with a smaller share of the total are left out.
    pub min_share: f64,
}

impl Default for TreeView {
    fn default() -> Self {
        Self { inverted: false, min_share: 0.01 }
    }
}

/// Renders a whole tree: heaviest branch first, unbranched chains of calls on one line.
pub fn tree(profile: &Profile, outline: &Outline, view: TreeView, page: Page) -> String {
    let mut out = String::new();
    let all = page.whole(profile, outline.total_value());
    let what = if view.inverted { "callers below each function" } else { "callees below each function" };
    let intro = format!("{all}; {what}; branches of {} or more", Percent(view.min_share));
    push_wrapped(&mut out, PLAIN, &intro, page.width);
    out.push('\n');
    let direction = if view.inverted { Direction::Callers } else { Direction::Callees };
    let whole = outline.total_value();
    Drawing { profile, outline, whole, min_share: view.min_share, direction, below: false, page }
        .draw(&mut out);
    push_legend(&mut out, has_folds(outline));
    out
}

/// Appends the meaning of dashes and brackets, if there are any.
pub(super) fn push_legend(out: &mut String, folds: bool) {
    let dashes = out.contains(['┄', '⇢', '⇠']);
    if dashes || folds {
        out.push('\n');
    }
    if dashes {
        push_line(out, &styled(DIM, "dashed lines and arrows: inlined by the compiler"));
    }
    if folds {
        push_line(out, &styled(DIM, "[… frames]: start-up and runtime frames; --unfolded shows them"));
    }
}

/// Whether any node of an outline has folded frames.
pub(super) fn has_folds(outline: &Outline) -> bool {
    outline.folds.any()
}

/// The relation of a node's children to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Callers,
    Callees,
}

/// A tree to draw. Shares are relative to `whole`.
pub(super) struct Drawing<'a> {
    pub(super) profile: &'a Profile,
    pub(super) outline: &'a Outline,
    pub(super) whole: u64,
    pub(super) min_share: f64,
    pub(super) direction: Direction,
    /// Whether the root is printed above the drawing and its children hang from it.
    pub(super) below: bool,
    pub(super) page: Page,
}

struct Branch {
    node: u32,
    /// Lines of the branches around it.
    prefix: String,
    /// The connection to its parent, and the line below that.
    connector: &'static str,
    below: &'static str,
}

impl Drawing<'_> {
    pub(super) fn draw(&self, out: &mut String) {
        let mut header = format!("{:>SHARE$}", "total");
        if self.direction == Direction::Callees {
            header.push_str(&format!("{:>SHARE$}", "self"));
        }
        push_line(out, &styled(BOLD, header));
        let mut open = self.branches(0, String::new(), !self.below);
        while let Some(branch) = open.pop() {
            let indent = format!("{}{}", branch.prefix, branch.connector);
            let prefix = format!("{}{}", branch.prefix, branch.below);
            if columns(&indent) + NAME > self.room() {
                push_line(out, &format!("{}{indent}… deeper calls do not fit this width", self.no_shares()));
                continue;
            }
            let chain = self.chain(branch.node);
            self.write_chain(out, &chain, &indent, &prefix);
            let last = chain.last().copied().unwrap_or(branch.node);
            open.extend(self.branches(last, prefix, false));
        }
    }

    /// Whether the callee of this edge was inlined into the caller.
    fn is_inline_edge(&self, above: u32, below: u32) -> bool {
        let callee = if self.direction == Direction::Callees { below } else { above };
        self.outline.tree.inlined[callee as usize]
    }

    fn room(&self) -> usize {
        self.page.width.saturating_sub(columns(&self.no_shares()))
    }

    fn min_value(&self) -> u64 {
        (self.whole as f64 * self.min_share.clamp(0.0, 1.0)).ceil() as u64
    }

    /// The branches below a node, last one first.
    fn branches(&self, node: u32, prefix: String, outermost: bool) -> Vec<Branch> {
        let children = self.outline.children_from(node, self.min_value());
        let branches = children.iter().enumerate().rev().map(|(index, &child)| {
            let inlined = self.is_inline_edge(node, child);
            let (connector, below) = match (outermost, index + 1 == children.len(), inlined) {
                (true, _, _) => ("", ""),
                (_, true, false) => ("└─ ", "   "),
                (_, true, true) => ("└┄ ", "   "),
                (_, false, false) => ("├─ ", "│  "),
                (_, false, true) => ("├┄ ", "│  "),
            };
            Branch { node: child, prefix: prefix.clone(), connector, below }
        });
        branches.collect()
    }

    /// The node and its descendants as long as there is one branch and almost nothing is spent outside it.
    fn chain(&self, node: u32) -> Vec<u32> {
        let total = &self.outline.tree.total_value;
        let spare = self.min_value() / 10;
        let mut chain = vec![node];
        let mut at = node;
        while let [only] = self.outline.children_from(at, self.min_value()) {
            if total[at as usize] - total[*only as usize] > spare {
                break;
            }
            chain.push(*only);
            at = *only;
        }
        chain
    }

    /// Writes a chain on as few lines as possible. Each line has the total of its first node and the self
    /// value of its last.
    fn write_chain(&self, out: &mut String, chain: &[u32], indent: &str, prefix: &str) {
        let mut lead = indent;
        let mut line: Vec<u32> = Vec::new();
        let mut names = String::new();
        let mut used = 0;
        let mut above = None;
        for &node in chain {
            let arrow = above.map_or("", |above| self.arrow(above, node));
            let room = self.room().saturating_sub(columns(indent).max(columns(prefix)) + columns(arrow));
            let (shown, width) = self.node_name(node, room);
            let needed = columns(arrow) + width + usize::from(!line.is_empty());
            if !line.is_empty() && columns(lead) + used + needed > self.room() {
                self.write_line(out, &line, lead, &names);
                lead = prefix;
                line.clear();
                names.clear();
                used = 0;
            }
            if !line.is_empty() {
                names.push(' ');
            }
            names.push_str(arrow);
            names.push_str(&shown);
            used += needed;
            line.push(node);
            above = Some(node);
        }
        self.write_line(out, &line, lead, &names);
    }

    fn arrow(&self, above: u32, below: u32) -> &'static str {
        match (self.direction, self.is_inline_edge(above, below)) {
            (Direction::Callees, true) => "⇢ ",
            (Direction::Callees, false) => "→ ",
            (Direction::Callers, true) => "⇠ ",
            (Direction::Callers, false) => "← ",
        }
    }

    fn write_line(&self, out: &mut String, line: &[u32], lead: &str, names: &str) {
        let (Some(&first), Some(&last)) = (line.first(), line.last()) else { return };
        let share = |part: u64| Percent(if self.whole == 0 { 0.0 } else { part as f64 / self.whole as f64 });
        let mut shares = format!("{:>SHARE$}", share(self.outline.tree.total_value[first as usize]));
        if self.direction == Direction::Callees {
            shares.push_str(&format!("{:>SHARE$}", share(self.outline.tree.self_value[last as usize])));
        }
        push_line(out, &format!("{shares}  {}{names}", styled(DIM, lead)));
    }

    fn no_shares(&self) -> String {
        let columns = if self.direction == Direction::Callees { 2 } else { 1 };
        " ".repeat(columns * SHARE + 2)
    }

    /// A node's name in colour, and its width.
    fn node_name(&self, node: u32, room: usize) -> (String, usize) {
        let label = self.outline.tree.label[node as usize];
        let repeat = repeat_note(self.outline.repeats.of(node));
        let fold = self.outline.folds.of(node);
        if fold.frames > 0 {
            let text = format!("{}{repeat}", fold_note(fold));
            return (styled(DIM, &text), columns(&text));
        }
        let name = self.page.fit(&label_name(self.profile, label), room.saturating_sub(columns(&repeat)));
        let width = columns(&name) + columns(&repeat);
        (format!("{}{repeat}", styled(kind_style(CallTree::kind(self.profile, label)), name)), width)
    }
}

/// `[thread start, rayon: 31 frames]`.
fn fold_note(fold: Fold) -> String {
    bracketed(&format!("{}: {}", fold.words(), number_of(fold.frames.into(), "frame", "frames")))
}

/// ` (×500)`, or for a cycle of several functions ` (last 2 ×250)`; empty without recursion.
pub(crate) fn repeat_note(repeat: Repeat) -> String {
    let times = format!("×{}{}", Count(repeat.times.into()), if repeat.more { " and more" } else { "" });
    match repeat {
        Repeat { times: 0 | 1, .. } => String::new(),
        Repeat { frames: 1, .. } => format!(" ({times})"),
        Repeat { frames, .. } => format!(" (last {frames} {times})"),
    }
}
