//! The machine of a recorded file. Running processes are unrelated to it, and a file on disk counts only if
//! it is the recorded one.

use std::path::PathBuf;

use rustc_hash::FxHashMap;
use whyslow_convert::{FileKey, FileMapping, KERNEL, Opened, ReadError, Running, VDSO, World};
use whyslow_numbers::RunTimeAddress;
use whyslow_proc::{MappingKind, kernel};
use whyslow_processor::Processor;
use whyslow_unwind::Image;

use super::header::Facts;

/// A build id that no file has, so that no other kernel's code or names are used for the recorded one.
const NOBODYS_ID: &str = "unknown";

/// The facts of a recording about its machine, and which of its files exist here.
#[derive(Debug)]
pub(super) struct RecordedWorld {
    /// Build ids of mapped files by path, in hexadecimal.
    pub(super) build_ids: FxHashMap<String, String>,
    /// The processor of the recorded machine.
    processor: Option<Processor>,
    /// A folder with copies of the recorded files, searched before their original paths.
    copies: Option<PathBuf>,
    /// Whether the kernel of the recording is the running one, so that its symbols are available.
    pub(super) same_kernel: bool,
    /// Files that exist, but were rebuilt since the recording.
    pub(super) changed: Vec<String>,
    /// Files that were used although the recording has no build id to verify them.
    pub(super) unproven: Vec<String>,
}

impl RecordedWorld {
    /// Starts with the facts of the file. The kernel is compared by release if it has no build id.
    pub(super) fn new(facts: &Facts, copies: Option<PathBuf>) -> Self {
        let Facts { build_ids, os_release, .. } = facts;
        let same_kernel = match build_ids.get(KERNEL) {
            Some(recorded) => kernel::build_id().is_some_and(|id| id.is(recorded)),
            None => !os_release.is_empty() && kernel::release() == *os_release,
        };
        Self {
            build_ids: build_ids.clone(),
            processor: facts.processor(),
            copies,
            same_kernel,
            changed: Vec::new(),
            unproven: Vec::new(),
        }
    }

    /// The file on disk, if it is the recorded one.
    fn recorded_file(&mut self, path: &str) -> Option<Image> {
        let build_id = self.build_ids.get(path);
        let copies = self.copies.iter().flat_map(|folder| whyslow_profile::copies_in(folder, path));
        let files = copies.chain([PathBuf::from(path)]).filter_map(|path| Image::open(&path).ok());
        // Another machine may have a file of its own at the same path.
        let files = files.filter(|image| Some(image.processor()) == self.processor);
        let mut found = false;
        for image in files {
            found = true;
            match build_id {
                Some(recorded) if image.build_id().is_none_or(|id| !id.is(recorded)) => {}
                Some(_) => return Some(image),
                None => {
                    self.unproven.push(path.to_owned());
                    return Some(image);
                }
            }
        }
        if found {
            self.changed.push(path.to_owned());
        }
        None
    }
}

impl World for RecordedWorld {
    fn open(&mut self, _pid: u32, mapping: &FileMapping) -> Opened {
        let path = &mapping.key.path;
        // Mappings without a file are not on disk.
        let image = match MappingKind::of(path) {
            MappingKind::Memfd => None,
            _ => self.recorded_file(path),
        };
        Opened { name: path.clone(), image, build_id: self.build_ids.get(path).cloned() }
    }

    fn identify(&mut self, _pid: u32, path: &str) -> FileKey {
        FileKey { path: path.to_owned(), device: (0, 0), inode: 0 }
    }

    fn vdso(&mut self) -> Opened {
        let image = kernel::vdso().ok().and_then(|bytes| Image::from_bytes(bytes).ok());
        let (image, build_id) = match self.build_ids.get(VDSO) {
            Some(id) => {
                let same = |image: &Image| image.build_id().is_some_and(|own| own.is(id));
                (image.filter(same), Some(id.clone()))
            }
            None if self.same_kernel => (image, None),
            None => (None, Some(NOBODYS_ID.to_owned())),
        };
        Opened { name: VDSO.to_owned(), image, build_id }
    }

    fn kernel_build_id(&mut self) -> Option<String> {
        if self.same_kernel {
            return kernel::build_id().map(|id| id.to_string());
        }
        Some(self.build_ids.get(KERNEL).map_or(NOBODYS_ID, String::as_str).to_owned())
    }

    fn is_kernel_at(&mut self, text: RunTimeAddress) -> bool {
        self.same_kernel && kernel::text_address() == Some(text.0)
    }

    fn has_memory(&self) -> bool {
        false
    }

    fn read_memory(&self, _pid: u32, _address: RunTimeAddress, _into: &mut [u8]) -> Result<usize, ReadError> {
        Err(ReadError::Refused)
    }

    fn running(&mut self, _pid: u32) -> Option<Running> {
        None
    }

    fn build_id_recorded(&mut self, path: &str, build_id: &[u8]) {
        if !self.build_ids.contains_key(path) {
            self.build_ids.insert(path.to_owned(), whyslow_elf::hex(build_id));
        }
    }
}
