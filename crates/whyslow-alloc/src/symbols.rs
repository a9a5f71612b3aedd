//! Symbolises addresses with the program's own debug info, only when a stack is shown or written.

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::modules::{self, Module};
use crate::names::Names;
use crate::stack::{self, CUT, Place};

/// A function on a stack. Inlining gives several per address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) function: String,
    pub(crate) file: Option<String>,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Frame {
    /// Whether this is code of the standard library, of the test harness, of program startup, or of this
    /// crate.
    pub(crate) fn is_machinery(&self) -> bool {
        match &self.file {
            Some(file) => is_our_file(file) || is_std_file(file),
            None => is_std_name(&self.function),
        }
    }

    /// Whether this is code between a program and its allocator.
    fn is_allocator(&self) -> bool {
        let between = ["__rust_alloc", "__rust_realloc", "__rg_alloc", "__rg_realloc"];
        self.file.as_deref().is_some_and(is_our_file)
            || between.iter().any(|name| self.function.contains(name))
    }

    /// `file:line`, with the path relative to the current folder if possible.
    pub(crate) fn position(&self) -> Option<String> {
        let file = self.file.as_deref()?;
        let here = std::env::current_dir().ok();
        let path = here.and_then(|here| Path::new(file).strip_prefix(here).ok()).unwrap_or(Path::new(file));
        Some(format!("{}:{}", path.display(), self.line))
    }
}

/// A name without the prefix before the path of its type.
fn path_of(name: &str) -> &str {
    name.trim_start_matches(['<', '&', '*', '[', '('])
}

fn is_our_file(file: &str) -> bool {
    Path::new(file!()).parent().is_some_and(|folder| file.contains(&format!("{}/", folder.display())))
}

fn is_std_file(file: &str) -> bool {
    ["alloc", "core", "std", "test", "panic_unwind", "proc_macro"]
        .iter()
        .any(|name| file.contains(&format!("library/{name}/src/")))
        || file.starts_with("/rustc/")
        || file.contains("/rust/deps/")
}

fn is_std_name(name: &str) -> bool {
    const PATHS: [&str; 7] =
        ["alloc::", "core::", "std::", "test::", "hashbrown::", "__rustc::", "whyslow_alloc::"];
    const NAMES: [&str; 10] = [
        "__rust",
        "__rg_",
        "__rdl_",
        "rust_begin_unwind",
        "_start",
        "__libc_start",
        "start_thread",
        "clone",
        "__clone",
        "main",
    ];
    let path = path_of(name);
    let std = |path: &str| PATHS.iter().any(|prefix| path.starts_with(prefix));
    if let Some((subject, of)) = name.strip_prefix('<').and_then(|rest| rest.split_once(" as ")) {
        // A bare name is a type parameter.
        let subject = path_of(subject);
        return std(path_of(of)) && (std(subject) || !subject.contains("::"));
    }
    std(path) || (!name.contains("::") && NAMES.iter().any(|prefix| path.starts_with(prefix)))
}

/// Looks up addresses, each only once.
pub(crate) struct Symbols {
    modules: Vec<Module>,
    names: FxHashMap<usize, Names>,
    known: FxHashMap<Place, Vec<Frame>>,
}

impl Symbols {
    pub(crate) fn new() -> Self {
        Self { modules: modules::all(), names: FxHashMap::default(), known: FxHashMap::default() }
    }

    /// The frames of a place, innermost first: at least one.
    fn of(&mut self, place: Place) -> &[Frame] {
        self.known.entry(place).or_insert_with(|| {
            let mut frames = look_up(&self.modules, place);
            // Debug info with only line tables has names without their paths. The symbol table has the full
            // name of the function that was not inlined.
            if let Some(outermost) = frames.last_mut()
                && !outermost.function.contains("::")
                && let Some(row) = modules::find(&self.modules, place)
            {
                let module = &self.modules[row];
                let names = self.names.entry(row).or_insert_with(|| Names::of_file(Path::new(&module.path)));
                if let Some(name) = names.at(place.return_address.wrapping_sub(1).wrapping_sub(module.base)) {
                    outermost.function = name;
                }
            }
            frames
        })
    }

