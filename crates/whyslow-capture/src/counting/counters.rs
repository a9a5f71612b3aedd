//! The counters of all events of a target.
//!
//! ```text
//! part    one per kind of CPU, or per CPU if threads are counted separately. A thread is on one at a time: parts run in parallel.
//! root    one per thread that existed at the start, or per CPU of the machine. Roots add up.
//! ```

use std::io;

use whyslow_events::{Attr, Count, CountedEvent, Event, Kind, NotCounted, Reach, WhyNot};
use whyslow_proc::{machine, process};

use super::WantedEvent;
use crate::perf::{Counter, CounterBound};

/// What to count.
#[derive(Debug, Clone)]
pub(crate) enum CountTarget {
    /// A child that waits to execute its program.
    Child(u32),
    /// Running processes.
    Processes(Vec<u32>),
    /// Everything on the machine.
    Machine,
}

/// One counter of an event.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) counter: Counter,
    /// Its root: counters of different roots count different things.
    pub(super) root: usize,
    pub(super) cpu: Option<u32>,
}

/// The counters of all events.
#[derive(Debug)]
pub(crate) struct Counters {
    /// The events, and whether each is counted.
    pub(crate) states: Vec<CountedEvent>,
    /// The counters of each event; empty if it is not counted.
    pub(super) parts: Vec<Vec<Part>>,
    on_exec: bool,
}

impl Counters {
    /// Opens all events that can be opened.
    pub(crate) fn open(wanted: &[WantedEvent], count_target: &CountTarget, per_thread: bool) -> Self {
        let places = places(count_target, per_thread);
        let mut counters = Self {
            states: Vec::new(),
            parts: Vec::new(),
            on_exec: matches!(count_target, CountTarget::Child(_)),
        };
        for WantedEvent { event, leader, refused } in wanted {
            let leaders = leader.map(|leader| counters.parts.get(leader).map_or(&[][..], Vec::as_slice));
            let opened = match *refused {
                Some(why) => Err(NotCounted { why, error: 0 }),
                None => open(event, count_target, &places, leaders),
            };
            let (state, parts) = match opened {
                Ok((user_only, parts)) => (Ok(user_only), parts),
                Err(why) => (Err(why), Vec::new()),
            };
            counters.states.push(CountedEvent { event: event.clone(), state });
            counters.parts.push(parts);
        }
        counters
    }

    /// Starts counting, unless the program's exec does.
    pub(super) fn enable_unless_on_exec(&self) -> io::Result<()> {
        if self.on_exec {
            return Ok(());
        }
        self.parts.iter().flatten().try_for_each(|part| part.counter.enable())
    }

    /// The count of each event so far.
    pub(crate) fn read(&self) -> Vec<Option<Count>> {
        self.parts
            .iter()
            .map(|parts| {
                if parts.is_empty() {
                    return None;
                }
                Some(sum(parts.iter().map(|part| (part.root, part.counter.read().unwrap_or_default()))))
            })
            .collect()
    }
}

/// Merges the parallel parts of each root, and adds up the roots.
pub(super) fn sum(parts: impl Iterator<Item = (usize, Count)>) -> Count {
    let mut roots: Vec<(usize, Count)> = Vec::new();
    for (root, count) in parts {
        match roots.iter_mut().find(|(known, _)| *known == root) {
            Some((_, sum)) => *sum = sum.plus_other_cpu_kind(count),
            None => roots.push((root, count)),
        }
    }
    roots.into_iter().fold(Count::default(), |sum, (_, count)| sum.plus(count))
}

/// Where to open counters: the root, and what to bind to.
fn places(count_target: &CountTarget, per_thread: bool) -> Vec<(usize, CounterBound)> {
    let bound = |tid, cpu, on_exec| CounterBound::Thread { tid, cpu, on_exec, reports_threads: per_thread };
    let of_threads = |threads: Vec<u32>, on_exec| {
        let threads = threads.into_iter().enumerate();
        if per_thread {
            let cpus = machine::online_cpus();
            threads
                .flat_map(|(root, tid)| {
                    cpus.iter().map(move |cpu| (root, bound(tid, Some(*cpu), on_exec))).collect::<Vec<_>>()
                })
                .collect()
        } else {
            threads.map(|(root, tid)| (root, bound(tid, None, on_exec))).collect()
        }
    };
    match count_target {
        CountTarget::Child(child) => of_threads(vec![*child], true),
        CountTarget::Processes(pids) => of_threads(threads_of(pids), false),
        CountTarget::Machine => machine::online_cpus()
            .into_iter()
            .enumerate()
            .map(|(root, cpu)| (root, CounterBound::Cpu(cpu)))
            .collect(),
    }
}

/// The threads of some processes.
pub(super) fn threads_of(pids: &[u32]) -> Vec<u32> {
    pids.iter().flat_map(|pid| process::threads(*pid).unwrap_or_default()).collect()
}

/// Whether an event could be opened as [`Counters::open`] would.
pub(super) fn try_one(event: &Event, count_target: &CountTarget) -> Result<bool, NotCounted> {
    let places = match (&event.reach, count_target) {
        (Reach::SharedBy(cpus), _) => {
            cpus.first().map(|cpu| (0, CounterBound::Cpu(*cpu))).into_iter().collect()
        }
        _ => places(count_target, false).into_iter().take(1).collect::<Vec<_>>(),
    };
    let count_target =
        if matches!(event.reach, Reach::SharedBy(_)) { &CountTarget::Machine } else { count_target };
    open(event, count_target, &places, None).map(|(user_only, _)| user_only)
}

