//! The events that the user requested: which of them the kernel lets us sample, and how.
//!
//! Each event is tried separately before the program starts, so a refused one does not affect the others.
//! Their samples have the same parts as CPU time samples but go into separate ring buffers: an event that
//! happens a million times a second fills only its own ring, and CPU time is recorded as before.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use perf_event_open_sys::bindings as sys;
use whyslow_events::{Attr, Event, Kind, NotCounted, Reach, Unit, WhyNot};
use whyslow_profile::{Metric, Origin, RecordingNote, Sampler, Trigger};

use crate::counting::{CLOCK, happens_in_kernel};
use crate::perf::{self, Bound, EventRole, ExtraEvent, Plan, RingKind, Scope, try_open};
use crate::{Options, Target};

/// An event to sample.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedSamples {
    /// The name of its metric.
    pub name: String,
    /// The event.
    pub event: Event,
    /// Events per sample; `None` lets the recorder choose.
    pub period: Option<u64>,
    /// Where the function is, if the event is a function probe.
    pub probe: Option<Probe>,
}

/// Code locations in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The file.
    pub file: PathBuf,
    /// File offsets in bytes. A generic function has one per instance.
    pub offsets: Vec<u64>,
}

/// A requested event that is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRecorded {
    /// The name that its metric would have had.
    pub name: String,
    /// The kind of event.
    pub kind: Kind,
    /// Why it is not recorded.
    pub not: NotCounted,
}

impl NotRecorded {
    /// The note that the profile stores about it.
    pub fn note(&self) -> RecordingNote {
        RecordingNote::EventNotRecorded {
            event: self.name.clone(),
            kind: self.kind.label().to_owned(),
            why: self.not.why.label().to_owned(),
            error: self.not.error,
            level: whyslow_proc::kernel::Settings::now().perf_event_paranoid,
        }
    }
}

/// When a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rate {
    /// Once per this many occurrences.
    Every(u64),
    /// About this many times a second; each sample carries its own weight.
    Hertz(u32),
}

/// An event that the kernel accepts.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) wanted: WantedSamples,
    pub(crate) rate: Rate,
    /// Whether kernel mode had to be excluded although the user did not request that.
    pub(crate) without_kernel: bool,
    /// One per kind of CPU.
    attrs: Vec<Attr>,
}

/// The events of a recording.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) chosen: Vec<Chosen>,
    pub(crate) refused: Vec<NotRecorded>,
}

/// What became of an event that was opened for a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counts {
    /// The index of the request.
    pub(crate) request: usize,
    /// How often it happened, as the kernel counts.
    pub(crate) happened: u64,
    /// How many of its samples were in the rings, of any process.
    pub(crate) samples: u64,
}

impl Choice {
    /// Tries each event on the recorded processes. For a program that has not started yet, tries it on the
    /// recorder itself.
    pub(crate) fn try_all(target: &Target, options: &Options, cpus: &[u32]) -> Self {
        let mut choice = Self { chosen: Vec::new(), refused: options.unavailable_events.clone() };
        let scope = match target {
            Target::Command(_) => Scope::Threads(vec![std::process::id()]),
            Target::Processes(pids) => Scope::Threads(pids.clone()),
            Target::System { .. } => Scope::System,
        };
        for wanted in &options.events {
            match Chosen::try_one(wanted, &scope, options, cpus) {
                Ok(chosen) => choice.chosen.push(chosen),
                Err(not) => {
                    let (name, kind) = (wanted.name.clone(), wanted.event.kind);
                    choice.refused.push(NotRecorded { name, kind, not });
                }
            }
        }
        choice
    }

