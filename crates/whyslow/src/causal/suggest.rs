//! Proposes progress points: watches the program once to find functions of its own that are often on the stack, and once
//! more to count how often each is entered.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use whyslow_analyze::{FunctionTable, Label, Selection, SortBy};
use whyslow_capture::{
    CausalOptions, CausalShared, CodePoint, Conditions, Director, Means, ModuleSamples, Options, Outcome,
    PointCount, Step, Target, WholeRun, means,
};
use whyslow_causal::suggest::{Suggestion, Suggestions, Visited, suitable};
use whyslow_numbers::Start;
use whyslow_profile::{Builder, CodeKind, ExitStatus, LocationId, Note, Profile, StringId};

use super::entries::ProgramFunctions;
use crate::cli::Volume;
use crate::failure::Result;
use crate::input::Input;
use crate::recording::{self, Recorded};

/// As many as the agent has room for.
const MOST: usize = 64;
/// Functions with a smaller share of the CPU time, with all that they call, do not cover what the program does.
const LEAST_SHARE: f64 = 0.005;
/// How often visits are read.
const LOOK: Duration = Duration::from_millis(50);
/// Samples per second of CPU time.
const SAMPLES_HZ: u32 = 997;
/// CPU time between two signals to a thread, which this does not need.
const SELDOM: Duration = Duration::from_secs(3600);

/// What was found, and how the program ended; `None` if whyslow ended it.
pub(crate) struct Proposal {
    pub(crate) found: Suggestions,
    pub(crate) exit: Option<ExitStatus>,
}

/// Runs the program twice, each time for at most `time`.
pub(crate) fn propose(
    target: &Target,
    program: &Path,
    time: Duration,
    shared: &CausalShared,
    volume: Volume,
) -> Result<Proposal> {
    let functions = ProgramFunctions::read(program)?;
    let input = Input::of_runs(2);
    let (sampled, watched) = watch(target, Vec::new(), time, shared, volume)?;
    let exit = |watched: &Watch, recorded: &Recorded| recorded.exit.filter(|_| !watched.has_ended_program);
    let mut found = Suggestions { seconds: 0.0, ..Suggestions::default() };
    let table = FunctionTable::build(&sampled.profile, &Selection::default(), false, SortBy::Total);
    found.samples = table.total_samples;
    let mut candidates = candidates(&sampled.profile, &table, program, &functions);
    // A hardware breakpoint would slow the program down.
    candidates.retain(|candidate| {
        let found = means(program, &functions.point(&candidate.function).places);
        found.is_ok_and(|found| found.iter().all(|means| *means == Means::Patch))
    });
    found.counted = candidates.len();
    let first = exit(&watched, &sampled);
    let has_failed = first.is_some_and(|exit| exit != ExitStatus::Code(0));
    if candidates.is_empty() || has_failed || shared.is_interrupted() {
        return Ok(Proposal { found, exit: first });
    }
    input.rewind();
    let points = candidates.iter().map(|candidate| functions.point(&candidate.function));
    let (counted, watched) = watch(target, points.collect(), time, shared, volume)?;
    let visited: Vec<Visited> = candidates
        .iter()
        .enumerate()
        .map(|(row, candidate)| Visited { share: candidate.share, counts: watched.counts_of(row) })
        .collect();
    found.seconds = watched.seconds();
    let suggestion = |suits: whyslow_causal::suggest::Suitability| {
        let Candidate { function, file, line, share } = candidates[suits.row].clone();
        Suggestion { function, file, line, share, suits }
    };
    found.rows = suitable(&visited).into_iter().map(suggestion).collect();
    Ok(Proposal { found, exit: exit(&watched, &counted) })
}

