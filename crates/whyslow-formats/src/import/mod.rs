//! Other tools' recordings, read into the one data model.
//!
//! The format is guessed from the content. Every importer takes the whole file as bytes, never panics on them, never
//! reserves memory for a number it has only been told, and says where a broken file is broken.

mod assemble;
mod cachegrind;
mod callgrind;
mod chrome_trace;
mod dhat;
mod firefox;
mod folded;
mod heap;
mod heaptrack;
mod json;
mod lines;
mod massif;
mod others;
mod parallel;
mod perf_data;
mod perf_event;
mod perf_script;
mod pprof;
mod source;
mod speedscope;

use std::io;
use std::path::{Path, PathBuf};

use whyslow_analyze::Fact;
#[cfg(test)]
use whyslow_profile::ImportNote;
use whyslow_profile::{Profile, Samples};

/// How to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// Where the file is, for what another tool keeps beside it; [`import`] fills it in.
    pub path: Option<PathBuf>,
    /// A folder with copies of the recorded programs and libraries, looked at before their own places.
    pub copies: Option<PathBuf>,
    /// The most bytes that a packed file may unpack to.
    pub unpacked_limit: u64,
}

impl Default for ImportOptions {
    fn default() -> Self {
        Self { path: None, copies: None, unpacked_limit: 4 << 30 }
    }
}

/// A recording of another tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// The recording. Its notes say what the format could not hold or was left out.
    pub profile: Profile,
    /// How many samples are not in the profile because they could not be read or placed.
    pub left_out: u64,
}

impl Imported {
    /// Whether a note says this.
    #[cfg(test)]
    pub(crate) fn notes(&self, note: ImportNote) -> bool {
        self.profile.meta.notes.contains(&note.into())
    }

    /// Whether there is nothing to look at.
    fn is_empty(&self) -> bool {
        let Profile { samples, spans, counters, heap, .. } = &self.profile;
        samples.iter().all(Samples::is_empty) && spans.is_empty() && counters.is_empty() && heap.is_empty()
    }
}

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No importer knows it.
    #[error("its format is not one that whyslow reads")]
    UnknownFormat,
    /// It is known what it is, and no importer reads that.
    #[error("it seems to be {what}, which whyslow does not read")]
    NotRead {
        /// What it is.
        what: &'static str,
        /// What turns it into something that is read.
        next: &'static str,
    },
    /// A binary file is wrong at an offset. Of a packed file, it is the offset in what it unpacks to.
    #[error("as {format} it is wrong at byte {offset}: {what}")]
    AtByte {
        /// What it was read as.
        format: Format,
        /// Where.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A text file is wrong at a line.
    #[error("as {format} it is wrong at line {line}: {what}")]
    AtLine {
        /// What it was read as.
        format: Format,
        /// Which line, from 1.
        line: u64,
        /// What is wrong there.
        what: String,
    },
    /// It is whole, but this version of the format or what it holds is not understood.
    #[error("as {format} it cannot be used: {what}")]
    Unusable {
        /// What it was read as.
        format: Format,
        /// Why.
        what: String,
    },
    /// What it is packed with is broken.
    #[error("its {packing} data is wrong at byte {offset}: {what}")]
    Packed {
        /// What it is packed with.
        packing: &'static str,
        /// Bytes of the packed file that were read until then.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// It would not fit.
    #[error("it is too large: {what}")]
    TooLarge {
        /// What is too large, and the limit.
        what: String,
    },
}

impl ImportError {
    /// A binary file is wrong here.
    pub fn at_byte(format: Format, offset: u64, what: impl Into<String>) -> Self {
        Self::AtByte { format, offset, what: what.into() }
    }

    /// A text file is wrong here; lines count from 1.
    pub fn at_line(format: Format, line: u64, what: impl Into<String>) -> Self {
        Self::AtLine { format, line, what: what.into() }
    }

    /// The file cannot be used for this reason.
    pub fn unusable(format: Format, what: impl Into<String>) -> Self {
        Self::Unusable { format, what: what.into() }
    }
}

/// One row per format: its variant, the word for options, its name in sentences, and its module.
macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident = $word:literal / $title:literal in $module:ident),+ $(,)?) => {
        /// A format that can be imported, in the order in which they are recognised.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Format { $($(#[$doc])* $variant),+ }

        impl Format {
            /// Every format.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word used in options.
            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// The name used in sentences.
            pub fn title(self) -> &'static str {
                match self { $(Self::$variant => $title),+ }
            }

            fn looks_like(self, start: &[u8]) -> bool {
                match self { $(Self::$variant => $module::looks_like(start)),+ }
            }

            fn read(self, bytes: &[u8], options: &ImportOptions) -> Result<Imported, ImportError> {
                match self { $(Self::$variant => $module::read(bytes, options)),+ }
            }
        }
    };
}

