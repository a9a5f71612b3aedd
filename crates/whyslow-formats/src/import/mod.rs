//! Imports other tools' recordings into whyslow's data model.
//!
//! The format is guessed from the content. Every importer takes the whole file as bytes. It never panics on
//! them, never reserves memory for a number that the file merely claims, and reports where a broken file is
//! broken.

mod assemble;
mod bpftrace;
mod cachegrind;
mod callgrind;
mod chrome_trace;
mod coz;
mod dhat;
mod dtrace;
mod firefox;
mod folded;
mod ghc;
mod heap;
mod heaptrack;
mod json;
mod lines;
mod macos_sample;
mod massif;
mod others;
mod parallel;
mod perf_data;
mod perf_event;
mod perf_script;
mod pmcstat;
mod pprof;
mod source;
mod speedscope;
mod stack_text;
#[cfg(test)]
pub(crate) mod testing;
mod visual_studio;
mod vtune;
mod xctrace;

use std::io;
use std::path::{Path, PathBuf};

pub use callgrind::{Simulated, simulated};
pub use dhat::access_counts;
use whyslow_analyze::remark_of;
#[cfg(test)]
use whyslow_profile::ImportNote;
use whyslow_profile::{Profile, Samples};

/// How to import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// Where the file is, to find files that another tool writes next to it. [`import`] fills it in.
    pub path: Option<PathBuf>,
    /// A folder with copies of the recorded programs and libraries, searched before their original paths.
    pub copies: Option<PathBuf>,
    /// The maximum size that a compressed file may unpack to, in bytes.
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
    /// The recording. Its notes say what the format could not hold and what was left out.
    pub profile: Profile,
    /// The number of samples that could not be read or placed.
    pub left_out: u64,
}

impl Imported {
    /// Whether there is a note with this text.
    #[cfg(test)]
    pub(crate) fn notes(&self, note: ImportNote) -> bool {
        self.profile.meta.notes.contains(&note.into())
    }

    /// Whether it contains nothing.
    fn is_empty(&self) -> bool {
        let Profile { samples, spans, counters, heap, causal, .. } = &self.profile;
        let has_no_marks = spans.is_empty() && counters.is_empty();
        samples.iter().all(Samples::is_empty) && has_no_marks && heap.is_empty() && causal.is_empty()
    }
}