    /// The notes for the profile, from the counts of the opened events. `recorded` is the sum of each request
    /// that is in the profile.
    pub(crate) fn notes(&self, counts: &[Counts], recorded: &[u64]) -> Vec<RecordingNote> {
        let mut notes: Vec<RecordingNote> = self.refused.iter().map(NotRecorded::note).collect();
        let without_kernel = self.chosen.iter().filter(|chosen| chosen.without_kernel);
        let events: Vec<String> = without_kernel.map(|chosen| chosen.wanted.name.clone()).collect();
        if !events.is_empty() {
            let level = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
            notes.push(RecordingNote::EventsInUserMode { events, level });
        }
        let mut missing = vec![0u64; self.chosen.len()];
        for Counts { request, happened, samples } in counts {
            let period = self.chosen[*request].period();
            missing[*request] += happened.saturating_sub(samples.saturating_mul(period));
        }
        let missed = self.chosen.iter().zip(missing.iter().zip(recorded));
        notes.extend(missed.filter_map(|(chosen, (missing, recorded))| chosen.missed(*missing, *recorded)));
        notes
    }

    /// The events to open in addition to CPU time. Events that are sampled
    /// at every occurrence are bound to the recorded threads. The others are bound like CPU time, so that
    /// short-lived threads get their share. Function probes are bound that way too: a thread that inherits
    /// one fails to start, because the kernel looks for the file's name in the memory of the thread that
    /// starts it.
    pub(crate) fn extra_events(&self, threads: (&Scope, Bound), samples: (&Scope, Bound)) -> Vec<ExtraEvent> {
        let of = |(request, chosen): (usize, &Chosen)| {
            let of_threads = matches!(chosen.rate, Rate::Every(_)) && chosen.wanted.probe.is_none();
            let (scope, bound) = if of_threads { threads } else { samples };
            chosen.extra_events(request, scope, bound)
        };
        self.chosen.iter().enumerate().flat_map(of).collect()
    }
}

impl Chosen {
    fn try_one(
        wanted: &WantedSamples,
        scope: &Scope,
        options: &Options,
        cpus: &[u32],
    ) -> Result<Self, NotCounted> {
        let event = &wanted.event;
        let not = |why, error| NotCounted { why, error };
        if matches!(event.reach, Reach::SharedBy(_)) {
            return Err(not(WhyNot::WholeMachine, 0));
        }
        if event.attrs.is_empty() {
            return Err(not(WhyNot::NotThere, libc::ENOENT));
        }
        let rate = match wanted.period {
            Some(period) => Rate::Every(period.max(1)),
            None if event.kind.is_of_hardware() || event.unit == Unit::Nanoseconds => {
                Rate::Hertz(options.frequency_hz)
            }
            None => Rate::Every(1),
        };
        let of_kernel = happens_in_kernel(event);
        let leaves_out = options.user_only && !event.sets_modes && !of_kernel;
        let attrs = if leaves_out { user_only(&event.attrs) } else { event.attrs.clone() };
        let bound = match scope {
            Scope::Group(_) | Scope::System => Bound::Cpu,
            Scope::Threads(_) => Bound::Thread { enable_on_exec: false },
        };
        let chosen = Self { wanted: wanted.clone(), rate, without_kernel: false, attrs };
        let opens = |chosen: &Self| match try_open(&chosen.extra_events(0, scope, bound), cpus) {
            Ok(()) => Ok(()),
            Err(error) => Err(error.raw_os_error().unwrap_or(libc::EINVAL)),
        };
        let error = match opens(&chosen) {
            Ok(()) => return Ok(chosen),
            Err(error) => error,
        };
        let is_refusal = |error| matches!(error, libc::EACCES | libc::EPERM);
        if is_refusal(error) && !event.sets_modes && event.kind != Kind::Uprobe && !of_kernel {
            let without = Self { without_kernel: true, attrs: user_only(&chosen.attrs), ..chosen.clone() };
            match opens(&without) {
                Ok(()) => return Ok(without),
                // Some PMUs cannot count user and kernel mode separately.
                Err(libc::EINVAL | libc::EOPNOTSUPP) => return Err(not(WhyNot::NeedsKernel, error)),
                Err(error) if !is_refusal(error) => return Err(not(WhyNot::of_error(error), error)),
                Err(_) => {}
            }
        }
        if is_refusal(error) {
            // Distinguishes a refusal of this event from a refusal of all events.
            let clock = Self { attrs: user_only(&CLOCK), wanted: without_probe(wanted), ..chosen };
            let level = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
            let own_process = Scope::Threads(vec![std::process::id()]);
            let for_self = || {
                try_open(&clock.extra_events(0, &own_process, Bound::Thread { enable_on_exec: false }), cpus)
            };
            let why = match opens(&clock) {
                Ok(()) if of_kernel => WhyNot::NeedsKernel,
                Err(_) if level.is_none_or(|level| level <= 2) && for_self().is_err() => WhyNot::Filtered,
                _ => WhyNot::Refused,
            };
            return Err(not(why, error));
        }
        let counts = || {
            let mut extra = chosen.extra_events(0, scope, bound);
            extra.iter_mut().for_each(|extra| {
                extra.attr.__bindgen_anon_1.sample_period = 0;
                extra.attr.set_freq(0);
                extra.attr.set_precise_ip(0);
            });
            try_open(&extra, cpus).is_ok()
        };
        let why = match error {
            libc::EOPNOTSUPP | libc::EINVAL if counts() => WhyNot::NoSamples,
            error => WhyNot::of_error(error),
        };
        Err(not(why, error))
    }

