//! The functions of a program whose entry can be a progress point, by the names that users see.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use whyslow_capture::{CodePoint, PointPlace, PointRole, Spot};
use whyslow_elf::FileAddress;
use whyslow_symbols::{Wanted, functions};

use crate::failure::{Failure, Result};

/// All functions of a program's file.
#[derive(Debug)]
pub(crate) struct ProgramFunctions {
    program: PathBuf,
    addresses: BTreeMap<String, Vec<FileAddress>>,
}

impl ProgramFunctions {
    /// Reads them. `program` is the file as the kernel names it.
    pub(crate) fn read(program: &Path) -> Result<Self> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::new(format!("{}: its functions cannot be read: {error}", program.display()))
        };
        let file = whyslow_elf::ElfFile::open(program).map_err(|error| failed(&error))?;
        let elf = file.parse().map_err(|error| failed(&error))?;
        let mut addresses: BTreeMap<String, Vec<FileAddress>> = BTreeMap::new();
        for function in functions(&elf, None, &Wanted::new("")) {
            addresses.entry(function.name).or_default().push(elf.image_base().file(function.start));
        }
        Ok(Self { program: program.to_owned(), addresses })
    }

    /// Whether there is a function with this very name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.addresses.contains_key(name)
    }

    /// The entries of all functions with this very name.
    pub(crate) fn point(&self, name: &str) -> CodePoint {
        let addresses = self.addresses.get(name).map(Vec::as_slice).unwrap_or_default();
        let place = |address: &FileAddress| PointPlace {
            module: self.program.clone(),
            address: *address,
            spot: Spot::Entry,
            point: 0,
        };
        let places = addresses.iter().map(place).collect();
        CodePoint { name: name.to_owned(), role: PointRole::Visit, places }
    }
}
