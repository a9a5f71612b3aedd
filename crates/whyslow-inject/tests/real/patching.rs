//! Plans for real programs, applied by a fake agent that counts calls.

use crate::support::{Bench, Ran};
use whyslow_agent_wire::handshake::hook;
use whyslow_profile::{HeapNote, Unwatched};

const GROUP: usize = hook::PER_GROUP;

/// Uses each of libc's functions at least once.
const CALLS: &str = r#"
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    void *volatile block = 0;
#ifndef NOTHING
    for (int i = 0; i < 100; i++) { block = malloc(i); free(block); }
    for (int i = 0; i < 50; i++) { block = calloc(2, i); block = realloc(block, 1000); free(block); }
    posix_memalign((void **)&block, 64, 10); free(block);
    block = aligned_alloc(64, 64); free(block);
    block = memalign(64, 64); free(block);
    block = valloc(10); free(block);
    block = pvalloc(10); free(block);
    block = reallocarray(0, 3, 5); free(block);
#endif
    write(1, "done\n", 5);
    _exit(0);
}
"#;

#[test]
fn a_static_programs_libc_is_patched_completely() {
    let Some(bench) = Bench::new() else { return };
    for (name, options) in [("static", &["-static", "-w"][..]), ("static-pie", &["-static-pie", "-w"])] {
        let ran = bench.hooked(&bench.gcc(name, CALLS, options));
        // A static libc allocates before `main`.
        let nothing = bench.hooked(&bench.gcc("nothing", CALLS, &[options, &["-DNOTHING"]].concat()));
        assert_eq!(ran.output.stdout, b"done\n", "{name}");
        assert_eq!(ran.plan.notes, Vec::<HeapNote>::new(), "{name}");
        assert_eq!(ran.plan.allocators, ["static libc"], "{name}");
        let of = |ran: &Ran, row: usize| ran.hooks.get(&row).copied().unwrap_or_default();
        let calls = |row: usize| of(&ran, row).0 - of(&nothing, row).0;
        assert_eq!(calls(GROUP + hook::MALLOC), 100, "{name}");
        let bytes = of(&ran, GROUP + hook::MALLOC).1 - of(&nothing, GROUP + hook::MALLOC).1;
        assert_eq!(bytes, (0..100).sum::<u64>(), "{name}");
        assert_eq!(calls(GROUP + hook::CALLOC), 50, "{name}");
        assert_eq!(calls(GROUP + hook::REALLOC), 50, "{name}");
        assert_eq!(calls(GROUP + hook::FREE), 156, "{name}");
        assert_eq!(calls(GROUP + hook::POSIX_MEMALIGN), 1, "{name}");
        // One function or two, depending on libc.
        assert_eq!(calls(GROUP + hook::ALIGNED_ALLOC) + calls(GROUP + hook::MEMALIGN), 2, "{name}");
        assert_eq!(calls(GROUP + hook::VALLOC), 1, "{name}");
        assert_eq!(calls(GROUP + hook::PVALLOC), 1, "{name}");
        assert_eq!(calls(GROUP + hook::REALLOCARRAY), 1, "{name}");
        assert_eq!(of(&ran, hook::EXIT).0, 1, "{name}");
    }
}

/// Number of patches in every dynamic program: `_exit`, three exec functions, four other functions that lead
/// to an exit, and the loader's notification of libraries.
const PATCHES_PER_PROGRAM: usize = 9;

/// Blocks that a thread frees go to its cache, which glibc releases through `free` when the thread exits.
#[test]
fn hooks_the_end_of_a_threads_cache_in_a_static_program() {
    const THREADS: &str = r#"
#include <pthread.h>
#include <stdlib.h>
static void *run(void *argument) {
    void *volatile block = malloc(10);
    free(block);
    return argument;
}
int main(void) {
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, run, 0);
        pthread_join(thread, 0);
    }
    return 0;
}
"#;
    let Some(bench) = Bench::new() else { return };
    let ran = bench.hooked(&bench.gcc("threads", THREADS, &["-static", "-pthread"]));
    assert_eq!(ran.plan.notes, Vec::<HeapNote>::new());
    assert_eq!(ran.hooks[&hook::MASKED].0, 3);
}

