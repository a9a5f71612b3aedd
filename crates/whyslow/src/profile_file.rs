//! Opens profiles: explains what a file is if it is not one, and adds missing symbols.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use whyslow_formats::import::{self, Format};
use whyslow_profile::file::{self, ReadError};
use whyslow_profile::{ModuleId, Profile, SymbolState};
use whyslow_symbols::{FileBytes, Summary};

use crate::failure::{Failure, Result, warn};
use crate::{importing, shell};

/// Opens a profile for a query command. A profile without symbols (its recorder was killed, or is a library)
/// gets them here, in memory. The recording of another tool is imported.
pub(crate) fn open(path: &Path) -> Result<Profile> {
    let mut profile = match file::read(path) {
        Err(ReadError::NotAProfile) if matches!(guess(path), Guess::Importable(_)) => {
            return Ok(importing::import(path, None, None)?.1.profile);
        }
        read => read.map_err(|error| explain(path, error))?,
    };
    if !profile.sealed {
        warn(&format!(
            "{}: incomplete: its recorder was stopped early; the results cover the samples saved before that",
            path.display()
        ));
    }
    if !profile.sealed || lacks_symbols(&profile) {
        symbolize(&mut profile, true, true, Vec::new());
    }
    profile.add_wall_time();
    Ok(profile)
}

/// A program that profiles itself does not symbolise.
fn lacks_symbols(profile: &Profile) -> bool {
    profile.frames.is_empty() && profile.modules.iter().any(|module| module.symbols == SymbolState::NotLoaded)
}

/// Reads a profile without changing it.
pub(crate) fn read(path: &Path) -> Result<Profile> {
    file::read(path).map_err(|error| explain(path, error))
}

/// Adds names and lines, and unless it is not wanted, source text and machine code. `files` are the modules that
/// the recorder still has open.
pub(crate) fn symbolize(
    profile: &mut Profile,
    use_cache: bool,
    with_source: bool,
    files: Vec<(ModuleId, FileBytes)>,
) -> Summary {
    let options = whyslow_symbols::Options { files, ..symbol_options(use_cache, with_source) };
    whyslow_symbols::symbolize(profile, &options)
}

/// How to add them.
pub(crate) fn symbol_options(use_cache: bool, with_source: bool) -> whyslow_symbols::Options {
    let (keep_sources, keep_code) = (with_source, with_source);
    let options = whyslow_symbols::Options { keep_sources, keep_code, ..Default::default() };
    if use_cache { options } else { whyslow_symbols::Options { cache: None, ..options } }
}

fn explain(path: &Path, error: ReadError) -> Failure {
    let name = path.display();
    match error {
        ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            let failure = Failure::new(format!("{name}: no such file"));
            match profiles_next_to(path).as_slice() {
                [] => failure.next("whyslow ./app, to record a program first"),
                found => failure.next(format!("a profile in that folder: {}", found.join(", "))),
            }
        }
        ReadError::Io(error) if error.kind() == io::ErrorKind::IsADirectory => {
            Failure::new(format!("{name}: this is a folder, not a profile")).next("a .whyslow file in it")
        }
        ReadError::Io(error) => {
            Failure::new(format!("{name}: cannot be read: {error}")).next("a file that you may read")
        }
        ReadError::NotAProfile => {
            let guess = guess(path);
            Failure::new(format!("{name}: not a whyslow profile{}", guess.what())).next(guess.next(path))
        }
        ReadError::Newer { .. } => Failure::new(format!("{name}: {error}")).next("a newer whyslow"),
        ReadError::CutOff { .. } => {
            Failure::new(format!("{name}: {error}")).next("copying the file again, or recording again")
        }
        ReadError::Empty => Failure::new(format!("{name}: {error}")).next("recording again, for longer"),
        ReadError::Damaged { .. } => {
            Failure::new(format!("{name}: {error}")).next("another copy of the file, or recording again")
        }
    }
}

