//! Counters: events that are counted and not sampled.
//!
//! The kernel does not sum up a group that threads inherit, so each counter is read separately. If rows per
//! thread are requested, the kernel writes each thread's counts in a record when the thread exits
//! ([`CounterRings`]).

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use perf_event_open_sys::{self as perf, bindings as sys};
use whyslow_events::{Attr, Count};
use whyslow_numbers::ClockNs;

use super::Record;
use super::events::{enable, id_of, parse_info, redirect};
use super::layouts::Layouts;
use super::ring::{Merge, Ring};

/// What a counter is bound to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// A thread and everything that it starts, on all CPUs or only on one.
    Thread {
        tid: u32,
        cpu: Option<u32>,
        /// Start when it executes a program.
        on_exec: bool,
        /// Report the counts of each thread when it exits.
        reports_threads: bool,
    },
    /// A single thread: threads that it starts do not inherit the counter.
    Unshared { tid: u32 },
    /// A CPU, whatever runs on it.
    Cpu(u32),
}

/// A counter.
#[derive(Debug)]
pub(crate) struct Counter {
    fd: OwnedFd,
}

impl Counter {
    /// Opens it, or returns the errno. A counter with a leader is counted whenever its leader is.
    pub(crate) fn open(attr: &Attr, bound: Bound, leader: Option<&Self>) -> Result<Self, i32> {
        let mut attr = kernel_attr(attr, bound);
        let (thread, cpu) = match bound {
            Bound::Thread { tid, cpu, .. } => (tid.cast_signed(), cpu.map_or(-1, u32::cast_signed)),
            Bound::Unshared { tid } => (tid.cast_signed(), -1),
            Bound::Cpu(cpu) => (-1, cpu.cast_signed()),
        };
        let leader = leader.map_or(-1, |leader| leader.fd.as_raw_fd());
        let fd = open(&mut attr, thread, cpu, leader)
            .map_err(|error| error.raw_os_error().unwrap_or(libc::EINVAL))?;
        Ok(Self { fd })
    }

    /// Starts counting.
    pub(crate) fn enable(&self) -> io::Result<()> {
        enable(self.fd.as_fd())
    }

    /// The count so far, including threads that have exited.
    pub(crate) fn read(&self) -> io::Result<Count> {
        let mut bytes = [0; 8 * FORMAT_WORDS];
        let read = rustix::io::read(&self.fd, &mut bytes)?;
        if read != bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count_in(&bytes).unwrap_or_default())
    }

    /// The kernel's id of the counter, which its records contain.
    pub(crate) fn id(&self) -> io::Result<u64> {
        id_of(self.fd.as_fd())
    }
}

/// Value, time enabled, time running, id.
const FORMAT_WORDS: usize = 4;

/// The first three words of a reading.
fn count_in(bytes: &[u8]) -> Option<Count> {
    let (words, _) = bytes.as_chunks::<8>();
    let [value, enabled_ns, running_ns, ..] = words else { return None };
    let number = |word: &[u8; 8]| u64::from_ne_bytes(*word);
    Some(Count { value: number(value), enabled_ns: number(enabled_ns), running_ns: number(running_ns) })
}

/// The kernel's attributes. Leaves out the sampling precision, which the kernel refuses for counters.
fn kernel_attr(event: &Attr, bound: Bound) -> sys::perf_event_attr {
    let mut attr = sys::perf_event_attr {
        size: size_of::<sys::perf_event_attr>() as u32,
        type_: event.kind,
        config: event.configs[0],
        read_format: u64::from(
            sys::PERF_FORMAT_TOTAL_TIME_ENABLED | sys::PERF_FORMAT_TOTAL_TIME_RUNNING | sys::PERF_FORMAT_ID,
        ),
        ..Default::default()
    };
    attr.__bindgen_anon_3.config1 = event.configs[1];
    attr.__bindgen_anon_4.config2 = event.configs[2];
    attr.set_exclude_user(u64::from(event.exclude_user));
    attr.set_exclude_kernel(u64::from(event.exclude_kernel));
    attr.set_exclude_hv(u64::from(event.exclude_hypervisor));
    attr.set_disabled(1);
    if let Bound::Thread { on_exec, reports_threads, .. } = bound {
        attr.set_inherit(1);
        attr.set_enable_on_exec(u64::from(on_exec));
        if reports_threads {
            attr.set_inherit_stat(1);
            attr.set_comm(1);
            attr.set_task(1);
            attr.set_sample_id_all(1);
            attr.sample_type = u64::from(sys::PERF_SAMPLE_TID | sys::PERF_SAMPLE_TIME);
        }
    }
    attr
}

