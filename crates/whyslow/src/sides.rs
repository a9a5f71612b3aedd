//! Both sides of a comparison: files, or runs that are recorded for it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use tempfile::TempDir;
use whyslow_analyze::diff::{Runs, Side, shared_metrics};
use whyslow_analyze::{Quality, Selection};
use whyslow_answers::Filters;
use whyslow_bench::padding;
use whyslow_bench::words::{self, WordsError};
use whyslow_capture::{Command, Options, Target};
use whyslow_heap::leaks::suppressions::Suppressions;
use whyslow_profile::Profile;
use whyslow_render::text::DiffFile;
use whyslow_stats::functions::MIN_PAIRS;
use whyslow_stats::random::{Orders, Random};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::output::note;
use crate::recording::{self, Keep, check_frequency, every_allocation, name_of};
use crate::{profile_file, refusals};

/// What to compare.
#[derive(Debug, Clone, Args)]
pub(crate) struct SidesArgs {
    /// Profiles from before and after the change; with --runs, two quoted commands
    #[arg(value_names = ["BEFORE", "AFTER"], num_args = 2, required_unless_present = "before", conflicts_with_all = ["before", "after"])]
    both: Vec<OsString>,
    /// Profiles from before the change, one per run
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// Profiles from after the change, paired in order with --before
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
    #[command(flatten)]
    recording: RunsArgs,
}

/// Runs to record for the comparison.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Recording both sides")]
struct RunsArgs {
    /// Record both commands N times each, in random order (at least 3, better 5)
    #[arg(long, value_name = "N", conflicts_with_all = ["before", "after"])]
    runs: Option<usize>,
    /// Warm-up rounds that do not count
    #[arg(long, value_name = "N", default_value_t = 1, requires = "runs")]
    warmup: usize,
    /// Keep the recordings in this folder: before-1.whyslow, after-1.whyslow, …
    #[arg(short, long, value_name = "FOLDER", requires = "runs")]
    output: Option<PathBuf>,
    /// Samples per second of CPU time
    #[arg(short = 'F', long, value_name = "HZ", default_value_t = 997, requires = "runs", value_parser = clap::value_parser!(u32).range(1..))]
    frequency: u32,
    /// Record where threads wait (--metric off-cpu-time or wall-time)
    #[arg(long, requires = "runs")]
    off_cpu: bool,
    /// Record every allocation (--metric bytes-allocated or allocations)
    #[arg(long, requires = "runs")]
    heap: bool,
    /// Also count runs that fail
    #[arg(long, requires = "runs")]
    ignore_failure: bool,
}

/// A run: its file, its profile, and the samples to compare.
pub(crate) struct Run {
    pub(crate) path: PathBuf,
    pub(crate) profile: Profile,
    pub(crate) selection: Selection,
}

/// Both sides, before and after, with the same number of runs.
pub(crate) struct Sides {
    pub(crate) before: Vec<Run>,
    pub(crate) after: Vec<Run>,
    /// Recordings that the user did not ask to keep.
    folder: Option<TempDir>,
}

impl Sides {
    /// Records the runs if requested, opens the files and selects the samples to compare.
    pub(crate) fn load(args: &SidesArgs, filters: &Filters, volume: Volume) -> Result<Self> {
        let mut folder = None;
        let [before, after] = match (args.recording.runs, &args.both[..]) {
            (Some(runs), [before, after]) => {
                let place = match &args.recording.output {
                    Some(place) => place.clone(),
                    None => folder.insert(temporary()?).path().to_owned(),
                };
                record(&args.recording, runs, [before, after], &place, volume)?
            }
            (None, [before, after]) => [before, after].map(|path| vec![PathBuf::from(path)]),
            _ => [args.before.clone(), args.after.clone()],
        };
        let mut sides = Self::open([before, after], filters)?;
        sides.folder = folder;
        Ok(sides)
    }

    /// Opens the files of both sides.
    pub(crate) fn open(files: [Vec<PathBuf>; 2], filters: &Filters) -> Result<Self> {
        let [before, after] = &files;
        check_counts(before.len(), after.len())?;
        if before.len() > 1 {
            refuse_the_same_file_twice(&files.concat())?;
        }
        // Both sides in parallel: for large files, reading takes most of the time.
        let open_after = || opened(after);
        let (before, after) = std::thread::scope(|scope| {
            let after = std::thread::Builder::new().spawn_scoped(scope, open_after);
            let before = opened(before);
            // Without permission for another thread, one after the other.
            (before, after.map_or_else(|_| Ok(open_after()), std::thread::ScopedJoinHandle::join))
        });
        let after = after.map_err(|_| Failure::new("reading the profiles failed"))??;
        let mut sides = Self { before: before?, after, folder: None };
        sides.select(filters)?;
        Ok(sides)
    }

