//! What must be patched in a process that has just started, or in a library that has just come, byte by byte.

use std::path::Path;

use whyslow_heap_wire::handshake::{Hello, Patch, Real, entered, hook};
use whyslow_proc::process;
use whyslow_profile::{HeapFacts, HeapNote, Unwatched};

use crate::allocators::{Order, telling_names};
use crate::arch::{MOST_PER_FUNCTION, Page, Prologue, Refusal};
use crate::image::{Files, Function, Image};
use crate::maps::Maps;
use crate::targets::Found;

/// Code to be mapped at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchPage {
    /// Where. A multiple of 4096, free when the plan was made.
    pub at: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// What the agent must do to see every allocation, beyond what it sees by being preloaded.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Code that patched functions jump into, one per patched module.
    pub pages: Vec<PatchPage>,
    /// Where hooks find the functions that they stand in for.
    pub reals: Vec<Real>,
    /// What to write where, in the order of addresses.
    pub patches: Vec<Patch>,
    /// A search table for the unwind information of a program that has none: an `.eh_frame_hdr` with absolute addresses.
    pub unwind_table: Vec<u8>,
    /// Its runtime asks the kernel who handled signals of a crash before it, and hands them on: Go's.
    pub hands_crashes_on: bool,
    /// The allocators that are watched, by name.
    pub allocators: Vec<String>,
    /// What will not be seen.
    pub notes: Vec<HeapNote>,
}

/// What the agent is to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Purpose {
    /// Allocations.
    pub heap: bool,
    /// CPU time.
    pub samples: bool,
}

/// Looks at a process whose agent waits for an answer, and says what to patch.
///
/// For allocations: libc's functions, which the agent was preloaded before, need no patch. Allocators that are linked into the program or into a library
/// do. So do `_exit` and others that lead to a process's last moment, the functions that execute another program, and the
/// one by which the loader tells debuggers of libraries that come later. For CPU time: the functions that make threads and processes, and the
/// last two of these.
pub fn plan(hello: &Hello, pid: u32, purpose: Purpose) -> Plan {
    let mut planner = Planner { hello, rows: [false; hook::COUNT], plan: Plan::default() };
    let maps = match Maps::of(pid) {
        Ok(maps) => maps,
        Err(error) => {
            if purpose.heap {
                planner.note(HeapNote::MappingsUnreadable { pid, error: error.to_string() });
            }
            return planner.plan;
        }
    };
    if purpose.heap {
        match hello.entered {
            entered::LOADED => planner.library(&maps, pid),
            _ => planner.program(&maps, pid),
        }
        if hello.entered == entered::PRELOADED {
            planner.libraries(&maps, pid);
        }
    }
    if purpose.samples {
        match hello.entered {
            entered::INJECTED => planner.sampled_program(&maps, pid),
            entered::PRELOADED => planner.sampled_libraries(&maps, pid),
            _ => {}
        }
    }
    planner.plan.patches.sort_by_key(|patch| patch.address);
    planner.plan
}

struct Planner<'h> {
    hello: &'h Hello,
    /// Hooks that are taken.
    rows: [bool; hook::COUNT],
    plan: Plan,
}

/// A function to be patched, its shape's rows and its arguments.
struct Job<'d> {
    function: Function<'d>,
    rows: Rows,
    order: Order,
}

