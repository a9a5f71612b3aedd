//! The mappings of a process: `/proc/PID/maps`.
//!
//! ```text
//! 7f00aa000000-7f00aa021000 r-xp 00001000 fd:02 1234      /usr/lib/libz.so (deleted)
//! start        end          perms offset  device inode    name, padded; a newline in it is \012
//! ```

use std::io;
use std::ops::Range;

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// One past its last address.
    pub end: u64,
    /// Whether it may be read.
    pub readable: bool,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether it is code.
    pub executable: bool,
    /// Whether other processes see writes to it.
    pub shared: bool,
    /// The offset in its file of `start`.
    pub offset: u64,
    /// The device of its file: major and minor number.
    pub device: (u32, u32),
    /// Its file's inode; 0 without a file.
    pub inode: u64,
    /// The path of its file, or the kernel's name for it in brackets; empty without either.
    pub name: String,
}

/// The kind of a mapping, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MappingKind {
    /// A file with a name.
    File,
    /// A file in memory (`memfd_create`).
    Memfd,
    /// No file.
    Anonymous,
    /// A device.
    Device,
    /// The heap that `brk` moves.
    Heap,
    /// The main thread's stack.
    Stack,
    /// The code that the kernel maps into every process.
    Vdso,
    /// Another special mapping of the kernel.
    Other,
}

impl MappingKind {
    /// The kind of a mapping with this name.
    pub fn of(name: &str) -> Self {
        // Names of shared memory and huge pages without a file.
        const NO_FILE: [&str; 5] = ["[anon", "/dev/zero", "/SYSV", "//anon", "/anon_hugepage"];
        match name {
            "" => Self::Anonymous,
            "[heap]" => Self::Heap,
            "[stack]" => Self::Stack,
            "[vdso]" => Self::Vdso,
            name if NO_FILE.iter().any(|start| name.starts_with(start)) => Self::Anonymous,
            name if name.starts_with("/memfd:") => Self::Memfd,
            name if name.starts_with("/dev/") => Self::Device,
            name if name.starts_with('/') => Self::File,
            _ => Self::Other,
        }
    }
}

impl Mapping {
    /// Parses a line; `None` if it is not a mapping.
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let mut field = || std::str::from_utf8(fields.next()?).ok();
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let number = |text: &str| u32::from_str_radix(text, 16).ok();
        let (start, end) = field()?.split_once('-')?;
        let &[read, write, execute, share] = field()?.as_bytes().first_chunk()?;
        let offset = hex(field()?)?;
        let (major, minor) = field()?.split_once(':')?;
        let inode = field()?.parse().ok()?;
        let mapping = Self {
            start: hex(start)?,
            end: hex(end)?,
            readable: read == b'r',
            writable: write == b'w',
            executable: execute == b'x',
            shared: share == b's',
            offset,
            device: (number(major)?, number(minor)?),
            inode,
            name: name(fields.next().unwrap_or_default()),
        };
        (mapping.start < mapping.end).then_some(mapping)
    }

    /// Parses all lines; invalid ones are skipped.
    pub fn parse_all(text: &[u8]) -> Vec<Self> {
        text.split(|byte| *byte == b'\n').filter_map(Self::parse).collect()
    }

    /// The mappings of a process, ascending. An exited process that is not reaped yet has none.
    pub fn all_of(pid: u32) -> io::Result<Vec<Self>> {
        Ok(Self::parse_all(&std::fs::read(format!("/proc/{pid}/maps"))?))
    }

    /// The mappings of a process, read through one of its threads: the main thread may have exited.
    pub fn all_of_thread(pid: u32, tid: u32) -> io::Result<Vec<Self>> {
        Ok(Self::parse_all(&std::fs::read(format!("/proc/{pid}/task/{tid}/maps"))?))
    }

    /// Finds the mapping that contains an address, among ascending mappings.
    pub fn find(maps: &[Self], address: u64) -> Option<&Self> {
        let after = maps.partition_point(|mapping| mapping.start <= address);
        maps.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// Its addresses.
    pub fn range(&self) -> Range<u64> {
        self.start..self.end
    }

    /// Its kind, by its name.
    pub fn kind(&self) -> MappingKind {
        MappingKind::of(&self.name)
    }
}

