//! What the converter has to ask of the outside.

use whyslow_profile::{ProcessId, ThreadId};
use whyslow_unwind::Image;

/// What a mapping says about its file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// Its path, as the process has it.
    pub path: String,
    /// The major and minor number of its device.
    pub device: (u32, u32),
    /// Its number there; 0 when it is not known.
    pub inode: u64,
}

/// A mapping of a file into a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMapping {
    /// The file.
    pub key: FileKey,
    /// Tells files apart that had the same inode number one after the other; 0 when it is not known.
    pub generation: u64,
    /// The first address.
    pub start: u64,
    /// One past the last address.
    pub end: u64,
    /// The offset in the file of `start`.
    pub offset: u64,
}

/// What is known of the file behind a mapping.
#[derive(Debug)]
pub struct Opened {
    /// What its module is called.
    pub name: String,
    /// Its code, if the very file that was mapped is there.
    pub image: Option<Image>,
    /// Its build id, in hexadecimal, when it is known otherwise than by the image.
    pub build_id: Option<String>,
}

/// A process that runs already.
#[derive(Debug, Default, Clone)]
pub struct Running {
    /// Its name, if it tells.
    pub name: Option<String>,
    /// Its threads by number, with their names.
    pub threads: Vec<(u32, Option<String>)>,
    /// All its mappings.
    pub mappings: Vec<RunningMapping>,
}

/// A mapping of a process that runs already.
#[derive(Debug, Clone)]
pub struct RunningMapping {
    /// Where, and of what.
    pub mapping: FileMapping,
    /// Whether it is code.
    pub executable: bool,
    /// Whether its file is the program that the process executes.
    pub is_program: bool,
}

/// Why memory could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadError {
    /// The process must not be read, now or later.
    Refused,
    /// Nothing is there, or the process has ended.
    Missing,
}

/// The rows of a thread and its process, by the thread's number.
pub type TaskRows<'a> = &'a dyn Fn(u32) -> Option<(ThreadId, ProcessId)>;

/// The outside. A world that does not know something says so; the converter does with what it gets.
pub trait World {
    /// The file behind a mapping: the one that was mapped, never another one of its name.
    fn open(&mut self, pid: u32, mapping: &FileMapping) -> Opened;

    /// The device and number of the file that a process has under a path.
    fn identify(&mut self, pid: u32, path: &str) -> FileKey;

    /// The code that the kernel gives to every process.
    fn vdso(&mut self) -> Opened;

    /// The build id of the kernel, in hexadecimal.
    fn kernel_build_id(&mut self) -> Option<String>;

    /// Whether the kernel of the recording still runs, with its code at this address, so that its modules are where they were.
    fn is_kernel_at(&mut self, text: u64) -> bool;

    /// Whether the recorded processes are there, and their memory with them.
    fn has_memory(&self) -> bool;

    /// Reads memory of a recorded process; how much of `into` was filled.
    fn read_memory(&self, pid: u32, address: u64, into: &mut [u8]) -> Result<usize, ReadError>;

    /// What a process is that runs now and was recorded before it was known; `None` when nobody can be asked.
    fn running(&mut self, pid: u32) -> Option<Running>;

    /// What a descriptor of a process is of now, and when that is: a path, or the system's words for something else.
    fn descriptor(&mut self, _pid: u32, _descriptor: i32) -> Option<(String, u64)> {
        None
    }

    /// A record told the build id of a mapped file.
    fn build_id_told(&mut self, _path: &str, _build_id: &[u8]) {}

    /// A process is known from now on.
    fn process_started(&mut self, _pid: u32) {}

    /// A process has ended.
    fn process_ended(&mut self, _pid: u32) {}

    /// A process has mapped a file, as code or as data; `tid` is the thread that did, if it is known.
    fn file_mapped(&mut self, _pid: u32, _tid: Option<u32>, _path: &str, _tasks: TaskRows<'_>) {}
}
