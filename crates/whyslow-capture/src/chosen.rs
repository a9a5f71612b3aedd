//! Events that were asked for: which of them the kernel lets us sample, and how.
//!
//! Each is tried by itself before the program starts, so that one that is refused costs nothing but itself. Their samples have the same
//! parts as those of CPU time, and go into rings of their own: an event that happens a million times a second fills its ring, and CPU
//! time is recorded as before.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use perf_event_open_sys::bindings as sys;
use whyslow_events::{Attr, Event, Kind, NotCounted, Reach, Unit, WhyNot};
use whyslow_profile::{Metric, Origin, RecordingNote, Sampler, Trigger};

use crate::counting::{CLOCK, happens_in_kernel};
use crate::perf::{self, Beside, Bound, Events, Plan, Scope, try_open};
use crate::{Options, Target};

/// An event that is to be sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedSamples {
    /// What its metric is called.
    pub name: String,
    /// The event.
    pub event: Event,
    /// One sample per so many; `None` chooses.
    pub period: Option<u64>,
    /// Where it is in a file, if it is a function.
    pub probe: Option<Probe>,
}

/// Places in the code of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    /// The file.
    pub file: PathBuf,
    /// Bytes from its beginning; a generic function has as many as it has instances.
    pub offsets: Vec<u64>,
}

/// An event that was asked for and is not recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotRecorded {
    /// What its metric would have been called.
    pub name: String,
    /// What kind of event it is.
    pub kind: Kind,
    /// Why not.
    pub not: NotCounted,
}

impl NotRecorded {
    /// The note for the file, with the words of which it is told.
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
    /// Every so many times that it happens.
    Every(u64),
    /// About so often in a second; each sample says what it stands for.
    Hertz(u32),
}

/// An event that the kernel accepts.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    pub(crate) wanted: WantedSamples,
    pub(crate) rate: Rate,
    /// Whether the kernel had to be left out, which nobody has asked for.
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

impl Choice {
    /// Tries each event on whoever is recorded; for a program that is yet to start, on ourselves.
    pub(crate) fn try_all(target: &Target, options: &Options, cpus: &[u32]) -> Self {
        let mut choice = Self { chosen: Vec::new(), refused: options.events_not_there.clone() };
        let whom = match target {
            Target::Command(_) => Scope::Threads(vec![std::process::id()]),
            Target::Processes(pids) => Scope::Threads(pids.clone()),
            Target::System { .. } => Scope::System,
        };
        for wanted in &options.events {
            match Chosen::try_one(wanted, &whom, options, cpus) {
                Ok(chosen) => choice.chosen.push(chosen),
                Err(not) => {
                    let (name, kind) = (wanted.name.clone(), wanted.event.kind);
                    choice.refused.push(NotRecorded { name, kind, not });
                }
            }
        }
        choice
    }

    /// How often each of the opened ones has happened, by the kernel's own count; `before` events are beside CPU time's before these.
    pub(crate) fn happened(&self, events: &Events, before: usize) -> Vec<u64> {
        self.rows().enumerate().map(|(at, _)| events.happened(before + at)).collect()
    }

    /// What the file tells of them, once it is known how often each of the opened ones has happened, how many samples of it were in the rings,
    /// and what sum of each event is recorded.
    pub(crate) fn notes(&self, happened: &[u64], samples: &[u64], recorded: &[u64]) -> Vec<RecordingNote> {
        let mut notes: Vec<RecordingNote> = self.refused.iter().map(NotRecorded::note).collect();
        let without_kernel = self.chosen.iter().filter(|chosen| chosen.without_kernel);
        let events: Vec<String> = without_kernel.map(|chosen| chosen.wanted.name.clone()).collect();
        if !events.is_empty() {
            let level = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
            notes.push(RecordingNote::EventsInUserMode { events, level });
        }
        let mut missing = vec![0u64; self.chosen.len()];
        for (row, (happened, samples)) in self.rows().zip(happened.iter().zip(samples)) {
            missing[row] += happened.saturating_sub(samples.saturating_mul(self.chosen[row].period()));
        }
        let counts = missing.iter().zip(recorded);
        let missed = self.chosen.iter().zip(counts);
        notes.extend(missed.filter_map(|(chosen, (missing, recorded))| chosen.missed(*missing, *recorded)));
        notes
    }

    /// The events to open beside that of CPU time, in the order of [`Choice::rows`]. Those of which every occurrence is
    /// to be seen are bound to the recorded threads; the others are bound as CPU time is, so that short threads have their share. So are
    /// functions: a thread that inherits one fails to start, since the kernel looks for the file's name in the memory of whoever starts it.
    pub(crate) fn beside(&self, threads: (&Scope, Bound), samples: (&Scope, Bound)) -> Vec<Beside> {
        let of = |chosen: &Chosen| {
            let of_threads = matches!(chosen.rate, Rate::Every(_)) && chosen.wanted.probe.is_none();
            let (scope, bound) = if of_threads { threads } else { samples };
            chosen.beside(scope, bound)
        };
        self.chosen.iter().flat_map(of).collect()
    }

    /// The event that each of the opened ones is of.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.chosen.iter().enumerate().flat_map(|(at, chosen)| chosen.attrs().map(move |_| at))
    }
}

