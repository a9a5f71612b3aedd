//! The converter's questions to the outside.

use whyslow_numbers::{ClockNs, RunTimeAddress};
use whyslow_profile::{ProcessId, ThreadId};
use whyslow_unwind::Image;

/// The identity of a mapped file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Its path as the process sees it.
    pub path: String,
    /// The major and minor number of its device.
    pub device: (u32, u32),
    /// Its inode; 0 if unknown.
    pub inode: u64,
}

/// A mapping of a file into a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMapping {
    /// The file.
    pub key: FileKey,
    /// Distinguishes files that had the same inode one after the other; 0 if unknown.
    pub generation: u64,
    /// The first address.
    pub start: RunTimeAddress,
    /// One past the last address.
    pub end: RunTimeAddress,
    /// The file offset of `start`.
    pub offset: u64,
}

/// The file behind a mapping.
#[derive(Debug)]
pub struct Opened {
    /// The name of its module.
    pub name: String,
    /// Its code, if the file that was mapped is available.
    pub image: Option<Image>,
    /// Its build id in hexadecimal, if known from elsewhere than the image.
    pub build_id: Option<String>,
}

/// A process that already runs.
#[derive(Debug, Default, Clone)]
pub struct Running {
    /// Its name, if known.
    pub name: Option<String>,
    /// Its threads by number, with their names.
    pub threads: Vec<(u32, Option<String>)>,
    /// All its mappings.
    pub mappings: Vec<RunningMapping>,
}

/// A mapping of a process that already runs.
#[derive(Debug, Clone)]
pub struct RunningMapping {
    /// The addresses and the file.
    pub mapping: FileMapping,
    /// Whether it is code.
    pub executable: bool,
    /// Whether its file is the program that the process executes.
    pub is_program: bool,
}

/// Why memory could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// The process's memory may not be read, now or later.
    Refused,
    /// Nothing is mapped there, or the process has exited.
    Missing,
}

/// The rows of a thread and its process, by the thread's number.
pub type TaskRows<'a> = &'a dyn Fn(u32) -> Option<(ThreadId, ProcessId)>;

/// The outside. A world may not know everything; the converter works with the answers it gets.
pub trait World {
    /// Opens the file behind a mapping: the one that was mapped, never another one at the same path.
    fn open(&mut self, pid: u32, mapping: &FileMapping) -> Opened;

    /// The device and inode of the file that a process has at a path.
    fn identify(&mut self, pid: u32, path: &str) -> FileKey;

    /// The code that the kernel maps into every process.
    fn vdso(&mut self) -> Opened;

    /// The build id of the kernel, in hexadecimal.
    fn kernel_build_id(&mut self) -> Option<String>;

    /// Whether the recorded kernel still runs, with its code at this address, so that its modules have not
    /// moved.
    fn is_kernel_at(&mut self, text: RunTimeAddress) -> bool;

    /// Whether the recorded processes, and so their memory, are accessible.
    fn has_memory(&self) -> bool;

    /// Reads memory of a recorded process. Returns how much of `into` was filled.
    fn read_memory(&self, pid: u32, address: RunTimeAddress, into: &mut [u8]) -> Result<usize, ReadError>;

    /// The time now, on the clock of the records; `None` if they are not recorded now.
    fn now_ns(&self) -> Option<ClockNs> {
        None
    }

    /// Describes a running process whose start was not recorded; `None` if it cannot be queried.
    fn running(&mut self, pid: u32) -> Option<Running>;

    /// What a descriptor of a process refers to now, and the current time: a path, or the system's name of
    /// something else.
    fn descriptor(&mut self, _pid: u32, _descriptor: i32) -> Option<(String, ClockNs)> {
        None
    }

    /// A record contains the build id of a mapped file.
    fn build_id_recorded(&mut self, _path: &str, _build_id: &[u8]) {}

    /// A new process is known.
    fn process_started(&mut self, _pid: u32) {}

    /// A process has exited.
    fn process_ended(&mut self, _pid: u32) {}

    /// A process has mapped a file, as code or as data. `tid` is the thread that did, if known.
    fn file_mapped(&mut self, _pid: u32, _tid: Option<u32>, _path: &str, _tasks: TaskRows<'_>) {}
}
