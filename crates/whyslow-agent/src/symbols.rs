//! Functions of other modules by name, where the program has no `dlsym`: before glibc 2.34 that is in a library of its own,
//! which many programs do not load.

use core::ffi::CStr;

use crate::modules::{self, Loaded};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const DT_VERSYM: u64 = 0x6fff_fff0;
/// A version that only old programs ask for.
const HIDDEN: u16 = 0x8000;

#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// The address of a function in the first module behind this one that has it; 0 if none has.
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
    let relative = address.wrapping_sub(loaded.base);
    let mut segments = loaded.segments().iter().filter(|segment| segment.kind == PT_LOAD);
    segments.any(|segment| relative.wrapping_sub(segment.address) < segment.size)
}

/// A module's symbols, where they lie in memory.
struct Table {
    base: u64,
    names: u64,
    symbols: u64,
    versions: u64,
    hash: u64,
}

impl Table {
    fn of(loaded: &Loaded) -> Option<Self> {
        let dynamic = loaded.segments().iter().find(|segment| segment.kind == PT_DYNAMIC)?;
        let mut table = Table { base: loaded.base, names: 0, symbols: 0, versions: 0, hash: 0 };
        let mut at = loaded.base.wrapping_add(dynamic.address);
        loop {
            let [tag, value] = word::<[u64; 2]>(at);
            // Some loaders write addresses here, others leave what the file has.
            let address = if value < loaded.base { loaded.base + value } else { value };
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
        let [buckets, first, filters, _shift] = word::<[u32; 4]>(self.hash);
        let buckets_at = self.hash + 16 + u64::from(filters) * 8;
        let chains_at = buckets_at + u64::from(buckets) * 4;
        let mut index = word::<u32>(buckets_at + u64::from(hash.checked_rem(buckets)?) * 4);
        if index < first {
            return None;
        }
        loop {
            let chained = word::<u32>(chains_at + u64::from(index - first) * 4);
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

    /// The address of a symbol if it is defined, has this name, and is what new programs get.
    fn matches(&self, index: u32, name: &CStr) -> Option<u64> {
        let symbol: &Symbol = part(self.symbols + u64::from(index) * size_of::<Symbol>() as u64);
        let name = name.to_bytes_with_nul();
        // Names end with a zero byte, so this stops before it leaves one.
        let same =
            (0..name.len()).all(|at| name[at] == word::<u8>(self.names + u64::from(symbol.name) + at as u64));
        let hidden = self.versions != 0 && word::<u16>(self.versions + u64::from(index) * 2) & HIDDEN != 0;
        (same && symbol.section != 0 && !hidden).then(|| self.base.wrapping_add(symbol.value))
    }
}

fn part<T>(at: u64) -> &'static T {
    // SAFETY: the loader has used these tables, and keeps them mapped.
    unsafe { &*(at as *const T) }
}

fn word<T: Copy + 'static>(at: u64) -> T {
    *part(at)
}