#[test]
fn patches_only_exits_execs_and_library_loads_of_a_dynamic_program() {
    let Some(bench) = Bench::new() else { return };
    let ran = bench.hooked(&bench.gcc("dynamic", "int main(void) { return 0; }", &[]));
    assert_eq!(ran.plan.notes, Vec::<HeapNote>::new());
    assert_eq!(ran.plan.allocators, ["libc"]);
    let mut rows: Vec<usize> = ran.plan.reals.iter().map(|real| real.hook as usize).collect();
    rows.sort_unstable();
    let ends = [hook::SIGACTION, hook::SYSCALL, hook::ORDERLY_EXIT, hook::QUICK_EXIT];
    assert_eq!(
        rows,
        [&[hook::EXIT, hook::EXECVE, hook::EXECVEAT, hook::FEXECVE, hook::LOADED][..], &ends].concat()
    );
    // One page for libc, one for the loader.
    assert_eq!((ran.plan.patches.len(), ran.plan.pages.len()), (PATCHES_PER_PROGRAM, 2));
    assert_eq!(ran.hooks.keys().copied().collect::<Vec<_>>(), [hook::EXIT]);
}

#[test]
fn functions_that_are_hard_to_move_still_work() {
    let Some(bench) = Bench::new() else { return };
    let ways: [(&str, &[&str]); 4] = [
        ("pie", &["-pie", "-fPIE"]),
        ("fixed", &["-no-pie"]),
        ("static", &["-static"]),
        ("static-pie", &["-static-pie"]),
    ];
    for (name, options) in ways {
        let ran = bench.hooked(&bench.gcc(name, include_str!("../programs/tricky.c"), options));
        let said = String::from_utf8_lossy(&ran.output.stdout);
        assert_eq!(said, "55 21 1005 8 10 7 14 6 77 123 456 1508 -1 1508 -1\n", "{name}");
        assert!(ran.plan.allocators.iter().any(|allocator| allocator == "mimalloc"), "{name}");
        let unseen = |function: &str, why: &str| HeapNote::FunctionNotWatched {
            function: function.to_owned(),
            why: why.to_owned(),
            unseen: Unwatched::Calls,
        };
        assert_eq!(
            ran.plan.notes,
            [
                unseen("mi_free_size", "it is too short"),
                unseen("mi_malloc_small", "it jumps back to its own first bytes"),
            ],
            "{name}"
        );
        assert_eq!(ran.hooks[&hook::EXIT].0, 1, "{name}");
        if name.starts_with("static") {
            // printf uses the static libc's functions, which are hooked too.
            continue;
        }
        // Calls, and the sum of their first arguments, by row across all groups.
        let mut rows = [(0, 0); GROUP];
        for (row, (calls, sum)) in ran.hooks.iter().filter(|(row, _)| **row != hook::EXIT) {
            rows[row % GROUP].0 += calls;
            rows[row % GROUP].1 += sum;
        }
        // mi_malloc twice, mi_new, mi_new_nothrow, mi_malloc_aligned, mi_heap_malloc_aligned
        assert_eq!(rows[hook::MALLOC].0 + rows[hook::ALLOC_LIKE].0, 6, "{name}");
        assert_eq!(rows[hook::MALLOC].1 + rows[hook::ALLOC_LIKE].1, 20 + 1 + 1 + 3 + 2, "{name}");
        // mi_zalloc, mi_zalloc_aligned, and the two products that do not overflow
        assert_eq!(rows[hook::ALLOC_LIKE_2], (4, 5 + 3 + 15 + 15), "{name}");
        assert_eq!(rows[hook::REALLOC_LIKE], (1, 5), "{name}");
    }
}

/// A global allocator written in Rust: a bump allocator in static memory.
const BUMP: &str = r#"
use std::alloc::{GlobalAlloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering};
struct Bump;
#[repr(align(4096))]
struct Memory(std::cell::UnsafeCell<[u8; 1 << 20]>);
unsafe impl Sync for Memory {}
static MEMORY: Memory = Memory(std::cell::UnsafeCell::new([0; 1 << 20]));
static USED: AtomicUsize = AtomicUsize::new(0);
unsafe impl GlobalAlloc for Bump {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let at = USED.load(Ordering::Relaxed).next_multiple_of(layout.align());
        assert!(at + layout.size() <= 1 << 20, "full");
        USED.store(at + layout.size(), Ordering::Relaxed);
        unsafe { MEMORY.0.get().cast::<u8>().add(at) }
    }
    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
