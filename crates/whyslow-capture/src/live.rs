//! The live system, as the converter queries it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;

use whyslow_convert::{
    FileKey, FileMapping, Opened, ReadError, Running, RunningMapping, TaskRows, VDSO, World,
};
use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_proc::{DELETED, Mapping, kernel, process};
use whyslow_unwind::Image;

use crate::calls;
use crate::marks::{self, Marks};
use crate::reach::{self, Reached};
use crate::sockets::Sockets;

/// The processes of this machine, and their marks.
#[derive(Debug, Default)]
pub(crate) struct LiveWorld {
    /// The marks that programs emit.
    pub(crate) marks: Marks,
    sockets: Sockets,
}

impl LiveWorld {
    pub(crate) fn new(marks: Marks) -> Self {
        Self { marks, sockets: Sockets::default() }
    }
}

impl World for LiveWorld {
    fn open(&mut self, pid: u32, mapping: &FileMapping) -> Opened {
        let mut name = mapping.key.path.clone();
        let image = match reach::reach(pid, mapping) {
            Reached::File(file) => Image::from_file(file).ok(),
            Reached::Gone => {
                // Keeps the deleted file apart from a newer file of the same name.
                if !name.ends_with(DELETED) {
                    name.push_str(DELETED);
                }
                None
            }
            Reached::Unreadable => None,
        };
        Opened { name, image, build_id: None }
    }

    fn identify(&mut self, pid: u32, path: &str) -> FileKey {
        // The process may have a different root folder.
        let file = fs::metadata(process::file_in_root(pid, path)).or_else(|_| fs::metadata(path)).ok();
        let device = file.as_ref().map_or((0, 0), |file| {
            let device = file.dev();
            (rustix::fs::major(device), rustix::fs::minor(device))
        });
        FileKey { path: path.to_owned(), device, inode: file.map_or(0, |file| file.ino()) }
    }

    /// All processes map the same vDSO, so the recorder's copy serves for all.
    fn vdso(&mut self) -> Opened {
        let image = kernel::vdso().ok().and_then(|bytes| Image::from_bytes(bytes).ok());
        Opened { name: VDSO.to_owned(), image, build_id: None }
    }

    fn kernel_build_id(&mut self) -> Option<String> {
        kernel::build_id().map(|id| id.to_string())
    }

    fn is_kernel_at(&mut self, _text: RunTimeAddress) -> bool {
        true
    }

    fn has_memory(&self) -> bool {
        true
    }

    fn read_memory(&self, pid: u32, address: RunTimeAddress, into: &mut [u8]) -> Result<usize, ReadError> {
        whyslow_proc::read_memory(pid, address.0, into).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => ReadError::Refused,
            _ => ReadError::Missing,
        })
    }

    fn running(&mut self, pid: u32) -> Option<Running> {
        let program = process::program(pid);
        let is_program = |name: &str| program.as_ref().is_some_and(|path| path.to_string_lossy() == name);
        let mappings = Mapping::all_of(pid).unwrap_or_default().into_iter();
        let threads = process::threads(pid).unwrap_or_default().into_iter();
        Some(Running {
            name: process::name(pid),
            threads: threads.map(|tid| (tid, process::thread_name(pid, tid))).collect(),
            mappings: mappings
                .map(|mapping| RunningMapping {
                    executable: mapping.executable,
                    is_program: is_program(&mapping.name),
                    mapping: file_mapping(mapping),
                })
                .collect(),
        })
    }

    fn now_ns(&self) -> Option<ClockNs> {
        Some(whyslow_proc::now())
    }

    fn descriptor(&mut self, pid: u32, descriptor: i32) -> Option<(String, ClockNs)> {
        let name = calls::descriptor(pid, descriptor, &mut self.sockets)?;
        Some((name, whyslow_proc::now()))
    }

    fn process_started(&mut self, pid: u32) {
        self.marks.process_started(pid);
    }

    fn process_ended(&mut self, pid: u32) {
        self.marks.process_ended(pid);
    }

    /// A marker file belongs to the thread that maps it or, if that is unknown, to the thread in its name.
    fn file_mapped(&mut self, pid: u32, tid: Option<u32>, path: &str, tasks: TaskRows<'_>) {
        if marks::is_marker_file(path) {
            let thread = tid.or_else(|| marks::thread_in_name(path)).and_then(tasks);
            self.marks.marker_file(pid, path, thread.map(|(thread, _)| thread));
        }
    }
}

/// Converts a line of a process's maps into a file mapping.
pub(crate) fn file_mapping(mapping: Mapping) -> FileMapping {
    let Mapping { start, end, offset, device, inode, name, .. } = mapping;
    let [start, end] = [start, end].map(RunTimeAddress);
    FileMapping { key: FileKey { path: name, device, inode }, generation: 0, start, end, offset }
}
