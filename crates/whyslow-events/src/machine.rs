//! The events of a machine: turns event names into attributes, from the files under a root folder.

use std::path::{Path, PathBuf};
use std::{fs, io};

use whyslow_words::nearest;

use crate::grammar::{Modifiers, Spec, Term, What};
use crate::known::{self, Known, TYPE_CACHE, TYPE_HARDWARE, TYPE_RAW, TYPE_SOFTWARE, TYPE_TRACEPOINT};
use crate::measured::WhyNot;
use crate::units::{Configs, MeasuringUnit, TermError, is_plain, names};

/// The `perf_event_attr` fields of an event as plain numbers: the same for counting and for sampling.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Attr {
    /// `type`
    pub kind: u32,
    /// `config`, `config1`, `config2`
    pub configs: [u64; 3],
    /// Exclude user mode.
    pub exclude_user: bool,
    /// Exclude the kernel.
    pub exclude_kernel: bool,
    /// Exclude the hypervisor.
    pub exclude_hypervisor: bool,
    /// How precisely samples name their instruction, 0 to 3.
    pub precise: u8,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Counted by the CPU, with a name that all CPUs understand.
    Hardware,
    /// Counted by the CPU's caches, with a name that all CPUs understand.
    Cache,
    /// Counted by the kernel.
    Software,
    /// An event of a PMU of this machine.
    Unit,
    /// A raw number of the CPU's PMU.
    Raw,
    /// A kernel tracepoint.
    Tracepoint,
    /// The entry of a function of the program.
    Uprobe,
}

impl Kind {
    /// The word used in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Hardware => "hardware",
            Self::Cache => "cache",
            Self::Software => "software",
            Self::Unit => "unit",
            Self::Raw => "raw",
            Self::Tracepoint => "tracepoint",
            Self::Uprobe => "uprobe",
        }
    }

    /// The kind with a label.
    pub fn from_label(word: &str) -> Option<Self> {
        let all = [
            Self::Hardware,
            Self::Cache,
            Self::Software,
            Self::Unit,
            Self::Raw,
            Self::Tracepoint,
            Self::Uprobe,
        ];
        all.into_iter().find(|kind| kind.label() == word)
    }

    /// Whether the CPU counts it.
    pub fn is_of_hardware(self) -> bool {
        matches!(self, Self::Hardware | Self::Cache | Self::Unit | Self::Raw)
    }
}

/// The unit of a count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unit {
    /// Occurrences.
    Count,
    /// Nanoseconds.
    Nanoseconds,
    /// A unit that the machine names, such as `Joules`.
    Other(String),
}

impl Unit {
    /// The word used in JSON.
    pub fn label(&self) -> &str {
        match self {
            Self::Count => "count",
            Self::Nanoseconds => "ns",
            Self::Other(unit) => unit,
        }
    }
}

/// The scope in which an event can be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Threads, or whole CPUs.
    Tasks,
    /// A part of the machine that CPUs share; it is counted through these CPUs.
    SharedBy(Vec<u32>),
}

/// An event of a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its name as written, or as listed.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// A short description.
    pub description: String,
    /// The unit of a count.
    pub unit: Unit,
    /// The factor from a count to the unit.
    pub scale: f64,
    /// One per kind of CPU: a thread is on one kind at a time, so counts add up.
    pub attrs: Vec<Attr>,
    /// The scope in which it can be counted.
    pub reach: Reach,
    /// Whether the user chose the modes; then no mode is excluded automatically.
    pub sets_modes: bool,
}

impl Event {
    /// A tracepoint of which only the name is known: its list cannot be read.
    pub fn unlisted(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind: Kind::Tracepoint,
            description: String::new(),
            unit: Unit::Count,
            scale: 1.0,
            attrs: Vec::new(),
            reach: Reach::Tasks,
            sets_modes: false,
        }
    }
}

