//! `whyslow cache`: simulates caches and branches with Valgrind, and shows where misses are.

mod program;
mod record;

use std::ffi::OsString;

use clap::Args;

use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::note;
use crate::recording::KeepOptions;
use crate::{answers, values};

/// Simulate caches and branches: count misses per line (Valgrind)
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow cache [OPTIONS] [--] PROGRAM [ARGS]...",
    after_help = "\
Examples:
  whyslow cache -- ./app small.txt            misses by function and line
  whyslow cache --no-stacks -- ./app          lines only, about twice as fast
  whyslow cache --toggle parse -- ./app       only inside `parse` and its callees
  whyslow cache --heap -- ./app               which bytes of blocks are used
  whyslow cache --D1 32768,8,64 -- ./app      another first-level data cache
  whyslow diff a.cache.1.whyslow a.cache.2.whyslow --metric D1-misses

The program runs 20 to 100 times slower, its threads one at a time: choose a
small input. Counts repeat from run to run, so small changes show. The simulated
machine has two levels of cache and no prefetching: compare counts, and measure
time with `whyslow bench`.

Profiles are kept as NAME.cache.1.whyslow and so on. Metrics: instructions,
D1-misses, LL-misses, branch-misses, I1-misses, and Valgrind's own (Dr, D1mr, …).

Exit codes: the program's own; 125 if whyslow fails or valgrind is missing."
)]
pub(crate) struct CacheArgs {
    /// Lines only, without callers: faster
    #[arg(long)]
    no_stacks: bool,
    /// Count reads and writes of heap blocks instead (DHAT)
    #[arg(long, conflicts_with_all = ["no_stacks", "toggle", "i1", "d1", "ll"])]
    heap: bool,
    /// Simulate only inside this function and what it calls (repeatable)
    #[arg(long, value_name = "FUNCTION", conflicts_with = "no_stacks")]
    toggle: Vec<String>,
    /// Do not follow programs that the program starts
    #[arg(long)]
    no_children: bool,
    /// First-level instruction cache: BYTES,WAYS,LINE
    #[arg(long = "I1", value_name = "SIZE", value_parser = values::cache, help_heading = "Simulated machine")]
    i1: Option<String>,
    /// First-level data cache
    #[arg(long = "D1", value_name = "SIZE", value_parser = values::cache, help_heading = "Simulated machine")]
    d1: Option<String>,
    /// Last-level cache
    #[arg(long = "LL", value_name = "SIZE", value_parser = values::cache, help_heading = "Simulated machine")]
    ll: Option<String>,
    /// The format of the answer
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, help_heading = "Output")]
    format: Format,
    #[command(flatten)]
    keep: KeepOptions,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    program: Vec<OsString>,
}

/// Simulates the program and prints the answer.
pub(crate) fn run(args: &CacheArgs, volume: Volume) -> Result<Exit> {
    if args.program.is_empty() {
        return Err(Failure::new("no program to run").next("whyslow cache [OPTIONS] -- PROGRAM [ARGS]..."));
    }
    let keep = args.keep.resolved();
    let others = if args.format == Format::Json { Volume::Quiet } else { volume };
    let recorded = record::run(args, &keep, others)?;
    if volume > Volume::Quiet {
        let saved = recorded.saved();
        note(&match args.heap {
            true => answers::accesses(&recorded.profile, saved, args.format)?,
            false => answers::cache(&recorded.profile, saved, args.format)?,
        });
    }
    recorded.draw(&keep, others)?;
    recorded.exit()
}
