//! For tests of importers.

use super::Imported;
use crate::{FoldedOptions, write_folded};

/// The folded stacks of the first metric, in order.
pub(crate) fn folded(imported: &Imported) -> Vec<String> {
    let mut out = Vec::new();
    write_folded(&imported.profile, &Default::default(), &FoldedOptions::default(), &mut out)
        .expect("writes");
    let mut lines: Vec<String> = String::from_utf8(out).expect("UTF-8").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
