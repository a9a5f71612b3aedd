//! Decides how the agent can get into a program.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use whyslow_elf::{FileBytes, Headers};

/// How the agent gets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// The dynamic loader loads the agent: `LD_PRELOAD`.
    Preload,
    /// There is no dynamic loader: [`crate::Injector`].
    Inject,
    /// Not possible. The text says why.
    Impossible(String),
}

/// Maximum depth of scripts interpreted by scripts: the kernel's limit.
const MOST_SCRIPTS: usize = 5;
/// The number of bytes that the kernel reads of a script's first line.
const FIRST_LINE: usize = 256;

/// Inspects a program's file to find how the agent can get in. For a script, the interpreter decides.
pub fn entry_of(path: &Path) -> Entry {
    entry_at(path, path)
}

/// Same as [`entry_of`], for an open file. `name` is the file's name.
pub fn entry_of_file(file: &File, name: &Path) -> Entry {
    entry_at(&PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())), name)
}

/// `path` is where the file can be read.
fn entry_at(path: &Path, name: &Path) -> Entry {
    let (mut path, mut name) = (path.to_owned(), name.to_owned());
    for _ in 0..MOST_SCRIPTS {
        match inspect(&path, &name) {
            Ok(Found::Entry(entry)) => return entry,
            Ok(Found::Script(interpreter)) => (path, name) = (interpreter.clone(), interpreter),
            Err(error) => return Entry::Impossible(unreadable(&name, &error)),
        }
    }
    Entry::Impossible(format!(
        "{} is a script that is interpreted by a script, and so on: the kernel runs at most {MOST_SCRIPTS} levels",
        name.display()
    ))
}

/// Whether a program, or the interpreter of a script, is static: without a dynamic loader.
pub fn is_static(path: &Path) -> bool {
    entry_of(path) == Entry::Inject
}

enum Found {
    Entry(Entry),
    Script(PathBuf),
}

fn inspect(path: &Path, name: &Path) -> io::Result<Found> {
    let mut start = Vec::new();
    File::open(path)?.take(FIRST_LINE as u64).read_to_end(&mut start)?;
    if let Some(interpreter) = interpreter(&start) {
        return Ok(Found::Script(interpreter));
    }
    // The kernel ignores the privileges of scripts, but not those of programs.
    if let Some(reason) = privileges(path, name, &std::fs::metadata(path)?) {
        return Ok(Found::Entry(Entry::Impossible(reason)));
    }
    let file = FileBytes::open(path)?;
    Ok(Found::Entry(by_headers(name, &file)))
}

/// The interpreter that a script's first line names.
fn interpreter(start: &[u8]) -> Option<PathBuf> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let name = line.trim_ascii().split(|byte| matches!(byte, b' ' | b'\t')).next()?;
    (!name.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(name)))
}

fn by_headers(path: &Path, data: &[u8]) -> Entry {
    let name = path.display();
    if !data.starts_with(b"\x7fELF") {
        return Entry::Impossible(format!("{name} is neither a program nor a script with a #! line"));
    }
    let foreign = || Entry::Impossible(format!("{name} is not a program for x86-64"));
    let Some(headers) = Headers::parse(data).ok().filter(Headers::is_for_host) else { return foreign() };
    // The dynamic loader can be run as a program, and then preloads as well.
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let is_loader = resolved.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-"));
    if is_loader || headers.has_interpreter() { Entry::Preload } else { Entry::Inject }
}

/// Why a program would run with more privileges than the process that starts it, if it does. The loader then
/// ignores `LD_PRELOAD`, and the kernel forbids tracing.
fn privileges(path: &Path, name: &Path, metadata: &Metadata) -> Option<String> {
    let name = name.display();
    let (user, group) = ids();
    let mode = rustix::fs::Mode::from_raw_mode(metadata.mode());
    if mode.contains(rustix::fs::Mode::SUID) && metadata.uid() != user {
        return Some(format!(
            "{name} is set-uid: it runs as another user, and the kernel does not allow an agent in it"
        ));
    }
    if mode.contains(rustix::fs::Mode::SGID | rustix::fs::Mode::XGRP) && metadata.gid() != group {
        return Some(format!(
            "{name} is set-gid: it runs as another group, and the kernel does not allow an agent in it"
        ));
    }
    // File capabilities add nothing for root.
    (user != 0 && has_capabilities(path)).then(|| {
        format!(
            "{name} has file capabilities (see getcap): it runs with more privileges, and the kernel does not allow an agent in it"
        )
    })
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    let name = path.display();
    if error.kind() == io::ErrorKind::PermissionDenied {
        format!("no permission to read {name}: the agent cannot be added to a program that cannot be read")
    } else {
        format!("{name} cannot be read: {error}")
    }
}

fn ids() -> (u32, u32) {
    (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
}

fn has_capabilities(path: &Path) -> bool {
    rustix::fs::getxattr_query(path, c"security.capability").is_ok_and(|size| size > 0)
}
