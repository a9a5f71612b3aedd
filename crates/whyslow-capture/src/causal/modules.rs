//! Addresses of the running program, and those in its files.

use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use whyslow_elf::ElfFile;
use whyslow_numbers::{Bias, RunTimeAddress};
use whyslow_proc::{Mapping, process};

use super::{CodeRange, ModuleSamples};

/// The modules of a program. They keep their order when it is started again.
#[derive(Debug, Default)]
pub(super) struct Modules {
    paths: Vec<PathBuf>,
    /// The image base of each module in this process; `None` if it is not mapped.
    bases: Vec<Option<u64>>,
    mappings: Vec<(u64, u64, usize)>,
}

impl Modules {
    /// Reads where a process maps its modules. Once it has exited, the last state remains.
    pub(super) fn read(&mut self, pid: u32) {
        let mappings = Mapping::all_of(pid).unwrap_or_default();
        if mappings.is_empty() {
            return;
        }
        self.mappings.clear();
        self.bases = vec![None; self.paths.len()];
        let mut known: FxHashMap<PathBuf, Option<u64>> = FxHashMap::default();
        for mapping in mappings {
            if !mapping.executable || !mapping.name.starts_with('/') {
                continue;
            }
            let path = PathBuf::from(&mapping.name);
            let base = *known.entry(path.clone()).or_insert_with(|| image_base(pid, &path, &mapping));
            let Some(base) = base else { continue };
            let module = self.paths.iter().position(|known| *known == path).unwrap_or_else(|| {
                self.paths.push(path);
                self.bases.push(None);
                self.paths.len() - 1
            });
            self.bases[module] = Some(base);
            self.mappings.push((mapping.start, mapping.end, module));
        }
    }

    /// Samples by module. Those in no module are left out.
    pub(super) fn by_module(&self, samples: &FxHashMap<u64, u64>) -> Vec<ModuleSamples> {
        let empty = |path: &PathBuf| ModuleSamples { path: path.clone(), samples: Vec::new() };
        let mut modules: Vec<ModuleSamples> = self.paths.iter().map(empty).collect();
        for (&address, &count) in samples {
            let holds = |(start, end, _): &&(u64, u64, usize)| (*start..*end).contains(&address);
            let Some(&(.., module)) = self.mappings.iter().find(holds) else { continue };
            let Some(base) = self.bases[module] else { continue };
            modules[module].samples.push((address.wrapping_sub(base), count));
        }
        for module in &mut modules {
            module.samples.sort_unstable();
        }
        modules
    }

    /// Where ranges are in this process.
    pub(super) fn placed(&self, ranges: &[CodeRange]) -> Vec<(u64, u64)> {
        let place = |range: &CodeRange| {
            let base = (*self.bases.get(range.module)?)?;
            Some((base.wrapping_add(range.start), base.wrapping_add(range.end)))
        };
        let mut placed: Vec<(u64, u64)> = ranges.iter().filter_map(place).collect();
        placed.sort_unstable();
        placed
    }
}

/// The run-time address of a module's image base.
fn image_base(pid: u32, path: &Path, mapping: &Mapping) -> Option<u64> {
    let inside = process::file_in_root(pid, &path.to_string_lossy());
    let file = ElfFile::open(&inside).or_else(|_| ElfFile::open(path)).ok()?;
    let elf = file.parse().ok()?;
    // Mappings are whole pages, so the segment may start within one.
    let segment = elf.segments().find(|segment| {
        segment.executable
            && (mapping.offset..mapping.offset + (mapping.end - mapping.start)).contains(&segment.file_offset)
    })?;
    let address = mapping.start + (segment.file_offset - mapping.offset);
    let bias = Bias::between(RunTimeAddress(address), segment.address);
    Some(bias.run_time(elf.image_base().0).0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_this_program_is_found_again() {
        let mut modules = Modules::default();
        modules.read(std::process::id());
        let here = an_address_of_this_program_is_found_again as fn() as usize as u64;
        let by_module = modules.by_module(&FxHashMap::from_iter([(here, 3)]));
        let (module, found) =
            by_module.iter().enumerate().find(|(_, found)| !found.samples.is_empty()).unwrap();
        assert_eq!(found.path, std::env::current_exe().unwrap());
        let [(start, 3)] = found.samples[..] else { panic!("{found:?}") };
        let range = CodeRange { module, start, end: start + 1 };
        assert_eq!(modules.placed(&[range]), [(here, here + 1)]);
    }
}
