//! Finds functions of other modules by name in programs without `dlsym`. Before glibc 2.34 `dlsym` is in a
//! separate library that many programs do not load.

use core::ffi::{CStr, c_char};

use crate::modules::{self, Loaded};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
/// A version that only old programs use.
const HIDDEN: u16 = 0x8000;

#[repr(C)]
#[derive(Clone, Copy)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// The address of a function in the first module after this one that has it. 0 if none has.
pub fn next(name: &CStr) -> u64 {
    let own = next as *const () as u64;
    let mut behind = false;
    let mut found = 0;
    modules::each(&mut |loaded| {
        if behind {
            found = Table::of(loaded).and_then(|table| table.find(name)).unwrap_or(0);
        }
        behind |= holds(loaded, own);
        found != 0
    });
    found
}

fn holds(loaded: &Loaded, address: u64) -> bool {
    let relative = address.wrapping_sub(loaded.bias());
    let mut segments = loaded.segments().iter().filter(|segment| segment.kind() == PT_LOAD);
    segments.any(|segment| relative.wrapping_sub(segment.address()) < segment.size())
}

/// A module's symbol tables in memory. The loader itself uses them to find functions, so they are assumed to
/// be well-formed.
struct Table {
    base: u64,
    names: u64,
    symbols: u64,
    versions: u64,
    hash: u64,
}

impl Table {
    fn of(loaded: &Loaded) -> Option<Self> {
        let dynamic = loaded.segments().iter().find(|segment| segment.kind() == PT_DYNAMIC)?;
        let bias = loaded.bias();
        let mut table = Table { base: bias, names: 0, symbols: 0, versions: 0, hash: 0 };
        let mut at = bias.wrapping_add(dynamic.address());
        loop {
            // SAFETY: the dynamic section ends with a tag of 0.
            let [tag, value] = unsafe { word::<[u64; 2]>(at) };
            // Some loaders write addresses here, others keep the file's values.
            let address = if value < bias { bias + value } else { value };
            match tag {
                0 => break,
                DT_STRTAB => table.names = address,
                DT_SYMTAB => table.symbols = address,
                DT_GNU_HASH => table.hash = address,
                DT_VERSYM => table.versions = address,
                _ => {}
            }
            at += 16;
        }
        (table.names != 0 && table.symbols != 0 && table.hash != 0).then_some(table)
    }

    fn find(&self, name: &CStr) -> Option<u64> {
        let hash = name
            .to_bytes()
            .iter()
            .fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add((*byte).into()));
        // SAFETY: the hash table begins with four numbers.
        let [buckets, first, filters, _shift] = unsafe { word::<[u32; 4]>(self.hash) };
        let buckets_at = self.hash + 16 + u64::from(filters) * 8;
        let chains_at = buckets_at + u64::from(buckets) * 4;
        let bucket = buckets_at + u64::from(hash.checked_rem(buckets)?) * 4;
        // SAFETY: the index is below the number of buckets.
        let mut index = unsafe { word::<u32>(bucket) };
        if index < first {
            return None;
        }
        loop {
            // SAFETY: a bucket's chain ends with an odd number.
            let chained = unsafe { word::<u32>(chains_at + u64::from(index - first) * 4) };
            if chained | 1 == hash | 1
                && let Some(address) = self.matches(index, name)
            {
                return Some(address);
            }
            if chained & 1 != 0 {
                return None;
            }
            index += 1;
        }
    }

    /// The address of a symbol, if it is defined, has this name, and is the default version.
    fn matches(&self, index: u32, name: &CStr) -> Option<u64> {
        // SAFETY: the chain contains this symbol index.
        let symbol: Symbol = unsafe { word(self.symbols + u64::from(index) * size_of::<Symbol>() as u64) };
        // SAFETY: a symbol's name is a text in the string table.
        let its_name = unsafe { CStr::from_ptr((self.names + u64::from(symbol.name)) as *const c_char) };
        // SAFETY: if there are versions, each symbol has one.
        let hidden =
            self.versions != 0 && unsafe { word::<u16>(self.versions + u64::from(index) * 2) } & HIDDEN != 0;
        (its_name == name && symbol.section != 0 && !hidden).then(|| self.base.wrapping_add(symbol.value))
    }
}

/// # Safety
/// A `T` that consists of plain numbers lies there.
unsafe fn word<T: Copy>(at: u64) -> T {
    // SAFETY: guaranteed by the caller.
    unsafe { (at as *const T).read_unaligned() }
}
