//! What an exec will run: a program, or the interpreter of a script.

use core::ffi::c_char;

use crate::sys::{self, HERE, how};

/// A path in a folder. An empty one with [`Path::ITSELF`] is what `folder` stands for.
pub struct Path {
    pub folder: i32,
    pub name: *const c_char,
    pub flags: u64,
}

impl Path {
    pub const ITSELF: u64 = 0x1000;
}

/// What is read of a file at a time.
pub const PIECE: usize = 4096;

/// What will run, opened.
pub struct Program {
    pub file: i32,
    /// The dynamic loader brings the agent in. If not it is static, has rights of its own, is for another machine, or cannot be
    /// read to know.
    pub preloads: bool,
}

/// Looks for what will run. None for what cannot be executed, or is neither a program nor a script. The buffer is for reading.
pub fn find(path: &Path, buffer: &mut [u8]) -> Option<Program> {
    const MOST_SCRIPTS: usize = 5;
    let mut opened = open(path, buffer)?;
    for _ in 0..MOST_SCRIPTS {
        let file = opened.file;
        let len = sys::read_at(file, 0, &mut buffer[..PIECE - 1]);
        let Some(interpreter) = interpreter(buffer, len) else {
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
        opened = open(&Path { folder: HERE, name: interpreter, flags: 0 }, buffer)?;
    }
    sys::close(opened.file);
    None
}

struct Opened {
    file: i32,
    /// It runs as another user or group.
    own_rights: bool,
    /// It may be executed, but not read.
    hidden: bool,
}

/// Opens what may be executed. The path may lie in the buffer.
fn open(path: &Path, buffer: &mut [u8]) -> Option<Opened> {
    const KIND: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    const OTHERS_RIGHTS: u32 = 0o6000;
    const EACCES: i32 = 13;
    if path.name.is_null() {
        return None;
    }
    // SAFETY: the path is the program's, or ends with a zero byte.
    let mode = unsafe { sys::know(path.folder, path.name, path.flags as usize) }?.mode;
    if mode & KIND != REGULAR || mode & 0o111 == 0 {
        return None;
    }
    let (folder, name) = if path.flags & Path::ITSELF != 0 && is_empty(path.name) {
        (HERE, link_to(path.folder, buffer))
    } else {
        (path.folder, path.name)
    };
    // SAFETY: as above.
    let mut file = unsafe { sys::open_at(folder, name, how::NO_TERMINAL | how::WITHOUT_WAITING) };
    let hidden = file == -EACCES;
    if hidden {
        // SAFETY: as above.
        file = unsafe { sys::open_at(folder, name, how::NAME) };
    }
    (file >= 0).then_some(Opened { file, own_rights: mode & OTHERS_RIGHTS != 0, hidden })
}

fn is_empty(name: *const c_char) -> bool {
    // SAFETY: the kernel has just read it.
    unsafe { *name == 0 }
}

/// The path by which an open file is opened once more.
pub fn link_to(file: i32, buffer: &mut [u8]) -> *const c_char {
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
    buffer.as_ptr().cast()
}

/// The interpreter that a script's first line names, as a text that ends with a zero byte. There is room behind the script.
fn interpreter(buffer: &mut [u8], len: usize) -> Option<*const c_char> {
    const LONGEST: usize = 255;
    let first = &buffer[..len.min(LONGEST)];
    if !first.starts_with(b"#!") {
        return None;
    }
    let is_space = |byte: &u8| matches!(*byte, b' ' | b'\t');
    let line = first.iter().position(|byte| *byte == b'\n').unwrap_or(first.len());
    let start = 2 + first[2..line].iter().position(|byte| !is_space(byte))?;
    let end = first[start..line].iter().position(is_space).map_or(line, |len| start + len);
    buffer[end] = 0;
    Some(buffer[start..].as_ptr().cast())
}

const HEADER: usize = 64;

fn is_elf(buffer: &[u8], len: usize) -> bool {
    len >= HEADER && buffer.starts_with(b"\x7fELF")
}

/// Whether an ELF file asks for the dynamic loader of x86-64. Its header is in the buffer.
fn has_loader(file: i32, buffer: &mut [u8]) -> bool {
    const FOR_X86_64: u16 = 62;
    const SEGMENT: usize = 56;
    const PT_INTERP: [u8; 4] = 3u32.to_le_bytes();
    let half = |at: usize| u16::from_le_bytes([buffer[at], buffer[at + 1]]);
    // 64 bits, the lower byte first.
    if buffer[4] != 2 || buffer[5] != 1 || half(18) != FOR_X86_64 {
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
