//! Finds modules, for programs with a libc.
//!
//! It asks the loader instead of `whyslow-elf`, because it runs inside allocations, where it must not open
//! files or allocate.

#![expect(unsafe_code, reason = "the loader's list of modules has no safe interface")]

use core::ffi::{c_int, c_void};

use crate::{Module, Segment, World};

/// The process as libc sees it.
#[derive(Debug, Default, Clone, Copy)]
pub struct Hosted;

struct Search {
    address: u64,
    found: Option<Module<'static>>,
}

const _: () = assert!(size_of::<Segment>() == size_of::<libc::Elf64_Phdr>());

// SAFETY: `mmap` zeroes and aligns the memory, and it is handed out once.
unsafe impl World for Hosted {
    unsafe fn module_of(&self, address: u64) -> Option<Module<'_>> {
        let mut search = Search { address, found: None };
        // SAFETY: the callback gets this function's own `search` and returns before it is dropped.
        unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
        search.found
    }

    fn memory(&self, bytes: usize) -> *mut u8 {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping replaces nothing.
        let memory = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if memory == libc::MAP_FAILED { core::ptr::null_mut() } else { memory.cast() }
    }

    unsafe fn release(&self, memory: *mut u8, bytes: usize) {
        // SAFETY: the caller guarantees that it came from `memory` with this length.
        unsafe { libc::munmap(memory.cast(), bytes) };
    }
}

unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid row, and `search` is what `module_of` passed.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    // SAFETY: a module has this many program headers in memory, in the ELF layout that `Segment` has. They
    // and the segments are mapped until the module is unloaded, and a module with an address on the stack is
    // in use.
    let module = unsafe {
        let headers = core::slice::from_raw_parts(info.dlpi_phdr.cast(), usize::from(info.dlpi_phnum));
        Module::new(info.dlpi_addr, headers)
    };
    let inside = module.holds(search.address);
    if inside {
        search.found = Some(module);
    }
    c_int::from(inside)
}
