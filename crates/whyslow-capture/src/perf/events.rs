//! Opens one event per CPU (and per thread when attaching), with one ring per CPU.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;

use linux_perf_event_reader::{Endianness, PerfEventAttr, RecordParseInfo};
use perf_event_open_sys::{self as perf, bindings as sys};
use whyslow_convert::perf::{CallEvent, Role};

use super::attr::{Plan, core_type};
use super::layouts::Layouts;
use super::ring::{Merge, Ring};

/// Largest ring per CPU.
const RING_MAX: usize = 4 << 20;
/// Smallest ring that is worth recording with.
const RING_MIN: usize = 64 << 10;
/// Limit for all rings together, so that machines with many CPUs do not lock too much memory.
const RINGS_TOTAL: usize = 64 << 20;
/// CPU-wide events sample whatever runs, with the same number of stack bytes for every process: on a busy
/// machine the rings fill up all the time, and the recorder queues longest for a CPU.
const CPU_RING_MAX: usize = 8 << 20;
const CPU_RINGS_TOTAL: usize = 256 << 20;

/// What to sample.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    /// These threads and everything they start.
    Threads(Vec<u32>),
    /// Whatever runs in this control group.
    Group(Arc<File>),
    /// Everything.
    System,
}

/// What the kernel takes for the process of an event: a thread, -1 for every thread, or the folder of a
/// control group.
#[derive(Debug, Clone, Copy)]
struct Watched {
    number: i32,
    flags: u32,
}

impl Scope {
    fn watched(&self) -> Vec<Watched> {
        match self {
            Self::Threads(threads) => {
                threads.iter().map(|thread| Watched { number: thread.cast_signed(), flags: 0 }).collect()
            }
            Self::Group(folder) => {
                vec![Watched { number: folder.as_raw_fd(), flags: sys::PERF_FLAG_PID_CGROUP }]
            }
            Self::System => vec![Watched { number: -1, flags: 0 }],
        }
    }
}

/// What an event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventRole {
    /// Samples of CPU time, and every record that is not a sample.
    CpuTime,
    /// Samples that the user requested, by the index of the request.
    Requested(usize),
    /// A sample whenever a thread leaves its CPU.
    Leaves,
    /// A sample whenever a thread is woken. Its number is at this offset of the tracepoint's data.
    Wakes { tid_at: usize, with_stack: bool },
    /// A sample whenever a system call starts or returns.
    Calls(CallEvent),
}

impl EventRole {
    /// What its samples mean to the reader of records.
    pub(crate) fn of_samples(self) -> Role {
        match self {
            Self::CpuTime | Self::Requested(_) => Role::Counts,
            Self::Leaves => Role::Leaves,
            Self::Wakes { tid_at, with_stack } => Role::Wakes { tid_at, with_stack },
            Self::Calls(call) => Role::Calls(call),
        }
    }

    /// Whether it has a stack for each switch of a thread, so that its rate must be limited.
    pub(crate) fn is_paced(self) -> bool {
        matches!(self, Self::Leaves | Self::Wakes { with_stack: true, .. })
    }
}

/// The ring that an event writes to. Each CPU has one of each kind that is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RingKind {
    /// The ring of the plan's event.
    Main,
    /// A ring for all requested events. Their samples have as many stack bytes as the plan's.
    Requested,
    /// A ring that is released in rations: samples that do not fit are optional.
    Rationed,
}

/// An event in addition to the plan's. It must use the same clock, and its samples must contain an address, a
/// task and a time.
#[derive(Debug, Clone)]
pub(crate) struct ExtraEvent {
    pub(crate) role: EventRole,
    pub(crate) ring: RingKind,
    pub(crate) attr: sys::perf_event_attr,
    pub(crate) scope: Scope,
    /// The file that contains the function, if the event is a function probe.
    pub(crate) file: Option<CString>,
    /// Whether to skip CPUs that do not support it.
    pub(crate) on_some_cpus: bool,
}

impl ExtraEvent {
    /// An event whose records go into the ring of the plan's event.
    pub(crate) fn in_main_ring(role: EventRole, attr: sys::perf_event_attr, scope: Scope) -> Self {
        Self { role, ring: RingKind::Main, attr, scope, file: None, on_some_cpus: false }
    }

    /// Its attributes, with the address of the file name, which must stay valid until the event is open.
    fn attr(&self) -> sys::perf_event_attr {
        let mut attr = self.attr;
        if let Some(file) = &self.file {
            attr.__bindgen_anon_3.config1 = file.as_ptr().addr() as u64;
        }
        attr
    }