/// Opens an event everywhere. Returns whether kernel mode had to be excluded.
fn open(
    event: &Event,
    count_target: &CountTarget,
    places: &[(usize, CounterBound)],
    leaders: Option<&[Part]>,
) -> Result<(bool, Vec<Part>), NotCounted> {
    let not = |why| NotCounted { why, error: 0 };
    if event.kind == Kind::Uprobe {
        return Err(not(WhyNot::Function));
    }
    let shared: Vec<(usize, CounterBound)>;
    let places = match (&event.reach, count_target) {
        (Reach::SharedBy(cpus), CountTarget::Machine) => {
            shared = cpus.iter().enumerate().map(|(root, cpu)| (root, CounterBound::Cpu(*cpu))).collect();
            &shared[..]
        }
        (Reach::SharedBy(_), _) => return Err(not(WhyNot::WholeMachine)),
        (Reach::Tasks, _) => places,
    };
    match open_parts(&event.attrs, places, leaders) {
        Ok(parts) => Ok((false, parts)),
        Err(error) if is_refusal(error) && !event.sets_modes => {
            if happens_in_kernel(event) {
                // Distinguishes a refusal of kernel mode from a refusal of all events.
                let own = user_only(&CLOCK);
                let why = match open_parts(&own, &places[..places.len().min(1)], None) {
                    Ok(_) => WhyNot::NeedsKernel,
                    Err(_) => WhyNot::Refused,
                };
                return Err(NotCounted { why, error });
            }
            match open_parts(&user_only(&event.attrs), places, leaders) {
                Ok(parts) => Ok((!is_clock(event), parts)),
                // Some PMUs cannot count user and kernel mode separately.
                Err(libc::EINVAL | libc::EOPNOTSUPP) => Err(NotCounted { why: WhyNot::NeedsKernel, error }),
                Err(error) => Err(NotCounted { why: WhyNot::of_error(error), error }),
            }
        }
        Err(error) => Err(NotCounted { why: WhyNot::of_error(error), error }),
    }
}

fn is_refusal(error: i32) -> bool {
    matches!(error, libc::EACCES | libc::EPERM)
}

/// The CPU clock, which every kernel with perf events has.
pub(crate) const CLOCK: [Attr; 1] = [Attr {
    kind: 1,
    configs: [1, 0, 0],
    exclude_user: false,
    exclude_kernel: false,
    exclude_hypervisor: false,
    precise: 0,
}];

/// Events that the kernel raises in kernel mode: with kernel mode excluded they would count 0, which is
/// wrong.
pub(crate) fn happens_in_kernel(event: &Event) -> bool {
    const SWITCHES: u64 = 3;
    const MIGRATIONS: u64 = 4;
    const CGROUP_SWITCHES: u64 = 11;
    event.kind == Kind::Tracepoint
        || event.kind == Kind::Software
            && event
                .attrs
                .iter()
                .any(|attr| matches!(attr.configs[0], SWITCHES | MIGRATIONS | CGROUP_SWITCHES))
}

/// Clocks run in kernel mode too, even if only user mode may be observed.
fn is_clock(event: &Event) -> bool {
    event.unit == whyslow_events::Unit::Nanoseconds
}

fn user_only(attrs: &[Attr]) -> Vec<Attr> {
    attrs.iter().map(|attr| Attr { exclude_kernel: true, exclude_hypervisor: true, ..*attr }).collect()
}

fn open_parts(
    attrs: &[Attr],
    places: &[(usize, CounterBound)],
    leaders: Option<&[Part]>,
) -> Result<Vec<Part>, i32> {
    if leaders.is_some_and(<[Part]>::is_empty) {
        return Err(libc::ENOENT);
    }
    let mut parts = Vec::with_capacity(attrs.len() * places.len());
    let mut exited = None;
    for attr in attrs {
        for (root, bound) in places {
            let cpu = match bound {
                CounterBound::Thread { cpu, .. } => *cpu,
                CounterBound::Unshared { .. } => None,
                CounterBound::Cpu(cpu) => Some(*cpu),
            };
            let leads = |part: &&Part| part.root == *root && part.cpu == cpu;
            let leader = leaders.and_then(|leaders| leaders.iter().find(leads)).map(|part| &part.counter);
            match Counter::open(attr, *bound, leader) {
                Ok(counter) => parts.push(Part { counter, root: *root, cpu }),
                // A thread that has exited, or a CPU that is off-line, has nothing to count.
                Err(error @ (libc::ESRCH | libc::ENODEV)) if places.len() > 1 => exited = Some(error),
                Err(error) => return Err(error),
            }
        }
    }
    match (parts.is_empty(), exited) {
        (true, exited) => Err(exited.unwrap_or(libc::ESRCH)),
        (false, _) => Ok(parts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_the_cpus_of_a_thread_and_adds_up_threads() {
        let count = |value, running_ns| Count { value, enabled_ns: 100, running_ns };
        let parts = [(0, count(7, 30)), (0, count(5, 70)), (1, count(1, 50)), (1, count(0, 0))];
        assert_eq!(sum(parts.into_iter()), Count { value: 13, enabled_ns: 200, running_ns: 150 });
    }

    #[test]
    fn kernel_raised_events_are_not_counted_without_kernel_mode() {
        let machine = whyslow_events::Machine::this();
        let is = |name: &str| happens_in_kernel(&machine.event(name).unwrap());
        assert!(is("context-switches") && is("cpu-migrations") && is("cgroup-switches"));
        assert!(!is("page-faults") && !is("task-clock") && !is("cycles") && !is("branch-misses"));
    }
}
