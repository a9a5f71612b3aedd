//! Profiles in the formats of other tools: which there are, and one of them as a file.

use std::io::{self, Write};
use std::path::Path;

use clap::ValueEnum;
use flate2::Compression;
use flate2::write::GzEncoder;
use whyslow_analyze::Selection;
use whyslow_formats::export::{
    Export, LeftOut, write_callgrind, write_chrome_trace, write_coz, write_csv, write_dhat, write_firefox,
    write_heaptrack, write_massif, write_perf_script, write_pprof, write_speedscope,
};
use whyslow_formats::{FoldedOptions, FoldedRoot, write_folded};
use whyslow_profile::Profile;
use whyslow_render::html::write_page;
use whyslow_render::sanitize::clean;

use crate::cli::Volume;
use crate::failure::Result;
use crate::output::{Output, note};
use crate::{pages, pictures};

/// The formats that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    Folded,
    Firefox,
    Pprof,
    Speedscope,
    PerfScript,
    ChromeTrace,
    Callgrind,
    Csv,
    Svg,
    Html,
    Dhat,
    Heaptrack,
    Massif,
    Coz,
}

impl Kind {
    /// Whether it holds heap data only.
    pub(crate) fn is_of_heaps(self) -> bool {
        matches!(self, Self::Dhat | Self::Heaptrack | Self::Massif)
    }
}

/// Writes a whole profile in a format.
pub(crate) fn save_whole(
    path: &Path,
    profile: &Profile,
    to: Kind,
    output: &Output,
    volume: Volume,
) -> Result {
    let selection = &Selection { metric: profile.main_metric(), ..Selection::default() };
    let job = Job { path, profile, selection, to, root: FoldedRoot::None, inline: true };
    save(&job, false, output, volume)
}

/// What to write.
pub(crate) struct Job<'a> {
    pub(crate) path: &'a Path,
    pub(crate) profile: &'a Profile,
    pub(crate) selection: &'a Selection,
    pub(crate) to: Kind,
    pub(crate) root: FoldedRoot,
    pub(crate) inline: bool,
}

/// Writes it, compressed or not, and says what the format cannot hold.
pub(crate) fn save(job: &Job<'_>, packed: bool, output: &Output, volume: Volume) -> Result {
    let mut left_out = Vec::new();
    if packed {
        output.write(|out| {
            let mut packer = GzEncoder::new(out, Compression::default());
            left_out = write(job, &mut packer)?;
            packer.finish().map(drop)
        })?;
    } else {
        output.write(|out| write(job, out).map(|what| left_out = what))?;
    }
    if volume > Volume::Quiet {
        if let Output::File(path) = output {
            note(&format!("whyslow: wrote {}\n", path.display()));
        }
        if !left_out.is_empty() {
            let what = left_out.iter().map(LeftOut::to_string).collect::<Vec<_>>().join("; ");
            note(&format!("whyslow: note: this format cannot hold: {}\n", clean(&what)));
        }
    }
    Ok(())
}

/// Writes one format, and returns what it cannot hold.
fn write(job: &Job<'_>, mut out: &mut dyn Write) -> io::Result<Vec<LeftOut>> {
    let Job { path, profile, selection, to, root, inline } = *job;
    let export = || Export::new(profile, selection, inline);
    match to {
        Kind::Folded => {
            let options = FoldedOptions { root, inline, mark_inlined: false };
            // A format for flame graphs: users do not expect times or lines in it.
            write_folded(profile, selection, &options, &mut out).map(|()| Vec::new())
        }
        Kind::Firefox => write_firefox(&export(), out),
        Kind::Pprof => write_pprof(&export(), out),
        Kind::Speedscope => write_speedscope(&export(), out),
        Kind::PerfScript => write_perf_script(&export(), out),
        Kind::ChromeTrace => write_chrome_trace(&export(), out),
        Kind::Callgrind => write_callgrind(&export(), out),
        Kind::Csv => write_csv(&export(), out),
        Kind::Coz => {
            let mut left_out = write_coz(&export(), out)?;
            if !selection.is_everything() {
                left_out.push(LeftOut::ExperimentFilters);
            }
            Ok(left_out)
        }
        Kind::Dhat | Kind::Heaptrack | Kind::Massif => {
            let mut left_out = match to {
                Kind::Dhat => write_dhat(&export(), out)?,
                Kind::Heaptrack => write_heaptrack(&export(), out)?,
                _ => write_massif(&export(), out)?,
            };
            if !selection.is_everything() {
                left_out.push(LeftOut::HeapFilters);
            }
            Ok(left_out)
        }
        Kind::Svg => {
            out.write_all(pictures::picture(profile, selection, inline).as_bytes())?;
            Ok(Vec::new())
        }
        Kind::Html => {
            pages::with_page(path, profile, selection.metric, |page| write_page(page, out))?;
            let filtered = !selection.is_everything();
            Ok(if filtered { vec![LeftOut::PageFilters] } else { Vec::new() })
        }
    }
}
