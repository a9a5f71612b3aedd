//! The files that contain the program's code, including those that it has unloaded since.

#![expect(unsafe_code, reason = "the loader's list of modules has no safe interface")]

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use whyslow_elf::{BuildId, FileAddress, image_base};

use crate::stack::{self, Place};

/// The kind of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Program,
    Library,
    Vdso,
}

/// A file that is mapped as code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Module {
    pub(crate) path: String,
    pub(crate) build_id: Option<String>,
    pub(crate) kind: Kind,
    /// Where relative address 0 is mapped.
    pub(crate) base: u64,
    start: u64,
    end: u64,
    /// The generations in which it was loaded.
    first: u16,
    last: u16,
}

impl Module {
    fn is_same(&self, other: &Self) -> bool {
        (self.base, self.end, &self.path) == (other.base, other.end, &other.path)
    }
}

/// The loader's counts of loaded and unloaded modules.
static COUNTS: AtomicU64 = AtomicU64::new(u64::MAX);
static GENERATION: AtomicU16 = AtomicU16::new(0);
static LIST: Mutex<Vec<Module>> = Mutex::new(Vec::new());

fn list() -> MutexGuard<'static, Vec<Module>> {
    LIST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number that changes whenever a module is unloaded.
pub(crate) fn generation() -> u16 {
    let counts = counts();
    if COUNTS.load(Ordering::Relaxed) == counts {
        GENERATION.load(Ordering::Relaxed)
    } else {
        refresh(counts)
    }
}

/// All modules so far.
pub(crate) fn all() -> Vec<Module> {
    generation();
    list().clone()
}

/// The index of the module that contains a place. The address is that of the call.
pub(crate) fn find(modules: &[Module], place: Place) -> Option<usize> {
    let call = place.return_address.wrapping_sub(1);
    modules.iter().position(|module| {
        (module.start..module.end).contains(&call) && (module.first..=module.last).contains(&place.generation)
    })
}

/// Whether a module is still loaded.
pub(crate) fn is_loaded(module: &Module) -> bool {
    module.last == u16::MAX
}

#[cold]
fn refresh(counts: u64) -> u16 {
    let mut seen: Vec<Module> = Vec::new();
    // SAFETY: the callback gets this function's own list, and returns before the list is dropped.
    unsafe { libc::dl_iterate_phdr(Some(collect), (&raw mut seen).cast()) };
    let mut list = list();
    let before = COUNTS.load(Ordering::Relaxed);
    if before == counts {
        return GENERATION.load(Ordering::Relaxed);
    }
    let mut generation = GENERATION.load(Ordering::Relaxed);
    if before != u64::MAX && before as u32 != counts as u32 {
        stack::forget_rules();
        for module in list.iter_mut().filter(|module| is_loaded(module)) {
            if !seen.iter().any(|now| now.is_same(module)) {
                module.last = generation;
            }
        }
        generation = generation.wrapping_add(1);
    }
    for mut module in seen {
        if !list.iter().any(|known| is_loaded(known) && known.is_same(&module)) {
            module.first = generation;
            list.push(module);
        }
    }
    GENERATION.store(generation, Ordering::Relaxed);
    COUNTS.store(counts, Ordering::Relaxed);
    generation
}

/// Loads in the upper half, unloads in the lower.
fn counts() -> u64 {
    unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _size: usize, counts: *mut c_void) -> c_int {
        // SAFETY: the loader passes a valid row, and `counts` is the number below.
        unsafe {
            *counts.cast::<u64>() = ((*info).dlpi_adds << 32) | ((*info).dlpi_subs & 0xffff_ffff);
        }
        1
    }
    let mut counts = 0u64;
    // SAFETY: the callback gets this function's own number, and returns before the number is dropped.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut counts).cast()) };
    counts
}

unsafe extern "C" fn collect(info: *mut libc::dl_phdr_info, _size: usize, seen: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid row, and `seen` is what `refresh` passed.
    let (info, seen) = unsafe { (&*info, &mut *seen.cast::<Vec<Module>>()) };
    // SAFETY: the loader keeps the program headers of a loaded module.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let loads = || headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let base = image_base(loads().map(|header| FileAddress(header.p_vaddr)));
    let start = info.dlpi_addr.wrapping_add(base.0.0);
    let end_of =
        |header: &libc::Elf64_Phdr| info.dlpi_addr.wrapping_add(header.p_vaddr).wrapping_add(header.p_memsz);
    let end = loads().map(end_of).max().unwrap_or(0);
    let build_id = headers.iter().filter(|header| header.p_type == libc::PT_NOTE).find_map(|header| {
        let loaded = loads().any(|load| {
            let from_start = header.p_vaddr.wrapping_sub(load.p_vaddr);
            from_start.checked_add(header.p_memsz).is_some_and(|end| end <= load.p_memsz)
        });
        if !loaded {
            return None;
        }
        let at = info.dlpi_addr.wrapping_add(header.p_vaddr);
        // SAFETY: they lie in a segment that the loader has mapped, and keeps during the callback.
        let notes = unsafe { std::slice::from_raw_parts(at as *const u8, header.p_memsz as usize) };
        BuildId::in_notes(notes).map(|id| id.to_string())
    });
    if start >= end {
        return 0;
    }
    let name = if info.dlpi_name.is_null() {
        c""
    } else {
        // SAFETY: the loader's names are zero-terminated.
        unsafe { CStr::from_ptr(info.dlpi_name) }
    };
    let path = OsStr::from_bytes(name.to_bytes()).to_string_lossy().into_owned();
    let (kind, path) = if path.starts_with("linux-vdso") || path.starts_with("linux-gate") {
        (Kind::Vdso, "[vdso]".to_owned())
    } else if path.is_empty() {
        let program = std::fs::read_link("/proc/self/exe");
        (Kind::Program, program.map(|path| path.to_string_lossy().into_owned()).unwrap_or_default())
    } else {
        (Kind::Library, path)
    };
    seen.push(Module { path, build_id, kind, base: start, start, end, first: 0, last: u16::MAX });
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_among_the_modules() {
        let modules = all();
        let program = modules.iter().find(|module| module.kind == Kind::Program).unwrap();
        std::assert_eq!(program.path, std::env::current_exe().unwrap().to_string_lossy());
        let place = Place { return_address: all as *const () as u64 + 1, generation: generation() };
        std::assert_eq!(find(&modules, place).map(|row| &modules[row].path), Some(&program.path));
    }
}
