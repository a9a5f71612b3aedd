//! Plans the patches for a process that has just started, or for a library that was just loaded, byte by
//! byte.

use std::collections::HashSet;
use std::io;
use std::ops::Range;
use std::path::Path;

use whyslow_agent_wire::handshake::{Hello, Patch, Real, entered, hook};
use whyslow_agent_wire::purpose::{Purpose, Purposes};
use whyslow_proc::{Mapping, process};
use whyslow_processor::PAGE;
use whyslow_profile::{HeapFacts, HeapNote, Unwatched};

use crate::allocators::{LIBC, OPERATORS, Order};
use crate::arch::{MOST_PER_FUNCTION, Page};
use crate::functions::{
    ALLOCATES, CACHE_ENDS, CALLED, ENDS, EXECS, EXIT, Functions, LOADS, Named, Placed, THREADS, WAITS,
};
use crate::image::{Files, Image, Symbols};
use crate::libraries::{Libraries, PlacedLibrary};
use crate::maps::Maps;
use crate::points::{self, PointPlace};
use crate::targets::{Found, Target};

/// Code to map at an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchPage {
    /// The address: a multiple of 4096, free when the plan was made.
    pub at: u64,
    /// The code.
    pub bytes: Vec<u8>,
}

impl PatchPage {
    /// Where it will be mapped, in whole pages.
    fn range(&self) -> Range<u64> {
        self.at..(self.at + self.bytes.len() as u64).next_multiple_of(PAGE)
    }
}

/// What the agent must do to record every allocation, in addition to being preloaded.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Code that patched functions jump into, one per patched module.
    pub pages: Vec<PatchPage>,
    /// The original functions that hooks call.
    pub reals: Vec<Real>,
    /// The bytes to write, in address order.
    pub patches: Vec<Patch>,
    /// A search table for the unwind information of a program without one: an `.eh_frame_hdr` with absolute
    /// addresses.
    pub unwind_table: Vec<u8>,
    /// Whether the runtime asks the kernel for the previous handlers of crash signals and forwards the
    /// signals to them, as Go's does.
    pub forwards_crash_signals: bool,
    /// The names of the hooked allocators.
    pub allocators: Vec<String>,
    /// What will not be recorded.
    pub notes: Vec<HeapNote>,
}

/// Creates plans.
#[derive(Debug)]
pub struct Planner {
    purposes: Purposes,
    points: Vec<PointPlace>,
    libraries: Libraries,
}

impl Planner {
    /// A planner with an empty cache.
    pub fn new(purposes: Purposes) -> Self {
        Self { purposes, points: Vec::new(), libraries: Libraries::default() }
    }

    /// The same, and this code tells the agent when it runs.
    #[must_use]
    pub fn with_points(self, points: Vec<PointPlace>) -> Self {
        Self { points, ..self }
    }

    /// Plans the patches for a process whose agent waits for an answer. `mappings` are the current mappings
    /// of the process.
    ///
    /// For allocations: the preloaded agent comes before libc's functions, except for libraries that are bound
    /// to libc itself (`RTLD_DEEPBIND`); for those, libc's functions are patched. So are allocators linked into
    /// the program or into a library, `_exit` and other functions that end a process, the functions that
    /// execute another program, and the loader's notification of later libraries.
    /// For CPU time: the functions that create threads and processes, and the last two of these.
    /// For experiments: the same, and the functions that block, sleep and wake.
    pub fn plan(&self, hello: &Hello, pid: u32, mappings: io::Result<Vec<Mapping>>) -> Plan {
        let Self { purposes, points, libraries } = self;
        let mut draft = Draft {
            hello,
            known: libraries,
            rows: [false; hook::COUNT],
            delays: false,
            plan: Plan::default(),
        };
        let maps = match mappings {
            Ok(mappings) => Maps(mappings),
            Err(error) => {
                if purposes.has(Purpose::Heap) {
                    draft.note(HeapNote::MappingsUnreadable { pid, error: error.to_string() });
                }
                return draft.plan;
            }
        };
        if purposes.has(Purpose::Heap) {
            match hello.entered {
                entered::LOADED => draft.library(&maps, pid),
                _ => draft.program(&maps, pid),
            }
            if hello.entered == entered::PRELOADED {
                draft.libraries(&maps, pid);
            }
        }
        if purposes.has(Purpose::Samples) || purposes.has(Purpose::Causal) {
            draft.delays = purposes.has(Purpose::Causal);
            match hello.entered {
                entered::INJECTED => draft.sampled_program(&maps, pid),
                entered::PRELOADED => draft.sampled_libraries(&maps, pid),
                _ => {}
            }
        }
        if purposes.has(Purpose::Causal) && hello.entered != entered::LOADED {
            draft.points(&maps, pid, points);
        }
        draft.plan.patches.sort_by_key(|patch| patch.address);
        draft.plan
    }
}

