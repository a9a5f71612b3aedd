//! Opens the file behind a mapping of a live process, even if its path was deleted, names another file by
//! now, or names another file here than in the process's namespace.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;

use whyslow_convert::FileMapping;
use whyslow_elf::FileBytes;
use whyslow_proc::{DELETED, Mapping, process};

/// The result of the search.
#[derive(Debug)]
pub(crate) enum Reached {
    /// The file that is mapped.
    File(FileBytes),
    /// The file has no path any more, and cannot be reached in any other way.
    Gone,
    /// The file exists but cannot be read.
    Unreadable,
}

/// Finds the file of a mapping: by its path in the process's root, then here, then through the mapping
/// itself, then as the process's executable. A path alone proves nothing: the inode must be the mapped one.
pub(crate) fn reach(pid: u32, mapping: &FileMapping) -> Reached {
    let path = &mapping.key.path;
    let by_name = if path.ends_with(DELETED) {
        Vec::new()
    } else {
        vec![process::file_in_root(pid, path), PathBuf::from(path)]
    };
    let mut others = Vec::new();
    let mut unreadable = false;
    for candidate in by_name {
        match open(&candidate) {
            Ok((file, inode)) if mapping.key.inode == 0 || inode == mapping.key.inode => return map(&file),
            Ok((file, _)) => others.push(file),
            Err(error) => unreadable |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    let through_mapping = mapped_range(pid, mapping).map(|range| process::mapped_file(pid, &range));
    let executable = process::program_file(pid);
    for candidate in through_mapping.into_iter().chain([executable]) {
        if let Ok((file, inode)) = open(&candidate)
            && inode == mapping.key.inode
        {
            return map(&file);
        }
    }
    // A layered file system may report another inode for a file than for its mapping.
    match others.iter().find(|file| is_mapped(pid, mapping, file)) {
        Some(file) => map(file),
        None if unreadable && others.is_empty() => Reached::Unreadable,
        None => Reached::Gone,
    }
}

/// Opens a regular file. Opening a pipe would block until it has a writer.
fn open(path: &PathBuf) -> io::Result<(File, u64)> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let file = File::open(path)?;
    let inode = file.metadata()?.ino();
    Ok((file, inode))
}

/// Maps an ELF file.
fn map(file: &File) -> Reached {
    let mut magic = [0; 4];
    if file.read_exact_at(&mut magic, 0).is_err() || magic != *b"\x7fELF" {
        return Reached::Unreadable;
    }
    FileBytes::map(file).map_or(Reached::Unreadable, Reached::File)
}

/// The mapping as it is now: it may have been merged with neighbours, or parts unmapped.
fn mapped_range(pid: u32, mapping: &FileMapping) -> Option<Range<u64>> {
    let maps = Mapping::all_of(pid).ok()?;
    let now = Mapping::find(&maps, mapping.start.0)?;
    (now.inode == mapping.key.inode && now.inode != 0).then(|| now.range())
}

/// Whether the process has this file's bytes at the mapping's addresses. Code is mapped unchanged.
fn is_mapped(pid: u32, mapping: &FileMapping, file: &File) -> bool {
    const COMPARED: usize = 16 << 10;
    let size = usize::try_from(mapping.end.0.saturating_sub(mapping.start.0)).unwrap_or(0).min(COMPARED);
    let (mut there, mut here) = (vec![0; size], vec![0; size]);
    let Ok(read) = whyslow_proc::read_memory(pid, mapping.start.0, &mut there) else { return false };
    let Ok(len) = file.read_at(&mut here, mapping.offset) else { return false };
    let size = read.min(len);
    size >= 512 && there[..size] == here[..size]
}

#[cfg(test)]
mod tests {
    use super::*;
    use whyslow_convert::FileKey;
    use whyslow_numbers::RunTimeAddress;

    /// A mapping of the test's own executable.
    fn own_code() -> FileMapping {
        let maps = Mapping::all_of(std::process::id()).unwrap();
        let own = Mapping::find(&maps, own_code as *const () as u64).unwrap();
        crate::live::file_mapping(own.clone())
    }

    fn is_file(reached: Reached) -> bool {
        matches!(reached, Reached::File(bytes) if bytes.starts_with(b"\x7fELF"))
    }

    #[test]
    fn finds_the_running_program_whatever_its_path() {
        let own = std::process::id();
        assert!(is_file(reach(own, &own_code())));
        for path in ["/nowhere/at/all", "/bin/sh", "/tmp/gone (deleted)"] {
            let mut renamed = own_code();
            renamed.key.path = path.to_owned();
            assert!(is_file(reach(own, &renamed)), "{path}");
        }
    }

    #[test]
    fn another_file_at_the_same_path_is_rejected() {
        let mut other = own_code();
        other.key.inode = u64::MAX;
        other.key.path = "/bin/sh".to_owned();
        assert!(matches!(reach(std::process::id(), &other), Reached::Gone));
        other.key.path = "/nowhere/at/all".to_owned();
        assert!(matches!(reach(std::process::id(), &other), Reached::Gone));
    }

    #[test]
    fn a_file_with_another_inode_is_accepted_by_its_bytes() {
        let mut own = own_code();
        own.key.inode = u64::MAX;
        assert!(is_file(reach(std::process::id(), &own)));
        own.offset += 4096;
        assert!(matches!(reach(std::process::id(), &own), Reached::Gone));
    }

    #[test]
    fn a_file_that_is_not_a_program_is_not_mapped() {
        let key = FileKey { path: "/proc/self/maps".to_owned(), device: (0, 0), inode: 0 };
        let mapping =
            FileMapping { key, generation: 0, start: RunTimeAddress(0), end: RunTimeAddress(0), offset: 0 };
        assert!(matches!(reach(std::process::id(), &mapping), Reached::Unreadable));
    }
}
