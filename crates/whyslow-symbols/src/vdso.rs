//! The page of code that the kernel maps into every process, read from our own.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// No vdso is larger.
const LARGEST: u64 = 1 << 20;

/// The bytes of this process's vdso: the same image that every 64-bit process on this kernel has.
pub(crate) fn image() -> io::Result<Vec<u8>> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let (start, end) = range_in(&maps).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let mut memory = File::open("/proc/self/mem")?;
    memory.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    memory.take(end - start).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn range_in(maps: &str) -> Option<(u64, u64)> {
    let line = maps.lines().find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let end = u64::from_str_radix(end, 16).ok()?;
    (start < end && end - start <= LARGEST).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_found_in_a_list_of_maps() {
        let maps = "7f00-7f10 r--p 0 0 0 [vvar]\n7fff1000-7fff3000 r-xp 00000000 00:00 0       [vdso]\n";
        assert_eq!(range_in(maps), Some((0x7fff_1000, 0x7fff_3000)));
        assert_eq!(range_in("3-1 r-xp 0 0 0 [vdso]"), None);
        assert_eq!(range_in(""), None);
    }

    #[test]
    fn our_own_vdso_has_the_clock() {
        let Ok(image) = image() else {
            eprintln!("skipped: no vdso here");
            return;
        };
        let elf = crate::elf::Elf::parse(&image).unwrap();
        let symbols = crate::symtab::Symbols::read(&elf);
        assert!(!symbols.is_empty());
    }
}