/// A name without its padding, with newlines restored.
fn name(field: &[u8]) -> String {
    let spaces = field.iter().take_while(|byte| **byte == b' ').count();
    String::from_utf8_lossy(&field[spaces..]).replace("\\012", "\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_is_read_with_spaces_and_newlines_in_its_name() {
        let line =
            b"7f00aa000000-7f00aa021000 r-xp 00001000 fd:02 1234      /tmp/a folder/lib\\012x.so (deleted)";
        let read = Mapping::parse(line).unwrap();
        assert_eq!((read.start, read.end, read.offset), (0x7f00_aa00_0000, 0x7f00_aa02_1000, 0x1000));
        assert_eq!((read.inode, read.device), (1234, (0xfd, 2)));
        assert!(read.readable && !read.writable && read.executable && !read.shared);
        assert_eq!(
            (read.name.as_str(), read.kind()),
            ("/tmp/a folder/lib\nx.so (deleted)", MappingKind::File)
        );
    }

    #[test]
    fn invalid_lines_are_skipped() {
        for line in [
            &b""[..],
            b"garbage",
            b"1000-3000",
            b"1000-3000 rw",
            b"1000-3000 rw-p 0 0:0",
            b"1000-3000 rw-p x 0:0 0 /a",
            b"3000-1000 rw-p 0 0:0 0 /a",
            b"1000-1000 rw-p 0 0:0 0 /a",
            b"1000 rw-p 0 0:0 0 /a",
            b"10000000000000000-20000000000000000 rw-p 0 0:0 0 /a",
            b"1000-3000 rw-p 0 0 0 /a",
            b"1000-3000 \xff\xff\xff\xff 0 0:0 0 /a",
        ] {
            assert_eq!(Mapping::parse(line), None, "{}", String::from_utf8_lossy(line));
        }
    }

    #[test]
    fn parses_a_line_whose_name_is_not_utf8() {
        let maps = Mapping::parse_all(
            b"1000-3000 r-xp 00000000 fe:00 12    /tmp/\xff\xfe.so\n4000-5000 ---p 00000000 00:00 0 \n",
        );
        assert_eq!(maps.len(), 2);
        assert_eq!(maps[0].name, "/tmp/\u{fffd}\u{fffd}.so");
        assert_eq!((maps[1].name.as_str(), maps[1].kind()), ("", MappingKind::Anonymous));
    }

    #[test]
    fn an_address_is_found() {
        let maps =
            Mapping::parse_all(b"1000-3000 rw-p 0 0:0 0 /a\n3000-4000 rw-p 0 0:0 0\n8000-9000 rw-s 0 0:0 0");
        assert_eq!(Mapping::find(&maps, 0x2fff), Some(&maps[0]));
        assert_eq!(Mapping::find(&maps, 0x3000), Some(&maps[1]));
        assert_eq!(Mapping::find(&maps, 0x4000), None);
        assert_eq!(Mapping::find(&maps, 0), None);
        assert!(maps[2].shared && maps[2].range() == (0x8000..0x9000));
    }

    #[test]
    fn the_name_determines_the_kind_of_a_mapping() {
        use MappingKind::*;
        for (name, kind) in [
            ("/usr/lib/libc.so.6", File),
            ("/memfd:code (deleted)", Memfd),
            ("", Anonymous),
            ("//anon", Anonymous),
            ("[anon: my pool]", Anonymous),
            ("/dev/zero (deleted)", Anonymous),
            ("/SYSV00000000 (deleted)", Anonymous),
            ("/anon_hugepage (deleted)", Anonymous),
            ("/dev/dri/card0", Device),
            ("[heap]", Heap),
            ("[stack]", Stack),
            ("[vdso]", Vdso),
            ("[vvar]", Other),
            ("anon_inode:[perf_event]", Other),
        ] {
            assert_eq!(MappingKind::of(name), kind, "{name}");
        }
    }

    #[test]
    fn our_own_mappings_are_ascending_and_hold_our_code() {
        let maps = Mapping::all_of(std::process::id()).unwrap();
        assert!(maps.is_sorted_by_key(|mapping| mapping.start));
        let here = our_own_mappings_are_ascending_and_hold_our_code as *const () as u64;
        let code = Mapping::find(&maps, here).unwrap();
        assert!(code.executable);
        assert_eq!(code.name, std::env::current_exe().unwrap().to_str().unwrap());
        assert_eq!(
            Mapping::all_of_thread(std::process::id(), std::process::id()).unwrap().first(),
            maps.first()
        );
        assert!(Mapping::all_of(u32::MAX).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(text: Vec<u8>) {
            prop_assert!(Mapping::parse_all(&text).iter().all(|mapping| mapping.start < mapping.end));
        }
    }
}