/// Why a machine does not have an event. `Display` says so and suggests similar names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// No such name.
    #[error("there is no event `{name}`{}", or_similar(similar))]
    Unknown {
        /// As it was written.
        name: String,
        /// Similar names.
        similar: Vec<String>,
    },
    /// No such PMU.
    #[error("there is no PMU `{unit}` on this machine; it has {}", units.join(", "))]
    NoUnit {
        /// As it was written.
        unit: String,
        /// The PMUs of this machine.
        units: Vec<String>,
    },
    /// The PMU has no such term.
    #[error("the PMU `{unit}` has no `{term}`{}", or_similar(known))]
    NoTerm {
        /// The PMU.
        unit: String,
        /// As it was written.
        term: String,
        /// Similar fields and events.
        known: Vec<String>,
    },
    /// The value has too many bits.
    #[error("the value of `{term}` is too large for the PMU `{unit}`")]
    TooLarge {
        /// The PMU.
        unit: String,
        /// Its field.
        term: String,
    },
    /// An event of the PMU needs further values.
    #[error("the event `{term}` of the PMU `{unit}` needs further values")]
    Incomplete {
        /// The PMU.
        unit: String,
        /// The event.
        term: String,
    },
    /// No such tracepoint.
    #[error("there is no tracepoint `{name}`{}", or_similar(similar))]
    NoTracepoint {
        /// As it was written.
        name: String,
        /// Similar names.
        similar: Vec<String>,
    },
    /// No permission to read the kernel's list of tracepoints.
    #[error("only root may read the list of tracepoints, so `{name}` cannot be found")]
    TracepointsHidden {
        /// As it was written.
        name: String,
    },
    /// There is no list of tracepoints.
    #[error("tracefs is not mounted, so the tracepoint `{name}` cannot be found")]
    NoTracepoints {
        /// As it was written.
        name: String,
    },
}

impl EventError {
    /// Why a correctly named event is unavailable; `None` if the name is wrong.
    pub fn refusal(&self) -> Option<WhyNot> {
        match self {
            Self::TracepointsHidden { .. } => Some(WhyNot::Hidden),
            Self::NoTracepoints { .. } => Some(WhyNot::NoTracefs),
            _ => None,
        }
    }

    /// The command that would make it available, if there is one.
    pub fn fix(&self) -> Option<&'static str> {
        match self {
            Self::TracepointsHidden { .. } => Some("run whyslow with sudo"),
            Self::NoTracepoints { .. } => Some("sudo mount -t tracefs tracefs /sys/kernel/tracing"),
            _ => None,
        }
    }
}

fn or_similar(similar: &[String]) -> String {
    if similar.is_empty() { String::new() } else { format!("; similar: {}", similar.join(", ")) }
}

/// A machine, as the files under a root folder describe it.
#[derive(Debug)]
pub struct Machine {
    root: PathBuf,
    units: Vec<MeasuringUnit>,
}

/// Where the kernel lists its tracepoints; the second is the older place.
const TRACEFS: [&str; 2] = ["sys/kernel/tracing/events", "sys/kernel/debug/tracing/events"];

impl Machine {
    /// This machine.
    pub fn this() -> Self {
        Self::under(Path::new("/"))
    }

    /// The machine with its `sys` under a root folder.
    pub fn under(root: &Path) -> Self {
        Self { root: root.to_owned(), units: MeasuringUnit::all(root) }
    }

    /// Whether the kernel has a PMU for the CPUs; many virtual machines have none.
    pub fn has_cpu_counters(&self) -> bool {
        self.units.iter().any(MeasuringUnit::is_of_cpus)
    }

    /// Resolves a list of events.
    pub fn resolve_all(&self, specs: &[Spec]) -> Result<Vec<Event>, EventError> {
        specs.iter().map(|spec| self.resolve(spec)).collect()
    }

    /// Resolves one event.
    pub fn resolve(&self, spec: &Spec) -> Result<Event, EventError> {
        let event = match &spec.what {
            What::Named(name) => match known::find(name) {
                Some(known) => self.known(&known),
                None => self.of_cpus(name)?,
            },
            What::Raw(number) => self.raw(*number),
            What::Unit { unit, terms } => self.of_unit(unit, terms)?,
            What::Tracepoint { subsystem, name } => self.tracepoint(subsystem, name)?,
            What::Uprobe { function, returns, .. } => self.uprobe(function, *returns),
        };
        let mut event = modified(event, spec.modifiers);
        event.name.clone_from(&spec.text);
        Ok(event)
    }

    /// An event by its name, without modifiers; `None` if this machine does not have it.
    pub fn event(&self, name: &str) -> Option<Event> {
        let specs = crate::parse(name).ok()?;
        self.resolve(specs.first()?).ok()
    }

    /// All named events, countable or not.
    pub fn list(&self) -> Vec<Event> {
        let mut events: Vec<Event> = known::all().iter().map(|known| self.known(known)).collect();
        for unit in &self.units {
            for name in unit.events() {
                let terms = [Term { name, value: None }];
                events.extend(unit.configs(&terms).ok().map(|configs| event_of(unit, &terms, configs)));
            }
        }
        events.extend(
            self.tracepoints()
                .unwrap_or_default()
                .into_iter()
                .filter_map(|(subsystem, name)| self.tracepoint(&subsystem, &name).ok()),
        );
        events
    }

