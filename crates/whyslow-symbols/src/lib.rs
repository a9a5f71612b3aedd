//! Turns addresses into functions, inlined frames, source lines and machine code.
//!
//! For every location of a profile without frames, [`symbolize`] searches the file of its module: debug info
//! first (also split, compressed or in a separate file), then symbol tables, the kernel's list of symbols,
//! the vdso, and the files of JIT compilers. It looks up recorded addresses only.

mod agent;
mod answers;
mod cache;
mod code;
mod code_files;
mod copies;
mod demangle;
mod dwarf;
mod entries;
mod fill;
mod function_code;
mod functions;
mod go;
mod hot;
mod imported;
mod inlined;
mod jit;
mod kernel;
mod kind;
mod line_places;
mod module;
mod optimised;
mod own_lines;
mod plt;
mod sources;
mod split;
mod statics;
mod symtab;
mod targets;
mod threads;
mod unnamed;
mod written;

use std::path::PathBuf;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use whyslow_numbers::RelativeAddress;
use whyslow_profile::{LocationId, ModuleId, Profile};

pub use code_files::{CodeFiles, code_files};
pub use copies::copies;
pub use entries::{Entries, NoEntry, entries};
pub use function_code::{FunctionCode, function_code};
pub use functions::{FunctionSymbol, function_at, functions, similar_functions, symbols_named};
pub use go::named_code as named_go_code;
pub use imported::{Described, Given, describe, keep_sources, outermost_name};
pub use inlined::{InlinedFunction, inlined_functions};
pub use line_places::{LinePlaces, NoLine, line_places};
pub use module::separate_debug_file;
use module::{Answer, Question};
pub use optimised::producer_flag;
pub use own_lines::{LineCode, Scope, SourceLine, own_lines};
pub use symtab::named_functions;
pub use targets::callees;
pub use whyslow_elf::{DebugFolders, FileBytes};
pub use whyslow_names::{Fit, Wanted};

/// Options for symbolising.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the cache on disk; `None` for no cache.
    pub cache: Option<PathBuf>,
    /// Files that are already open, by module: the recorder may still hold files that were deleted since.
    pub files: Vec<(ModuleId, FileBytes)>,
    /// Where to search for separate debug files.
    pub debug_folders: DebugFolders,
    /// Whether to keep source lines around hot places.
    pub keep_sources: bool,
    /// Whether to keep the machine code of hot functions.
    pub keep_code: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache: default_cache_folder(),
            files: Vec::new(),
            debug_folders: DebugFolders::usual(),
            keep_sources: true,
            keep_code: true,
        }
    }
}

/// The result of symbolising.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Locations that gained frames.
    pub resolved: usize,
    /// Locations without any symbol.
    pub unresolved: usize,
    /// Addresses found in the cache.
    pub from_cache: usize,
    /// Modules with a problem: path and description.
    pub problems: Vec<(String, String)>,
    /// Source files newer than the module compiled from them: their lines may have moved.
    pub newer_sources: Vec<String>,
}

/// `$XDG_CACHE_HOME/whyslow` or `~/.cache/whyslow`.
pub fn default_cache_folder() -> Option<PathBuf> {
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("whyslow"))
}

/// Ensures that the default cache has the names of this machine's kernel, which take a while to read the
/// first time.
pub fn cache_kernel_names() {
    if let Some(cache) = default_cache_folder() {
        kernel::cache_names(&cache);
    }
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Symbolises every location without frames: adds functions, frames, the state of modules, source lines and
/// code.
///
/// Never fails as a whole: a module that cannot be read is [`whyslow_profile::SymbolState::Missing`] or
/// `Replaced`.
pub fn symbolize(profile: &mut Profile, options: &Options) -> Summary {
    threads::prepare();
    let work = questions(profile, &options.files);
    let answers: Vec<(Answer, usize)> =
        work.par_iter().map(|(_, question, _)| cache::resolve(question, options)).collect();

    let mut summary = Summary::default();
    let mut texts = fill::Texts::of(&profile.strings);
    let mut extents = code::Extents::default();
    for ((module, question, locations), (answer, from_cache)) in work.iter().zip(&answers) {
        fill::fill(profile, &mut texts, *module, &answer.answers, locations);
        let row = &mut profile.modules[module.index()];
        row.symbols = answer.state();
        row.optimised = answer.optimised();
        let named =
            locations.iter().filter(|&&(_, location)| !profile.frames.of(location).is_empty()).count();
        summary.resolved += named;
        summary.unresolved += locations.len() - named;
        summary.from_cache += from_cache;
        for site in answer.answers.sites() {
            let at = locations.partition_point(|&(address, _)| address < site.address);
            let same = locations[at..].iter().take_while(|&&(address, _)| address == site.address);
            extents.extend(same.map(|&(_, location)| (location, site.extent)));
        }
        summary.problems.extend(answer.problem.clone().map(|problem| (question.path.clone(), problem)));
    }
    if options.keep_sources {
        written::name(profile, &mut texts);
    }
    statics::name(profile, &mut texts, options);
    if options.keep_sources || options.keep_code {
        let heat = hot::Heat::of(profile);
        if options.keep_sources {
            summary.newer_sources = sources::keep(profile, &mut texts, &heat);
        }
        if options.keep_code {
            let questions: Vec<(ModuleId, &Question)> =
                work.iter().map(|(module, question, _)| (*module, question)).collect();
            code::keep(profile, &questions, &extents, &heat);
            targets::keep(profile, &mut texts, options);
        }
    }
    summary
}

type Work = (ModuleId, Question, Vec<(RelativeAddress, LocationId)>);

/// For each module, the question and the locations by address.
fn questions(profile: &Profile, files: &[(ModuleId, FileBytes)]) -> Vec<Work> {
    let files: FxHashMap<ModuleId, &FileBytes> = files.iter().map(|(module, file)| (*module, file)).collect();
    let mut by_module: FxHashMap<ModuleId, Vec<(RelativeAddress, LocationId)>> = FxHashMap::default();
    for index in 1..profile.locations.len() {
        let location = LocationId::from(index);
        let Some(module) = profile.locations.module[index] else { continue };
        if module.index() < profile.modules.len() && profile.frames.of(location).is_empty() {
            by_module.entry(module).or_default().push((profile.locations.address[index], location));
        }
    }
    let mut work: Vec<Work> = by_module
        .into_iter()
        .map(|(module, mut locations)| {
            locations.sort_unstable();
            let mut addresses: Vec<RelativeAddress> = locations.iter().map(|&(address, _)| address).collect();
            addresses.dedup();
            let file = files.get(&module).map(|&file| file.clone());
            let question = Question::of(profile, module, file, addresses);
            (module, question, locations)
        })
        .collect();
    work.sort_by_key(|(module, ..)| *module);
    work
}