formats! {
    /// What `perf record` writes.
    PerfData = "perf-data" / "perf.data" in perf_data,
    /// The Firefox Profiler's processed profile, as samply writes it.
    Firefox = "firefox" / "a Firefox Profiler profile" in firefox,
    /// speedscope's own file.
    Speedscope = "speedscope" / "a speedscope profile" in speedscope,
    /// Valgrind's DHAT and the dhat crate, version 2.
    Dhat = "dhat" / "a DHAT heap profile" in dhat,
    /// Trace events, as Chrome, rustc's self-profile and tracing-chrome write them.
    ChromeTrace = "chrome-trace" / "a Chrome trace" in chrome_trace,
    /// What heaptrack writes.
    Heaptrack = "heaptrack" / "a heaptrack recording" in heaptrack,
    /// What Valgrind's massif writes.
    Massif = "massif" / "massif output" in massif,
    /// What Valgrind's callgrind writes.
    Callgrind = "callgrind" / "callgrind output" in callgrind,
    /// What Valgrind's cachegrind writes.
    Cachegrind = "cachegrind" / "cachegrind output" in cachegrind,
    /// The text of `perf script`.
    PerfScript = "perf-script" / "perf script text" in perf_script,
    /// One line per stack.
    Folded = "folded" / "folded stacks" in folded,
    /// pprof's profile.proto. Last: nothing marks its beginning.
    Pprof = "pprof" / "a pprof profile" in pprof,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.title())
    }
}

/// The name that stands for standard input.
pub const STDIN: &str = "-";

/// How much of a file is looked at to guess its format.
pub const GUESS_BYTES: usize = 64 << 10;

/// What a file seems to be by its first [`GUESS_BYTES`], which may be packed.
pub fn guess(start: &[u8]) -> Option<Format> {
    let unpacked = source::unpack_start(start, GUESS_BYTES);
    let start = unpacked.as_deref().unwrap_or(start);
    Format::ALL.iter().copied().find(|format| format.looks_like(start))
}

/// Reads a file of another tool, in the given format or the one that it seems to have.
pub fn import(
    path: &Path,
    format: Option<Format>,
    options: &ImportOptions,
) -> Result<(Format, Imported), ImportError> {
    let options = ImportOptions { path: Some(path.to_owned()), ..options.clone() };
    import_bytes(source::Source::open(path)?.bytes(), format, &options)
}

/// The same for bytes in memory.
pub fn import_bytes(
    bytes: &[u8],
    format: Option<Format>,
    options: &ImportOptions,
) -> Result<(Format, Imported), ImportError> {
    let unpacked = source::unpack(bytes, options)?;
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    let start = &bytes[..bytes.len().min(GUESS_BYTES)];
    let format = format.or_else(|| guess(start)).ok_or_else(|| others::named(start))?;
    let imported = format.read(bytes, options)?;
    if imported.left_out > 0 && imported.is_empty() {
        let notes = imported.profile.meta.notes.iter().map(|note| note.remark().text);
        let what = format!("none of its samples can be shown; {}", notes.collect::<Vec<_>>().join("; "));
        return Err(ImportError::unusable(format, what));
    }
    Ok((format, imported))
}
