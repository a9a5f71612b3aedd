//! Which modules there are, and the list of them for the collector.
//!
//! Headers are read where the loader has them in memory. `whyslow-elf` reads files and needs std, which the agent must not have: it runs in
//! programs whose allocator it stands in for.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use whyslow_heap_wire::area::ModuleEntry;
use whyslow_selfwalk::{Module, Segment};

use crate::area::Area;
use crate::loaded::Library;
use crate::{link, sys, walk};

const PAGE: usize = 4096;

/// A static program's own headers: its bias, where they are, how many.
static PROGRAM: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Says where a static program lies.
///
/// # Safety
/// So many program headers of the program are at this address for good.
pub unsafe fn set_program(bias: u64, headers: u64, count: u64) {
    for (word, value) in PROGRAM.iter().zip([bias, headers, count]) {
        word.store(value, Release);
    }
}

/// The module that a static program is; none if nobody has said where it lies.
fn program() -> Option<Module<'static>> {
    let [bias, headers, count] = [0, 1, 2].map(|index| PROGRAM[index].load(Acquire));
    let headers = NonNull::new(headers as *mut Segment)?;
    // SAFETY: `set_program` was promised that they are there for good; so is the program.
    Some(unsafe { Module::new(bias, slice::from_raw_parts(headers.as_ptr(), count as usize)) })
}

/// A module and its path.
type Named<'a> = (Module<'a>, &'a CStr);

/// The module with this address. It is in the collector's list from now on.
///
/// # Safety
/// It is not unloaded during `'a`: its code is on the calling thread's stack, or it is libc.
pub unsafe fn find<'a>(area: Area, address: u64) -> Option<Module<'a>> {
    let (module, path) = if let Some(find) = link::dl_find_object() {
        // Of a module whose segments lie apart only one segment is found there.
        // SAFETY: passed on.
        unsafe { by_find_object(find, address).or_else(|| by_iteration(address)) }?
    } else if link::dl_iterate_phdr().is_some() {
        // SAFETY: passed on.
        unsafe { by_iteration(address) }?
    } else {
        (program().filter(|program| program.holds(address))?, c"")
    };
    announce(area, &module, path.to_bytes());
    // The program's, if it has none of its own. For another module it leads to nothing.
    Some(module.or_with_table(area.unwind_table()))
}

/// What `_dl_find_object` finds (`struct dl_find_object`).
#[repr(C)]
pub struct Found {
    flags: u64,
    start: u64,
    end: u64,
    library: *const Library,
    eh_frame_hdr: u64,
    reserved: [u64; 7],
}

/// # Safety
/// As for [`find`].
unsafe fn by_find_object<'a>(
    find: unsafe extern "C" fn(u64, *mut Found) -> i32,
    address: u64,
) -> Option<Named<'a>> {
    let mut found =
        Found { flags: 0, start: 0, end: 0, library: ptr::null(), eh_frame_hdr: 0, reserved: [0; 7] };
    // SAFETY: the loader writes one of these, and returns 0 if it has found the address.
    if unsafe { find(address, &raw mut found) } != 0 {
        return None;
    }
    // SAFETY: the loader's entry lives as long as the module.
    let library = unsafe { found.library.as_ref() }?;
    // SAFETY: the loader found a segment there, which has at least a page.
    let segments = unsafe { headers_at(found.start) }?;
    // SAFETY: these are the module's headers, and this is its bias.
    let module = unsafe { Module::new(library.base(), segments) };
    let whole = module.start() == found.start && module.holds(address);
    whole.then_some((module, library.name()))
}

/// The program headers of a module that begins with its ELF header; none if it does not, or if they are not in its first page.
///
/// # Safety
/// A page of a loaded module is mapped there, and stays for `'a`.
unsafe fn headers_at<'a>(start: u64) -> Option<&'a [Segment]> {
    #[repr(C)]
    struct Header {
        magic: [u8; 4],
        _kind: [u8; 28],
        headers_at: u64,
        _more: [u16; 7],
        size: u16,
        count: u16,
    }
    const MAGIC: [u8; 4] = *b"\x7fELF";
    // SAFETY: the page is there; plain numbers may have any value.
    let header = unsafe { ptr::read_unaligned(start as *const Header) };
    let (at, count) = (header.headers_at as usize, usize::from(header.count));
    let fits = at.checked_add(count * size_of::<Segment>()).is_some_and(|end| end <= PAGE);
    let right = header.magic == MAGIC && usize::from(header.size) == size_of::<Segment>();
    if !right || !fits || !at.is_multiple_of(align_of::<Segment>()) || !start.is_multiple_of(PAGE as u64) {
        return None;
    }
    // SAFETY: they lie in the page, and are aligned.
    Some(unsafe { slice::from_raw_parts((start as usize + at) as *const Segment, count) })
}

