//! What mappings are, by their names, and the lines of `/proc/PID/maps`.

use crate::modules::{FileKey, FileMapping};

/// What the name of a mapping says about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MappedAs {
    File,
    Vdso,
    Anonymous,
    /// A file in memory: of run-time code, or a program.
    Memfd,
    JitDump,
}

impl MappedAs {
    pub(crate) fn from_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        if path == "[vdso]" {
            Self::Vdso
        } else if name.starts_with("jit-") && name.ends_with(".dump") {
            Self::JitDump
        } else if path.starts_with("/memfd:") {
            Self::Memfd
        } else if path.starts_with('/')
            && !["//anon", "/dev/", "/SYSV", "/anon_hugepage"].iter().any(|prefix| path.starts_with(prefix))
        {
            Self::File
        } else {
            Self::Anonymous
        }
    }
}

/// A line of `/proc/PID/maps`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MapsLine<'a> {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) executable: bool,
    pub(crate) offset: u64,
    pub(crate) device: (u32, u32),
    pub(crate) inode: u64,
    pub(crate) path: &'a str,
}

impl<'a> MapsLine<'a> {
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let permissions = fields.next()?;
        let offset = fields.next()?;
        let (major, minor) = fields.next()?.split_once(':')?;
        let inode = fields.next()?;
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        Some(Self {
            start: hex(start)?,
            end: hex(end)?,
            executable: permissions.as_bytes().get(2) == Some(&b'x'),
            offset: hex(offset)?,
            device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
            inode: inode.parse().ok()?,
            path: fields.next().unwrap_or("").trim_start(),
        })
    }

    /// The mapping that the line describes.
    pub(crate) fn mapping(&self) -> FileMapping {
        let key = FileKey { path: self.path.to_owned(), device: self.device, inode: self.inode };
        FileMapping { key, generation: 0, start: self.start, end: self.end, offset: self.offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_are_read_with_spaces_in_the_path() {
        let line = "7f00aa000000-7f00aa021000 r-xp 00001000 fd:02 1234   /tmp/a folder/lib x.so (deleted)";
        let parsed = MapsLine::parse(line).unwrap();
        assert_eq!((parsed.start, parsed.end, parsed.offset), (0x7f00_aa00_0000, 0x7f00_aa02_1000, 0x1000));
        assert_eq!((parsed.executable, parsed.inode, parsed.device), (true, 1234, (0xfd, 2)));
        assert_eq!(parsed.path, "/tmp/a folder/lib x.so (deleted)");
        assert_eq!(MapsLine::parse("garbage"), None);
    }

    #[test]
    fn mappings_are_told_apart_by_name() {
        assert_eq!(MappedAs::from_path("/usr/lib/libc.so.6"), MappedAs::File);
        assert_eq!(MappedAs::from_path("[vdso]"), MappedAs::Vdso);
        assert_eq!(MappedAs::from_path("//anon"), MappedAs::Anonymous);
        assert_eq!(MappedAs::from_path("/memfd:code (deleted)"), MappedAs::Memfd);
        assert_eq!(MappedAs::from_path("/tmp/jit-42.dump"), MappedAs::JitDump);
        assert_eq!(MappedAs::from_path(""), MappedAs::Anonymous);
    }
}
