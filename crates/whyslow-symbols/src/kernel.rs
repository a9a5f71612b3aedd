//! Kernel functions, from `/proc/kallsyms`.

use std::path::{Path, PathBuf};

use whyslow_numbers::RelativeAddress;

use crate::answers::{Answers, RawFrame, RawFunction};

/// No kernel function is larger: addresses further from a symbol are in a gap.
const LARGEST_FUNCTION: u64 = 1 << 20;

/// The functions of a kernel, by their offset from `_text`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Table {
    /// Sorted.
    starts: Vec<u64>,
    /// The end of each name in `names`.
    ends: Vec<u32>,
    /// Concatenated names; functions of a kernel module have its name appended: `f [ext4]`.
    names: String,
}

/// Resolves addresses relative to `_text`; `None` if the kernel hides its symbols.
///
/// The kernel takes about 40 ms to produce `/proc/kallsyms`, so the cache keeps the part that is the same
/// after every boot. Only addresses in kernel modules, which move, require another read.
pub(crate) fn resolve(addresses: &[RelativeAddress], cache: Option<&Path>) -> Option<Answers> {
    let file = cache.and_then(table_file);
    if let Some(core) = file.as_deref().and_then(load)
        && core.starts.last().is_some_and(|last| addresses.iter().all(|address| address.0 <= *last))
    {
        return Some(core.answer(addresses));
    }
    Some(read(file.as_deref())?.answer(addresses))
}

/// Ensures that the cache has the names of this kernel.
pub(crate) fn cache_names(cache: &Path) {
    if let Some(file) = table_file(cache).filter(|file| !file.exists()) {
        read(Some(&file));
    }
}

/// The cache's file for this kernel.
fn table_file(cache: &Path) -> Option<PathBuf> {
    let name = format!("kernel-table-{}", whyslow_proc::kernel::build_id()?);
    Some(cache.join("symbols").join(name))
}

/// Reads the kernel's list, and stores its core part in a file.
fn read(file: Option<&Path>) -> Option<Table> {
    let table = Table::parse(&std::fs::read("/proc/kallsyms").ok()?)?;
    if let Some(file) = file {
        match table.without_modules() {
            Some(core) => store(file, &core),
            None => store(file, &table),
        }
    }
    Some(table)
}

impl Table {
    /// Parses the text of `kallsyms`: `ffffffff81000000 T _text`, optionally followed by a tab and the
    /// module.
    pub(crate) fn parse(kallsyms: &[u8]) -> Option<Self> {
        let mut base = 0;
        let mut rows: Vec<(u64, u8, &[u8])> = Vec::with_capacity(kallsyms.len() / 45);
        for line in kallsyms.split(|byte| *byte == b'\n') {
            let Some((address, &[b' ', kind, b' ', ref name @ ..])) = split_number(line) else { continue };
            if name == b"_text" {
                base = address;
            }
            if matches!(kind, b't' | b'T' | b'w' | b'W') {
                rows.push((address, rank(kind, name), name));
            }
        }
        // With kptr_restrict every address reads as 0.
        if base == 0 {
            return None;
        }
        rows.iter_mut().for_each(|row| row.0 = row.0.wrapping_sub(base));
        // The kernel lists them in order of address, except those of its modules.
        rows.sort();
        rows.dedup_by_key(|row| row.0);
        let mut table = Self::default();
        table.starts.reserve(rows.len());
        table.ends.reserve(rows.len());
        for (start, _, name) in rows {
            table.push(start, &String::from_utf8_lossy(name));
        }
        Some(table)
    }

    fn push(&mut self, start: u64, name: &str) {
        self.starts.push(start);
        match name.split_once('\t') {
            None => self.names.push_str(name),
            Some((function, module)) => {
                self.names.extend([function, " ", &module.replace('\t', " ")]);
            }
        }
        self.ends.push(self.names.len() as u32);
    }

    fn name(&self, row: usize) -> &str {
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(row).copied().unwrap_or(start);
        self.names.get(start as usize..end as usize).unwrap_or_default()
    }

    /// The functions of the kernel itself; `None` if there are no others.
    fn without_modules(&self) -> Option<Self> {
        if !(0..self.starts.len()).any(|row| split_module(self.name(row)).1.is_some()) {
            return None;
        }
        let mut core = Self::default();
        for (row, &start) in self.starts.iter().enumerate() {
            if split_module(self.name(row)).1.is_none() {
                core.push(start, self.name(row));
            }
        }
        Some(core)
    }

    /// One site per address.
    pub(crate) fn answer(&self, addresses: &[RelativeAddress]) -> Answers {
        let mut answers = Answers::default();
        for &address in addresses {
            let after = self.starts.partition_point(|start| *start <= address.0);
            let row = after.checked_sub(1);
            let next = self.starts.get(after).copied().unwrap_or(u64::MAX);
            let found = row.map(|row| (row, self.starts[row]));
            let found =
                found.map(|(row, start)| (row, start, next.min(start.saturating_add(LARGEST_FUNCTION))));
            let Some((row, start, end)) = found.filter(|(_, _, end)| address.0 < *end) else {
                answers.add(address, Default::default(), &[]);
                continue;
            };
            let name = answers.text_id(self.name(row));
            let function = answers.function_id(RawFunction { name, file: None, line: 0, form: None });
            let extent = (RelativeAddress(start), RelativeAddress(end));
            answers.add(address, extent, &[RawFrame { function, file: None, line: 0 }]);
        }
        answers
    }
}

const MAGIC: &[u8; 16] = b"whyslow-kernel-1";

