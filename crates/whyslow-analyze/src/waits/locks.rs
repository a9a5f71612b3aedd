//! Lock contention: which locks threads waited for, how long, and which threads held them.
//!
//! Only waits whose stack names a lock count. A thread that is parked, or waits for a condition, another
//! thread or work, does not wait for a lock, even though the kernel records the same call. A lock is
//! identified by the address of its futex if it has its own. Threads of parking_lot wait on a futex of the
//! thread; the recorder reads the lock's address next to it while the wait lasts. A lock without an address is
//! identified by the waiting line: it is the one that other waits at this line were for, if that is only one.
//!
//! A wait can outlast several holders. Whoever releases a contended lock wakes a waiter, so every woken waiter
//! shows a release, and the time since the release before it belongs to the thread that released the lock:
//! ```text
//! a wait from s to e, releases of its lock at s < t1 < t2 < e:   s..t1 by the releaser at t1, t1..t2 by that at t2, t2..e by its waker
//! ```

use std::cmp::Reverse;
use std::ops::Range;

use rustc_hash::FxHashMap;
use whyslow_profile::{
    ProcessId, Profile, RelativeAddress, Samples, StackId, StringId, ThreadId, WaitDetail,
};

use super::quantile;
use super::reason::Reason;
use super::single::{Single, singles};
use crate::labels::{self, Label};
use crate::own::{Charges, StackFrame, frames_of};
use crate::selection::Selection;

/// A line of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Site {
    /// The function.
    pub label: Label,
    /// The file of the line.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
}

impl Site {
    pub(super) fn of(frame: StackFrame) -> Self {
        Self { label: frame.label, file: frame.file, line: frame.line }
    }
}

/// The waits for a lock at one line, or the waits caused by a holder at one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSite {
    /// The line.
    pub site: Site,
    /// The thread, for holders.
    pub thread: Option<ThreadId>,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: u64,
}

/// The variable that contains a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LockName {
    /// Its name.
    pub name: StringId,
    /// The offset of the lock in it.
    pub offset: u64,
}

impl LockName {
    /// `app::LOCK`, or `app::STATE+0x10` if the lock is a part of it.
    pub fn words(self, profile: &Profile) -> String {
        let name = profile.text(self.name);
        if self.offset == 0 { name.to_owned() } else { format!("{name}+{:#x}", self.offset) }
    }
}

/// One lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockRow {
    /// Its type.
    pub kind: &'static str,
    /// Its address; `None` for locks whose threads wait elsewhere, which are identified by their line.
    pub address: Option<u64>,
    /// The variable that contains it, if that has a name.
    pub name: Option<LockName>,
    /// Whether it is in a static variable.
    pub in_module: bool,
    /// Its process.
    pub process: ProcessId,
    /// Where a thread first waited for it.
    pub site: Site,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: u64,
    /// The longest wait.
    pub max_ns: u64,
    /// The median wait.
    pub p50_ns: u64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// Where threads waited for it, longest first.
    pub waiters: Vec<LockSite>,
    /// Where it was released, most waiting time first: each holder has the part of the waits in which it held
    /// the lock, or was next to get it.
    pub holders: Vec<LockSite>,
}

impl LockRow {
    /// The mean wait.
    pub fn mean_ns(&self) -> u64 {
        self.total_ns / self.count.max(1)
    }
}

/// How long one thread waited for another: the part of its waits in which the other held the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitEdge {
    /// The waiting thread.
    pub waiter: ThreadId,
    /// The thread that held the lock.
    pub holder: ThreadId,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: u64,
}

/// All contended locks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockTable {
    /// The locks, most waiting time first.
    pub rows: Vec<LockRow>,
    /// Which thread waited for which, most time first.
    pub graph: Vec<WaitEdge>,
    /// How long in all.
    pub total_ns: u64,
    /// How often in all.
    pub count: u64,
}

/// What a function on a waiting stack says about the lock: a part of the function's name, the type of the
/// lock, its place.
type Word = (&'static str, &'static str, Place);

/// The place of a lock relative to the address that its threads wait on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// This many bytes before it.
    Before(u64),
    /// Eight bytes before the aligned pair of words that glibc's threads wait on.
    OfRwlock,
    /// Where the recorder found it: threads wait on a futex of their own.
    Parked,
    /// The same. The last bit tells the two queues of a lock apart.
    ParkedInTwo,
    /// Somewhere else.
    Elsewhere,
}

