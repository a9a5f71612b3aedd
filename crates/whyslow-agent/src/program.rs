//! The file that an exec will run: a program, or the interpreter of a script.

use core::ffi::{CStr, c_char};

use crate::arch;
use crate::sys::{self, HERE, how};

/// A path relative to a folder, as passed to the kernel. An empty path with [`Path::ITSELF`] means the file
/// `folder` itself.
#[derive(Clone, Copy)]
pub struct Path {
    folder: i32,
    name: *const c_char,
    flags: u64,
}

impl Path {
    pub const ITSELF: u64 = 0x1000;

    /// # Safety
    /// The name is a program's argument to an exec: a text that is valid until the exec is done, or garbage
    /// that the kernel cannot read.
    pub unsafe fn new(folder: i32, name: *const c_char, flags: u64) -> Self {
        Self { folder, name, flags }
    }

    /// The name, if the kernel can read it.
    pub fn name(&self) -> Option<&CStr> {
        if self.name.is_null() || !sys::is_readable(self.name as u64) {
            return None;
        }
        // SAFETY: it is readable, so it is a text, and valid until the exec is done.
        Some(unsafe { CStr::from_ptr(self.name) })
    }
}

/// Bytes read from a file at a time.
pub const PIECE: usize = 4096;

/// The file that will run, opened.
pub struct Program {
    pub file: i32,
    /// Whether the dynamic loader preloads the agent. If not, the file is static, runs with other rights, is
    /// for another machine, or cannot be read.
    pub preloads: bool,
}

/// Finds the file that will run. `None` if it cannot be executed, or is neither a program nor a script.
/// `buffer` is scratch space.
pub fn find(path: &Path, buffer: &mut [u8]) -> Option<Program> {
    const MOST_SCRIPTS: usize = 5;
    let mut opened = open(path.folder, path.name()?, path.flags, buffer)?;
    for _ in 0..MOST_SCRIPTS {
        let file = opened.file;
        let len = sys::read_at(file, 0, &mut buffer[..PIECE - 1]);
        let mut name = [0; LONGEST + 1];
        let Some(interpreter) = interpreter(&buffer[..len], &mut name) else {
            if opened.hidden {
                return Some(Program { file, preloads: false });
            }
            if is_elf(buffer, len) {
                let own_rights = opened.own_rights || sys::has_capabilities(file);
                return Some(Program { file, preloads: !own_rights && has_loader(file, buffer) });
            }
            break;
        };
        sys::close(file);
        opened = open(HERE, interpreter, 0, buffer)?;
    }
    sys::close(opened.file);
    None
}

struct Opened {
    file: i32,
    /// It runs as another user or group (setuid or setgid).
    own_rights: bool,
    /// It can be executed, but not read.
    hidden: bool,
}

/// Opens a file that may be executed. `buffer` is for a second name of it.
fn open(folder: i32, name: &CStr, flags: u64, buffer: &mut [u8]) -> Option<Opened> {
    const KIND: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    const OTHERS_RIGHTS: u32 = 0o6000;
    const EACCES: i32 = 13;
    let mode = sys::file_status(folder, name.as_ptr(), flags as usize)?.mode;
    if mode & KIND != REGULAR || mode & 0o111 == 0 {
        return None;
    }
    let (folder, name) = if flags & Path::ITSELF != 0 && name.is_empty() {
        (HERE, link_to(folder, buffer))
    } else {
        (folder, name)
    };
    let mut file = sys::open_at(folder, name.as_ptr(), how::NO_TERMINAL | how::WITHOUT_WAITING);
    let hidden = file == -EACCES;
    if hidden {
        file = sys::open_at(folder, name.as_ptr(), how::NAME);
    }
    (file >= 0).then_some(Opened { file, own_rights: mode & OTHERS_RIGHTS != 0, hidden })
}

/// The path that opens an already open file once more.
pub fn link_to(file: i32, buffer: &mut [u8]) -> &CStr {
    const FOLDER: &[u8] = b"/proc/self/fd/";
    let mut digits = 1;
    while digits < 10 && file as u32 >= 10u32.pow(digits) {
        digits += 1;
    }
    let end = FOLDER.len() + digits as usize;
    let mut rest = file as u32;
    for (at, to) in buffer[..=end].iter_mut().enumerate().rev() {
        *to = match FOLDER.get(at) {
            Some(byte) => *byte,
            None if at == end => 0,
            None => {
                let digit = rest % 10;
                rest /= 10;
                b'0' + digit as u8
            }
        };
    }
    CStr::from_bytes_until_nul(buffer).unwrap_or(c"")
}

/// Bytes read of a script's first line.
const LONGEST: usize = 255;

/// The interpreter that a script's first line names.
fn interpreter<'a>(script: &[u8], name: &'a mut [u8; LONGEST + 1]) -> Option<&'a CStr> {
    let first = &script[..script.len().min(LONGEST)];
    if !first.starts_with(b"#!") {
        return None;
    }
    let is_space = |byte: &u8| matches!(*byte, b' ' | b'\t');
    let line = first.iter().position(|byte| *byte == b'\n').unwrap_or(first.len());
    let start = 2 + first[2..line].iter().position(|byte| !is_space(byte))?;
    let end = first[start..line].iter().position(is_space).map_or(line, |len| start + len);
    name.fill(0);
    for (to, from) in name.iter_mut().zip(&first[start..end]) {
        *to = *from;
    }
    CStr::from_bytes_until_nul(name).ok()
}

const HEADER: usize = 64;

fn is_elf(buffer: &[u8], len: usize) -> bool {
    len >= HEADER && buffer.starts_with(b"\x7fELF")
}

/// Whether an ELF file is for this processor and names a dynamic loader. `buffer` holds its header.
fn has_loader(file: i32, buffer: &mut [u8]) -> bool {
    const SEGMENT: usize = 56;
    const PT_INTERP: [u8; 4] = 3u32.to_le_bytes();
    let half = |at: usize| u16::from_le_bytes([buffer[at], buffer[at + 1]]);
    // 64-bit, little-endian.
    if buffer[4] != 2 || buffer[5] != 1 || half(18) != arch::ELF_MACHINE {
        return false;
    }
    let count = half(56) as usize;
    let mut at = 0u64;
    for byte in buffer[32..40].iter().rev() {
        at = at << 8 | u64::from(*byte);
    }
    let len = sys::read_at(file, at, buffer);
    buffer[..len].chunks_exact(SEGMENT).take(count).any(|segment| segment.starts_with(&PT_INTERP))
}
