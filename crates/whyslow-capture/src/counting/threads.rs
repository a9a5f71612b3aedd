//! The counts of each thread. A thread reports its counts when it exits, per event and CPU. Threads that
//! existed at the start get the remainder of their counters, which hold the sum.
//!
//! When one thread replaces another on a CPU and both inherited the same counters, the kernel swaps the
//! counters between them instead of reprogramming the hardware. It then swaps the counts back, event by
//! event, in the order in which each thread lists them. That order differs between a thread that the recorder
//! opened counters for and one that inherited them, so counts would end up under other events. A thread that
//! has its own counter, which no other thread inherits, never swaps with the threads that it started, and
//! those list theirs in the same order.
//!
//! A thread also reports for CPUs that it does not exit on, and a kernel ring supports one writer at a time.
//! If threads exit at the same time, records can be lost, or a ring can stop receiving any. A thread whose
//! report is incomplete gets no row. Its counts are then part of the remainder of the thread that started it,
//! and that row says so.

use std::collections::{BTreeMap, HashMap, HashSet};

use linux_perf_event_reader::{EventRecord, RecordType};
use whyslow_events::{Attr, Count, ThreadReading};

use super::counters::{CountTarget, Counters, sum, threads_of};
use super::usage::name_of;
use crate::perf::{Counter, CounterBound, CounterRings, LastCount};

/// The kernel's event that counts nothing.
const NOTHING: Attr = Attr {
    kind: 1,
    configs: [9, 0, 0],
    exclude_user: false,
    exclude_kernel: true,
    exclude_hypervisor: true,
    precise: 0,
};

/// Collects the reports of threads.
pub(super) struct Threads {
    rings: CounterRings,
    /// A dummy counter for each of the first threads, which counts nothing and is not inherited.
    _unshared: Vec<Counter>,
    /// The event and root of each counter.
    counters: HashMap<u64, (usize, usize)>,
    /// The first threads, by root.
    roots: Vec<(u32, u32)>,
    names: HashMap<u32, String>,
    processes: HashMap<u32, u32>,
    /// By thread number and how often that number was used before.
    reported: BTreeMap<(u32, u32), Reported>,
    uses: HashMap<u32, u32>,
    lost: bool,
}

#[derive(Default)]
struct Reported {
    pid: u32,
    name: String,
    /// Event, root, count.
    counts: Vec<(usize, usize, Count)>,
    counters: HashSet<u64>,
}

impl Threads {
    /// Returns `None` if the kernel provides no memory for the rings, or if nothing is counted.
    pub(super) fn new(counters: &Counters, count_target: &CountTarget) -> Option<Self> {
        let tids = match count_target {
            CountTarget::Child(child) => vec![*child],
            CountTarget::Processes(pids) => threads_of(pids),
            CountTarget::Machine => return None,
        };
        let roots: Vec<(u32, u32)> =
            tids.iter().map(|tid| (name_of(*tid).map_or(*tid, |(pid, _)| pid), *tid)).collect();
        let mut by_cpu: BTreeMap<Option<u32>, Vec<_>> = BTreeMap::new();
        let mut ids = HashMap::new();
        for (event, parts) in counters.parts.iter().enumerate() {
            for part in parts {
                by_cpu.entry(part.cpu).or_default().push(&part.counter);
                ids.insert(part.counter.id().ok()?, (event, part.root));
            }
        }
        if ids.is_empty() {
            return None;
        }
        let unshared = tids
            .iter()
            .filter_map(|tid| Counter::open(&NOTHING, CounterBound::Unshared { tid: *tid }, None).ok());
        let unshared: Vec<Counter> = unshared.collect();
        let rings = CounterRings::new(&by_cpu.into_values().collect::<Vec<_>>()).ok()?;
        let names = tids.iter().filter_map(|tid| Some((*tid, name_of(*tid)?.1))).collect();
        let processes = roots.iter().map(|(pid, tid)| (*tid, *pid)).collect();
        Some(Self {
            rings,
            _unshared: unshared,
            counters: ids,
            roots,
            names,
            processes,
            reported: BTreeMap::new(),
            uses: HashMap::new(),
            lost: false,
        })
    }

