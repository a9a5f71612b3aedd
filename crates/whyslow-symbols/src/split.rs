//! Split debug info: `.dwo` files and `.dwp` packages.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::dwarf::{self, DebugInfo, Dwarf, Slice, Unit};
use whyslow_elf::{Elf, ElfFile};

/// `BINARY.dwp`, the package of a module's split units.
pub(crate) fn package_file(path: &Path) -> Option<ElfFile> {
    let mut name = path.as_os_str().to_owned();
    name.push(".dwp");
    ElfFile::open(Path::new(&name)).ok()
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

/// Opens the split unit of a skeleton, from the package or from its `.dwo` file, and passes it to `then`.
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
    let file = dwo_paths(info, skeleton)?.into_iter().find_map(|path| ElfFile::open(&path).ok())?;
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

/// Candidates for a skeleton's `.dwo` file: where the compiler wrote it, or next to the module.
fn dwo_paths(info: &DebugInfo<'_>, skeleton: &Unit<'_>) -> Option<[PathBuf; 2]> {
    let name = info.units.dwarf.attr_string(skeleton, skeleton.dwo_name().ok()??).ok()?;
    let name = Path::new(OsStr::from_bytes(name.slice()));
    let folder =
        skeleton.comp_dir.map_or(Path::new(""), |folder| Path::new(OsStr::from_bytes(folder.slice())));
    let next_to_module = info.path.parent()?.join(name.file_name()?);
    Some([folder.join(name), next_to_module])
}
