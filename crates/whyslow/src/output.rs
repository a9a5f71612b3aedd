//! Where answers go: stdout, which may close early, and files, which are written completely or not at all.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result, harmless};

/// Prints an answer. A reader that stops early (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("stdout: cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints to stderr. If stderr is closed, nothing is printed.
pub(crate) fn note(text: &str) {
    let _ = anstream::stderr().lock().write_all(text.as_bytes());
}

/// Tells on stderr which of several functions a name was taken for.
pub(crate) fn note_others(query: &str, taken: &str, others: &[String]) {
    const MAX: usize = 3;
    if others.is_empty() {
        return;
    }
    let mut names: Vec<String> = others.iter().take(MAX).map(|name| format!("'{name}'")).collect();
    if others.len() > MAX {
        names.push(format!("{} more", others.len() - MAX));
    }
    let text = format!("note: this is '{taken}'; '{query}' could also be {}", names.join(", "));
    note(&format!("{}\n", harmless(&text)));
}

/// A file to write, or stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    /// `-`
    Stdout,
    /// A file.
    File(PathBuf),
}

impl From<PathBuf> for Output {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "-" { Self::Stdout } else { Self::File(path) }
    }
}

impl Output {
    /// Checks early that the file can be written, so that no recording is wasted.
    pub(crate) fn check(&self) -> Result {
        let Self::File(path) = self else { return Ok(()) };
        if is_precious(path) {
            return Err(Failure::new(format!(
                "{}: this is a program or a profile, and whyslow does not overwrite it",
                path.display()
            ))
            .next("another output file; put it before the command to run"));
        }
        if path.is_dir() {
            return Err(unwritable(path, "it is a folder"));
        }
        check_links(path)?;
        match Destination::of(path) {
            Destination::Special(_) => Ok(()),
            Destination::Regular { folder, .. } => {
                temporary_in(&folder).map(drop).map_err(|error| unwritable(path, error))
            }
        }
    }

    /// Writes all of the output, or nothing.
    pub(crate) fn write(&self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result {
        self.check()?;
        match self {
            Self::Stdout => {
                let mut stdout = io::BufWriter::new(io::stdout().lock());
                match write(&mut stdout).and_then(|()| stdout.flush()) {
                    Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                        Err(Failure::new(format!("stdout: cannot be written: {error}")))
                    }
                    _ => Ok(()),
                }
            }
            Self::File(path) => write_whole(path, write).map_err(|error| unwritable(path, error)),
        }
    }
}

/// Refuses a path through another user's symbolic link in a folder like /tmp: whoever made it chose the file
/// that would be replaced. The kernel refuses such links where `fs.protected_symlinks` is set.
pub(crate) fn check_links(path: &Path) -> Result {
    match path.ancestors().find(|part| is_trap(part)) {
        Some(link) => Err(Failure::new(format!(
            "{}: it is a link of another user in a folder that everyone may write to",
            link.display()
        ))
        .next("another output file, or the link's target by its own name")),
        None => Ok(()),
    }
}

fn is_trap(path: &Path) -> bool {
    let Ok(link) = fs::symlink_metadata(path) else { return false };
    if !link.is_symlink() {
        return false;
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(folder) = fs::metadata(parent) else { return false };
    is_foreign(link.uid(), folder.uid(), folder.mode(), whyslow_proc::user())
}

/// Whether neither the user nor the owner of a sticky folder for everyone made a link in it.
fn is_foreign(link_owner: u32, folder_owner: u32, folder_mode: u32, user: u32) -> bool {
    const STICKY_FOR_ALL: u32 = 0o1002;
    folder_mode & STICKY_FOR_ALL == STICKY_FOR_ALL && link_owner != user && link_owner != folder_owner
}

fn unwritable(path: &Path, why: impl std::fmt::Display) -> Failure {
    Failure::new(format!("{}: cannot be written: {why}", path.display()))
        .next("-o with a file in a writable folder with free space, or `-o -` for stdout")
}

/// What kind of file a path names.
enum Destination {
    /// A pipe, a terminal or /dev/null: written in place.
    Special(PathBuf),
    /// A file to replace. For a symbolic link, the link's target.
    Regular { folder: PathBuf, file: PathBuf },
}

impl Destination {
    fn of(path: &Path) -> Self {
        let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if fs::metadata(&file).is_ok_and(|meta| !meta.is_file()) {
            return Self::Special(file);
        }
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        Self::Regular { folder, file }
    }
}

fn temporary_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    // The umask restricts this, as for any new file.
    let permissions = fs::Permissions::from_mode(0o666);
    tempfile::Builder::new()
        .prefix(".whyslow-")
        .permissions(permissions)
        .tempfile_in(folder)
        // tempfile's error names the temporary file, which means nothing to the user.
        .map_err(|error| error.raw_os_error().map_or(error, io::Error::from_raw_os_error))
}

fn write_whole(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    match Destination::of(path) {
        Destination::Special(file) => {
            let mut out = io::BufWriter::new(File::options().write(true).open(file)?);
            write(&mut out)?;
            out.flush()
        }
        Destination::Regular { folder, file } => {
            let temporary = temporary_in(&folder)?;
            let mut out = io::BufWriter::new(&temporary);
            write(&mut out)?;
            out.flush()?;
            drop(out);
            temporary.persist(&file).map(drop).map_err(|error| error.error)
        }
    }
}

/// Programs and profiles: `--flame ./app` or `-o run.whyslow` is a slip, so they are never replaced.
fn is_precious(path: &Path) -> bool {
    let mut start = Vec::new();
    let regular = fs::metadata(path).is_ok_and(|meta| meta.is_file());
    regular
        && File::open(path).and_then(|file| file.take(16).read_to_end(&mut start)).is_ok()
        && (start.starts_with(b"\x7fELF") || whyslow_profile::file::is_profile(&start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.svg");
        fs::write(&path, "old").unwrap();
        let result = Output::from(path.clone()).write(|out| {
            out.write_all(b"half")?;
            Err(io::Error::from(io::ErrorKind::StorageFull))
        });
        assert!(result.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_program_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app");
        fs::write(&path, b"\x7fELF and more").unwrap();
        let failure = Output::from(path).write(|_| Ok(())).unwrap_err().to_string();
        assert!(failure.contains("does not overwrite"), "{failure}");
    }

    #[test]
    fn links_of_other_users_in_shared_folders_are_not_followed() {
        let (me, other, root) = (1000, 1001, 0);
        assert!(is_foreign(other, root, 0o41777, me));
        assert!(is_foreign(other, root, 0o41777, root), "root falls into it worst");
        assert!(!is_foreign(me, root, 0o41777, me), "one's own link");
        assert!(!is_foreign(root, root, 0o41777, me), "a link of the folder's owner");
        assert!(!is_foreign(other, root, 0o40777, me), "not sticky: anybody could replace the file itself");
        assert!(!is_foreign(other, root, 0o40755, me), "not for everyone");

        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("precious"), folder.path().join("x.svg"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
        // Only root can make a link of another user.
        if whyslow_proc::user() == 0 {
            std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
            let failure = Output::from(link).write(|out| out.write_all(b"new")).unwrap_err().to_string();
            assert!(failure.contains("a link of another user"), "{failure}");
            assert_eq!(fs::read_to_string(&file).unwrap(), "old");
        }
    }

    #[test]
    fn writing_through_a_link_keeps_the_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        Output::from(link.clone()).write(|out| out.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
    }
}