#[global_allocator]
static ALLOCATOR: Bump = Bump;
fn main() {
    for size in 0..100 {
        let mut block = std::hint::black_box(Vec::<u8>::with_capacity(1000 + size));
        block.extend_from_slice(&[7; 3]);
        block.reserve_exact(2000);
        std::hint::black_box(&block);
    }
    println!("done");
}
"#;

/// The same program with a wrapper around the system's allocator.
fn wrapper() -> String {
    let (before, rest) = BUMP.split_once("struct Bump;").unwrap();
    let (_, main) = rest.split_once("#[global_allocator]").unwrap();
    let wrapper = "struct Bump;
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        unsafe impl GlobalAlloc for Bump {
            #[inline(never)]
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                COUNT.fetch_add(1, Ordering::Relaxed);
                unsafe { std::alloc::System.alloc(layout) }
            }
            unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
                unsafe { std::alloc::System.dealloc(block, layout) }
            }
        }
        #[global_allocator]";
    format!("{before}{wrapper}{main}")
}

#[test]
fn hooks_the_compilers_functions_for_an_allocator_written_in_rust() {
    let Some(bench) = Bench::new() else { return };
    // Without optimisation nothing is inlined, so every call goes through the compiler's functions.
    let ran = bench.hooked(&bench.rustc("bump", BUMP, &["-Copt-level=0"]));
    assert_eq!(ran.output.stdout, b"done\n");
    assert_eq!(ran.plan.allocators, ["libc", "an allocator written in Rust"]);
    assert!(matches!(&ran.plan.notes[..], [HeapNote::RustAllocator { .. }]), "{:?}", ran.plan.notes);
    assert_eq!(ran.hooks[&(GROUP + hook::RUST_REALLOC)].0, 100);
    assert!(ran.hooks[&(GROUP + hook::ALLOC_LIKE)].0 >= 100);
    assert!(ran.hooks[&(GROUP + hook::FREE_LIKE)].0 >= 100);
}

#[test]
fn hooks_libcs_allocator_when_the_compilers_functions_lead_there() {
    let Some(bench) = Bench::new() else { return };
    let system = "fn main() { println!(\"{}\", std::hint::black_box(vec![1; 100]).len()); }";
    for (name, source) in [("system", system), ("wrapper", &wrapper())] {
        for level in ["-Copt-level=0", "-Copt-level=3"] {
            let ran = bench.hooked(&bench.rustc(name, source, &[level]));
            assert!(ran.output.status.success(), "{name} {level}");
            assert_eq!(ran.plan.allocators, ["libc"], "{name} {level}");
            assert_eq!(ran.plan.patches.len(), PATCHES_PER_PROGRAM, "{name} {level}");
        }
        let ran = bench.hooked(&bench.rustc(name, source, &["-Ctarget-feature=+crt-static"]));
        assert!(ran.output.status.success(), "{name}");
        assert_eq!(ran.plan.allocators, ["static libc"], "{name}");
    }
}

#[test]
fn patches_a_dynamic_program_with_its_own_malloc() {
    let Some(bench) = Bench::new() else { return };
    let source = r#"
        #include <stddef.h>
        static char memory[1 << 20];
        static size_t used, frees;
        void *malloc(size_t size) { void *block = memory + used; used += (size + 15) & ~15ul; return block; }
        void free(void *block) { *(char *)block = 1; frees++; }
        // Like tcmalloc's: it does not call malloc.
        void *_Znwm(size_t size) { void *block = memory + used; used += (size + 15) & ~15ul; return block; }
        // Like libstdc++'s: it calls malloc, and is recorded there.
        void *_Znam(size_t size) { return malloc(size); }
        int main(void) {
            for (int i = 0; i < 10; i++) { free(malloc(100)); _Znwm(7); _Znam(9); }
            return 0;
        }"#;
    let options = ["-O1", "-rdynamic", "-fno-builtin", "-fno-inline", "-fno-optimize-sibling-calls"];
    let ran = bench.hooked(&bench.gcc("own", source, &options));
    assert_eq!(ran.plan.allocators, ["the program's own malloc"]);
    assert_eq!(ran.plan.notes, Vec::<HeapNote>::new());
    let malloc = ran.hooks[&(GROUP + hook::MALLOC)];
    assert!(malloc.0 >= 20, "libc may use it too");
    assert_eq!(ran.hooks[&(2 * GROUP + hook::MALLOC)], (10, 70));
    assert!(ran.hooks[&(GROUP + hook::FREE)].0 >= 10);
    assert_eq!(ran.plan.patches.len(), 3 + PATCHES_PER_PROGRAM, "malloc, free, operator new");
}

