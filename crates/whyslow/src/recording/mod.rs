//! From a target to a sealed profile; shared by every command that records.

mod answered;
mod options;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use whyslow_analyze::remark_of;
use whyslow_answers::views;
use whyslow_capture::{
    Kept, Names, NewProfile, NotRecorded, Options, RecordError, Recording, Target, record,
};
use whyslow_heap::leaks::suppressions::Suppressions;
use whyslow_profile::file::{self, EXTENSION, Writer};
use whyslow_profile::{ExitStatus, Note, Profile, Sampling};
use whyslow_symbols::Summary;
use whyslow_words::{Remark, nearest};

pub(crate) use self::answered::{record_and_answer, warn_about_missing_events};
pub(crate) use self::options::{
    AnswerOptions, Keep, KeepOptions, RecordOptions, Shown, check_frequency, every_allocation,
};
use crate::cli::{Volume, command_names};
use crate::exit::Exit;
use crate::failure::{Failure, Result, warn};
use crate::output::{Output, note};
use crate::{pictures, profile_file, shell, suppress};

/// A recorded profile, on disk and in memory.
pub(crate) struct Recorded {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Its content.
    pub(crate) profile: Profile,
    /// How the program exited; `None` if it still runs.
    pub(crate) exit: Option<ExitStatus>,
    /// Why the file could not be written completely, if so.
    trouble: Option<Failure>,
}

/// Records a target to the end and writes a sealed profile. Checks everything that can be checked before the
/// program starts. Leaks that match a suppression are not reported.
pub(crate) fn run(
    target: &Target,
    name: &OsStr,
    how: Options,
    keep: &Keep,
    volume: Volume,
    suppressions: &Suppressions,
) -> Result<Recorded> {
    let (path, names) = checked_path(name, keep)?;
    let kernel = how.cpu && !how.user_only && !keep.no_symbol_cache;
    let background = kernel.then_some(whyslow_symbols::cache_kernel_names as fn());
    let how = Options { duration: keep.duration, names, background, ..how };
    let recording = record(target, &how, &path).map_err(explain)?;
    finish(recording, keep, volume, suppressions)
}

/// Records without keeping the profile.
pub(crate) fn run_unkept(target: &Target, how: Options, volume: Volume) -> Result<Recorded> {
    let folder = tempfile::tempdir().map_err(|error| {
        Failure::new(format!("no temporary folder: {error}")).next("TMPDIR=FOLDER whyslow …")
    })?;
    let keep = Keep {
        output: Some(folder.path().join("unkept").with_extension(EXTENSION)),
        flame: None,
        open: false,
        duration: None,
        no_symbol_cache: false,
        no_source: true,
    };
    run(target, OsStr::new("unkept"), how, &keep, volume, &Suppressions::default())
}

/// The same, and runs the program again as long as `again` wants it to. Only the last recording is kept.
pub(crate) fn run_several(
    target: &Target,
    name: &OsStr,
    how: Options,
    keep: &Keep,
    volume: Volume,
    mut again: impl FnMut(&Recording) -> bool,
) -> Result<Recorded> {
    let (path, names) = checked_path(name, keep)?;
    let (new, _) = NewProfile::create(&path, names).map_err(explain)?;
    let kernel = how.cpu && !how.user_only && !keep.no_symbol_cache;
    let background = kernel.then_some(whyslow_symbols::cache_kernel_names as fn());
    let mut how = Options { duration: keep.duration, background, ..how };
    let mut recording = loop {
        // The recording of an earlier run would be moved aside.
        let _ = std::fs::remove_file(new.temporary());
        let recording = record(target, &how, new.temporary()).map_err(explain)?;
        if !again(&recording) {
            break recording;
        }
        how.background = None;
    };
    let Kept { path, moved_aside } = new.keep().map_err(explain)?;
    (recording.path, recording.moved_aside) = (path, moved_aside);
    finish(recording, keep, volume, &Suppressions::default())
}