    /// Picks a metric that all runs have, and the samples that pass the filters.
    fn select(&mut self, filters: &Filters) -> Result {
        let mut shared = shared_metrics(&self.before[0].profile, &self.after[0].profile);
        shared.retain(|name| self.all().all(|run| run.profile.metric_named(name).is_some()));
        let filters = match (filters.metric.in_file(), shared.first()) {
            (Some(name), _) => {
                self.check_shared(name, &shared)?;
                filters.clone()
            }
            (None, Some(default)) => filters.clone().with_default_metric(default),
            (None, None) => return Err(self.nothing_shared()),
        };
        for run in self.before.iter_mut().chain(&mut self.after) {
            run.selection =
                filters.selection(&mut run.profile).map_err(|error| refusals::of_filter(&run.path, error))?;
        }
        self.check()
    }

    fn all(&self) -> impl Iterator<Item = &Run> {
        self.before.iter().chain(&self.after)
    }

    /// The runs of both sides, to compare.
    pub(crate) fn runs(&self) -> [Runs<'_>; 2] {
        [&self.before, &self.after].map(|runs| {
            let sides = runs.iter().map(|Run { profile, selection, .. }| Side { profile, selection });
            Runs::new(sides.collect())
        })
    }

    /// The names of the files of both sides; without files, the number of runs.
    pub(crate) fn names(&self) -> [Vec<String>; 2] {
        [&self.before, &self.after].map(|runs| match &self.folder {
            Some(_) => vec![format!("{} runs", runs.len())],
            None => runs.iter().map(|run| run.path.display().to_string()).collect(),
        })
    }

