//! Reads the memory of another process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustc_hash::FxHashMap;
use whyslow_proc::{Mapping, MappingKind};
use whyslow_processor::PAGE;

use super::graph::Memory;

/// Reads of at least this length check first which pages exist.
const FILTERED_FROM: usize = 16 * PAGE as usize;
/// `/proc/PID/pagemap`: the page is in memory, or swapped out.
const PRESENT: u64 = 3 << 62;
/// Number of words of a virtual table that are checked.
const TABLE_WORDS: usize = 20;

/// Whether a mapping is backed by a file, on disk or in memory.
pub(super) fn is_of_file(mapping: &Mapping) -> bool {
    matches!(mapping.kind(), MappingKind::File | MappingKind::Memfd)
}

/// Reads a process. Unreadable pages are zero, and counted.
#[derive(Debug)]
pub(crate) struct ProcessMemory<'a> {
    pid: u32,
    /// A running thread of the process.
    tid: u32,
    maps: &'a [Mapping],
    /// Shows which pages exist. Without it every page is read, which creates the page.
    pagemap: Option<File>,
    /// The slower way, where the fast one is forbidden.
    mem: Option<File>,
    tables: FxHashMap<u64, bool>,
    pub(crate) bytes_read: u64,
    pub(crate) unreadable_pages: u64,
    /// The process no longer exists: nothing that was read counts.
    pub(crate) exited: bool,
}

impl<'a> ProcessMemory<'a> {
    pub(crate) fn new(pid: u32, tid: u32, maps: &'a [Mapping]) -> Self {
        Self {
            pid,
            tid,
            maps,
            pagemap: File::open(format!("/proc/{pid}/task/{tid}/pagemap")).ok(),
            mem: None,
            tables: FxHashMap::default(),
            bytes_read: 0,
            unreadable_pages: 0,
            exited: false,
        }
    }

    /// Reads a range, page by page where necessary. Unreadable pages are zero.
    fn read_all(&mut self, mut address: u64, mut into: &mut [u8]) {
        while !into.is_empty() {
            let done = match self.read_some(address, into) {
                Ok(done) if done > 0 => {
                    self.bytes_read += done as u64;
                    done
                }
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {
                    self.exited = true;
                    into.fill(0);
                    return;
                }
                _ => {
                    let page = ((PAGE - address % PAGE) as usize).min(into.len());
                    self.unreadable_pages += 1;
                    into[..page].fill(0);
                    page
                }
            };
            address = address.saturating_add(done as u64);
            into = &mut into[done..];
        }
    }

    fn read_some(&mut self, address: u64, into: &mut [u8]) -> io::Result<usize> {
        if let Some(mem) = &self.mem {
            return mem.read_at(into, address);
        }
        match whyslow_proc::read_memory(self.tid, address, into) {
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS)) => {
                let mem = File::open(format!("/proc/{}/task/{}/mem", self.pid, self.tid))?;
                self.mem.insert(mem).read_at(into, address)
            }
            result => result,
        }
    }

    /// Reads only existing pages; the others are zero, and are not created. Pages of shared memory can exist
    /// without being mapped here.
    fn read_existing(&mut self, address: u64, into: &mut [u8]) -> io::Result<()> {
        let Some(pagemap) = &self.pagemap else { return Err(io::ErrorKind::Unsupported.into()) };
        let first = address / PAGE;
        let pages = (address + into.len() as u64).div_ceil(PAGE) - first;
        let mut entries = vec![0; pages as usize * 8];
        pagemap.read_exact_at(&mut entries, first * 8)?;
        let exists: Vec<bool> = entries
            .as_chunks::<8>()
            .0
            .iter()
            .map(|entry| u64::from_le_bytes(*entry) & PRESENT != 0)
            .collect();
        let mut page = 0;
        for run in exists.chunk_by(|a, b| a == b) {
            let from = ((first + page) * PAGE).saturating_sub(address) as usize;
            page += run.len() as u64;
            let to = (((first + page) * PAGE - address) as usize).min(into.len());
            if run[0] {
                self.read_all(address + from as u64, &mut into[from..to]);
            } else {
                into[from..to].fill(0);
            }
        }
        Ok(())
    }

    fn looks_like_table(&mut self, address: u64) -> bool {
        let of_file = |mapping: &&Mapping| is_of_file(mapping);
        let maps = self.maps;
        if Mapping::find(maps, address).filter(of_file).is_none_or(|mapping| !mapping.readable) {
            return false;
        }
        let mut words = [0; TABLE_WORDS * 8];
        self.read(address, &mut words);
        let mut functions = 0;
        for word in words.as_chunks::<8>().0 {
            let word = u64::from_le_bytes(*word);
            if word == 0 {
                continue;
            }
            if Mapping::find(maps, word).filter(of_file).is_none_or(|mapping| !mapping.executable) {
                return false;
            }
            functions += 1;
            if functions == 2 {
                return true;
            }
        }
        false
    }
}

impl Memory for ProcessMemory<'_> {
    fn read(&mut self, address: u64, into: &mut [u8]) {
        let private = || Mapping::find(self.maps, address).is_some_and(|mapping| !mapping.shared);
        if into.len() < FILTERED_FROM || !private() || self.read_existing(address, into).is_err() {
            self.read_all(address, into);
        }
    }

    /// A place in a file's mapping that begins with two code addresses, apart from zeros.
    fn is_virtual_table(&mut self, address: u64) -> bool {
        if address < PAGE || !address.is_multiple_of(8) {
            return false;
        }
        if let Some(&known) = self.tables.get(&address) {
            return known;
        }
        let is = self.looks_like_table(address);
        self.tables.insert(address, is);
        is
    }
}
