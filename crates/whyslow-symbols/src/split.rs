//! Debug information outside of the module's own file: separate debug files, supplementary files, `.dwo`, `.dwp`.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::Options;
use crate::dwarf::{self, DebugInfo, Dwarf, Slice, Unit};
use crate::elf::{Elf, ElfBytes, hex};

/// The separate debug file of a module: by build id, then by `.gnu_debuglink`.
pub(crate) fn separate_debug_file(path: &Path, elf: &Elf<'_>, options: &Options) -> Option<ElfBytes> {
    let debug_folders = &options.debug_folders;
    let has_debug_info = |file: &ElfBytes| file.parse().is_ok_and(|elf| elf.has_debug_info());
    if let Some(id) = elf.build_id() {
        let same_id = |file: &ElfBytes| {
            file.parse().is_ok_and(|debug| debug.has_debug_info() && debug.build_id().as_ref() == Some(&id))
        };
        let installed = debug_folders.iter().filter_map(|folder| by_build_id(folder, &id));
        let downloaded = options.debuginfod_caches.iter().map(|folder| folder.join(&id).join("debuginfo"));
        let found = installed.chain(downloaded).filter_map(|path| ElfBytes::open(&path).ok()).find(same_id);
        if found.is_some() {
            return found;
        }
    }
    let (name, crc) = elf.debuglink()?;
    let name = Path::new(OsStr::from_bytes(name));
    let folder = path.parent()?;
    let relative = folder.strip_prefix("/").unwrap_or(folder);
    let beside = [folder.join(name), folder.join(".debug").join(name)];
    let elsewhere = debug_folders.iter().map(|debug| debug.join(relative).join(name));
    beside
        .into_iter()
        .chain(elsewhere)
        .filter(|candidate| candidate != path)
        .filter_map(|candidate| ElfBytes::open(&candidate).ok())
        .find(|file| crc32(file.bytes()) == crc && has_debug_info(file))
}

/// The supplementary file that `dwz` moved shared entries into.
pub(crate) fn supplementary_file(debug: &ElfBytes, debug_folders: &[PathBuf]) -> Option<ElfBytes> {
    let elf = debug.parse().ok()?;
    let (name, id) = elf.debugaltlink()?;
    let id = hex(id);
    let name = Path::new(OsStr::from_bytes(name));
    let named = debug.path.parent()?.join(name);
    let by_id = debug_folders.iter().filter_map(|folder| by_build_id(folder, &id));
    std::iter::once(named)
        .chain(by_id)
        .filter_map(|path| ElfBytes::open(&path).ok())
        .find(|file| file.parse().is_ok_and(|elf| elf.build_id().as_ref() == Some(&id)))
}

fn by_build_id(folder: &Path, id: &str) -> Option<PathBuf> {
    let (first, rest) = id.split_at_checked(2)?;
    (!rest.is_empty()).then(|| folder.join(".build-id").join(first).join(format!("{rest}.debug")))
}

/// `BINARY.dwp`, the package of a module's split units.
pub(crate) fn package_file(path: &Path) -> Option<ElfBytes> {
    let mut name = path.as_os_str().to_owned();
    name.push(".dwp");
    ElfBytes::open(Path::new(&name)).ok()
}

/// The sections of a package.
pub(crate) type PackageSections<'a> = gimli::DwarfPackageSections<Cow<'a, [u8]>>;

/// Reads the sections of a package.
pub(crate) fn package_sections<'a>(elf: &Elf<'a>) -> Option<PackageSections<'a>> {
    let load = |id: gimli::SectionId| {
        Ok::<_, gimli::Error>(id.dwo_name().map_or(Cow::Borrowed(&[][..]), |name| elf.section(name)))
    };
    PackageSections::load(load).ok()
}

/// Opens the split unit that belongs to a skeleton, from the package or from its `.dwo` file, and hands it to `then`.
pub(crate) fn with_unit<T>(
    info: &DebugInfo<'_>,
    skeleton: &Unit<'_>,
    id: gimli::DwoId,
    then: impl FnOnce(&Dwarf<'_>, &Unit<'_>) -> T,
) -> Option<T> {
    let parent = info.units.dwarf;
    if let Some(package) = &info.package
        && let Ok(Some(dwarf)) = package.find_cu(id, parent)
    {
        let unit = split_unit(&dwarf, skeleton, id)?;
        return Some(then(&dwarf, &unit));
    }
    let file = dwo_paths(info, skeleton)?.into_iter().find_map(|path| ElfBytes::open(&path).ok())?;
    let elf = file.parse().ok()?;
    let sections = dwarf::dwo_sections(&elf);
    let mut dwarf = dwarf::borrow(&sections);
    dwarf.make_dwo(parent);
    let unit = split_unit(&dwarf, skeleton, id)?;
    Some(then(&dwarf, &unit))
}

/// The compilation unit with this id; a `.dwo` can hold type units before it.
fn split_unit<'a>(
    dwarf: &Dwarf<'a>,
    skeleton: &gimli::Unit<Slice<'a>>,
    id: gimli::DwoId,
) -> Option<Unit<'a>> {
    let mut headers = dwarf.units();
    while let Ok(Some(header)) = headers.next() {
        let Ok(mut unit) = dwarf.unit(header) else { continue };
        if unit.dwo_id.is_none_or(|found| found == id) {
            unit.copy_relocated_attributes(skeleton);
            return Some(unit);
        }
    }
    None
}

/// Where a skeleton's `.dwo` file may be: where the compiler put it, or next to the module.
fn dwo_paths(info: &DebugInfo<'_>, skeleton: &Unit<'_>) -> Option<[PathBuf; 2]> {
    let name = info.units.dwarf.attr_string(skeleton, skeleton.dwo_name().ok()??).ok()?;
    let name = Path::new(OsStr::from_bytes(name.slice()));
    let folder =
        skeleton.comp_dir.map_or(Path::new(""), |folder| Path::new(OsStr::from_bytes(folder.slice())));
    let beside = info.path.parent()?.join(name.file_name()?);
    Some([folder.join(name), beside])
}

/// The checksum that `.gnu_debuglink` carries.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn build_ids_name_files() {
        let path = by_build_id(Path::new("/usr/lib/debug"), "abcdef").unwrap();
        assert_eq!(path, Path::new("/usr/lib/debug/.build-id/ab/cdef.debug"));
        assert_eq!(by_build_id(Path::new("/d"), "ab"), None);
        assert_eq!(by_build_id(Path::new("/d"), "é"), None);
    }

    #[test]
    fn the_checksum_is_the_usual_one() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }
}
