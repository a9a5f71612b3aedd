//! Names static variables that threads waited on.

use object::{Object, ObjectSymbol, ObjectSymbolTable, SymbolKind};
use whyslow_elf::Elf;
use whyslow_numbers::FileAddress;
use whyslow_profile::{ModuleId, Profile, RelativeAddress, Static};

use crate::Options;
use crate::demangle::shown_name;
use crate::fill::Texts;
use crate::module::{Question, open, separate_debug_file};

/// Names the variables behind a profile's waits, if the files of their modules have names for them.
pub(crate) fn name(profile: &mut Profile, texts: &mut Texts, options: &Options) {
    let mut wanted: Vec<(ModuleId, RelativeAddress)> =
        profile.wait_details.data.iter().flatten().copied().collect();
    wanted.sort_unstable();
    wanted.dedup();
    wanted.retain(|&(module, address)| profile.static_at(module, address).is_none());
    for of_module in wanted.chunk_by(|a, b| a.0 == b.0) {
        let module = of_module[0].0;
        let addresses: Vec<RelativeAddress> = of_module.iter().map(|(_, address)| *address).collect();
        let file = options.files.iter().find(|(of, _)| *of == module).map(|(_, file)| file.clone());
        let question = Question::of(profile, module, file, addresses);
        for variable in variables(&question, options) {
            let name = texts.id(&mut profile.strings, &shown_name(&variable.name));
            profile.statics.push(Static { module, start: variable.start, len: variable.len, name });
        }
    }
}

/// A variable with its linkage name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable<Address = RelativeAddress> {
    start: Address,
    len: u64,
    name: String,
}

/// The variables that contain addresses of a module, each once.
fn variables(question: &Question, options: &Options) -> Vec<Variable> {
    let Ok(file) = open(question) else { return Vec::new() };
    let Ok(elf) = file.parse() else { return Vec::new() };
    let separate = separate_debug_file(question.path(), &elf, &options.debug_folders);
    let debug = separate.as_ref().and_then(|file| file.parse().ok());
    let base = elf.image_base();
    let full = [Some(&elf), debug.as_ref()].into_iter().flatten().find(|elf| elf.has_symbols());
    let mut found: Vec<Variable> = question
        .addresses
        .iter()
        .filter_map(|address| find(full.unwrap_or(&elf), base.checked_file(*address)?))
        .map(|Variable { start, len, name }| Variable { start: base.relative_or_zero(start), len, name })
        .collect();
    found.sort_unstable_by_key(|variable| variable.start);
    found.dedup();
    found
}

/// The smallest variable around an address, from the full table or, without one, from the names for the
/// dynamic linker.
fn find(elf: &Elf<'_>, address: FileAddress) -> Option<Variable<FileAddress>> {
    let object = elf.object();
    let table = object.symbol_table().or_else(|| object.dynamic_symbol_table());
    let around = table.iter().flat_map(ObjectSymbolTable::symbols).filter(|symbol| {
        // Thread-local variables have offsets instead of addresses; their symbols have another kind.
        let covers = address.0.checked_sub(symbol.address()).is_some_and(|into| into < symbol.size());
        covers && symbol.kind() == SymbolKind::Data && symbol.is_definition()
    });
    let named = around.filter_map(|symbol| {
        let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with(".L"))?;
        Some(Variable { start: FileAddress(symbol.address()), len: symbol.size(), name: name.to_owned() })
    });
    named.min_by(|a, b| (a.len, a.name.len(), &a.name).cmp(&(b.len, b.name.len(), &b.name)))
}

#[cfg(test)]
mod tests {
    use whyslow_elf::{BuildId, ElfFile};
    use whyslow_profile::{Module, ModuleKind, Optimised, SymbolState, ThreadId, WaitDetail, WokenBy};

    use super::*;

    #[used]
    static KNOWN: [u64; 4] = [1, 2, 3, 4];

    #[test]
    fn addresses_inside_a_variable_have_its_name_and_code_has_none() {
        let exe = std::env::current_exe().unwrap();
        let file = ElfFile::open(&exe).unwrap();
        let elf = file.parse().unwrap();
        let symbols = elf.object().symbols();
        let is_known = |name: &str| name.contains("statics") && shown_name(name).ends_with("tests::KNOWN");
        let known = symbols.into_iter().find(|symbol| symbol.name().is_ok_and(is_known)).unwrap();
        let start = elf.image_base().relative(FileAddress(known.address()));
        let mut profile = Profile::default();
        let build_id = elf.build_id().map(|id: BuildId| profile.strings.push(&id.to_string()));
        let path = profile.strings.push(exe.to_str().unwrap());
        profile.modules.push(Module {
            path,
            build_id,
            kind: ModuleKind::Program,
            symbols: SymbolState::NotLoaded,
            optimised: Optimised::Unknown,
        });
        let module = ModuleId(0);
        for address in [start.plus(8), start, elf.image_base().relative(elf.entry())] {
            profile.wait_details.push(WaitDetail {
                thread: ThreadId(0),
                end_ns: 0,
                cpu: None,
                argument: 1,
                parked_on: 0,
                data: Some((module, address)),
                woken_by: WokenBy::Unknown,
                waker: None,
                waker_stack: None,
            });
        }
        let options = Options::default();
        let mut texts = Texts::of(&profile.strings);
        for _ in 0..2 {
            name(&mut profile, &mut texts, &options);
            let [found] = &profile.statics[..] else { panic!("{:?}", profile.statics) };
            assert_eq!((found.start, found.len), (start, size_of_val(&KNOWN) as u64));
            assert!(profile.text(found.name).ends_with("statics::tests::KNOWN"));
        }
    }
}
