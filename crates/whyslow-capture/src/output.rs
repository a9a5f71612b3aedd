//! The output file of a recording. It never overwrites part of an older profile, nor a file that is not a
//! profile.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use whyslow_profile::file::is_profile;

use crate::RecordError;

/// An output file under a temporary name until the program has really started.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    temporary: PathBuf,
    kept: bool,
}

impl Output {
    /// Creates the temporary file in the folder of the final one.
    pub(crate) fn create(path: &Path) -> Result<(Self, File), RecordError> {
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
        let file = File::create(&temporary).map_err(failed)?;
        Ok((Self { path: path.to_owned(), temporary, kept: false }, file))
    }

    /// Renames the file to its final name. An older profile is kept as `NAME.old.whyslow` for comparison.
    pub(crate) fn keep(mut self) -> Result<Option<PathBuf>, RecordError> {
        let failed = |error| RecordError::Output { path: self.path.clone(), error };
        let mut moved = None;
        if self.path.exists() {
            let mut old = self.path.file_stem().unwrap_or_default().to_os_string();
            old.push(".old");
            if let Some(extension) = self.path.extension() {
                old.push(".");
                old.push(extension);
            }
            let old = self.path.with_file_name(old);
            fs::rename(&self.path, &old).map_err(failed)?;
            moved = Some(old);
        }
        fs::rename(&self.temporary, &self.path).map_err(failed)?;
        self.kept = true;
        Ok(moved)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.kept {
            // Best effort: nothing was recorded.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_profile_is_moved_aside_and_other_files_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.whyslow");
        fs::write(&path, b"whyslow\nold").unwrap();
        let (output, _) = Output::create(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whyslow\nold", "untouched until the program runs");
        let moved = output.keep().unwrap().unwrap();
        assert_eq!(moved, folder.path().join("run.old.whyslow"));
        assert_eq!(fs::read(moved).unwrap(), b"whyslow\nold");

        let source = folder.path().join("main.rs");
        fs::write(&source, b"fn main() {}").unwrap();
        assert!(Output::create(&source).is_err());
        assert_eq!(fs::read(&source).unwrap(), b"fn main() {}");
    }

    #[test]
    fn a_recording_that_never_started_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        drop(Output::create(&folder.path().join("run.whyslow")).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
