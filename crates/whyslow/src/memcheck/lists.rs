//! Suppressions for memcheck: the user's files and whyslow's own list. Valgrind applies those in its format, so they
//! mean what they mean there; LeakSanitizer's lines are applied to the reports.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::PathBuf;

use tempfile::NamedTempFile;
use whyslow_heap::leaks::Class;
use whyslow_heap::leaks::suppressions::{Frame, Suppressions};
use whyslow_memcheck::{Answer, Report, known};

use crate::failure::{Failure, Result};
use crate::suppress;

/// All suppressions of a run.
pub(crate) struct Lists {
    /// In Valgrind's format.
    for_valgrind: String,
    /// Lines such as `leak:pattern`.
    for_leaks: Suppressions,
}

/// The file that Valgrind reads; deleted with this.
pub(crate) struct Written(Option<NamedTempFile>);

impl Lists {
    /// Reads the user's files; errors name file and line.
    pub(crate) fn read(files: &[PathBuf], with_known: bool) -> Result<Self> {
        let mut for_valgrind = String::new();
        let mut for_leaks = Suppressions::default();
        for file in files {
            let (text, _) = suppress::read(file)?;
            let (blocks, lines) = parted(&text);
            let name = file.to_string_lossy();
            for_leaks
                .extend(Suppressions::parse(&lines, &name).map_err(|error| Failure::new(error.to_string()))?);
            for_valgrind.push_str(&blocks);
        }
        if with_known {
            for_valgrind.push_str(known::SUPPRESSIONS);
        }
        Ok(Self { for_valgrind, for_leaks })
    }

    /// Writes the list for Valgrind.
    pub(crate) fn write(&self) -> Result<Written> {
        if self.for_valgrind.trim().is_empty() {
            return Ok(Written(None));
        }
        let write = || {
            let mut file = tempfile::Builder::new().prefix("whyslow-").suffix(".supp").tempfile()?;
            file.write_all(self.for_valgrind.as_bytes())?;
            Ok(file)
        };
        let file = write().map_err(|error: std::io::Error| {
            Failure::new(format!("no temporary file for suppressions: {error}"))
                .next("TMPDIR=FOLDER whyslow …")
        })?;
        Ok(Written(Some(file)))
    }

    /// The LeakSanitizer line that hides a report.
    pub(crate) fn hides(&self, report: &Report) -> Option<String> {
        let class = match report.kind.as_str() {
            "Leak_DefinitelyLost" => Class::DefinitelyLost,
            "Leak_IndirectlyLost" => Class::IndirectlyLost,
            "Leak_PossiblyLost" => Class::PossiblyLost,
            "Leak_StillReachable" => Class::Reachable,
            _ => return None,
        };
        if self.for_leaks.is_empty() {
            return None;
        }
        let files: Vec<String> = report.stack.iter().map(|frame| frame.path().unwrap_or_default()).collect();
        let frames: Vec<Frame<'_>> = report
            .stack
            .iter()
            .zip(&files)
            .map(|(frame, file)| Frame {
                function: &frame.function,
                object: &frame.object,
                file,
                line: frame.line,
                ..Frame::default()
            })
            .collect();
        self.for_leaks.find(class, &frames).map(|found| format!("leak:{}", found.name))
    }

    /// Says of suppressions that are neither the user's nor whyslow's where they are from.
    pub(crate) fn name_sources(&self, answer: &mut Answer) {
        for suppressed in answer.suppressed.iter_mut().filter(|one| one.why.is_none()) {
            let is_given = self.for_valgrind.lines().any(|line| line.trim() == suppressed.name);
            if !is_given && !suppressed.name.starts_with("leak:") {
                suppressed.why = Some("Valgrind's own list has it as harmless.".to_owned());
            }
        }
    }
}

impl Written {
    /// The option that makes Valgrind read it.
    pub(crate) fn option(&self) -> Option<OsString> {
        let mut option = OsString::from("--suppressions=");
        option.push(self.0.as_ref()?.path());
        Some(option)
    }
}

/// Valgrind's blocks, and everything else.
fn parted(text: &str) -> (String, String) {
    let (mut blocks, mut lines) = (String::new(), String::new());
    let mut is_inside = false;
    for line in text.lines() {
        is_inside |= line.trim() == "{";
        let part = if is_inside { &mut blocks } else { &mut lines };
        part.push_str(line);
        part.push('\n');
        is_inside &= line.trim() != "}";
    }
    (blocks, lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_for_valgrind_and_lines_for_leaks() {
        let text = "# both\nleak:cache\n{\n  x\n  Memcheck:Addr4\n  fun:f\n}\nrace:y\n";
        let (blocks, lines) = parted(text);
        assert_eq!(blocks, "{\n  x\n  Memcheck:Addr4\n  fun:f\n}\n");
        assert_eq!(lines, "# both\nleak:cache\nrace:y\n");
    }
}
