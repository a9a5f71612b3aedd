//! From an address to its function, inlined frames, source lines and machine code.
//!
//! [`symbolize`] asks, for every location of a profile that has no frames yet, the file of its module: debug
//! information first (also split, compressed or in a separate file), then symbol tables, the kernel's list of symbols,
//! the vdso, and the files of JIT compilers. Only addresses that were seen are looked up.

mod agent;
mod answers;
mod cache;
mod code;
mod copies;
mod demangle;
mod dwarf;
mod entries;
mod fill;
mod functions;
mod go;
mod hot;
mod imported;
mod inlined;
mod jit;
mod kernel;
mod kind;
mod module;
mod optimised;
mod plt;
mod sources;
mod split;
mod statics;
mod symtab;
mod targets;
mod unnamed;
mod wanted;

use std::path::PathBuf;

use rayon::prelude::*;
use rustc_hash::FxHashMap;
use whyslow_profile::{LocationId, ModuleId, Profile};

pub use copies::copies;
pub use entries::{Entries, NoEntry, entries};
pub use functions::{FunctionSymbol, function_at, functions, similar_functions};
pub use imported::{Described, Given, describe, keep_sources};
pub use inlined::{InlinedFunction, inlined_functions};
pub use module::separate_debug_file;
use module::{Answer, Question};
pub use optimised::producer_flag;
pub use symtab::named_functions;
pub use targets::callees;
pub use wanted::{Fit, Wanted};
pub use whyslow_elf::{DebugFolders, FileBytes};

/// How to symbolise.
#[derive(Debug, Clone)]
pub struct Options {
    /// The folder of the cache on disk; no cache when `None`.
    pub cache: Option<PathBuf>,
    /// Files that are open already, by module: whoever recorded a program may still have what has lost its name since.
    pub files: Vec<(ModuleId, FileBytes)>,
    /// Where separate debug files are looked for.
    pub debug_folders: DebugFolders,
    /// Keep source lines around hot places.
    pub keep_sources: bool,
    /// Keep the machine code of hot functions.
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

/// What symbolising did.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Summary {
    /// Locations that have frames now and had none before.
    pub resolved: usize,
    /// Locations for which nothing was found.
    pub unresolved: usize,
    /// Addresses that the cache knew.
    pub from_cache: usize,
    /// Modules with a problem: path, and what it is.
    pub problems: Vec<(String, String)>,
    /// Source files that are newer than the module they were compiled into: their lines may have moved.
    pub newer_sources: Vec<String>,
}

/// `$XDG_CACHE_HOME/whyslow` or `~/.cache/whyslow`.
pub fn default_cache_folder() -> Option<PathBuf> {
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("whyslow"))
}

/// Makes sure that the usual cache has the names of this machine's kernel, which take a while to read the first time.
pub fn learn_kernel_names() {
    if let Some(cache) = default_cache_folder() {
        kernel::learn(&cache);
    }
}

fn absolute(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Says what every location without frames means; adds functions, frames, the state of modules, source lines and code.
///
/// Never fails as a whole: a module that cannot be read is [`whyslow_profile::SymbolState::Missing`] or `Replaced`.
pub fn symbolize(profile: &mut Profile, options: &Options) -> Summary {
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

type Work = (ModuleId, Question, Vec<(u64, LocationId)>);

/// For each module: what to ask, and the locations by address.
fn questions(profile: &Profile, files: &[(ModuleId, FileBytes)]) -> Vec<Work> {
    let files: FxHashMap<ModuleId, &FileBytes> = files.iter().map(|(module, file)| (*module, file)).collect();
    let mut by_module: FxHashMap<ModuleId, Vec<(u64, LocationId)>> = FxHashMap::default();
    for index in 1..profile.locations.len() {
        let location = LocationId::from(index);
        let Some(module) = profile.locations.module[index] else { continue };
        if module.index() < profile.modules.len() && profile.frames.of(location).is_empty() {
            by_module.entry(module).or_default().push((profile.locations.address[index].0, location));
        }
    }
    let mut work: Vec<Work> = by_module
        .into_iter()
        .map(|(module, mut locations)| {
            locations.sort_unstable();
            let mut addresses: Vec<u64> = locations.iter().map(|&(address, _)| address).collect();
            addresses.dedup();
            let file = files.get(&module).map(|&file| file.clone());
            let question = Question::of(profile, module, file, addresses);
            (module, question, locations)
        })
        .collect();
    work.sort_by_key(|(module, ..)| *module);
    work
}
