//! The path of a process's pipe: `$XDG_RUNTIME_DIR/whyslow/PID`, else `/tmp/whyslow-UID/PID`.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The name of the folder in the user's runtime folder.
pub const FOLDER: &str = "whyslow";

/// The folders to search, the best first. `runtime` is `XDG_RUNTIME_DIR`.
pub fn folders(runtime: Option<&OsStr>, user: u32) -> impl Iterator<Item = PathBuf> {
    let runtime = runtime.map(Path::new).filter(|path| path.is_absolute());
    runtime.map(|path| path.join(FOLDER)).into_iter().chain([PathBuf::from(format!("/tmp/whyslow-{user}"))])
}

/// Whether only this user can write to the folder.
pub fn is_private(folder: &Metadata, user: u32) -> bool {
    folder.is_dir() && folder.uid() == user && folder.mode() & 0o077 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_runtime_folder_comes_first_and_must_be_absolute() {
        let list = |runtime| folders(runtime, 7).collect::<Vec<_>>();
        let fallback = Path::new("/tmp/whyslow-7");
        assert_eq!(list(Some(OsStr::new("/run/user/7"))), [Path::new("/run/user/7/whyslow"), fallback]);
        assert_eq!(list(Some(OsStr::new("relative"))), [fallback]);
        assert_eq!(list(None), [fallback]);
    }

    #[test]
    fn only_a_private_folder_is_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whyslow");
        std::fs::create_dir(&path).unwrap();
        let user = std::fs::metadata(&path).unwrap().uid();
        let private = |path: &Path, user| is_private(&std::fs::symlink_metadata(path).unwrap(), user);
        for (mode, trusted) in [(0o700, true), (0o770, false), (0o707, false), (0o755, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(private(&path, user), trusted, "{mode:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        assert!(!private(&path, user + 1), "another user's");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(!private(&link, user), "a link");
    }
}
