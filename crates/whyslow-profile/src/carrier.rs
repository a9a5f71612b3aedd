//! Code that only carries other code: it starts programs and threads, runs tasks, catches panics, passes
//! calls on.
//!
//! All knowledge is in the table [`FAMILIES`]: a row adds a family, a pattern adds a function. `*` matches
//! any text. Patterns are compared with the path of a name without its generic arguments. For `<Type as
//! Trait>::method`, the type's path is tried first, then the trait's. If debug info has inlined functions
//! without their paths, the file provides it: `call_once` in `core/src/ops/function.rs` is
//! `core::ops::function::call_once`.

use crate::async_form::AsyncForm;
use crate::tables::CodeKind;

/// The purpose of carrier code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Starts the program.
    StartUp,
    /// Starts a thread.
    ThreadStart,
    /// Runs tasks that other code submits.
    Executor,
    /// Catches panics of the code that it calls.
    PanicCatching,
    /// Passes calls on: closures, iterators, options, lazy initialisation.
    Plumbing,
}

/// A family of functions that only carry other code: a row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Carrier(u8);

struct Family {
    word: &'static str,
    role: Role,
    /// A pattern with `!` excludes a function that looks like the family but does its own work. The first
    /// match decides.
    patterns: &'static [&'static str],
}

const FAMILIES: &[Family] = &[
    Family {
        word: "start-up",
        role: Role::StartUp,
        patterns: &[
            "_start",
            "_start_c",
            "__libc_start*",
            "libc_start_main_stage2",
            "__libc_csu_init",
            "_init",
            "_fini",
            "_dl_start_user",
            "std::rt::*",
            "runtime.main",
            "runtime.rt0_go*",
            "_rt0_*",
            "Py_BytesMain",
            "Py_RunMain",
            "pymain_*",
            "node::Start*",
            "JavaMain",
        ],
    },
    Family {
        word: "thread start",
        role: Role::ThreadStart,
        patterns: &[
            "clone",
            "__clone",
            "clone3",
            "__clone3",
            "start_thread",
            "std::sys::*::thread_start*",
            "*::__rust_begin_short_backtrace*",
            "std::thread::Builder::spawn_unchecked*",
            "std::thread::lifecycle::*",
            "std::thread::scoped::*",
            "execute_native_thread_routine",
            "std::thread::_*",
            "runtime.goexit*",
            "runtime.mstart*",
            "ThreadJavaMain",
            "thread_native_entry*",
        ],
    },
    Family {
        word: "panic catching",
        role: Role::PanicCatching,
        patterns: &[
            "__rust_try",
            "std::panicking::try*",
            "std::panicking::catch_unwind*",
            "std::panicking::do_call*",
            "std::panic::catch_unwind*",
            "core::panic::unwind_safe::*",
        ],
    },
    Family {
        word: "std",
        role: Role::Plumbing,
        patterns: &[
            "core::ops::function::*",
            "core::iter::*",
            "core::slice::iter::*",
            "core::array::iter::*",
            "core::option::*",
            "core::result::*",
            "core::future::*",
            "core::pin::*",
            "core::cell::once::*",
            "core::cell::lazy::*",
            "std::sync::once*",
            "std::sync::lazy_lock::*",
            "std::sync::poison::once::*",
            "std::sys::sync::once::*",
            "std::thread::local::*",
            "alloc::vec::spec_*",
            "alloc::vec::in_place_collect::*",
            "alloc::vec::Vec::extend_trusted*",
            "*std::__invoke*",
            "*std::_Function_handler*",
        ],
    },
    Family {
        word: "rayon",
        role: Role::Executor,
        patterns: &["!rayon::slice::*sort*", "rayon::*", "rayon_core::*"],
    },
    Family {
        word: "tokio",
        role: Role::Executor,
        patterns: &["tokio::runtime::*", "tokio::task::*", "tokio::loom::*", "tokio::future::*"],
    },
    Family {
        word: "smol",
        role: Role::Executor,
        patterns: &[
            "async_executor::*",
            "async_global_executor::*",
            "async_task::*",
            "async_io::driver::*",
            "async_std::task::*",
            "async_std::rt::*",
            "blocking::*",
            "smol::*",
        ],
    },
    Family {
        word: "futures",
        role: Role::Executor,
        patterns: &[
            "futures_executor::*",
            "futures_lite::*",
            "futures_util::future::*",
            "futures_util::stream::*",
            "tracing::instrument::*",
        ],
    },
    Family {
        word: "crossbeam",
        role: Role::Executor,
        patterns: &["crossbeam::scope*", "crossbeam_utils::thread::*", "threadpool::*"],
    },
    Family { word: "actix", role: Role::Executor, patterns: &["actix_rt::*"] },
    Family {
        word: "OpenMP",
        role: Role::Executor,
        patterns: &[
            "gomp_thread_start",
            "GOMP_parallel*",
            "__kmp_invoke_*",
            "__kmp_launch_*",
            "__kmp_fork_*",
        ],
    },
    Family { word: "TBB", role: Role::Executor, patterns: &["tbb::*"] },
];

