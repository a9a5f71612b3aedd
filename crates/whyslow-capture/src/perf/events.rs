//! Opening one event per CPU (and per thread when attaching), with one ring per CPU.

use std::ffi::CString;
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
    /// The file that the event is in, if it is a function.
    pub(crate) file: Option<CString>,
    /// Whether its samples have as many stack bytes as the plan's, and a ring apart from the plan's, which it shares with the likes of it.
    pub(crate) apart: bool,
    /// Whether it has a ring of its own that is given back in rations: what does not fit is not missed.
    pub(crate) rationed: bool,
    /// Whether CPUs that do not have it go without.
    pub(crate) on_some_cpus: bool,
}

impl Beside {
    /// An event whose records go into the ring of the plan's event.
    pub(crate) fn in_same_ring(attr: sys::perf_event_attr, scope: Scope) -> Self {
        Self { attr, scope, file: None, apart: false, rationed: false, on_some_cpus: false }
    }

    /// Its attributes with the address of the file's name, which must live until it is opened.
    fn attr(&self) -> sys::perf_event_attr {
        let mut attr = self.attr;
        if let Some(file) = &self.file {
            attr.__bindgen_anon_3.config1 = file.as_ptr().addr() as u64;
        }
        attr
    }

    /// Whether it begins by itself, at the exec of a program.
    fn is_on_exec(&self) -> bool {
        self.apart && self.attr.enable_on_exec() == 1
    }
}

