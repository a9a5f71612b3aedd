//! What the dynamic loader provides. Any of it may be missing, and in a static program all of it is.

use core::arch::global_asm;
use core::ffi::{c_char, c_void};
use core::mem;

use crate::arch::imports::address_of;
use crate::loaded::List;
use crate::modules::{Found, Loaded};

global_asm!(
    ".weak dlsym",
    ".weak dl_iterate_phdr",
    ".weak _dl_find_object",
    ".weak __libc_freeres",
    ".weak _ZN9__gnu_cxx9__freeresEv",
    ".weak gnu_get_libc_version",
    ".weak _r_debug",
);

macro_rules! imports {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $symbol:literal;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> Option<$type> {
            let address = address_of!($symbol);
            // SAFETY: the symbol's address, or 0, which is the layout of an optional function or reference.
            // The symbol has this type in every library that defines it.
            unsafe { mem::transmute::<u64, Option<$type>>(address) }
        }
    )*};
}

/// The callback of [`dl_iterate_phdr`].
pub type Visit = unsafe extern "C" fn(*const Loaded, usize, *mut c_void) -> i32;

imports! {
    /// `void *dlsym(void *, const char *)`
    dlsym: unsafe extern "C" fn(usize, *const c_char) -> u64 = "dlsym";
    /// `int dl_iterate_phdr(int (*)(dl_phdr_info *, size_t, void *), void *)`
    dl_iterate_phdr: unsafe extern "C" fn(Visit, *mut c_void) -> i32 = "dl_iterate_phdr";
    /// `int _dl_find_object(void *, dl_find_object *)`
    dl_find_object: unsafe extern "C" fn(u64, *mut Found) -> i32 = "_dl_find_object";
    /// `void __libc_freeres(void)`
    libc_freeres: unsafe extern "C" fn() = "__libc_freeres";
    /// `void __gnu_cxx::__freeres()`: in libstdc++.
    libstdcxx_freeres: unsafe extern "C" fn() = "_ZN9__gnu_cxx9__freeresEv";
    /// `const char *gnu_get_libc_version(void)`: only in glibc.
    glibc_version: unsafe extern "C" fn() -> *const c_char = "gnu_get_libc_version";
    /// `struct r_debug _r_debug`: in glibc's loader.
    loaders_list: &'static List = "_r_debug";
}