/// file = magic, crc32 of the rest, rows: u32, starts: u64 each, ends: u32 each, names
fn load(file: &Path) -> Option<Table> {
    let bytes = std::fs::read(file).ok()?;
    let (checksum, rest) = bytes.strip_prefix(MAGIC)?.split_first_chunk::<4>()?;
    if *checksum != crate::cache::checksum(rest) {
        return None;
    }
    let (rows, rest) = rest.split_first_chunk::<4>()?;
    let rows = u32::from_le_bytes(*rows) as usize;
    let (starts, rest) = rest.split_at_checked(rows.checked_mul(8)?)?;
    let (ends, names) = rest.split_at_checked(rows.checked_mul(4)?)?;
    Some(Table {
        starts: starts.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect(),
        ends: ends.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect(),
        names: std::str::from_utf8(names).ok()?.to_owned(),
    })
}

fn store(file: &Path, table: &Table) {
    let mut rest = (table.starts.len() as u32).to_le_bytes().to_vec();
    table.starts.iter().for_each(|start| rest.extend_from_slice(&start.to_le_bytes()));
    table.ends.iter().for_each(|end| rest.extend_from_slice(&end.to_le_bytes()));
    rest.extend_from_slice(table.names.as_bytes());
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&crate::cache::checksum(&rest));
    bytes.append(&mut rest);
    // If the cache cannot be written, only time is lost.
    let _ = crate::cache::write(file, &bytes);
}

/// The rank of a name among those of one address, smaller is better: functions before marks, global before
/// local.
fn rank(kind: u8, name: &[u8]) -> u8 {
    let mark =
        matches!(name, b"_text" | b"_stext" | b"_etext" | b"_sinittext") || name.ends_with(b"_text_start");
    u8::from(mark) * 2 + u8::from(kind != b'T')
}

/// The hexadecimal number at the start, and the text after it.
fn split_number(line: &[u8]) -> Option<(u64, &[u8])> {
    let digits = line.iter().position(|byte| *byte == b' ').filter(|digits| (1..=16).contains(digits))?;
    let (number, rest) = line.split_at(digits);
    let number = number
        .iter()
        .try_fold(0u64, |number, digit| Some(number << 4 | u64::from(char::from(*digit).to_digit(16)?)))?;
    Some((number, rest))
}

/// The function's name and its kernel module: `("f", "ext4")` of `f [ext4]`.
pub(crate) fn split_module(name: &str) -> (&str, Option<&str>) {
    match name.strip_suffix(']').and_then(|name| name.split_once(" [")) {
        Some((function, module)) => (function, Some(module)),
        None => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = "\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000000 T startup_64
ffffffff81000100 t do_something.isra.0
ffffffff81000200 T vfs_read
ffffffff81000300 D some_data
ffffffff81000400 T last_one
ffffffffc0100000 t ext4_read\t[ext4]
not a line
";

    fn name_of(answers: &Answers, index: usize) -> Option<&str> {
        let frame = answers.frames_of(&answers.sites()[index]).first()?;
        Some(answers.text(answers.functions()[frame.function as usize].name))
    }

    #[test]
    fn addresses_are_relative_to_the_text_and_modules_are_named() {
        let module = 0xffff_ffff_c010_0010_u64.wrapping_sub(0xffff_ffff_8100_0000);
        let wanted = [0, 0x150, 0x210, 0x350, 0x400, module, 0x80_0000, u64::MAX].map(RelativeAddress);
        let answers = Table::parse(SAMPLE.as_bytes()).unwrap().answer(&wanted);
        let names: Vec<_> = (0..wanted.len()).map(|index| name_of(&answers, index)).collect();
        assert_eq!(
            names,
            [
                Some("startup_64"),
                Some("do_something.isra.0"),
                Some("vfs_read"),
                Some("vfs_read"),
                Some("last_one"),
                Some("ext4_read [ext4]"),
                None,
                None
            ]
        );
        assert_eq!(answers.sites()[1].extent, (RelativeAddress(0x100), RelativeAddress(0x200)));
    }

    #[test]
    fn hidden_symbols_resolve_nothing() {
        let hidden = "0000000000000000 T _text\n0000000000000000 T vfs_read\n";
        assert!(Table::parse(hidden.as_bytes()).is_none());
        assert!(Table::parse(b"").is_none());
    }

    #[test]
    fn the_cache_keeps_the_core_without_modules() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kernel");
        let table = Table::parse(SAMPLE.as_bytes()).unwrap();
        let core = table.without_modules().expect("there is a module");
        assert_eq!(core.without_modules(), None);
        assert_eq!(core.starts.len() + 1, table.starts.len());
        store(&file, &core);
        assert_eq!(load(&file), Some(core));
        let mut bytes = std::fs::read(&file).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        assert_eq!(load(&file), None, "a damaged file is not believed");
    }

    #[test]
    fn names_are_read_once_and_only_if_the_kernel_shows_them() {
        let cache = tempfile::tempdir().unwrap();
        cache_names(cache.path());
        let shown = std::fs::read("/proc/kallsyms").ok().is_some_and(|text| Table::parse(&text).is_some());
        let file = table_file(cache.path());
        assert_eq!(file.as_deref().is_some_and(Path::exists), shown && file.is_some());
        if let Some(file) = file.filter(|file| file.exists()) {
            assert!(load(&file).is_some_and(|table| !table.starts.is_empty()));
            std::fs::write(&file, "what is there stays").unwrap();
            cache_names(cache.path());
            assert_eq!(std::fs::read_to_string(&file).unwrap(), "what is there stays");
        }
    }

    #[test]
    fn a_module_is_split_from_its_function() {
        assert_eq!(split_module("ext4_read [ext4]"), ("ext4_read", Some("ext4")));
        assert_eq!(split_module("vfs_read"), ("vfs_read", None));
    }
}
