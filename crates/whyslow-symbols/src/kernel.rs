//! Kernel functions, from `/proc/kallsyms`.

use crate::answers::{Answers, RawFrame, RawFunction};

/// No kernel function is larger: addresses further from a symbol are in a gap.
const LARGEST_FUNCTION: u64 = 1 << 20;

/// Answers for addresses that are relative to `_text`; `None` when the kernel hides its symbols.
pub(crate) fn resolve(addresses: &[u64]) -> Option<Answers> {
    let text = std::fs::read("/proc/kallsyms").ok()?;
    resolve_in(&String::from_utf8_lossy(&text), addresses)
}

/// The same from the text of `kallsyms`. Modules' functions get the module's name behind theirs: `f [ext4]`.
pub(crate) fn resolve_in(kallsyms: &str, addresses: &[u64]) -> Option<Answers> {
    let mut base = 0;
    let mut rows: Vec<(u64, u8, &str)> = Vec::with_capacity(kallsyms.len() / 45);
    for line in kallsyms.lines() {
        let Some((address, rest)) = line.split_once(' ') else { continue };
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let Some((kind, name)) = rest.split_once(' ') else { continue };
        if name == "_text" {
            base = address;
        }
        if matches!(kind, "t" | "T" | "w" | "W") {
            rows.push((address, rank(kind, name), name));
        }
    }
    // With kptr_restrict every address reads as 0.
    if base == 0 {
        return None;
    }
    rows.sort_unstable();
    rows.dedup_by_key(|row| row.0);
    let mut answers = Answers::default();
    for &relative in addresses {
        let address = relative.wrapping_add(base);
        let after = rows.partition_point(|row| row.0 <= address);
        let Some(&(start, _, name)) = after.checked_sub(1).and_then(|at| rows.get(at)) else {
            answers.add(relative, (0, 0), &[]);
            continue;
        };
        let next = rows.get(after).map_or(u64::MAX, |row| row.0);
        let end = next.min(start.saturating_add(LARGEST_FUNCTION));
        if address >= end {
            answers.add(relative, (0, 0), &[]);
            continue;
        }
        let name = answers.text_id(&name.replace('\t', " "));
        let function = answers.function_id(RawFunction { name, file: None, line: 0 });
        let extent = (start.wrapping_sub(base), end.wrapping_sub(base));
        answers.add(relative, extent, &[RawFrame { function, file: None, line: 0 }]);
    }
    Some(answers)
}

/// The better name of an address is smaller: functions before marks, global before local.
fn rank(kind: &str, name: &str) -> u8 {
    let mark = matches!(name, "_text" | "_stext" | "_etext" | "_sinittext") || name.contains("_text_start");
    u8::from(mark) * 2 + u8::from(kind != "T")
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
        let wanted = [0, 0x150, 0x210, 0x350, 0x400, module, 0x80_0000, u64::MAX];
        let answers = resolve_in(SAMPLE, &wanted).unwrap();
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
        assert_eq!(answers.sites()[1].extent, (0x100, 0x200));
    }

    #[test]
    fn hidden_symbols_resolve_nothing() {
        let hidden = "0000000000000000 T _text\n0000000000000000 T vfs_read\n";
        assert!(resolve_in(hidden, &[0]).is_none());
        assert!(resolve_in("", &[0]).is_none());
    }

    #[test]
    fn a_module_is_split_from_its_function() {
        assert_eq!(split_module("ext4_read [ext4]"), ("ext4_read", Some("ext4")));
        assert_eq!(split_module("vfs_read"), ("vfs_read", None));
    }
}
