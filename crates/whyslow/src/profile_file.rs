//! Opening a profile: clear words when it is something else, symbols added when the recorder could not.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use whyslow_profile::Profile;
use whyslow_profile::file::{self, ReadError};
use whyslow_symbols::Summary;

use crate::failure::{Failure, Result, warn};

/// Opens a profile for a query command. One whose recorder was killed is symbolised here, in memory.
pub(crate) fn open(path: &Path) -> Result<Profile> {
    let mut profile = read(path)?;
    if !profile.sealed {
        warn(&format!(
            "{}: incomplete: its recorder was stopped before the end; this shows what was saved until then",
            path.display()
        ));
        symbolize(&mut profile, true);
    }
    Ok(profile)
}

/// Reads a profile as it is.
pub(crate) fn read(path: &Path) -> Result<Profile> {
    file::read(path).map_err(|error| explain(path, error))
}

/// Adds names and lines.
pub(crate) fn symbolize(profile: &mut Profile, use_cache: bool) -> Summary {
    let mut options = whyslow_symbols::Options::default();
    if !use_cache {
        options.cache = None;
    }
    whyslow_symbols::symbolize(profile, &options)
}

fn explain(path: &Path, error: ReadError) -> Failure {
    let name = path.display();
    match error {
        ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound => {
            let failure = Failure::new(format!("{name}: no such file"));
            match profiles_beside(path).as_slice() {
                [] => failure.next("record a program first: whyslow ./app"),
                found => failure.next(format!("a profile that is there: {}", found.join(", "))),
            }
        }
        ReadError::Io(error) if error.kind() == io::ErrorKind::IsADirectory => {
            Failure::new(format!("{name}: it is a folder, not a profile")).next("a .whyslow file in it")
        }
        ReadError::Io(error) => {
            Failure::new(format!("{name}: cannot be read: {error}")).next("a file that you may read")
        }
        ReadError::NotAProfile => {
            let guess = guess(path);
            Failure::new(format!("{name}: it is not a whyslow profile{}", guess.what()))
                .next(guess.next(path))
        }
        ReadError::Newer { .. } => Failure::new(format!("{name}: {error}")).next("a newer whyslow"),
        ReadError::CutOff { .. } => {
            Failure::new(format!("{name}: {error}")).next("copy or download the file again, or record again")
        }
        ReadError::Empty => {
            Failure::new(format!("{name}: {error}")).next("record again and let the program run longer")
        }
        ReadError::Damaged { .. } => {
            Failure::new(format!("{name}: {error}")).next("a copy of the file, or record again")
        }
    }
}

/// Up to three profiles in the folder where one was looked for.
fn profiles_beside(path: &Path) -> Vec<String> {
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

/// What a file that is not a profile seems to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Guess {
    Empty,
    Program,
    PerfData,
    Gzip,
    Json,
    Picture,
    Other,
}

fn guess(path: &Path) -> Guess {
    let mut start = Vec::new();
    match File::open(path).and_then(|file| file.take(256).read_to_end(&mut start)) {
        Ok(_) => guess_from(&start),
        Err(_) => Guess::Other,
    }
}

fn guess_from(start: &[u8]) -> Guess {
    let text = start.trim_ascii_start();
    match start {
        [] => Guess::Empty,
        _ if start.starts_with(b"\x7fELF") => Guess::Program,
        _ if start.starts_with(b"PERFILE2") => Guess::PerfData,
        [0x1f, 0x8b, ..] => Guess::Gzip,
        _ if is_json(text) => Guess::Json,
        _ if text.starts_with(b"<svg") || text.starts_with(b"<?xml") => Guess::Picture,
        _ => Guess::Other,
    }
}

fn is_json(text: &[u8]) -> bool {
    match text.split_first() {
        Some((b'{', _)) => true,
        // A heading such as `[package]` starts with a bracket, too.
        Some((b'[', rest)) => rest.trim_ascii_start().first().is_some_and(|byte| b"{[\"]".contains(byte)),
        _ => false,
    }
}

impl Guess {
    fn what(self) -> &'static str {
        match self {
            Self::Empty => ": it is empty",
            Self::Program => ": it is a program or a library",
            Self::PerfData => ": it is a recording of Linux perf",
            Self::Gzip => ": it is a gzip file, perhaps a profile of another tool",
            Self::Json => ": it is JSON, perhaps a profile of another tool",
            Self::Picture => ": it is a picture",
            Self::Other => "",
        }
    }

    fn next(self, path: &Path) -> String {
        match self {
            Self::Program if path.components().count() == 1 => {
                format!("record it: whyslow ./{}", path.display())
            }
            Self::Program => format!("record it: whyslow {}", path.display()),
            Self::PerfData | Self::Gzip | Self::Json => {
                "record with whyslow; this version does not read other tools' files".to_owned()
            }
            Self::Empty | Self::Picture | Self::Other => {
                "a .whyslow file; `whyslow ./app` makes app.whyslow".to_owned()
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
        assert_eq!(guess_from(b"PERFILE2...."), Guess::PerfData);
        assert_eq!(guess_from(&[0x1f, 0x8b, 8]), Guess::Gzip);
        assert_eq!(guess_from(b"\n {\"meta\":"), Guess::Json);
        assert_eq!(guess_from(b"[ {"), Guess::Json);
        assert_eq!(guess_from(b"[package]"), Guess::Other);
        assert_eq!(guess_from(b"<svg xmlns="), Guess::Picture);
        assert_eq!(guess_from(b"main;f 12"), Guess::Other);
    }

    #[test]
    fn a_program_should_be_run() {
        assert_eq!(Guess::Program.next(Path::new("app")), "record it: whyslow ./app");
        assert_eq!(Guess::Program.next(Path::new("bin/app")), "record it: whyslow bin/app");
    }
}