    /// Whether the exec of a program enables it.
    fn is_on_exec(&self) -> bool {
        self.ring == RingKind::Requested && self.attr.enable_on_exec() == 1
    }
}

/// Opens events and closes them again, to see whether that is possible. One thread and one CPU suffice, since
/// the answer is the same for all.
pub(crate) fn try_open(events: &[ExtraEvent], cpus: &[u32]) -> Result<(), io::Error> {
    let mut reason = None;
    for event in events {
        let mut attr = event.attr();
        let Some(watched) = event.scope.watched().first().copied() else { continue };
        // A CPU without such a PMU says nothing about the others.
        let cpus = if event.on_some_cpus { cpus } else { &cpus[..cpus.len().min(1)] };
        let opened = cpus.iter().map(|cpu| open(&mut attr, watched, *cpu));
        match opened.reduce(Result::or).unwrap_or(Err(OpenError::Gone)) {
            Ok(_) if event.on_some_cpus => return Ok(()),
            Ok(_) => {}
            Err(error) => reason = Some(error.into_system()),
        }
    }
    reason.map_or(Ok(()), Err)
}

/// An event that is open on all recorded CPUs and threads.
#[derive(Debug)]
pub(crate) struct OpenEvent {
    pub(crate) role: EventRole,
    /// Whether the exec of the program enables it.
    on_exec: bool,
    /// One per CPU and thread.
    descriptors: Vec<OwnedFd>,
}

impl OpenEvent {
    fn new(role: EventRole, on_exec: bool) -> Self {
        Self { role, on_exec, descriptors: Vec::new() }
    }

    /// Pauses it for all threads that have it, or resumes it.
    pub(crate) fn pause(&self, pauses: bool) {
        for event in &self.descriptors {
            set_paused(event.as_fd(), pauses);
        }
    }

    /// How often it has happened: the kernel's own count, including threads that have exited.
    pub(crate) fn count(&self) -> u64 {
        let count = |event: &OwnedFd| {
            let mut bytes = [0; 8];
            match rustix::io::read(event, &mut bytes) {
                Ok(8) => u64::from_ne_bytes(bytes),
                _ => 0,
            }
        };
        self.descriptors.iter().map(count).sum()
    }
}

/// Open events and their rings.
#[derive(Debug)]
pub(crate) struct Events {
    /// The plan's event, then the extra ones.
    pub(crate) open: Vec<OpenEvent>,
    /// The events that own a ring, for polling.
    owners: Vec<RawFd>,
    pub(crate) merge: Merge,
    /// Bytes of each ring.
    pub(crate) ring_bytes: usize,
    pub(crate) plan: Plan,
    /// The layouts of records, in the order of `open`.
    pub(crate) layouts: Layouts,
}

/// The rings while they are mapped.
#[derive(Debug)]
struct Rings {
    main_bytes: usize,
    requested_bytes: usize,
    mapped: Vec<Ring>,
    owners: Vec<RawFd>,
}

/// The events that own the rings of one CPU.
#[derive(Debug, Default)]
struct CpuRings {
    main: Option<RawFd>,
    requested: Option<RawFd>,
    rationed: Option<RawFd>,
}

impl Rings {
    fn new(main_bytes: usize) -> Self {
        let requested_bytes = if main_bytes >= RING_MAX { main_bytes * 2 } else { main_bytes };
        Self { main_bytes, requested_bytes, mapped: Vec::new(), owners: Vec::new() }
    }

    /// How full a ring may be before it wakes the recorder.
    fn watermark(&self, kind: RingKind) -> usize {
        match kind {
            RingKind::Main => watermark(self.main_bytes),
            // Their samples arrive in bursts: a starting program has a hundred page faults within a
            // millisecond.
            RingKind::Requested => self.requested_bytes / 8,
            RingKind::Rationed => self.main_bytes,
        }
    }

    /// Gives an event its ring: the first of a CPU maps it, the others write to the same one.
    fn attach(
        &mut self,
        event: BorrowedFd<'_>,
        kind: RingKind,
        of_cpu: &mut CpuRings,
    ) -> Result<(), OpenError> {
        let (owner, bytes) = match kind {
            RingKind::Main => (&mut of_cpu.main, self.main_bytes),
            RingKind::Requested => (&mut of_cpu.requested, self.requested_bytes),
            RingKind::Rationed => (&mut of_cpu.rationed, self.main_bytes),
        };
        if let Some(owner) = *owner {
            return redirect(event, owner).map_err(OpenError::Other);
        }
        let ring = map(event, bytes)?;
        *owner = Some(event.as_raw_fd());
        if kind == RingKind::Rationed {
            self.mapped.push(ring.in_rations());
        } else {
            self.mapped.push(ring);
            self.owners.push(event.as_raw_fd());
        }
        Ok(())
    }
}

