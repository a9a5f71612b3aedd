//! Counted and available events as JSON; `docs/stat-json.md` describes it.

use serde::Serialize;
use serde_json::{Map, Value};
use whyslow_analyze::stat::{Interval, Number, Scope, Spread, ThreadRow};
use whyslow_events::{CountedEvent, NotCounted};
use whyslow_profile::{ExitStatus, Host};
use whyslow_words::Remark;

use super::RemarkJson;

/// The name and version of the schema of `whyslow stat`.
pub const STAT_SCHEMA: &str = "whyslow-stat/1";
/// The name and version of the schema of `whyslow list`.
pub const LIST_SCHEMA: &str = "whyslow-list/1";

/// The contents of a `whyslow stat` document.
#[derive(Debug, Clone, Copy)]
pub struct StatDocument<'a> {
    /// The processes and CPUs that were counted.
    pub scope: Scope,
    /// Its command line.
    pub command: &'a [String],
    /// The machine.
    pub host: &'a Host,
    /// How each run ended; empty if no command was started.
    pub exits: &'a [Option<ExitStatus>],
    /// The number of runs.
    pub runs: usize,
    /// The numbers.
    pub spreads: &'a [Spread],
    /// The events, and whether each is counted.
    pub events: &'a [CountedEvent],
    /// The intervals of each run, if requested.
    pub series: &'a [Vec<Interval>],
    /// The threads of each run, if requested.
    pub threads: &'a [Vec<ThreadRow>],
    /// Notes and warnings.
    pub remarks: &'a [Remark],
}

#[derive(Serialize)]
struct Stat<'a> {
    schema: &'static str,
    scope: &'static str,
    command: &'a [String],
    host: &'a Host,
    runs: usize,
    exits: &'a [Option<ExitStatus>],
    numbers: Vec<NumberJson<'a>>,
    events: Vec<EventJson<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    series: Vec<Vec<IntervalJson>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    threads: Vec<Vec<ThreadJson<'a>>>,
    remarks: Vec<RemarkJson>,
}

#[derive(Serialize)]
struct NumberJson<'a> {
    name: &'a str,
    unit: &'a str,
    value: f64,
    at_most: bool,
    user_only: bool,
    running_share: Option<f64>,
    median: f64,
    margin: Option<f64>,
    values: &'a [f64],
    suggests: &'a str,
}

#[derive(Serialize)]
struct EventJson<'a> {
    name: &'a str,
    kind: &'static str,
    unit: &'a str,
    description: &'a str,
    counted: bool,
    user_only: bool,
    #[serde(flatten)]
    not: WhyJson,
}

#[derive(Serialize)]
struct WhyJson {
    why_not: Option<&'static str>,
    error: Option<i32>,
}

impl From<Option<NotCounted>> for WhyJson {
    fn from(not: Option<NotCounted>) -> Self {
        Self {
            why_not: not.map(|not| not.why.label()),
            error: not.map(|not| not.error).filter(|error| *error != 0),
        }
    }
}

impl<'a> From<&'a CountedEvent> for EventJson<'a> {
    fn from(CountedEvent { event, state }: &'a CountedEvent) -> Self {
        Self {
            name: &event.name,
            kind: event.kind.label(),
            unit: event.unit.label(),
            description: &event.description,
            counted: state.is_ok(),
            user_only: *state == Ok(true),
            not: state.err().into(),
        }
    }
}

#[derive(Serialize)]
struct IntervalJson {
    start_ns: u64,
    end_ns: u64,
    numbers: Map<String, Value>,
}

#[derive(Serialize)]
struct ThreadJson<'a> {
    pid: u32,
    tid: u32,
    name: &'a str,
    numbers: Map<String, Value>,
}

fn by_name(numbers: &[Number]) -> Map<String, Value> {
    numbers.iter().map(|number| (number.name.clone(), Value::from(number.value))).collect()
}

/// A `whyslow stat` document.
pub fn stat<'a>(document: &StatDocument<'a>) -> impl Serialize + 'a {
    let numbers = document.spreads.iter().map(|spread| {
        let number = &spread.number;
        NumberJson {
            name: &number.name,
            unit: number.unit.label(),
            value: number.value,
            at_most: number.at_most,
            user_only: number.user_only,
            running_share: number.running_share,
            median: spread.median,
            margin: spread.margin,
            values: &spread.values,
            suggests: &number.suggests,
        }
    });
    let interval = |interval: &Interval| IntervalJson {
        start_ns: interval.start_ns,
        end_ns: interval.end_ns,
        numbers: by_name(&interval.numbers),
    };
    let series = document.series.iter().map(|intervals| intervals.iter().map(interval).collect());
    let threads = document.threads.iter().map(|threads| {
        let row = |thread: &'a ThreadRow| ThreadJson {
            pid: thread.pid,
            tid: thread.tid,
            name: &thread.name,
            numbers: by_name(&thread.numbers),
        };
        threads.iter().map(row).collect()
    });
    Stat {
        schema: STAT_SCHEMA,
        scope: document.scope.label(),
        command: document.command,
        host: document.host,
        runs: document.runs,
        exits: document.exits,
        numbers: numbers.collect(),
        events: document.events.iter().map(EventJson::from).collect(),
        series: series.collect(),
        threads: threads.collect(),
        remarks: document.remarks.iter().cloned().map(RemarkJson::from).collect(),
    }
}

/// The events of a machine.
pub fn list<'a>(events: &'a [CountedEvent], remarks: &'a [Remark]) -> impl Serialize + 'a {
    #[derive(Serialize)]
    struct List<'a> {
        schema: &'static str,
        events: Vec<EventJson<'a>>,
        remarks: Vec<RemarkJson>,
    }
    List {
        schema: LIST_SCHEMA,
        events: events.iter().map(EventJson::from).collect(),
        remarks: remarks.iter().cloned().map(RemarkJson::from).collect(),
    }
}
