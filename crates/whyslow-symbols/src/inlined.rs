//! Searches functions that exist only inlined into their callers, by a part of their name.

use std::collections::BTreeMap;

use whyslow_elf::{DebugFolders, ElfFile};
use whyslow_names::Wanted;
use whyslow_numbers::FileAddress;

use crate::demangle::shown_name;
use crate::dwarf::InlinedCall;
use crate::module::with_debug_info;
use crate::symtab::Symbols;

/// An inlined function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlinedFunction {
    /// Its name.
    pub name: String,
    /// The functions that it is inlined into, by name, each with one call: file and line.
    pub hosts: Vec<(String, Option<(String, u32)>)>,
}

/// The matching inlined functions, from the debug info of a file or of its separate debug file, sorted by
/// name. Includes functions that were not inlined everywhere.
///
/// Reading all debug info is slow, so it is skipped if no string of it contains the longest wanted word.
pub fn inlined_functions(file: &ElfFile, debug: Option<&ElfFile>, wanted: &Wanted) -> Vec<InlinedFunction> {
    let mut found: BTreeMap<String, BTreeMap<String, Option<(String, u32)>>> = BTreeMap::new();
    each_call(file, debug, wanted, |symbols, call| {
        let Some(host) = symbols.find(FileAddress(call.host)) else { return };
        let places = found.entry(call.name).or_default();
        places.entry(shown_name(host.name)).or_insert(call.place);
    });
    found
        .into_iter()
        .map(|(name, hosts)| InlinedFunction { name, hosts: hosts.into_iter().collect() })
        .collect()
}

/// Passes on the inlined calls of matching functions.
pub(crate) fn each_call(
    file: &ElfFile,
    debug: Option<&ElfFile>,
    wanted: &Wanted,
    mut each: impl FnMut(&Symbols<'_>, InlinedCall),
) {
    let debug_file = debug.unwrap_or(file);
    let (Ok(elf), Ok(debug_elf)) = (file.parse(), debug_file.parse()) else { return };
    let (word, _) = wanted.longest_word();
    let strings = debug_elf.section(".debug_str");
    // Split units have their strings in other files, which are named here.
    if word.is_empty() || !(has_word(&strings, word) || has_word(&strings, ".dwo")) {
        return;
    }
    let word = word.to_ascii_lowercase();
    let mut symbols = Symbols::read(&elf);
    if !symbols.full {
        symbols = Symbols::read(&debug_elf);
    }
    let shown = |raw: &str| {
        let may_fit = raw.to_ascii_lowercase().contains(&word);
        may_fit.then(|| shown_name(raw)).filter(|name| wanted.fit(name).is_some())
    };
    let calls = with_debug_info(&file.path, debug_file, &symbols, &DebugFolders::usual(), |info| {
        info.inlined_calls(shown)
    });
    for call in calls.unwrap_or_default() {
        each(&symbols, call);
    }
}

/// Whether a text contains this word, ignoring case.
fn has_word(text: &[u8], word: &str) -> bool {
    let has = |text: &[u8], word: &str| String::from_utf8_lossy(text).contains(word);
    has(text, word) || has(&text.to_ascii_lowercase(), &word.to_ascii_lowercase())
}
