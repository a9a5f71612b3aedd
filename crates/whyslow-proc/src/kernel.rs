//! The running kernel: its release, build id, settings and code, and the vdso.

use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::{fs, str};

use whyslow_elf::BuildId;

use crate::{Mapping, MappingKind};

/// Its release, such as `6.8.0-45-generic`; empty if unknown.
pub fn release() -> String {
    release_under(Path::new("/"))
}

/// The release of the system under a root folder.
pub fn release_under(root: &Path) -> String {
    let release = fs::read_to_string(root.join("proc/sys/kernel/osrelease")).unwrap_or_default();
    release.trim().to_owned()
}

/// Its build id: the core functions of one build are at the same distances after every boot.
pub fn build_id() -> Option<BuildId> {
    BuildId::in_notes(&fs::read("/sys/kernel/notes").ok()?)
}

/// The length of a kernel clock tick in nanoseconds.
pub fn tick_ns() -> u64 {
    let tick = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    tick.tv_sec.unsigned_abs() * 1_000_000_000 + tick.tv_nsec.unsigned_abs()
}

/// The address of its `_text`; `None` if it hides its addresses (`kptr_restrict`), which then read as 0.
pub fn text_address() -> Option<u64> {
    text_address_under(Path::new("/"))
}

/// The same for the system under a root folder.
pub fn text_address_under(root: &Path) -> Option<u64> {
    text_address_in(BufReader::new(fs::File::open(root.join("proc/kallsyms")).ok()?))
}

fn text_address_in(symbols: impl BufRead) -> Option<u64> {
    for line in symbols.split(b'\n') {
        let line = line.ok()?;
        let mut words = str::from_utf8(&line).ok()?.split_ascii_whitespace();
        let (address, _, name) = (words.next()?, words.next()?, words.next()?);
        if name == "_text" {
            return u64::from_str_radix(address, 16).ok().filter(|address| *address != 0);
        }
    }
    None
}

/// The kernel's permission settings. `None` if it has no such setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Settings {
    /// `kernel.perf_event_paranoid`: who may use perf events.
    pub perf_event_paranoid: Option<i64>,
    /// `kernel.perf_event_max_sample_rate`
    pub perf_event_max_sample_rate: Option<u64>,
    /// `kernel.kptr_restrict`: who may see the kernel's addresses.
    pub kptr_restrict: Option<i64>,
    /// `kernel.yama.ptrace_scope`: which processes a process may trace.
    pub ptrace_scope: Option<i64>,
}

impl Settings {
    /// The settings of this system.
    pub fn now() -> Self {
        Self::read(Path::new("/"))
    }

    /// The settings of the system under a root folder.
    pub fn read(root: &Path) -> Self {
        let number = |name: &str| {
            let text = fs::read_to_string(root.join("proc/sys/kernel").join(name)).ok()?;
            text.trim().parse::<i64>().ok()
        };
        let positive = |name: &str| number(name).and_then(|number| u64::try_from(number).ok());
        Self {
            perf_event_paranoid: number("perf_event_paranoid"),
            perf_event_max_sample_rate: positive("perf_event_max_sample_rate"),
            kptr_restrict: number("kptr_restrict"),
            ptrace_scope: number("yama/ptrace_scope"),
        }
    }
}

/// No vdso is larger.
const LARGEST_VDSO: u64 = 1 << 20;

/// The bytes of this process's vdso: every 64-bit process on this kernel has the same ELF image.
pub fn vdso() -> io::Result<Vec<u8>> {
    let maps = Mapping::all_of(std::process::id())?;
    let mapping = vdso_in(&maps).ok_or(io::ErrorKind::NotFound)?;
    let mut bytes = vec![0; (mapping.end - mapping.start) as usize];
    fs::File::open("/proc/self/mem")?.read_exact_at(&mut bytes, mapping.start)?;
    Ok(bytes)
}

fn vdso_in(maps: &[Mapping]) -> Option<&Mapping> {
    let found = maps.iter().find(|mapping| mapping.kind() == MappingKind::Vdso)?;
    (found.end - found.start <= LARGEST_VDSO).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_the_text_is_found_unless_it_is_hidden() {
        let seen = &b"0000000000000000 A fixed\nffffffff81000000 T _stext\nffffffff81000000 T _text\n"[..];
        assert_eq!(text_address_in(seen), Some(0xffff_ffff_8100_0000));
        assert_eq!(text_address_in(&b"0000000000000000 T _text\n0000000000000000 T _stext\n"[..]), None);
        assert_eq!(text_address_in(&b"nonsense\n"[..]), None);
        assert_eq!(text_address_in(&b"ff T \xff\n"[..]), None);
        assert_eq!(text_address_in(&b""[..]), None);
    }

    #[test]
    fn settings_are_read_and_may_be_missing() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("proc/sys/kernel");
        fs::create_dir_all(folder.join("yama")).unwrap();
        for (name, text) in [
            ("perf_event_paranoid", "-1\n"),
            ("perf_event_max_sample_rate", "-100\n"),
            ("kptr_restrict", "much\n"),
            ("yama/ptrace_scope", "1\n"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let expected =
            Settings { perf_event_paranoid: Some(-1), ptrace_scope: Some(1), ..Settings::default() };
        assert_eq!(Settings::read(root.path()), expected);
        assert_eq!(release_under(root.path()), "");
        assert_eq!(text_address_under(root.path()), None);
    }

    #[test]
    fn the_vdso_is_found_in_a_list_of_maps() {
        let maps = Mapping::parse_all(
            b"7f00-7f10 r--p 0 0:0 0 [vvar]\n7fff1000-7fff3000 r-xp 0 00:00 0       [vdso]\n",
        );
        assert_eq!(vdso_in(&maps).map(Mapping::range), Some(0x7fff_1000..0x7fff_3000));
        assert_eq!(
            vdso_in(&Mapping::parse_all(b"1000-7fff3000 r-xp 0 0:0 0 [vdso]")),
            None,
            "larger than any"
        );
        assert_eq!(vdso_in(&[]), None);
    }

    #[test]
    fn our_own_vdso_is_an_elf_image() {
        let image = vdso().expect("every kernel for x86-64 has one");
        assert!(whyslow_elf::Headers::parse(&image).unwrap().is_for_host());
    }
}