/// A plan in progress.
struct Draft<'a> {
    hello: &'a Hello,
    known: &'a Libraries,
    /// Hooks that are taken.
    rows: [bool; hook::COUNT],
    /// Whether threads are delayed, so that their waits must be known.
    delays: bool,
    plan: Plan,
}

/// A function to patch, the rows of its shape, and its argument order.
struct Job {
    function: Placed,
    rows: Rows,
    order: Order,
}

/// Hooks that fit.
#[derive(Clone, Copy)]
enum Rows {
    /// One of these, in any group except the first.
    Any(&'static [usize]),
    /// Exactly this one.
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
        self.plan.forwards_crash_signals = image.has_section(".go.buildinfo");
        self.patch(&image.placed_range(), maps, jobs);
        self.name(&found.allocators);
    }

    /// Plans sampling for a static program's threads and children. Without symbols, the sampler finds them
    /// later or not at all.
    fn sampled_program(&mut self, maps: &Maps, pid: u32) {
        let name = process::program(pid).unwrap_or_default();
        let Ok(files) = Files::open(&process::program_file(pid), &name, Symbols::All) else { return };
        let Some(image) = Image::read(&files, maps, &name.to_string_lossy()) else { return };
        if self.delays {
            self.plan.unwind_table = image.unwind_table();
        }
        self.sample(
            &image,
            &image.placed_range(),
            maps,
            self.tables(&[EXECS, THREADS], &[EXECS, THREADS, WAITS]),
        );
    }