/// Hooks that fit.
#[derive(Clone, Copy)]
enum Rows {
    /// One of these, in any group but the first.
    Any(&'static [usize]),
    /// This one.
    Only(usize),
}

impl Planner<'_> {
    fn program(&mut self, maps: &Maps, pid: u32) {
        let link = process::program_file(pid);
        let name = process::program(pid).unwrap_or_default();
        let path = name.to_string_lossy();
        let files = match Files::open(&link, &name) {
            Ok(files) => files,
            Err(error) => {
                self.note(HeapNote::FileUnreadable { path: path.into_owned(), error: error.to_string() });
                return;
            }
        };
        let Some(image) = Image::read(&files, maps, &path) else {
            self.note(HeapNote::FileNotUnderstood { path: path.into_owned() });
            return;
        };
        let is_static = self.hello.entered == entered::INJECTED || !image.has_interpreter;
        let found = Found::in_program(&image, is_static);
        if self.hello.entered == entered::PRELOADED && !found.replaces_libc {
            self.preloaded(maps);
        }
        self.explain(&image, &found, &path, is_static);
        let mut jobs = jobs(&found);
        if is_static {
            jobs.extend(exit(&image));
            jobs.extend(execs(&image));
            jobs.extend(ends(&image));
            self.allow_signals(&image);
            jobs.extend(cache_ends(&image));
        }
        self.plan.unwind_table = image.unwind_table();
        self.plan.hands_crashes_on = image.has_section(".go.buildinfo");
        self.patch(&image, maps, &jobs);
        self.name(&found.allocators);
    }

    /// A static program whose threads and children are to be sampled. Where it has no symbols, they are found later or not at all.
    fn sampled_program(&mut self, maps: &Maps, pid: u32) {
        let name = process::program(pid).unwrap_or_default();
        let Ok(files) = Files::open(&process::program_file(pid), &name) else { return };
        let Some(image) = Image::read(&files, maps, &name.to_string_lossy()) else { return };
        let mut jobs: Vec<Job<'_>> = execs(&image).chain(threads(&image)).collect();
        jobs.retain(|job| self.row(job.rows).is_some());
        self.patch(&image, maps, &jobs);
        self.call(&image);
    }

    /// Says where functions are that the agent calls.
    fn call(&mut self, image: &Image<'_>) {
        for (name, hook) in
            [("pthread_key_create", hook::KEY_CREATE), ("pthread_setspecific", hook::SET_SPECIFIC)]
        {
            if let Some(function) = image.function(name) {
                let address = function.address.wrapping_add(image.bias);
                self.plan.reals.push(Real { hook: hook as u32, reserved: 0, address });
            }
        }
    }