impl Carrier {
    /// The family of a function, if it only carries other code. The user's own code never does, whatever its
    /// name. `file` is where it is defined, if known.
    pub fn of(name: &str, kind: CodeKind, file: Option<&str>) -> Option<Self> {
        let for_any = match kind {
            CodeKind::Yours | CodeKind::Kernel | CodeKind::Allocator => return None,
            // The entry point that compilers generate for the user's own.
            CodeKind::Runtime if name == "main" => return Some(Self::START_UP),
            CodeKind::Dependency => false,
            CodeKind::Runtime | CodeKind::Std | CodeKind::Unknown => true,
        };
        Self::find(name, for_any).or_else(|| {
            let path = plain(name);
            let in_module = in_module_of_file(&path, file)?;
            Self::find(&in_module, for_any)
        })
    }

    /// The family by the name alone, for code without other information.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::find(name, true)
    }

    /// The family that starts programs.
    pub const START_UP: Self = Self(0);

    /// Its display name.
    pub fn word(self) -> &'static str {
        self.family().word
    }

    /// Its purpose.
    pub fn role(self) -> Role {
        self.family().role
    }

    /// True for code that only starts a program or a thread.
    pub fn starts(self) -> bool {
        matches!(self.role(), Role::StartUp | Role::ThreadStart)
    }

    /// True for code that carries no information by itself.
    pub fn says_nothing(self) -> bool {
        matches!(self.role(), Role::PanicCatching | Role::Plumbing)
    }

    /// True for code that belongs to the family around it.
    pub fn joins(self, around: Self) -> bool {
        // The code that runs a thread's function also runs `main`.
        self == around || self.says_nothing() || (self.starts() && around.starts())
    }

    /// Its row in the table.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Every family, in the order of their codes.
    pub fn all() -> impl ExactSizeIterator<Item = Self> {
        (0..FAMILIES.len() as u8).map(Self)
    }

    fn family(self) -> &'static Family {
        &FAMILIES[usize::from(self.0)]
    }

    /// `for_any` type: the trait determines the purpose of a method of another crate's type.
    fn find(name: &str, for_any: bool) -> Option<Self> {
        let (of_type, of_trait) = paths(AsyncForm::split(name).1);
        let found = |path: &str| {
            for (code, family) in FAMILIES.iter().enumerate() {
                for pattern in family.patterns {
                    match pattern.strip_prefix('!') {
                        Some(works) if fits(path, works) => return None,
                        None if fits(path, pattern) => return Some(Self(code as u8)),
                        _ => {}
                    }
                }
            }
            None
        };
        let is_anyones = for_any
            || !of_type.contains("::")
            || ["core::", "alloc::", "std::"].iter().any(|std| of_type.starts_with(std));
        found(&of_type).or_else(|| if is_anyones { found(&of_trait?) } else { None })
    }
}

/// The path of a function without generic arguments; for a method, that of its type. `file` is where it is
/// defined, and provides the module of a bare name.
pub fn function_path(name: &str, file: Option<&str>) -> String {
    let (path, _) = paths(AsyncForm::split(name).1);
    in_module_of_file(&path, file).unwrap_or(path)
}

/// A bare name with the module of its file.
fn in_module_of_file(bare: &str, file: Option<&str>) -> Option<String> {
    let module = file.filter(|_| !bare.contains("::")).and_then(module_of_file)?;
    Some(format!("{module}::{bare}"))
}

