//! Saved results: kept with a copy of the program, so that it can run again next to a new one.

use std::fs;
use std::path::{Path, PathBuf};

use whyslow_bench::document::{Measured, MeasuredCommand};
use whyslow_bench::foreign::read_any;
use whyslow_bench::{BenchNote, Contender};
use whyslow_profile::Host;

use crate::failure::{Failure, Result};
use crate::output::Output;
use crate::series::Runnable;

/// Where results are saved.
pub(super) struct Place {
    pub(super) path: PathBuf,
}

impl Place {
    /// A name is a file in `target/whyslow/bench` of a cargo package, else in `.whyslow/bench`. A name with a
    /// slash or the ending `.json` is a path.
    pub(super) fn of(name: &str) -> Result<Self> {
        if name.contains('/') || name.ends_with(".json") {
            return Ok(Self { path: name.into() });
        }
        if name.is_empty() || name.starts_with('.') {
            return Err(Failure::new(format!("`{name}` cannot be the name of results")).next("--save before"));
        }
        let here = std::env::current_dir().unwrap_or_default();
        let package = here.ancestors().find(|folder| folder.join("Cargo.toml").is_file());
        let folder = package
            .map_or_else(|| here.join(".whyslow/bench"), |package| package.join("target/whyslow/bench"));
        Ok(Self { path: folder.join(format!("{name}.json")) })
    }

    /// Saves the results and a copy of each program.
    pub(super) fn save(&self, mut measured: Measured, runnables: &[Runnable]) -> Result {
        let cannot = |path: &Path, error: std::io::Error| {
            Failure::new(format!("{}: cannot be written: {error}", path.display()))
        };
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).map_err(|error| cannot(folder, error))?;
        }
        let programs = self.path.with_extension("programs");
        // The programs of the old results are no longer needed.
        let _ = fs::remove_dir_all(&programs);
        for (at, (command, runnable)) in measured.commands.iter_mut().zip(runnables).enumerate() {
            command.kept_program = None;
            let Some(file) = runnable.command().file().filter(|file| is_program(file)) else { continue };
            let Some(name) = file.file_name() else { continue };
            let folder = programs.join(at.to_string());
            fs::create_dir_all(&folder).map_err(|error| cannot(&folder, error))?;
            let copy = folder.join(name);
            fs::copy(&file, &copy).map_err(|error| cannot(&copy, error))?;
            command.kept_program = Some(format!("{at}/{}", name.to_string_lossy()));
        }
        let text =
            serde_json::to_string(&measured).map_err(|error| Failure::new(format!("bench: {error}")))?;
        Output::File(self.path.clone()).write(|out| out.write_all(text.as_bytes()))
    }
}

/// Scripts may need the files next to them; ELF programs mostly do not.
fn is_program(file: &Path) -> bool {
    let mut start = [0; 4];
    fs::File::open(file).and_then(|mut file| std::io::Read::read_exact(&mut file, &mut start)).is_ok()
        && start == *b"\x7fELF"
}

/// Saved results.
pub(super) struct Baseline {
    name: String,
    programs: PathBuf,
    measured: Measured,
    pub(super) notes: Vec<BenchNote>,
    is_repeated: bool,
}

/// The index of the results of a command among several: those of the same command, or of its name.
fn chosen(commands: &[MeasuredCommand], wanted: &[String], names: &[String]) -> Option<usize> {
    if commands.len() == 1 {
        return Some(0);
    }
    let wanted = names.iter().chain(wanted).collect::<Vec<_>>();
    let is_wanted = |known: &String| wanted.contains(&known);
    let mut found = commands
        .iter()
        .enumerate()
        .filter(|(_, command)| is_wanted(&command.contender.command) || is_wanted(&command.contender.name));
    found.next().map(|(at, _)| at).filter(|_| found.next().is_none())
}

/// Reads saved results: those of the command that is measured now.
pub(super) fn read(name: &str, commands: &[String], names: &[String]) -> Result<Baseline> {
    let Place { path } = Place::of(name)?;
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(Failure::new(format!("{}: no results are saved under this name", path.display()))
                .next(format!("whyslow bench --save {name} 'COMMAND'")));
        }
        Err(error) => return Err(Failure::new(format!("{}: {error}", path.display()))),
    };
    let mut measured = read_any(&text).map_err(|error| {
        Failure::new(format!("{}: {error}", path.display()))
            .next("a newer whyslow, or saving the results again")
    })?;
    if measured.commands.is_empty() {
        return Err(Failure::new(format!("{}: it has no command", path.display())));
    }
    match chosen(&measured.commands, commands, names) {
        Some(at) => measured.commands = vec![measured.commands.swap_remove(at)],
        None => {
            let known = measured
                .commands
                .iter()
                .map(|command| format!("`{}`", command.contender.name))
                .collect::<Vec<_>>();
            return Err(Failure::new(format!(
                "{}: it has results of {} commands: {}",
                path.display(),
                known.len(),
                known.join(", ")
            ))
            .next("-n with the name of one of them"));
        }
    }
    let mut baseline = Baseline {
        name: name.to_owned(),
        programs: path.with_extension("programs"),
        measured,
        notes: Vec::new(),
        is_repeated: false,
    };
    let here = whyslow_capture::this_host();
    if baseline.is_from_another_machine(&here) {
        let cpu = baseline.measured.host.cpu.clone();
        baseline.notes.push(BenchNote::AnotherMachine { baseline: name.to_owned(), cpu });
    }
    match baseline.repeatable() {
        Ok(()) => baseline.is_repeated = true,
        Err(why) => baseline.notes.push(BenchNote::AnotherDay { baseline: name.to_owned(), why }),
    }
    Ok(baseline)
}

impl Baseline {
    fn first(&self) -> &MeasuredCommand {
        &self.measured.commands[0]
    }

    /// Whether its program can run again.
    fn repeatable(&self) -> std::result::Result<(), String> {
        let command = self.first();
        let Some(kept) = &command.kept_program else {
            return Err("they were saved without a copy of the program".to_owned());
        };
        // A file from elsewhere may name any path.
        let is_inside =
            Path::new(kept).components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside || command.words.is_empty() || !self.programs.join(kept).is_file() {
            return Err("the copy of the program is missing".to_owned());
        }
        Ok(())
    }

    /// The saved program with its old arguments, to run next to a new command.
    pub(super) fn kept(&self, new: &Runnable) -> Option<Runnable> {
        let kept = self.first().kept_program.as_ref().filter(|_| self.is_repeated)?;
        let mut words = self.first().words.clone();
        words[0] = self.programs.join(kept).to_string_lossy().into_owned();
        let contender = Contender {
            name: format!("{} (kept)", self.name),
            command: self.first().contender.command.clone(),
            parameters: Vec::new(),
        };
        Some(Runnable { contender, words, ..new.clone() })
    }

    /// The saved runs, if the program cannot run again.
    pub(super) fn saved_runs(&self) -> Option<MeasuredCommand> {
        (!self.is_repeated).then(|| {
            let mut command = self.first().clone();
            command.contender.name = self.name.clone();
            command
        })
    }

    /// How busy the machine was then. Files of other tools do not say.
    pub(super) fn surroundings(&self) -> &whyslow_bench::document::Surroundings {
        &self.measured.surroundings
    }

    /// Whether another machine measured them. Files of other tools do not say.
    pub(super) fn is_from_another_machine(&self, here: &Host) -> bool {
        let there = &self.measured.host;
        !there.cpu.is_empty() && (there.cpu != here.cpu || there.cpus != here.cpus)
    }
}
