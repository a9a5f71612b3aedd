//! The page around the viewer: one self-contained file, or a short page that loads its parts from a server.

use std::fmt::Write as _;
use std::io::{self, Write};

use whyslow_analyze::{CallTree, FunctionTable, Quality, Selection, SortBy};
use whyslow_profile::Profile;

use super::base64::{self, Blocks};
use super::bench::BenchPage;
use super::changes::ChangesView;
use super::findings::Explained;
use super::payload::{compressed, write_container};
use super::sha256::sha256;
use crate::flame::text::{push_xml, visible};
use crate::text::{cost_noun, headline, remark_line};
use crate::units::Percent;

/// Functions in the table for readers without scripts.
const FUNCTIONS: usize = 30;

/// The built viewer.
#[derive(Debug, Clone, Copy)]
pub struct Bundle<'a> {
    /// Its script.
    pub script: &'a str,
    /// Its style.
    pub style: &'a str,
}

impl Bundle<'static> {
    /// The viewer of this version.
    pub const EMBEDDED: Self = Self {
        script: include_str!("../../../../viewer/dist/viewer.js"),
        style: include_str!("../../../../viewer/dist/viewer.css"),
    };
}

/// The content of a page.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// A profile.
    Profile {
        /// The profile.
        profile: &'a Profile,
        /// The name of its file.
        file: &'a str,
        /// Its findings, if requested.
        explained: Option<Explained<'a>>,
    },
    /// A comparison of two sides.
    Changes(ChangesView<'a>),
    /// Results of `whyslow bench`.
    Bench(BenchPage<'a>),
}

/// A page's content, and how to write it.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    /// The content.
    pub content: Content<'a>,
    /// The viewer.
    pub bundle: Bundle<'a>,
    /// Maximum number of characters in one block of the payload: JavaScript limits the length of a string.
    pub block_length: usize,
    /// The state that the viewer opens with, in the form of the text after `#`; empty for its default.
    pub view: &'a str,
}

impl<'a> Page<'a> {
    /// Creates a page of a profile with the embedded viewer.
    pub fn new(profile: &'a Profile, file: &'a str) -> Self {
        Self::of(Content::Profile { profile, file, explained: None })
    }

    /// Creates a page of a profile with a panel of findings.
    pub fn explained(profile: &'a Profile, file: &'a str, explained: Explained<'a>) -> Self {
        Self::of(Content::Profile { profile, file, explained: Some(explained) })
    }

    /// Creates a page with the embedded viewer.
    pub fn of(content: Content<'a>) -> Self {
        Self { content, bundle: Bundle::EMBEDDED, block_length: 8_000_000, view: "" }
    }

    /// The same page, opened with another state.
    pub fn opened_with(self, view: &'a str) -> Self {
        Self { view, ..self }
    }

    /// The element that the viewer draws into.
    fn place(&self) -> String {
        if self.view.is_empty() {
            return "<div id=\"app\"></div>\n".to_owned();
        }
        let mut html = String::from("<div id=\"app\" data-view=\"");
        push_xml(&mut html, self.view);
        html.push_str("\"></div>\n");
        html
    }

    fn title(&self) -> String {
        match self.content {
            Content::Profile { profile, file, .. } => match profile.meta.command.as_slice() {
                [] => format!("{file} · whyslow"),
                words => format!("{} · whyslow", words.join(" ")),
            },
            Content::Changes(changes) => format!("{} · whyslow", changes.title()),
            Content::Bench(bench) => format!("{} · whyslow", bench.title()),
        }
    }

    fn write_container(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.content {
            Content::Profile { profile, file, explained } => {
                write_container(profile, &Quality::of(profile), file, explained, out)
            }
            Content::Changes(changes) => changes.write_container(out),
            Content::Bench(bench) => bench.write_container(out),
        }
    }

    /// The main result, for readers without scripts.
    fn without_scripts(&self) -> String {
        let html = match self.content {
            Content::Profile { profile, .. } => hottest_functions(profile, &self.title()),
            Content::Changes(changes) => changes.without_scripts(),
            Content::Bench(bench) => bench.without_scripts(),
        };
        format!("<noscript>\n{html}</noscript>\n")
    }
}

/// Writes the compressed payload of a page.
pub fn write_payload(page: &Page<'_>, out: impl Write) -> io::Result<()> {
    let mut out = compressed(out);
    page.write_container(&mut out)?;
    out.finish().map(drop)
}

