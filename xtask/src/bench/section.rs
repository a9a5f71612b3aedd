//! Sections of BENCHMARKS.md that are measured separately.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::goals;
use crate::process;

/// Writes a section into BENCHMARKS.md, in place of the one under this heading.
pub(super) fn replace(heading: &str, section: &str) -> Result<()> {
    let path: PathBuf = process::root().join("BENCHMARKS.md");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let replaced = goals::summarise(&replaced(&text, heading, section));
    ensure!(!replaced.is_empty(), "the replaced file would be empty");
    std::fs::write(&path, replaced).with_context(|| format!("cannot write {}", path.display()))
}

/// The text with the section under a heading replaced, or inserted before the last section.
fn replaced(text: &str, heading: &str, section: &str) -> String {
    let next_section = |from: usize| text[from..].find("\n## ").map_or(text.len(), |at| from + at + 1);
    let (start, end) = match text.find(&format!("{heading}\n")) {
        Some(start) => (start, next_section(start)),
        None => text.rfind("\n## ").map_or((text.len(), text.len()), |at| (at + 1, at + 1)),
    };
    format!("{}{heading}\n\n{}\n\n{}", &text[..start], section.trim_end(), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_is_inserted_once_and_then_replaced() {
        let first = replaced("# Benchmarks\n\n## A\n\na\n\n## Command lines\n\nb\n", "## Heap", "one\n");
        assert_eq!(first, "# Benchmarks\n\n## A\n\na\n\n## Heap\n\none\n\n## Command lines\n\nb\n");
        let second = replaced(&first, "## Heap", "two\n### deep\n");
        assert_eq!(
            second,
            "# Benchmarks\n\n## A\n\na\n\n## Heap\n\ntwo\n### deep\n\n## Command lines\n\nb\n"
        );
    }
}