/// The path of the profile, and who chose it. Fails early if the flame graph cannot be written.
fn checked_path(name: &OsStr, keep: &Keep) -> Result<(PathBuf, Names)> {
    if let Some(picture) = keep.picture(Path::new("")) {
        picture.check()?;
    }
    if let Some((_, file)) = keep.other_kind() {
        Output::from(file.to_owned()).check()?;
    }
    Ok(output_path(name, keep))
}

/// Adds symbols to a profile that another recorder took, and writes it.
pub(crate) fn adopt(
    mut profile: Profile,
    name: &OsStr,
    keep: &Keep,
    volume: Volume,
    suppressions: &Suppressions,
) -> Result<Recorded> {
    let (path, names) = checked_path(name, keep)?;
    let (new, _) = NewProfile::create(&path, names).map_err(explain)?;
    let started = Instant::now();
    let symbols = profile_file::symbolize(&mut profile, !keep.no_symbol_cache, !keep.no_source, Vec::new());
    if volume == Volume::Verbose {
        note(&describe(&profile, &symbols, started.elapsed()));
    }
    suppress::leaks(&mut profile, suppressions);
    store(new, path, profile, volume)
}

/// Writes the profile of a program that has ended, with its symbols.
pub(crate) fn adopt_named(profile: Profile, name: &OsStr, keep: &Keep, volume: Volume) -> Result<Recorded> {
    let (path, names) = checked_path(name, keep)?;
    let (new, _) = NewProfile::create(&path, names).map_err(explain)?;
    let exit = profile.meta.exit;
    Ok(Recorded { exit, ..store(new, path, profile, volume)? })
}

fn store(new: NewProfile, path: PathBuf, mut profile: Profile, volume: Volume) -> Result<Recorded> {
    profile.sealed = true;
    Ok(match write(new, &path, &profile, volume) {
        Ok(path) => Recorded { path, profile, exit: None, trouble: None },
        Err(failure) => Recorded { path, profile, exit: None, trouble: Some(failure) },
    })
}

/// Writes a profile into its new file, and returns the name that it keeps.
pub(crate) fn write(new: NewProfile, path: &Path, profile: &Profile, volume: Volume) -> Result<PathBuf> {
    let cannot_write = |error| explain(RecordError::Output { path: path.to_owned(), error });
    file::write(new.temporary(), profile).map_err(cannot_write)?;
    let Kept { path: kept, moved_aside } = new.keep().map_err(explain)?;
    report_moved_profile(path, moved_aside, volume);
    Ok(kept)
}

fn report_moved_profile(path: &Path, moved_aside: Option<PathBuf>, volume: Volume) {
    if let Some(old) = moved_aside.filter(|_| volume > Volume::Quiet) {
        note(&format!("whyslow: the earlier {} is now {}\n", path.display(), old.display()));
    }
}

/// Reads the recording back, adds symbols and seals it.
fn finish(
    recording: Recording,
    options: &Keep,
    volume: Volume,
    suppressions: &Suppressions,
) -> Result<Recorded> {
    let Recording { path, writer, exit, files, write_error, moved_aside, .. } = recording;
    report_moved_profile(&path, moved_aside, volume);
    let cannot_write = |error: io::Error| {
        Failure::new(format!(
            "{}: cannot be written: {error}; the file holds what was recorded before",
            path.display()
        ))
        .next("-o with a file on a disk that has space")
    };
    let (mut profile, write_error) = match (profile_file::read(&path), write_error) {
        (Ok(profile), error) => (profile, error),
        // The cause is the full disk, not that the file is short.
        (Err(_), Some(error)) => return Err(cannot_write(error)),
        (Err(failure), None) => return Err(failure),
    };
    let started = Instant::now();
    let symbols = profile_file::symbolize(&mut profile, !options.no_symbol_cache, !options.no_source, files);
    if volume == Volume::Verbose {
        note(&describe(&profile, &symbols, started.elapsed()));
    }
    // Suppressions match names.
    let suppressed = suppress::leaks(&mut profile, suppressions);
    let written = match write_error {
        Some(error) => Err(error),
        None => write_symbols(writer, &profile, suppressed),
    };
    let trouble = written.err().map(cannot_write);
    // The answer is about the profile in memory; the error at the end is about the file.
    profile.sealed = true;
    Ok(Recorded { path, profile, exit, trouble })
}

