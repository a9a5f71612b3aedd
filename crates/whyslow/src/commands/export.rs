//! `whyslow export`: writes the formats of other tools.

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use whyslow_analyze::heap::has_memory;
use whyslow_formats::FoldedRoot;

use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::exports::{Job, Kind, save};
use crate::failure::{Failure, Result};
use crate::filters::Filters;
use crate::output::Output;
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
    let is_massif = args.to == Kind::Massif && has_memory(&profile);
    if args.to.is_of_heaps() && profile.heap.is_empty() && !is_massif {
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
