//! Paths of source files for tools that know the repository: SARIF and annotations.

use std::path::Path;

/// A path as the repository has it: relative to the current folder.
pub(crate) fn relative(file: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    Path::new(file).strip_prefix(&here).map_or_else(|_| file.to_owned(), |path| path.display().to_string())
}
