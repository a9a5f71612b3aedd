//! How the agent starts: it finds the collector, sends the addresses of its hooks, maps the area, and applies
//! the patches. If any of that fails, it does nothing further and the program runs as if it were not there.

use core::ffi::{CStr, c_char};
use core::ptr;
use core::slice;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU8, AtomicU32};

use whyslow_agent_wire::area::{self, flag};
use whyslow_agent_wire::handshake::{Hello, MOST_WELCOME, entered, hook};
use whyslow_agent_wire::purpose::Purpose;
use whyslow_agent_wire::{SOCKET_VARIABLE, VERSION};

use crate::arch::thread::{self, ThreadWord};
use crate::area::Area;
use crate::link;
use crate::sys::{self, Pages, Place};
use crate::{arch, causal, confined, heap, hooks, loaded, modules, patch, real, sampler, signals, state};

/// Entry point for the loader. glibc passes the environment, other loaders do not.
///
/// # Safety
/// Only the loader calls it.
unsafe extern "C" fn preloaded(
    _count: i32,
    _arguments: *const *const c_char,
    environment: *const *const c_char,
) {
    // Without a word per thread, the dynamic loader is not the caller.
    if ThreadWord::of_state().is_none() {
        return;
    }
    real::find_all();
    // SAFETY: the loader's own argument, if this is glibc's.
    unsafe { begin_once(environment) };
}

/// Starts when the allocator is called before the loader calls the agent: from `.preinit_array`, or from the
/// constructor of an earlier library. The real functions are known by then.
pub fn early() {
    if ThreadWord::of_state().is_some() {
        // SAFETY: no environment.
        unsafe { begin_once(ptr::null()) };
    }
}

/// Set on the first start. Nested calls must not start again.
static BEGUN: AtomicU32 = AtomicU32::new(0);

