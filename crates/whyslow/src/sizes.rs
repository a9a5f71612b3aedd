//! Measures the space in a program's file, for commands that show it, compare it, or check it.

use std::path::Path;
use std::str::FromStr;

use whyslow_analyze::size::{SizeNote, Sizes};
use whyslow_elf::{DebugFolders, Elf, ElfFile};
use whyslow_render::sanitize::clean;
use whyslow_render::text::SizeView;
use whyslow_render::units::bytes;
use whyslow_size::{Measured, SizeError, measure};
use whyslow_words::{Fact as _, Remark};

use crate::failure::{Failure, Result};
use crate::values;

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

    /// Replaces the advice about debug information and symbols: whyslow's own build has both.
    pub(crate) fn built_by_whyslow(&mut self) {
        let of_build = SizeNote::Built.remark();
        self.remarks.retain(|remark| !SizeNote::OF_BUILD.contains(&remark.id));
        self.remarks.insert(0, of_build);
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

/// The maximum size of a file, or of a crate in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Budget {
    of: Option<String>,
    most: u64,
}

/// Whether a budget is exceeded, in words.
pub(crate) struct Verdict {
    pub(crate) is_exceeded: bool,
    pub(crate) words: String,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (of, size) = match text.rsplit_once('=') {
            Some((name, size)) if !name.is_empty() => (Some(name.to_owned()), size),
            _ => (None, text),
        };
        let wrong = |_| format!("`{text}` is not a budget such as 5M, or serde_json=300k");
        Ok(Self { of, most: values::bytes(size).map_err(wrong)? })
    }
}

impl Budget {
    /// Compares it with a program.
    pub(crate) fn judge(&self, program: &Program) -> Verdict {
        let (what, used, unknown) = match &self.of {
            None => (program.name.clone(), program.sizes.total, String::new()),
            Some(name) => match program.sizes.group(name) {
                Some(used) => (name.clone(), used, String::new()),
                None => (name.clone(), 0, format!("; {} has nothing of that name", program.name)),
            },
        };
        let is_exceeded = used > self.most;
        let verdict = match is_exceeded {
            true => format!("over its budget by {}", bytes(used - self.most)),
            false => "within its budget".to_owned(),
        };
        let words = format!("{what}: {} of {}, {verdict}{unknown}", bytes(used), bytes(self.most));
        Verdict { is_exceeded, words: clean(&words).into_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_of_the_file_or_of_a_crate() {
        let budget = |text: &str| text.parse::<Budget>();
        assert_eq!(budget("5MiB"), Ok(Budget { of: None, most: 5 << 20 }));
        assert_eq!(
            budget("serde_json=300k"),
            Ok(Budget { of: Some("serde_json".to_owned()), most: 300 << 10 })
        );
        assert!(budget("large").unwrap_err().contains("`large` is not a budget"));
        assert!(budget("=5M").is_err());
    }
}
