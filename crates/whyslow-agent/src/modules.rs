//! Finds modules and lists them for the collector.
//!
//! Headers are read where the loader keeps them in memory. `whyslow-elf` reads files and needs std, which the
//! agent must not use: it runs in programs whose allocator it replaces.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::{self, NonNull};
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use whyslow_agent_wire::area::ModuleEntry;
use whyslow_selfwalk::{Module, Segment};

use crate::area::Area;
use crate::loaded::Library;
use crate::{link, sys, walk};

const PAGE: usize = 4096;

/// A static program's own headers: bias, address, count.
static PROGRAM: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Sets where a static program is mapped.
///
/// # Safety
/// `count` program headers of the program are at `headers` and are never unmapped.
pub unsafe fn set_program(bias: u64, headers: u64, count: u64) {
    for (word, value) in PROGRAM.iter().zip([bias, headers, count]) {
        word.store(value, Release);
    }
}

/// The module of a static program. `None` if its place was not set.
fn program() -> Option<Module<'static>> {
    let [bias, headers, count] = [0, 1, 2].map(|index| PROGRAM[index].load(Acquire));
    let headers = NonNull::new(headers as *mut Segment)?;
    // SAFETY: the caller of `set_program` guarantees that the headers are never unmapped. Neither is the
    // program.
    Some(unsafe { Module::new(bias, slice::from_raw_parts(headers.as_ptr(), count as usize)) })
}

/// A module and its path.
type Named<'a> = (Module<'a>, &'a CStr);

/// The module that contains this address. It is in the collector's list afterwards.
///
/// # Safety
/// It is not unloaded during `'a`: its code is on the calling thread's stack, or it is libc.
pub unsafe fn find<'a>(area: Area, address: u64) -> Option<Module<'a>> {
    let (module, path) = if let Some(find) = link::dl_find_object() {
        // If a module's segments have gaps, `_dl_find_object` covers only one of them. SAFETY: the caller
        // upholds the same contract.
        unsafe { by_find_object(find, address).or_else(|| by_iteration(address)) }?
    } else if link::dl_iterate_phdr().is_some() {
        // SAFETY: the caller upholds the same contract.
        unsafe { by_iteration(address) }?
    } else {
        (program().filter(|program| program.holds(address))?, c"")
    };
    announce(area, &module, path.to_bytes());
    // The table is for a program that has none itself. For any other module it finds nothing.
    Some(module.or_with_table(area.unwind_table()))
}

/// The same for a signal handler, without the list.
///
/// # Safety
/// Same as [`find`].
pub unsafe fn find_in_handler<'a>(area: Area, address: u64) -> Option<Module<'a>> {
    let module = match link::dl_find_object() {
        // SAFETY: the caller upholds the same contract.
        Some(find) => unsafe { by_find_object(find, address) }?.0,
        // Older loaders only have functions that take their lock, which the interrupted code may hold.
        None if link::dl_iterate_phdr().is_some() => return None,
        None => program().filter(|program| program.holds(address))?,
    };
    Some(module.or_with_table(area.unwind_table()))
}

/// The result of `_dl_find_object` (`struct dl_find_object`).
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
/// Same as [`find`].
unsafe fn by_find_object<'a>(
    find: unsafe extern "C" fn(u64, *mut Found) -> i32,
    address: u64,
) -> Option<Named<'a>> {
    let mut found =
        Found { flags: 0, start: 0, end: 0, library: ptr::null(), eh_frame_hdr: 0, reserved: [0; 7] };
    // SAFETY: the loader writes one of these and returns 0 if it found the address.
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

/// The program headers of a module that begins with its ELF header. `None` if it does not, or if they are not
/// in its first page.
///
/// # Safety
/// A page of a loaded module is mapped there during `'a`.
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
    // SAFETY: the page is mapped. Any bytes are valid for plain numbers.
    let header = unsafe { ptr::read_unaligned(start as *const Header) };
    let (at, count) = (header.headers_at as usize, usize::from(header.count));
    let fits = at.checked_add(count * size_of::<Segment>()).is_some_and(|end| end <= PAGE);
    let right = header.magic == MAGIC && usize::from(header.size) == size_of::<Segment>();
    if !right || !fits || !at.is_multiple_of(align_of::<Segment>()) || !start.is_multiple_of(PAGE as u64) {
        return None;
    }
    // SAFETY: they lie in the page and are aligned.
    Some(unsafe { slice::from_raw_parts((start as usize + at) as *const Segment, count) })
}

/// # Safety
/// Same as [`find`].
unsafe fn by_iteration<'a>(address: u64) -> Option<Named<'a>> {
    let mut found = None;
    each(&mut |loaded| {
        // SAFETY: these are the module's headers and bias. If it is the module we want, it is not unloaded
        // during `'a`. Others are dropped at once.
        let (module, name) = unsafe { (Module::new(loaded.bias, loaded.segments_for()), loaded.name) };
        found = module.holds(address).then(|| {
            // SAFETY: names of loaded modules are zero-terminated and live as long as the modules.
            let name = if name.is_null() { c"" } else { unsafe { CStr::from_ptr(name) } };
            (module, name)
        });
        found.is_some()
    });
    found
}

/// A module as the loader presents it (`dl_phdr_info`). Only the loader creates these.
#[repr(C)]
pub struct Loaded {
    bias: u64,
    name: *const c_char,
    segments: *const Segment,
    count: u16,
}

impl Loaded {
    /// The load bias: what is added to the addresses in its headers.
    pub fn bias(&self) -> u64 {
        self.bias
    }

    /// Its program headers.
    pub fn segments(&self) -> &[Segment] {
        // SAFETY: the loader keeps the module loaded during the callback.
        unsafe { self.segments_for() }
    }

    /// # Safety
    /// The module is not unloaded during `'a`.
    unsafe fn segments_for<'a>(&self) -> &'a [Segment] {
        if self.segments.is_null() {
            return &[];
        }
        // SAFETY: the loader states how many there are, and they live as long as the module.
        unsafe { slice::from_raw_parts(self.segments, self.count.into()) }
    }
}

/// Calls `enough` with each module in the loader's order, until it returns true.
pub fn each(enough: &mut dyn FnMut(&Loaded) -> bool) {
    unsafe extern "C" fn show(loaded: *const Loaded, _size: usize, enough: *mut c_void) -> i32 {
        // SAFETY: the first comes from the loader, the second from the call below.
        let (loaded, enough) = unsafe { (&*loaded, &mut *enough.cast::<&mut dyn FnMut(&Loaded) -> bool>()) };
        enough(loaded).into()
    }
    let Some(iterate) = link::dl_iterate_phdr() else { return };
    let mut enough = enough;
    // SAFETY: the loader passes the pointer through, and returns before `enough` goes out of scope.
    unsafe { iterate(show, (&raw mut enough).cast()) };
}

/// A module in the list: start, end, and a hash of the rest. End 0 for a free row.
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
    // The list's earlier entries for this range are outdated.
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
    // SAFETY: the lock is held, and `used` is the list's own length.
    let Some(end) = (unsafe { area.write_module(used.load(Acquire) as usize, entry, path) }) else {
        return false;
    };
    used.store(end as u32, Release);
    true
}

/// The list's lock, shared by all processes of the area. A process that is killed while it holds the lock
/// never releases it, so waits are bounded.
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
