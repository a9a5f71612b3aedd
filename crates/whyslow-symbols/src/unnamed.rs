//! Functions without a name: the file's unwind tables still have their start and end.

use std::ops::Range;

use whyslow_elf::FileBytes;
use whyslow_numbers::RelativeAddress;
use whyslow_unwind::{Cfi, Image};

/// The prefix of their names in [`crate::answers::Answers`]; no linkage name starts with it.
const MARK: &str = "+0x";

/// The functions of a file, from its unwind tables.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    image: Option<Image>,
    cfi: Cfi,
}

impl Bounds {
    /// Reads a file's tables; a damaged file has no functions.
    pub(crate) fn of(file: &FileBytes) -> Self {
        Self { image: Image::from_file(file.clone()).ok(), cfi: Cfi::default() }
    }

    /// The function around an address.
    pub(crate) fn find(&mut self, address: RelativeAddress) -> Option<Range<RelativeAddress>> {
        self.cfi.function(self.image.as_ref()?, address)
    }
}

/// The placeholder for a function that starts here, until the name of its module is known.
pub(crate) fn placeholder(start: RelativeAddress) -> String {
    format!("{MARK}{:x}", start.0)
}

/// `gzip+0x3a40` for the placeholder of a function of `/usr/bin/gzip`; `None` for a real name.
pub(crate) fn shown(name: &str, module_path: &str) -> Option<String> {
    let rest = name.strip_prefix(MARK)?;
    let path = module_path.strip_suffix(whyslow_proc::DELETED).unwrap_or(module_path);
    let file = path.rsplit('/').next().unwrap_or(path);
    Some(format!("{file}{MARK}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_without_a_name_is_named_by_module_and_address() {
        let name = placeholder(RelativeAddress(0x3a40));
        assert_eq!(shown(&name, "/usr/bin/gzip").as_deref(), Some("gzip+0x3a40"));
        assert_eq!(shown(&name, "/tmp/a b (deleted)").as_deref(), Some("a b+0x3a40"));
        assert_eq!(shown("main", "/usr/bin/gzip"), None);
    }
}
