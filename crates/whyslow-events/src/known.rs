//! The event names that every machine understands, even if it lacks the events.

use crate::machine::{Kind, Unit};

/// An event with a fixed number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) config: u64,
    pub(crate) unit: Unit,
    pub(crate) description: String,
}

/// The kernel's numbers for kinds of events.
pub(crate) const TYPE_HARDWARE: u32 = 0;
pub(crate) const TYPE_SOFTWARE: u32 = 1;
pub(crate) const TYPE_TRACEPOINT: u32 = 2;
pub(crate) const TYPE_CACHE: u32 = 3;
pub(crate) const TYPE_RAW: u32 = 4;

/// Name, alias, number, description.
type Row = (&'static str, &'static str, u64, &'static str);

const HARDWARE: [Row; 10] = [
    ("cycles", "cpu-cycles", 0, "CPU cycles, without idle time"),
    ("instructions", "", 1, "retired instructions"),
    ("cache-references", "", 2, "accesses to the last-level cache"),
    ("cache-misses", "", 3, "last-level cache misses"),
    ("branches", "branch-instructions", 4, "jumps, calls and returns"),
    ("branch-misses", "", 5, "mispredicted branches"),
    ("bus-cycles", "", 6, "bus cycles"),
    (
        "stalled-cycles-frontend",
        "idle-cycles-frontend",
        7,
        "cycles in which the front end delivers no instructions",
    ),
    (
        "stalled-cycles-backend",
        "idle-cycles-backend",
        8,
        "cycles in which instructions wait for data or an execution unit",
    ),
    ("ref-cycles", "", 9, "cycles at the CPU's nominal frequency"),
];

const SOFTWARE: [Row; 12] = [
    ("cpu-clock", "", 0, "time on a CPU, by the CPU's clock"),
    ("task-clock", "", 1, "time on a CPU, by the thread's clock"),
    ("page-faults", "faults", 2, "first accesses to pages, and reads of pages from disk"),
    ("context-switches", "cs", 3, "times a thread left a CPU"),
    ("cpu-migrations", "migrations", 4, "times a thread moved to another CPU"),
    ("minor-faults", "", 5, "page faults without reading from disk"),
    ("major-faults", "", 6, "page faults that waited for the disk"),
    ("alignment-faults", "", 7, "unaligned accesses that the kernel had to fix up"),
    ("emulation-faults", "", 8, "instructions that the kernel had to emulate"),
    ("dummy", "", 9, "counts nothing"),
    ("bpf-output", "", 10, "records written by BPF programs"),
    ("cgroup-switches", "", 11, "switches to a thread of another control group"),
];

/// Caches and their operations: name, number, words, and whether loads, stores and prefetches exist.
const CACHES: [(&str, u64, &str, [bool; 3]); 7] = [
    ("L1-dcache", 0, "the level 1 data cache", [true, true, true]),
    ("L1-icache", 1, "the level 1 instruction cache", [true, false, true]),
    ("LLC", 2, "the last-level cache", [true, true, true]),
    ("dTLB", 3, "the data TLB", [true, true, true]),
    ("iTLB", 4, "the instruction TLB", [true, false, false]),
    ("branch", 5, "the branch predictor", [true, false, false]),
    ("node", 6, "the memory of this NUMA node", [true, true, true]),
];

const OPERATIONS: [(&str, &str, &str); 3] =
    [("loads", "load", "loads"), ("stores", "store", "stores"), ("prefetches", "prefetch", "prefetches")];

/// All known events, in listing order.
pub(crate) fn all() -> Vec<Known> {
    let row = |kind| {
        move |(name, _, config, description): &Row| Known {
            name: (*name).to_owned(),
            kind,
            config: *config,
            unit: if name.ends_with("-clock") { Unit::Nanoseconds } else { Unit::Count },
            description: (*description).to_owned(),
        }
    };
    let hardware = HARDWARE.iter().map(row(Kind::Hardware));
    hardware.chain(caches()).chain(SOFTWARE.iter().map(row(Kind::Software))).collect()
}

/// `config = cache | operation << 8 | result << 16`
fn caches() -> impl Iterator<Item = Known> {
    CACHES.iter().flat_map(|(cache, number, words, possible)| {
        let operations = OPERATIONS.iter().enumerate().filter(|(at, _)| possible[*at]);
        operations.flat_map(move |(at, (many, one, does))| {
            let config = number | (at as u64) << 8;
            let known = |name, config, description| Known {
                name,
                kind: Kind::Cache,
                config,
                unit: Unit::Count,
                description,
            };
            [
                known(format!("{cache}-{many}"), config, format!("{does} that access {words}")),
                known(format!("{cache}-{one}-misses"), config | 1 << 16, format!("{does} that miss {words}")),
            ]
        })
    })
}

/// The event with a name or alias, ignoring case.
pub(crate) fn find(name: &str) -> Option<Known> {
    let other = HARDWARE.iter().chain(&SOFTWARE).find(|(_, other, ..)| other.eq_ignore_ascii_case(name));
    let name = other.filter(|_| !name.is_empty()).map_or(name, |(name, ..)| name);
    all().into_iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// The usual name of a known event: `page-faults` for `faults`.
pub fn usual_name(name: &str) -> Option<String> {
    find(name).map(|known| known.name)
}

/// Whether every machine understands this name.
pub fn is_known(name: &str) -> bool {
    find(name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_the_kernels_numbers() {
        let config = |name: &str| find(name).map(|known| (known.kind, known.config));
        assert_eq!(config("cycles"), Some((Kind::Hardware, 0)));
        assert_eq!(config("cpu-cycles"), Some((Kind::Hardware, 0)));
        assert_eq!(config("cs"), Some((Kind::Software, 3)));
        assert_eq!(config("L1-dcache-load-misses"), Some((Kind::Cache, 0x1_0000)));
        assert_eq!(config("llc-stores"), Some((Kind::Cache, 0x102)));
        assert_eq!(config("dTLB-prefetch-misses"), Some((Kind::Cache, 0x1_0203)));
        assert_eq!(config("node-load-misses"), Some((Kind::Cache, 0x1_0006)));
        assert_eq!(config("iTLB-stores"), None, "there is no such thing");
        assert_eq!(config(""), None);
        assert_eq!(usual_name("FAULTS").as_deref(), Some("page-faults"));
        assert_eq!(find("task-clock").map(|known| known.unit), Some(Unit::Nanoseconds));
    }

    #[test]
    fn no_name_occurs_twice() {
        let mut names: Vec<String> = all().into_iter().map(|known| known.name).collect();
        names.sort();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
