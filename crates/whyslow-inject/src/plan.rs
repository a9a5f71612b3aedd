//! What must be patched in a process that has just started, or in a library that has just come, byte by byte.

use std::io;
use std::ops::Range;
use std::path::Path;

use whyslow_heap_wire::handshake::{Hello, Patch, Real, entered, hook};
use whyslow_proc::{Mapping, process};
use whyslow_profile::{HeapFacts, HeapNote, Unwatched};

use crate::allocators::Order;
use crate::arch::{MOST_PER_FUNCTION, Page};
use crate::functions::{CACHE_ENDS, CALLED, ENDS, EXECS, EXIT, Functions, LOADS, Named, Placed, THREADS};
use crate::image::{Files, Image, Symbols};
use crate::libraries::Libraries;
use crate::maps::Maps;
use crate::targets::{Found, Target};

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

/// Makes plans.
#[derive(Debug)]
pub struct Planner {
    purpose: Purpose,
    libraries: Libraries,
}

impl Planner {
    /// One that knows nothing yet.
    pub fn new(purpose: Purpose) -> Self {
        Self { purpose, libraries: Libraries::default() }
    }

    /// Looks at a process whose agent waits for an answer, and says what to patch. `mappings` are those of the process, as they are now.
    ///
    /// For allocations: libc's functions, which the agent was preloaded before, need no patch. Allocators that are linked into the program or into a library
    /// do. So do `_exit` and others that lead to a process's last moment, the functions that execute another program, and the
    /// one by which the loader tells debuggers of libraries that come later. For CPU time: the functions that make threads and processes, and the
    /// last two of these.
    pub fn plan(&self, hello: &Hello, pid: u32, mappings: io::Result<Vec<Mapping>>) -> Plan {
        let Self { purpose, libraries } = self;
        let mut draft = Draft { hello, known: libraries, rows: [false; hook::COUNT], plan: Plan::default() };
        let maps = match mappings {
            Ok(mappings) => Maps(mappings),
            Err(error) => {
                if purpose.heap {
                    draft.note(HeapNote::MappingsUnreadable { pid, error: error.to_string() });
                }
                return draft.plan;
            }
        };
        if purpose.heap {
            match hello.entered {
                entered::LOADED => draft.library(&maps, pid),
                _ => draft.program(&maps, pid),
            }
            if hello.entered == entered::PRELOADED {
                draft.libraries(&maps, pid);
            }
        }
        if purpose.samples {
            match hello.entered {
                entered::INJECTED => draft.sampled_program(&maps, pid),
                entered::PRELOADED => draft.sampled_libraries(&maps, pid),
                _ => {}
            }
        }
        draft.plan.patches.sort_by_key(|patch| patch.address);
        draft.plan
    }
}

/// A plan that is being made.
struct Draft<'a> {
    hello: &'a Hello,
    known: &'a Libraries,
    /// Hooks that are taken.
    rows: [bool; hook::COUNT],
    plan: Plan,
}