/// Why events could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The kernel does not permit it.
    Denied(io::Error),
    /// A thread exited before its event was opened.
    Gone,
    /// The ring exceeds the limit of locked memory.
    RingTooLarge(io::Error),
    /// This event or setting does not exist here.
    Unsupported(io::Error),
    /// Too many open files.
    TooManyFiles(io::Error),
    /// Anything else.
    Other(io::Error),
}

impl OpenError {
    /// The system's error.
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
                // All hardware counters are in use.
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
        extra: &[ExtraEvent],
    ) -> Result<Self, OpenError> {
        let (max_bytes, total) = match scope {
            Scope::Threads(_) => (RING_MAX, RINGS_TOTAL),
            Scope::Group(_) | Scope::System => (CPU_RING_MAX, CPU_RINGS_TOTAL),
        };
        let share = (total / cpus.len().max(1)).clamp(RING_MIN, max_bytes);
        first_accepted(wanted.choices(), 1 << share.ilog2(), |plan, ring_bytes| {
            let plan = Plan { stack_bytes: stack_bytes.unwrap_or(default_stack_bytes(ring_bytes)), ..plan };
            Self::open_exactly(scope, cpus, plan, ring_bytes, extra)
        })
    }

    fn open_exactly(
        scope: &Scope,
        cpus: &[u32],
        plan: Plan,
        ring_bytes: usize,
        extra: &[ExtraEvent],
    ) -> Result<Self, OpenError> {
        let threads = scope.watched();
        // With a single event, records need not contain its id.
        let named = |mut attr: sys::perf_event_attr| {
            if !extra.is_empty() {
                attr.sample_type |= u64::from(sys::PERF_SAMPLE_IDENTIFIER);
                attr.set_sample_id_all(1);
            }
            attr
        };
        let mut rings = Rings::new(ring_bytes);
        let mut extra: Vec<(sys::perf_event_attr, &ExtraEvent)> = extra
            .iter()
            .map(|event| {
                let mut attr = named(event.attr());
                if event.ring != RingKind::Main {
                    attr.__bindgen_anon_2.wakeup_watermark = rings.watermark(event.ring) as u32;
                }
                if event.ring == RingKind::Requested {
                    attr.sample_stack_user = plan.stack_bytes;
                }
                (attr, event)
            })
            .collect();
        let main = named(plan.attr(None));
        let layouts = std::iter::once(&main).chain(extra.iter().map(|(attr, _)| attr)).map(parse_info);
        let layouts: Vec<RecordParseInfo> = layouts.collect::<io::Result<_>>().map_err(OpenError::Other)?;
        let mut main = OpenEvent::new(EventRole::CpuTime, false);
        let mut others: Vec<OpenEvent> =
            extra.iter().map(|(_, wanted)| OpenEvent::new(wanted.role, wanted.is_on_exec())).collect();
        let mut off_line = None;
        for &cpu in cpus {
            let mut attr = named(plan.attr(core_type(Path::new("/sys"), cpu)));
            attr.__bindgen_anon_2.wakeup_watermark = rings.watermark(RingKind::Main) as u32;
            let mut of_cpu = CpuRings::default();
            for &thread in &threads {
                let event = match open(&mut attr, thread, cpu) {
                    Ok(event) => event,
                    // A thread that has exited is not a loss unless it is the only one; a CPU that went
                    // off-line has nothing to sample.
                    Err(OpenError::Gone) if threads.len() > 1 => continue,
                    Err(OpenError::Unsupported(error)) if error.raw_os_error() == Some(libc::ENODEV) => {
                        off_line = Some(error);
                        break;
                    }
                    Err(error) => return Err(error),
                };
                rings.attach(event.as_fd(), RingKind::Main, &mut of_cpu)?;
                main.descriptors.push(event);
            }
            if of_cpu.main.is_none() {
                continue;
            }
            for ((attr, wanted), opened) in extra.iter_mut().zip(&mut others) {
                let threads = wanted.scope.watched();
                for &thread in &threads {
                    let event = match open(attr, thread, cpu) {
                        Ok(event) => event,
                        Err(OpenError::Gone) if threads.len() > 1 => continue,
                        Err(OpenError::Unsupported(_)) if wanted.on_some_cpus => break,
                        Err(error) => return Err(error),
                    };
                    rings.attach(event.as_fd(), wanted.ring, &mut of_cpu)?;
                    opened.descriptors.push(event);
                }
            }
        }
        let Rings { mapped, owners, .. } = rings;
        if mapped.is_empty() {
            // If every CPU gives the same answer, the event itself is not supported.
            return Err(off_line.map_or(OpenError::Gone, OpenError::Unsupported));
        }
        let open: Vec<OpenEvent> = std::iter::once(main).chain(others).collect();
        let ids_of = |event: &OpenEvent| {
            let ids = event.descriptors.iter().map(|event| id_of(event.as_fd()));
            ids.collect::<io::Result<Vec<u64>>>()
        };
        let layouts = match layouts[..] {
            [only] => vec![(only, Vec::new())],
            _ => {
                let ids = open.iter().map(ids_of).collect::<io::Result<Vec<_>>>();
                layouts.into_iter().zip(ids.map_err(OpenError::Other)?).collect()
            }
        };
        let layouts = Layouts::several(layouts);
        Ok(Self { open, owners, merge: Merge::new(mapped), ring_bytes, plan, layouts })
    }

    /// Starts all events that no exec starts.
    pub(crate) fn enable(&self) -> io::Result<()> {
        let ours = self.open.iter().filter(|event| !event.on_exec);
        ours.flat_map(|event| &event.descriptors).try_for_each(|event| enable(event.as_fd()))
    }

    /// Whether there is an event with such a role.
    pub(crate) fn has(&self, is_it: impl Fn(EventRole) -> bool) -> bool {
        self.open.iter().any(|event| is_it(event.role))
    }

    /// The descriptors that become readable when a ring fills up.
    pub(crate) fn wait_on(&self) -> &[RawFd] {
        &self.owners
    }
}