/// Opens events and closes them again, to see whether that is possible: for one thread and one CPU, since the answer is the same for all.
pub(crate) fn try_open(events: &[Beside], cpus: &[u32]) -> Result<(), io::Error> {
    let mut reason = None;
    for event in events {
        let mut attr = event.attr();
        let thread = event.scope.threads().first().copied().unwrap_or(0);
        // A CPU that has no such unit says nothing of the others.
        let cpus = if event.on_some_cpus { cpus } else { &cpus[..cpus.len().min(1)] };
        let opened = cpus.iter().map(|cpu| open(&mut attr, thread.cast_signed(), *cpu));
        match opened.reduce(Result::or).unwrap_or(Err(OpenError::Gone)) {
            Ok(_) if event.on_some_cpus => return Ok(()),
            Ok(_) => {}
            Err(error) => reason = Some(error.into_system()),
        }
    }
    reason.map_or(Ok(()), Err)
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
    /// Those of the events beside the plan's that are apart, and whether they begin by themselves; of the others nothing is here.
    apart: Vec<(bool, Vec<OwnedFd>)>,
    /// Those that are not, by the number of their event.
    in_ring: Vec<Vec<RawFd>>,
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
    /// What the system said.
    fn into_system(self) -> io::Error {
        match self {
            Self::Denied(error)
            | Self::RingTooLarge(error)
            | Self::Unsupported(error)
            | Self::TooManyFiles(error)
            | Self::Other(error) => error,
            Self::Gone => io::Error::from_raw_os_error(libc::ESRCH),
        }
    }

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
        let side_bytes = if ring_bytes >= RING_MOST { ring_bytes * 2 } else { ring_bytes };
        let mut beside: Vec<(sys::perf_event_attr, &Beside)> = beside
            .iter()
            .map(|event| {
                let mut attr = named(event.attr());
                if event.rationed {
                    attr.__bindgen_anon_2.wakeup_watermark = ring_bytes as u32;
                }
                if event.apart {
                    attr.sample_stack_user = plan.stack_bytes;
                    // They come in bursts: a program that starts has a hundred page faults within a millisecond.
                    attr.__bindgen_anon_2.wakeup_watermark = (side_bytes / 8) as u32;
                }
                (attr, event)
            })
            .collect();
        let main = named(plan.attr(None));
        let layouts = std::iter::once(&main).chain(beside.iter().map(|(attr, _)| attr)).map(parse_info);
        let layouts: Vec<RecordParseInfo> = layouts.collect::<io::Result<_>>().map_err(OpenError::Other)?;
        let mut ids = vec![Vec::new(); layouts.len()];
        let mut events = Vec::with_capacity(cpus.len() * threads.len() * layouts.len());
        let mut apart: Vec<(bool, Vec<OwnedFd>)> =
            beside.iter().map(|(_, wanted)| (wanted.is_on_exec(), Vec::new())).collect();
        let mut in_ring = vec![Vec::new(); beside.len()];
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
                        rings.push(map(event.as_fd(), ring_bytes)?);
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
            let mut side: Option<RawFd> = None;
            let mut rationed: Option<RawFd> = None;
            for (at, (attr, wanted)) in beside.iter_mut().enumerate() {
                let threads = wanted.scope.threads();
                for &thread in threads {
                    let event = match open(attr, thread.cast_signed(), cpu) {
                        Ok(event) => event,
                        Err(OpenError::Gone) if threads.len() > 1 => continue,
                        Err(OpenError::Unsupported(_)) if wanted.on_some_cpus => break,
                        Err(error) => return Err(error),
                    };
                    match side {
                        _ if wanted.rationed => match rationed {
                            Some(rationed) => redirect(event.as_fd(), rationed).map_err(OpenError::Other)?,
                            None => {
                                rings.push(map(event.as_fd(), ring_bytes)?.in_rations());
                                rationed = Some(event.as_raw_fd());
                            }
                        },
                        _ if !wanted.apart => redirect(event.as_fd(), ring).map_err(OpenError::Other)?,
                        Some(side) => redirect(event.as_fd(), side).map_err(OpenError::Other)?,
                        None => {
                            rings.push(map(event.as_fd(), side_bytes)?);
                            side = Some(event.as_raw_fd());
                            owners.push(event.as_raw_fd());
                        }
                    }
                    ids[at + 1].push(id_of(event.as_fd()).map_err(OpenError::Other)?);
                    if wanted.apart {
                        apart[at].1.push(event);
                    } else {
                        in_ring[at].push(event.as_raw_fd());
                        events.push(event);
                    }
                }
            }
        }
        if rings.is_empty() {
            // The same answer for every CPU is about the event.
            return Err(off_line.map_or(OpenError::Gone, OpenError::Unsupported));
        }
        let layouts = Layouts::several(layouts.into_iter().zip(ids).collect());
        Ok(Self { events, owners, merge: Merge::new(rings), ring_bytes, plan, layouts, apart, in_ring })
    }

    /// Starts all events at once (attached recordings; started programs begin at exec).
    pub(crate) fn enable(&self) -> io::Result<()> {
        let apart = self.apart.iter().filter(|(on_exec, _)| !on_exec).flat_map(|(_, events)| events);
        self.events.iter().chain(apart).try_for_each(|event| enable(event.as_fd()))
    }

    /// Stops an event beside the plan's, of all threads that have it, or lets it go on.
    pub(crate) fn pause(&self, beside: usize, pauses: bool) {
        for event in self.in_ring.get(beside).into_iter().flatten() {
            set_paused(*event, pauses);
        }
    }

    /// How often an event apart has happened, by its number among the events beside the plan's: the kernel's own count, with that of
    /// threads that have ended.
    pub(crate) fn happened(&self, beside: usize) -> u64 {
        let count = |event: &OwnedFd| {
            let mut bytes = [0; 8];
            match rustix::io::read(event, &mut bytes) {
                Ok(8) => u64::from_ne_bytes(bytes),
                _ => 0,
            }
        };
        self.apart.get(beside).map_or(0, |(_, events)| events.iter().map(count).sum())
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

fn map(event: BorrowedFd<'_>, bytes: usize) -> Result<Ring, OpenError> {
    Ring::map(event, bytes).map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::ENOMEM) => OpenError::RingTooLarge(error),
        _ => OpenError::Other(error),
    })
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

/// Failing leaves the event as it is: more or fewer stacks than wanted.
#[expect(unsafe_code, reason = "system calls without a safe wrapper")]
fn set_paused(event: RawFd, pauses: bool) {
    // SAFETY: an event descriptor that its owner keeps open; the calls change only kernel state.
    unsafe {
        if pauses {
            perf::ioctls::DISABLE(event, 0);
        } else {
            perf::ioctls::ENABLE(event, 0);
        }
    }
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