/// Why a file cannot be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be opened or read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// No importer recognises it.
    #[error("unknown file format")]
    UnknownFormat,
    /// A recognised format that no importer reads.
    #[error("it looks like {what}, which whyslow does not read")]
    NotRead {
        /// The format.
        what: &'static str,
        /// How to convert it into a format that whyslow reads.
        next: &'static str,
    },
    /// A binary file is invalid at an offset. For a compressed file, this is the offset in the uncompressed
    /// data.
    #[error("cannot be read as {format}: byte {offset}: {what}")]
    AtByte {
        /// The format it was read as.
        format: Format,
        /// The offset.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// A text file is invalid at a line.
    #[error("cannot be read as {format}: line {line}: {what}")]
    AtLine {
        /// The format it was read as.
        format: Format,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The file is complete, but its version or content is not supported.
    #[error("cannot be used as {format}: {what}")]
    Unusable {
        /// The format it was read as.
        format: Format,
        /// Why.
        what: String,
    },
    /// The compressed data is broken.
    #[error("broken {packing} data at byte {offset}: {what}")]
    Packed {
        /// The compression format.
        packing: &'static str,
        /// How many bytes of the compressed file were read.
        offset: u64,
        /// What is wrong.
        what: String,
    },
    /// It is too large.
    #[error("too large: {what}")]
    TooLarge {
        /// What is too large, and the limit.
        what: String,
    },
}

impl ImportError {
    /// An error at an offset of a binary file.
    pub fn at_byte(format: Format, offset: u64, what: impl Into<String>) -> Self {
        Self::AtByte { format, offset, what: what.into() }
    }

    /// An error at a line of a text file. Lines count from 1.
    pub fn at_line(format: Format, line: u64, what: impl Into<String>) -> Self {
        Self::AtLine { format, line, what: what.into() }
    }

    /// An error for a file that cannot be used.
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
    /// The output of `perf record`.
    PerfData = "perf-data" / "perf.data" in perf_data,
    /// The Firefox Profiler's processed profile, as samply writes it.
    Firefox = "firefox" / "a Firefox Profiler profile" in firefox,
    /// speedscope's own file.
    Speedscope = "speedscope" / "a speedscope profile" in speedscope,
    /// Valgrind's DHAT and the dhat crate, version 2.
    Dhat = "dhat" / "a DHAT heap profile" in dhat,
    /// Trace events, as Chrome, rustc's self-profile and tracing-chrome write them.
    ChromeTrace = "chrome-trace" / "a Chrome trace" in chrome_trace,
    /// The experiments of the causal profiler coz.
    Coz = "coz" / "a coz profile" in coz,
    /// The output of heaptrack.
    Heaptrack = "heaptrack" / "a heaptrack recording" in heaptrack,
    /// The output of Valgrind's massif.
    Massif = "massif" / "massif output" in massif,
    /// The output of Valgrind's callgrind.
    Callgrind = "callgrind" / "callgrind output" in callgrind,
    /// The output of Valgrind's cachegrind.
    Cachegrind = "cachegrind" / "cachegrind output" in cachegrind,
    /// The XML of `xctrace export`.
    Xctrace = "xctrace" / "an xctrace time profile" in xctrace,
    /// The report of macOS's `sample`.
    MacosSample = "sample" / "a report of macOS's sample" in macos_sample,
    /// VTune's stacks as CSV.
    Vtune = "vtune" / "a VTune report of stacks" in vtune,
    /// Visual Studio's call tree as CSV.
    VisualStudio = "visual-studio" / "a Visual Studio call tree" in visual_studio,
    /// The report of GHC's profiler.
    Ghc = "ghc" / "a GHC profile" in ghc,
    /// The call graphs of FreeBSD's pmcstat.
    Pmcstat = "pmcstat" / "a pmcstat call graph" in pmcstat,
    /// bpftrace's maps of stacks.
    Bpftrace = "bpftrace" / "bpftrace output" in bpftrace,
    /// The text of `perf script`.
    PerfScript = "perf-script" / "perf script text" in perf_script,
    /// DTrace's stacks.
    Dtrace = "dtrace" / "DTrace output" in dtrace,
    /// One line per stack.
    Folded = "folded" / "folded stacks" in folded,
    /// pprof's profile.proto. It comes last, because it has no magic number.
    Pprof = "pprof" / "a pprof profile" in pprof,
}

impl Format {
    /// Whether it is text, which repeats itself and so expands much further than binary formats do.
    fn is_text(self) -> bool {
        !matches!(self, Self::PerfData | Self::Heaptrack | Self::Pprof)
    }

    /// How many times a file's length its profile takes in memory while it is read, if hardly any two stacks are
    /// alike. The fewer bytes a format spends on a frame, the more it is.
    fn memory_times(self) -> usize {
        match self {
            Self::PerfData | Self::Heaptrack => 1,
            Self::Pprof => 12,
            Self::Firefox | Self::Speedscope | Self::ChromeTrace | Self::Dhat | Self::Callgrind => 7,
            _ => 3,
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.title())
    }
}

/// The name that stands for standard input.
pub const STDIN: &str = "-";

/// How many bytes of a file are examined to guess its format.
pub const GUESS_BYTES: usize = 64 << 10;

/// Guesses a file's format from its first [`GUESS_BYTES`], which may be compressed.
pub fn guess(start: &[u8]) -> Option<Format> {
    let unpacked = source::unpack_start(start, GUESS_BYTES);
    let start = unpacked.as_deref().unwrap_or(start);
    Format::ALL.iter().copied().find(|format| format.looks_like(start))
}

/// Imports a file in the given format, or in the guessed one.
pub fn import(
    path: &Path,
    format: Option<Format>,
    options: &ImportOptions,
) -> Result<(Format, Imported), ImportError> {
    let options = ImportOptions { path: Some(path.to_owned()), ..options.clone() };
    import_bytes(source::Source::open(path)?.bytes(), format, &options)
}

/// Imports bytes in memory.
pub fn import_bytes(
    bytes: &[u8],
    format: Option<Format>,
    options: &ImportOptions,
) -> Result<(Format, Imported), ImportError> {
    // The start decides how far the rest may expand.
    let unpacked_start = source::unpack_start(bytes, GUESS_BYTES);
    let start = unpacked_start.as_deref().unwrap_or(&bytes[..bytes.len().min(GUESS_BYTES)]);
    let Some(format) = format.or_else(|| guess(start)) else {
        return Err(source::damage(bytes, options).unwrap_or_else(|| others::named(start)));
    };
    let unpacked = source::unpack(bytes, format.is_text(), options)?;
    let bytes = unpacked.as_deref().unwrap_or(bytes);
    if !source::has_room_for(bytes, format.memory_times()) {
        let what = format!("{} MB, and there is not enough memory to read it", bytes.len() >> 20);
        return Err(ImportError::TooLarge { what });
    }
    let imported = format.read(bytes, options)?;
    if imported.is_empty() {
        let notes = imported.profile.meta.notes.iter().map(|note| remark_of(note).text);
        let what = match imported.left_out {
            0 => "no samples".to_owned(),
            _ => format!("none of its samples can be shown; {}", notes.collect::<Vec<_>>().join("; ")),
        };
        return Err(ImportError::unusable(format, what));
    }
    Ok((format, imported))
}
