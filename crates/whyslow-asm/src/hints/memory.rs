//! Memory hints: spills to the stack, gathers, and strided accesses.

use rustc_hash::FxHashMap;

use super::{Advice, Hint, Kind, Place, count};
use crate::instruction::{Memory, Operation};

/// Bytes per cache line.
const CACHE_LINE: u64 = 64;

pub(super) fn add(place: &Place<'_>, found: &mut Vec<Hint>) {
    found.extend(spills(place));
    let gathers = place.like(|row| row.operation == Operation::Gather);
    found.extend(place.costly(
        Kind::Gather,
        &gathers,
        format!("{} gathers vectors from many places in memory.", place.subject()),
        Advice::general("Lay the data out so that values used together are adjacent (one array per field)."),
    ));
    if place.is_innermost {
        found.extend(strided(place));
    }
}

const SPILLS: Advice = Advice::general(
    "Split the loop, keep fewer values at a time, or move a rarely executed part into a function of its own.",
)
.rust(
    "Split the loop, keep fewer values at a time, or move a rarely executed part into a `#[cold]` function.",
)
.native(
    "Split the loop, keep fewer values at a time, or move a rarely executed part into a function with \
     `__attribute__((cold, noinline))`.",
);

const STRIDED: Advice = Advice::general(
    "Walk along memory: swap the loops, store rows as columns, or keep the field in its own array.",
)
.fortran(
    "Walk along memory: let the first index change in the innermost loop, or keep the component in its own array.",
);

/// Stack slots, by base register and offset, with the instructions that store to and load from each.
type Slots = FxHashMap<(Option<u8>, i64), (Vec<usize>, Vec<usize>)>;

/// Values that are stored to the stack and loaded again in the same iteration.
fn spills(place: &Place<'_>) -> Option<Hint> {
    let is_slot = |memory: &Memory| {
        memory.index.is_none() && memory.base.is_some_and(|base| place.body.is_stack_register(base))
    };
    let mut slots = Slots::default();
    for (index, row) in place.instructions().filter(|(_, row)| !row.is_call()) {
        let Some(memory) = row.memory.filter(is_slot) else { continue };
        let (stores, loads) = slots.entry((memory.base, memory.displacement)).or_default();
        if memory.is_written {
            stores.push(index);
        }
        if memory.is_read {
            loads.push(index);
        }
    }
    let spilled = slots.into_values().filter(|(stores, loads)| !stores.is_empty() && !loads.is_empty());
    let spilled: Vec<Vec<usize>> = spilled.map(|(stores, loads)| [stores, loads].concat()).collect();
    let number = spilled.len();
    let mut rows = spilled.concat();
    rows.sort_unstable();
    rows.dedup();
    place.costly(
        Kind::Spills,
        &rows,
        format!(
            "{} keeps {} on the stack because there are too few registers.",
            place.subject(),
            count(number, "a value", "values")
        ),
        SPILLS,
    )
}

/// How far a register moves per iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// By this many bytes.
    By(i64),
    /// By the value of a register.
    ByRegister,
    /// Not a constant step.
    Unclear,
}

/// Accesses grouped by base, index and scale: each group belongs to one array.
type Arrays = FxHashMap<(Option<u8>, Option<u8>, u8), Vec<(usize, Memory)>>;

/// Accesses to one array that are far apart.
pub(super) fn strided(place: &Place<'_>) -> Option<Hint> {
    let steps = steps(place);
    let step_of = |register: Option<u8>| register.and_then(|register| steps.get(&register).copied());
    // Accesses within one step count together.
    let mut arrays = Arrays::default();
    for (index, row) in place.instructions() {
        if let Some(memory) = row.memory {
            arrays.entry((memory.base, memory.index, memory.scale)).or_default().push((index, memory));
        }
    }
    let mut arrays: Vec<_> = arrays.into_iter().collect();
    arrays.sort_unstable_by_key(|(_, accesses)| accesses[0].0);
    for ((base, index, scale), accesses) in arrays {
        let step = match (step_of(base), step_of(index)) {
            (Some(step), None) => step,
            (None, Some(Step::By(bytes))) => Step::By(bytes.saturating_mul(scale.into())),
            (None, Some(step)) => step,
            _ => continue,
        };
        if matches!(step, Step::By(bytes) if touches_every_line(bytes.unsigned_abs(), &accesses)) {
            continue;
        }
        let rows: Vec<usize> = accesses.iter().map(|(index, _)| *index).collect();
        let covered = covered(&accesses);
        let (step, covered) = match step {
            Step::By(bytes) => {
                let (bytes, covered) = once(bytes.unsigned_abs(), covered, &accesses);
                (Step::By(bytes.cast_signed()), covered)
            }
            step => (step, covered),
        };
        let far = match step {
            Step::By(bytes) if bytes.unsigned_abs() >= CACHE_LINE.max(covered.saturating_mul(4)) => {
                format!("{} bytes", bytes.unsigned_abs())
            }
            Step::ByRegister => "a distance that is only known at run time".to_owned(),
            Step::By(_) | Step::Unclear => continue,
        };
        let hint = place.costly(
            Kind::StridedAccess,
            &rows,
            format!("Each access of the innermost loop is {far} away from the previous one and uses {covered} bytes there."),
            STRIDED,
        );
        if hint.is_some() {
            return hint;
        }
    }
    None
}

