//! Where the modules are, for programs with a libc.
//!
//! The loader is asked, not `whyslow-elf`: this runs inside of allocations, where no file may be opened and no memory taken.

#![expect(unsafe_code, reason = "the loader's list of modules has no safe interface")]

use core::ffi::{c_int, c_void};

use crate::{Module, World};

/// The process as libc knows it.
#[derive(Debug, Default, Clone, Copy)]
pub struct Hosted;

struct Search {
    address: u64,
    found: Option<Module>,
}

impl World for Hosted {
    fn module_of(&self, address: u64) -> Option<Module> {
        let mut search = Search { address, found: None };
        // SAFETY: the callback gets our own `search` and returns before it ends.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    fn memory(&self, bytes: usize) -> *mut u8 {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping touches nothing that exists.
        let memory = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED { core::ptr::null_mut() } else { memory.cast() }
    }

    fn release(&self, memory: *mut u8, bytes: usize) {
        // SAFETY: it came from `memory` with this length.
        unsafe { libc::munmap(memory.cast(), bytes) };
    }
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid row, and `search` is what `module_of` passed.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: the loader keeps the program headers of a loaded module.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let mut module = Module { base: 0, start: u64::MAX, end: 0, eh_frame_hdr: 0 };
    for header in headers {
        let at = info.dlpi_addr.wrapping_add(header.p_vaddr);
        match header.p_type {
            libc::PT_LOAD => {
                module.start = module.start.min(at);
                module.end = module.end.max(at.wrapping_add(header.p_memsz));
            }
            libc::PT_GNU_EH_FRAME => module.eh_frame_hdr = at,
            _ => {}
        }
    }
    module.base = module.start;
    let inside = (module.start..module.end).contains(&search.address);
    if inside {
        search.found = Some(module);
    }
    c_int::from(inside)
}