const LOCKS: &[Word] = &[
    ("rwlock::futex::RwLock::write_contended", "std RwLock", Place::Before(4)),
    ("rwlock::futex::RwLock::read_contended", "std RwLock", Place::Before(0)),
    ("once::futex", "std Once", Place::Before(0)),
    ("mutex::futex::Mutex::lock_contended", "std Mutex", Place::Before(0)),
    ("RawMutex::lock_slow", "parking_lot Mutex", Place::Parked),
    ("RawRwLock::lock_", "parking_lot RwLock", Place::ParkedInTwo),
    ("RawRwLock::wait_for_readers", "parking_lot RwLock", Place::ParkedInTwo),
    ("Once::call_once_slow", "parking_lot Once", Place::Parked),
    ("take_gil", "Python GIL", Place::Elsewhere),
    ("runtime.lock2", "Go runtime lock", Place::Elsewhere),
    ("flock_lock_inode", "flock", Place::Elsewhere),
    ("sys_flock", "flock", Place::Elsewhere),
    ("locks_lock_inode_wait", "flock", Place::Elsewhere),
    ("fcntl_setlk", "fcntl lock", Place::Elsewhere),
    ("posix_lock_inode", "fcntl lock", Place::Elsewhere),
    ("do_lock_file_wait", "fcntl lock", Place::Elsewhere),
    ("pthread_rwlock_", "pthread rwlock", Place::OfRwlock),
    ("pthread_mutex_", "pthread mutex", Place::Before(0)),
    ("lll_lock_wait", "pthread mutex", Place::Before(0)),
];

impl Place {
    fn address(self, waited_on: u64, parked_on: u64) -> Option<u64> {
        let address = match self {
            Self::Before(bytes) => waited_on.checked_sub(bytes),
            Self::OfRwlock => (waited_on & !7).checked_sub(8),
            Self::Parked => Some(parked_on),
            Self::ParkedInTwo => Some(parked_on & !1),
            Self::Elsewhere => None,
        };
        address.filter(|address| *address != 0)
    }
}

/// The identity of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    At(ProcessId, &'static str, u64),
    Waited(ProcessId, Site),
}

/// A release of a contended lock: it woke a waiter.
#[derive(Debug, Clone, Copy)]
struct Release {
    time_ns: u64,
    holder: ThreadId,
    stack: Option<StackId>,
}

/// The releases of each lock, in order of time.
#[derive(Debug, Default)]
struct Releases(FxHashMap<Key, Vec<Release>>);

impl Releases {
    /// From all waits of a profile, because a wait that is left out shows a hand-over to others that are not.
    fn of(profile: &Profile, waits: &[Single], charges: &Charges, kinds: &mut Kinds) -> Self {
        let mut releases: FxHashMap<Key, Vec<Release>> = FxHashMap::default();
        for wait in waits.iter().filter(|wait| wait.reason == Reason::Lock) {
            let Some(detail) = wait.detail else { continue };
            let Some(holder) = detail.waker.filter(|holder| *holder != wait.thread) else { continue };
            let site = Site::of(charges.of(wait.stack).frame);
            let (_, key) = kinds.key(profile, wait, site);
            let release = Release { time_ns: wait.end_ns, holder, stack: detail.waker_stack };
            releases.entry(key).or_default().push(release);
        }
        releases.values_mut().for_each(|list| list.sort_by_key(|release| release.time_ns));
        Self(releases)
    }

    /// The parts of a wait, each with the release that ended it.
    fn parts(&self, key: Key, waiter: ThreadId, time_ns: Range<u64>) -> Vec<(Release, u64)> {
        let Some(releases) = self.0.get(&key) else { return Vec::new() };
        let from = releases.partition_point(|release| release.time_ns <= time_ns.start);
        let mut parts = Vec::new();
        let mut since = time_ns.start;
        for release in releases[from..].iter().filter(|release| release.holder != waiter) {
            let until = release.time_ns.min(time_ns.end);
            if until > since {
                parts.push((*release, until - since));
            }
            since = until;
            if release.time_ns >= time_ns.end {
                break;
            }
        }
        parts
    }
}