/// Runs the program for a time, and reads how often these points are visited.
fn watch(
    target: &Target,
    points: Vec<CodePoint>,
    time: Duration,
    shared: &CausalShared,
    volume: Volume,
) -> Result<(Recorded, Watch)> {
    let director = Arc::new(Mutex::new(Watch { time, ..Watch::default() }));
    let causal = CausalOptions {
        period: SELDOM,
        director: Arc::clone(&director) as _,
        points,
        ends_program: true,
        shared: shared.clone(),
    };
    let how = Options { frequency_hz: SAMPLES_HZ, causal: Some(causal), ..Options::default() };
    let recorded = recording::run_unkept(target, how, volume)?;
    let watched = std::mem::take(&mut *director.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((recorded, watched))
}

/// A function that may be a point.
#[derive(Debug, Clone)]
struct Candidate {
    function: String,
    file: Option<String>,
    line: u32,
    share: f64,
}

/// The functions of the program's file that were most often on the stack: first those of the user's own code.
fn candidates(
    profile: &Profile,
    table: &FunctionTable,
    program: &Path,
    functions: &ProgramFunctions,
) -> Vec<Candidate> {
    let is_in_program = |module: &whyslow_profile::ModuleId| {
        Path::new(profile.text(profile.modules[module.index()].path)) == program
    };
    let places = first_lines(profile);
    let (mut own, mut others): (Vec<Candidate>, Vec<Candidate>) = (Vec::new(), Vec::new());
    for row in &table.rows {
        let Label::Function(id) = row.label else { continue };
        let function = &profile.functions[id.index()];
        let name = profile.text(function.name);
        let share = table.total_share(row).value;
        let is_known = |candidate: &Candidate| candidate.function == name;
        let is_own = match function.kind {
            CodeKind::Yours => true,
            CodeKind::Dependency | CodeKind::Unknown => false,
            CodeKind::Std | CodeKind::Allocator | CodeKind::Kernel | CodeKind::Runtime => continue,
        };
        if share < LEAST_SHARE
            || !function.module.as_ref().is_some_and(is_in_program)
            || !functions.has(name)
            || own.iter().chain(&others).any(is_known)
        {
            continue;
        }
        let place = function.file.filter(|_| function.line > 0).map(|file| (file, function.line));
        let place = place.or_else(|| places.get(&function.name).copied());
        let file = place.map(|(file, _)| profile.text(file).to_owned());
        let line = place.map_or(0, |(_, line)| line);
        let candidate = Candidate { function: name.to_owned(), file, line, share };
        if is_own { own.push(candidate) } else { others.push(candidate) }
    }
    own.into_iter().chain(others).take(MOST).collect()
}

/// The first line of each function that was on a stack, by its name, for those whose definition is not known.
fn first_lines(profile: &Profile) -> BTreeMap<StringId, (StringId, u32)> {
    let mut places: BTreeMap<StringId, (StringId, u32)> = BTreeMap::new();
    for location in (0..profile.locations.module.len()).map(LocationId::from) {
        for frame in profile.frames.of(location).iter().filter(|frame| frame.line > 0) {
            let Some(file) = frame.file else { continue };
            let name = profile.functions[frame.function.index()].name;
            let place = places.entry(name).or_insert((file, frame.line));
            if place.0 == file {
                place.1 = place.1.min(frame.line);
            }
        }
    }
    places
}

/// Lets the program run, and reads visits.
#[derive(Debug, Default)]
struct Watch {
    time: Duration,
    started: Option<Instant>,
    /// The visits of each point, at each look.
    looks: BTreeMap<Duration, Vec<u64>>,
    has_ended_program: bool,
}

impl Watch {
    fn elapsed(&self) -> Duration {
        self.started.map(|started| started.elapsed()).unwrap_or_default()
    }

    fn counts_of(&self, row: usize) -> Vec<(f64, u64)> {
        let count = |counts: &Vec<u64>| counts.get(row).copied().unwrap_or(0);
        self.looks.iter().map(|(at, counts)| (at.as_secs_f64(), count(counts))).collect()
    }

    fn seconds(&self) -> f64 {
        self.looks.keys().next_back().map_or(0.0, Duration::as_secs_f64)
    }
}

impl Director for Watch {
    fn sampled(&mut self, _modules: &[ModuleSamples]) {}

    fn visited(&mut self, points: &[PointCount]) {
        let counts = points.iter().map(|point| point.count).collect();
        self.looks.insert(self.elapsed(), counts);
    }

    fn whole_run(&mut self) -> Option<WholeRun> {
        self.started.get_or_insert_with(Instant::now);
        None
    }

    fn next(&mut self) -> Step {
        if self.elapsed() < self.time {
            return Step::Watch(LOOK.min(self.time - self.elapsed()));
        }
        self.has_ended_program = true;
        Step::Stop
    }

    fn ended(&mut self, _outcome: Option<Outcome>) {}

    fn finish(&mut self, _conditions: &Conditions, _start: Start, _rows: &mut Builder) -> Vec<Note> {
        Vec::new()
    }
}