/// The number of distinct bytes that accesses to one array touch.
fn covered(accesses: &[(usize, Memory)]) -> u64 {
    let mut ranges: Vec<(i64, i64)> = accesses
        .iter()
        .map(|(_, memory)| (memory.displacement, memory.displacement.saturating_add(memory.size.into())))
        .collect();
    ranges.sort_unstable();
    let (mut sum, mut end) = (0_u64, i64::MIN);
    for (from, to) in ranges {
        sum = sum.saturating_add(to.saturating_sub(from.max(end)).max(0).unsigned_abs());
        end = end.max(to);
    }
    sum
}

/// Whether the accesses of an unrolled loop are so close to each other that they leave no cache line out.
fn touches_every_line(step: u64, accesses: &[(usize, Memory)]) -> bool {
    let mut starts: Vec<i64> = accesses.iter().map(|(_, memory)| memory.displacement).collect();
    starts.sort_unstable();
    let [first, .., last] = starts[..] else { return step < CACHE_LINE };
    let around = step.saturating_sub(last.saturating_sub(first).unsigned_abs());
    let gaps = starts.windows(2).map(|pair| pair[1].saturating_sub(pair[0]).unsigned_abs());
    gaps.chain([around]).all(|gap| gap < CACHE_LINE)
}

/// The distance from one access to the next and the bytes used there. Compilers unroll loops: then an iteration
/// makes several accesses at equal distances, which together are its step.
fn once(step: u64, covered: u64, accesses: &[(usize, Memory)]) -> (u64, u64) {
    let mut starts: Vec<i64> = accesses.iter().map(|(_, memory)| memory.displacement).collect();
    starts.sort_unstable();
    // Accesses next to each other belong together.
    starts.dedup_by(|next, kept| next.saturating_sub(*kept).unsigned_abs() < CACHE_LINE);
    let count = starts.len() as u64;
    let each = step / count.max(1);
    let is_unrolled = each * count == step
        && starts.windows(2).all(|pair| pair[1].saturating_sub(pair[0]).unsigned_abs() == each);
    if is_unrolled { (each, covered / count.max(1)) } else { (step, covered) }
}

/// Registers to which each iteration adds a constant or an unchanged register.
fn steps(place: &Place<'_>) -> FxHashMap<u8, Step> {
    let mut changed = 0;
    for (_, row) in place.instructions() {
        changed |= row.writes.0;
    }
    let mut steps: FxHashMap<u8, Step> = FxHashMap::default();
    for (_, row) in place.instructions() {
        for register in row.writes.general().iter() {
            let moved = row
                .memory
                .filter(|memory| memory.base == Some(register))
                .and_then(|memory| memory.moves_base);
            let step = row.step.or(moved.map(crate::instruction::Step::By));
            let step = match (step, steps.get(&register)) {
                (Some(crate::instruction::Step::By(bytes)), None) => Step::By(bytes),
                (Some(crate::instruction::Step::By(more)), Some(Step::By(bytes))) => {
                    Step::By(bytes.saturating_add(more))
                }
                (Some(crate::instruction::Step::ByRegister(by)), None) if changed & (1 << by) == 0 => {
                    Step::ByRegister
                }
                _ => Step::Unclear,
            };
            steps.insert(register, step);
        }
    }
    steps
}
