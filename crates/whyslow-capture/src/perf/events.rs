//! Opening one event per CPU (and per thread when attaching), with one ring per CPU.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;

use linux_perf_event_reader::{Endianness, PerfEventAttr, RecordParseInfo};
use perf_event_open_sys::{self as perf, bindings as sys};

use super::attr::{Plan, core_type};
use super::layouts::Layouts;
use super::ring::{Merge, Ring};

/// Largest ring per CPU.
const RING_MOST: usize = 4 << 20;
/// Smallest ring that is worth recording with.
const RING_LEAST: usize = 64 << 10;
/// All rings together, so that machines with many CPUs do not lock much memory.
const RINGS_TOTAL: usize = 64 << 20;
/// Events of CPUs write samples of whatever runs, with as many stack bytes as ours have: on a busy machine the rings fill up all
/// the time, and the recorder waits longest for its turn.
const CPU_RING_MOST: usize = 8 << 20;
const CPU_RINGS_TOTAL: usize = 256 << 20;

/// Whom to sample.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    /// These threads and whatever they start.
    Threads(Vec<u32>),
    /// Everything.
    System,
}

impl Scope {
    /// The kernel's numbers: `u32::MAX` is -1 for it, every thread.
    fn threads(&self) -> &[u32] {
        match self {
            Self::Threads(threads) => threads,
            Self::System => &[u32::MAX],
        }
    }
}

/// An event beside the one of the plan, whose records go into the same rings. It must have the same clock, and its samples an address,
/// a task and a time.
#[derive(Debug, Clone)]
pub(crate) struct Beside {
    pub(crate) attr: sys::perf_event_attr,
    pub(crate) scope: Scope,
}

/// Open events and their rings.
#[derive(Debug)]
pub(crate) struct Events {
    events: Vec<OwnedFd>,
    /// The events that own a ring, for waiting.
    owners: Vec<RawFd>,
    pub(crate) merge: Merge,
    /// Bytes of each ring.
    pub(crate) ring_bytes: usize,
    pub(crate) plan: Plan,
    /// How records are laid out: those of the plan's event, then those of the events beside it.
    pub(crate) layouts: Layouts,
}

/// Why events could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The kernel does not allow it.
    Denied(io::Error),
    /// A thread ended before its event was opened.
    Gone,
    /// The ring does not fit the limit of locked memory.
    RingTooLarge(io::Error),
    /// This event or setting does not exist here.
    Unsupported(io::Error),
    /// Too many open files.
    TooManyFiles(io::Error),
    /// Anything else.
    Other(io::Error),
}

impl OpenError {
    fn from_open(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::Denied(error),
            Some(libc::ESRCH) => Self::Gone,
            Some(
                libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO | libc::EINVAL | libc::ENOSYS | libc::E2BIG
                // All hardware counters are taken.
                | libc::EBUSY | libc::ENOSPC,
            ) => Self::Unsupported(error),
            Some(libc::EMFILE | libc::ENFILE) => Self::TooManyFiles(error),
            _ => Self::Other(error),
        }
    }
}

impl Events {
    /// Opens the best plan the kernel accepts, with the largest rings it allows.
    pub(crate) fn open(
        scope: &Scope,
        cpus: &[u32],
        wanted: Plan,
        stack_bytes: Option<u32>,
        beside: &[Beside],
    ) -> Result<Self, OpenError> {
        let (most, total) = match scope {
            Scope::Threads(_) => (RING_MOST, RINGS_TOTAL),
            Scope::System => (CPU_RING_MOST, CPU_RINGS_TOTAL),
        };
        let share = (total / cpus.len().max(1)).clamp(RING_LEAST, most);
        first_accepted(wanted.choices(), 1 << share.ilog2(), |plan, ring_bytes| {
            let plan = Plan { stack_bytes: stack_bytes.unwrap_or(default_stack_bytes(ring_bytes)), ..plan };
            Self::open_exactly(scope, cpus, plan, ring_bytes, beside)
        })
    }

