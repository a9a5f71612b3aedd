//! The page on disk that sends a browser to the viewer. Every user of the machine can read a browser's
//! command line. It names only this page, which only its owner can read.

use std::env;
use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The prefix of the folders' names; the pid of the process follows.
const PREFIX: &str = "whyslow-view-";

/// A page in its own folder; both are removed on drop.
#[derive(Debug)]
pub(crate) struct Doorway {
    folder: tempfile::TempDir,
}

impl Doorway {
    /// A page that redirects to an address.
    pub(crate) fn to(address: &str) -> io::Result<Self> {
        let mut result = Err(io::ErrorKind::NotFound.into());
        for place in places(&|name| env::var_os(name), &|path| path.is_dir()) {
            result = Self::in_place(&place, address);
            if result.is_ok() {
                break;
            }
        }
        result
    }

    fn in_place(place: &Path, address: &str) -> io::Result<Self> {
        remove_leftovers(place);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let only_owner = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new().prefix(&prefix).permissions(only_owner).tempdir_in(place)?;
        // The owner of the parent folder could replace the page.
        let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid());
        if ![0, owner(folder.path())?].contains(&owner(place)?) {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let doorway = Self { folder };
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(doorway.page())?;
        file.write_all(page(address).as_bytes())?;
        Ok(doorway)
    }

    /// The page.
    pub(crate) fn page(&self) -> PathBuf {
        self.folder.path().join("open.html")
    }
}

/// The address has only digits, letters and characters without a meaning in HTML.
fn page(address: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>whyslow</title>\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <meta http-equiv=\"refresh\" content=\"0;url={address}\">\n\
         <p><a href=\"{address}\">To the viewer</a></p>\n</html>\n"
    )
}

/// Folders to try, best first. A browser from a snap reads only the home folder, and no hidden files in it.
fn places(var: &dyn Fn(&str) -> Option<OsString>, is_folder: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    let folder = |name: &str| var(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = folder("HOME").filter(|home| is_folder(&home.join("snap")));
    let temporary = folder("TMPDIR").unwrap_or_else(|| PathBuf::from("/tmp"));
    home.into_iter().chain(folder("XDG_RUNTIME_DIR")).chain([temporary]).collect()
}

/// Removes folders of processes that exited before a browser connected, for example with Ctrl-C.
fn remove_leftovers(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !whyslow_proc::process::exists(pid)) {
            // Those of other users remain.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_can_read_the_page() {
        let place = tempfile::tempdir().unwrap();
        let doorway = Doorway::in_place(place.path(), "http://127.0.0.1:1/?ticket=ab").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&doorway.page()), mode(doorway.page().parent().unwrap())), (0o600, 0o700));
        let text = fs::read_to_string(doorway.page()).unwrap();
        assert!(text.contains("content=\"0;url=http://127.0.0.1:1/?ticket=ab\""), "{text}");
        drop(doorway);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn removes_folders_of_dead_processes() {
        let place = tempfile::tempdir().unwrap();
        // No process has the pid 0, and this one is alive.
        let (dead, alive) = ("whyslow-view-0-x", format!("whyslow-view-{}-x", std::process::id()));
        for name in [dead, &alive, "whyslow-view-", "other"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        fs::write(place.path().join(dead).join("open.html"), "").unwrap();
        remove_leftovers(place.path());
        assert!(!place.path().join(dead).exists());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 3);
    }

    #[test]
    fn snaps_read_only_the_home_folder() {
        let var = |name: &str| match name {
            "HOME" => Some("/home/ann".into()),
            "XDG_RUNTIME_DIR" => Some("/run/user/1000".into()),
            _ => None,
        };
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        assert_eq!(places(&var, &|_| false), paths(&["/run/user/1000", "/tmp"]));
        let has_snaps = |path: &Path| path == Path::new("/home/ann/snap");
        assert_eq!(places(&var, &has_snaps), paths(&["/home/ann", "/run/user/1000", "/tmp"]));
        assert_eq!(places(&|_| Some("relative".into()), &|_| true), paths(&["/tmp"]));
    }
}
