//! Which modules there are, and the list of them for the collector.
//!
//! Headers are read where the loader has them in memory. `whyslow-elf` reads files and needs std, which the agent must not have: it runs in
//! programs whose allocator it stands in for.

use core::ffi::{CStr, c_char, c_void};
use core::mem;
use core::ptr;
use core::slice;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use whyslow_heap_wire::area::{MODULES_LEN, ModuleEntry};
use whyslow_selfwalk::Module;

use crate::area::Area;
use crate::{link, sys, walk};

const PT_LOAD: u32 = 1;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;

/// A program header.
#[repr(C)]
pub struct Segment {
    pub kind: u32,
    flags: u32,
    offset: u64,
    pub address: u64,
    physical: u64,
    file_size: u64,
    pub size: u64,
    alignment: u64,
}

const PAGE: u64 = 4096;

/// A static program's own headers: base, where they are, how many.
static PROGRAM: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Says where a static program lies.
pub fn set_program(base: u64, headers: u64, count: u64) {
    for (word, value) in PROGRAM.iter().zip([base, headers, count]) {
        word.store(value, Release);
    }
}

/// The module with this address. It is in the collector's list from now on.
pub fn find(area: Area, address: u64) -> Option<Module> {
    let (mut module, path) = if link::dl_find_object() != 0 {
        let found = by_find_object(address)?;
        // Of a module whose segments lie apart this is only one segment.
        if is_whole(&found.0) { found } else { by_iteration(address).unwrap_or(found) }
    } else if link::dl_iterate_phdr() != 0 {
        by_iteration(address)?
    } else {
        let [base, headers, count] = [0, 1, 2].map(|index| PROGRAM[index].load(Acquire));
        (from_segments(base, headers as *const Segment, count as usize, address)?, c"".as_ptr())
    };
    if module.eh_frame_hdr == 0 {
        // The program's, if it has none of its own. For another module it leads to nothing.
        module.eh_frame_hdr = area.unwind_table();
    }
    // SAFETY: names of loaded modules end with a zero byte.
    let path = if path.is_null() { c"" } else { unsafe { CStr::from_ptr(path) } };
    announce(area, &module, path.to_bytes());
    Some(module)
}

fn by_find_object(address: u64) -> Option<(Module, *const c_char)> {
    #[repr(C)]
    struct Found {
        flags: u64,
        start: u64,
        end: u64,
        link_map: *const LinkMap,
        eh_frame_hdr: u64,
        reserved: [u64; 7],
    }
    #[repr(C)]
    struct LinkMap {
        base: u64,
        name: *const c_char,
    }
    let mut found =
        Found { flags: 0, start: 0, end: 0, link_map: ptr::null(), eh_frame_hdr: 0, reserved: [0; 7] };
    // SAFETY: the function is there, and this is its signature.
    let failed = unsafe {
        let find: extern "C" fn(u64, *mut Found) -> i32 = mem::transmute(link::dl_find_object());
        find(address, &raw mut found)
    };
    // SAFETY: the loader's entry lives as long as the module, and one of its addresses is on the stack.
    let map = unsafe { found.link_map.as_ref() };
    match (failed, map) {
        (0, Some(map)) => {
            let module = Module {
                base: found.start,
                start: found.start,
                end: found.end,
                eh_frame_hdr: found.eh_frame_hdr,
            };
            Some((module, map.name))
        }
        _ => None,
    }
}

/// Whether a module begins with its ELF header and has its unwind table.
fn is_whole(module: &Module) -> bool {
    const HEADER: [u8; 4] = *b"\x7fELF";
    // SAFETY: the loader mapped at least a page here, and code on the stack keeps it.
    let begins = unsafe { ptr::read_unaligned(module.start as *const [u8; 4]) } == HEADER;
    begins && (module.eh_frame_hdr == 0 || (module.start..module.end).contains(&module.eh_frame_hdr))
}

fn by_iteration(address: u64) -> Option<(Module, *const c_char)> {
    let mut found = None;
    each(&mut |loaded| {
        let module = from_segments(loaded.base, loaded.segments, loaded.count.into(), address);
        found = module.map(|module| (module, loaded.name));
        found.is_some()
    });
    found
}

/// A module as the loader shows it.
#[repr(C)]
pub struct Loaded {
    pub base: u64,
    name: *const c_char,
    segments: *const Segment,
    count: u16,
}

impl Loaded {
    /// Its program headers.
    pub fn segments(&self) -> &[Segment] {
        // SAFETY: a module's headers are mapped as long as it is.
        unsafe { slice::from_raw_parts(self.segments, self.count.into()) }
    }
}

