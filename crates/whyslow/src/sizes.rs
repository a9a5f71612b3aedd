//! Measures the space in a program's file, for commands that show it, compare it, or check it.

use std::path::Path;

use whyslow_analyze::size::{SizeNote, Sizes};
use whyslow_elf::{DebugFolders, Elf, ElfFile};
use whyslow_render::text::SizeView;
use whyslow_size::{Measured, SizeError, measure};
use whyslow_words::{Fact as _, Remark};

use crate::failure::{Failure, Result};

/// A file, measured.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) measured: Measured,
    pub(crate) sizes: Sizes,
    remarks: Vec<Remark>,
}

impl Program {
    /// Measures a program, a library or an object file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let file = ElfFile::open(path).map_err(|error| cannot_open(path, &error))?;
        let absolute = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let debug = debug_file(&absolute, &file);
        let measured = measure(&absolute, file.bytes(), debug.as_ref().map(ElfFile::bytes))
            .map_err(|error| explain(path, &file, error))?;
        let sizes = Sizes::of(&measured.profile)
            .ok_or_else(|| Failure::new(format!("{name}: there is nothing to measure")))?;
        let notes = SizeNote::of(&sizes, &measured.alike, measured.has_names);
        let remarks = notes.iter().map(SizeNote::remark).collect();
        Ok(Self { name, measured, sizes, remarks })
    }

    /// What to show of it.
    pub(crate) fn view(&self) -> SizeView<'_> {
        SizeView {
            file: &self.name,
            sizes: &self.sizes,
            alike: &self.measured.alike,
            texts: &self.measured.texts,
            zeros: self.measured.zeros,
            remarks: &self.remarks,
        }
    }
}

/// The separate debug file, if the program lacks names or lines.
fn debug_file(path: &Path, file: &ElfFile) -> Option<ElfFile> {
    let elf = file.parse().ok()?;
    if elf.has_symbols() && elf.has_debug_info() {
        return None;
    }
    #[expect(
        clippy::redundant_closure_for_method_calls,
        reason = "the method is of one lifetime, the closure of any"
    )]
    DebugFolders::usual().find(path, &elf, |debug: &Elf<'_>| debug.has_symbols() || debug.has_debug_info())
}

fn cannot_open(path: &Path, error: &std::io::Error) -> Failure {
    let name = path.display();
    match error.kind() {
        std::io::ErrorKind::NotFound => Failure::new(format!("{name}: no such file"))
            .next("the path of a program, such as target/release/app"),
        std::io::ErrorKind::InvalidInput if path.is_dir() => {
            Failure::new(format!("{name}: this is a folder")).next("a program or a library in it")
        }
        _ => Failure::new(format!("{name}: cannot be read: {error}")).next("a file that you may read"),
    }
}

fn explain(path: &Path, file: &ElfFile, error: SizeError) -> Failure {
    let failure = Failure::new(format!("{}: {error}", path.display()));
    let bytes = file.bytes();
    match error {
        SizeError::NotElf if whyslow_profile::file::is_profile(bytes) => {
            failure.next("the program itself; `whyslow report` shows a profile")
        }
        SizeError::NotElf if bytes.starts_with(b"#!") => {
            let line = bytes[2..].split(|byte| *byte == b'\n').next().unwrap_or_default();
            let interpreter = String::from_utf8_lossy(line).trim().to_owned();
            failure.next(format!("a compiled program; this is a script that {interpreter} runs"))
        }
        SizeError::NotElf if bytes.starts_with(b"!<arch>\n") => {
            failure.next("a program; this is an archive of object files, and `ar x FILE` unpacks them")
        }
        SizeError::NotElf => failure.next("a Linux program, a shared library or an object file"),
        SizeError::OtherElf(_) => failure.next("a 64-bit program for x86-64 or aarch64"),
        SizeError::CutOff { .. } | SizeError::Damaged(_) => failure.next("another copy of the file"),
    }
}
