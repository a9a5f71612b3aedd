//! Classifies mappings of code by their names.

use whyslow_proc::MappingKind;

/// What the name of a mapping means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MappedAs {
    File,
    Vdso,
    Anonymous,
    /// A file in memory: run-time code, or a program.
    Memfd,
    JitDump,
}

impl MappedAs {
    pub(crate) fn from_path(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        if name.starts_with("jit-") && name.ends_with(".dump") {
            return Self::JitDump;
        }
        match MappingKind::of(path) {
            MappingKind::File => Self::File,
            MappingKind::Memfd => Self::Memfd,
            MappingKind::Vdso => Self::Vdso,
            _ => Self::Anonymous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_mappings_by_name() {
        assert_eq!(MappedAs::from_path("/usr/lib/libc.so.6"), MappedAs::File);
        assert_eq!(MappedAs::from_path("[vdso]"), MappedAs::Vdso);
        assert_eq!(MappedAs::from_path("//anon"), MappedAs::Anonymous);
        assert_eq!(MappedAs::from_path("/memfd:code (deleted)"), MappedAs::Memfd);
        assert_eq!(MappedAs::from_path("/tmp/jit-42.dump"), MappedAs::JitDump);
        assert_eq!(MappedAs::from_path(""), MappedAs::Anonymous);
    }
}
