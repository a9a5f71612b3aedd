//! Joins and normalises paths of source files.

use super::{Dwarf, Unit};

/// The path of a file of a unit's line table.
pub(crate) fn file_path(dwarf: &Dwarf<'_>, unit: &Unit<'_>, index: u64) -> Option<String> {
    let header = unit.line_program.as_ref()?.header();
    let file = header.file(index)?;
    let mut path = unit.comp_dir.map(|folder| folder.to_string_lossy().into_owned()).unwrap_or_default();
    if file.directory_index() != 0
        && let Some(folder) = file.directory(header)
        && let Ok(folder) = dwarf.attr_string(unit, folder)
    {
        push(&mut path, &folder.to_string_lossy());
    }
    let name = dwarf.attr_string(unit, file.path_name()).ok()?;
    push(&mut path, &name.to_string_lossy());
    Some(tidy(&path))
}

fn push(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') {
        path.push('/');
    }
    path.push_str(part);
}

/// Removes `.` and `a/..` from a path, without access to the file system.
pub(crate) fn tidy(path: &str) -> String {
    if !path.contains("/.") && !path.contains("//") && !path.starts_with("./") {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => {
                parts.pop();
            }
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_tidied() {
        for (path, tidied) in [
            ("/a/b.rs", "/a/b.rs"),
            ("/rustc/1/library/std/src/../../backtrace/src/lib.rs", "/rustc/1/library/backtrace/src/lib.rs"),
            ("/build/./malloc//malloc.c", "/build/malloc/malloc.c"),
            ("./a.c", "a.c"),
            ("../a.c", "../a.c"),
            ("a/../../b.c", "../b.c"),
            ("/../b.c", "/b.c"),
            ("/home/me/.cargo/x.rs", "/home/me/.cargo/x.rs"),
        ] {
            assert_eq!(tidy(path), tidied, "{path}");
        }
    }

    #[test]
    fn an_absolute_part_replaces_what_is_before_it() {
        let mut path = "/a".to_owned();
        push(&mut path, "b");
        assert_eq!(path, "/a/b");
        push(&mut path, "/c/d");
        assert_eq!(path, "/c/d");
    }
}
