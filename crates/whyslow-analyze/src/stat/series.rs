//! The numbers of each interval and each thread.

use whyslow_events::{Measured, Reading};

use super::numbers::cpu_ns;
use super::{Number, NumberUnit, seen, whole};

/// An interval of the time series and its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Its start, since the start of the run.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Its numbers; the same ones for all intervals.
    pub numbers: Vec<Number>,
}

/// A thread and its numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadRow {
    /// Its process.
    pub pid: u32,
    /// Its number.
    pub tid: u32,
    /// Its last name.
    pub name: String,
    /// Its numbers; the same ones for all threads.
    pub numbers: Vec<Number>,
}

/// The intervals of a run, starting with index `from`. Events from index `asked` on were requested by the
/// user.
pub fn intervals(measured: &Measured, asked: usize, from: usize) -> Vec<Interval> {
    let zero = Reading { counts: vec![None; measured.events.len()], ..Reading::default() };
    let befores = std::iter::once(&zero).chain(&measured.series);
    let pairs = befores.zip(&measured.series).skip(from);
    pairs.map(|(before, now)| interval(measured, before, now, asked)).collect()
}

fn interval(measured: &Measured, before: &Reading, now: &Reading, asked: usize) -> Interval {
    let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before.unwrap_or(0)));
    let mut usage = now.usage;
    usage.user_ns = less(usage.user_ns, before.usage.user_ns);
    usage.system_ns = less(usage.system_ns, before.usage.system_ns);
    usage.minor_faults = less(usage.minor_faults, before.usage.minor_faults);
    usage.major_faults = less(usage.major_faults, before.usage.major_faults);
    let counts = now.counts.iter().zip(&before.counts);
    let difference = Reading {
        at_ns: now.at_ns.saturating_sub(before.at_ns),
        usage,
        counts: counts.map(|(now, before)| Some(now.as_ref()?.since(before.unwrap_or_default()))).collect(),
    };
    let mut row = Vec::new();
    let wall = difference.at_ns as f64;
    if let Some(cpu) = cpu_ns(measured, &difference).filter(|_| wall > 0.0) {
        row.push(Number::new("cpus-used", "CPUs used", NumberUnit::Ratio, cpu / wall, ""));
    }
    row.extend(columns(measured, &difference, asked));
    Interval { start_ns: before.at_ns, end_ns: now.at_ns, numbers: row }
}

