//! Libraries that come later and bring an allocator of their own. The loader calls [`changed`] when they are mapped and none of their
//! code has run, so they can be patched like what was there from the start.

use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use whyslow_heap_wire::handshake::{MOST_WELCOME, entered, hook};

use crate::area::Area;
use crate::sys::Pages;
use crate::{confined, link, patch, real, start, state, sys};

/// The loader's own list of libraries (`r_debug`), as debuggers read it.
#[repr(C)]
pub struct List {
    version: i32,
    first: AtomicPtr<Library>,
    told_by: u64,
    state: i32,
    /// Where the loader itself lies.
    loader: AtomicU64,
}

/// A library in it (`link_map`); only the loader makes them.
#[repr(C)]
pub struct Library {
    base: u64,
    name: *const c_char,
    /// Its dynamic section: an address that it has alone.
    dynamic: u64,
    next: AtomicPtr<Library>,
}

impl Library {
    /// What is added to the addresses in its file.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The path of its file; the program's is empty.
    pub fn name(&self) -> &CStr {
        // SAFETY: the loader's names end with a zero byte, and live as long as the entry.
        if self.name.is_null() { c"" } else { unsafe { CStr::from_ptr(self.name) } }
    }
}

/// Libraries that are known by their dynamic section; 0 for none. Bit 0 is a mark that [`look`] uses.
static KNOWN: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
const MOST: usize = 4096;
const MARK: u64 = 1;

/// A library that was patched: its dynamic section, its page and the page's length.
struct Patched([AtomicU64; 3]);

const MOST_PATCHED: usize = 64;
static PATCHED: [Patched; MOST_PATCHED] = [const { Patched([const { AtomicU64::new(0) }; 3]) }; MOST_PATCHED];

/// Where the loader's code begins and ends.
static LOADER: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Bytes of a row in the loader's table of a thread's storage. There is one per library that has such storage, and the agent is one of them.
const TABLE_ROW: u64 = 16;

/// How many bytes less the program itself would ask for, when this address calls for so many rows of this size: the loader makes a thread's table
/// larger because of the agent.
#[inline]
pub fn own_share(row: u64, caller: u64) -> u64 {
    let [start, end] = &LOADER;
    if row == TABLE_ROW && (start.load(Relaxed)..end.load(Relaxed)).contains(&caller) { TABLE_ROW } else { 0 }
}

fn remember_loader() {
    const MOST: u64 = 16 << 20;
    let Some(list) = link::loaders_list() else { return };
    let (list, start) = (ptr::from_ref(list) as u64, list.loader.load(Relaxed));
    // The list lies in its data, behind its code.
    if start != 0 && list.wrapping_sub(start) < MOST {
        LOADER[0].store(start, Relaxed);
        LOADER[1].store(list, Relaxed);
    }
}

/// Remembers what is there from the start.
///
/// # Safety
/// As for [`libraries`].
pub unsafe fn remember() {
    remember_loader();
    // SAFETY: passed on.
    for (row, library) in KNOWN.iter().zip(unsafe { libraries() }) {
        row.store(library, Relaxed);
    }
}

/// The loader's `_dl_debug_state`, with a patch at its start. It holds the loader's lock: nobody else is here.
///
/// # Safety
/// Only the loader calls it.
pub unsafe extern "C" fn changed() {
    // SAFETY: the loader holds its lock.
    unsafe { look() };
    if let Some(real) = real::of(hook::LOADED) {
        // SAFETY: the function that the hook stands in for.
        unsafe { real.call([]) };
    }
}

/// The dynamic sections of all libraries.
///
/// # Safety
/// The list does not change meanwhile: the loader's lock is held, or there is one thread.
unsafe fn libraries() -> impl Iterator<Item = u64> {
    let mut next = link::loaders_list().map_or(ptr::null_mut(), |list| list.first.load(Relaxed));
    core::iter::from_fn(move || {
        // SAFETY: null, or an entry of the loader's list, which does not change.
        let library = unsafe { next.as_ref() }?;
        next = library.next.load(Relaxed);
        Some(library.dynamic & !MARK)
    })
}

/// # Safety
/// As for [`libraries`].
unsafe fn look() {
    if !Area::get().is_some_and(|area| area.enabled()) {
        return;
    }
    state::note_fork();
    if !state::is_own_process() {
        return;
    }
    // Most are where they were the last time.
    let mut at = 0;
    // SAFETY: passed on.
    for library in unsafe { libraries() } {
        let is_it = |at: usize| KNOWN[at % MOST].load(Relaxed) & !MARK == library;
        if let Some(found) = (at..at + MOST).find(|at| is_it(*at)) {
            KNOWN[found % MOST].store(library | MARK, Relaxed);
            at = found + 1;
        } else if let Some(free) = KNOWN.iter().find(|row| row.load(Relaxed) == 0) {
            free.store(library | MARK, Relaxed);
            // SAFETY: the loader holds its lock, and none of the library's code has run.
            unsafe { came(library) };
        }
    }
    for row in &KNOWN {
        match row.load(Relaxed) {
            0 => {}
            library if library & MARK != 0 => row.store(library & !MARK, Relaxed),
            library => {
                row.store(0, Relaxed);
                went(library);
            }
        }
    }
}

/// How often a library is tried to be patched.
const TRIES: usize = 3;

/// Asks for what a new library needs, and does it.
///
/// # Safety
/// None of the library's code is executed meanwhile.
unsafe fn came(library: u64) -> Option<()> {
    let place = PATCHED.iter().find(|patched| patched.0[0].load(Relaxed) == 0)?;
    let mut memory = Pages::new(MOST_WELCOME)?;
    if !confined::since_the_start(memory.bytes()) {
        // Another thread may map something where the collector has just seen a free place.
        for _ in 0..TRIES {
            let socket = start::connect();
            if socket < 0 {
                break;
            }
            // SAFETY: passed on.
            let done = unsafe { patch_late(library, place, socket, memory.bytes()) };
            sys::close(socket);
            if done.is_some() {
                break;
            }
        }
    }
    Some(())
}

/// None if nothing was done.
///
/// # Safety
/// As for [`came`].
unsafe fn patch_late(library: u64, place: &Patched, socket: i32, buffer: &mut [u8]) -> Option<()> {
    let mut hello = start::hello(entered::LOADED);
    hello.library = library;
    for (hook, address) in hello.hooks.iter_mut().enumerate() {
        if real::is_set(hook) {
            *address = 0;
        }
    }
    if !start::say(socket, &hello) {
        return None;
    }
    let (len, file) = sys::receive(socket, buffer);
    if file >= 0 {
        sys::close(file);
    }
    // SAFETY: the collector's answer to the hello above, for this library alone.
    let patches = unsafe { patch::prepare(&buffer[..len]) }?;
    let Some((page, len)) = patches.page() else { return Some(()) };
    if patches.apply() {
        for (word, value) in place.0.iter().zip([library, page, len]) {
            word.store(value, Relaxed);
        }
    } else {
        real::forget_in(page, len);
        patches.undo();
    }
    Some(())
}

/// A library is gone, and with it what jumped into its page.
fn went(library: u64) {
    for patched in &PATCHED {
        let [whose, page, len] = &patched.0;
        if whose.load(Relaxed) == library {
            let (page, len) = (page.load(Relaxed), len.load(Relaxed));
            real::forget_in(page, len);
            // SAFETY: `patch` mapped it, for this library alone, and no hook calls into it any more.
            unsafe { sys::unmap(page as usize, len as usize) };
            whose.store(0, Relaxed);
        }
    }
}
