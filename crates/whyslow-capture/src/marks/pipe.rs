//! The named pipes through which programs send their marks. The recorder creates, reads and removes them.
//!
//! They are in a folder that only this user can enter, are created and removed by name within that open
//! folder, and links are never followed: no other user can make the recorder read or remove anything else.

use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use whyslow_mark::place;
use whyslow_mark::wire::RECORD_MOST;
use whyslow_proc::process;

/// The size of a pipe once its program emits marks.
const PIPE_BYTES: usize = 1 << 20;
/// Bytes read from one pipe per round, at most: more than it can hold.
const READ_MAX: usize = 2 << 20;

/// The open folder of the pipes.
#[derive(Debug)]
pub(super) struct Folder {
    file: File,
    path: PathBuf,
    user: u32,
}

impl Folder {
    /// Opens the first usable folder, creating it if necessary. `runtime` is the program's `XDG_RUNTIME_DIR`.
    pub(super) fn open(runtime: Option<&OsStr>) -> io::Result<Self> {
        let user = whyslow_proc::user();
        let mut result = Err(io::ErrorKind::NotFound.into());
        for path in place::folders(runtime, user) {
            result = Self::open_at(path, user);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn open_at(path: PathBuf, user: u32) -> io::Result<Self> {
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits().cast_signed();
        let file = File::options().read(true).custom_flags(flags).open(&path)?;
        if !place::is_private(&file.metadata()?, user) {
            let reason = format!("{} is open to other users", path.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
        }
        Ok(Self { file, path, user })
    }

    /// Whether another recorder has removed the folder at its end.
    pub(super) fn is_removed(&self) -> bool {
        self.file.metadata().is_ok_and(|about| about.nlink() == 0)
    }

    /// Creates the folder again and opens it.
    pub(super) fn open_again(&mut self) -> io::Result<()> {
        *self = Self::open_at(self.path.clone(), self.user)?;
        Ok(())
    }

    /// Creates the pipe of a process. Replaces one that a killed recorder has left; fails if another recorder
    /// reads it.
    pub(super) fn make(&self, pid: u32) -> io::Result<Pipe> {
        let name = name(pid)?;
        match make_fifo(self.file.as_fd(), &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.open_pipe(&name)?;
                remove(self.file.as_fd(), &name)?;
                make_fifo(self.file.as_fd(), &name)?;
            }
            other => other?,
        }
        Ok(Pipe::new(self.open_pipe(&name)?, pid))
    }

    /// Opens and locks a pipe: the lock shows other recorders that it is in use.
    fn open_pipe(&self, name: &CString) -> io::Result<File> {
        let file = open(self.file.as_fd(), name)?;
        let about = file.metadata()?;
        if !about.file_type().is_fifo() || about.uid() != self.user {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is not a pipe of this user"));
        }
        lock(file.as_fd())?;
        Ok(file)
    }

    pub(super) fn remove(&self, pid: u32) {
        if let Ok(name) = name(pid) {
            // An error means that it is already removed.
            let _ = remove(self.file.as_fd(), &name);
        }
    }

    /// Removes pipes of exited processes, left by recorders that were killed.
    pub(super) fn remove_stale(&self) {
        for pid in process::numbers_in(&self.path).unwrap_or_default() {
            if !process::exists(pid) && name(pid).and_then(|name| self.open_pipe(&name)).is_ok() {
                self.remove(pid);
            }
        }
    }

    /// Removes the folder, unless another recorder uses it.
    pub(super) fn remove_folder(&self) {
        let _ = fs::remove_dir(&self.path);
    }
}

fn name(pid: u32) -> io::Result<CString> {
    Ok(CString::new(pid.to_string())?)
}

/// The pipe of one process.
#[derive(Debug)]
pub(super) struct Pipe {
    file: File,
    pub(super) pid: u32,
    /// Whether a program has opened it.
    pub(super) greeted: bool,
    /// Whether its process has exited; its name is removed then.
    pub(super) ended: bool,
    /// Bytes that were read and not taken yet.
    pub(super) bytes: Vec<u8>,
}

impl Pipe {
    pub(super) fn new(file: File, pid: u32) -> Self {
        Self { file, pid, greeted: false, ended: false, bytes: Vec::new() }
    }

    /// Whether it is the pipe of this process and not of an earlier one with the same number.
    pub(super) fn is_of(&self, pid: u32) -> bool {
        self.pid == pid && !self.ended
    }

    /// Reads the available bytes.
    pub(super) fn fill(&mut self) {
        loop {
            self.bytes.reserve(16 * RECORD_MOST);
            // It is called often, and mostly there is nothing.
            let read = rustix::io::read(&self.file, spare_capacity(&mut self.bytes));
            if !matches!(read, Ok(1..)) || self.bytes.len() >= READ_MAX {
                break;
            }
        }
    }

    /// Enlarges the pipe of a program that emits marks; with less room, more marks may be lost.
    pub(super) fn enlarge(&self) {
        set_size(self.file.as_fd(), PIPE_BYTES);
    }
}

fn make_fifo(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    Ok(rustix::fs::mkfifoat(folder, name, Mode::RUSR | Mode::WUSR)?)
}

/// Opens for reading and writing: then it opens at once, and never reports an end of file between two
/// writers.
fn open(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?.into())
}

fn remove(folder: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
}

fn lock(file: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// A refusal leaves the size unchanged.
fn set_size(file: BorrowedFd<'_>, bytes: usize) {
    let _ = rustix::pipe::fcntl_setpipe_size(file, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    fn folder(runtime: &Path) -> Folder {
        Folder::open(Some(runtime.as_os_str())).unwrap()
    }

    #[test]
    fn pipes_are_created_and_removed_without_leftovers() {
        let runtime = tempfile::tempdir().unwrap();
        let folder = folder(runtime.path());
        let mut pipe = folder.make(42).unwrap();
        let path = runtime.path().join("whyslow/42");
        fs::write(&path, b"some bytes").unwrap();
        pipe.fill();
        assert_eq!(pipe.bytes, b"some bytes");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        folder.remove(42);
        folder.remove_folder();
        assert_eq!(fs::read_dir(runtime.path()).unwrap().count(), 0);
    }

    #[test]
    fn creates_the_folder_again_after_another_recorder_removed_it() {
        let runtime = tempfile::tempdir().unwrap();
        let mut folder = folder(runtime.path());
        assert!(!folder.is_removed());
        folder.remove_folder();
        assert!(folder.is_removed() && folder.make(42).is_err());
        folder.open_again().unwrap();
        assert!(folder.make(42).is_ok());
    }

    #[test]
    fn keeps_a_pipe_in_use_and_replaces_a_stale_one() {
        let runtime = tempfile::tempdir().unwrap();
        let folder = folder(runtime.path());
        let first = folder.make(42).unwrap();
        assert!(folder.make(42).is_err());
        drop(first);
        assert!(folder.make(42).is_ok());
    }

    #[test]
    fn removes_only_pipes_of_exited_processes() {
        let runtime = tempfile::tempdir().unwrap();
        let folder = folder(runtime.path());
        let exited = u32::MAX;
        let own = std::process::id();
        drop(folder.make(exited).unwrap());
        drop(folder.make(own).unwrap());
        let read_by_another = folder.make(exited - 1).unwrap();
        let path = |name: &str| runtime.path().join("whyslow").join(name);
        fs::write(path("notes"), "not a number").unwrap();
        fs::write(path(&(exited - 2).to_string()), "not a pipe").unwrap();
        folder.remove_stale();
        let left = [own, exited - 1, exited - 2].map(|number| path(&number.to_string()));
        assert!(left.iter().all(|path| path.exists()) && path("notes").exists());
        assert!(!path(&exited.to_string()).exists());
        drop(read_by_another);
    }

    #[test]
    fn does_not_use_links_or_folders_of_other_users() {
        let runtime = tempfile::tempdir().unwrap();
        let foreign = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(foreign.path(), runtime.path().join("whyslow")).unwrap();
        assert!(Folder::open_at(runtime.path().join("whyslow"), whyslow_proc::user()).is_err());

        let open = runtime.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Folder::open_at(open, whyslow_proc::user()).is_err());
        assert!(Folder::open_at(runtime.path().join("fine"), whyslow_proc::user() + 1).is_err());

        let folder = Folder::open_at(runtime.path().join("good"), whyslow_proc::user()).unwrap();
        let target = foreign.path().join("precious");
        fs::write(&target, "precious").unwrap();
        std::os::unix::fs::symlink(&target, runtime.path().join("good/42")).unwrap();
        assert!(folder.make(42).is_err());
        assert_eq!(fs::read_to_string(target).unwrap(), "precious");
    }
}
