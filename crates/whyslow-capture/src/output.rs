//! The file of a new profile. It never destroys an older profile, nor a file that is not a profile.
//!
//! A profile whose name whyslow chooses gets a number that it keeps for ever, `app.3.whyslow`, and `app.whyslow`
//! is a second name of the latest one. A profile whose name the user chose has that name; an older one of that
//! name gets the next free number.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use whyslow_profile::file::is_profile;

use crate::RecordError;

/// Who chose the name of a profile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    /// The user: the profile has exactly this name.
    #[default]
    Given,
    /// whyslow: the profile has the next free number, and this name is that of the latest one.
    Numbered,
}

/// The file of a new profile, under a temporary name until there is something in it.
#[derive(Debug)]
pub struct NewProfile {
    path: PathBuf,
    names: Names,
    temporary: PathBuf,
    kept: bool,
}

/// Where a profile and its predecessor are.
#[derive(Debug, PartialEq, Eq)]
pub struct Kept {
    /// The name that means this profile from now on.
    pub path: PathBuf,
    /// The new name of an older profile that had the name before.
    pub moved_aside: Option<PathBuf>,
}

impl NewProfile {
    /// Creates the temporary file in the folder of the final one.
    pub fn create(path: &Path, names: Names) -> Result<(Self, File), RecordError> {
        let failed = |error| RecordError::Output { path: path.to_owned(), error };
        if let Ok(mut old) = File::open(path) {
            let mut start = [0; 16];
            let is_file = old.metadata().map_err(failed)?.is_file();
            let read = if is_file { old.read(&mut start).map_err(failed)? } else { 0 };
            if !is_file || (read > 0 && !is_profile(&start[..read])) {
                let reason = "it exists and is not a whyslow profile; choose another name with -o";
                return Err(failed(io::Error::new(io::ErrorKind::AlreadyExists, reason)));
            }
        } else if path.exists() {
            let reason = "it exists and may not be read; choose another name with -o";
            return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, reason)));
        }
        let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::IsADirectory.into()))?;
        let temporary = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
        // Another user's link of that name must not lead anywhere.
        let _ = fs::remove_file(&temporary);
        let file = File::options().write(true).create_new(true).open(&temporary).map_err(failed)?;
        Ok((Self { path: path.to_owned(), names, temporary, kept: false }, file))
    }

    /// Where to write before [`keep`](Self::keep).
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Gives the file its final names. An older profile of that name keeps its number, or gets one.
    pub fn keep(mut self) -> Result<Kept, RecordError> {
        let failed = |error| RecordError::Output { path: self.path.clone(), error };
        let moved_aside = match fs::symlink_metadata(&self.path) {
            Ok(_) if numbered_name(&self.path).is_some() => None,
            Ok(_) => Some(move_aside(&self.path).map_err(failed)?),
            Err(_) => None,
        };
        let numbered = match self.names {
            // Not every file system has hard links. Then the profile has one name, and gets its number later.
            Names::Numbered => link_to_free_number(&self.temporary, &self.path).ok(),
            Names::Given => None,
        };
        fs::rename(&self.temporary, &self.path).map_err(failed)?;
        self.kept = true;
        Ok(Kept { path: numbered.unwrap_or_else(|| self.path.clone()), moved_aside })
    }
}

impl Drop for NewProfile {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: nothing was recorded.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// The numbered name of the file that `app.whyslow` is another name of: `app.3.whyslow`.
pub fn numbered_name(latest: &Path) -> Option<PathBuf> {
    let file = fs::metadata(latest).ok().filter(|file| file.nlink() > 1)?;
    let is_same = |other: &PathBuf| {
        fs::metadata(other).is_ok_and(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
    };
    numbers(latest).into_iter().map(|number| with_number(latest, number)).find(is_same)
}

/// Gives an existing profile the next free number.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    if let Ok(numbered) = link_to_free_number(path, path) {
        // The rename that follows removes the old name.
        return Ok(numbered);
    }
    let number = numbers(path).into_iter().max().unwrap_or(0).saturating_add(1);
    let numbered = with_number(path, number);
    fs::rename(path, &numbered)?;
    Ok(numbered)
}

/// Adds the name with the next free number to a file, and returns it. Never replaces a file, even if another
/// recorder takes a number at the same time.
fn link_to_free_number(file: &Path, latest: &Path) -> io::Result<PathBuf> {
    let mut number = numbers(latest).into_iter().max().unwrap_or(0);
    loop {
        number = number.checked_add(1).ok_or(io::ErrorKind::AlreadyExists)?;
        let numbered = with_number(latest, number);
        match fs::hard_link(file, &numbered) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => return linked.map(|()| numbered),
        }
    }
}

