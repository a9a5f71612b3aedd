//! One test for each row of the table.

use super::*;
use CodeKind::{Allocator, Dependency, Kernel, Runtime, Std, Unknown, Yours};

const APP: &str = "/home/me/app/target/release/app";
const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

/// A Rust name with a hash, so that it counts as mangled.
const RUST: &str = "_ZN1a1b17h0123456789abcdefE";

fn check(
    name: &str,
    raw: &str,
    file: Option<&str>,
    module: (ModuleKind, &str),
) -> (CodeKind, Option<String>) {
    classify(&Subject {
        name,
        raw,
        file,
        module_kind: module.0,
        module_path: module.1,
        language: Language::Rust,
        at_home: false,
    })
}

#[track_caller]
fn expect(found: (CodeKind, Option<String>), kind: CodeKind, crate_name: Option<&str>) {
    assert_eq!((found.0, found.1.as_deref()), (kind, crate_name));
}

fn rust(name: &str, file: Option<&str>) -> (CodeKind, Option<String>) {
    check(name, RUST, file, (ModuleKind::Program, APP))
}

fn c(name: &str, file: Option<&str>, module: (ModuleKind, &str)) -> (CodeKind, Option<String>) {
    check(name, name, file, module)
}

#[test]
fn linker_stubs_are_runtime() {
    expect(c("malloc@plt", None, (ModuleKind::Program, APP)), Runtime, None);
}

#[test]
fn interpreters_are_runtime() {
    let other = |name, file, module_kind, module_path| {
        classify(&Subject {
            name,
            raw: name,
            file,
            module_kind,
            module_path,
            language: Language::Other,
            at_home: false,
        })
    };
    let ceval = Some("/home/me/cpython/Python/ceval.c");
    let eval = "_PyEval_EvalFrameDefault";
    let python = "/home/me/.pyenv/versions/3.11.7/bin/python3.11";
    expect(other(eval, ceval, ModuleKind::Program, python), Runtime, Some("python"));
    let libpython = "/usr/lib/libpython3.11.so.1.0";
    expect(other(eval, None, ModuleKind::Library, libpython), Runtime, Some("python"));
    expect(other("node::Start()", None, ModuleKind::Program, "/usr/bin/node"), Runtime, Some("node"));
    let libjvm = "/usr/lib/jvm/java-17/lib/server/libjvm.so";
    expect(other("JavaCalls::call_helper", None, ModuleKind::Library, libjvm), Runtime, Some("jvm"));
    expect(other("f", Some("/home/me/f.c"), ModuleKind::Program, "/home/me/python-app"), Yours, None);
    // A Rust program may have the name of an interpreter.
    let node = (ModuleKind::Program, "/home/me/node/target/release/node");
    expect(check("node::sync", RUST, Some("/home/me/node/src/sync.rs"), node), Yours, Some("node"));
}

#[test]
fn the_kernel_is_the_kernel() {
    expect(c("vfs_read", None, (ModuleKind::Kernel, "[kernel]")), Kernel, Some("kernel"));
    expect(c("malloc", None, (ModuleKind::Kernel, "[kernel]")), Kernel, Some("kernel"));
}

#[test]
fn allocators() {
    let libc = (ModuleKind::Library, LIBC);
    for name in [
        "malloc",
        "free",
        "calloc",
        "realloc",
        "_int_malloc",
        "_int_free",
        "malloc_consolidate",
        "sysmalloc",
        "unlink_chunk",
        "tcache_get",
        "__libc_malloc",
        "__GI___libc_free",
    ] {
        expect(c(name, None, libc), Allocator, Some("libc"));
    }
    expect(c("malloc", Some("./malloc/malloc.c"), libc), Allocator, Some("libc"));
    let program = (ModuleKind::Program, APP);
    for name in [
        "__rust_alloc",
        "__rust_dealloc",
        "__rust_realloc",
        "__rdl_alloc",
        "__rg_alloc",
        "je_malloc",
        "_rjem_malloc",
        "_mi_page_malloc",
        "mi_malloc",
        "__rustc::__rust_alloc",
        "operator new(unsigned long)",
        "operator delete(void*)",
        "tcmalloc::allocate_full()",
    ] {
        assert_eq!(c(name, None, program).0, Allocator, "{name}");
    }
    for name in [
        "alloc::alloc::alloc",
        "alloc::alloc::dealloc",
        "alloc::alloc::realloc",
        "alloc::alloc::exchange_malloc",
        "alloc::alloc::Global::alloc_impl",
        "<alloc::alloc::Global as core::alloc::Allocator>::allocate",
        "<std::alloc::System as core::alloc::global::GlobalAlloc>::alloc",
        "<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
    ] {
        assert_eq!(rust(name, None).0, Allocator, "{name}");
    }
    let file = "/rustc/1/library/alloc/src/alloc.rs";
    expect(c("alloc_impl", Some(file), program), Allocator, Some("alloc"));
    let jemalloc = "/home/me/.cargo/registry/src/x/tikv-jemalloc-sys-0.6.0/jemalloc/src/arena.c";
    expect(c("arena_bin_malloc_hard", Some(jemalloc), program), Allocator, Some("tikv_jemalloc_sys"));
    assert_eq!(rust("alloc::vec::Vec<T,A>::push", Some("/rustc/1/library/alloc/src/vec/mod.rs")).0, Std);
    assert_eq!(rust("app::mi_mode", Some("/home/me/app/src/main.rs")).0, Yours);
}