/// Appends symbols and suppressed leaks.
fn write_symbols(mut writer: Writer, profile: &Profile, suppressed: bool) -> io::Result<()> {
    if suppressed {
        writer.replace_heap_sites(&profile.heap)?;
    }
    writer.append_symbols(profile)?;
    writer.seal()
}

/// What recording and symbols cost, for `-v`.
fn describe(profile: &Profile, symbols: &Summary, took: Duration) -> String {
    let counters = &profile.meta.counters;
    let mut text = format!(
        "whyslow: sampled: {}\n\
         whyslow: recorder: {:.3} s of CPU time, {} MB of memory\n\
         whyslow: stacks: {} complete as copied, {} joined, {} read from the live program, {} truncated, {} cut at a signal, \
         {} without unwind information\n\
         whyslow: symbols: {} addresses with a symbol ({} from the cache), {} without, in {:.3} s\n",
        match profile.meta.sampling {
            Sampling::Cpus => "each CPU, keeping the samples of the target",
            Sampling::Threads => "each thread: sampling whole CPUs is not permitted",
            Sampling::Timers => "each thread with its own timer, in the program",
            Sampling::Ptrace => "each running thread with ptrace, which stops it briefly",
            Sampling::Unknown => "not at all",
        },
        counters.recorder_cpu_ns as f64 / 1e9,
        counters.recorder_max_resident_bytes / 1_000_000,
        counters.complete_in_dump,
        counters.completed_by_join,
        counters.completed_by_read,
        counters.truncated,
        counters.cut_at_signal,
        counters.no_unwind_info,
        symbols.resolved,
        symbols.from_cache,
        symbols.unresolved,
        took.as_secs_f64(),
    );
    for (module, problem) in &symbols.problems {
        text += &format!("whyslow: symbols: {module}: {problem}\n");
    }
    for source in &symbols.newer_sources {
        text += &format!(
            "whyslow: source: {source}: changed after the program was built; its lines may have moved\n"
        );
    }
    text
}

impl Recorded {
    /// The file with the complete profile, unless it could not be written.
    pub(crate) fn saved(&self) -> Option<&Path> {
        self.trouble.is_none().then_some(&self.path)
    }

    /// Draws the flame graph if one was requested, and writes `-o` if that is no profile.
    pub(crate) fn draw(&self, options: &Keep, volume: Volume) -> Result {
        if let (Some((kind, file)), None) = (options.other_kind(), &self.trouble) {
            kind.write(&self.path, file, volume)?;
        }
        let Some(picture) = options.picture(&self.path) else { return Ok(()) };
        pictures::draw(&self.profile, &picture, options.open, volume)
    }

    /// The exit code: the program's own, unless the profile could not be written.
    pub(crate) fn exit(self) -> Result<Exit> {
        match self.trouble {
            Some(failure) => Err(failure),
            None => Ok(self.exit.map_or(Exit::Success, Exit::from)),
        }
    }
}

/// `-o`, or NAME.whyslow here, or in the temporary folder if this folder is not writable.
fn output_path(name: &OsStr, options: &Keep) -> (PathBuf, Names) {
    if let (Some(path), None) = (&options.output, options.other_kind()) {
        return (path.clone(), Names::Given);
    }
    let mut file = name.to_owned();
    file.push(".");
    file.push(EXTENSION);
    let here = PathBuf::from(&file);
    let path = match tempfile::Builder::new().prefix(".whyslow-").tempfile_in(".") {
        Ok(_) => here,
        Err(_) => {
            let there = std::env::temp_dir().join(file);
            warn(&format!(
                "this folder is not writable; the profile goes to {}; try: -o FILE to choose another place",
                there.display()
            ));
            there
        }
    };
    (path, Names::Numbered)
}

