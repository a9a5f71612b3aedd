//! Separate debug files: where to search for them, and how to verify that one belongs to a file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{BuildId, Elf, ElfFile, hex};

/// The folders to search for separate debug files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DebugFolders {
    /// Folders of installed debug files.
    pub installed: Vec<PathBuf>,
    /// Folders in which debuginfod's client keeps its downloads. Nothing is requested over the network.
    pub downloaded: Vec<PathBuf>,
}

impl DebugFolders {
    /// The usual folders of this machine and user.
    pub fn usual() -> Self {
        Self { installed: vec![PathBuf::from("/usr/lib/debug")], downloaded: debuginfod_caches() }
    }

    /// Finds the separate debug file of the file named `path`: by its build id, then by its `.gnu_debuglink`.
    /// A file matches if it has that id, or the checksum of the link, and is `useful`.
    pub fn find(&self, path: &Path, elf: &Elf<'_>, useful: impl Fn(&Elf<'_>) -> bool) -> Option<ElfFile> {
        let id = elf.build_id();
        let by_id = id.iter().flat_map(|id| self.by_build_id(id));
        let has_id = |debug: &Elf<'_>| id.is_some() && debug.build_id() == id;
        let open = |candidate: PathBuf| ElfFile::open(&candidate).ok();
        let found = by_id
            .filter_map(open)
            .find(|file| file.parse().is_ok_and(|debug| useful(&debug) && has_id(&debug)));
        if found.is_some() {
            return found;
        }
        let (name, crc) = elf.debuglink()?;
        let has_checksum = |file: &ElfFile| crc32fast::hash(file.bytes()) == crc;
        let mut candidates = self.by_link(path, name).into_iter().filter_map(open);
        candidates.find(|file| file.parse().is_ok_and(|debug| useful(&debug)) && has_checksum(file))
    }

    /// Finds the supplementary file into which `dwz` moved entries of several debug files.
    pub fn find_supplementary(&self, debug: &ElfFile) -> Option<ElfFile> {
        let elf = debug.parse().ok()?;
        let (name, id) = elf.debugaltlink()?;
        let named = debug.path.parent()?.join(OsStr::from_bytes(name));
        let by_id = self.installed.iter().filter_map(|folder| in_folder_of_ids(folder, &hex(id)));
        let has_id = |file: &ElfFile| {
            file.parse().ok().and_then(|elf| elf.build_id()).is_some_and(|found| found.bytes() == id)
        };
        std::iter::once(named).chain(by_id).filter_map(|path| ElfFile::open(&path).ok()).find(has_id)
    }

    fn by_build_id(&self, id: &BuildId) -> Vec<PathBuf> {
        let id = id.to_string();
        let installed = self.installed.iter().filter_map(|folder| in_folder_of_ids(folder, &id));
        let downloaded = self.downloaded.iter().map(|folder| folder.join(&id).join("debuginfo"));
        installed.chain(downloaded).collect()
    }

    /// The candidates for a link: next to the file, in `.debug` there, or at the same path in the folders of
    /// installed files.
    fn by_link(&self, path: &Path, name: &[u8]) -> Vec<PathBuf> {
        let Some(folder) = path.parent() else { return Vec::new() };
        let name = OsStr::from_bytes(name);
        let inside = folder.strip_prefix("/").unwrap_or(folder);
        let next_to_file = [folder.join(name), folder.join(".debug").join(name)];
        let installed = self.installed.iter().map(|debug| debug.join(inside).join(name));
        next_to_file.into_iter().chain(installed).filter(|candidate| candidate != path).collect()
    }
}

/// `FOLDER/.build-id/ab/cdef.debug`
fn in_folder_of_ids(folder: &Path, id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    (!rest.is_empty()).then(|| folder.join(".build-id").join(first).join(format!("{rest}.debug")))
}

/// `$DEBUGINFOD_CACHE_PATH`, else debuginfod's folder in the user's cache and its old one.
fn debuginfod_caches() -> Vec<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    if let Some(path) = absolute("DEBUGINFOD_CACHE_PATH") {
        return vec![path];
    }
    let home = absolute("HOME");
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(home.as_ref()?.join(".cache")));
    let new = cache.map(|cache| cache.join("debuginfod_client"));
    new.into_iter().chain(home.map(|home| home.join(".debuginfod_client_cache"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Built, note};

    #[test]
    fn build_ids_name_files() {
        let path = in_folder_of_ids(Path::new("/usr/lib/debug"), "abcdef").unwrap();
        assert_eq!(path, Path::new("/usr/lib/debug/.build-id/ab/cdef.debug"));
        assert_eq!(in_folder_of_ids(Path::new("/d"), "ab"), None);
        assert_eq!(in_folder_of_ids(Path::new("/d"), "é"), None);
    }

    #[test]
    fn links_lead_next_to_the_file_and_never_to_itself() {
        let folders = DebugFolders { installed: vec!["/usr/lib/debug".into()], downloaded: Vec::new() };
        let places = |path: &str, name: &str| -> Vec<String> {
            let found = folders.by_link(Path::new(path), name.as_bytes());
            found.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(
            places("/opt/a/app", "app.debug"),
            ["/opt/a/app.debug", "/opt/a/.debug/app.debug", "/usr/lib/debug/opt/a/app.debug"]
        );
        assert_eq!(places("/opt/app", "app"), ["/opt/.debug/app", "/usr/lib/debug/opt/app"]);
        assert!(places("/", "app").is_empty());
    }

    fn with_id(id: &[u8], code: &[u8]) -> Vec<u8> {
        Built::default().load(0x1000, code).notes(&note(b"GNU\0", 3, id)).bytes()
    }

    #[test]
    fn a_file_in_the_folder_of_ids_must_have_the_id() {
        let folder = tempfile::tempdir().unwrap();
        let folders = DebugFolders { installed: vec![folder.path().into()], downloaded: Vec::new() };
        let place = folder.path().join(".build-id/ab/cd.debug");
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        let program = with_id(&[0xab, 0xcd], b"stripped");
        let elf = Elf::parse(&program).unwrap();
        let find = || {
            folders.find(Path::new("/opt/app"), &elf, |debug| {
                debug.bytes_at(crate::FileAddress(0x1000), 4).is_some()
            })
        };
        assert!(find().is_none());
        std::fs::write(&place, with_id(&[0xab, 0xce], b"of another build")).unwrap();
        assert!(find().is_none(), "another build");
        std::fs::write(&place, with_id(&[0xab, 0xcd], b"no")).unwrap();
        assert!(find().is_none(), "not useful");
        std::fs::write(&place, with_id(&[0xab, 0xcd], b"with everything")).unwrap();
        assert_eq!(find().unwrap().path, place);
    }

    #[test]
    fn debuginfod_downloads_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let folders = DebugFolders { installed: Vec::new(), downloaded: vec![folder.path().into()] };
        std::fs::create_dir(folder.path().join("abcd")).unwrap();
        let program = with_id(&[0xab, 0xcd], b"stripped");
        std::fs::write(folder.path().join("abcd/debuginfo"), &program).unwrap();
        let found = folders.find(Path::new("app"), &Elf::parse(&program).unwrap(), |_| true);
        assert_eq!(found.unwrap().path, folder.path().join("abcd/debuginfo"));
    }
}