    /// A filter that matches nothing on one side is an answer: the other side has it all.
    fn check(&self) -> Result {
        let nothing = |runs: &[Run]| {
            let errors =
                runs.iter().map(|run| Some((run.path.clone(), run.selection.check(&run.profile).err()?)));
            // A match in one of several runs is enough.
            errors.collect::<Option<Vec<_>>>().and_then(|errors| errors.into_iter().next())
        };
        match [&self.before, &self.after].map(|runs| nothing(runs)) {
            [Some((path, error)), Some(_)] => Err(Failure::new(format!("{}: {error}", path.display()))),
            [Some((path, error)), _] | [_, Some((path, error))] => {
                warn(&format!("{}: {error}; this side counts as 0", path.display()));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn check_shared(&self, name: &str, shared: &[String]) -> Result {
        if shared.iter().any(|metric| metric == name) {
            return Ok(());
        }
        if shared.is_empty() {
            return Err(self.nothing_shared());
        }
        let list = shared.join(", ");
        let lacking = self.all().find(|run| Selection::metric_named(&run.profile, name).is_err());
        let what = match lacking {
            Some(run) => format!("{}: no metric '{name}'", run.path.display()),
            None => format!("the metric '{name}' counts different things in the two profiles"),
        };
        Err(Failure::new(what).next(format!("--metric with one that both have: {list}")))
    }

    fn nothing_shared(&self) -> Failure {
        let metrics = [&self.before[0], &self.after[0]].map(|run| {
            let names =
                run.profile.metrics.iter().map(|metric| run.profile.text(metric.name)).collect::<Vec<_>>();
            let names = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
            format!("{} has {names}", run.path.display())
        });
        Failure::new(format!("the profiles have no metric in common: {}", metrics.join("; ")))
            .next("recording both in the same way: `whyslow record`, or `whyslow heap`")
    }
}

/// The runs of one side, as the answer names them.
pub(crate) fn file<'a>(names: &'a [String], profile: &'a Profile, quality: &'a Quality) -> DiffFile<'a> {
    let (name, more) = names.split_first().map_or(("", &[][..]), |(name, more)| (name.as_str(), more));
    DiffFile { name, profile, quality, more }
}

fn opened(files: &[PathBuf]) -> Result<Vec<Run>> {
    let run = |path: &PathBuf| {
        Ok(Run { path: path.clone(), profile: profile_file::open(path)?, selection: Selection::default() })
    };
    files.iter().map(run).collect()
}

/// The same run twice would count twice.
pub(crate) fn refuse_the_same_file_twice(files: &[PathBuf]) -> Result {
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    for (index, path) in files.iter().enumerate() {
        if files[..index].iter().any(|earlier| real(earlier) == real(path)) {
            return Err(Failure::new(format!(
                "{}: given twice; its samples would count twice",
                path.display()
            ))
            .next("each recording once"));
        }
    }
    Ok(())
}

/// Runs are compared in pairs, and two pairs do not show run-to-run noise.
fn check_counts(before: usize, after: usize) -> Result {
    if before != after {
        return Err(Failure::new(format!(
            "there are {before} runs before and {after} after, and runs are compared in pairs"
        ))
        .next("the same number on both sides"));
    }
    if (2..MIN_PAIRS).contains(&before) {
        return Err(Failure::new(format!("{before} runs per side cannot show run-to-run noise"))
            .next("1 run per side, or at least 3 (better 5)"));
    }
    Ok(())
}

fn temporary() -> Result<TempDir> {
    tempfile::Builder::new().prefix("whyslow-").tempdir().map_err(|error| {
        Failure::new(format!("cannot create a folder for the recordings: {error}"))
            .next("-o with a writable folder with free space")
    })
}

/// Records both commands in rounds. Each round has a random order, and the next round the reverse order.
fn record(
    args: &RunsArgs,
    runs: usize,
    commands: [&OsString; 2],
    folder: &Path,
    volume: Volume,
) -> Result<[Vec<PathBuf>; 2]> {
    if runs < MIN_PAIRS {
        return Err(Failure::new(format!("--runs {runs}: too few runs to show run-to-run noise"))
            .next(format!("--runs {MIN_PAIRS}, better 5 or more")));
    }
    let commands = [split(commands[0])?, split(commands[1])?];
    std::fs::create_dir_all(folder).map_err(|error| {
        Failure::new(format!("{}: cannot create the folder: {error}", folder.display()))
            .next("-o with a writable folder with free space")
    })?;
    let sides = ["before", "after"];
    // In the same folder as the recordings: the same disk.
    let warm_up = tempfile::Builder::new().prefix("warm-up-").tempdir_in(folder);
    let warm_up = warm_up.map_err(|error| Failure::new(format!("{}: {error}", folder.display())))?;
    let seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let mut random = Random::new(seed);
    let mut files = [Vec::new(), Vec::new()];
    for (round, order) in Orders::new(2, seed).take(args.warmup + runs).enumerate() {
        let counted = round.checked_sub(args.warmup);
        if volume > Volume::Quiet {
            note(&match counted {
                Some(round) => format!("whyslow: round {} of {runs}\n", round + 1),
                None => "whyslow: warm-up round\n".to_owned(),
            });
        }
        for side in order {
            let file = match counted {
                Some(round) => folder.join(format!("{}-{}.whyslow", sides[side], round + 1)),
                None => warm_up.path().join(format!("{}-{round}.whyslow", sides[side])),
            };
            one_run(args, &commands[side], random.below(padding::MAX_BYTES), &file, volume)?;
            if counted.is_some() {
                files[side].push(file);
            }
        }
    }
    if args.output.is_some() && volume > Volume::Quiet {
        note(&format!("whyslow: the recordings are in {}\n", folder.display()));
    }
    Ok(files)
}

/// The words of a quoted command.
fn split(command: &OsString) -> Result<Vec<String>> {
    let text = command.to_str().ok_or_else(|| Failure::new("a command must be UTF-8"))?;
    words::split(text).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error {
            WordsError::Shell { .. } => failure.next(format!("sh -c {}", words::quoted(&[text.to_owned()]))),
            WordsError::Empty | WordsError::Open(_) => {
                failure.next("the command in quotes: './app input.txt'")
            }
        }
    })
}

fn one_run(args: &RunsArgs, words: &[String], padding: usize, file: &Path, volume: Volume) -> Result {
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::new("the command is empty"))?;
    let target = Target::Command(Command {
        program: program.into(),
        args: arguments.iter().map(OsString::from).collect(),
        env: vec![padding::variable(padding)],
        silent: true,
        ..Command::default()
    });
    check_frequency(args.frequency)?;
    let how = Options {
        frequency_hz: args.frequency,
        off_cpu: args.off_cpu,
        heap: args.heap.then(every_allocation),
        ..Options::default()
    };
    let keep = Keep { output: Some(file.to_owned()), ..Keep::default() };
    let quiet = if volume == Volume::Verbose { volume } else { Volume::Quiet };
    let recorded =
        recording::run(&target, name_of(program.as_ref()), how, &keep, quiet, &Suppressions::default())?;
    match recorded.exit()? {
        Exit::Success | Exit::Program(0) => Ok(()),
        _ if args.ignore_failure => Ok(()),
        exit => Err(Failure::new(format!("`{}` exited with {}", words::quoted(words), exit.code()))
            .next("a command that succeeds, or --ignore-failure")),
    }
}