    /// The frames of a stack, innermost first, for at most `most` places. Frames of the allocator that the
    /// compiler inlined are left out.
    pub(crate) fn of_stack(&mut self, id: u32, most: usize) -> Vec<(Place, Frame)> {
        let mut frames = Vec::new();
        for place in stack::places(id).take(most) {
            let all = self.of(place);
            let users = if frames.is_empty() {
                all.iter().position(|frame| !frame.is_allocator()).unwrap_or(all.len())
            } else {
                0
            };
            frames.extend(all[users..].iter().map(|frame| (place, frame.clone())));
        }
        frames
    }

    /// Whether a stack belongs to a panic itself: its message, hook or payload.
    pub(crate) fn is_panic(&mut self, id: u32) -> bool {
        const PANICS: [&str; 4] = ["rust_begin_unwind", "panic_with_hook", "begin_panic", "rust_panic"];
        let is_one = |frame: &Frame| PANICS.iter().any(|name| frame.function.contains(name));
        stack::places(id).any(|place| self.of(place).iter().any(is_one))
    }
}

fn unnamed(function: String) -> Vec<Frame> {
    vec![Frame { function, file: None, line: 0, column: 0 }]
}

fn look_up(modules: &[Module], place: Place) -> Vec<Frame> {
    if place.return_address == CUT {
        return unnamed("[truncated stack]".to_owned());
    }
    let module = modules::find(modules, place).map(|row| &modules[row]);
    let mut frames = Vec::new();
    if module.is_none_or(modules::is_loaded) {
        backtrace::resolve(place.return_address as *mut _, |symbol| {
            let Some(name) = symbol.name() else { return };
            frames.push(Frame {
                function: format!("{name:#}"),
                file: symbol.filename().map(|file| file.to_string_lossy().into_owned()),
                line: symbol.lineno().unwrap_or(0),
                column: symbol.colno().unwrap_or(0),
            });
        });
    }
    if frames.is_empty() {
        let call = place.return_address - 1;
        frames = match module {
            Some(module) => {
                let file = module.path.rsplit('/').next().unwrap_or(&module.path);
                unnamed(format!("{file}+{:#x}", call - module.base))
            }
            None => unnamed(format!("{call:#x}")),
        };
    }
    frames
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separates_user_frames_from_machinery() {
        let machinery = |function: &str, file: Option<&str>| {
            Frame { function: function.into(), file: file.map(Into::into), line: 1, column: 0 }.is_machinery()
        };
        for name in [
            "alloc::vec::Vec<T,A>::push",
            "<alloc::string::String as core::clone::Clone>::clone",
            "<T as alloc::string::ToString>::to_string",
            "<alloc::vec::Vec<u8>>::reserve",
            "core::ops::function::FnOnce::call_once",
            "__rust_alloc",
            "__rustc::__rust_alloc",
            "main",
            "whyslow_alloc::check::count",
        ] {
            std::assert!(machinery(name, None), "{name}");
        }
        for name in [
            "app::main",
            "<app::Row as core::clone::Clone>::clone",
            "<alloc::vec::Vec<u8> as app::Encode>::encode",
            "malloc_wrapper",
            "app.so+0x123",
        ] {
            std::assert!(!machinery(name, None), "{name}");
        }
        std::assert!(machinery("whatever", Some("/rustc/abc/library/alloc/src/vec/mod.rs")));
        std::assert!(machinery("whatever", Some("/home/me/toolchain/library/core/src/ops/function.rs")));
        std::assert!(!machinery("alloc::inlined", Some("/home/me/app/src/main.rs")));
        std::assert!(machinery("whatever", Some(file!())));
    }
}