#[test]
fn start_up() {
    let program = (ModuleKind::Program, APP);
    for name in ["_start", "main"] {
        assert_eq!(c(name, None, program).0, Runtime, "{name}");
    }
    assert_eq!(c("main", Some("/home/me/app/main.c"), program).0, Yours);
    for name in ["__libc_start_main", "__libc_start_call_main", "clone3", "start_thread"] {
        expect(c(name, None, (ModuleKind::Library, LIBC)), Runtime, Some("libc"));
    }
    let std_file = Some("/rustc/1/library/std/src/rt.rs");
    for name in [
        "std::rt::lang_start",
        "std::rt::lang_start::{{closure}}",
        "std::rt::lang_start_internal",
        "std::sys::backtrace::__rust_begin_short_backtrace",
        "std::panicking::try",
        "std::panicking::catch_unwind::do_call",
        "std::sys::thread::unix::Thread::new::thread_start",
        "core::ops::function::FnOnce::call_once{{vtable.shim}}",
    ] {
        assert_eq!(rust(name, std_file).0, Runtime, "{name}");
    }
}

#[test]
fn files_of_the_standard_library() {
    expect(rust("core::fmt::write", Some("/rustc/0a1b/library/core/src/fmt/mod.rs")), Std, Some("core"));
    let installed = "/home/me/.rustup/toolchains/stable/lib/rustlib/src/rust/library/std/src/io/mod.rs";
    expect(rust("std::io::Read::read", Some(installed)), Std, Some("std"));
    expect(
        rust("core::x", Some("/rustc/0a1b/library/stdarch/crates/core_arch/src/x86.rs")),
        Std,
        Some("core"),
    );
    expect(rust("hashbrown::map::f", Some("/rust/deps/hashbrown-0.15.2/src/map.rs")), Std, Some("hashbrown"));
    // Also when it was inlined into the user's program under a name without a path.
    expect(
        c("next<u8>", Some("/rustc/0/library/core/src/iter/range.rs"), (ModuleKind::Program, APP)),
        Std,
        Some("core"),
    );
}

#[test]
fn files_of_dependencies() {
    for (file, name) in [
        (
            "/home/me/.cargo/registry/src/registry-6f17d22bba15001f/aho-corasick-1.1.3/src/lib.rs",
            "aho_corasick",
        ),
        ("/home/me/.cargo/registry/src/x/zstd-sys-2.0.13+zstd.1.5.6/zstd/lib/zstd.c", "zstd_sys"),
        ("/cargo/registry/src/x/rand-0.9.0-beta.1/src/lib.rs", "rand"),
        ("/home/me/.cargo/git/checkouts/some-lib-0123456789abcdef/89abcde/src/lib.rs", "some_lib"),
        (
            "/home/me/.cargo/git/checkouts/tokio-0123456789abcdef/89abcde/tokio-util/src/codec.rs",
            "tokio_util",
        ),
        ("/home/me/app/vendor/serde-json/src/lib.rs", "serde_json"),
        ("vendor/serde-1.0.2/src/lib.rs", "serde"),
        ("/usr/share/cargo/registry/ripgrep-14.1.1/debian/../crates/core/main.rs", "ripgrep"),
    ] {
        expect(rust("x::y", Some(file)), Dependency, Some(name));
    }
    let file = Some("/home/me/.cargo/registry/src/x/app-1.0.0/src/main.rs");
    expect(rust("app::run", file), Yours, Some("app"));
}

#[test]
fn packages_of_the_program_are_yours() {
    let file = "/home/me/.cargo/registry/src/x/app-core-1.0.0/src/lib.rs";
    let at_home = |at_home| {
        let (module_kind, module_path) = (ModuleKind::Program, "/home/me/.cargo/bin/other");
        let language = Language::Rust;
        let file = Some(file);
        classify(&Subject {
            name: "app_core::f",
            raw: RUST,
            file,
            module_kind,
            module_path,
            language,
            at_home,
        })
    };
    expect(at_home(true), Yours, Some("app_core"));
    expect(at_home(false), Dependency, Some("app_core"));
}

