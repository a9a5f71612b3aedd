//! Names as printed commands contain them: quoted for the shell, and of the very file.

use std::path::Path;

use whyslow_words::quoted_path;

pub(crate) use whyslow_words::quoted;

/// A file as every printed command names it. For the latest recording that is its number, because the plain name
/// means another file after the next recording.
pub(crate) fn file(path: &Path) -> String {
    quoted_path(&whyslow_capture::numbered_name(path).unwrap_or_else(|| path.to_owned()))
}
