//! Programs that exit, fork, or are interrupted. Each test runs this test program again as its own process,
//! selected by an environment variable.

#![expect(clippy::unwrap_used, reason = "a failed unwrap in a helper is a failed test")]
#![expect(unsafe_code, reason = "forks and signal handlers are libc's")]

mod own_process;

use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use own_process::in_own_process;
use serde_json::Value;
use whyslow_alloc::{HeapStats, Profiler, Scope};

#[global_allocator]
static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn blocks_of(json: &Value, size: u64) -> usize {
    json["pps"].as_array().unwrap().iter().filter(|point| point["tb"].as_u64() == Some(size)).count()
}

#[test]
fn exiting_writes_the_file() {
    let part = |path: &Path| {
        let profiler = Profiler::builder().file_name(path).build();
        std::mem::forget(black_box(vec![0u8; 123_457]));
        std::mem::forget(profiler);
        std::process::exit(7);
    };
    let Some((_folder, path, output)) = in_own_process("exiting_writes_the_file", part) else { return };
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(blocks_of(&read(&path), 123_457), 1);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("whyslow-alloc: ") && said.contains("written to "), "{said}");
}

#[test]
fn exit_does_not_hang_while_a_thread_holds_stderr() {
    let part = |path: &Path| {
        let _profiler = Profiler::builder().file_name(path).build();
        let (holds, is_held) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let _held = std::io::stderr().lock();
            holds.send(()).unwrap();
            std::thread::sleep(Duration::from_secs(3600));
        });
        is_held.recv().unwrap();
        std::process::exit(3);
    };
    let name = "exit_does_not_hang_while_a_thread_holds_stderr";
    let Some((_folder, path, output)) = in_own_process(name, part) else { return };
    assert_eq!(output.status.code(), Some(3));
    assert!(path.exists());
}

#[test]
fn forked_children_write_nothing_and_do_not_hang() {
    let part = |path: &Path| {
        let profiler = Profiler::builder().file_name(path).build();
        let scope = Scope::with_stacks();
        let stop = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                let stop = &stop;
                scope.spawn_scoped(threads, move || {
                    while !stop.load(Ordering::Relaxed) {
                        drop(black_box(vec![0u8; 100]));
                    }
                });
            }
            for _ in 0..200 {
                // SAFETY: the child allocates as any thread may, and exits without returning.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    drop(black_box(vec![0u8; 654_321]));
                    let counted = black_box(Box::new(3));
                    // SAFETY: it ends only this process. What `exit` runs is part of the test.
                    unsafe { libc::exit(*counted) };
                }
                let mut status = 0;
                // SAFETY: this process's own child and variable.
                unsafe { libc::waitpid(child, &raw mut status, 0) };
                assert_eq!(libc::WEXITSTATUS(status), 3);
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(!path.exists(), "a child wrote the file");
        std::mem::forget(black_box(vec![0u8; 123_457]));
        drop(scope);
        drop(profiler);
    };
    let name = "forked_children_write_nothing_and_do_not_hang";
    let Some((_folder, path, output)) = in_own_process(name, part) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let json = read(&path);
    assert_eq!(blocks_of(&json, 123_457), 1);
    assert_eq!(blocks_of(&json, 654_321), 0);
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

extern "C" fn allocate(_signal: i32) {
    // The system allocator must not be interrupted by itself. The handler runs only where the test raises the
    // signal, and in this crate's code.
    drop(black_box(vec![0u8; 33]));
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn a_signal_handler_that_allocates_is_counted_like_other_code() {
    let part = |_: &Path| {
        let _profiler = Profiler::builder().testing().build();
        // SAFETY: the handler allocates only while this thread is not in the allocator.
        unsafe { libc::signal(libc::SIGUSR1, allocate as *const () as usize) };
        let scope = Scope::with_stacks();
        let before = HeapStats::get();
        for _ in 0..100 {
            // SAFETY: the handler is set.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        assert_eq!(HANDLED.load(Ordering::Relaxed), 100);
        assert_eq!(scope.stats().allocations, 100);
        assert!(HeapStats::get().total_blocks >= before.total_blocks + 100);
        assert!(scope.stacks().contains("100 allocations, 3300 bytes"), "{}", scope.stacks());
    };
    let name = "a_signal_handler_that_allocates_is_counted_like_other_code";
    let Some((_folder, _path, output)) = in_own_process(name, part) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn errno_is_unchanged() {
    let _scope = Scope::with_stacks();
    // SAFETY: errno belongs to this thread.
    let errno = unsafe { libc::__errno_location() };
    for value in 1..50 {
        // SAFETY: as above.
        unsafe { *errno = value };
        drop(black_box(vec![0u8; 10]));
        // SAFETY: as above.
        assert_eq!(unsafe { *errno }, value);
    }
}

#[test]
fn exited_threads_leave_no_memory_behind() {
    let address_space = || {
        let text = std::fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').next().unwrap().parse::<usize>().unwrap() * 4096
    };
    let round = |threads: usize| {
        for _ in 0..threads {
            let work = || {
                let scope = Scope::with_stacks();
                drop(black_box(vec![0u8; 10]));
                scope.stats().allocations
            };
            assert_eq!(std::thread::spawn(work).join().unwrap(), 1);
        }
    };
    // All walkers exist after this.
    round(200);
    let before = address_space();
    round(1000);
    let grown = address_space().saturating_sub(before);
    assert!(grown < 300 << 20, "{} MB of address space for 1000 threads", grown >> 20);
}

#[inline(never)]
fn make_a_block() {
    drop(black_box(vec![0u8; 77]));
}

#[test]
fn stacks_survive_loading_and_unloading_of_libraries() {
    let scope = Scope::with_stacks();
    let mut loaded = 0;
    for name in [c"libresolv.so.2", c"libutil.so.1", c"libanl.so.1", c"libnsl.so.1"] {
        // SAFETY: one of libc's own libraries, without side effects.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        make_a_block();
        if !library.is_null() {
            loaded += 1;
            // SAFETY: opened above, and nothing from it is used.
            unsafe { libc::dlclose(library) };
        }
        make_a_block();
    }
    assert!(loaded > 0, "no library to load");
    let stacks = scope.stacks();
    // Two lines call the function, whichever libraries are loaded.
    assert_eq!(stacks.matches("4 allocations, 308 bytes").count(), 2, "{stacks}");
    assert_eq!(stacks.matches("make_a_block (tests/hard.rs:").count(), 2, "{stacks}");
}

#[test]
fn a_panic_reports_what_was_allocated_before() {
    let part = |_: &Path| {
        let number = black_box(5);
        let panics = |allocates: bool| {
            let _ = std::panic::catch_unwind(|| {
                whyslow_alloc::assert_no_alloc! {
                    if allocates {
                        drop(black_box(vec![0u8; 4321]));
                    }
                    panic!("number {number} of {allocates}");
                }
            });
        };
        panics(false);
        panics(true);
    };
    let Some((.., output)) = in_own_process("a_panic_reports_what_was_allocated_before", part) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let (clean, other) = said.split_once("number 5 of true").unwrap();
    assert!(clean.contains("number 5 of false") && !clean.contains("allocation"), "{said}");
    assert!(
        other.contains("before the panic, in the assertion at ") && other.contains("tests/hard.rs:"),
        "{said}"
    );
    assert!(other.contains(": 1 allocation, 4321 bytes, but none is allowed"), "{said}");
}
