//! `whyslow list`: the events of this machine, and which of them can be counted.

use clap::Args;
use whyslow_analyze::stat::{CountNote, Permission, Scope, why_not};
use whyslow_events::{CountedEvent, Event, EventError, Kind, Machine, Measured, NotCounted, Reading, WhyNot};
use whyslow_proc::kernel::Settings;
use whyslow_render::text::EventGroup;
use whyslow_render::{json, text};
use whyslow_words::{Count, Fact, Remark};

use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::{output, terminal};

/// List the events that this machine can count
#[derive(Debug, Args)]
#[command(after_help = "\
whyslow tries each event; if one cannot be counted, the list says why. Two more
forms work: r01c2 (a CPU event by number) and cpu/event=0x3c,umask=0/ (by its
fields). A suffix restricts an event: :u counts in user mode, :k in the kernel,
:p and :pp make samples name the exact instruction.

Examples:
  whyslow list                all kinds, with tracepoints summed up
  whyslow list miss           events with `miss` in their name
  whyslow list sched:         tracepoints of one kernel subsystem")]
pub(crate) struct ListArgs {
    /// List only events with this text in their name
    pattern: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// Prints the list.
pub(crate) fn run(args: &ListArgs, _: Volume) -> Result<Exit> {
    let machine = Machine::this();
    let pattern = args.pattern.as_deref().map(str::to_lowercase);
    let fits =
        |event: &Event| pattern.as_ref().is_none_or(|pattern| event.name.to_lowercase().contains(pattern));
    let listed: Vec<Event> = machine.list().into_iter().filter(fits).collect();
    if let (Some(pattern), true) = (&args.pattern, listed.is_empty()) {
        return Err(Failure::new(format!("no event has `{pattern}` in its name")).next("whyslow list"));
    }
    let events = tried(listed);
    let level = Settings::now().perf_event_paranoid;
    let remarks = remarks(&machine, &events, level);
    let answer = match args.format {
        Format::Json => json::to_string(&json::list(&events, &remarks))
            .map_err(|error| Failure::new(format!("list: {error}")))?,
        Format::Text => {
            let groups = groups(&events, args.pattern.is_some(), level);
            text::events(&groups, &remarks, terminal::width(std::io::stdout()))
        }
    };
    output::print(&answer)?;
    Ok(Exit::Success)
}

/// Tries each event. Of tracepoints, only the first: either all are permitted or none, and each try takes
/// time.
fn tried(events: Vec<Event>) -> Vec<CountedEvent> {
    let tracepoint = events.iter().find(|event| event.kind == Kind::Tracepoint);
    let of_tracepoints = tracepoint.map(|event| whyslow_capture::try_events(std::slice::from_ref(event))[0]);
    let (tracepoints, others): (Vec<_>, Vec<_>) =
        events.into_iter().partition(|event| event.kind == Kind::Tracepoint);
    let states = whyslow_capture::try_events(&others);
    let others = others.into_iter().zip(states).map(|(event, state)| CountedEvent { event, state });
    let tracepoints = tracepoints.into_iter().zip(std::iter::repeat(of_tracepoints));
    let tracepoints = tracepoints.filter_map(|(event, state)| Some(CountedEvent { event, state: state? }));
    others.chain(tracepoints).collect()
}

/// Notes on what is missing altogether, in the words of `whyslow stat`.
fn remarks(machine: &Machine, events: &[CountedEvent], level: Option<i64>) -> Vec<Remark> {
    let of = |keep: fn(&CountedEvent) -> bool| events.iter().filter(move |event| keep(event)).cloned();
    let usual: Vec<CountedEvent> = of(|event| match event.event.kind {
        Kind::Hardware | Kind::Cache => true,
        // The rows of counted events say where they count.
        Kind::Software => event.state != Ok(true),
        _ => false,
    })
    .collect();
    let measured = Measured {
        duration_ns: 0,
        total: Reading { counts: vec![None; usual.len()], ..Reading::default() },
        series: Vec::new(),
        threads: Vec::new(),
        cpus: 0,
        whole_machine: false,
        uncounted_ns: 0,
        events: usual,
    };
    let allowed = Permission { level, own: false };
    let notes = CountNote::of_run(&measured, Scope::Program, usize::MAX, allowed);
    let mut remarks: Vec<Remark> = notes.iter().map(Fact::remark).collect();
    if let Some(missing) = machine.tracepoints_missing() {
        let hidden = matches!(missing, EventError::TracepointsHidden { .. });
        remarks.push(CountNote::NoTracepoints { hidden }.remark());
    }
    remarks
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Hardware, "Hardware events, counted by the CPU"),
    (Kind::Cache, "Cache events, counted by the CPU"),
    (Kind::Software, "Software events, counted by the kernel"),
    (Kind::Unit, "Events of other units of this machine"),
    (Kind::Tracepoint, "Tracepoints in the kernel"),
];

/// The events by kind. A reason that holds for a whole kind is given once.
fn groups(events: &[CountedEvent], whole: bool, level: Option<i64>) -> Vec<EventGroup<'static>> {
    let group = |(kind, title): &(Kind, &'static str)| {
        let of_kind: Vec<&CountedEvent> = events.iter().filter(|event| event.event.kind == *kind).collect();
        let first = of_kind.first()?.state;
        let same = of_kind.iter().all(|event| event.state == first);
        let words = |not: NotCounted| short_reason(*kind, not, level);
        let remark = match first {
            Err(not) if same => Some(format!("none here: {}", words(not))),
            _ => None,
        };
        let rows = of_kind.iter().map(|CountedEvent { event, state }| {
            let not = match state {
                Err(not) if !same => Some(words(*not)),
                Ok(true) => Some("user mode only".to_owned()),
                _ => None,
            };
            (event.name.clone(), event.description.clone(), not)
        });
        if *kind == Kind::Tracepoint && !whole {
            let hint = "`whyslow list sched:` lists one subsystem".to_owned();
            let remark = Some(remark.unwrap_or(hint));
            return Some(EventGroup {
                title,
                remark,
                words: Some(parts_of_kernel(&of_kind)),
                rows: Vec::new(),
            });
        }
        Some(EventGroup { title, remark, words: None, rows: rows.collect() })
    };
    KINDS.iter().filter_map(group).collect()
}

fn short_reason(kind: Kind, not: NotCounted, level: Option<i64>) -> String {
    match not.why {
        WhyNot::WholeMachine => "only with -a".to_owned(),
        // The fix is given once, below.
        _ => why_not(kind, not, level).0,
    }
}

/// The number of tracepoints per kernel subsystem: listing thousands would not help.
fn parts_of_kernel(tracepoints: &[&CountedEvent]) -> String {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    for event in tracepoints {
        let part = event.event.name.split(':').next().unwrap_or_default();
        match counts.last_mut() {
            Some((last, count)) if *last == part => *count += 1,
            _ => counts.push((part, 1)),
        }
    }
    counts.iter().map(|(part, count)| format!("{part}: {}", Count(*count))).collect::<Vec<_>>().join(", ")
}