    /// Takes the reports so far.
    pub(super) fn drain(&mut self) {
        let Self { rings, counters, names, processes, reported, uses, lost, .. } = self;
        rings.drain(|record| {
            if record.record_type == RecordType::READ {
                let Some(last) = LastCount::parse(&record.data.as_slice()) else { return };
                let Some((event, root)) = counters.get(&last.counter) else { return };
                let number = uses.get(&last.tid).copied().unwrap_or(0);
                let row = reported.entry((last.tid, number)).or_default();
                row.pid = last.pid;
                if let Some(name) = names.get(&last.tid) {
                    row.name.clone_from(name);
                }
                row.counters.insert(last.counter);
                row.counts.push((*event, *root, last.count));
                return;
            }
            match record.parse() {
                Ok(EventRecord::Comm(comm)) => {
                    let name = String::from_utf8_lossy(&comm.name.as_slice()).into_owned();
                    names.insert(comm.tid.unsigned_abs(), name);
                }
                Ok(EventRecord::Fork(fork)) => {
                    let (tid, parent) = (fork.tid.unsigned_abs(), fork.ptid.unsigned_abs());
                    if let Some(name) = names.get(&parent).cloned() {
                        names.insert(tid, name);
                    }
                    // A reused number belongs to another thread now.
                    if processes.insert(tid, fork.pid.unsigned_abs()).is_some() {
                        *uses.entry(tid).or_default() += 1;
                    }
                }
                Ok(EventRecord::Lost(_)) => *lost = true,
                _ => {}
            }
        });
    }

    /// Returns all threads, the first ones first, and how many reports are incomplete.
    pub(super) fn finish(mut self, counters: &Counters) -> (Vec<ThreadReading>, u64) {
        self.drain();
        let events = counters.parts.len();
        let expected = self.counters.len() / self.roots.len().max(1);
        let mut rows = Vec::new();
        let mut incomplete = u64::from(self.lost);
        let mut left: Vec<Vec<(usize, Count)>> = counters
            .parts
            .iter()
            .map(|parts| {
                let roots: std::collections::BTreeSet<usize> = parts.iter().map(|part| part.root).collect();
                roots
                    .into_iter()
                    .map(|root| {
                        let own = parts.iter().filter(|part| part.root == root);
                        (root, sum(own.map(|part| (0, part.counter.read().unwrap_or_default()))))
                    })
                    .collect()
            })
            .collect();
        let mut others = Vec::new();
        for ((tid, _), reported) in self.reported {
            // Counts of only some CPUs are not the thread's counts.
            if reported.counters.len() < expected {
                incomplete += 1;
                continue;
            }
            let mut counts = vec![None; events];
            for (event, slot) in counts.iter_mut().enumerate() {
                let of_event = || reported.counts.iter().filter(|(at, ..)| *at == event);
                let Some((_, root, _)) = of_event().next() else { continue };
                let count = sum(of_event().map(|(_, _, count)| (0, *count)));
                *slot = Some(count);
                if let Some((_, whole)) = left[event].iter_mut().find(|(at, _)| at == root) {
                    *whole = whole.since(count);
                }
            }
            others.push(ThreadReading { pid: reported.pid, tid, name: reported.name, counts });
        }
        let all_reported = incomplete == 0;
        for (root, (pid, tid)) in self.roots.iter().enumerate() {
            let counts =
                left.iter().map(|roots| roots.iter().find(|(at, _)| *at == root).map(|(_, count)| *count));
            let name = self.names.get(tid).cloned().unwrap_or_default();
            // Unreported counts are part of the remainder of the thread that started the others.
            let name = if all_reported { name } else { format!("{name} and others") };
            rows.push(ThreadReading { pid: *pid, tid: *tid, name, counts: counts.collect() });
        }
        rows.extend(others);
        (rows, incomplete)
    }
}
