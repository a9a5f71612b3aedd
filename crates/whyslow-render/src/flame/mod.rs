//! Interactive flame graphs: one SVG file that is a picture everywhere and can be zoomed and searched in a
//! browser.
//!
//! The file holds the finished picture, laid out at its default width and drawn with a few paths (one per
//! kind of code) plus the labels that fit, so it is complete even without scripts. An embedded script redraws
//! it from a compact table of the frames when the reader zooms, searches or resizes the window. The file
//! loads nothing from elsewhere.
//!
//! A folded picture also holds the frames of the unfolded one; a button switches between them.

pub(crate) mod changes;
mod data;
mod document;
mod functions;
mod kinds;
mod layout;
pub(crate) mod text;
mod times;

pub use changes::FlameChanges;
use whyslow_analyze::diff::Paths;
use whyslow_analyze::{CallTree, Fold, Outline, Repeat, TimeSplit};
use whyslow_profile::{Profile, Unit};

/// Options for drawing a flame graph.
#[derive(Debug, Clone, PartialEq)]
pub struct FlameOptions {
    /// The headline.
    pub title: String,
    /// A line under the title: metric, duration, quality. May be empty.
    pub subtitle: String,
    /// Whether to draw an icicle graph: the root at the top, callees below it. Otherwise the root is at the
    /// bottom.
    pub inverted: bool,
    /// Whether the tree was built from the leaves (`TreeOptions::inverted`): a frame's children are its
    /// callers.
    pub callers: bool,
    /// Frames narrower than this at the default width are left out of the file and counted in a note. The
    /// default is narrower than one can see, so that zooming has something to show.
    pub min_width_px: f64,
    /// The width of the picture in pixels. In a browser it follows the window.
    pub width: u32,
    /// Maximum number of rows drawn at once. Deeper frames are in the file and appear when the reader zooms.
    pub max_rows: u32,
    /// The unit of the values.
    pub unit: Unit,
    /// The kinds of time of the (unfolded) tree's nodes. If set, they determine the colours.
    pub times: Option<TimeSplit>,
    /// The changes at the tree's nodes. If set, they determine the colours.
    pub changes: Option<FlameChanges>,
}

impl Default for FlameOptions {
    fn default() -> Self {
        Self {
            title: "Flame graph".to_owned(),
            subtitle: String::new(),
            inverted: false,
            callers: false,
            min_width_px: 0.05,
            width: 1200,
            max_rows: 300,
            unit: Unit::Nanoseconds,
            times: None,
            changes: None,
        }
    }
}

/// Draws a call tree.
///
/// Names appear as text and the result is well-formed XML, whatever the names contain.
///
/// ```
/// use whyslow_analyze::{CallTree, Selection, TreeOptions};
/// use whyslow_render::flame::{FlameOptions, svg};
///
/// let profile = whyslow_profile::Profile::default();
/// let tree = CallTree::build(&profile, &Selection::default(), &TreeOptions::default());
/// let picture = svg(&tree, &profile, &FlameOptions { title: "app".to_owned(), ..FlameOptions::default() });
/// assert!(picture.starts_with("<svg"));
/// ```
pub fn svg(tree: &CallTree, profile: &Profile, options: &FlameOptions) -> String {
    let drawn = Drawn::plain(tree, options.times.as_ref());
    document::Document::new(drawn, None, profile, options).write()
}

/// Draws the call paths of two sides as one picture. Each path is as wide as the larger of before and after,
/// so removed paths keep their place. Buttons show one side alone.
pub fn diff_svg(paths: &Paths, options: &FlameOptions) -> String {
    let options = FlameOptions { changes: Some(FlameChanges::of(paths)), times: None, ..options.clone() };
    svg(&paths.tree, &paths.profile, &options)
}

/// Draws a folded tree, with a button that shows the unfolded one.
pub fn folded_svg(outline: &Outline, whole: &CallTree, profile: &Profile, options: &FlameOptions) -> String {
    if !outline.folds.any() && !outline.repeats.any() {
        return svg(whole, profile, options);
    }
    let whole_times = options.times.as_ref();
    let times = whole_times.map(|times| times.folded(whole, outline));
    let drawn = Drawn { tree: &outline.tree, outline: Some(outline), times: times.as_ref() };
    document::Document::new(drawn, Some(Drawn::plain(whole, whole_times)), profile, options).write()
}

/// A tree to draw, with its folds.
#[derive(Clone, Copy)]
struct Drawn<'a> {
    tree: &'a CallTree,
    outline: Option<&'a Outline>,
    /// The kinds of time of its nodes, if they determine the colours.
    times: Option<&'a TimeSplit>,
}

impl<'a> Drawn<'a> {
    fn plain(tree: &'a CallTree, times: Option<&'a TimeSplit>) -> Self {
        Self { tree, outline: None, times }
    }

    fn fold(&self, node: u32) -> Fold {
        self.outline.map_or_else(Fold::default, |outline| outline.folds.of(node))
    }

    fn repeat(&self, node: u32) -> Repeat {
        self.outline.map_or_else(Repeat::default, |outline| outline.repeats.of(node))
    }
}
