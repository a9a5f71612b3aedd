//! Names the functions that kept code calls, directly, through a linker stub or through a GOT slot.
//!
//! ```text
//! slot   a relocation by name            → that function, of any module
//!        a relocation by address         → the function that starts there
//!        no relocation                   → the function that starts at the address in the file
//! ```

use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationTarget, SymbolKind};
use rustc_hash::FxHashMap;
use whyslow_asm::{Body, Callee, Processor, Target};
use whyslow_elf::Elf;
use whyslow_numbers::FileAddress;
use whyslow_profile::{BranchTarget, ModuleId, ModuleKind, Profile, RelativeAddress};

use crate::Options;
use crate::demangle::shown_name;
use crate::fill::Texts;
use crate::module::{Question, open, separate_debug_file};
use crate::plt;

/// Names the callees of a profile's kept code that have no name yet.
pub(crate) fn keep(profile: &mut Profile, texts: &mut Texts, options: &Options) {
    let Some(processor) = Processor::of(&profile.meta.host.arch) else { return };
    let mut wanted: FxHashMap<ModuleId, Vec<Target>> = FxHashMap::default();
    for code in &profile.code.rows {
        let body = Body::new(processor, code, |_| None);
        wanted.entry(code.module).or_default().extend(body.calls.iter().filter_map(|call| call.target));
    }
    let known: rustc_hash::FxHashSet<(ModuleId, u64, bool)> =
        profile.targets.iter().map(|row| (row.module, row.address.0, row.is_slot)).collect();
    let mut wanted: Vec<(ModuleId, Vec<Target>)> = wanted.into_iter().collect();
    wanted.sort_unstable_by_key(|(module, _)| *module);
    for (module, mut targets) in wanted {
        targets.sort_unstable();
        targets.dedup();
        targets.retain(|target| {
            let (address, is_slot) = parts(*target);
            !known.contains(&(module, address, is_slot))
        });
        let is_file = matches!(
            profile.modules[module.index()].kind,
            ModuleKind::Program | ModuleKind::Library | ModuleKind::Unknown
        );
        if targets.is_empty() || !is_file {
            continue;
        }
        let file = options.files.iter().find(|(of, _)| *of == module).map(|(_, file)| file.clone());
        for (target, callee) in named(&Question::of(profile, module, file, Vec::new()), &targets, options) {
            let (address, is_slot) = parts(target);
            let name = texts.id(&mut profile.strings, &callee.name);
            profile.targets.push(BranchTarget {
                module,
                address: RelativeAddress(address),
                is_slot,
                name,
                size: callee.size.unwrap_or(0),
            });
        }
    }
}

fn parts(target: Target) -> (u64, bool) {
    match target {
        Target::Code(address) => (address, false),
        Target::Slot(address) => (address, true),
    }
}

fn named(question: &Question, targets: &[Target], options: &Options) -> Vec<(Target, Callee)> {
    let Ok(file) = open(question) else { return Vec::new() };
    let Ok(elf) = file.parse() else { return Vec::new() };
    let separate = separate_debug_file(question.path(), &elf, &options.debug_folders);
    let debug = separate.as_ref().and_then(|file| file.parse().ok());
    callees(&elf, debug.as_ref(), targets)
}

/// The callees of a file's code, as far as its symbols name them. Addresses are relative to its image base.
pub fn callees(elf: &Elf<'_>, debug: Option<&Elf<'_>>, targets: &[Target]) -> Vec<(Target, Callee)> {
    let base = elf.image_base();
    let mut found: Vec<(Target, Callee)> = Vec::new();
    // Targets by the virtual address of the function.
    let mut code: FxHashMap<u64, Vec<Target>> = FxHashMap::default();
    let mut slots: FxHashMap<u64, Target> = FxHashMap::default();
    for &target in targets {
        match target {
            Target::Code(address) => {
                code.entry(base.file(RelativeAddress(address)).0).or_default().push(target);
            }
            Target::Slot(address) => {
                slots.insert(base.file(RelativeAddress(address)).0, target);
            }
        }
    }
    let dynamic = elf.object().dynamic_symbol_table();
    if !slots.is_empty() {
        for (slot, relocation) in elf.object().dynamic_relocations().into_iter().flatten() {
            let Some(&target) = slots.get(&slot) else { continue };
            let symbol = match (relocation.target(), &dynamic) {
                (RelocationTarget::Symbol(index), Some(table)) => table.symbol_by_index(index).ok(),
                _ => None,
            };
            let name = symbol.as_ref().and_then(|symbol| symbol.name().ok()).filter(|name| !name.is_empty());
            if let Some(name) = name {
                let size = symbol.map(|symbol| symbol.size()).filter(|size| *size > 0);
                found.push((target, Callee { name: shown_name(name), size }));
            } else {
                code.entry(relocation.addend().cast_unsigned()).or_default().push(target);
            }
            slots.remove(&slot);
        }
        for (slot, target) in slots {
            let address = elf.bytes_at(FileAddress(slot), 8).and_then(|bytes| bytes.first_chunk().copied());
            if let Some(address) = address.map(u64::from_le_bytes).filter(|address| *address != 0) {
                code.entry(address).or_default().push(target);
            }
        }
    }
    let mut functions: FxHashMap<u64, (u8, &str, u64)> = FxHashMap::default();
    for elf in std::iter::once(elf).chain(debug) {
        let tables = [elf.object().symbol_table(), elf.object().dynamic_symbol_table()];
        for symbol in tables.iter().flatten().flat_map(ObjectSymbolTable::symbols) {
            if symbol.kind() != SymbolKind::Text
                || !symbol.is_definition()
                || !code.contains_key(&symbol.address())
            {
                continue;
            }
            let Ok(name) = symbol.name() else { continue };
            let rank = u8::from(symbol.size() == 0) * 2 + u8::from(symbol.is_weak());
            let row = (rank, name, symbol.size());
            let known = functions.entry(symbol.address()).or_insert(row);
            if (row.0, name.len(), name) < (known.0, known.1.len(), known.1) {
                *known = row;
            }
        }
    }
    let needs_stubs = code.keys().any(|address| !functions.contains_key(address));
    let stubs = if needs_stubs { plt::stubs(elf) } else { Vec::new() };
    for (address, targets) in code {
        let callee = match functions.get(&address) {
            Some(&(_, name, size)) => {
                Callee { name: shown_name(name), size: Some(size).filter(|size| *size > 0) }
            }
            None => match plt::find(&stubs, FileAddress(address)) {
                Some(stub) => Callee { name: shown_name(&stub.name), size: None },
                None => continue,
            },
        };
        found.extend(targets.into_iter().map(|target| (target, callee.clone())));
    }
    found.sort_unstable_by_key(|(target, _)| *target);
    found
}
