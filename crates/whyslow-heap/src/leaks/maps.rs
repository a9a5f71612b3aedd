//! The lines of `/proc/PID/maps`, as far as a leak check needs them.

/// One mapping.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
    pub(crate) shared: bool,
    pub(crate) name: String,
}

/// What a mapping is, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Of no file.
    Anonymous,
    /// What `brk` moves.
    Heap,
    /// The main thread's stack.
    Stack,
    /// Of a file.
    File,
    /// Of a device, or made by the kernel.
    Other,
}

impl Mapping {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let &[read, write, execute, share, ..] = fields.next()?.as_bytes() else { return None };
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hex(start)?, hex(end)?);
        (start < end).then(|| Self {
            start,
            end,
            readable: read == b'r',
            writable: write == b'w',
            executable: execute == b'x',
            shared: share == b's',
            name: fields.nth(3).unwrap_or("").trim_start().to_owned(),
        })
    }

    /// All lines, ascending.
    pub(crate) fn parse_all(text: &str) -> Vec<Self> {
        text.lines().filter_map(Self::parse).collect()
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.name.as_str() {
            "" => Kind::Anonymous,
            "[heap]" => Kind::Heap,
            "[stack]" => Kind::Stack,
            // Shared memory without a file has these names.
            name if name.starts_with("[anon")
                || name.starts_with("/dev/zero")
                || name.starts_with("/SYSV") =>
            {
                Kind::Anonymous
            }
            name if name.starts_with('/') && !name.starts_with("/dev/") => Kind::File,
            _ => Kind::Other,
        }
    }
}

/// The mapping in which an address lies.
pub(crate) fn find(maps: &[Mapping], address: u64) -> Option<&Mapping> {
    let after = maps.partition_point(|mapping| mapping.start <= address);
    maps.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let maps = Mapping::parse_all(
            "1000-3000 rw-p 00001000 fe:00 12    /usr/lib/a b.so\n\
             4000-5000 ---p 00000000 00:00 0 \n\
             nonsense\n\
             7000-6000 r--p 00000000 00:00 0 \n\
             7000-8000 rw-s 00000000 00:01 9   /memfd:x (deleted)\n",
        );
        assert_eq!(maps.len(), 3);
        assert_eq!((maps[0].name.as_str(), maps[0].kind()), ("/usr/lib/a b.so", Kind::File));
        assert!(maps[0].writable && !maps[0].executable && !maps[0].shared && maps[2].shared);
        assert_eq!(maps[1].kind(), Kind::Anonymous);
        assert_eq!(find(&maps, 0x2fff), Some(&maps[0]));
        assert_eq!(find(&maps, 0x3000), None);
        assert_eq!(find(&maps, 0), None);
    }

    #[test]
    fn names_say_what_a_mapping_is() {
        let kind =
            |name: &str| Mapping::parse(&format!("1-2 rw-p 0 0:0 0 {name}")).map(|mapping| mapping.kind());
        assert_eq!(kind("[heap]"), Some(Kind::Heap));
        assert_eq!(kind("[stack]"), Some(Kind::Stack));
        assert_eq!(kind("[vvar]"), Some(Kind::Other));
        assert_eq!(kind("[anon: my pool]"), Some(Kind::Anonymous));
        assert_eq!(kind("/dev/dri/card0"), Some(Kind::Other));
        assert_eq!(kind("anon_inode:[perf_event]"), Some(Kind::Other));
        assert_eq!(kind("/dev/zero (deleted)"), Some(Kind::Anonymous));
    }
}