/// `…/rayon-core-1.13.0/src/join/mod.rs` → `rayon_core::join`.
fn module_of_file(file: &str) -> Option<String> {
    let (folder, inside) = file.rsplit_once("/src/")?;
    let package = folder.rsplit('/').next()?;
    let versioned =
        package.rsplit_once('-').filter(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    let package = versioned.map_or(package, |(name, _)| name).replace('-', "_");
    let modules = inside.strip_suffix(".rs")?.split('/').filter(|part| !matches!(*part, "mod" | "lib"));
    Some(modules.fold(package, |path, part| path + "::" + part))
}

/// The path of a name without generic arguments; for `<Type as Trait>::method`, those of the type and of the
/// trait.
pub(crate) fn paths(name: &str) -> (String, Option<String>) {
    let Some((inside, method)) = name.strip_prefix('<').and_then(split_at_closing) else {
        return (plain(name), None);
    };
    let (of_type, of_trait) = split_as(inside);
    let method = plain(method);
    let of_type = of_type.trim_start_matches(['&', '*', '[', '(']);
    let of_type = ["mut ", "const ", "dyn "].iter().fold(of_type, |path, word| path.trim_start_matches(word));
    (plain(of_type) + &method, of_trait.map(|path| plain(path) + &method))
}

/// `core::option::Option<T>::map::<U>` → `core::option::Option::map`.
fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    let mut depth = 0_usize;
    let mut before = ' ';
    for letter in path.chars() {
        match letter {
            '<' => {
                if depth == 0 && plain.ends_with("::") {
                    plain.truncate(plain.len() - 2);
                }
                depth += 1;
            }
            '>' if before == '-' => {}
            '>' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
        before = letter;
    }
    plain
}

/// The parts before and after the bracket that closes the one opened before `text`.
fn split_at_closing(text: &str) -> Option<(&str, &str)> {
    let at = outside(text).find(|(_, letter)| *letter == '>')?.0;
    Some((&text[..at], &text[at + 1..]))
}

/// `Type as Trait` → its parts.
fn split_as(text: &str) -> (&str, Option<&str>) {
    match outside(text).find(|(at, _)| text[*at..].starts_with(" as ")) {
        Some((at, _)) => (&text[..at], Some(&text[at + 4..])),
        None => (text, None),
    }
}

/// The characters outside all brackets, and an unmatched closing bracket.
fn outside(text: &str) -> impl Iterator<Item = (usize, char)> + '_ {
    let mut depth = 0_i32;
    let mut before = ' ';
    text.char_indices().filter(move |(_, letter)| {
        let arrow = before == '-' && *letter == '>';
        before = *letter;
        match letter {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' if !arrow => depth -= 1,
            _ => return depth == 0,
        }
        depth < 0
    })
}