/// Up to three profiles in the folder of a missing one.
fn profiles_next_to(path: &Path) -> Vec<String> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut found = files
        .filter(|file| file.extension().is_some_and(|extension| extension == file::EXTENSION))
        .map(|file| file.strip_prefix(".").unwrap_or(&file).display().to_string())
        .collect::<Vec<_>>();
    found.sort();
    found.truncate(3);
    found
}

/// Whether a file starts like a whyslow profile.
pub(crate) fn is_profile(path: &Path) -> bool {
    let mut start = Vec::new();
    File::open(path).and_then(|file| file.take(16).read_to_end(&mut start)).is_ok()
        && file::is_profile(&start)
}

/// What a file that is not a profile probably is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    Empty,
    Program,
    Importable(Format),
    Gzip,
    Json,
    Picture,
    Other,
}

fn guess(path: &Path) -> Guess {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(import::GUESS_BYTES as u64).read_to_end(&mut start)) {
        Ok(_) => guess_from(&start),
        Err(_) => Guess::Other,
    }
}

fn guess_from(start: &[u8]) -> Guess {
    let text = start.trim_ascii_start();
    match start {
        [] => Guess::Empty,
        _ if start.starts_with(b"\x7fELF") => Guess::Program,
        _ if text.starts_with(b"<svg") || text.starts_with(b"<?xml") => Guess::Picture,
        _ => match import::guess(start) {
            Some(format) => Guess::Importable(format),
            None if start.starts_with(&[0x1f, 0x8b]) => Guess::Gzip,
            None if is_json(text) => Guess::Json,
            None => Guess::Other,
        },
    }
}

fn is_json(text: &[u8]) -> bool {
    match text.split_first() {
        Some((b'{', _)) => true,
        // A heading such as `[package]` also starts with a bracket.
        Some((b'[', rest)) => rest.trim_ascii_start().first().is_some_and(|byte| b"{[\"]".contains(byte)),
        _ => false,
    }
}

impl Guess {
    fn what(self) -> String {
        match self {
            Self::Empty => ": it is empty".to_owned(),
            Self::Program => ": it is a program or a library".to_owned(),
            Self::Importable(format) => format!(": it looks like {format}"),
            Self::Gzip => ": it is a gzip file".to_owned(),
            Self::Json => ": it is JSON".to_owned(),
            Self::Picture => ": it is an image".to_owned(),
            Self::Other => String::new(),
        }
    }

    fn next(self, path: &Path) -> String {
        match self {
            Self::Program if path.components().count() == 1 => {
                format!("whyslow {}, to record it", shell::file(&Path::new(".").join(path)))
            }
            Self::Program => format!("whyslow {}, to record it", shell::file(path)),
            Self::Importable(_) => format!("whyslow import {}", shell::file(path)),
            Self::Gzip | Self::Json => {
                "`whyslow import --help` for the formats that whyslow imports".to_owned()
            }
            Self::Empty | Self::Picture | Self::Other => {
                "a .whyslow file; `whyslow ./app` writes app.whyslow".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_recognised() {
        assert_eq!(guess_from(b""), Guess::Empty);
        assert_eq!(guess_from(b"\x7fELF\x02"), Guess::Program);
        assert_eq!(guess_from(b"{\"dhatFileVersion\":2}"), Guess::Importable(Format::Dhat));
        assert_eq!(guess_from(&[0x1f, 0x8b, 8]), Guess::Gzip);
        assert_eq!(guess_from(b"\n {\"meta\":"), Guess::Json);
        assert_eq!(guess_from(b"[ {"), Guess::Json);
        assert_eq!(guess_from(b"[package]"), Guess::Other);
        assert_eq!(guess_from(b"<svg xmlns="), Guess::Picture);
        assert_eq!(guess_from(b"hello"), Guess::Other);
    }

    #[test]
    fn suggests_running_a_program() {
        assert_eq!(Guess::Program.next(Path::new("app")), "whyslow ./app, to record it");
        assert_eq!(Guess::Program.next(Path::new("bin/app")), "whyslow bin/app, to record it");
    }
}