    /// Why the list has no tracepoints, if it has none.
    pub fn tracepoints_missing(&self) -> Option<EventError> {
        let name = "sched:sched_switch".to_owned();
        self.tracepoints().err().map(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => EventError::TracepointsHidden { name },
            _ => EventError::NoTracepoints { name },
        })
    }

    fn known(&self, known: &Known) -> Event {
        let attr = |kind, config| Attr { kind, configs: [config, 0, 0], ..Attr::default() };
        // Machines with several kinds of CPUs take the number of the PMU in the upper half of the config.
        let per_unit = |kind| {
            let units = self.units.iter().filter(|unit| unit.is_of_some_cpus());
            let attrs: Vec<Attr> =
                units.map(|unit| attr(kind, known.config | u64::from(unit.kind) << 32)).collect();
            if attrs.is_empty() { vec![attr(kind, known.config)] } else { attrs }
        };
        Event {
            name: known.name.clone(),
            kind: known.kind,
            description: known.description.clone(),
            unit: known.unit.clone(),
            scale: 1.0,
            attrs: match known.kind {
                Kind::Software => vec![attr(TYPE_SOFTWARE, known.config)],
                Kind::Cache => per_unit(TYPE_CACHE),
                _ => per_unit(TYPE_HARDWARE),
            },
            reach: Reach::Tasks,
            sets_modes: false,
        }
    }

    /// An event name of a CPU PMU, which needs no slashes.
    fn of_cpus(&self, name: &str) -> Result<Event, EventError> {
        let terms = [Term { name: name.to_owned(), value: None }];
        let units = self.units.iter().filter(|unit| unit.is_of_cpus() && unit.has_event(name));
        let events = units.map(|unit| Ok(event_of(unit, &terms, configs_of(unit, &terms)?)));
        let mut events = events.collect::<Result<Vec<Event>, EventError>>()?.into_iter();
        let Some(mut first) = events.next() else {
            let names = self.list().into_iter().map(|event| event.name);
            return Err(EventError::Unknown { name: name.to_owned(), similar: nearest(name, names) });
        };
        first.attrs.extend(events.flat_map(|event| event.attrs));
        Ok(first)
    }

    fn of_unit(&self, name: &str, terms: &[Term]) -> Result<Event, EventError> {
        let Some(unit) = self.units.iter().find(|unit| unit.name == name) else {
            let units = self.units.iter().map(|unit| unit.name.clone()).collect();
            return Err(EventError::NoUnit { unit: name.to_owned(), units });
        };
        Ok(event_of(unit, terms, configs_of(unit, terms)?))
    }

    fn raw(&self, number: u64) -> Event {
        let attr = |kind| Attr { kind, configs: [number, 0, 0], ..Attr::default() };
        let several = self.units.iter().filter(|unit| unit.is_of_some_cpus());
        let several: Vec<Attr> = several.map(|unit| attr(unit.kind)).collect();
        Event {
            name: format!("r{number:x}"),
            kind: Kind::Raw,
            description: format!("event {number:#x} of the CPU's PMU"),
            unit: Unit::Count,
            scale: 1.0,
            attrs: if several.is_empty() { vec![attr(TYPE_RAW)] } else { several },
            reach: Reach::Tasks,
            sets_modes: false,
        }
    }

    /// The address of the function depends on the program: the code that opens the event sets file and
    /// offset. An event without attributes means that the kernel has no uprobes.
    fn uprobe(&self, function: &str, returns: bool) -> Event {
        let attr = |unit: &MeasuringUnit| Attr {
            kind: unit.kind,
            configs: [u64::from(returns), 0, 0],
            ..Attr::default()
        };
        let what = if returns { "returns from" } else { "calls of" };
        Event {
            name: format!("{}:{function}", if returns { "uretprobe" } else { "uprobe" }),
            kind: Kind::Uprobe,
            description: format!("{what} the function {function}"),
            unit: Unit::Count,
            scale: 1.0,
            attrs: self.units.iter().filter(|unit| unit.name == "uprobe").map(attr).collect(),
            reach: Reach::Tasks,
            sets_modes: false,
        }
    }

    fn tracepoint(&self, subsystem: &str, name: &str) -> Result<Event, EventError> {
        let whole = format!("{subsystem}:{name}");
        let plain = is_plain(subsystem) && is_plain(name);
        let read =
            |folder: &&str| fs::read_to_string(self.root.join(folder).join(subsystem).join(name).join("id"));
        let id = TRACEFS.iter().filter(|_| plain).find_map(|folder| read(folder).ok()?.trim().parse().ok());
        let Some(id) = id else {
            return Err(match self.tracepoints() {
                Ok(all) => {
                    let names = all.into_iter().map(|(subsystem, name)| format!("{subsystem}:{name}"));
                    EventError::NoTracepoint { similar: nearest(&whole, names), name: whole }
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    EventError::TracepointsHidden { name: whole }
                }
                Err(_) => EventError::NoTracepoints { name: whole },
            });
        };
        Ok(Event {
            description: "hits of this kernel tracepoint".to_owned(),
            name: whole,
            kind: Kind::Tracepoint,
            unit: Unit::Count,
            scale: 1.0,
            attrs: vec![Attr { kind: TYPE_TRACEPOINT, configs: [id, 0, 0], ..Attr::default() }],
            reach: Reach::Tasks,
            sets_modes: false,
        })
    }

    /// The byte offset of a field in the data of a tracepoint.
    pub fn field_of_tracepoint(&self, subsystem: &str, name: &str, field: &str) -> Option<usize> {
        let path = |folder: &&str| self.root.join(folder).join(subsystem).join(name).join("format");
        let format = TRACEFS.iter().find_map(|folder| fs::read_to_string(path(folder)).ok())?;
        // `field:pid_t pid;       offset:24;      size:4; signed:1;`; arrays have their length after the
        // name.
        format.lines().find_map(|line| {
            let mut parts = line.trim().strip_prefix("field:")?.split(';');
            let declared = parts.next()?.split_ascii_whitespace().next_back()?;
            let offset = parts.find_map(|part| part.trim().strip_prefix("offset:"))?;
            (declared.split('[').next() == Some(field)).then(|| offset.parse().ok())?
        })
    }

    /// All tracepoints, from the first readable folder. If none is readable, "no permission" is a better
    /// reason than "missing".
    fn tracepoints(&self) -> io::Result<Vec<(String, String)>> {
        let mut reason = io::Error::from(io::ErrorKind::NotFound);
        for folder in TRACEFS.map(|folder| self.root.join(folder)) {
            match names(&folder) {
                Ok(subsystems) => {
                    let of = |subsystem: String| {
                        let names = names(&folder.join(&subsystem)).unwrap_or_default();
                        let is_event =
                            |name: &String| folder.join(&subsystem).join(name).join("id").is_file();
                        names
                            .into_iter()
                            .filter(is_event)
                            .map(|name| (subsystem.clone(), name))
                            .collect::<Vec<_>>()
                    };
                    return Ok(subsystems.into_iter().flat_map(of).collect());
                }
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => reason = error,
                Err(_) => {}
            }
        }
        Err(reason)
    }
}