/// The threads of a run, most CPU time first.
pub fn threads(measured: &Measured, asked: usize) -> Vec<ThreadRow> {
    let mut rows: Vec<(f64, ThreadRow)> = measured
        .threads
        .iter()
        .map(|thread| {
            let reading = Reading { counts: thread.counts.clone(), ..Reading::default() };
            let cpu = cpu_ns(measured, &reading).unwrap_or(0.0);
            let mut row = vec![Number::new("cpu-time", "CPU time", NumberUnit::Nanoseconds, cpu, "")];
            row.extend(columns(measured, &reading, asked));
            (cpu, ThreadRow { pid: thread.pid, tid: thread.tid, name: thread.name.clone(), numbers: row })
        })
        .collect();
    rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The numbers of an interval or a thread besides time: page faults, context switches, CPU counters, and
/// requested events.
fn columns(measured: &Measured, reading: &Reading, asked: usize) -> Vec<Number> {
    let count = |name: &str, label: &str, value: Option<f64>| {
        value.map(|value| Number::new(name, label, NumberUnit::Count, value, ""))
    };
    let minor =
        whole(measured, reading, "minor-faults").or(reading.usage.minor_faults.map(|faults| faults as f64));
    let major =
        whole(measured, reading, "major-faults").or(reading.usage.major_faults.map(|faults| faults as f64));
    let mut row: Vec<Number> = [
        count("minor-faults", "minor faults", minor),
        count("major-faults", "major faults", major),
        count("context-switches", "switches", whole(measured, reading, "context-switches")),
        count("cpu-migrations", "migrations", whole(measured, reading, "cpu-migrations")),
    ]
    .into_iter()
    .flatten()
    .collect();
    let events = measured.events.iter().enumerate();
    let named = events
        .filter(|(at, event)| *at >= asked || matches!(event.event.name.as_str(), "cycles" | "instructions"));
    for (_, event) in named {
        let name = event.event.name.as_str();
        if row.iter().any(|number| number.name == name) {
            continue;
        }
        if let Some(seen) = seen(measured, reading, name) {
            let unit = match &event.event.unit {
                whyslow_events::Unit::Count => NumberUnit::Count,
                whyslow_events::Unit::Nanoseconds => NumberUnit::Nanoseconds,
                whyslow_events::Unit::Other(unit) => NumberUnit::Other(unit.clone()),
            };
            // In an interval without running threads nothing was counted.
            let value = seen.value().unwrap_or(0.0);
            let number = Number::new(name, name, unit, value, "");
            row.push(Number {
                running_share: seen.count.running_share(),
                user_only: seen.is_user_only(),
                ..number
            });
        }
    }
    let of =
        |name: &str| seen(measured, reading, name).and_then(|seen| seen.value()).filter(|value| *value > 0.0);
    if let (Some(instructions), Some(cycles)) = (of("instructions"), of("cycles")) {
        row.push(Number::new("ipc", "IPC", NumberUnit::Ratio, instructions / cycles, ""));
    }
    row
}

#[cfg(test)]
mod tests {
    use whyslow_events::{Count, ThreadReading, Usage};

    use super::super::testing::measured;
    use super::*;

    fn value(numbers: &[Number], name: &str) -> Option<f64> {
        numbers.iter().find(|number| number.name == name).map(|number| number.value)
    }

    fn count(value: u64, ns: u64) -> Option<Count> {
        Some(Count { value, enabled_ns: ns, running_ns: ns })
    }

    #[test]
    fn interval_has_the_increase_of_its_counters() {
        let mut run = measured(&[("task-clock", 0), ("page-faults", 0)]);
        let reading = |at_ns, clock, faults| Reading {
            at_ns,
            counts: vec![count(clock, clock), count(faults, clock)],
            ..Reading::default()
        };
        run.series = vec![reading(1000, 500, 7), reading(2000, 2500, 7), reading(2500, 2500, 9)];
        let rows = intervals(&run, 1, 0);
        let used: Vec<_> = rows.iter().map(|row| value(&row.numbers, "cpus-used").unwrap()).collect();
        assert_eq!(used, [0.5, 2.0, 0.0]);
        let faults: Vec<_> = rows.iter().map(|row| value(&row.numbers, "page-faults").unwrap()).collect();
        assert_eq!(faults, [7.0, 0.0, 2.0]);
        assert_eq!((rows[1].start_ns, rows[1].end_ns), (1000, 2000));
        let sum: f64 = faults.iter().sum();
        assert_eq!(sum, 9.0, "intervals add up to the whole");
    }

    #[test]
    fn without_counters_intervals_use_the_kernels_accounting() {
        let mut run = measured(&[]);
        let reading = |at_ns, user_ns| Reading {
            at_ns,
            usage: Usage {
                user_ns: Some(user_ns),
                system_ns: Some(0),
                minor_faults: Some(user_ns / 100),
                ..Usage::default()
            },
            counts: Vec::new(),
        };
        run.series = vec![reading(1000, 1000), reading(2000, 1500)];
        let rows = intervals(&run, 0, 0);
        assert_eq!(value(&rows[1].numbers, "cpus-used"), Some(0.5));
        assert_eq!(value(&rows[1].numbers, "minor-faults"), Some(5.0));
    }

    #[test]
    fn threads_are_sorted_by_cpu_time() {
        let mut run = measured(&[("task-clock", 0), ("cycles", 0), ("instructions", 0)]);
        let thread = |tid, clock, instructions| ThreadReading {
            pid: 1,
            tid,
            name: format!("thread-{tid}"),
            counts: vec![count(clock, clock), count(100, clock), count(instructions, clock)],
        };
        run.threads = vec![thread(1, 10, 50), thread(2, 30, 150)];
        let rows = threads(&run, 3);
        assert_eq!(rows.iter().map(|row| row.tid).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(
            (value(&rows[0].numbers, "cpu-time"), value(&rows[0].numbers, "ipc")),
            (Some(30.0), Some(1.5))
        );
    }
}
