//! `whyslow import`: turns the recordings of other tools into profiles.

use std::path::{Path, PathBuf};

use clap::Args;
use whyslow_analyze::{Overview, Quality, is_counted, remark_of};
use whyslow_capture::{Names, NewProfile};
use whyslow_formats::import::{Format, STDIN};
use whyslow_profile::{Profile, file};
use whyslow_render::text::remark_line;
use whyslow_words::{Fact, number_of};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{check_links, note};
use crate::{importing, recording, shell, values};

/// Import another tool's recording for use with all commands
#[derive(Debug, Args)]
#[command(after_help = "\
Formats, recognised by content; the file may be packed (gzip, zstd, xz, bzip2):
  perf-data, perf-script    Linux perf: perf.data, and the text of `perf script`
  firefox                   Firefox Profiler, Firefox, samply
  pprof                     Go, pprof-rs, jemalloc_pprof and many more
  speedscope                speedscope, py-spy, rbspy
  folded                    stacks for flame graphs: main;parse;read 42
  chrome-trace              Chrome, V8, Hermes, rustc, tracing-chrome
  dhat                      heap profiles of Valgrind's DHAT and the dhat crate
  heaptrack, massif         heap profiles of heaptrack and Valgrind's massif
  callgrind, cachegrind     Valgrind
  coz                       experiments of the causal profiler coz: profile.coz
  dtrace, bpftrace          stacks that these tools print
  sample, xctrace           macOS: reports of `sample`, XML of `xctrace export`
  vtune, visual-studio      call trees as CSV: `vtune -report top-down -format csv`
  ghc, pmcstat              GHC's cost centres, FreeBSD's call graphs

Examples:
  whyslow import perf.data                  write perf.whyslow
  whyslow import profile.json.gz -o run.whyslow && whyslow report run.whyslow
  perf script | whyslow import - -o run.whyslow
  whyslow import perf.data --symfs copies/  symbols from copies of the programs")]
pub(crate) struct ImportArgs {
    /// The recording; - is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write here instead of NAME.whyslow next to the recording
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// The format, if the content does not show it
    #[arg(long, value_name = "FORMAT", value_parser = values::import_format)]
    format: Option<Format>,
    /// Look for the recorded programs in this folder first
    #[arg(long, value_name = "FOLDER")]
    symfs: Option<PathBuf>,
}

/// Imports the file and prints a summary.
pub(crate) fn run(args: &ImportArgs, volume: Volume) -> Result<Exit> {
    let output = args.output.clone().unwrap_or_else(|| default_output(&args.file));
    check_links(&output)?;
    refuse_to_replace(&output, args.output.is_some())?;
    if let Some(folder) = args.symfs.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::new(format!("{}: not a folder", folder.display()))
            .next("the folder with copies of the recorded programs"));
    }
    let (format, imported) = importing::import(&args.file, args.format, args.symfs.as_deref())?;
    write(&output, &imported.profile, volume)?;
    if volume > Volume::Quiet {
        note(&summary(&args.file, format, &imported.profile, &output));
        let notes = imported.profile.meta.notes.iter().map(remark_of);
        let warnings = Quality::of(&imported.profile).warnings;
        let of_names = warnings.iter().filter(|warning| warning.is_of_names()).map(Fact::remark);
        for remark in notes.chain(of_names) {
            note(&format!("whyslow: {}\n", remark_line(&remark)));
        }
    }
    Ok(Exit::Success)
}

/// Writes the profile. An earlier import is replaced, for it can be made again; a recording gets a number.
fn write(output: &Path, profile: &Profile, volume: Volume) -> Result {
    if file::read(output).is_ok_and(|old| old.meta.imported_from.is_none()) {
        let (new, _) = NewProfile::create(output, Names::Given).map_err(recording::explain)?;
        return recording::write(new, output, profile, volume).map(drop);
    }
    file::write(output, profile).map_err(|error| {
        Failure::new(format!("{}: cannot be written: {error}", output.display()))
            .next("-o with a file in a writable folder with free space")
    })
}

fn summary(path: &Path, format: Format, profile: &Profile, output: &Path) -> String {
    let overview = Overview::of(profile);
    let what =
        if is_counted(profile, profile.main_metric()) { ("row", "rows") } else { ("sample", "samples") };
    let mut holds = Vec::new();
    let causal = &profile.causal;
    if !causal.is_empty() {
        holds.push(number_of(causal.experiments.len() as u64, "experiment", "experiments"));
        holds.push(number_of(causal.targets.len() as u64, "target", "targets"));
        holds.push(number_of(causal.points.len() as u64, "progress point", "progress points"));
    }
    if causal.is_empty() || overview.samples > 0 {
        holds.push(number_of(overview.samples, what.0, what.1));
        holds.push(number_of(profile.threads.len() as u64, "thread", "threads"));
    }
    if !profile.spans.is_empty() {
        holds.push(number_of(profile.spans.len() as u64, "span", "spans"));
    }
    if profile.metrics.len() > 1 {
        holds.push(number_of(profile.metrics.len() as u64, "metric", "metrics"));
    }
    let file = shell::file(output);
    format!(
        "whyslow: {}: {format}: {}\nwhyslow: wrote {file}; next: whyslow report {file}   whyslow view {file}\n",
        path.display(),
        holds.join(", ")
    )
}

/// `run.whyslow` for `run.json.gz`.
fn default_output(path: &Path) -> PathBuf {
    if path == Path::new(STDIN) {
        return PathBuf::from("stdin").with_extension(file::EXTENSION);
    }
    let is_packed =
        path.extension().is_some_and(|end| ["gz", "zst", "xz", "bz2"].iter().any(|one| end == *one));
    let unpacked = if is_packed { path.with_extension("") } else { path.to_owned() };
    // `callgrind.out.1234` keeps its number.
    let is_number = unpacked
        .extension()
        .is_some_and(|end| end.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()));
    if is_number {
        let mut name = unpacked.into_os_string();
        name.push(".");
        name.push(file::EXTENSION);
        return name.into();
    }
    unpacked.with_extension(file::EXTENSION)
}

/// Never replaces a file that is not a profile, and takes the name of a whyslow recording only if `-o` says so.
fn refuse_to_replace(output: &Path, named: bool) -> Result {
    if !output.exists() || !output.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Ok(());
    }
    let what = match file::read(output) {
        Ok(profile) if named || profile.meta.imported_from.is_some() => return Ok(()),
        Ok(_) => "it is a whyslow recording",
        Err(_) => "it exists and is not a profile",
    };
    Err(Failure::new(format!("{}: {what}, and import does not overwrite it", output.display()))
        .next("-o with another name for the imported profile"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_is_named_after_the_recording() {
        let named = |path: &str| default_output(Path::new(path)).to_str().unwrap().to_owned();
        assert_eq!(named("perf.data"), "perf.whyslow");
        assert_eq!(named("a/run.json.gz"), "a/run.whyslow");
        assert_eq!(named("callgrind.out.1234"), "callgrind.out.1234.whyslow");
        assert_eq!(named("stacks"), "stacks.whyslow");
        assert_eq!(named("heaptrack.app.77.zst"), "heaptrack.app.77.whyslow");
        assert_eq!(named("-"), "stdin.whyslow");
    }
}
