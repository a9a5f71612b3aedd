//! A profiler's recording, and how it is written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ad_hoc::{EventRow, Events};
use crate::outcome::Outcome;
use crate::report::counted;
use crate::{dhat, sys};

/// A thread that was counted.
#[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "DHAT's file has no threads"))]
#[derive(Debug, Clone)]
pub(crate) struct SeenThread {
    pub(crate) tid: u32,
    pub(crate) name: String,
    pub(crate) start_ns: u64,
}

/// The profiler's settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) file_name: Option<PathBuf>,
    pub(crate) ad_hoc: bool,
    pub(crate) testing: bool,
    pub(crate) most_frames: Option<usize>,
    pub(crate) eprint_json: bool,
}

impl Settings {
    pub(crate) fn path(&self) -> &Path {
        let usual = if self.ad_hoc { "dhat-ad-hoc.json" } else { "dhat-heap.json" };
        self.file_name.as_deref().unwrap_or(Path::new(usual))
    }
}

/// The counts.
#[derive(Debug)]
pub(crate) enum Counted {
    Heap(Outcome),
    Events { rows: Vec<EventRow>, total: Events },
}

impl Counted {
    /// A one-line summary.
    fn summary(&self) -> String {
        match self {
            Self::Heap(outcome) => format!(
                "{}, {} bytes in total; peak {} bytes; {} bytes in {} live at exit",
                counted(outcome.totals.allocated.blocks, "allocation"),
                outcome.totals.allocated.bytes,
                outcome.totals.peak.bytes,
                outcome.live.bytes,
                counted(outcome.live.blocks, "block"),
            ),
            Self::Events { total, .. } => {
                format!("{} with a total of {}", counted(total.events, "event"), counted(total.units, "unit"))
            }
        }
    }
}

/// Everything that goes into a file.
#[derive(Debug)]
pub(crate) struct Recorded {
    pub(crate) counted: Counted,
    #[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "DHAT's file has no threads"))]
    pub(crate) threads: Vec<SeenThread>,
    #[cfg_attr(not(feature = "profile"), expect(dead_code, reason = "DHAT's file has no date"))]
    pub(crate) started_unix_ns: u64,
    pub(crate) end_ns: u64,
    pub(crate) settings: Settings,
}

impl Recorded {
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        if path.extension().is_some_and(|extension| extension == "whyslow") {
            return write_profile(self, path);
        }
        fs::write(path, dhat::json(self))
    }

    /// Writes the file and reports it.
    pub(crate) fn finish(&self) {
        if self.settings.testing {
            return;
        }
        let path = self.settings.path();
        let file = path.display();
        sys::say(&match self.write(path) {
            Ok(()) => format!("whyslow-alloc: {}; written to {file}\n", self.counted.summary()),
            Err(error) => format!("whyslow-alloc: cannot write {file}: {error}\n"),
        });
        self.print_if_asked();
    }

    /// Returns DHAT's JSON to the program instead of writing a file.
    pub(crate) fn finish_in_memory(&self) -> String {
        if !self.settings.testing {
            sys::say(&format!("whyslow-alloc: {}; returned to the program\n", self.counted.summary()));
            self.print_if_asked();
        }
        dhat::json(self)
    }

    /// Prints DHAT's JSON to standard error, for [`crate::ProfilerBuilder::eprint_json`].
    pub(crate) fn print_if_asked(&self) {
        if self.settings.eprint_json {
            sys::say(&dhat::json(self));
        }
    }
}

#[cfg(feature = "profile")]
fn write_profile(recorded: &Recorded, path: &Path) -> io::Result<()> {
    crate::file::write(recorded, path)
}

#[cfg(not(feature = "profile"))]
fn write_profile(_recorded: &Recorded, _path: &Path) -> io::Result<()> {
    let what = "whyslow-alloc was built without its feature `profile`: enable it, or choose a name that ends with .json";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}