/// Tells which lock a wait is for.
#[derive(Debug, Default)]
struct Kinds {
    /// The type and place of the lock of each stack.
    of_stack: FxHashMap<StackId, (&'static str, Place)>,
    /// The only lock of each line with a wait whose address is known; `None` for several.
    only: FxHashMap<(ProcessId, &'static str, Site), Option<u64>>,
}

impl Kinds {
    fn new(profile: &Profile, waits: &[Single], charges: &Charges) -> Self {
        let mut kinds = Self::default();
        for wait in waits.iter().filter(|wait| wait.reason == Reason::Lock) {
            let site = Site::of(charges.of(wait.stack).frame);
            if let (_, Key::At(process, kind, address)) = kinds.key(profile, wait, site) {
                let only = kinds.only.entry((process, kind, site)).or_insert(Some(address));
                *only = only.filter(|known| *known == address);
            }
        }
        kinds
    }

    /// The lock of a wait at a line, and its type.
    fn key(&mut self, profile: &Profile, wait: &Single, site: Site) -> (&'static str, Key) {
        let (kind, place) = *self.of_stack.entry(wait.stack).or_insert_with(|| lock_of(profile, wait.stack));
        let process = profile.threads[wait.thread.index()].process;
        let address = wait.detail.and_then(|detail| place.address(detail.argument, detail.parked_on));
        let address = address.or_else(|| self.only.get(&(process, kind, site)).copied().flatten());
        (kind, address.map_or(Key::Waited(process, site), |address| Key::At(process, kind, address)))
    }
}

/// The sums of one lock.
#[derive(Default)]
struct Sum {
    kind: &'static str,
    name: Option<LockName>,
    in_module: bool,
    first: Option<(u64, Site)>,
    lengths: Vec<u64>,
    waiters: FxHashMap<Site, (u64, u64)>,
    holders: FxHashMap<(ThreadId, Site), (u64, u64)>,
}

impl LockTable {
    /// The locks of the selected waits, without waits shorter than `min_ns`.
    pub fn build(profile: &Profile, selection: &Selection, charges: &Charges, min_ns: u64) -> Self {
        let waits = singles(profile, &selection.samples(profile));
        let waits = waits.iter().filter(|wait| wait.reason == Reason::Lock);
        let all =
            profile.samples.get(selection.metric.index()).map_or(Vec::new(), |all| singles(profile, all));
        let mut kinds = Kinds::new(profile, &all, charges);
        let releases = Releases::of(profile, &all, charges, &mut kinds);
        let mut sums: FxHashMap<Key, Sum> = FxHashMap::default();
        let mut graph: FxHashMap<(ThreadId, ThreadId), (u64, u64)> = FxHashMap::default();
        for wait in waits.filter(|wait| wait.length_ns >= min_ns) {
            let Single { thread, start_ns, end_ns, length_ns: length, stack, detail, .. } = *wait;
            let site = Site::of(charges.of(stack).frame);
            let (kind, key) = kinds.key(profile, wait, site);
            let sum = sums.entry(key).or_default();
            if sum.first.is_none_or(|(first, _)| start_ns < first) {
                (sum.first, sum.kind) = (Some((start_ns, site)), kind);
            }
            if sum.name.is_none()
                && let Key::At(.., address) = key
            {
                sum.name = detail.and_then(|detail| name_of(profile, detail, address));
            }
            sum.in_module |= detail.is_some_and(|detail| detail.data.is_some());
            sum.lengths.push(length);
            add(sum.waiters.entry(site).or_default(), length);
            // Of a wait that outlasts the selected time, the length is the part inside.
            let until = selection.time_ns.as_ref().map_or(end_ns, |range| end_ns.min(range.end));
            let parts = releases.parts(key, thread, until.saturating_sub(length)..until);
            let mut holders: FxHashMap<ThreadId, u64> = FxHashMap::default();
            let mut sites: FxHashMap<(ThreadId, Site), u64> = FxHashMap::default();
            for (Release { holder, stack, .. }, part) in parts {
                *holders.entry(holder).or_default() += part;
                if let Some(stack) = stack {
                    *sites.entry((holder, Site::of(charges.of(stack).frame))).or_default() += part;
                }
            }
            holders.iter().for_each(|(holder, part)| add(graph.entry((thread, *holder)).or_default(), *part));
            sites.iter().for_each(|(site, part)| add(sum.holders.entry(*site).or_default(), *part));
        }
        let mut rows: Vec<LockRow> = sums.into_iter().filter_map(|(key, sum)| sum.row(key)).collect();
        rows.sort_by_key(|row| (Reverse(row.total_ns), row.address, row.site.line));
        let mut graph: Vec<WaitEdge> = graph
            .into_iter()
            .map(|((waiter, holder), (count, total_ns))| WaitEdge { waiter, holder, count, total_ns })
            .collect();
        graph.sort_by_key(|edge| (Reverse(edge.total_ns), edge.waiter, edge.holder));
        let total_ns = rows.iter().map(|row| row.total_ns).sum();
        let count = rows.iter().map(|row| row.count).sum();
        Self { rows, graph, total_ns, count }
    }

    /// The row of the lock of each wait, if it is one of these.
    pub fn of_waits(&self, profile: &Profile, charges: &Charges, waits: &Samples) -> Vec<Option<u32>> {
        let key = |row: &LockRow| match row.address {
            Some(address) => Key::At(row.process, row.kind, address),
            None => Key::Waited(row.process, row.site),
        };
        let row_of: FxHashMap<Key, u32> = self.rows.iter().map(key).zip(0..).collect();
        let waits = singles(profile, waits);
        let mut kinds = Kinds::new(profile, &waits, charges);
        let lock = |wait: &Single| {
            let site = Site::of(charges.of(wait.stack).frame);
            let is_lock = wait.reason == Reason::Lock;
            is_lock.then(|| row_of.get(&kinds.key(profile, wait, site).1).copied()).flatten()
        };
        waits.iter().map(lock).collect()
    }
}

impl Sum {
    fn row(mut self, key: Key) -> Option<LockRow> {
        let (_, site) = self.first?;
        self.lengths.sort_unstable();
        let (process, address) = match key {
            Key::At(process, _, address) => (process, Some(address)),
            Key::Waited(process, _) => (process, None),
        };
        let waiters = self.waiters.into_iter().map(|(site, (count, total_ns))| LockSite {
            site,
            thread: None,
            count,
            total_ns,
        });
        let holders = self.holders.into_iter().map(|((thread, site), (count, total_ns))| LockSite {
            site,
            thread: Some(thread),
            count,
            total_ns,
        });
        Some(LockRow {
            kind: self.kind,
            address,
            name: self.name,
            in_module: self.in_module,
            process,
            site,
            count: self.lengths.len() as u64,
            total_ns: self.lengths.iter().sum(),
            max_ns: self.lengths.last().copied().unwrap_or(0),
            p50_ns: quantile(&self.lengths, 50),
            p99_ns: quantile(&self.lengths, 99),
            waiters: most_first(waiters),
            holders: most_first(holders),
        })
    }
}

/// The name of the lock at an address, from a wait on it.
fn name_of(profile: &Profile, wait: WaitDetail, address: u64) -> Option<LockName> {
    let (module, waited_on) = wait.data?;
    let known = if wait.parked_on > 0 { wait.parked_on } else { wait.argument };
    let lock = waited_on.0.checked_sub(known.checked_sub(address)?)?;
    let found = profile.static_at(module, RelativeAddress(lock))?;
    Some(LockName { name: found.name, offset: lock - found.start.0 })
}

fn add((count, total): &mut (u64, u64), length: u64) {
    *count += 1;
    *total += length;
}

fn most_first(sites: impl Iterator<Item = LockSite>) -> Vec<LockSite> {
    let mut sites: Vec<LockSite> = sites.collect();
    sites.sort_by_key(|row| (Reverse(row.total_ns), row.thread, row.site.line));
    sites
}

/// The type and place of the lock that a thread with this stack waits for.
fn lock_of(profile: &Profile, stack: StackId) -> (&'static str, Place) {
    let word = frames_of(profile, stack).find_map(|frame| {
        let name = labels::name(profile, frame.label).replace(['<', '>'], "");
        LOCKS.iter().find(|(word, ..)| name.contains(word))
    });
    word.map_or(("lock", Place::Elsewhere), |(_, kind, place)| (kind, *place))
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{ModuleId, Static, WokenBy};

    use super::*;
    use crate::testing::{SAMPLE_NS, profile};

    fn detail(
        profile: &Profile,
        row: usize,
        argument: u64,
        waker: Option<(u32, usize)>,
    ) -> whyslow_profile::WaitDetail {
        let samples = &profile.samples[0];
        whyslow_profile::WaitDetail {
            thread: samples.thread[row],
            end_ns: samples.time_ns[row],
            cpu: None,
            argument,
            parked_on: 0,
            data: None,
            woken_by: if waker.is_some() { WokenBy::Thread } else { WokenBy::Unknown },
            waker: waker.map(|(thread, _)| ThreadId(thread)),
            waker_stack: waker.map(|(_, row)| samples.stack[row]),
        }
    }

    /// Each sample is a wait; they follow one another in time.
    #[test]
    fn waits_on_one_address_are_one_lock_and_parked_threads_have_none() {
        let mutex = "sys::sync::mutex::futex::Mutex::lock_contended;sys_futex_wait";
        let rwlock = "sys::sync::rwlock::futex::RwLock";
        let mut profile = profile(&format!(
            "main@app.rs:3;std::{mutex} 1
             main@app.rs:9;std::{mutex} 1
             worker: main@app.rs:20;std::{rwlock}::write_contended;sys_futex_wait 1
             worker: main@app.rs:21;std::{rwlock}::read_contended;sys_futex_wait 1
             worker: main@app.rs:30;dep::parking_lot::raw_mutex::RawMutex::lock_slow;sys_futex_wait 1
             worker: main@app.rs:40;std::thread::park;sys_futex_wait 1
             main@app.rs:50;std::compute 1"
        ));
        profile.samples[0].time_ns.iter_mut().for_each(|time| *time += SAMPLE_NS);
        for (row, argument, waker) in [
            (0, 0x1000, Some((1, 6))),
            (1, 0x1000, None),
            (2, 0x2004, None),
            (3, 0x2000, None),
            (4, 0x77, None),
        ] {
            let detail = detail(&profile, row, argument, waker);
            profile.wait_details.push(detail);
        }
        let charges = Charges::new(&profile, true);
        let build = |min| LockTable::build(&profile, &Selection::default(), &charges, min);
        let table = build(0);
        let mut rows: Vec<_> =
            table.rows.iter().map(|row| (row.kind, row.address, row.count, row.site.line)).collect();
        rows.sort_unstable();
        assert_eq!(
            rows,
            [
                ("parking_lot Mutex", None, 1, 30),
                ("std Mutex", Some(0x1000), 2, 3),
                ("std RwLock", Some(0x2000), 2, 20),
            ]
        );
        assert_eq!((table.count, table.total_ns), (5, 5 * SAMPLE_NS));
        let mutex = table.rows.iter().find(|row| row.kind == "std Mutex").unwrap();
        assert_eq!(mutex.waiters.iter().map(|site| site.site.line).collect::<Vec<_>>(), [3, 9]);
        assert_eq!((mutex.mean_ns(), mutex.max_ns, mutex.p99_ns), (SAMPLE_NS, SAMPLE_NS, SAMPLE_NS));
        let [holder] = &mutex.holders[..] else { panic!("{:?}", mutex.holders) };
        assert_eq!((holder.thread, holder.site.line, holder.total_ns), (Some(ThreadId(1)), 50, SAMPLE_NS));
        assert_eq!(
            table.graph,
            [WaitEdge { waiter: ThreadId(0), holder: ThreadId(1), count: 1, total_ns: SAMPLE_NS }]
        );
        assert!(build(SAMPLE_NS + 1).rows.is_empty());
        let of_waits = table.of_waits(&profile, &charges, &profile.samples[0]);
        let kinds: Vec<_> = of_waits.iter().map(|row| row.map(|row| table.rows[row as usize].kind)).collect();
        let (mutex, rwlock) = (Some("std Mutex"), Some("std RwLock"));
        assert_eq!(kinds, [mutex, mutex, rwlock, rwlock, Some("parking_lot Mutex"), None, None]);
    }

    /// The writers of a lock in the variable `STATE` wait four bytes after the start of the lock.
    #[test]
    fn lock_is_named_after_its_variable() {
        let rwlock = "std::sys::sync::rwlock::futex::RwLock";
        let mut profile = profile(&format!(
            "main@app.rs:3;{rwlock}::write_contended;sys_futex_wait 1
             main@app.rs:4;{rwlock}::read_contended;sys_futex_wait 1
             main@app.rs:5;{rwlock}::read_contended;sys_futex_wait 1"
        ));
        let name = profile.strings.push("app::STATE");
        let module = ModuleId(0);
        profile.statics.push(Static { module, start: RelativeAddress(0x4000), len: 0x20, name });
        let waits = [
            (0, 0x7f00_4014, Some((module, RelativeAddress(0x4014)))),
            (1, 0x7f00_4000, Some((module, RelativeAddress(0x4000)))),
            (2, 0x7f00_4020, Some((module, RelativeAddress(0x4020)))),
        ];
        for (row, argument, data) in waits {
            let detail = WaitDetail { data, ..detail(&profile, row, argument, None) };
            profile.wait_details.push(detail);
        }
        let charges = Charges::new(&profile, true);
        let table = LockTable::build(&profile, &Selection::default(), &charges, 0);
        let names: Vec<_> = table.rows.iter().map(|row| row.name.map(|name| name.words(&profile))).collect();
        let named = |name: &str| Some(name.to_owned());
        assert_eq!(names, [named("app::STATE"), named("app::STATE+0x10"), None], "sorted by address");
    }

    /// `big` holds the lock until 80 ms and hands it to `small`, which holds it until 85 ms: `main` has waited for both.
    #[test]
    fn each_holder_is_charged_with_its_part_of_a_wait() {
        const MS: u64 = 1_000_000;
        let lock = "std::sys::sync::mutex::futex::Mutex::lock_contended;sys_futex_wait";
        let mut profile = profile(&format!(
            "main: main@app.rs:3;{lock} 1
             small: main@app.rs:4;{lock} 1
             big: big@app.rs:50;std::drop 1
             small: small@app.rs:60;std::drop 1"
        ));
        for (row, (end, length)) in [(85, 84), (80, 75), (0, 0), (0, 0)].into_iter().enumerate() {
            (profile.samples[0].time_ns[row], profile.samples[0].value[row]) = (end * MS, length * MS);
        }
        for (row, waker) in [(0, (1, 3)), (1, (2, 2))] {
            let detail = detail(&profile, row, 0x1000, Some(waker));
            profile.wait_details.push(detail);
        }
        profile.metrics[0].of = whyslow_profile::Subject::Wait;
        let charges = Charges::new(&profile, true);
        let holders = |selection: &Selection, min_ns| {
            let table = LockTable::build(&profile, selection, &charges, min_ns);
            let [row] = &table.rows[..] else { panic!("{:?}", table.rows) };
            let sites = row.holders.iter().map(|site| (site.site.line, site.total_ns / MS));
            let edges = table.graph.iter().map(|edge| (edge.waiter.0, edge.holder.0, edge.total_ns / MS));
            (sites.collect::<Vec<_>>(), edges.collect::<Vec<_>>())
        };
        let (sites, edges) = holders(&Selection::default(), 0);
        assert_eq!(sites, [(50, 79 + 75), (60, 5)]);
        assert_eq!(edges, [(0, 2, 79), (1, 2, 75), (0, 1, 5)]);
        let main = Selection { threads: vec!["main".parse().unwrap()], ..Selection::default() };
        assert_eq!(
            holders(&main, 80 * MS).0,
            [(50, 79), (60, 5)],
            "the hand-over counts although it is left out"
        );
        let early = Selection { time_ns: Some(0..70 * MS), ..main };
        assert_eq!(holders(&early, 0).0, [(50, 69)]);
    }

    /// Two locks of parking_lot at three lines; the recorder missed the address of one wait.
    #[test]
    fn locks_of_parking_lot_are_told_apart_by_what_threads_are_parked_on() {
        let lock = "dep::parking_lot::raw_mutex::RawMutex::lock_slow;sys_futex_wait";
        let mut profile = profile(&format!(
            "main@app.rs:3;{lock} 1
             worker: main@app.rs:3;{lock} 1
             main@app.rs:9;{lock} 1
             worker: main@app.rs:9;{lock} 1"
        ));
        let name = profile.strings.push("app::A");
        let module = ModuleId(0);
        profile.statics.push(Static { module, start: RelativeAddress(0x4000), len: 1, name });
        for (row, parked_on) in [(0, 0x7f00_4000), (1, 0), (2, 0x7f00_5000), (3, 0x7f00_5000)] {
            let data = (parked_on == 0x7f00_4000).then_some((module, RelativeAddress(0x4000)));
            let detail = WaitDetail { parked_on, data, ..detail(&profile, row, 0x77, None) };
            profile.wait_details.push(detail);
        }
        let charges = Charges::new(&profile, true);
        let table = LockTable::build(&profile, &Selection::default(), &charges, 0);
        let rows: Vec<_> = table
            .rows
            .iter()
            .map(|row| (row.address, row.count, row.name.map(|name| name.words(&profile)), row.in_module))
            .collect();
        assert_eq!(
            rows,
            [(Some(0x7f00_4000), 2, Some("app::A".to_owned()), true), (Some(0x7f00_5000), 2, None, false)]
        );
    }

    #[test]
    fn glibc_rwlock_has_two_words_to_wait_on() {
        let base = 0x7f00_1238;
        for word in [8, 12] {
            assert_eq!(Place::OfRwlock.address(base + word, 0), Some(base));
        }
        assert_eq!(Place::Before(0).address(0, 0), None, "unknown address");
        assert_eq!(Place::ParkedInTwo.address(0x77, 0x1001), Some(0x1000));
    }
}
