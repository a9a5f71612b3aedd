//! Function names of Go programs with a stripped symbol table.

use std::borrow::Cow;

use object::{Object, ObjectSection};
use whyslow_numbers::FileAddress;
use whyslow_unwind::{GO_TABLES, go_functions};

use crate::symtab::Symbol;
use whyslow_elf::Elf;

/// Every function of a Go program, sorted by address; empty if it is not a Go program.
pub(crate) fn functions<'a>(elf: &Elf<'a>) -> Vec<Symbol<'a>> {
    let table = GO_TABLES.iter().find_map(|name| match elf.section(name) {
        Cow::Borrowed(bytes) if !bytes.is_empty() => Some(bytes),
        _ => None,
    });
    let (Some(table), Some(text)) = (table, elf.object().section_by_name(".text")) else { return Vec::new() };
    let text = text.address()..text.address().saturating_add(text.size());
    let row = |function: whyslow_unwind::GoFunction<'a>| Symbol {
        start: FileAddress(function.code.start),
        end: FileAddress(function.code.end),
        name: function.name,
    };
    go_functions(table, text).into_iter().map(row).collect()
}

/// The functions of a Go program, from the table that `strip` does not remove: address range and name.
pub fn named_code<'a>(elf: &Elf<'a>) -> Vec<(std::ops::Range<u64>, &'a str)> {
    functions(elf).into_iter().map(|symbol| (symbol.start.0..symbol.end.0, symbol.name)).collect()
}