/// The name of a program's profile: its file name.
pub(crate) fn name_of(program: &OsStr) -> &OsStr {
    Path::new(program).file_name().unwrap_or(OsStr::new("whyslow"))
}

/// Explains why a recording failed.
pub(crate) fn explain(error: RecordError) -> Failure {
    let failure = Failure::new(error.to_string());
    match &error {
        RecordError::NotFound { program } => match similar_command(program) {
            _ if views::named(program).is_some() => {
                Failure::new(format!("there is no program `{program}`; it is a view of a recording"))
                    .next(format!("whyslow report FILE {program}"))
            }
            _ if program == "help" => Failure::new("there is no program or command `help`")
                .next("whyslow --help, or whyslow COMMAND --help"),
            Some(command) => Failure::new(format!("there is no program or command `{program}`"))
                .next(format!("whyslow {command} --help; did you mean `{command}`?")),
            None if !program.contains('/') && Path::new(program).exists() => failure.next(format!(
                "whyslow {}; a program in this folder needs its path",
                shell::quoted(&format!("./{program}"))
            )),
            None => failure.next("the path of a program, such as ./target/release/app"),
        }
        .exit_with(Exit::NotFound),
        RecordError::NotExecutable { .. } => failure.exit_with(Exit::NotExecutable),
        // The message already says what to try.
        RecordError::Refused(_) => failure,
        RecordError::NoEvents(events) => {
            let remarks: Vec<Remark> =
                events.iter().map(|event| remark_of(&Note::Recording(event.note()))).collect();
            let failure = Failure::new(format!("-e: {}", none_of(events, &remarks)));
            match remarks.into_iter().find_map(|remark| remark.fix) {
                Some(fix) => failure.next(fix),
                None => failure,
            }
        }
        RecordError::Output { error, .. } if error.kind() == io::ErrorKind::AlreadyExists => failure,
        RecordError::Output { .. } => failure.next("-o with a file in a writable folder with free space"),
        RecordError::Input { .. } => failure.next("an existing file that you may read"),
        RecordError::System { .. } => failure.next("whyslow doctor"),
    }
}

/// Why no event is recorded. The reason is given once if it is the same for all.
fn none_of(events: &[NotRecorded], remarks: &[Remark]) -> String {
    const IS_NOT: &str = " is not recorded: ";
    let reasons: Vec<&str> =
        remarks.iter().filter_map(|remark| Some(remark.text.split_once(IS_NOT)?.1)).collect();
    match (events, &reasons[..]) {
        ([_, .., _], [first, others @ ..]) if others.iter().all(|other| other == first) => {
            let names: Vec<&str> = events.iter().map(|event| event.name.as_str()).collect();
            format!("{} are not recorded: {first}", names.join(", "))
        }
        _ => remarks.iter().map(|remark| remark.text.as_str()).collect::<Vec<_>>().join("; "),
    }
}

/// The command that a word probably misspells. Programs have short names too, so few letters may differ.
fn similar_command(word: &str) -> Option<String> {
    let name = nearest(word, command_names().into_iter()).into_iter().next()?;
    let close = word.chars().count().abs_diff(name.chars().count()) <= 1;
    close.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_command_names_are_recognised() {
        assert_eq!(similar_command("reprot").as_deref(), Some("report"));
        assert_eq!(similar_command("flames").as_deref(), Some("flame"));
        assert_eq!(similar_command("report").as_deref(), Some("report"));
        assert_eq!(similar_command("ripgrep"), None);
        assert_eq!(similar_command("some/where"), None);
    }

    #[test]
    fn a_profile_is_named_after_the_program() {
        assert_eq!(name_of(OsStr::new("target/release/app")), "app");
        assert_eq!(name_of(OsStr::new("ls")), "ls");
    }
}