/// The numbers of `app.1.whyslow`, `app.2.whyslow` … next to `app.whyslow`.
fn numbers(latest: &Path) -> Vec<u32> {
    let folder = latest.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries.filter_map(|entry| number_of(&entry.file_name(), latest)).collect();
    numbers.sort_unstable();
    numbers
}

fn number_of(name: &OsStr, latest: &Path) -> Option<u32> {
    let path = Path::new(name);
    let stem = if latest.extension().is_some() { path.file_stem()? } else { name };
    let number = Path::new(stem).extension()?.to_str()?.parse().ok()?;
    (with_number(latest, number).file_name() == Some(name)).then_some(number)
}

/// `app.3.whyslow` for `app.whyslow`.
fn with_number(path: &Path, number: u32) -> PathBuf {
    let mut name: OsString = path.file_stem().unwrap_or_default().to_os_string();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A profile with this text, kept under the path.
    fn keep(path: &Path, names: Names, text: &str) -> Kept {
        let (new, _) = NewProfile::create(path, names).unwrap();
        fs::write(new.temporary(), format!("whyslow\n{text}")).unwrap();
        new.keep().unwrap()
    }

    fn files(folder: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mut files: Vec<(String, String)> = entries
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), text.replace("whyslow\n", ""))
            })
            .collect();
        files.sort();
        files
    }

    fn pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
        files.iter().map(|&(name, text)| (name.to_owned(), text.to_owned())).collect()
    }

    #[test]
    fn every_recording_keeps_its_number_and_the_plain_name_is_the_latest() {
        let folder = tempfile::tempdir().unwrap();
        let latest = folder.path().join("app.whyslow");
        for (number, text) in [(1, "first"), (2, "second"), (3, "third")] {
            let kept = keep(&latest, Names::Numbered, text);
            assert_eq!(kept.path, with_number(&latest, number));
            assert_eq!(kept.moved_aside, None);
        }
        let all = [
            ("app.1.whyslow", "first"),
            ("app.2.whyslow", "second"),
            ("app.3.whyslow", "third"),
            ("app.whyslow", "third"),
        ];
        assert_eq!(files(folder.path()), pairs(&all));
        assert_eq!(numbered_name(&latest), Some(with_number(&latest, 3)));
    }

    #[test]
    fn a_number_is_never_used_again_while_a_later_one_exists() {
        let folder = tempfile::tempdir().unwrap();
        let latest = folder.path().join("app.whyslow");
        keep(&latest, Names::Numbered, "first");
        keep(&latest, Names::Numbered, "second");
        fs::remove_file(folder.path().join("app.1.whyslow")).unwrap();
        assert_eq!(keep(&latest, Names::Numbered, "third").path, with_number(&latest, 3));
    }

    #[test]
    fn an_older_profile_of_a_given_name_gets_a_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.whyslow");
        for (text, moved) in [("first", None), ("second", Some(1)), ("third", Some(2))] {
            let kept = keep(&path, Names::Given, text);
            assert_eq!(
                kept,
                Kept { path: path.clone(), moved_aside: moved.map(|it| with_number(&path, it)) }
            );
        }
        let all = [("run.1.whyslow", "first"), ("run.2.whyslow", "second"), ("run.whyslow", "third")];
        assert_eq!(files(folder.path()), pairs(&all));
    }

    #[test]
    fn a_profile_without_a_number_gets_one_before_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let latest = folder.path().join("app.whyslow");
        fs::write(&latest, "whyslow\nold").unwrap();
        let kept = keep(&latest, Names::Numbered, "new");
        assert_eq!(kept.moved_aside, Some(with_number(&latest, 1)));
        let all = [("app.1.whyslow", "old"), ("app.2.whyslow", "new"), ("app.whyslow", "new")];
        assert_eq!(files(folder.path()), pairs(&all));
    }

    #[test]
    fn other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("main.rs");
        fs::write(&source, b"fn main() {}").unwrap();
        assert!(NewProfile::create(&source, Names::Given).is_err());
        assert_eq!(fs::read(&source).unwrap(), b"fn main() {}");
        // Names that only look like numbers of this program.
        let latest = folder.path().join("app.whyslow");
        for other in ["app.01.whyslow", "app.x.whyslow", "app.7.txt", "happ.9.whyslow", "app.heap.8.whyslow"]
        {
            assert_eq!(number_of(OsStr::new(other), &latest), None, "{other}");
        }
        assert_eq!(number_of(OsStr::new("app.7.whyslow"), &latest), Some(7));
    }

    #[test]
    fn a_recording_that_never_started_leaves_everything_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.whyslow");
        drop(NewProfile::create(&path, Names::Numbered).unwrap());
        assert_eq!(files(folder.path()), []);
        fs::write(&path, "whyslow\nold").unwrap();
        drop(NewProfile::create(&path, Names::Numbered).unwrap());
        assert_eq!(files(folder.path()), pairs(&[("run.whyslow", "old")]));
    }
}
