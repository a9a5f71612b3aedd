//! `whyslow scale`: how a program and its functions scale with input size.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use whyslow_analyze::Selection;
use whyslow_analyze::scale::{Growth, Observed};
use whyslow_profile::{Origin, Profile};
use whyslow_render::scale::growth_plot;
use whyslow_render::{json, text};
use whyslow_stats::random::Random;

use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output::{self, Output, note};
use crate::{profile_file, terminal};

/// Measure how each function scales with input size
#[derive(Debug, Args)]
#[command(
    override_usage = "whyslow scale --sizes 1k,2k,4k,8k,16k [OPTIONS] -- PROGRAM [ARGS with {size}]...\n       whyslow scale --files a.txt,b.txt,c.txt [OPTIONS] -- PROGRAM [ARGS with {file}]...",
    after_help = "\
Examples:
  whyslow scale --sizes 1k,2k,4k,8k,16k -- ./app --items {size}
  whyslow scale --files small.json,medium.json,large.json -- ./app {file}
  whyslow scale --sizes 1k,2k,4k,8k --heap -- ./app {size}   allocated bytes
  whyslow scale --sizes 1k,4k,16k,64k --svg growth.svg -- ./app {size}

Use five sizes or more, each at least twice the one before. The largest should
run for a second or more, so that small functions get samples. k, M and G are
thousands, millions and billions. A lone n in braces also stands for the size.

whyslow fits an exponent per function (negative-binomial model) with a 95 %
confidence interval. A function is steep if its exponent is above 1.3 with a
probability of 99.9 %."
)]
pub(crate) struct ScaleArgs {
    /// Input sizes that replace {size}, such as 1k,2k,4k,8k,16k
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size, required_unless_present = "files", conflicts_with = "files")]
    sizes: Vec<f64>,
    /// Input files that replace {file}; their lengths are the sizes
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    files: Vec<PathBuf>,
    /// Runs per size
    #[arg(short, long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Samples per second of CPU time
    #[arg(short = 'F', long, visible_alias = "freq", value_name = "HZ", default_value_t = 997, value_parser = clap::value_parser!(u32).range(1..))]
    frequency: u32,
    /// Record allocations instead of CPU time
    #[arg(long)]
    heap: bool,
    /// The metric to fit [default: cpu-time; with --heap bytes-allocated]
    #[arg(long, value_name = "METRIC")]
    metric: Option<String>,
    /// Keep the recordings in this folder
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Also draw the result on logarithmic axes
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// The program to run, and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required = true, hide = true)]
    program: Vec<String>,
}

/// `16k`, `1.5M`, `300`.
fn size(text: &str) -> std::result::Result<f64, String> {
    let wrong = || format!("`{text}` is not a size such as 300, 16k or 1.5M");
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "g" => 1e9,
        _ => return Err(wrong()),
    };
    let size = number.parse::<f64>().map_err(|_| wrong())? * scale;
    if size.is_finite() && size > 0.0 && size.fract() == 0.0 { Ok(size) } else { Err(wrong()) }
}

/// An input: its size, and the placeholder in the command that it replaces.
struct Sized {
    size: f64,
    placeholders: &'static [&'static str],
    value: String,
}

/// Runs all sizes, fits, prints.
pub(crate) fn run(args: &ScaleArgs, volume: Volume) -> Result<Exit> {
    let inputs = inputs(args)?;
    let picture = args.svg.clone().map(Output::from);
    if let Some(picture) = &picture {
        picture.check()?;
    }
    let temporary = tempfile::tempdir()
        .map_err(|error| Failure::new(format!("cannot create a folder for the recordings: {error}")))?;
    let folder = args.output.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    let mut order =
        (0..inputs.len()).flat_map(|input| (0..args.runs).map(move |run| (input, run))).collect::<Vec<_>>();
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
    Random::new(seed).shuffle(&mut order);
    let mut observed = Vec::new();
    let mut kind = None;
    let count = order.len();
    for (at, (input, run)) in order.into_iter().enumerate() {
        let input = &inputs[input];
        if volume > Volume::Quiet {
            note(&format!("run {} of {count}: {} {}\n", at + 1, input.placeholders[0], input.value));
        }
        let file = folder.join(format!("{}-{run}.whyslow", input.size));
        let profile = record(args, input, &file)?;
        let (seen, metric) = observe(args, &profile, &file, input.size)?;
        kind.get_or_insert(metric);
        observed.push(seen);
    }
    let (metric, sampled) = kind.unwrap_or_default();
    let growth = Growth::of(metric, sampled, &observed);
    let shown = match args.format {
        Format::Text => text::scale(&growth, terminal::width(std::io::stdout())),
        Format::Json => {
            json::to_string(&json::scale(&growth)).map_err(|error| Failure::new(format!("scale: {error}")))?
        }
    };
    output::print(&shown)?;
    if let Some(picture) = picture {
        picture.write(|out| out.write_all(growth_plot(&growth).as_bytes()))?;
    }
    Ok(Exit::Success)
}

/// Placeholders for a size in the command.
const SIZE: [&str; 2] = ["{n}", "{size}"];
/// Placeholders for a file in the command.
const FILE: [&str; 1] = ["{file}"];