    /// libc's and the loader's functions, unless they are patched already.
    fn sampled_libraries(&mut self, maps: &Maps, pid: u32) {
        let mut paths: Vec<&str> = maps.0.iter().map(|mapping| mapping.name.as_str()).collect();
        paths.retain(|path| path.starts_with('/') && (is_libc(path) || is_loader(path) || is_pthread(path)));
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let inside = process::file_in_root(pid, path);
            let files = Files::open_public(&inside).or_else(|_| Files::open_public(path.as_ref()));
            let Some(image) = files.as_ref().ok().and_then(|files| Image::read(files, maps, path)) else {
                continue;
            };
            let mut jobs = Vec::new();
            if is_libc(path) {
                jobs.extend(execs(&image));
            }
            if is_loader(path) {
                jobs.extend(loads(&image));
            } else {
                jobs.extend(threads(&image));
            }
            jobs.retain(|job| self.row(job.rows).is_some());
            self.patch(&image, maps, &jobs);
            self.call(&image);
        }
    }

    /// A static program without `sigaction` does not ask about its signals, so nothing has to be hidden from it. Those in Go ask the kernel.
    fn allow_signals(&mut self, image: &Image<'_>) {
        let hook = hook::SIGACTION;
        let silent = image.has_symbols && image.function("sigaction").is_none();
        if silent && !image.has_section(".go.buildinfo") {
            // That there is something says that they may be looked after; nobody calls it.
            self.plan.reals.push(Real { hook: hook as u32, reserved: 0, address: self.hello.hooks[hook] });
        }
    }

    /// Libraries that are there from the start. The agent itself is none of them.
    fn libraries(&mut self, maps: &Maps, pid: u32) {
        let agent = maps.path_at(self.hello.agent_start).unwrap_or("");
        let program = process::program(pid).unwrap_or_default();
        let mut paths: Vec<&str> = maps.0.iter().map(|mapping| mapping.name.as_str()).collect();
        paths.retain(|path| path.starts_with('/') && *path != agent && Path::new(path) != program);
        paths.sort_unstable();
        paths.dedup();
        let telling = telling_names();
        let mut has_exit = false;
        for path in paths {
            let Some(files) = open_library(pid, path) else { continue };
            if !is_libc(path) && !is_loader(path) && !files.define_any(&telling) {
                continue;
            }
            let Some(image) = Image::read(&files, maps, path) else { continue };
            if image.range.contains(&self.hello.agent_start) {
                continue;
            }
            let mut moments = Vec::new();
            if is_libc(path) {
                moments.extend(exit(&image));
                has_exit |= !moments.is_empty();
                moments.extend(execs(&image));
                moments.extend(ends(&image));
            }
            if is_loader(path) {
                moments.extend(loads(&image));
            }
            if is_libc(path) || is_loader(path) {
                self.patch(&image, maps, &moments);
            } else {
                self.watch(&image, maps, &Found::in_library(&image));
            }
        }
        if !has_exit {
            self.note(HeapNote::NoExitFunction);
        }
    }

    /// A library that has come later. One that is there twice, as in a namespace of its own, is told apart by its place.
    fn library(&mut self, maps: &Maps, pid: u32) {
        let path = maps.path_at(self.hello.library).unwrap_or("");
        if !path.starts_with('/') || is_libc(path) || is_loader(path) {
            return;
        }
        let Some(files) = open_library(pid, path) else { return };
        if !files.define_any(&telling_names()) {
            return;
        }
        match Image::read(&files, maps, path).filter(|image| image.range.contains(&self.hello.library)) {
            Some(image) => self.watch(&image, maps, &Found::in_library(&image)),
            None => self.note(HeapNote::FileNotUnderstood { path: path.to_owned() }),
        }
    }

    /// Patches an allocator's functions.
    fn watch(&mut self, image: &Image<'_>, maps: &Maps, found: &Found<'_>) {
        self.patch(image, maps, &jobs(found));
        self.name(&found.allocators);
    }

    /// Remembers allocators that are watched, each once.
    fn name(&mut self, allocators: &[&str]) {
        for name in allocators {
            if !self.plan.allocators.iter().any(|known| known == name) {
                self.plan.allocators.push((*name).to_owned());
            }
        }
    }

    /// Names the allocator that the agent was preloaded before.
    fn preloaded(&mut self, maps: &Maps) {
        let path = maps.path_at(self.hello.next[hook::MALLOC]).unwrap_or("");
        let name =
            if path.is_empty() || is_libc(path) { "libc" } else { path.rsplit('/').next().unwrap_or(path) };
        self.plan.allocators.push(name.to_owned());
    }

    /// Says what is missing.
    fn explain(&mut self, image: &Image<'_>, found: &Found<'_>, path: &str, is_static: bool) {
        let path = path.to_owned();
        if found.only_shims {
            self.note(HeapNote::RustAllocator { path: path.clone() });
        }
        if !found.targets.is_empty() {
            return;
        }
        if image.has_section(".go.buildinfo") {
            self.note(HeapNote::GoHeap { path });
        } else if !image.has_symbols {
            let named = [("<jemalloc>", "jemalloc"), ("mimalloc: ", "mimalloc")];
            let inside = named.iter().find(|(text, _)| image.contains(text)).map(|(_, name)| *name);
            if let Some(name) = inside {
                self.note(HeapNote::AllocatorWithoutSymbols { path, allocator: name.to_owned() });
                self.plan.allocators.push(format!("{name} {}", HeapFacts::NOT_SEEN));
            } else if is_static {
                self.note(HeapNote::StaticWithoutSymbols { path });
            } else if !["malloc", "calloc", "realloc", "posix_memalign"]
                .iter()
                .any(|name| image.imports(name))
            {
                self.note(HeapNote::NoSymbolsNoMalloc { path });
            }
        } else if is_static {
            self.note(HeapNote::NoKnownAllocator { path });
        }
    }

    /// Patches functions of one module.
    fn patch(&mut self, image: &Image<'_>, maps: &Maps, jobs: &[Job<'_>]) {
        let mut prologues = Vec::new();
        for job in jobs {
            let prologue = match image.code(job.function) {
                Some(code) => Prologue::of(code, &image.cold_parts(job.function)),
                None => Err(Refusal::NoCode),
            };
            match prologue {
                Ok(prologue) => prologues.push((job, prologue)),
                Err(refusal) => self.unseen(job, &refusal.to_string()),
            }
        }
        if prologues.is_empty() {
            return;
        }
        let len = (prologues.len() * MOST_PER_FUNCTION) as u64;
        // The new page must not lie where one of another module will.
        let Some(at) = maps
            .with(
                self.plan
                    .pages
                    .iter()
                    .map(|page| page.at..(page.at + page.bytes.len() as u64).next_multiple_of(4096)),
            )
            .place(&image.range, len)
        else {
            for (job, _) in &prologues {
                self.unseen(job, "there is no free place for a jump to reach");
            }
            return;
        };
        let mut page = Page::new(at);
        for (job, prologue) in &prologues {
            let Some(row) = self.row(job.rows) else {
                self.unseen(job, "there are too many functions of its kind");
                continue;
            };
            match page.add(prologue, job.order, row, self.hello.hooks[row]) {
                Ok((real, patch)) => {
                    self.rows[row] = true;
                    self.bypass(job.function.address.wrapping_add(image.bias), real.address);
                    self.plan.reals.push(real);
                    self.plan.patches.push(patch);
                }
                Err(refusal) => self.unseen(job, &refusal.to_string()),
            }
        }
        if !page.bytes.is_empty() {
            self.plan.pages.push(PatchPage { at: page.at, bytes: page.bytes });
        }
    }

    /// A function that the agent was preloaded before is patched under another name: the agent must not come by the patch, or it would see
    /// its own calls.
    fn bypass(&mut self, function: u64, moved: u64) {
        let same = self.hello.next.iter().enumerate().filter(|(_, next)| **next == function);
        self.plan.reals.extend(same.map(|(hook, _)| Real { hook: hook as u32, reserved: 0, address: moved }));
    }

    /// A free hook.
    fn row(&self, rows: Rows) -> Option<usize> {
        let free = |row: &usize| !self.rows[*row] && self.hello.hooks[*row] != 0;
        match rows {
            Rows::Only(row) => Some(row).filter(free),
            Rows::Any(rows) => {
                let in_all_groups = |row: &usize| {
                    let row = *row;
                    (1..hook::GROUPS).map(move |group| group * hook::PER_GROUP + row)
                };
                rows.iter().flat_map(in_all_groups).find(free)
            }
        }
    }

    fn unseen(&mut self, job: &Job<'_>, why: &str) {
        let unseen = match job.rows {
            Rows::Only(hook::MASKED) => Unwatched::FreedBefore,
            Rows::Only(hook::EXECVE..=hook::FEXECVE) => Unwatched::StaticPrograms,
            Rows::Only(hook::SIGACTION | hook::SYSCALL) => Unwatched::Ends,
            Rows::Only(hook::ORDERLY_EXIT | hook::QUICK_EXIT) => Unwatched::HiddenLeaks,
            Rows::Only(hook::LOADED) => Unwatched::LaterLibraries,
            _ => Unwatched::Calls,
        };
        let (function, why) = (job.function.name.to_owned(), why.to_owned());
        self.note(HeapNote::FunctionNotWatched { function, why, unseen });
    }

    fn note(&mut self, note: HeapNote) {
        self.plan.notes.push(note);
    }
}