    fn open_exactly(
        scope: &Scope,
        cpus: &[u32],
        plan: Plan,
        ring_bytes: usize,
        beside: &[Beside],
    ) -> Result<Self, OpenError> {
        let threads = scope.threads();
        // A record of a single event need not name it.
        let named = |mut attr: sys::perf_event_attr| {
            if !beside.is_empty() {
                attr.sample_type |= u64::from(sys::PERF_SAMPLE_IDENTIFIER);
                attr.set_sample_id_all(1);
            }
            attr
        };
        let mut beside: Vec<(sys::perf_event_attr, &[u32])> =
            beside.iter().map(|Beside { attr, scope }| (named(*attr), scope.threads())).collect();
        let main = named(plan.attr(None));
        let layouts = std::iter::once(&main).chain(beside.iter().map(|(attr, _)| attr)).map(parse_info);
        let layouts: Vec<RecordParseInfo> = layouts.collect::<io::Result<_>>().map_err(OpenError::Other)?;
        let mut ids = vec![Vec::new(); layouts.len()];
        let mut events = Vec::with_capacity(cpus.len() * threads.len() * layouts.len());
        let mut owners = Vec::new();
        let mut rings = Vec::with_capacity(cpus.len());
        let mut off_line = None;
        for &cpu in cpus {
            let mut attr = named(plan.attr(core_type(Path::new("/sys"), cpu)));
            attr.__bindgen_anon_2.wakeup_watermark = watermark(ring_bytes) as u32;
            let mut owner: Option<RawFd> = None;
            for &thread in threads {
                let event = match open(&mut attr, thread.cast_signed(), cpu) {
                    Ok(event) => event,
                    // A thread that has ended meanwhile is no loss unless it is the only one; a CPU that went
                    // off-line has nothing to sample.
                    Err(OpenError::Gone) if threads.len() > 1 => continue,
                    Err(OpenError::Unsupported(error)) if error.raw_os_error() == Some(libc::ENODEV) => {
                        off_line = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                match owner {
                    None => {
                        let ring = Ring::map(event.as_fd(), ring_bytes).map_err(|error| {
                            match error.raw_os_error() {
                                Some(libc::EPERM | libc::ENOMEM) => OpenError::RingTooLarge(error),
                                _ => OpenError::Other(error),
                            }
                        })?;
                        rings.push(ring);
                        owner = Some(event.as_raw_fd());
                        owners.push(event.as_raw_fd());
                    }
                    Some(owner) => redirect(event.as_fd(), owner).map_err(OpenError::Other)?,
                }
                if !beside.is_empty() {
                    ids[0].push(id_of(event.as_fd()).map_err(OpenError::Other)?);
                }
                events.push(event);
            }
            let Some(ring) = owner else { continue };
            for ((attr, threads), ids) in beside.iter_mut().zip(&mut ids[1..]) {
                for &thread in *threads {
                    let event = match open(attr, thread.cast_signed(), cpu) {
                        Ok(event) => event,
                        Err(OpenError::Gone) if threads.len() > 1 => continue,
                        Err(error) => return Err(error),
                    };
                    redirect(event.as_fd(), ring).map_err(OpenError::Other)?;
                    ids.push(id_of(event.as_fd()).map_err(OpenError::Other)?);
                    events.push(event);
                }
            }
        }
        if rings.is_empty() {
            // The same answer for every CPU is about the event.
            return Err(off_line.map_or(OpenError::Gone, OpenError::Unsupported));
        }
        let layouts = Layouts::several(layouts.into_iter().zip(ids).collect());
        Ok(Self { events, owners, merge: Merge::new(rings), ring_bytes, plan, layouts })
    }

    /// Starts all events at once (attached recordings; started programs begin at exec).
    pub(crate) fn enable(&self) -> io::Result<()> {
        self.events.iter().try_for_each(|event| enable(event.as_fd()))
    }

    /// The descriptors that become readable when a ring fills up.
    pub(crate) fn wait_on(&self) -> &[RawFd] {
        &self.owners
    }
}

/// The first plan that the kernel accepts, with the largest ring it allows. A refusal is a better reason to give than a missing
/// event.
fn first_accepted<T>(
    plans: Vec<Plan>,
    mut ring_bytes: usize,
    mut open: impl FnMut(Plan, usize) -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let mut reason = None;
    let mut plans = plans.into_iter();
    let mut plan = plans.next();
    while let Some(wanted) = plan {
        match open(wanted, ring_bytes) {
            Err(error @ (OpenError::Unsupported(_) | OpenError::Denied(_))) => {
                if reason.is_none() || matches!(error, OpenError::Denied(_)) {
                    reason = Some(error);
                }
                plan = plans.next();
            }
            Err(OpenError::RingTooLarge(_)) if ring_bytes > RING_LEAST => ring_bytes /= 2,
            other => return other,
        }
    }
    Err(reason.unwrap_or_else(|| OpenError::Unsupported(io::ErrorKind::Unsupported.into())))
}

/// How full a ring may be before it wakes us: the rest must last until we run, which takes longer on a busy machine.
fn watermark(ring_bytes: usize) -> usize {
    if ring_bytes >= 2 << 20 { ring_bytes / 2 } else { ring_bytes / 4 }
}

/// Stack bytes per sample for a ring: a quarter of the ring must hold several samples.
fn default_stack_bytes(ring_bytes: usize) -> u32 {
    match ring_bytes {
        0x10_0000.. => 32 << 10,
        0x8_0000.. => 16 << 10,
        0x4_0000.. => 8 << 10,
        _ => 4 << 10,
    }
}

#[expect(unsafe_code, reason = "system calls without a safe wrapper")]
fn open(attr: &mut sys::perf_event_attr, thread: i32, cpu: u32) -> Result<OwnedFd, OpenError> {
    let flags = u64::from(sys::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a whole, initialised structure that says its own size.
    let event = unsafe { perf::perf_event_open(attr, thread, cpu.cast_signed(), -1, flags as _) };
    if event < 0 {
        return Err(OpenError::from_open(io::Error::last_os_error()));
    }
    // SAFETY: the kernel just gave us this descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(event) })
}

#[expect(unsafe_code, reason = "system calls without a safe wrapper")]
pub(super) fn redirect(event: BorrowedFd<'_>, owner: RawFd) -> io::Result<()> {
    // SAFETY: both are open event descriptors; the call changes only kernel state.
    let result = unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), owner as _) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The kernel's number for an event, which its records name.
#[expect(unsafe_code, reason = "system calls without a safe wrapper")]
pub(super) fn id_of(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: an open event descriptor; the kernel writes eight bytes to `id`.
    let result = unsafe { perf::ioctls::ID(event.as_raw_fd(), &raw mut id) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
}

#[expect(unsafe_code, reason = "system calls without a safe wrapper")]
pub(super) fn enable(event: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: an open event descriptor; the call changes only kernel state.
    let result = unsafe { perf::ioctls::ENABLE(event.as_raw_fd(), 0) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// How records of events with these attributes are laid out.
#[expect(unsafe_code, reason = "the reader parses attributes from bytes")]
pub(super) fn parse_info(attr: &sys::perf_event_attr) -> io::Result<RecordParseInfo> {
    // SAFETY: the structure is plain numbers without padding, as the kernel's interface demands.
    let bytes = unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(attr).cast::<u8>(), size_of::<sys::perf_event_attr>())
    };
    let (attr, _) = PerfEventAttr::parse::<_, byteorder::NativeEndian>(bytes)?;
    Ok(RecordParseInfo::new(&attr, Endianness::NATIVE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::Bound;

    fn plans() -> Vec<Plan> {
        let wanted = Plan {
            cycles: true,
            precise: 0,
            kernel: true,
            frequency_hz: 997,
            stack_bytes: 0,
            bound: Bound::Cpu,
        };
        wanted.choices()
    }

    /// Machines without a counter say so in different words: no such entry, device, address, argument, operation.
    #[test]
    fn whatever_says_that_there_is_no_counter_leads_to_the_clock() {
        let words = [
            libc::ENOENT,
            libc::ENODEV,
            libc::ENXIO,
            libc::EINVAL,
            libc::EOPNOTSUPP,
            libc::EBUSY,
            libc::ENOSPC,
        ];
        for word in words {
            let opened = first_accepted(plans(), RING_MOST, |plan, _| {
                let error = OpenError::from_open(io::Error::from_raw_os_error(word));
                if plan.cycles { Err(error) } else { Ok(plan) }
            });
            let plan = opened.unwrap_or_else(|error| panic!("{word}: {error:?}"));
            assert!(!plan.cycles && plan.kernel);
        }
    }

    #[test]
    fn a_refusal_is_the_reason_given() {
        let refused = first_accepted(plans(), RING_MOST, |plan, _| -> Result<(), _> {
            let word = if plan.cycles { libc::ENXIO } else { libc::EACCES };
            Err(OpenError::from_open(io::Error::from_raw_os_error(word)))
        });
        assert!(matches!(refused, Err(OpenError::Denied(_))), "{refused:?}");
    }

    #[test]
    fn rings_shrink_until_they_are_allowed() {
        let opened = first_accepted(plans(), RING_MOST, |_, bytes| {
            if bytes > RING_LEAST {
                Err(OpenError::RingTooLarge(io::ErrorKind::Other.into()))
            } else {
                Ok(bytes)
            }
        });
        assert_eq!(opened.unwrap(), RING_LEAST);
    }
}