#[test]
fn libraries() {
    expect(c("__vdso_clock_gettime", None, (ModuleKind::Vdso, "[vdso]")), Runtime, Some("vdso"));
    expect(c("memcpy", None, (ModuleKind::Library, LIBC)), Runtime, Some("libc"));
    expect(c("memcpy", Some("./string/memcpy.S"), (ModuleKind::Library, LIBC)), Runtime, Some("libc"));
    expect(c("cos", None, (ModuleKind::Library, "/lib/libm-2.31.so")), Runtime, Some("libm-2.31"));
    let loader = (ModuleKind::Library, "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2");
    expect(c("do_lookup_x", None, loader), Runtime, Some("ld-linux-x86-64"));
    let ssl = (ModuleKind::Library, "/usr/lib/x86_64-linux-gnu/libssl.so.3");
    expect(c("SSL_read", None, ssl), Dependency, Some("libssl"));
    expect(c("SSL_read", Some("../ssl/ssl_lib.c"), ssl), Dependency, Some("libssl"));
    let own = (ModuleKind::Library, "/home/me/app/target/release/libplugin.so");
    expect(c("plugin_run", Some("/home/me/app/plugin.c"), own), Yours, None);
    expect(c("plugin_run", None, own), Dependency, Some("libplugin"));
    expect(c("LazyCompile:f", None, (ModuleKind::Jit, "[jit:1]")), Yours, None);
}

#[test]
fn headers_of_the_system_are_not_the_users_code() {
    let program = (ModuleKind::Program, APP);
    for (file, library) in [
        ("/usr/include/c++/12/bits/new_allocator.h", "libstdc++"),
        ("/usr/include/x86_64-linux-gnu/c++/12/bits/gthr-default.h", "libstdc++"),
        ("/opt/gcc/include/c++/13.2.0/vector", "libstdc++"),
        ("/usr/lib/llvm-16/bin/../include/c++/v1/vector", "libc++"),
    ] {
        let name = "std::vector<int, std::allocator<int> >::push_back(int const&)";
        expect(check(name, "_ZNSt6vectorIiSaIiEE9push_backERKi", Some(file), program), Std, Some(library));
    }
    expect(c("printf", Some("/usr/include/x86_64-linux-gnu/bits/stdio2.h"), program), Runtime, Some("libc"));
    expect(c("go", Some("/home/me/c++/game/go.h"), program), Yours, None);
    let eigen = Some("/usr/include/eigen3/Eigen/src/Core/Product.h");
    expect(c("Eigen::Product::run()", eigen, program), Dependency, Some("eigen3"));
    expect(c("inflate", Some("/usr/include/zlib.h"), program), Dependency, Some("zlib"));
    let library = (ModuleKind::Library, "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30");
    expect(c("__cxa_allocate_exception", None, library), Std, Some("libstdc++"));
    expect(c("operator new(unsigned long)", None, library), Allocator, Some("libstdc++"));
}

#[test]
fn other_files_are_yours() {
    expect(rust("app::main", Some("/home/me/app/src/main.rs")), Yours, Some("app"));
    expect(rust("helper::go", Some("/home/me/app/helper/src/lib.rs")), Yours, Some("helper"));
    expect(c("go", Some("/home/me/app/go.c"), (ModuleKind::Program, APP)), Yours, None);
}

#[test]
fn names_decide_without_a_file() {
    expect(rust("core::fmt::write", None), Std, Some("core"));
    expect(rust("<T as alloc::string::ToString>::to_string", None), Std, Some("alloc"));
    expect(rust("app::main", None), Yours, Some("app"));
    expect(rust("app_core::run", None), Yours, Some("app_core"));
    expect(rust("<app::Foo as core::fmt::Debug>::fmt", None), Yours, Some("app"));
    expect(rust("regex::find", None), Dependency, Some("regex"));
    expect(c("some_c_function", None, (ModuleKind::Program, APP)), Unknown, None);
    let test = (ModuleKind::Program, "/x/target/debug/deps/my_app-0123456789abcdef");
    expect(check("my_app::f", RUST, None, test), Yours, Some("my_app"));
}

#[test]
fn crates_of_names() {
    for (name, crate_name) in [
        ("app::f", Some("app")),
        ("<app::T as core::fmt::Debug>::fmt", Some("app")),
        ("<&mut app::T as core::fmt::Debug>::fmt", Some("app")),
        ("<&T as app::X>::f", Some("app")),
        ("<T as core::convert::Into<U>>::into", Some("core")),
        ("<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter", Some("alloc")),
        ("<[T] as alloc::slice::Join<S>>::join", Some("alloc")),
        ("<dyn app::Shape>::area", Some("app")),
        ("<fn() -> app::T as core::ops::FnOnce<()>>::call_once", Some("core")),
        ("main", None),
        ("f<app::T>", None),
        ("", None),
        ("<", None),
    ] {
        assert_eq!(crate_of_name(name), crate_name, "{name}");
    }
}