fn jobs<'d>(found: &Found<'d>) -> Vec<Job<'d>> {
    let job = |target: &crate::targets::Target<'d>| Job {
        function: target.function,
        rows: Rows::Any(target.shape.rows),
        order: target.shape.order,
    };
    found.targets.iter().map(job).collect()
}

/// The end of a process. musl's `exit` goes to `_Exit`, and so does its `_exit`; elsewhere they are one.
fn exit<'d>(image: &Image<'d>) -> Option<Job<'d>> {
    let function = image.function("_Exit").or_else(|| image.function("_exit"))?;
    Some(Job { function, rows: Rows::Only(hook::EXIT), order: Order::Same })
}

/// All ways to execute another program: libc's other functions of this kind come here.
fn execs<'d>(image: &Image<'d>) -> impl Iterator<Item = Job<'d>> {
    let functions = [("execve", hook::EXECVE), ("execveat", hook::EXECVEAT), ("fexecve", hook::FEXECVE)];
    functions.into_iter().filter_map(|(name, hook)| {
        let function = image.function(name)?;
        Some(Job { function, rows: Rows::Only(hook), order: Order::Same })
    })
}

/// What makes threads and processes, what takes the agent's signal away, and what forbids system calls.
fn threads<'d>(image: &Image<'d>) -> impl Iterator<Item = Job<'d>> {
    let fork = if image.function("_Fork").is_some() { "_Fork" } else { "fork" };
    let functions = [
        ("pthread_create", hook::THREAD),
        (fork, hook::FORK),
        ("pthread_cancel", hook::CANCEL),
        ("prctl", hook::PRCTL),
        ("syscall", hook::SYSCALL),
    ];
    functions.into_iter().filter_map(|(name, hook)| {
        let function = image.function(name)?;
        Some(Job { function, rows: Rows::Only(hook), order: Order::Same })
    })
}