    /// The functions for sampling, or for delays.
    fn tables<T: ?Sized>(&self, for_samples: &'static T, for_delays: &'static T) -> &'static T {
        if self.delays { for_delays } else { for_samples }
    }

    /// Patches the functions of a module that sampling needs, unless they are patched already, and gives the
    /// agent the addresses of the functions that it calls.
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
            self.plan.reals.push(Real { hook: hook as u32, point: 0, address: function.address });
        }
    }

    /// Watches the code of progress points, in the program and its libraries. What cannot be watched is never visited,
    /// which the recorder sees.
    fn points(&mut self, maps: &Maps, pid: u32, places: &[PointPlace]) {
        let mut modules: Vec<&Path> = places.iter().map(|place| place.module.as_path()).collect();
        modules.sort_unstable();
        modules.dedup();
        let program = process::program(pid).unwrap_or_default();
        for module in modules {
            let path = module.to_string_lossy();
            let files = match program == module {
                true => Files::open(&process::program_file(pid), module, Symbols::All).ok(),
                false => open_library(pid, &path),
            };
            let image = files.as_ref().and_then(|files| Image::read(files, maps, &path));
            let Some(image) = image else { continue };
            let here: Vec<&PointPlace> = places.iter().filter(|place| place.module == module).collect();
            let len = (here.len() * MOST_PER_FUNCTION) as u64;
            let taken = self.plan.pages.iter().map(PatchPage::range);
            let at = maps.with(taken).place(&image.placed_range(), len);
            let hook = self.hello.hooks[hook::ENTERED];
            let watched = points::watch(&image, &here, at, hook, &mut self.plan.patches);
            self.plan.reals.extend(watched.breakpoints);
            self.plan.pages.extend(watched.page);
        }
    }

    /// Plans sampling for libc's and the loader's functions, unless they are patched already.
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
                path if is_libc(path) => self.tables(&[EXECS, THREADS], &[EXECS, THREADS, WAITS]),
                _ => self.tables(&[THREADS], &[THREADS, WAITS]),
            };
            self.sample(&placed, &placed.range(), maps, tables);
        }
    }

    /// A static program without `sigaction` never asks about its signals, so the agent has nothing to hide
    /// from it. Go programs ask the kernel directly.
    fn allow_signals(&mut self, image: &Image<'_>) {
        let hook = hook::SIGACTION;
        let silent = image.has_symbols && image.function("sigaction").is_none();
        if silent && !image.has_section(".go.buildinfo") {
            // Any entry means that the agent may handle the signals; the address is never called.
            self.plan.reals.push(Real { hook: hook as u32, point: 0, address: self.hello.hooks[hook] });
        }
    }

    /// Plans the libraries that are mapped from the start, except the agent itself.
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
            let mut named_jobs = Vec::new();
            if is_libc(path) {
                named_jobs.extend(named(&placed, EXIT));
                has_exit |= !named_jobs.is_empty();
                named_jobs.extend([EXECS, ENDS].into_iter().flat_map(|table| named(&placed, table)));
                named_jobs.extend(self.libc_allocator(&placed));
            }
            if is_loader(path) {
                named_jobs.extend(named(&placed, LOADS));
            }
            if is_libc(path) || is_loader(path) {
                self.patch(&placed.range(), maps, named_jobs);
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

    /// libc's allocator functions. None if the agent's calls go to another library: that one may call libc's
    /// functions in turn, and each block would count twice.
    fn libc_allocator(&mut self, libc: &PlacedLibrary<'_>) -> Vec<Job> {
        let mut jobs = named(libc, ALLOCATES);
        let mut seen = HashSet::new();
        jobs.retain(|job| seen.insert(job.function.address));
        if ![hook::MALLOC, hook::FREE].iter().all(|hook| seen.contains(&self.hello.next[*hook])) {
            return Vec::new();
        }
        // Blocks whose allocation is recorded and whose free is not would be leaks.
        let unmovable = jobs.iter().find_map(|job| Some((job, job.function.prologue.as_ref().err()?)));
        if let Some((job, refusal)) = unmovable {
            self.note_unhooked(job, &refusal.to_string());
            return Vec::new();
        }
        let Range { start, end } = libc.range();
        for (hook, address) in [(hook::LIBC_START, start), (hook::LIBC_END, end)] {
            self.plan.reals.push(Real { hook: hook as u32, point: 0, address });
        }
        jobs
    }

    /// Plans a library that was loaded later. A library that is mapped twice, for example in another
    /// namespace, is identified by its address.
    fn library(&mut self, maps: &Maps, pid: u32) {
        let path = maps.path_at(self.hello.library).unwrap_or("");
        if !path.starts_with('/') || is_libc(path) || is_loader(path) {
            return;
        }
        if !self.known.get(pid, path, Symbols::All).is_some_and(|library| library.may_allocate) {
            return;
        }
        let Some(files) = open_library(pid, path) else { return };
        match Image::read(&files, maps, path)
            .filter(|image| image.placed_range().contains(&self.hello.library))
        {
            Some(image) => self.watch(&image, maps, &Found::in_library(&image)),
            None => self.note(HeapNote::FileNotUnderstood { path: path.to_owned() }),
        }
    }

    /// Patches an allocator's functions.
    fn watch(&mut self, image: &Image<'_>, maps: &Maps, found: &Found<'_>) {
        self.patch(&image.placed_range(), maps, jobs(image, found));
        self.name(&found.allocators);
    }

    /// Adds the names of hooked allocators, each once.
    fn name(&mut self, allocators: &[&str]) {
        for name in allocators {
            if !self.plan.allocators.iter().any(|known| known == name) {
                self.plan.allocators.push((*name).to_owned());
            }
        }
    }

    /// Adds the name of the allocator that the preloaded agent calls.
    fn preloaded(&mut self, maps: &Maps) {
        let path = maps.path_at(self.hello.next[hook::MALLOC]).unwrap_or("");
        let name =
            if path.is_empty() || is_libc(path) { "libc" } else { path.rsplit('/').next().unwrap_or(path) };
        self.plan.allocators.push(name.to_owned());
    }

    /// Adds notes about what is missing.
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
            } else if !imports_allocator(image) && MAPS_MEMORY.iter().any(|name| image.imports(name)) {
                self.note(HeapNote::NoSymbolsNoMalloc { path });
            }
        } else if is_static {
            self.note(HeapNote::NoKnownAllocator { path });
        }
    }

    /// Patches functions of one module, which has this address range.
    fn patch(&mut self, range: &Range<u64>, maps: &Maps, jobs: Vec<Job>) {
        let mut prologues = Vec::new();
        for job in &jobs {
            match &job.function.prologue {
                Ok(prologue) => prologues.push((job, prologue)),
                Err(refusal) => self.note_unhooked(job, &refusal.to_string()),
            }
        }
        if prologues.is_empty() {
            return;
        }
        let len = (prologues.len() * MOST_PER_FUNCTION) as u64;
        // The new page must not overlap the page of another module.
        let taken = self.plan.pages.iter().map(PatchPage::range);
        let Some(at) = maps.with(taken).place(range, len) else {
            for (job, _) in &prologues {
                self.note_unhooked(job, "there is no free place within reach of a jump");
            }
            return;
        };
        let mut page = Page::new(at);
        for (job, prologue) in &prologues {
            let Some(row) = self.row(job.rows) else {
                self.note_unhooked(job, "there are too many functions of its kind");
                continue;
            };
            match page.add(prologue, job.order, row, self.hello.hooks[row]) {
                Ok((real, patch)) => {
                    self.rows[row] = true;
                    self.bypass(job.function.address, real.address);
                    self.plan.reals.push(real);
                    self.plan.patches.push(patch);
                }
                Err(refusal) => self.note_unhooked(job, &refusal.to_string()),
            }
        }
        if !page.bytes.is_empty() {
            self.plan.pages.push(PatchPage { at: page.at, bytes: page.bytes });
        }
    }

    /// A function that the preloaded agent calls may be patched under another name. The agent must then call
    /// the moved instructions, not the patched function, or it would record its own calls.
    fn bypass(&mut self, function: u64, moved: u64) {
        let same = self.hello.next.iter().enumerate().filter(|(_, next)| **next == function);
        self.plan.reals.extend(same.map(|(hook, _)| Real { hook: hook as u32, point: 0, address: moved }));
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

    fn note_unhooked(&mut self, job: &Job, why: &str) {
        // Their waits are seen at the next sample instead.
        if matches!(job.rows, Rows::Only(row) if row > hook::LIBC_END) {
            return;
        }
        let unseen = match job.rows {
            Rows::Only(hook::MASKED) => Unwatched::FreedBefore,
            Rows::Only(hook::EXECVE..=hook::FEXECVE) => Unwatched::StaticPrograms,
            Rows::Only(hook::SIGACTION | hook::SYSCALL) => Unwatched::Ends,
            Rows::Only(hook::ORDERLY_EXIT | hook::QUICK_EXIT) => Unwatched::HiddenLeaks,
            Rows::Only(hook::LOADED) => Unwatched::LaterLibraries,
            Rows::Only(row) if (hook::LIBC..hook::EXIT).contains(&row) => Unwatched::BoundToLibc,
            _ => Unwatched::Calls,
        };
        let (function, why) = (job.function.name.clone(), why.to_owned());
        self.note(HeapNote::FunctionNotWatched { function, why, unseen });
    }

    fn note(&mut self, note: HeapNote) {
        self.plan.notes.push(note);
    }
}

/// The functions with which an allocator gets its memory.
const MAPS_MEMORY: &[&str] = &["mmap", "mmap64", "sbrk", "brk", "syscall"];

/// Whether a program imports functions that allocate.
fn imports_allocator(image: &Image<'_>) -> bool {
    LIBC.iter().chain(OPERATORS).any(|(name, _)| image.imports(name))
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

/// Whether a file is glibc's separate thread library (before 2.34), by its name.
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

    /// A process that has finished its start-up: it has answered once.
    fn started() -> Child {
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
        child
    }

    #[test]
    fn a_second_process_reuses_the_cached_libraries() {
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
        for purpose in [Purpose::Samples, Purpose::Heap, Purpose::Causal] {
            let planner = Planner::new(Purposes::NONE.and(purpose));
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
            assert!(seen[0].0 >= 2, "at least libc and the loader");
            assert_eq!(seen[0], seen[1], "{purpose:?}");
        }
    }
}