/// # Safety
/// `environment` is null, or what glibc's loader passes.
unsafe fn begin_once(environment: *const *const c_char) {
    if BEGUN.swap(1, AcqRel) != 0 {
        return;
    }
    let mut path = [0u8; SOCKET_LEN];
    // SAFETY: the caller upholds the same contract.
    let len = unsafe { socket_from(environment, &mut path) }.or_else(|| socket_from_file(&mut path));
    if let Some(len) = len {
        // SAFETY: constructors run before the program starts threads.
        unsafe { begin(entered::PRELOADED, &path[..len]) };
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: unsafe extern "C" fn(i32, *const *const c_char, *const *const c_char) = preloaded;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = arch::exit::finished;

/// Entry point for static programs: called once, before the program's first instruction, with the collector's
/// socket and the program's headers in memory.
///
/// # Safety
/// `socket` must be a zero-terminated text, the headers must never be unmapped, and no code of the program
/// may have run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn whyslow_agent_enter(socket: *const c_char, base: u64, headers: u64, count: u64) {
    thread::detect_base_access();
    // SAFETY: guaranteed by the caller.
    unsafe {
        modules::set_program(base, headers, count);
        begin(entered::INJECTED, CStr::from_ptr(socket).to_bytes());
    }
}

/// The longest path of a socket.
pub const SOCKET_LEN: usize = 108;
/// The path of the collector's socket, for later requests.
static SOCKET: [AtomicU8; SOCKET_LEN] = [const { AtomicU8::new(0) }; SOCKET_LEN];

/// Copies the path of the collector's socket and returns its length.
pub fn socket(into: &mut [u8]) -> usize {
    let mut len = 0;
    for (to, from) in into.iter_mut().zip(&SOCKET) {
        *to = from.load(Relaxed);
        if *to == 0 {
            break;
        }
        len += 1;
    }
    len
}

/// Opens another connection to the collector. Negative on failure.
pub fn connect() -> i32 {
    let mut path = [0; SOCKET_LEN];
    let len = socket(&mut path);
    sys::connect(&path[..len])
}

/// # Safety
/// The program has one thread, and no code runs that may be patched.
unsafe fn begin(entered: u32, socket: &[u8]) -> Option<()> {
    for (to, from) in SOCKET.iter().zip(socket) {
        to.store(*from, Relaxed);
    }
    confined::remember();
    // SAFETY: there is one thread.
    unsafe { loaded::remember() };
    let mut buffer = Pages::new(MOST_WELCOME)?;
    let socket = sys::connect(socket);
    if socket >= 0 {
        // SAFETY: the caller upholds the same contract.
        unsafe { exchange(entered, socket, buffer.bytes()) };
        sys::close(socket);
    }
    Some(())
}

/// # Safety
/// Same as [`begin`].
unsafe fn exchange(entered: u32, socket: i32, buffer: &mut [u8]) -> Option<()> {
    // All mappings are placed before the collector looks for free places for patch pages.
    let place = Place::apart(area::FIRST_LEN)?;
    if !state::watch_forks() || !say(socket, &hello(entered)) {
        return None;
    }
    let (len, file) = sys::receive(socket, buffer);
    if file < 0 {
        return None;
    }
    // SAFETY: the collector's answer to the hello above. The caller guarantees the rest.
    let joined = unsafe { patch::prepare(&buffer[..len]) }.and_then(|patches| {
        let joined = join(place, file, &patches);
        if joined.is_none() {
            patches.undo();
        }
        joined
    });
    sys::close(file);
    joined
}

fn join(mut place: Place, file: i32, patches: &patch::Prepared<'_>) -> Option<()> {
    if !place.map_shared(file) {
        return None;
    }
    // SAFETY: the area begins with its header, and is mapped as long as `place` lives.
    let header = unsafe { place.at().cast::<area::Header>().as_ref() };
    if header.version.load(Acquire) != VERSION || !patches.apply() {
        return None;
    }
    let (start, end) = own_range();
    header.agent_len.store(end - start, Relaxed);
    header.agent_start.store(start, Release);
    state::publish_states(header);
    // SAFETY: the area's file is mapped there and is never unmapped.
    unsafe { Area::set(place.keep(), file) };
    if let Some(area) = Area::get() {
        begin_purposes(area, file);
        if area.flags() & flag::WAIT_AT_EXIT != 0 {
            signals::install_handlers();
        }
    }
    Some(())
}

/// Starts what the agent is for. The area's file is still open.
fn begin_purposes(area: Area, file: i32) {
    let purposes = area.purposes();
    if purposes.has(Purpose::Heap) {
        heap::begin(area);
    }
    if purposes.has(Purpose::Samples) {
        sampler::begin(file);
    }
    if purposes.has(Purpose::Causal) {
        causal::begin(file);
    }
}

/// Sends a hello.
pub fn say(socket: i32, hello: &Hello) -> bool {
    const FIELDS: usize = 4 * 4 + 8 * (hook::COUNT + 2 + hook::PER_GROUP + 1);
    const { assert!(size_of::<Hello>() == FIELDS, "a hello has no padding") };
    // SAFETY: a structure of integers without padding consists of initialised bytes.
    let bytes = unsafe { slice::from_raw_parts(ptr::from_ref(hello).cast(), size_of::<Hello>()) };
    sys::send(socket, bytes)
}

/// The hello message of this process.
pub fn hello(entered: u32) -> Hello {
    let (start, end) = own_range();
    let mut hello = Hello {
        version: VERSION,
        entered,
        pid: sys::process(),
        reserved: 0,
        hooks: hooks::all(),
        agent_start: start,
        agent_end: end,
        next: [0; hook::PER_GROUP],
        library: 0,
    };
    if entered == entered::PRELOADED {
        for (slot, next) in hello.next.iter_mut().enumerate() {
            *next = real::of(slot).map_or(0, real::Function::address);
        }
    }
    hello
}

/// The agent's own address range, from linker symbols.
fn own_range() -> (u64, u64) {
    unsafe extern "C" {
        static __ehdr_start: u8;
        static _end: u8;
    }
    (&raw const __ehdr_start as u64, (&raw const _end as u64).next_multiple_of(4096))
}

/// Copies the socket's path from the environment and returns its length.
///
/// # Safety
/// Same as [`begin_once`].
unsafe fn socket_from(environment: *const *const c_char, path: &mut [u8]) -> Option<usize> {
    if environment.is_null() || link::glibc_version().is_none() {
        return None;
    }
    for index in 0.. {
        // SAFETY: the environment is an array of texts that ends with a null pointer.
        let text = unsafe { *environment.add(index) };
        if text.is_null() {
            break;
        }
        // SAFETY: as above.
        if let Some(len) = value(unsafe { CStr::from_ptr(text) }.to_bytes(), path) {
            return Some(len);
        }
    }
    None
}

/// The same, from the kernel's copy of the environment at program start.
fn socket_from_file(path: &mut [u8]) -> Option<usize> {
    const MOST: usize = 4 << 20;
    let file = sys::open(c"/proc/self/environ");
    if file < 0 {
        return None;
    }
    let found = Pages::new(MOST).and_then(|mut pages| {
        let bytes = pages.bytes();
        let mut len = 0;
        loop {
            match sys::read(file, &mut bytes[len..]) {
                0 => break,
                more => len += more,
            }
        }
        bytes[..len].split(|byte| *byte == 0).find_map(|text| value(text, path))
    });
    sys::close(file);
    found
}

fn value(text: &[u8], path: &mut [u8]) -> Option<usize> {
    let value = text.strip_prefix(SOCKET_VARIABLE.as_bytes())?.strip_prefix(b"=")?;
    path.get_mut(..value.len())?.copy_from_slice(value);
    Some(value.len())
}