/// # Safety
/// As for [`find`].
unsafe fn by_iteration<'a>(address: u64) -> Option<Named<'a>> {
    let mut found = None;
    each(&mut |loaded| {
        // SAFETY: these are the module's headers, and this is its bias. It stays for `'a` if it is the one that is looked for; others
        // are forgotten at once.
        let (module, name) = unsafe { (Module::new(loaded.bias, loaded.segments_for()), loaded.name) };
        found = module.holds(address).then(|| {
            // SAFETY: names of loaded modules end with a zero byte, and stay as long as these.
            let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
            (module, name)
        });
        found.is_some()
    });
    found
}

/// A module as the loader shows it (`dl_phdr_info`); only the loader makes them.
#[repr(C)]
pub struct Loaded {
    bias: u64,
    name: *const c_char,
    segments: *const Segment,
    count: u16,
}

impl Loaded {
    /// What is added to the addresses in its headers.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// Its program headers.
    pub fn segments(&self) -> &[Segment] {
        // SAFETY: the loader keeps the module while it shows it.
        unsafe { self.segments_for() }
    }

    /// # Safety
    /// The module is not unloaded during `'a`.
    unsafe fn segments_for<'a>(&self) -> &'a [Segment] {
        if self.segments.is_null() {
            return &[];
        }
        // SAFETY: the loader shows as many as there are, and they stay as long as the module.
        unsafe { slice::from_raw_parts(self.segments, self.count.into()) }
    }
}

/// Shows all modules in the loader's order, until it is told that this is enough.
pub fn each(enough: &mut dyn FnMut(&Loaded) -> bool) {
    unsafe extern "C" fn show(loaded: *const Loaded, _size: usize, enough: *mut c_void) -> i32 {
        // SAFETY: the loader's, and ours from below.
        let (loaded, enough) = unsafe { (&*loaded, &mut *enough.cast::<&mut dyn FnMut(&Loaded) -> bool>()) };
        enough(loaded).into()
    }
    let Some(iterate) = link::dl_iterate_phdr() else { return };
    let mut enough = enough;
    // SAFETY: the loader passes on what it is given, and returns before this ends.
    unsafe { iterate(show, (&raw mut enough).cast()) };
}

/// A module that is in the list: start, end, and a hash of the rest. End 0 for none.
struct Announced([AtomicU64; 3]);

const MOST_ANNOUNCED: usize = 1024;
static ANNOUNCED: [Announced; MOST_ANNOUNCED] =
    [const { Announced([const { AtomicU64::new(0) }; 3]) }; MOST_ANNOUNCED];

fn announce(area: Area, module: &Module<'_>, path: &[u8]) {
    let key = hash(module, path);
    let known = |row: &Announced| {
        let [start, end, hash] = &row.0;
        end.load(Acquire) == module.end()
            && start.load(Relaxed) == module.start()
            && hash.load(Relaxed) == key
    };
    if ANNOUNCED.iter().any(known) {
        return;
    }
    let Some(lock) = Lock::take(area) else { return };
    let generation = walk::generation_for_new_module(area);
    if !append(&lock, module, path, generation) {
        return;
    }
    // What lay there before is no longer what the list says of this place.
    for row in &ANNOUNCED {
        let [start, end, _] = &row.0;
        if start.load(Relaxed) < module.end() && module.start() < end.load(Relaxed) {
            end.store(0, Relaxed);
        }
    }
    if let Some(row) = ANNOUNCED.iter().find(|row| row.0[1].load(Relaxed) == 0) {
        row.0[0].store(module.start(), Relaxed);
        row.0[2].store(key, Relaxed);
        row.0[1].store(module.end(), Release);
    }
}

fn hash(module: &Module<'_>, path: &[u8]) -> u64 {
    let mut hash = module.base() ^ 0x9E37_79B9_7F4A_7C15;
    for byte in path {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash
}

fn append(lock: &Lock, module: &Module<'_>, path: &[u8], generation: u32) -> bool {
    let area = lock.0;
    let used = &area.header().modules_used;
    let entry = ModuleEntry {
        base: module.base(),
        start: module.start(),
        end: module.end(),
        generation,
        path_len: path.len() as u32,
    };
    // SAFETY: the lock is held, and the list says so.
    let Some(end) = (unsafe { area.write_module(used.load(Acquire) as usize, entry, path) }) else {
        return false;
    };
    used.store(end as u32, Release);
    true
}

/// The lock of the list, over all processes of the area. A holder that was killed keeps it: nobody waits for long.
struct Lock(Area);

impl Lock {
    fn take(area: Area) -> Option<Self> {
        let lock = &area.header().modules_lock;
        for _ in 0..20 {
            if lock.compare_exchange(0, sys::thread(), AcqRel, Relaxed).is_ok() {
                return Some(Lock(area));
            }
            sys::nap(50_000);
        }
        None
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.0.header().modules_lock.store(0, Release);
    }
}
