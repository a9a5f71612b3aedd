//! Functions with the same machine code at several addresses.

use std::hash::{Hash as _, Hasher as _};

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHasher};
use whyslow_analyze::size::Alike;

use crate::measure::Pieces;
use crate::profile::shown;
use crate::symbols::{Symbol, Symbols};

/// Shorter functions are often the same by nature: `ret`.
const SHORTEST: u64 = 32;
/// The maximum number of groups that are kept.
const MOST: usize = 200;

/// The groups of functions with the same bytes, those that waste most first. Calls are relative to where they are, so
/// copies that call something else than themselves differ in their bytes and are not found.
pub(crate) fn functions(pieces: &Pieces<'_>, symbols: &Symbols<'_>, bytes: &[u8]) -> Vec<Alike> {
    let mut code: Vec<(&[u8], &Symbol<'_>)> = Vec::new();
    for (section, symbols) in pieces.layout.sections.iter().zip(&symbols.of_section) {
        if !section.code {
            continue;
        }
        let mut end = 0;
        for symbol in symbols.iter().filter(|symbol| symbol.function) {
            if symbol.range.end - symbol.range.start < SHORTEST || symbol.range.start < end {
                continue;
            }
            end = symbol.range.end;
            let offset =
                |address: u64| (address - section.address).saturating_add(section.file.start) as usize;
            code.extend(
                bytes.get(offset(symbol.range.start)..offset(symbol.range.end)).map(|code| (code, symbol)),
            );
        }
    }
    let hash = |code: &[u8]| {
        let mut hasher = FxHasher::default();
        code.hash(&mut hasher);
        hasher.finish()
    };
    let hashes: Vec<u64> = code.par_iter().map(|(code, _)| hash(code)).collect();
    let mut groups: FxHashMap<(u64, &[u8]), Vec<&Symbol<'_>>> = FxHashMap::default();
    for (hash, (code, symbol)) in hashes.into_iter().zip(&code) {
        groups.entry((hash, *code)).or_default().push(symbol);
    }
    let mut alike: Vec<(u64, Vec<&Symbol<'_>>)> = groups
        .into_iter()
        .filter(|(_, symbols)| symbols.len() > 1)
        .map(|((_, code), symbols)| (code.len() as u64, symbols))
        .collect();
    alike.sort_by(|a, b| {
        let wasted = |(len, symbols): &(u64, Vec<&Symbol<'_>>)| len * (symbols.len() as u64 - 1);
        wasted(b).cmp(&wasted(a)).then_with(|| a.1[0].name.cmp(b.1[0].name))
    });
    alike.truncate(MOST);
    let described = alike.into_par_iter().map(|(len, symbols)| {
        let mut names: Vec<String> = symbols.iter().map(|symbol| shown(symbol.name)).collect();
        names.sort();
        names.dedup();
        Alike { len, copies: symbols.len() as u64, names }
    });
    described.collect()
}
