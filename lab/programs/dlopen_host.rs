//! Loads a shared library while it runs, and spends most of its time in that library.
//!
//! Run: `dlopen_host [MS=1000] [LIBRARY]`. The library is `plugin.rs`, in the
//! program's folder as `libplugin-VARIANT.so` if the program is `dlopen_host-VARIANT`.
//!
//! THE KNOWN ANSWER: plugin_work 80 %, in the library, each stack plugin_work
//! < plugin_entry < rounds < main; host_work 20 %, in the program.

use std::ffi::{CStr, CString, c_char, c_void};
use std::hint::black_box;

const STEPS_PER_MS: u64 = 600_000;
const RTLD_NOW: i32 = 2;

unsafe extern "C" {
    fn dlopen(path: *const c_char, flags: i32) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
    fn dlerror() -> *const c_char;
}

type Entry = extern "C" fn(u64) -> u64;

#[inline(never)]
fn host_work(steps: u64, mut x: u64) -> u64 {
    let mut left = steps;
    while left > 0 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        left -= 1;
    }
    black_box(x)
}

#[inline(never)]
fn rounds(entry: Entry, steps: u64) {
    let (mut x, mut left) = (1, steps / 5);
    while left > 0 {
        let unit = (3_000 + x % 4_096).min(left);
        black_box(entry(4 * unit));
        x = host_work(unit, x);
        left -= unit;
    }
}

fn load(path: &str) -> Entry {
    let path = CString::new(path).expect("no zero byte");
    // SAFETY: the names are C strings, and `plugin_entry` in plugin.rs has the type that it is given here.
    unsafe {
        let library = dlopen(path.as_ptr(), RTLD_NOW);
        assert!(!library.is_null(), "{:?}", CStr::from_ptr(dlerror()));
        let entry = dlsym(library, c"plugin_entry".as_ptr());
        assert!(!entry.is_null(), "the library has plugin_entry");
        std::mem::transmute::<*mut c_void, Entry>(entry)
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let ms = arguments.next().map_or(1000, |a| a.parse::<u64>().expect("a number"));
    let library = arguments.next().unwrap_or_else(|| {
        let program = std::env::current_exe().expect("the own path");
        let name = program.file_name().and_then(|n| n.to_str()).expect("a file name");
        let name = name.replace("dlopen_host", "libplugin") + ".so";
        program.with_file_name(name).to_str().expect("a readable path").to_owned()
    });
    rounds(load(&library), ms * STEPS_PER_MS);
    println!("truth plugin_work=0.8 host_work=0.2");
}
