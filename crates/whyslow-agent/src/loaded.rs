//! Libraries that are loaded later and contain their own allocator. The loader calls [`changed`] when they
//! are mapped and before any of their code runs, so they can be patched like the libraries that were there
//! from the start.

use core::ffi::{CStr, c_char};
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU64};

use whyslow_agent_wire::handshake::{MOST_WELCOME, entered, hook};

use crate::area::Area;
use crate::sys::Pages;
use crate::{confined, link, patch, real, start, state, sys};

/// The loader's list of libraries (`r_debug`), as debuggers read it.
#[repr(C)]
pub struct List {
    version: i32,
    first: AtomicPtr<Library>,
    told_by: u64,
    state: i32,
    /// The load address of the loader itself.
    loader: AtomicU64,
}

/// A library in the list (`link_map`). Only the loader creates these.
#[repr(C)]
pub struct Library {
    base: u64,
    name: *const c_char,
    /// The address of its dynamic section, which identifies it.
    dynamic: u64,
    next: AtomicPtr<Library>,
}

impl Library {
    /// The load bias: what is added to the addresses in its file.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The path of its file. Empty for the program.
    pub fn name(&self) -> &CStr {
        // SAFETY: the loader's names are zero-terminated and live as long as the entry.
        if self.name.is_null() { c"" } else { unsafe { CStr::from_ptr(self.name) } }
    }
}

/// Known libraries, by their dynamic section. 0 for a free row. [`scan_libraries`] uses bit 0 as a mark.
static KNOWN: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
const MOST: usize = 4096;
const MARK: u64 = 1;

/// A patched library: its dynamic section, its patch page, and the page's length.
struct Patched([AtomicU64; 3]);

const MOST_PATCHED: usize = 64;
static PATCHED: [Patched; MOST_PATCHED] = [const { Patched([const { AtomicU64::new(0) }; 3]) }; MOST_PATCHED];

/// Start and end of the loader's code.
static LOADER: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Bytes per row of the loader's table of a thread's storage (DTV). It has one row per library with
/// thread-local storage, and the agent is one of them.
const TABLE_ROW: u64 = 16;

/// How many bytes of an allocation with elements of `row` bytes are due to the agent: it makes the loader's
/// table of a thread's storage one row longer.
#[inline]
pub fn own_share(row: u64, caller: u64) -> u64 {
    let [start, end] = &LOADER;
    if row == TABLE_ROW && (start.load(Relaxed)..end.load(Relaxed)).contains(&caller) { TABLE_ROW } else { 0 }
}

fn remember_loader() {
    const MOST: u64 = 16 << 20;
    let Some(list) = link::loaders_list() else { return };
    let (list, start) = (ptr::from_ref(list) as u64, list.loader.load(Relaxed));
    // The list lies in the loader's data, after its code.
    if start != 0 && list.wrapping_sub(start) < MOST {
        LOADER[0].store(start, Relaxed);
        LOADER[1].store(list, Relaxed);
    }
}

/// Stores the libraries that are loaded at the start.
///
/// # Safety
/// Same as [`libraries`].
pub unsafe fn remember() {
    remember_loader();
    // SAFETY: the caller upholds the same contract.
    for (row, library) in KNOWN.iter().zip(unsafe { libraries() }) {
        row.store(library, Relaxed);
    }
}

/// Hook for the loader's `_dl_debug_state`, patched at its start. The loader holds its lock, so only one
/// thread is here.
///
/// # Safety
/// Only the loader calls it.
pub unsafe extern "C" fn changed() {
    // SAFETY: the loader holds its lock.
    unsafe { scan_libraries() };
    if let Some(real) = real::of(hook::LOADED) {
        // SAFETY: the hooked function.
        unsafe { real.call([]) };
    }
}

/// The dynamic sections of all libraries.
///
/// # Safety
/// The list does not change during the iteration: the loader's lock is held, or there is one thread.
unsafe fn libraries() -> impl Iterator<Item = u64> {
    let mut next = link::loaders_list().map_or(ptr::null_mut(), |list| list.first.load(Relaxed));
    core::iter::from_fn(move || {
        // SAFETY: null, or an entry of the loader's list, which does not change now.
        let library = unsafe { next.as_ref() }?;
        next = library.next.load(Relaxed);
        Some(library.dynamic & !MARK)
    })
}

/// # Safety
/// Same as [`libraries`].
unsafe fn scan_libraries() {
    if !Area::get().is_some_and(|area| area.enabled()) {
        return;
    }
    state::note_fork();
    if !state::is_own_process() {
        return;
    }
    // Most libraries are in the same row as the last time.
    let mut at = 0;
    // SAFETY: the caller upholds the same contract.
    for library in unsafe { libraries() } {
        let is_it = |at: usize| KNOWN[at % MOST].load(Relaxed) & !MARK == library;
        if let Some(found) = (at..at + MOST).find(|at| is_it(*at)) {
            KNOWN[found % MOST].store(library | MARK, Relaxed);
            at = found + 1;
        } else if let Some(free) = KNOWN.iter().find(|row| row.load(Relaxed) == 0) {
            free.store(library | MARK, Relaxed);
            // SAFETY: the loader holds its lock, and none of the library's code has run.
            unsafe { patch_new_library(library) };
        }
    }
    for row in &KNOWN {
        match row.load(Relaxed) {
            0 => {}
            library if library & MARK != 0 => row.store(library & !MARK, Relaxed),
            library => {
                row.store(0, Relaxed);
                forget_library(library);
            }
        }
    }
}

/// How many times the agent tries to patch a library.
const TRIES: usize = 3;

/// Asks the collector for the patches of a new library and applies them.
///
/// # Safety
/// No code of the library runs during the call.
unsafe fn patch_new_library(library: u64) -> Option<()> {
    let place = PATCHED.iter().find(|patched| patched.0[0].load(Relaxed) == 0)?;
    let mut memory = Pages::new(MOST_WELCOME)?;
    if !confined::since_the_start(memory.bytes()) {
        // Another thread may map something at the place that the collector has just found free.
        for _ in 0..TRIES {
            let socket = start::connect();
            if socket < 0 {
                break;
            }
            // SAFETY: the caller upholds the same contract.
            let done = unsafe { patch_late(library, place, socket, memory.bytes()) };
            sys::close(socket);
            if done.is_some() {
                break;
            }
        }
    }
    Some(())
}

/// `None` if nothing was done.
///
/// # Safety
/// Same as [`patch_new_library`].
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

/// Removes the patch page of an unloaded library. The code that jumped into the page is unmapped too.
fn forget_library(library: u64) {
    for patched in &PATCHED {
        let [owner, page, len] = &patched.0;
        if owner.load(Relaxed) == library {
            let (page, len) = (page.load(Relaxed), len.load(Relaxed));
            real::forget_in(page, len);
            // SAFETY: `patch` mapped it for this library alone, and no hook calls into it any more.
            unsafe { sys::unmap(page as usize, len as usize) };
            owner.store(0, Relaxed);
        }
    }
}
