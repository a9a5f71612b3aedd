//! The files that a program starts with: itself, and the libraries that the dynamic loader finds for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use whyslow_capture::Command;
use whyslow_elf::ElfFile;

/// The files, as the kernel names them.
#[derive(Debug, Default)]
pub(crate) struct Modules {
    pub(crate) program: PathBuf,
    /// In the order in which the loader searches them for names.
    pub(crate) libraries: Vec<PathBuf>,
}

impl Modules {
    /// The files of a command's program. `None` if there is no such program.
    pub(crate) fn of(command: &Command) -> Option<Self> {
        let program = command.file()?;
        let program = program.canonicalize().unwrap_or(program);
        let libraries = libraries(&program, command).unwrap_or_default();
        Some(Self { program, libraries })
    }

    /// All of them, the program first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.program).chain(&self.libraries).map(PathBuf::as_path)
    }

    /// What has the functions for system calls: the C library, or the program itself if it is static.
    pub(crate) fn libc(&self) -> &Path {
        let is_libc = |path: &&PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            ["libc.so", "libc-2", "ld-musl", "libc.musl"].iter().any(|start| name.starts_with(start))
        };
        self.libraries.iter().find(is_libc).unwrap_or(&self.program)
    }
}

/// Whether a program runs others.
pub(crate) fn is_shell(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    ["sh", "bash", "dash", "zsh", "ksh", "busybox", "env", "nice", "time", "timeout"]
        .iter()
        .any(|shell| name == *shell)
}

/// Asks the loader which libraries it would load. It runs no code of the program.
fn libraries(program: &Path, command: &Command) -> Option<Vec<PathBuf>> {
    let loader = ElfFile::open(program).ok()?.parse().ok()?.interpreter().map(PathBuf::from)?;
    let mut list = whyslow_capture::restored_command(loader);
    list.arg("--list").arg(program).envs(command.env.iter().map(|(name, value)| (name, value)));
    if let Some(folder) = &command.folder {
        list.current_dir(folder);
    }
    let output = list.stdin(std::process::Stdio::null()).output().ok()?;
    Some(
        listed(&output.stdout)
            .iter()
            .map(|path| path.canonicalize().unwrap_or_else(|_| path.clone()))
            .collect(),
    )
}

/// The paths in a loader's list: `libm.so.6 => /lib/libm.so.6 (0x7f…)`, or without a name before the arrow.
fn listed(output: &[u8]) -> Vec<PathBuf> {
    let path = |line: &[u8]| {
        let line = line.trim_ascii();
        let start = line.windows(4).position(|part| part == b" => ").map_or(0, |at| at + 4);
        let end = line.windows(4).rposition(|part| part == b" (0x").unwrap_or(line.len());
        let path = line.get(start..end).filter(|path| path.starts_with(b"/"))?;
        Some(PathBuf::from(OsStr::from_bytes(path)))
    };
    output.split(|byte| *byte == b'\n').filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_from_the_list_of_the_loader() {
        let list = "\tlinux-vdso.so.1 (0x00007fff)\n\tlibm.so.6 => /lib/a b/libm.so.6 (0x00007f00)\n\
                    \tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f10)\n";
        assert_eq!(
            listed(list.as_bytes()),
            [PathBuf::from("/lib/a b/libm.so.6"), PathBuf::from("/lib64/ld-linux-x86-64.so.2")]
        );
    }

    #[test]
    fn this_program_has_the_c_library() {
        let command =
            Command { program: std::env::current_exe().unwrap().into_os_string(), ..Command::default() };
        let modules = Modules::of(&command).unwrap();
        assert!(modules.libc().file_name().unwrap().to_string_lossy().contains("libc"), "{modules:?}");
        assert_eq!(modules.all().next(), Some(modules.program.as_path()));
    }
}