impl Chosen {
    fn try_one(
        wanted: &WantedSamples,
        whom: &Scope,
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
        let leaves_out = options.user_only && !event.says_where && !of_kernel;
        let attrs = if leaves_out { user_only(&event.attrs) } else { event.attrs.clone() };
        let bound = match whom {
            Scope::System => Bound::Cpu,
            Scope::Threads(_) => Bound::Thread { enable_on_exec: false },
        };
        let chosen = Self { wanted: wanted.clone(), rate, without_kernel: false, attrs };
        let opens = |chosen: &Self| match try_open(&chosen.beside(whom, bound), cpus) {
            Ok(()) => Ok(()),
            Err(error) => Err(error.raw_os_error().unwrap_or(libc::EINVAL)),
        };
        let error = match opens(&chosen) {
            Ok(()) => return Ok(chosen),
            Err(error) => error,
        };
        let is_refusal = |error| matches!(error, libc::EACCES | libc::EPERM);
        if is_refusal(error) && !event.says_where && event.kind != Kind::Uprobe && !of_kernel {
            let without = Self { without_kernel: true, attrs: user_only(&chosen.attrs), ..chosen.clone() };
            match opens(&without) {
                Ok(()) => return Ok(without),
                // Some units cannot tell the kernel's part from the rest.
                Err(libc::EINVAL | libc::EOPNOTSUPP) => return Err(not(WhyNot::NeedsKernel, error)),
                Err(error) if !is_refusal(error) => return Err(not(WhyNot::of_error(error), error)),
                Err(_) => {}
            }
        }
        if is_refusal(error) {
            // Whether it is this event that may not be watched, or nothing may be.
            let clock = Self { attrs: user_only(&CLOCK), wanted: without_probe(wanted), ..chosen };
            let level = whyslow_proc::kernel::Settings::now().perf_event_paranoid;
            let ourselves = Scope::Threads(vec![std::process::id()]);
            let of_us = || try_open(&clock.beside(&ourselves, Bound::Thread { enable_on_exec: false }), cpus);
            let why = match opens(&clock) {
                Ok(()) if of_kernel => WhyNot::NeedsKernel,
                Err(_) if level.is_none_or(|level| level <= 2) && of_us().is_err() => WhyNot::Filtered,
                _ => WhyNot::Refused,
            };
            return Err(not(why, error));
        }
        let counts = || {
            let mut beside = chosen.beside(whom, bound);
            beside.iter_mut().for_each(|beside| {
                beside.attr.__bindgen_anon_1.sample_period = 0;
                beside.attr.set_freq(0);
                beside.attr.set_precise_ip(0);
            });
            try_open(&beside, cpus).is_ok()
        };
        let why = match error {
            libc::EOPNOTSUPP | libc::EINVAL if counts() => WhyNot::NoSamples,
            error => WhyNot::of_error(error),
        };
        Err(not(why, error))
    }

    fn beside(&self, scope: &Scope, bound: Bound) -> Vec<Beside> {
        let file = self.wanted.probe.as_ref().and_then(|probe| {
            // A path with a zero in it leads nowhere.
            CString::new(probe.file.as_os_str().as_bytes()).ok()
        });
        let several = self.attrs.len() > 1;
        let beside = |attr: Attr| {
            let mut attr = kernel_attr(&attr, self.rate, bound);
            if file.is_some() {
                attr.set_inherit(0);
            }
            Beside {
                attr,
                scope: scope.clone(),
                file: file.clone(),
                apart: true,
                rationed: false,
                on_some_cpus: several,
            }
        };
        self.attrs().map(beside).collect()
    }

    /// What is opened: an event for each kind of CPU, or for each place of a function.
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

    /// What a sample weighs that does not say so itself.
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

    /// What is to be told when the kernel has counted more of it than was in the rings. Each thread and CPU ends with a part of a
    /// period, which is nobody's loss.
    fn missed(&self, missing: u64, recorded: u64) -> Option<RecordingNote> {
        /// Counts are read a moment after the last sample of a program that runs on.
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

/// The kernel's form: a sample has what one of CPU time has.
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
    let mut attr = perf::beside(plan);
    attr.type_ = event.kind;
    attr.config = event.configs[0];
    attr.__bindgen_anon_3.config1 = event.configs[1];
    attr.__bindgen_anon_4.config2 = event.configs[2];
    attr.set_exclude_user(u64::from(event.exclude_user));
    attr.set_precise_ip(u64::from(event.precise));
    if let Rate::Every(period) = rate {
        attr.__bindgen_anon_1.sample_period = period;
        attr.set_freq(0);
        // Asked for the period, the kernel takes a sample of every occurrence of an event of its own, whatever the period is.
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
    fn a_fixed_period_is_said_by_nobody_but_us() {
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
        let whom = Scope::Threads(vec![std::process::id()]);
        Chosen::try_one(&wanted, &whom, &Options::default(), &whyslow_proc::machine::online_cpus())
    }

    #[test]
    fn what_the_kernel_counts_is_seen_every_time_and_clocks_now_and_then() {
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
    fn what_is_missing_is_told_if_it_is_more_than_remainders() {
        let Ok(faults) = chosen("page-faults", None) else { return };
        assert_eq!(faults.missed(10, 990), None);
        assert!(faults.missed(100, 99_900).is_some());
        let some = chosen("page-faults", Some(100)).unwrap();
        assert_eq!(some.missed(1_000, 9_000), None, "parts of periods");
        assert!(matches!(
            some.missed(9_000, 1_000),
            Some(RecordingNote::EventsMissed { happened: 10_000, recorded: 1_000, period: 100, .. })
        ));
    }
}
