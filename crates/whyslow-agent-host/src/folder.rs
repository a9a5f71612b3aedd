//! A private folder for the socket and the agent's file that exists as long as the host:
//! `$XDG_RUNTIME_DIR/whyslow/heap-PID-N`, else `TMP/whyslow-UID/heap-PID-N`, else `.whyslow-UID/heap-PID-N`
//! in the working folder.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use whyslow_agent_wire::AGENT_NAME;

use crate::error::HostError;
use crate::sys;

/// The name of the socket.
const SOCKET: &str = "socket";
/// Maximum length of a socket's path, including the final zero.
const MOST_SOCKET_PATH: usize = 108;
const PREFIX: &str = "heap-";
/// The name of the folder for the hosts of a user, in the user's runtime folder.
const SHARED: &str = "whyslow";

/// The folder; removed when dropped.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates the folder in the first suitable place.
    pub(crate) fn create() -> Result<Self, HostError> {
        let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
        let runtime = runtime.map(|path| PathBuf::from(path).join(SHARED));
        let user = whyslow_proc::user();
        // In a container, the working folder may be the only writable place.
        let here = std::env::current_dir().ok().map(|folder| folder.join(format!(".{SHARED}-{user}")));
        Self::create_in(runtime.into_iter().chain(temporary(user)).chain(here))
    }

    /// The user's folder for hosts in the working folder, if this one is in there; it is removed at the
    /// end.
    fn made_here(&self) -> Option<&Path> {
        let around = self.path.parent()?;
        around.file_name()?.as_bytes().starts_with(b".").then_some(around)
    }

    fn create_in(places: impl Iterator<Item = PathBuf>) -> Result<Self, HostError> {
        let mut tried = Vec::new();
        for place in places {
            match Self::try_in(&place) {
                Ok(folder) => return Ok(folder),
                Err(error) => tried.push((place, error.to_string())),
            }
        }
        Err(HostError::NoFolder { tried })
    }

    fn try_in(place: &Path) -> io::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !place.is_absolute() {
            return Err(io::Error::other("not an absolute path"));
        }
        // The dynamic loader treats these as separators.
        if place.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n' | b'$'))
        {
            return Err(io::Error::other("LD_PRELOAD cannot name files there"));
        }
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(format!("{PREFIX}{}-{number}", std::process::id()));
        if path.join(SOCKET).as_os_str().len() + 1 > MOST_SOCKET_PATH {
            return Err(io::Error::other("the path is too long for a socket"));
        }
        let mut private = DirBuilder::new();
        private.mode(0o700);
        match private.create(place) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let found = fs::symlink_metadata(place)?;
        if !found.is_dir() || found.uid() != whyslow_proc::user() || found.mode() & 0o022 != 0 {
            return Err(io::Error::other("other users can write there"));
        }
        if !sys::allows_code(place) {
            return Err(io::Error::other("mounted with noexec"));
        }
        remove_stale(place);
        // Left by an earlier host with the same process id.
        let _ = fs::remove_dir_all(&path);
        private.create(&path)?;
        Ok(Self { path })
    }

    /// The path of the socket.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join(SOCKET)
    }

    /// The path of the agent's file.
    pub(crate) fn agent(&self) -> PathBuf {
        self.path.join(AGENT_NAME)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The next host removes whatever cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
        // Another host may still use it.
        let _ = self.made_here().map(fs::remove_dir);
    }
}

/// The folders for hosts of a user without a runtime folder.
fn temporary(user: u32) -> impl Iterator<Item = PathBuf> {
    let own = format!("{SHARED}-{user}");
    let places = [std::env::temp_dir(), "/tmp".into(), "/dev/shm".into(), "/var/tmp".into()];
    places.into_iter().map(move |place| place.join(&own))
}

/// The process ids of all recorders of these users that have a host, and their sockets.
pub fn hosts_of(users: &[u32]) -> Vec<(u32, PathBuf)> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let mut places: Vec<PathBuf> = runtime.map(|path| PathBuf::from(path).join(SHARED)).into_iter().collect();
    for &user in users {
        places.push(Path::new("/run/user").join(user.to_string()).join(SHARED));
        places.extend(temporary(user));
    }
    places.sort();
    places.dedup();
    places.iter().flat_map(|place| hosts_in(place)).collect()
}

fn hosts_in(place: &Path) -> Vec<(u32, PathBuf)> {
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let folders = entries.flatten().filter_map(|entry| {
        let pid = owner(&entry.file_name())?.parse().ok()?;
        Some((pid, entry.path().join(SOCKET)))
    });
    folders.collect()
}

/// Removes the folders of killed hosts.
fn remove_stale(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        if owner(&entry.file_name()).is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process id of the host in a folder's name.
fn owner(name: &OsStr) -> Option<String> {
    let (pid, number) = name.to_str()?.strip_prefix(PREFIX)?.split_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(pid) && digits(number)).then(|| pid.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_removed_on_drop() {
        let place = tempfile::tempdir().expect("folder");
        let base = place.path().join("whyslow");
        let folder = Folder::create_in([base.clone()].into_iter()).expect("folder");
        let path = folder.path.clone();
        assert_eq!(fs::metadata(&path).expect("there").mode() & 0o777, 0o700);
        drop(folder);
        assert!(!path.exists() && base.exists());
    }

    #[test]
    fn a_folder_in_the_working_folder_is_removed_completely() {
        let place = tempfile::tempdir().expect("folder");
        let base = place.path().join(".whyslow-1000");
        let folder = Folder::create_in([base.clone()].into_iter()).expect("folder");
        let other = Folder::create_in([base.clone()].into_iter()).expect("folder");
        drop(folder);
        assert!(base.exists(), "another host still uses it");
        drop(other);
        assert!(!base.exists());
    }

    #[test]
    fn removes_the_folder_of_a_killed_host() {
        let place = tempfile::tempdir().expect("folder");
        let base = place.path().join("whyslow");
        DirBuilder::new().mode(0o700).create(&base).expect("created");
        let stale = base.join("heap-4294967295-0");
        let other = base.join("heap-notes");
        let living = base.join(format!("heap-{}-999999", std::process::id()));
        for path in [&stale, &other, &living] {
            fs::create_dir(path).expect("created");
        }
        let folder = Folder::create_in([base.clone()].into_iter()).expect("folder");
        assert!(!stale.exists() && other.exists() && living.exists());
        let found = hosts_in(&base);
        assert!(found.len() == 2 && found.contains(&(std::process::id(), folder.socket())), "{found:?}");
    }

    #[test]
    fn skips_unsuitable_places() {
        let place = tempfile::tempdir().expect("folder");
        let open = place.path().join("open");
        fs::create_dir(&open).expect("created");
        fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("changed");
        let long = place.path().join("l".repeat(90));
        let spaced = place.path().join("a b");
        let good = place.path().join("good");
        let places = [PathBuf::from("relative"), open, long, spaced, good.clone()];
        let folder = Folder::create_in(places.clone().into_iter()).expect("folder");
        assert!(folder.path.starts_with(good));
        let error = Folder::create_in(places[..4].iter().cloned()).expect_err("no place is suitable");
        let HostError::NoFolder { tried } = error else { panic!("another error") };
        assert_eq!(tried.len(), 4);
    }
}