/// What else leads to an end: signals that nothing is set for, the system call itself, and the orderly way.
fn ends<'d>(image: &Image<'d>) -> impl Iterator<Item = Job<'d>> {
    let functions = [
        ("sigaction", hook::SIGACTION),
        ("syscall", hook::SYSCALL),
        ("exit", hook::ORDERLY_EXIT),
        ("quick_exit", hook::QUICK_EXIT),
    ];
    functions.into_iter().filter_map(|(name, hook)| {
        let function = image.function(name)?;
        Some(Job { function, rows: Rows::Only(hook), order: Order::Same })
    })
}

/// The loader's word to debuggers, an empty function that it calls.
fn loads<'d>(image: &Image<'d>) -> Option<Job<'d>> {
    let function = image.function("_dl_debug_state")?;
    Some(Job { function, rows: Rows::Only(hook::LOADED), order: Order::Same })
}

/// The end of a thread's cache. glibc frees through its own `free` what lies there, and the program has freed all of it.
fn cache_ends<'d>(image: &Image<'d>) -> Option<Job<'d>> {
    let function = image.function("__malloc_arena_thread_freeres")?;
    Some(Job { function, rows: Rows::Only(hook::MASKED), order: Order::Same })
}

fn open_library(pid: u32, path: &str) -> Option<Files> {
    let inside = process::file_in_root(pid, path);
    Files::open(&inside, Path::new(path)).or_else(|_| Files::open(path.as_ref(), path.as_ref())).ok()
}

/// Whether a file is glibc's dynamic loader, by its name.
fn is_loader(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("ld-linux") || name.starts_with("ld-2")
}

/// Whether a file is the library of threads that glibc had before 2.34, by its name.
fn is_pthread(path: &str) -> bool {
    path.rsplit('/').next().unwrap_or(path).starts_with("libpthread")
}

/// Whether a file is the C library, by its name.
fn is_libc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libc.so", "libc-2", "ld-musl", "libc.musl"].iter().any(|start| name.starts_with(start))
}
