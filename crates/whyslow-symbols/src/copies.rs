//! Finds copies of modules in a folder, for recordings of programs that have moved.

use std::path::Path;

use whyslow_elf::{FileBytes, Headers};
use whyslow_profile::{ModuleId, ModuleKind, Profile, copies_in};

/// The modules that have copies in a folder, as [`crate::Options::files`] takes them. If a build id was
/// recorded, a copy must have it.
pub fn copies(profile: &Profile, folder: &Path) -> Vec<(ModuleId, FileBytes)> {
    let mut found = Vec::new();
    for (row, module) in profile.modules.iter().enumerate() {
        if matches!(module.kind, ModuleKind::Kernel | ModuleKind::Vdso | ModuleKind::Jit) {
            continue;
        }
        let recorded = module.build_id.map(|id| profile.text(id));
        let copy = copies_in(folder, profile.text(module.path)).into_iter().find_map(|path| {
            let file = FileBytes::open(&path).ok()?;
            let build_id = Headers::parse(&file).ok()?.build_id();
            recorded.is_none_or(|recorded| build_id.is_some_and(|id| id.is(recorded))).then_some(file)
        });
        found.extend(copy.map(|file| (ModuleId::from(row), file)));
    }
    found
}