/// Whether a text matches a pattern in which `*` matches any text.
pub(crate) fn fits(text: &str, pattern: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return text == pattern };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let Some((middle, last)) = rest.rsplit_once('*') else { return text.ends_with(rest) };
    for part in middle.split('*') {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(name: &str, kind: CodeKind) -> &'static str {
        Carrier::of(name, kind, None).map_or("-", Carrier::word)
    }

    #[test]
    fn knows_names_of_both_mangling_schemes() {
        use CodeKind::{Dependency, Runtime, Std};
        for (name, kind, expected) in [
            ("_start", Runtime, "start-up"),
            ("__libc_start_call_main", Runtime, "start-up"),
            ("main", Runtime, "start-up"),
            ("std::rt::lang_start::{{closure}}", Runtime, "start-up"),
            ("std::rt::lang_start::<()>::{closure#0}", Runtime, "start-up"),
            ("clone3", Runtime, "thread start"),
            ("std::sys::backtrace::__rust_begin_short_backtrace", Runtime, "thread start"),
            (
                "std::sys_common::backtrace::__rust_begin_short_backtrace::<app::f, ()>",
                Runtime,
                "thread start",
            ),
            ("<std::sys::thread::unix::Thread>::new::thread_start", Runtime, "thread start"),
            ("std::sys::pal::unix::thread::Thread::new::thread_start", Std, "thread start"),
            ("std::thread::Builder::spawn_unchecked_::{{closure}}", Runtime, "thread start"),
            (
                "std::thread::_State_impl<std::thread::_Invoker<std::tuple<void (*)()> > >::_M_run()",
                Std,
                "thread start",
            ),
            ("__rust_try", Runtime, "panic catching"),
            ("std::panicking::catch_unwind::do_call::<app::f, ()>", Runtime, "panic catching"),
            (
                "<core::panic::unwind_safe::AssertUnwindSafe<app::f> as core::ops::function::FnOnce<()>>::call_once",
                Std,
                "panic catching",
            ),
            ("core::ops::function::FnOnce::call_once{{vtable.shim}}", Runtime, "std"),
            (
                "<alloc::boxed::Box<dyn core::ops::function::FnOnce<()>> as core::ops::function::FnOnce<()>>::call_once",
                Std,
                "std",
            ),
            ("<&mut app::main::{closure#0} as core::ops::function::FnMut<(u32,)>>::call_mut", Std, "std"),
            ("core::ops::function::impls::<impl core::ops::function::FnMut<A> for &F>::call_mut", Std, "std"),
            ("<core::option::Option<app::Row>>::map::<u32, app::f>", Std, "std"),
            ("core::option::Option<T>::map", Std, "std"),
            (
                "<alloc::vec::Vec<u8> as core::iter::traits::collect::FromIterator<u8>>::from_iter::<app::I>",
                Std,
                "std",
            ),
            ("rayon_core::join::join_context::{{closure}}", Dependency, "rayon"),
            ("<rayon_core::job::StackJob<L, F, R> as rayon_core::job::Job>::execute", Dependency, "rayon"),
            (
                "rayon::iter::plumbing::bridge_producer_consumer::helper::<app::P, app::C>",
                Dependency,
                "rayon",
            ),
            (
                "<alloc::vec::Vec<u8> as rayon::iter::IntoParallelIterator>::into_par_iter",
                Dependency,
                "rayon",
            ),
            ("<tokio::runtime::task::core::Core<app::F, S>>::poll::{closure#0}", Dependency, "tokio"),
            ("tokio::runtime::scheduler::multi_thread::worker::Context::run_task", Dependency, "tokio"),
            ("async_executor::Executor::run::{{closure}}", Dependency, "smol"),
            ("async fn async_executor::Executor::run", Dependency, "smol"),
            ("async block in tokio::task::local::LocalSet::run_until", Dependency, "tokio"),
            ("gomp_thread_start", Dependency, "OpenMP"),
        ] {
            assert_eq!(word(name, kind), expected, "{name}");
        }
    }

    #[test]
    fn code_that_does_work_is_not_a_carrier() {
        use CodeKind::{Allocator, Dependency, Kernel, Runtime, Std, Unknown, Yours};
        for (name, kind) in [
            ("main", Yours),
            ("main", Unknown),
            ("clone", Yours),
            ("app::main", Yours),
            ("rayon::iter::map::map", Yours),
            ("start_thread", Kernel),
            ("malloc", Allocator),
            ("memcpy", Runtime),
            ("alloc::vec::Vec<T>::push", Std),
            ("core::slice::sort::stable::drift::sort", Std),
            ("rayon::slice::mergesort::par_mergesort", Dependency),
            ("rayon::slice::sort::par_quicksort", Dependency),
            ("tokio::sync::mpsc::chan::Tx<T,S>::send", Dependency),
            ("<dep::Row as rayon::iter::plumbing::Folder<u8>>::consume", Dependency),
            ("rayonnement::run", Dependency),
            ("<", Unknown),
            ("<a as", Unknown),
            ("", Unknown),
        ] {
            assert_eq!(word(name, kind), "-", "{name}");
        }
    }

    #[test]
    fn a_file_provides_the_module_of_a_bare_name() {
        fn of(name: &str, kind: CodeKind, file: &str) -> &'static str {
            Carrier::of(name, kind, Some(file)).map_or("-", Carrier::word)
        }
        let std = |name, file: &str| of(name, CodeKind::Std, &format!("/rustc/59807616/library/{file}"));
        assert_eq!(std("catch_unwind<(), app::F>", "std/src/panicking.rs"), "panic catching");
        assert_eq!(std("do_call<app::F, ()>", "std/src/panicking.rs"), "panic catching");
        assert_eq!(std("call_once<(), app::F>", "core/src/ops/function.rs"), "std");
        assert_eq!(std("map<usize, u64>", "core/src/option.rs"), "std");
        assert_eq!(std("{closure#1}<app::F, ()>", "std/src/thread/lifecycle.rs"), "thread start");
        assert_eq!(std("push<u8>", "alloc/src/vec/mod.rs"), "-");
        let registry = "/home/me/.cargo/registry/src/index-1949cf8c6b5b557f";
        let dependency = |name, file: &str| of(name, CodeKind::Dependency, &format!("{registry}/{file}"));
        assert_eq!(dependency("execute", "rayon-core-1.13.0/src/job.rs"), "rayon");
        assert_eq!(dependency("helper<P, C>", "rayon-1.11.0/src/iter/plumbing/mod.rs"), "rayon");
        assert_eq!(dependency("poll<F>", "tokio-1.54.1/src/runtime/task/core.rs"), "tokio");
        assert_eq!(dependency("send", "tokio-1.54.1/src/sync/mpsc/chan.rs"), "-");
        assert_eq!(of("execute", CodeKind::Yours, "/src/rayon/src/iter/mod.rs"), "-");
        assert_eq!(of("f", CodeKind::Unknown, "/src/.rs"), "-");
        let core = format!("{registry}/tokio-1.54.1/src/runtime/task/core.rs");
        assert_eq!(function_path("poll<F>", Some(&core)), "tokio::runtime::task::core::poll");
        assert_eq!(function_path("<a::B<u8> as c::D>::e::<u8>", Some(&core)), "a::B::e");
        assert_eq!(function_path("async fn a::b::<u8>", None), "a::b");
    }

    #[test]
    fn codes_and_words_are_unique() {
        let mut words = Carrier::all().map(Carrier::word).collect::<Vec<_>>();
        assert!(Carrier::all().enumerate().all(|(at, carrier)| usize::from(carrier.code()) == at));
        assert_eq!(Carrier::START_UP.role(), Role::StartUp);
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), FAMILIES.len());
    }
}
