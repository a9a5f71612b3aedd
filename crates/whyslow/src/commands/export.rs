//! `whyslow export`: writes the formats of other tools.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
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

use super::{flame, view};
use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::output::{Output, note};
use crate::profile_file;

/// Write a profile in another tool's format
#[derive(Debug, Args)]
#[command(after_help = "\
Formats:
  folded        one line per stack for flame graph tools: main;parse;read 42
  firefox       JSON for the Firefox Profiler (profiler.firefox.com)
  pprof         for `go tool pprof`, Grafana, Perfetto and others
  speedscope    JSON for speedscope.app
  perf-script   text like that of `perf script`
  chrome-trace  JSON for Perfetto (ui.perfetto.dev) and chrome://tracing
  callgrind     for KCachegrind and callgrind_annotate
  csv           the function table
  svg, html     the flame graph; the whole viewer in one file
Heap formats (always the whole recording):
  dhat          JSON for Valgrind's dh_view.html
  heaptrack     text for heaptrack_gui and heaptrack_print
  massif        text for ms_print and massif-visualizer
Causal profiling (always the whole recording):
  coz           JSON lines for coz's viewer and `coz plot`

Names that end in .gz are compressed; pprof always is. stderr says what a format
cannot hold.

Examples:
  whyslow export app.whyslow --to folded | head
  whyslow export app.whyslow --to firefox -o app.json.gz
  whyslow export app.whyslow --to pprof --thread main -o main.pb.gz
  whyslow export app.whyslow --to folded --metric live-at-peak
  whyslow export app.whyslow --to heaptrack -o app.txt")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    profile: ProfileArg,
    /// The format
    #[arg(long, value_enum)]
    to: Kind,
    /// Write to this file
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// For folded: start each stack with its process or thread
    #[arg(long, value_enum, default_value_t)]
    root: Root,
    #[command(flatten)]
    filters: Filters,
}

/// What each stack starts with.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Root {
    #[default]
    None,
    Process,
    Thread,
}

impl From<Root> for FoldedRoot {
    fn from(root: Root) -> Self {
        match root {
            Root::None => Self::None,
            Root::Process => Self::Process,
            Root::Thread => Self::Thread,
        }
    }
}

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
    fn is_of_heaps(self) -> bool {
        matches!(self, Self::Dhat | Self::Heaptrack | Self::Massif)
    }
}

/// Writes the profile.
pub(crate) fn run(args: &ExportArgs, volume: Volume) -> Result<Exit> {
    let output = Output::from(args.output.clone());
    let packed = args.output.extension().is_some_and(|end| end == "gz") && args.to != Kind::Pprof;
    if output == Output::Stdout && args.to == Kind::Pprof && io::stdout().is_terminal() {
        return Err(Failure::new("pprof is a binary format, and stdout is a terminal").next("-o FILE.pb.gz"));
    }
    let file = &args.profile.file;
    let mut profile = profile_file::open(file)?;
    let selection = args.filters.select(file, &mut profile)?;
    if args.to.is_of_heaps() && profile.heap.is_empty() {
        let what = format!("{}: the heap was not recorded", file.display());
        return Err(Failure::new(what).next("whyslow heap -- PROGRAM"));
    }
    if args.to == Kind::Coz && profile.causal.experiments.is_empty() {
        let what = format!("{}: no experiments of causal profiling were recorded", file.display());
        return Err(Failure::new(what).next("whyslow causal -- PROGRAM"));
    }
    let job = Job {
        path: file,
        profile: &profile,
        selection: &selection,
        to: args.to,
        root: args.root.into(),
        inline: !args.filters.no_inline,
    };
    save(&job, packed, &output, volume)?;
    Ok(Exit::Success)
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
struct Job<'a> {
    path: &'a Path,
    profile: &'a Profile,
    selection: &'a Selection,
    to: Kind,
    root: FoldedRoot,
    inline: bool,
}

fn save(job: &Job<'_>, packed: bool, output: &Output, volume: Volume) -> Result {
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
            out.write_all(flame::picture(profile, selection, inline).as_bytes())?;
            Ok(Vec::new())
        }
        Kind::Html => {
            view::with_page(path, profile, selection.metric, |page| write_page(page, out))?;
            let filtered = !selection.is_everything();
            Ok(if filtered { vec![LeftOut::PageFilters] } else { Vec::new() })
        }
    }
}
