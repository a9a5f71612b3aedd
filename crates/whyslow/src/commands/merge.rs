//! `whyslow merge`: merges several recordings into one profile with all their samples.

use std::path::{Path, PathBuf};

use clap::Args;
use whyslow_analyze::Quality;
use whyslow_analyze::heap::{has_heap, is_heap_only};
use whyslow_capture::{Names, NewProfile};
use whyslow_profile::{Note, Pool, Profile, RecordingNote, file};
use whyslow_render::units::duration;
use whyslow_words::number_of;

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::output::note;
use crate::profile_file;
use crate::recording::{self, name_of};
use crate::shell;
use crate::sides::refuse_the_same_file_twice;

/// Merge several recordings, so that rare code gets enough samples
#[derive(Debug, Args)]
#[command(after_help = "\
The result has the samples of all runs, one run after the other on its timeline.
Heap data is left out: peaks and leaks of several runs do not add up.

Examples:
  for i in 1 2 3 4 5; do whyslow record -q -o run$i.whyslow -- ./app; done
  whyslow merge run*.whyslow -o runs.whyslow && whyslow report runs.whyslow")]
pub(crate) struct MergeArgs {
    /// Two or more recordings
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    files: Vec<PathBuf>,
    /// Write here instead of NAME.merged.1.whyslow
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
}

/// Pools the files and prints a summary.
pub(crate) fn run(args: &MergeArgs, volume: Volume) -> Result<Exit> {
    refuse_the_same_file_twice(&args.files)?;
    let mut pool = Pool::new();
    let mut runs = Runs::default();
    for path in &args.files {
        let profile = profile_file::open(path)?;
        if is_heap_only(&profile) {
            return Err(Failure::new(format!(
                "{}: it holds only heap data, and the heaps of several runs do not add up",
                path.display()
            ))
            .next("whyslow diff BEFORE AFTER, to compare two heaps"));
        }
        runs.add(path, &profile);
        pool.add(&profile);
    }
    if let Some(words) = runs.other_programs() {
        warn(&words);
    }
    let mut profile = pool.finish();
    // Of a file that was merged before, the first one's notes are kept.
    profile.meta.notes.retain(|note| !matches!(note, Note::Recording(RecordingNote::Pooled { .. })));
    profile.meta.notes.extend(runs.notes());
    let (output, names) = match &args.output {
        Some(path) => (path.clone(), Names::Given),
        None => (default_output(&profile), Names::Numbered),
    };
    let (new, _) = NewProfile::create(&output, names).map_err(recording::explain)?;
    let output = recording::write(new, &output, &profile, volume)?;
    if volume > Volume::Quiet {
        let samples = profile.main_samples().map_or(0, |(_, samples)| samples.len()) as u64;
        let cpu_time = profile.meta.user_time_ns.saturating_add(profile.meta.system_time_ns);
        let file = shell::file(&output);
        note(&format!(
            "whyslow: {}, {}, {} of CPU time\nwhyslow: wrote {file}; next: whyslow report {file}   whyslow view {file}\n",
            number_of(args.files.len() as u64, "recording", "recordings"),
            number_of(samples, "sample", "samples"),
            duration(cpu_time)
        ));
        note(&format!("whyslow: {}\n", whyslow_render::text::headline(&Quality::of(&profile))));
    }
    Ok(Exit::Success)
}

/// NAME.merged.whyslow for recordings of NAME.
fn default_output(profile: &Profile) -> PathBuf {
    let program = profile.meta.command.first().map_or("runs", String::as_str);
    let name = name_of(program.as_ref()).to_string_lossy().into_owned();
    PathBuf::from(format!("{name}.merged.{}", file::EXTENSION))
}

/// What to note about pooled runs.
#[derive(Default)]
struct Runs {
    first: Option<(String, Vec<String>)>,
    /// Files and their commands.
    others: Vec<(String, Vec<String>)>,
    with_heap: Vec<String>,
    count: u64,
}

impl Runs {
    fn add(&mut self, path: &Path, profile: &Profile) {
        let merged = profile.meta.notes.iter().find_map(|note| match note {
            Note::Recording(RecordingNote::Pooled { recordings }) => Some(*recordings),
            _ => None,
        });
        self.count += merged.unwrap_or(1);
        let name = path.display().to_string();
        if has_heap(profile) {
            self.with_heap.push(name.clone());
        }
        match &self.first {
            None => self.first = Some((name, profile.meta.command.clone())),
            Some((_, command)) if *command != profile.meta.command => {
                self.others.push((name, profile.meta.command.clone()));
            }
            Some(_) => {}
        }
    }

    /// That the recordings are of several programs, or of one program with several arguments.
    fn other_programs(&self) -> Option<String> {
        let (first, command) = self.first.as_ref()?;
        let other = self.others.first()?;
        let shown = |command: &[String]| {
            format!("`{}`", whyslow_render::sanitize::clean(&whyslow_bench::words::quoted(command)))
        };
        let more = match self.others.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        Some(format!(
            "{first} has recorded {}, but {}{more} {}: the profile is the sum of both",
            shown(command),
            other.0,
            shown(&other.1)
        ))
    }

    fn notes(&self) -> Vec<Note> {
        let mut notes = vec![RecordingNote::Pooled { recordings: self.count }];
        if let (Some((first, _)), [(other, _), ..]) = (&self.first, self.others.as_slice()) {
            notes.push(RecordingNote::PooledCommands {
                others: self.others.len() as u64,
                first: first.clone(),
                other: other.clone(),
            });
        }
        if !self.with_heap.is_empty() {
            notes.push(RecordingNote::PooledWithoutHeap { files: self.with_heap.clone() });
        }
        notes.into_iter().map(Note::from).collect()
    }
}