    fn extra_events(&self, request: usize, scope: &Scope, bound: Bound) -> Vec<ExtraEvent> {
        let file = self.wanted.probe.as_ref().and_then(|probe| {
            // A path that contains a NUL byte does not exist.
            CString::new(probe.file.as_os_str().as_bytes()).ok()
        });
        let several = self.attrs.len() > 1;
        let extra = |attr: Attr| {
            let mut attr = kernel_attr(&attr, self.rate, bound);
            if file.is_some() {
                attr.set_inherit(0);
            }
            ExtraEvent {
                role: EventRole::Requested(request),
                ring: RingKind::Requested,
                attr,
                scope: scope.clone(),
                file: file.clone(),
                on_some_cpus: several,
            }
        };
        self.attrs().map(extra).collect()
    }

    /// What to open: one event per kind of CPU, or one per location of a function.
    fn attrs(&self) -> impl Iterator<Item = Attr> + '_ {
        let places = self.wanted.probe.as_ref().map_or(&[][..], |probe| &probe.offsets[..]);
        let at = |attr: &Attr, offset| Attr { configs: [attr.configs[0], 0, offset], ..*attr };
        let probes = self
            .attrs
            .first()
            .into_iter()
            .flat_map(move |attr| places.iter().map(move |offset| at(attr, *offset)));
        let whole = if places.is_empty() { &self.attrs[..] } else { &[] };
        whole.iter().copied().chain(probes)
    }

    /// The weight of a sample that does not carry its own.
    pub(crate) fn period(&self) -> u64 {
        if let Rate::Every(period) = self.rate { period } else { 1 }
    }

    pub(crate) fn metric(&self) -> Metric<&str> {
        let sampled = |rate_hz| Origin::Sampled(Sampler { trigger: Trigger::Event, rate_hz });
        let origin = match self.rate {
            Rate::Every(1) => Origin::Counted,
            Rate::Every(_) => sampled(0),
            Rate::Hertz(hz) => sampled(hz),
        };
        let unit = match self.wanted.event.unit {
            Unit::Nanoseconds => whyslow_profile::Unit::Nanoseconds,
            _ => whyslow_profile::Unit::Count,
        };
        Metric::event(&self.wanted.name, unit, origin)
    }

    /// The note for an event that the kernel counted more often than it reached the rings. Each thread and
    /// CPU ends with an incomplete period, which is not a loss.
    fn missed(&self, missing: u64, recorded: u64) -> Option<RecordingNote> {
        /// If the program still runs, the counts are read slightly later than the last sample.
        const AT_END: u64 = 16;
        let Rate::Every(period) = self.rate else { return None };
        let happened = recorded.saturating_add(missing);
        let remainders = if period > 1 { happened / 100 } else { 0 };
        (missing > AT_END.saturating_mul(period).max(remainders)).then(|| RecordingNote::EventsMissed {
            event: self.wanted.name.clone(),
            happened,
            recorded,
            period,
        })
    }
}

fn without_probe(wanted: &WantedSamples) -> WantedSamples {
    WantedSamples { probe: None, ..wanted.clone() }
}