fn inputs(args: &ScaleArgs) -> Result<Vec<Sized>> {
    let (placeholders, mut inputs) = if args.files.is_empty() {
        let of = |size: &f64| Sized { size: *size, placeholders: &SIZE, value: format!("{size:.0}") };
        (&SIZE[..], args.sizes.iter().map(of).collect::<Vec<_>>())
    } else {
        let of = |path: &PathBuf| {
            let length = std::fs::metadata(path)
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?
                .len();
            Ok(Sized { size: length as f64, placeholders: &FILE, value: path.display().to_string() })
        };
        (&FILE[..], args.files.iter().map(of).collect::<Result<Vec<_>>>()?)
    };
    if !args.program.iter().any(|word| placeholders.iter().any(|placeholder| word.contains(placeholder))) {
        let shown = placeholders[0];
        return Err(Failure::new(format!(
            "no argument of the program contains {shown}, so every size would be the same run"
        ))
        .next(format!("whyslow scale … -- ./app {shown}")));
    }
    inputs.sort_by(|one, other| one.size.total_cmp(&other.size));
    if inputs.windows(2).any(|two| two[0].size.total_cmp(&two[1].size).is_eq())
        || inputs.iter().any(|input| input.size == 0.0)
    {
        return Err(Failure::new("two inputs have the same size, or one is empty")
            .next("sizes that double, such as --sizes 1k,2k,4k,8k,16k"));
    }
    if inputs.len() < 3 {
        return Err(Failure::new(format!("{} sizes are too few to fit a curve", inputs.len()))
            .next("five, such as --sizes 1k,2k,4k,8k,16k"));
    }
    Ok(inputs)
}

/// Records one run with `whyslow record` or `whyslow heap`.
fn record(args: &ScaleArgs, input: &Sized, file: &Path) -> Result<Profile> {
    let cannot = |why: String| Failure::new(format!("with {} {}: {why}", input.placeholders[0], input.value));
    let own = std::env::current_exe().map_err(|error| cannot(error.to_string()))?;
    let mut command = whyslow_capture::restored_command(own);
    command.arg("-q");
    if args.heap {
        command.args(["heap", "--no-leak-check"]);
    } else {
        command.args(["record", "-F", &args.frequency.to_string()]);
    }
    let filled = |word: &String| {
        input
            .placeholders
            .iter()
            .fold(word.clone(), |word, placeholder| word.replace(placeholder, &input.value))
    };
    let words = args.program.iter().map(filled);
    command.arg("-o").arg(file).arg("--").args(words);
    let output = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .map_err(|error| cannot(error.to_string()))?;
    if !output.status.success() {
        let printed = String::from_utf8_lossy(&output.stderr);
        let last = printed.trim().lines().last().unwrap_or_default();
        let last = whyslow_render::sanitize::clean(last);
        let last = if last.is_empty() { String::new() } else { format!(": {last}") };
        return Err(cannot(format!("the program failed ({}){last}", output.status))
            .next("running it by hand with this size"));
    }
    profile_file::open(file)
}

/// The measurements of a recording, the name of the metric, and whether it is sampled.
fn observe(
    args: &ScaleArgs,
    profile: &Profile,
    file: &Path,
    size: f64,
) -> Result<(Observed, (String, bool))> {
    let default = if args.heap { "bytes-allocated" } else { "cpu-time" };
    let wanted = args.metric.as_deref().unwrap_or(default);
    let metric = Selection::metric_named(profile, wanted)
        .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    let selection = Selection { metric, ..Selection::default() };
    let metric = &profile.metrics[selection.metric.index()];
    let sampled = !matches!(metric.origin, Origin::Counted | Origin::Simulated);
    let meta = &profile.meta;
    let mut numbers = Vec::new();
    if let Some(heap) = &meta.heap {
        let sum = |of: fn(&whyslow_profile::HeapCounts) -> u64| {
            profile.heap.sites.iter().map(|site| of(&site.counts)).sum::<u64>() as f64
        };
        numbers.push(("allocations".to_owned(), sum(|counts| counts.allocations)));
        numbers.push(("allocated-bytes".to_owned(), sum(|counts| counts.bytes_allocated)));
        numbers.push(("peak-live-bytes".to_owned(), heap.peak_bytes as f64));
    } else {
        // Recording every allocation slows the program down, so its times say nothing.
        numbers.push(("wall-time".to_owned(), meta.duration_ns as f64));
        numbers.push(("cpu-time".to_owned(), (meta.user_time_ns + meta.system_time_ns) as f64));
    }
    // 0 is unknown: a program smaller than whyslow has no peak of its own.
    if meta.max_resident_bytes > 0 {
        numbers.push(("max-resident".to_owned(), meta.max_resident_bytes as f64));
    }
    let observed = Observed::of(profile, &selection, size, numbers);
    Ok((observed, (profile.text(metric.name).to_owned(), sampled)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_thousands() {
        assert_eq!([size("300"), size("16k"), size("1.5M")], [Ok(300.0), Ok(16e3), Ok(1.5e6)]);
        for wrong in ["", "k", "-1", "0", "1.5", "1q", "inf"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }
}