#[expect(unsafe_code, reason = "a system call without a safe wrapper")]
fn open(attr: &mut sys::perf_event_attr, thread: i32, cpu: i32, leader: RawFd) -> io::Result<OwnedFd> {
    let flags = u64::from(sys::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a whole, initialised structure that says its own size.
    let event = unsafe { perf::perf_event_open(attr, thread, cpu, leader, flags as _) };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(event) })
}

/// The rings in which threads report their counts: one per CPU, shared by all its counters.
#[derive(Debug)]
pub(crate) struct CounterRings {
    merge: Merge,
    layouts: Layouts,
}

/// The count of one event on one CPU by an exited thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastCount {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// The counter that the thread's own was inherited from.
    pub(crate) counter: u64,
    pub(crate) count: Count,
}

impl LastCount {
    /// Parses the record's body: process, thread, reading.
    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        let (ids, reading) = body.split_at_checked(8)?;
        let number = |bytes: &[u8]| Some(u32::from_ne_bytes(bytes.try_into().ok()?));
        let counter = reading.get(24..32)?.try_into().ok()?;
        Some(Self {
            pid: number(&ids[..4])?,
            tid: number(&ids[4..])?,
            counter: u64::from_ne_bytes(counter),
            count: count_in(reading)?,
        })
    }
}

impl CounterRings {
    const MAX: usize = 512 << 10;
    const MIN: usize = 32 << 10;

    /// Maps a ring for each CPU and redirects its counters into it.
    pub(crate) fn new(by_cpu: &[Vec<&Counter>]) -> io::Result<Self> {
        let mut bytes = Self::MAX;
        let rings = loop {
            let owners = by_cpu.iter().filter_map(|counters| counters.first());
            match owners.map(|owner| Ring::map(owner.fd.as_fd(), bytes)).collect::<io::Result<Vec<_>>>() {
                Ok(rings) => break rings,
                Err(_) if bytes > Self::MIN => bytes /= 2,
                Err(error) => return Err(error),
            }
        };
        for counters in by_cpu {
            let Some((owner, others)) = counters.split_first() else { continue };
            for other in others {
                redirect(other.fd.as_fd(), owner.fd.as_raw_fd())?;
            }
        }
        let bound = Bound::Thread { tid: 0, cpu: None, on_exec: false, reports_threads: true };
        let layout = parse_info(&kernel_attr(&Attr::default(), bound))?;
        Ok(Self { merge: Merge::new(rings), layouts: Layouts::several(vec![(layout, Vec::new())]) })
    }

    /// Hands over the records so far.
    pub(crate) fn drain(&mut self, take: impl FnMut(&Record<'_>)) {
        self.merge.drain(ClockNs::MAX, &self.layouts, take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_the_counts_of_an_exited_thread() {
        let mut body = [7u32, 8].map(u32::to_ne_bytes).concat();
        body.extend([100u64, 2000, 1000, 42, 0, 0].map(u64::to_ne_bytes).concat());
        let last = LastCount::parse(&body).unwrap();
        let count = Count { value: 100, enabled_ns: 2000, running_ns: 1000 };
        assert_eq!(last, LastCount { pid: 7, tid: 8, counter: 42, count });
        assert_eq!(LastCount::parse(&body[..39]), None, "cut off");
        assert_eq!(LastCount::parse(&[]), None);
    }

    #[test]
    fn attributes_match_the_kernels() {
        let event =
            Attr { kind: 4, configs: [0x1c2, 5, 6], exclude_kernel: true, precise: 2, ..Attr::default() };
        let attr =
            kernel_attr(&event, Bound::Thread { tid: 1, cpu: None, on_exec: true, reports_threads: false });
        assert_eq!((attr.type_, attr.config), (4, 0x1c2));
        assert_eq!((attr.exclude_kernel(), attr.exclude_user(), attr.precise_ip()), (1, 0, 0));
        assert_eq!((attr.inherit(), attr.enable_on_exec(), attr.disabled()), (1, 1, 1));
        assert_eq!(attr.sample_type, 0, "nothing is sampled");
        let of_cpu = kernel_attr(&event, Bound::Cpu(0));
        assert_eq!((of_cpu.inherit(), of_cpu.enable_on_exec()), (0, 0));
    }
}
