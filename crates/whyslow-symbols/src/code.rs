//! Stores the machine code of hot functions in the profile.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_elf::{Elf, ElfFile};
use whyslow_profile::{Code, LocationId, ModuleId, ModuleKind, Profile, RelativeAddress};

use crate::hot::Heat;
use crate::jit;
use crate::module::{self, Question};

/// Maximum bytes kept of one function.
const LARGEST_FUNCTION: u64 = 64 << 10;
/// Maximum bytes kept of all functions.
const LARGEST_TOTAL: usize = 256 << 10;

/// The contiguous code around a location's address.
pub(crate) type Extents = FxHashMap<LocationId, (RelativeAddress, RelativeAddress)>;

/// A hot range of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    value: u64,
    module: ModuleId,
    start: RelativeAddress,
    end: RelativeAddress,
}

/// Samples in a range: their sum, and the value of each address.
#[derive(Default)]
struct Seen {
    value: u64,
    addresses: Vec<(u64, RelativeAddress)>,
}

/// Stores the code of functions with a notable share of the samples, hottest first.
pub(crate) fn keep(
    profile: &mut Profile,
    questions: &[(ModuleId, &Question)],
    extents: &Extents,
    heat: &Heat,
) {
    let mut sources: FxHashMap<ModuleId, Bytes<'_>> = FxHashMap::default();
    let mut kept: FxHashSet<(ModuleId, RelativeAddress)> =
        profile.code.rows.iter().map(|row| (row.module, row.start)).collect();
    let mut total: usize = profile.code.rows.iter().map(|row| row.bytes.len()).sum();
    for range in ranges(profile, extents, heat) {
        if !kept.insert((range.module, range.start)) {
            continue;
        }
        let Some((_, question)) = questions.iter().find(|(module, _)| *module == range.module) else {
            continue;
        };
        let source = sources.entry(range.module).or_insert_with(|| Bytes::open(question));
        let size = range.end.behind(range.start).min(LARGEST_FUNCTION);
        let Some(bytes) = source.read(range.start, size) else { continue };
        if total + bytes.len() > LARGEST_TOTAL {
            break;
        }
        total += bytes.len();
        profile.code.rows.push(Code { module: range.module, start: range.start, bytes });
    }
}

/// Hot ranges, hottest first.
fn ranges(profile: &Profile, extents: &Extents, heat: &Heat) -> Vec<Range> {
    let mut values: FxHashMap<(ModuleId, RelativeAddress, RelativeAddress), Seen> = FxHashMap::default();
    for (&location, &value) in &heat.own {
        let Some(&(start, end)) = extents.get(&location) else { continue };
        let Some(module) = profile.locations.module.get(location.index()).copied().flatten() else {
            continue;
        };
        if start < end {
            let row = values.entry((module, start, end)).or_default();
            row.value = row.value.saturating_add(value);
            row.addresses.push((value, profile.locations.address[location.index()]));
        }
    }
    let mut ranges: Vec<Range> = values
        .into_iter()
        .filter(|(_, seen)| heat.is_notable(seen.value))
        .map(|((module, start, end), seen)| Range {
            value: seen.value,
            module,
            start: first_kept(start, &seen.addresses),
            end,
        })
        .collect();
    ranges.sort_by_key(|range| (std::cmp::Reverse(range.value), range.module, range.start));
    ranges
}

/// Where to start in a function: at its start, unless the hottest address is beyond the limit. Then at the
/// first sampled address shortly before it, because only sampled addresses are known to be instructions.
fn first_kept(start: RelativeAddress, seen: &[(u64, RelativeAddress)]) -> RelativeAddress {
    let hottest = seen.iter().max().map_or(start, |&(_, address)| address);
    if hottest.0.saturating_sub(start.0) < LARGEST_FUNCTION {
        return start;
    }
    let earliest = hottest.minus(LARGEST_FUNCTION / 2);
    seen.iter().map(|&(_, address)| address).filter(|&address| address >= earliest).min().unwrap_or(start)
}

/// The source of a module's code.
enum Bytes<'q> {
    File(ElfFile),
    Image(Vec<u8>),
    Jit(&'q str),
    None,
}

impl<'q> Bytes<'q> {
    fn open(question: &'q Question) -> Self {
        match question.kind {
            ModuleKind::Program | ModuleKind::Library | ModuleKind::Unknown => {
                module::open(question).map_or(Self::None, Self::File)
            }
            ModuleKind::Vdso => whyslow_proc::kernel::vdso().map_or(Self::None, Self::Image),
            ModuleKind::Jit => Self::Jit(&question.path),
            ModuleKind::Kernel
            | ModuleKind::NotSampled
            | ModuleKind::Waiting(_)
            | ModuleKind::SystemCall
            | ModuleKind::LeftOut => Self::None,
        }
    }

    fn read(&self, start: RelativeAddress, size: u64) -> Option<Vec<u8>> {
        let in_elf = |bytes| {
            let elf = Elf::parse(bytes).ok()?;
            elf.bytes_at(elf.image_base().checked_file(start)?, size).map(<[u8]>::to_vec)
        };
        match self {
            Self::File(file) => in_elf(file.bytes()),
            Self::Image(bytes) => in_elf(bytes),
            Self::Jit(module) => jit::code(module, start, usize::try_from(size).ok()?),
            Self::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_starts_where_the_function_does_unless_the_hot_part_is_far() {
        let kept = |seen: &[(u64, u64)]| {
            let seen: Vec<_> = seen.iter().map(|&(value, at)| (value, RelativeAddress(at))).collect();
            first_kept(RelativeAddress(100), &seen).0
        };
        assert_eq!(kept(&[(5, 120), (1, 300)]), 100);
        let far = 100 + 3 * LARGEST_FUNCTION;
        assert_eq!(kept(&[(5, far), (1, far - 8), (1, 120)]), far - 8);
    }
}
