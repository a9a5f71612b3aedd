//! Libraries that come later and bring an allocator of their own. The loader calls [`changed`] when they are mapped and none of their
//! code has run, so they can be patched like what was there from the start.

use core::ptr;
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use whyslow_heap_wire::handshake::{MOST_WELCOME, entered, hook};

use crate::area::Area;
use crate::{confined, link, patch, real, start, state, sys};

/// The loader's own list of libraries (`r_debug`), as debuggers read it.
#[repr(C)]
struct List {
    version: i32,
    first: *const Library,
    told_by: u64,
    state: i32,
    /// Where the loader itself lies.
    loader: u64,
}

/// A library in it (`link_map`).
#[repr(C)]
struct Library {
    base: u64,
    name: u64,
    /// Its dynamic section: an address that it has alone.
    dynamic: u64,
    next: *const Library,
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
    let list = link::loaders_list();
    // SAFETY: null, or the loader's own.
    let start = unsafe { (list as *const List).as_ref() }.map_or(0, |list| list.loader);
    // The list lies in its data, behind its code.
    if start != 0 && list.wrapping_sub(start) < MOST {
        LOADER[0].store(start, Relaxed);
        LOADER[1].store(list, Relaxed);
    }
}

/// Remembers what is there from the start.
pub fn remember() {
    remember_loader();
    for (row, library) in KNOWN.iter().zip(libraries()) {
        row.store(library, Relaxed);
    }
}

/// The loader's `_dl_debug_state`, with a patch at its start. It holds the loader's lock: nobody else is here.
pub extern "C" fn changed() {
    look();
    let real = real::of(hook::LOADED);
    if real != 0 {
        // SAFETY: the function that the hook stands in for.
        unsafe { real::call(real, 0, 0, 0, 0) };
    }
}

fn libraries() -> impl Iterator<Item = u64> {
    // SAFETY: the loader's list, which does not change under its lock; nor at the start, when there is one thread.
    let mut next =
        unsafe { (link::loaders_list() as *const List).as_ref() }.map_or(ptr::null(), |list| list.first);
    core::iter::from_fn(move || {
        // SAFETY: as above.
        let library = unsafe { next.as_ref() }?;
        next = library.next;
        Some(library.dynamic & !MARK)
    })
}

fn look() {
    if !Area::get().is_some_and(|area| area.enabled()) {
        return;
    }
    state::note_fork();
    if !state::is_own_process() {
        return;
    }
    // Most are where they were the last time.
    let mut at = 0;
    for library in libraries() {
        let is_it = |at: usize| KNOWN[at % MOST].load(Relaxed) & !MARK == library;
        if let Some(found) = (at..at + MOST).find(|at| is_it(*at)) {
            KNOWN[found % MOST].store(library | MARK, Relaxed);
            at = found + 1;
        } else if let Some(free) = KNOWN.iter().find(|row| row.load(Relaxed) == 0) {
            free.store(library | MARK, Relaxed);
            came(library);
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

/// Asks for what a new library needs, and does it.
fn came(library: u64) -> Option<()> {
    let place = PATCHED.iter().find(|patched| patched.0[0].load(Relaxed) == 0)?;
    let memory = sys::pages(MOST_WELCOME);
    if memory.is_null() {
        return None;
    }
    // SAFETY: fresh pages.
    let buffer = unsafe { slice::from_raw_parts_mut(memory, MOST_WELCOME) };
    if !confined::since_the_start(buffer) {
        let socket = start::connect();
        if socket >= 0 {
            patch_late(library, place, socket, buffer);
            sys::close(socket);
        }
    }
    sys::unmap(memory as usize, MOST_WELCOME);
    Some(())
}

fn patch_late(library: u64, place: &Patched, socket: i32, buffer: &mut [u8]) -> Option<()> {
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
    let patches = patch::prepare(&buffer[..len])?;
    let Some((page, len)) = patches.page() else { return Some(()) };
    if patches.apply() {
        for (word, value) in place.0.iter().zip([library, page, len]) {
            word.store(value, Relaxed);
        }
    } else {
        patches.undo();
        forget_hooks(page, len);
    }
    Some(())
}

/// A library is gone, and with it what jumped into its page.
fn went(library: u64) {
    for patched in &PATCHED {
        let [whose, page, len] = &patched.0;
        if whose.load(Relaxed) == library {
            let (page, len) = (page.load(Relaxed), len.load(Relaxed));
            forget_hooks(page, len);
            sys::unmap(page as usize, len as usize);
            whose.store(0, Relaxed);
        }
    }
}

/// Hooks that call into a page have nothing to call any more.
fn forget_hooks(page: u64, len: u64) {
    for hook in 0..hook::COUNT {
        if real::is_in(hook, page, len) {
            real::set(hook, 0);
        }
    }
}
