//! The names that every machine understands, whether it has the events or not.

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

/// Names, the second one being another word for the first; number; description.
type Row = (&'static str, &'static str, u64, &'static str);

const HARDWARE: [Row; 10] = [
    ("cycles", "cpu-cycles", 0, "cycles of the CPU while it works"),
    ("instructions", "", 1, "instructions that were finished"),
    ("cache-references", "", 2, "accesses that reach the last cache"),
    ("cache-misses", "", 3, "accesses that the last cache could not serve"),
    ("branches", "branch-instructions", 4, "jumps, calls and returns"),
    ("branch-misses", "", 5, "jumps that were predicted wrongly"),
    ("bus-cycles", "", 6, "cycles of the bus"),
    ("stalled-cycles-frontend", "idle-cycles-frontend", 7, "cycles without new instructions to begin"),
    (
        "stalled-cycles-backend",
        "idle-cycles-backend",
        8,
        "cycles in which instructions waited for data or a unit",
    ),
    ("ref-cycles", "", 9, "cycles at the CPU's nominal frequency"),
];

const SOFTWARE: [Row; 12] = [
    ("cpu-clock", "", 0, "time on a CPU, by the CPU's clock"),
    ("task-clock", "", 1, "time on a CPU, by the thread's clock"),
    ("page-faults", "faults", 2, "first touches of pages, and reads of pages from disk"),
    ("context-switches", "cs", 3, "times a thread left a CPU"),
    ("cpu-migrations", "migrations", 4, "times a thread came to another CPU"),
    ("minor-faults", "", 5, "page faults without reading from disk"),
    ("major-faults", "", 6, "page faults that waited for the disk"),
    ("alignment-faults", "", 7, "unaligned accesses that the kernel had to mend"),
    ("emulation-faults", "", 8, "instructions that the kernel had to emulate"),
    ("dummy", "", 9, "counts nothing"),
    ("bpf-output", "", 10, "what BPF programs write"),
    ("cgroup-switches", "", 11, "switches to a thread of another control group"),
];

/// Caches and what can be done to them: name, number, words, loads, stores, prefetches.
const CACHES: [(&str, u64, &str, [bool; 3]); 7] = [
    ("L1-dcache", 0, "the first data cache", [true, true, true]),
    ("L1-icache", 1, "the first instruction cache", [true, false, true]),
    ("LLC", 2, "the last cache before memory", [true, true, true]),
    ("dTLB", 3, "the table of data pages", [true, true, true]),
    ("iTLB", 4, "the table of code pages", [true, false, false]),
    ("branch", 5, "the branch predictor", [true, false, false]),
    ("node", 6, "this node's own memory", [true, true, true]),
];

const OPERATIONS: [(&str, &str, &str); 3] =
    [("loads", "load", "loads"), ("stores", "store", "stores"), ("prefetches", "prefetch", "prefetches")];

/// All of them, in the order in which they are listed.
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
                known(format!("{cache}-{many}"), config, format!("{does} that ask {words}")),
                known(
                    format!("{cache}-{one}-misses"),
                    config | 1 << 16,
                    format!("{does} that {words} could not serve"),
                ),
            ]
        })
    })
}

/// The event of a name or of another word for it; upper and lower case are the same.
pub(crate) fn find(name: &str) -> Option<Known> {
    let other = HARDWARE.iter().chain(&SOFTWARE).find(|(_, other, ..)| other.eq_ignore_ascii_case(name));
    let name = other.filter(|_| !name.is_empty()).map_or(name, |(name, ..)| name);
    all().into_iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// The usual word for an event that every machine understands: `page-faults` for `faults`.
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
    fn no_name_is_there_twice() {
        let mut names: Vec<String> = all().into_iter().map(|known| known.name).collect();
        names.sort();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }
}