/// Shows all modules in the loader's order, until it is told that this is enough.
pub fn each(enough: &mut dyn FnMut(&Loaded) -> bool) {
    extern "C" fn show(loaded: *const Loaded, _size: usize, enough: *mut c_void) -> i32 {
        // SAFETY: the loader's, and ours from below.
        let (loaded, enough) = unsafe { (&*loaded, &mut *enough.cast::<&mut dyn FnMut(&Loaded) -> bool>()) };
        enough(loaded).into()
    }
    if link::dl_iterate_phdr() == 0 {
        return;
    }
    let mut enough = enough;
    // SAFETY: the function is there, and this is its signature.
    unsafe {
        let iterate: extern "C" fn(
            extern "C" fn(*const Loaded, usize, *mut c_void) -> i32,
            *mut c_void,
        ) -> i32 = mem::transmute(link::dl_iterate_phdr());
        iterate(show, (&raw mut enough).cast());
    }
}

fn from_segments(base: u64, headers: *const Segment, count: usize, address: u64) -> Option<Module> {
    if headers.is_null() {
        return None;
    }
    // SAFETY: a module's headers are mapped as long as it is.
    let segments = unsafe { slice::from_raw_parts(headers, count) };
    let mut module = Module { base: 0, start: u64::MAX, end: 0, eh_frame_hdr: 0 };
    // Between segments that lie apart there may be others' code.
    let mut inside = false;
    for segment in segments {
        let start = base.wrapping_add(segment.address);
        match segment.kind {
            PT_LOAD => {
                let end = start.wrapping_add(segment.size);
                module.start = module.start.min(start);
                module.end = module.end.max(end);
                inside |= (start..=end).contains(&address);
            }
            PT_GNU_EH_FRAME => module.eh_frame_hdr = start,
            _ => {}
        }
    }
    // An image's addresses count from the page of its first segment.
    module.base = module.start / PAGE * PAGE;
    inside.then_some(module)
}

/// A module that is in the list: start, end, and a hash of the rest. End 0 for none.
struct Announced([AtomicU64; 3]);

const MOST_ANNOUNCED: usize = 1024;
static ANNOUNCED: [Announced; MOST_ANNOUNCED] =
    [const { Announced([const { AtomicU64::new(0) }; 3]) }; MOST_ANNOUNCED];

fn announce(area: Area, module: &Module, path: &[u8]) {
    let key = hash(module, path);
    let known = |row: &Announced| {
        let [start, end, hash] = &row.0;
        end.load(Acquire) == module.end && start.load(Relaxed) == module.start && hash.load(Relaxed) == key
    };
    if ANNOUNCED.iter().any(known) {
        return;
    }
    let Some(_lock) = Lock::take(area) else { return };
    let generation = walk::generation_for_new_module(area);
    if !append(area, module, path, generation) {
        return;
    }
    // What lay there before is no longer what the list says of this place.
    for row in &ANNOUNCED {
        let [start, end, _] = &row.0;
        if start.load(Relaxed) < module.end && module.start < end.load(Relaxed) {
            end.store(0, Relaxed);
        }
    }
    if let Some(row) = ANNOUNCED.iter().find(|row| row.0[1].load(Relaxed) == 0) {
        row.0[0].store(module.start, Relaxed);
        row.0[2].store(key, Relaxed);
        row.0[1].store(module.end, Release);
    }
}

fn hash(module: &Module, path: &[u8]) -> u64 {
    let mut hash = module.base ^ 0x9E37_79B9_7F4A_7C15;
    for byte in path {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    hash
}

fn append(area: Area, module: &Module, path: &[u8], generation: u32) -> bool {
    let used = &area.header().modules_used;
    let at = used.load(Acquire) as usize;
    let len = size_of::<ModuleEntry>() + path.len().next_multiple_of(8);
    if at + len > MODULES_LEN {
        return false;
    }
    let entry = ModuleEntry {
        base: module.base,
        start: module.start,
        end: module.end,
        generation,
        path_len: path.len() as u32,
    };
    // SAFETY: the bytes lie in the area, behind all that is complete, and the lock keeps others away.
    unsafe {
        let to = area.modules().add(at);
        ptr::write_unaligned(to.cast(), entry);
        ptr::copy_nonoverlapping(path.as_ptr(), to.add(size_of::<ModuleEntry>()), path.len());
    }
    used.store((at + len) as u32, Release);
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