/// The first plan that the kernel accepts, with the largest ring it permits. A refusal is a better reason to
/// report than a missing event.
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
            Err(OpenError::RingTooLarge(_)) if ring_bytes > RING_MIN => ring_bytes /= 2,
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

/// How full a ring may be before it wakes the recorder: the rest must last until the recorder runs, which
/// takes longer on a busy machine.
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
fn open(attr: &mut sys::perf_event_attr, watched: Watched, cpu: u32) -> Result<OwnedFd, OpenError> {
    let flags = sys::PERF_FLAG_FD_CLOEXEC | watched.flags;
    // SAFETY: `attr` is a whole, initialised structure that says its own size.
    let event = unsafe { perf::perf_event_open(attr, watched.number, cpu.cast_signed(), -1, flags.into()) };
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

/// The kernel's id of an event, which its records contain.
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

/// A failure leaves the event unchanged, with more or fewer stacks than intended.
#[expect(unsafe_code, reason = "system calls without a safe wrapper")]
fn set_paused(event: BorrowedFd<'_>, pauses: bool) {
    // SAFETY: an open event descriptor; the calls change only kernel state.
    unsafe {
        if pauses {
            perf::ioctls::DISABLE(event.as_raw_fd(), 0);
        } else {
            perf::ioctls::ENABLE(event.as_raw_fd(), 0);
        }
    }
}

/// The layout of records of events with these attributes.
#[expect(unsafe_code, reason = "the reader parses attributes from bytes")]
pub(super) fn parse_info(attr: &sys::perf_event_attr) -> io::Result<RecordParseInfo> {
    // SAFETY: the structure is plain integers without padding, as the kernel's interface demands.
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

    /// Machines without a counter report different errors: no such entry, device, address, argument,
    /// operation.
    #[test]
    fn falls_back_to_the_clock_for_every_missing_counter_error() {
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
            let opened = first_accepted(plans(), RING_MAX, |plan, _| {
                let error = OpenError::from_open(io::Error::from_raw_os_error(word));
                if plan.cycles { Err(error) } else { Ok(plan) }
            });
            let plan = opened.unwrap_or_else(|error| panic!("{word}: {error:?}"));
            assert!(!plan.cycles && plan.kernel);
        }
    }

    #[test]
    fn reports_a_refusal_rather_than_a_missing_event() {
        let refused = first_accepted(plans(), RING_MAX, |plan, _| -> Result<(), _> {
            let word = if plan.cycles { libc::ENXIO } else { libc::EACCES };
            Err(OpenError::from_open(io::Error::from_raw_os_error(word)))
        });
        assert!(matches!(refused, Err(OpenError::Denied(_))), "{refused:?}");
    }

    #[test]
    fn shrinks_rings_until_the_kernel_accepts_them() {
        let opened = first_accepted(plans(), RING_MAX, |_, bytes| {
            if bytes > RING_MIN {
                Err(OpenError::RingTooLarge(io::ErrorKind::Other.into()))
            } else {
                Ok(bytes)
            }
        });
        assert_eq!(opened.unwrap(), RING_MIN);
    }
}
