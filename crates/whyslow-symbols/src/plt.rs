//! Names linker stubs, which have no symbols: `NAME@plt` after the function that a stub jumps to.
//!
//! ```text
//! stub      [endbr64] [bnd] jmp *slot(%rip) …
//! .rela.plt slot → symbol                      (.rela.dyn for stubs in .plt.got)
//! ```

use object::{Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget};
use rustc_hash::FxHashMap;

use whyslow_elf::Elf;
use whyslow_numbers::FileAddress;

const STUB_SECTIONS: [&str; 4] = [".plt", ".plt.sec", ".plt.got", ".iplt"];
/// Every stub starts at a multiple of this.
const STEP: usize = 8;

/// A stub with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stub {
    /// Its first byte.
    pub start: FileAddress,
    /// One past its last byte.
    pub end: FileAddress,
    /// `NAME@plt`.
    pub name: String,
}

/// The stubs of a file, sorted by address.
pub(crate) fn stubs(elf: &Elf<'_>) -> Vec<Stub> {
    let object = elf.object();
    let Some(symbols) = object.dynamic_symbol_table() else { return Vec::new() };
    let mut slots: FxHashMap<u64, &str> = FxHashMap::default();
    for (slot, relocation) in object.dynamic_relocations().into_iter().flatten() {
        if let RelocationTarget::Symbol(index) = relocation.target()
            && let Ok(name) = symbols.symbol_by_index(index).and_then(|symbol| symbol.name())
            && !name.is_empty()
        {
            slots.insert(slot, name);
        }
    }
    let mut stubs: Vec<Stub> = Vec::new();
    for section in STUB_SECTIONS.iter().filter_map(|name| object.section_by_name(name)) {
        let Ok(code) = section.data() else { continue };
        let section_start = stubs.len();
        for (at, stub) in
            code.chunks(STEP).enumerate().map(|(index, _)| (index * STEP, &code[index * STEP..]))
        {
            let address = section.address().wrapping_add(at as u64);
            if let Some(name) = jump_slot(stub, address).and_then(|slot| slots.get(&slot)) {
                stubs.push(Stub {
                    start: FileAddress(address),
                    end: FileAddress(0),
                    name: format!("{name}@plt"),
                });
            }
        }
        // A stub extends to the next one.
        let section_end = section.address().saturating_add(section.size());
        for index in section_start..stubs.len() {
            let next = stubs.get(index + 1).map(|next| next.start);
            stubs[index].end = next.unwrap_or(FileAddress(section_end));
        }
    }
    stubs.sort_unstable_by_key(|stub| stub.start);
    stubs
}

/// The stub at an address.
pub(crate) fn find(stubs: &[Stub], address: FileAddress) -> Option<&Stub> {
    let at = stubs.partition_point(|stub| stub.start <= address).checked_sub(1)?;
    stubs.get(at).filter(|stub| address < stub.end)
}

/// The address of the slot that a stub at `address` jumps through.
fn jump_slot(code: &[u8], address: u64) -> Option<u64> {
    let after_mark = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    let jump = after_mark.strip_prefix(&[0xf2]).unwrap_or(after_mark);
    let rest = jump.strip_prefix(&[0xff, 0x25])?;
    let displacement = i32::from_le_bytes(*rest.first_chunk::<4>()?);
    let next = address.wrapping_add((code.len() - rest.len() + 4) as u64);
    Some(next.wrapping_add_signed(i64::from(displacement)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_is_relative_to_the_next_instruction() {
        assert_eq!(jump_slot(&[0xff, 0x25, 0x10, 0, 0, 0, 0x68], 0x1000), Some(0x1016));
        assert_eq!(jump_slot(&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0], 0x1000), Some(0x101a));
        assert_eq!(
            jump_slot(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xff, 0xff, 0xff, 0xff], 0x1000),
            Some(0x100a)
        );
        assert_eq!(jump_slot(&[0xff, 0x35, 0x10, 0, 0, 0], 0x1000), None, "push is not jump");
        assert_eq!(jump_slot(&[0xff, 0x25, 0x10], 0x1000), None);
    }

    #[test]
    fn a_stub_ends_where_the_next_begins() {
        let stub = |start, end, name: &str| {
            let [start, end] = [start, end].map(FileAddress);
            Stub { start, end, name: name.to_owned() }
        };
        let find = |stubs, address| find(stubs, FileAddress(address));
        let stubs = [stub(16, 32, "a@plt"), stub(32, 40, "b@plt")];
        assert_eq!(find(&stubs, 31).map(|stub| &*stub.name), Some("a@plt"));
        assert_eq!(find(&stubs, 32).map(|stub| &*stub.name), Some("b@plt"));
        assert_eq!(find(&stubs, 15), None);
        assert_eq!(find(&stubs, 40), None);
    }
}
