//! Programs that this one executes. The dynamic loader brings the agent into most of them. For one that has no loader the collector is asked
//! before: it traces the thread, and brings the agent in when the exec is done.
//!
//! These functions are called between `vfork` and exec too, on little stack and in the parent's memory. So they look at no state
//! of a thread, leave nothing behind, and make nothing but system calls.

use core::ffi::c_char;
use core::mem;
use core::slice;

use whyslow_heap_wire::exec::{LEN, Message};
use whyslow_heap_wire::handshake::hook;

use crate::area::Area;
use crate::sys::{self, HERE, how};
use crate::{confined, real, start};

/// A path in a folder. An empty one with [`Path::ITSELF`] is what `folder` stands for.
struct Path {
    folder: i32,
    name: *const c_char,
    flags: u64,
}

impl Path {
    const ITSELF: u64 = 0x1000;
}

/// libc's `execve`, with a patch at its start.
pub extern "C" fn execve(name: *const c_char, arguments: u64, environment: u64) -> u64 {
    around(&Path { folder: HERE, name, flags: 0 }, || {
        call(hook::EXECVE, [name as u64, arguments, environment, 0, 0])
    })
}

/// libc's `execveat`, likewise.
pub extern "C" fn execveat(
    folder: i32,
    name: *const c_char,
    arguments: u64,
    environment: u64,
    flags: u64,
) -> u64 {
    around(&Path { folder, name, flags: flags & Path::ITSELF }, || {
        call(hook::EXECVEAT, [folder as u64, name as u64, arguments, environment, flags])
    })
}

/// libc's `fexecve`, likewise.
pub extern "C" fn fexecve(file: i32, arguments: u64, environment: u64) -> u64 {
    around(&Path { folder: file, name: c"".as_ptr(), flags: Path::ITSELF }, || {
        call(hook::FEXECVE, [file as u64, arguments, environment, 0, 0])
    })
}

fn call(hook: usize, a: [u64; 5]) -> u64 {
    // SAFETY: the function that the hook stands in for, with the caller's own arguments.
    unsafe {
        let real: extern "C" fn(u64, u64, u64, u64, u64) -> u64 = mem::transmute(real::of(hook));
        real(a[0], a[1], a[2], a[3], a[4])
    }
}

/// Asks if that is needed, and executes. Who comes back has failed, with `errno` set.
fn around(path: &Path, execute: impl FnOnce() -> u64) -> u64 {
    let asked = ask(path);
    let result = execute();
    if let Some(socket) = asked {
        let mut answer = [0; LEN];
        if sys::send(socket, &Message::Failed.to_bytes()) {
            sys::receive(socket, &mut answer);
        }
        sys::close(socket);
    }
    result
}

/// What is read of a file at a time.
const PIECE: usize = 4096;

/// Asks the collector about a program without a loader. The socket to say on that the exec failed; it closes by itself otherwise.
#[inline(never)]
fn ask(path: &Path) -> Option<i32> {
    Area::get().filter(|area| area.enabled())?;
    let page = sys::pages(PIECE);
    if page.is_null() {
        return None;
    }
    // SAFETY: fresh pages.
    let buffer = unsafe { slice::from_raw_parts_mut(page, PIECE) };
    let socket = to_be_asked_about(path, buffer).and_then(|file| {
        let socket = if confined::since_the_start(buffer) { None } else { exchange(file) };
        sys::close(file);
        socket
    });
    sys::unmap(page as usize, PIECE);
    socket
}

fn exchange(file: i32) -> Option<i32> {
    let socket = start::connect();
    if socket < 0 {
        return None;
    }
    let ask = Message::Ask { first_thread: sys::thread() == sys::process() };
    let mut answer = [0; LEN];
    if sys::send_with_file(socket, &ask.to_bytes(), file) {
        sys::receive(socket, &mut answer);
    }
    if Message::parse(&answer) == Some(Message::Watched) {
        return Some(socket);
    }
    sys::close(socket);
    None
}

/// The file that will run, if the loader does not bring the agent into it: it is static, has rights of its own, is for another machine,
/// or cannot be read to know.
fn to_be_asked_about(path: &Path, buffer: &mut [u8]) -> Option<i32> {
    const MOST_SCRIPTS: usize = 5;
    let mut program = open(path, buffer)?;
    for _ in 0..MOST_SCRIPTS {
        let file = program.file;
        let len = sys::read_at(file, 0, &mut buffer[..PIECE - 1]);
        let Some(interpreter) = interpreter(buffer, len) else {
            if program.hidden || is_elf(buffer, len) && (program.own_rights || !has_loader(file, buffer)) {
                return Some(file);
            }
            break;
        };
        sys::close(file);
        program = open(&Path { folder: HERE, name: interpreter, flags: 0 }, buffer)?;
    }
    sys::close(program.file);
    None
}

struct Program {
    file: i32,
    /// It runs as another user or group.
    own_rights: bool,
    /// It may be executed, but not read.
    hidden: bool,
}

/// Opens what may be executed. The path may lie in the buffer.
fn open(path: &Path, buffer: &mut [u8]) -> Option<Program> {
    const KIND: u32 = 0o170_000;
    const REGULAR: u32 = 0o100_000;
    const OTHERS_RIGHTS: u32 = 0o6000;
    const EACCES: i32 = 13;
    if path.name.is_null() {
        return None;
    }
    // SAFETY: the path is the program's, or ends with a zero byte.
    let mode = unsafe { sys::mode_of(path.folder, path.name, path.flags as usize) }?;
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
    (file >= 0).then_some(Program { file, own_rights: mode & OTHERS_RIGHTS != 0, hidden })
}

fn is_empty(name: *const c_char) -> bool {
    // SAFETY: the kernel has just read it.
    unsafe { *name == 0 }
}

/// The path by which an open file is opened once more.
fn link_to(file: i32, buffer: &mut [u8]) -> *const c_char {
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