/// Applies modifiers. Without any, all modes are counted; with some, the others are excluded.
fn modified(mut event: Event, modifiers: Modifiers) -> Event {
    event.sets_modes = modifiers.sets_modes();
    for attr in &mut event.attrs {
        attr.precise = modifiers.precise;
        if modifiers.sets_modes() {
            attr.exclude_user = !modifiers.user;
            attr.exclude_kernel = !modifiers.kernel;
            attr.exclude_hypervisor = !modifiers.hypervisor;
        }
    }
    event
}

fn configs_of(unit: &MeasuringUnit, terms: &[Term]) -> Result<Configs, EventError> {
    unit.configs(terms).map_err(|error| {
        let name = unit.name.clone();
        match error {
            TermError::Unknown(term) => {
                let known = unit.fields().into_iter().chain(unit.events());
                EventError::NoTerm { known: nearest(&term, known), unit: name, term }
            }
            TermError::TooLarge(term) => EventError::TooLarge { unit: name, term },
            TermError::Incomplete(term) => EventError::Incomplete { unit: name, term },
        }
    })
}

fn event_of(unit: &MeasuringUnit, terms: &[Term], Configs(configs): Configs) -> Event {
    let words = terms.iter().map(Term::to_string).collect::<Vec<_>>().join(",");
    let (scale, unit_word) = match terms {
        [Term { name, value: None }] => unit.scale(name),
        _ => (1.0, None),
    };
    Event {
        name: format!("{}/{words}/", unit.name),
        kind: Kind::Unit,
        description: format!("{words} of the PMU {}", unit.name),
        unit: unit_word.map_or(Unit::Count, Unit::Other),
        scale,
        attrs: vec![Attr { kind: unit.kind, configs, ..Attr::default() }],
        reach: unit.shared_by().map_or(Reach::Tasks, Reach::SharedBy),
        sets_modes: false,
    }
}

#[cfg(test)]
mod tests;