#[test]
fn patches_a_stripped_program_only_with_its_debug_file() {
    let Some(bench) = Bench::new() else { return };
    let program = bench.gcc("stripped", CALLS, &["-static", "-w", "-Wl,--build-id=sha1"]);
    let run = |arguments: &[&str]| {
        let done = std::process::Command::new("objcopy")
            .current_dir(program.parent().unwrap())
            .args(arguments)
            .status();
        done.is_ok_and(|status| status.success())
    };
    if !run(&["--only-keep-debug", "stripped", "stripped.debug"]) {
        whyslow_lab_harness::skip("objcopy is not installed");
        return;
    }
    assert!(run(&["--strip-all", "--add-gnu-debuglink=stripped.debug", "stripped"]));
    let ran = bench.hooked(&program);
    assert_eq!(ran.plan.notes, Vec::<HeapNote>::new());
    assert!(ran.hooks[&(GROUP + hook::MALLOC)].0 >= 100);

    std::fs::remove_file(bench.path("stripped.debug")).unwrap();
    let ran = bench.hooked(&program);
    assert_eq!(ran.output.stdout, b"done\n");
    assert_eq!(ran.plan.patches.len(), 0);
    assert!(matches!(&ran.plan.notes[..], [HeapNote::StaticWithoutSymbols { .. }]), "{:?}", ran.plan.notes);
}

#[test]
fn patches_a_librarys_allocators() {
    let Some(bench) = Bench::new() else { return };
    let library = r#"
        #include <stddef.h>
        static char memory[1 << 20];
        static size_t used, frees;
        static void *next(size_t size) { void *block = memory + used; used += (size + 15) & ~15ul; return block; }
        void *mi_malloc(size_t size) { return next(size); }
        void mi_free(void *block) { frees += block != 0; }
        void *malloc(size_t size) { return next(size); }
        // This one calls no other known function; the next one does, through the linkage table.
        void *_Znwm(size_t size) { return next(size); }
        void *_Znam(size_t size) { return _Znwm(size); }"#;
    let shared = bench.gcc("libown.so", library, &["-O1", "-shared", "-fPIC", "-fno-builtin"]);
    let program = r#"
        void *mi_malloc(long), mi_free(void *), *_Znwm(long), *_Znam(long);
        int main(void) { for (int i = 0; i < 10; i++) { mi_free(mi_malloc(5)); _Znwm(7); _Znam(9); } return 0; }"#;
    let program = bench.gcc("uses", program, &[shared.to_str().unwrap(), "-fno-builtin"]);
    let ran = bench.hooked(&program);
    assert!(ran.output.status.success());
    assert_eq!(ran.plan.allocators, ["libc", "mimalloc"]);
    assert_eq!(ran.plan.notes, Vec::<HeapNote>::new());
    assert_eq!(ran.plan.patches.len(), 4 + PATCHES_PER_PROGRAM, "mi_malloc, mi_free, malloc, operator new");
    assert_eq!(ran.hooks[&(GROUP + hook::MALLOC)], (10, 50));
    assert_eq!(ran.hooks[&(GROUP + hook::FREE)].0, 10);
    assert_eq!(ran.hooks[&(3 * GROUP + hook::MALLOC)], (20, 70 + 90));
    assert_eq!(ran.plan.pages.len(), 3, "one each for the library, libc and the loader");
}