/// A function to be patched, its shape's rows and its arguments.
struct Job {
    function: Placed,
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

impl Draft<'_> {
    fn program(&mut self, maps: &Maps, pid: u32) {
        let link = process::program_file(pid);
        let name = process::program(pid).unwrap_or_default();
        let path = name.to_string_lossy();
        let files = match Files::open(&link, &name, Symbols::All) {
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
        let mut jobs = jobs(&image, &found);
        if is_static {
            jobs.extend([EXIT, EXECS, ENDS, CACHE_ENDS].into_iter().flat_map(|table| named(&image, table)));
            self.allow_signals(&image);
        }
        self.plan.unwind_table = image.unwind_table();
        self.plan.hands_crashes_on = image.has_section(".go.buildinfo");
        self.patch(&image.range, maps, jobs);
        self.name(&found.allocators);
    }

    /// A static program whose threads and children are to be sampled. Where it has no symbols, they are found later or not at all.
    fn sampled_program(&mut self, maps: &Maps, pid: u32) {
        let name = process::program(pid).unwrap_or_default();
        let Ok(files) = Files::open(&process::program_file(pid), &name, Symbols::All) else { return };
        let Some(image) = Image::read(&files, maps, &name.to_string_lossy()) else { return };
        self.sample(&image, &image.range, maps, &[EXECS, THREADS]);
    }

    /// Patches those of a module's functions that samples need and that are not patched already, and says where the agent finds what it calls.
    fn sample(
        &mut self,
        module: &impl Functions,
        range: &Range<u64>,
        maps: &Maps,
        tables: &[&'static [Named]],
    ) {
        let mut jobs: Vec<Job> = tables.iter().flat_map(|table| named(module, table)).collect();
        jobs.retain(|job| self.row(job.rows).is_some());
        self.patch(range, maps, jobs);
        for (function, hook) in module.all_placed(CALLED) {
            self.plan.reals.push(Real { hook: hook as u32, reserved: 0, address: function.address });
        }
    }

    /// libc's and the loader's functions, unless they are patched already.
    fn sampled_libraries(&mut self, maps: &Maps, pid: u32) {
        let mut paths: Vec<&str> = maps.0.iter().map(|mapping| mapping.name.as_str()).collect();
        paths.retain(|path| path.starts_with('/') && (is_libc(path) || is_loader(path) || is_pthread(path)));
        paths.sort_unstable();
        paths.dedup();
        for path in paths {
            let library = self.known.get(pid, path, Symbols::Public);
            let Some(placed) = library.as_ref().and_then(|library| library.in_process(maps, path)) else {
                continue;
            };
            let tables: &[&'static [Named]] = match path {
                path if is_loader(path) => &[LOADS],
                path if is_libc(path) => &[EXECS, THREADS],
                _ => &[THREADS],
            };
            self.sample(&placed, &placed.range(), maps, tables);
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
        let mut has_exit = false;
        for path in paths {
            let Some(library) = self.known.get(pid, path, Symbols::All) else { continue };
            let Some(placed) = library.in_process(maps, path) else { continue };
            if placed.range().contains(&self.hello.agent_start) {
                continue;
            }
            let mut moments = Vec::new();
            if is_libc(path) {
                moments.extend(named(&placed, EXIT));
                has_exit |= !moments.is_empty();
                moments.extend([EXECS, ENDS].into_iter().flat_map(|table| named(&placed, table)));
            }
            if is_loader(path) {
                moments.extend(named(&placed, LOADS));
            }
            if is_libc(path) || is_loader(path) {
                self.patch(&placed.range(), maps, moments);
            } else if library.may_allocate
                && let Some(files) = open_library(pid, path)
                && let Some(image) = Image::read(&files, maps, path)
            {
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
        if !self.known.get(pid, path, Symbols::All).is_some_and(|library| library.may_allocate) {
            return;
        }
        let Some(files) = open_library(pid, path) else { return };
        match Image::read(&files, maps, path).filter(|image| image.range.contains(&self.hello.library)) {
            Some(image) => self.watch(&image, maps, &Found::in_library(&image)),
            None => self.note(HeapNote::FileNotUnderstood { path: path.to_owned() }),
        }
    }

    /// Patches an allocator's functions.
    fn watch(&mut self, image: &Image<'_>, maps: &Maps, found: &Found<'_>) {
        self.patch(&image.range, maps, jobs(image, found));
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

    /// Patches functions of one module, which lies there.
    fn patch(&mut self, range: &Range<u64>, maps: &Maps, jobs: Vec<Job>) {
        let mut prologues = Vec::new();
        for job in &jobs {
            match &job.function.prologue {
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
            .place(range, len)
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
                    self.bypass(job.function.address, real.address);
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

    fn unseen(&mut self, job: &Job, why: &str) {
        let unseen = match job.rows {
            Rows::Only(hook::MASKED) => Unwatched::FreedBefore,
            Rows::Only(hook::EXECVE..=hook::FEXECVE) => Unwatched::StaticPrograms,
            Rows::Only(hook::SIGACTION | hook::SYSCALL) => Unwatched::Ends,
            Rows::Only(hook::ORDERLY_EXIT | hook::QUICK_EXIT) => Unwatched::HiddenLeaks,
            Rows::Only(hook::LOADED) => Unwatched::LaterLibraries,
            _ => Unwatched::Calls,
        };
        let (function, why) = (job.function.name.clone(), why.to_owned());
        self.note(HeapNote::FunctionNotWatched { function, why, unseen });
    }

    fn note(&mut self, note: HeapNote) {
        self.plan.notes.push(note);
    }
}

fn jobs(image: &Image<'_>, found: &Found<'_>) -> Vec<Job> {
    let job = |target: &Target<'_>| Job {
        function: image.place(target.function),
        rows: Rows::Any(target.shape.rows),
        order: target.shape.order,
    };
    found.targets.iter().map(job).collect()
}

/// The functions of a table that a module has.
fn named(module: &impl Functions, table: &'static [Named]) -> Vec<Job> {
    let job = |(function, hook)| Job { function, rows: Rows::Only(hook), order: Order::Same };
    module.all_placed(table).map(job).collect()
}

fn open_library(pid: u32, path: &str) -> Option<Files> {
    let inside = process::file_in_root(pid, path);
    let open = |place: &Path| Files::open(place, Path::new(path), Symbols::All);
    open(&inside).or_else(|_| open(path.as_ref())).ok()
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process that has been started up: it answers.
    fn started() -> Child {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        child
    }

    #[test]
    fn the_second_process_with_the_same_libraries_has_none_of_them_read_again() {
        let hello = Hello {
            version: 0,
            entered: entered::PRELOADED,
            pid: 0,
            reserved: 0,
            hooks: [0x1000; hook::COUNT],
            agent_start: 0,
            agent_end: 0,
            next: [0; hook::PER_GROUP],
            library: 0,
        };
        for purpose in [Purpose { heap: false, samples: true }, Purpose { heap: true, samples: false }] {
            let planner = Planner::new(purpose);
            let mut seen = Vec::new();
            for _ in 0..2 {
                let mut child = started();
                let plan = planner.plan(&hello, child.id(), Mapping::all_of(child.id()));
                drop(child.stdin.take());
                child.wait().unwrap();
                let hooks: Vec<u32> = plan.reals.iter().map(|real| real.hook).collect();
                let covered: Vec<_> = plan.patches.iter().map(|patch| patch.expected).collect();
                assert!(covered.len() > 5, "{plan:?}");
                seen.push((planner.libraries.count_read(), hooks, covered));
            }
            assert!(seen[0].0 >= 2, "libc and the loader at least");
            assert_eq!(seen[0], seen[1], "{purpose:?}");
        }
    }
}