fn user_only(attrs: &[Attr]) -> Vec<Attr> {
    attrs.iter().map(|attr| Attr { exclude_kernel: true, exclude_hypervisor: true, ..*attr }).collect()
}

/// The kernel's attributes: a sample has the same parts as a CPU time sample.
fn kernel_attr(event: &Attr, rate: Rate, bound: Bound) -> sys::perf_event_attr {
    let frequency_hz = if let Rate::Hertz(hz) = rate { hz } else { 0 };
    let plan = Plan {
        cycles: false,
        precise: 0,
        kernel: !event.exclude_kernel,
        frequency_hz,
        stack_bytes: 0,
        bound,
    };
    let mut attr = perf::extra_event_attr(plan);
    attr.type_ = event.kind;
    attr.config = event.configs[0];
    attr.__bindgen_anon_3.config1 = event.configs[1];
    attr.__bindgen_anon_4.config2 = event.configs[2];
    attr.set_exclude_user(u64::from(event.exclude_user));
    attr.set_precise_ip(u64::from(event.precise));
    if let Rate::Every(period) = rate {
        attr.__bindgen_anon_1.sample_period = period;
        attr.set_freq(0);
        // If PERF_SAMPLE_PERIOD is set, the kernel samples every occurrence of a software event, whatever the
        // period is.
        attr.sample_type &= !u64::from(sys::PERF_SAMPLE_PERIOD);
    }
    attr
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(rate: Rate) -> sys::perf_event_attr {
        let event = Attr { kind: 1, configs: [2, 3, 4], exclude_kernel: true, precise: 1, ..Attr::default() };
        kernel_attr(&event, rate, Bound::Thread { enable_on_exec: true })
    }

    #[test]
    fn samples_with_a_fixed_period_do_not_carry_it() {
        let every = attr(Rate::Every(100));
        assert_eq!((every.type_, every.config, every.exclude_kernel(), every.precise_ip()), (1, 2, 1, 1));
        assert_eq!((every.freq(), every.sample_type & u64::from(sys::PERF_SAMPLE_PERIOD)), (0, 0));
        assert_eq!((every.inherit(), every.enable_on_exec(), every.mmap2(), every.task()), (1, 1, 0, 0));
        let by_time = attr(Rate::Hertz(997));
        assert_eq!(by_time.freq(), 1);
        assert_ne!(by_time.sample_type & u64::from(sys::PERF_SAMPLE_PERIOD), 0);
    }

    fn chosen(name: &str, period: Option<u64>) -> Result<Chosen, NotCounted> {
        let event = whyslow_events::Machine::this().event(name).unwrap();
        let wanted = WantedSamples { name: name.to_owned(), event, period, probe: None };
        let scope = Scope::Threads(vec![std::process::id()]);
        Chosen::try_one(&wanted, &scope, &Options::default(), &whyslow_proc::machine::online_cpus())
    }

    #[test]
    fn software_events_are_sampled_every_time_and_clocks_at_a_rate() {
        let Ok(faults) = chosen("page-faults", None) else { return };
        assert_eq!((faults.rate, faults.metric().origin), (Rate::Every(1), Origin::Counted));
        let some = chosen("page-faults", Some(10)).unwrap();
        assert_eq!(
            (some.rate, some.period(), some.metric().origin.label()),
            (Rate::Every(10), 10, "sampled")
        );
        let clock = chosen("task-clock", None).unwrap();
        assert_eq!(clock.rate, Rate::Hertz(997));
        assert_eq!(clock.metric().unit, whyslow_profile::Unit::Nanoseconds);
    }

    #[test]
    fn reports_missing_samples_beyond_incomplete_periods() {
        let Ok(faults) = chosen("page-faults", None) else { return };
        assert_eq!(faults.missed(10, 990), None);
        assert!(faults.missed(100, 99_900).is_some());
        let some = chosen("page-faults", Some(100)).unwrap();
        assert_eq!(some.missed(1_000, 9_000), None, "incomplete periods");
        assert!(matches!(
            some.missed(9_000, 1_000),
            Some(RecordingNote::EventsMissed { happened: 10_000, recorded: 1_000, period: 100, .. })
        ));
    }
}