/// Writes one self-contained page. It works from disk and without a network, and shows the main result even
/// without scripts.
pub fn write_page(page: &Page<'_>, mut out: impl Write) -> io::Result<()> {
    let Page { bundle, block_length, .. } = *page;
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data: blob:; base-uri 'none'; form-action 'none'",
        allowed(bundle.script),
        allowed(bundle.style)
    );
    let mut head = head(&page.title());
    let _ = writeln!(head, "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">");
    out.write_all(head.as_bytes())?;
    out.write_all(b"<style>")?;
    out.write_all(bundle.style.as_bytes())?;
    out.write_all(b"</style>\n</head>\n<body>\n")?;
    out.write_all(page.place().as_bytes())?;
    out.write_all(page.without_scripts().as_bytes())?;

    let tags = ["<script type=\"application/octet-stream\" class=\"payload\">", "</script>\n"];
    let mut payload = compressed(Blocks::new(&mut out, block_length, tags)?);
    page.write_container(&mut payload)?;
    payload.finish()?.finish()?;

    out.write_all(b"<script>")?;
    out.write_all(bundle.script.as_bytes())?;
    out.write_all(b"</script>\n</body>\n</html>\n")?;
    out.flush()
}

/// The page of a server that serves the parts next to it. `query` follows their names, such as `?token=1`; it
/// must not contain characters with a meaning in HTML.
pub fn served_page(page: &Page<'_>, query: &str) -> String {
    let mut html = head(&page.title());
    let _ = write!(
        html,
        "<link rel=\"stylesheet\" href=\"viewer.css{query}\">\n</head>\n<body>\n{}{}\
         <script src=\"viewer.js{query}\"></script>\n</body>\n</html>\n",
        page.place(),
        page.without_scripts(),
    );
    html
}

/// The content security policy for [`served_page`]: it allows the page's own parts and nothing else.
pub fn served_policy() -> &'static str {
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data: blob:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

/// The policy source that allows exactly this text as a script or style.
fn allowed(text: &str) -> String {
    let mut hash = Vec::new();
    base64::encode(&sha256(text.as_bytes()), &mut hash);
    format!("'sha256-{}'", String::from_utf8_lossy(&hash))
}

fn head(title: &str) -> String {
    let mut head =
        String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>");
    push_xml(&mut head, &visible(title));
    head.push_str(concat!(
        "</title>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
        "<meta name=\"referrer\" content=\"no-referrer\">\n",
        "<meta name=\"generator\" content=\"whyslow ",
        env!("CARGO_PKG_VERSION"),
        "\">\n<link rel=\"icon\" href=\"data:,\">\n",
    ));
    head
}

/// The hottest functions as a plain table.
fn hottest_functions(profile: &Profile, title: &str) -> String {
    let quality = Quality::of(profile);
    let table = FunctionTable::build(profile, &Selection::default(), true, SortBy::SelfValue);
    let mut html = String::new();
    push_title(&mut html, title);
    push_paragraph(&mut html, &plain(&headline(&quality)));
    for remark in quality.remarks() {
        push_paragraph(&mut html, &remark_line(&remark));
    }
    let of = cost_noun(profile, profile.main_metric());
    push_paragraph(
        &mut html,
        &format!("The viewer needs JavaScript, which is off here. The functions with most of the {of}:"),
    );
    html.push_str("<table>\n<tr><th>self</th><th>total</th><th>function</th></tr>\n");
    for row in table.rows.iter().take(FUNCTIONS) {
        let [own, total] = [table.self_share(row), table.total_share(row)].map(|share| Percent(share.value));
        let _ = write!(html, "<tr><td>{own}</td><td>{total}</td><td>");
        push_xml(&mut html, &visible(&CallTree::name(profile, row.label)));
        html.push_str("</td></tr>\n");
    }
    html.push_str("</table>\n");
    let more = table.rows.len().saturating_sub(FUNCTIONS);
    if more > 0 {
        let _ = writeln!(html, "<p>and {more} more</p>");
    }
    html
}

/// Appends a heading, with its text escaped.
pub(super) fn push_title(html: &mut String, title: &str) {
    html.push_str("<h1>");
    push_xml(html, &visible(title));
    html.push_str("</h1>\n");
}

/// Appends a paragraph, with its text escaped.
pub(super) fn push_paragraph(html: &mut String, text: &str) {
    html.push_str("<p>");
    push_xml(html, &visible(text));
    html.push_str("</p>\n");
}

/// Removes terminal styles from a text.
fn plain(styled: &str) -> String {
    let mut pieces = styled.split('\x1b');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('m').map_or("", |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_viewer_is_safe_inside_a_page() {
        let Bundle { script, style } = Bundle::EMBEDDED;
        let lower = script.to_ascii_lowercase();
        assert!(!lower.contains("</script") && !lower.contains("<!--"), "it would end its own element");
        assert!(!style.to_ascii_lowercase().contains("</style"));
        // A browser changes these characters before it computes the hash.
        assert!(!script.contains(['\r', '\0']) && !style.contains(['\r', '\0']));
    }

    #[test]
    fn a_policy_names_what_it_allows() {
        assert_eq!(allowed(""), "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='");
    }

    #[test]
    fn terminal_styles_are_removed() {
        assert_eq!(plain("\x1b[1mgood\x1b[0m: \x1b[31m2\x1b[0m lost"), "good: 2 lost");
        assert_eq!(plain("plain"), "plain");
    }
}
