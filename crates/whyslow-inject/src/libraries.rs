//! A cache of the few functions per library that plans need. Nearly all processes map the same libraries, and
//! reading libc's symbols takes longer than the rest of a plan.

use std::collections::HashMap;
use std::fs::Metadata;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use whyslow_elf::Segment;
use whyslow_numbers::{Bias, FileAddress};
use whyslow_proc::process;

use crate::allocators::allocator_symbol_names;
use crate::arch::{Code64, Prologue, Refusal};
use crate::functions::{Functions, OF_LIBRARIES, Placed};
use crate::image::{Files, Image, Symbols, bias, placed_range};
use crate::maps::Maps;

/// Maximum number of cached libraries. Few programs have more.
const MOST: usize = 1024;
/// Bytes of a function that are enough to decode what a patch covers: an `endbr64`, four bytes, and the
/// longest possible instruction.
const HEAD: usize = 32;

/// Identifies the current content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
    symbols: Symbols,
}

impl Key {
    fn new(file: &Metadata, symbols: Symbols) -> Self {
        let modified = (file.mtime(), file.mtime_nsec());
        Self { device: file.dev(), inode: file.ino(), len: file.len(), modified, symbols }
    }
}

/// The cache of all libraries.
#[derive(Debug, Default)]
pub(crate) struct Libraries {
    /// `None` for files that are not libraries.
    known: Mutex<HashMap<Key, Option<Arc<Library>>>>,
    /// Number of files read.
    read: AtomicU64,
}

impl Libraries {
    /// The library that a process maps under this path.
    pub(crate) fn get(&self, pid: u32, path: &str, symbols: Symbols) -> Option<Arc<Library>> {
        let places = [process::file_in_root(pid, path), PathBuf::from(path)];
        let (place, file) = places.iter().find_map(|place| Some((place, std::fs::metadata(place).ok()?)))?;
        let key = Key::new(&file, symbols);
        if let Some(library) = self.lock().get(&key) {
            return library.clone();
        }
        self.read.fetch_add(1, Ordering::Relaxed);
        let files = Files::open(place, Path::new(path), symbols).ok();
        let library = files.as_ref().and_then(Library::read).map(Arc::new);
        let mut known = self.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, library.clone());
        library
    }

    /// Number of files read.
    #[cfg(test)]
    pub(crate) fn count_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Key, Option<Arc<Library>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cached part of a library.
#[derive(Debug)]
pub(crate) struct Library {
    loads: Vec<Segment>,
    range: Range<FileAddress>,
    functions: Vec<Remembered>,
    /// Whether it defines an allocator's function.
    pub(crate) may_allocate: bool,
}

/// A function of a library.
#[derive(Debug)]
struct Remembered {
    name: &'static str,
    address: FileAddress,
    /// Its first bytes, and the bytes after it if those are the whole function.
    head: Result<(Vec<u8>, Vec<u8>), Refusal>,
}

impl Library {
    fn read(files: &Files) -> Option<Self> {
        let image = Image::at(files, Bias::NONE)?;
        let names = OF_LIBRARIES.iter().copied().flatten().flat_map(|(names, _)| names.iter().copied());
        let functions = names
            .filter_map(|name| {
                let function = image.function(name)?;
                let head = image.code(function).ok_or(Refusal::NoCode).and_then(|code| {
                    // The code far from the start matters only if it jumps back into the start.
                    Prologue::of(code, &image.cold_parts(function))?;
                    let short = |bytes: &[u8]| bytes[..bytes.len().min(HEAD)].to_vec();
                    let gap = if code.bytes.len() < HEAD { short(code.gap) } else { Vec::new() };
                    Ok((short(code.bytes), gap))
                });
                Some(Remembered { name, address: function.address, head })
            })
            .collect();
        let may_allocate = files.define_any(&allocator_symbol_names());
        Some(Self { loads: files.loads()?, range: image.range.clone(), functions, may_allocate })
    }

    /// The library at the address where a process maps it under this path.
    pub(crate) fn in_process(&self, maps: &Maps, path: &str) -> Option<PlacedLibrary<'_>> {
        Some(PlacedLibrary { library: self, bias: bias(maps, path, &self.loads)? })
    }
}

/// A library in a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedLibrary<'a> {
    library: &'a Library,
    bias: Bias,
}

impl PlacedLibrary<'_> {
    /// Its address range.
    pub(crate) fn range(&self) -> Range<u64> {
        placed_range(&self.library.range, self.bias)
    }
}

impl Functions for PlacedLibrary<'_> {
    fn placed(&self, name: &str) -> Option<Placed> {
        let function = self.library.functions.iter().find(|function| function.name == name)?;
        let address = self.bias.run_time(function.address).0;
        let prologue = match &function.head {
            Ok((bytes, gap)) => Prologue::of(Code64 { address, bytes, gap }, &[]),
            Err(refusal) => Err(*refusal),
        };
        Some(Placed { name: name.to_owned(), address, prologue })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_changed_file_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library.so");
        std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
        let (libraries, pid) = (Libraries::default(), std::process::id());
        let get = || libraries.get(pid, path.to_str().unwrap(), Symbols::Public).is_some();
        assert!(get() && get());
        assert_eq!(libraries.count_read(), 1);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        assert!(get());
        assert_eq!(libraries.count_read(), 2);
        std::fs::write(&path, "not a library").unwrap();
        assert!(!get() && !get());
        assert_eq!(libraries.count_read(), 3);
    }

    #[test]
    fn the_cache_is_cleared_when_full() {
        let libraries = Libraries::default();
        let key = |inode| Key { device: 0, inode, len: 0, modified: (0, 0), symbols: Symbols::All };
        libraries.lock().extend((0..MOST as u64).map(|inode| (key(inode), None)));
        let own = std::env::current_exe().unwrap();
        assert!(libraries.get(std::process::id(), own.to_str().unwrap(), Symbols::Public).is_some());
        assert_eq!(libraries.lock().len(), 1);
    }
}
