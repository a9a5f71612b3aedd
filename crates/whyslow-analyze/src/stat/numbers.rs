//! The numbers of a run, in display order.

use whyslow_events::{Measured, Reading, Unit};
use whyslow_processor::PAGE;

use super::{Number, NumberUnit, hardware, seen, whole};
use crate::units::share;
use whyslow_words::{Count, Percent, bytes, duration};

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A program, from its start to its exit.
    Program,
    /// Processes, for a while.
    Processes,
    /// Everything on the machine.
    Machine,
}

impl Scope {
    /// The word used in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Program => "program",
            Self::Processes => "processes",
            Self::Machine => "machine",
        }
    }
}

/// All numbers of a run. Events from index `asked` on were requested by the user: each has its own number.
pub fn numbers(measured: &Measured, scope: Scope, asked: usize) -> Vec<Number> {
    let reading = &measured.total;
    let mut numbers = times(measured, reading, scope);
    numbers.extend(memory(measured, reading, scope));
    numbers.extend(switches(measured, reading));
    numbers.extend(input_and_output(reading));
    numbers.extend(hardware::numbers(measured, reading));
    let events = measured.events.iter().zip(&reading.counts).skip(asked);
    for (event, _) in events {
        let known = |number: &Number| number.name == event.event.name;
        if !numbers.iter().any(known) {
            numbers.extend(of_event(measured, reading, &event.event.name));
        }
    }
    numbers
}

/// CPU time: from the threads' clocks where they were counted, else from the kernel's accounting. The clock
/// of a whole CPU also runs while it is idle, so it is not used.
pub(super) fn cpu_ns(measured: &Measured, reading: &Reading) -> Option<f64> {
    let usable = !measured.whole_machine && measured.uncounted_ns == 0;
    let clock = seen(measured, reading, "task-clock").filter(|_| usable).and_then(|seen| seen.value());
    let accounted = || Some((reading.usage.user_ns? + reading.usage.system_ns?) as f64);
    clock.or_else(accounted)
}

fn times(measured: &Measured, reading: &Reading, scope: Scope) -> Vec<Number> {
    let wall = measured.duration_ns as f64;
    let suggests = match scope {
        Scope::Program => "from start to exit, as a user waits for it",
        Scope::Processes | Scope::Machine => "the time that was counted",
    };
    let mut numbers = vec![Number::new("wall-time", "wall time", NumberUnit::Nanoseconds, wall, suggests)];
    let Some(cpu) = cpu_ns(measured, reading) else { return numbers };
    let suggests = match scope {
        Scope::Program => "of all its threads and of the children that it waited for",
        Scope::Processes => "of all their threads",
        Scope::Machine => "of all programs, in user mode and in the kernel",
    };
    numbers.push(Number::new("cpu-time", "CPU time", NumberUnit::Nanoseconds, cpu, suggests));
    if let (Some(user), Some(system)) = (reading.usage.user_ns, reading.usage.system_ns)
        && user + system > 0
    {
        let whose = match scope {
            Scope::Program => "the program and its libraries",
            Scope::Processes | Scope::Machine => "programs and their libraries",
        };
        let parts = [
            ("user-time", "  user", user, format!("code of {whose}")),
            ("system-time", "  system", system, "the kernel, in system calls and page faults".to_owned()),
        ];
        // The kernel also accounts time before the exec, so its numbers only give the ratio of user to system
        // time.
        for (name, label, part, what) in parts {
            let part = share(part, user + system);
            let suggests = format!("{} of the CPU time: {what}", Percent(part));
            numbers.push(Number::new(name, label, NumberUnit::Nanoseconds, cpu * part, suggests));
        }
    }
    if wall > 0.0 {
        let used = cpu / wall;
        let suggests = match scope {
            Scope::Machine => format!("on average, of {}", measured.cpus),
            _ if used < 1.0 => format!(
                "on average, of {}; for {} of the time or more no thread ran: all were blocked or queued for a CPU",
                measured.cpus,
                Percent(1.0 - used)
            ),
            _ => format!("on average, of {}", measured.cpus),
        };
        numbers.push(Number::new("cpus-used", "CPUs used", NumberUnit::Ratio, used, suggests));
    }
    numbers
}

fn memory(measured: &Measured, reading: &Reading, scope: Scope) -> Vec<Number> {
    let usage = &reading.usage;
    let mut numbers = Vec::new();
    if let Some(most) = usage.max_resident_bytes.or(usage.resident_below_bytes) {
        let at_most = usage.max_resident_bytes.is_none();
        let suggests = if at_most {
            "physical memory; at most what whyslow itself has when it starts a program, so the exact size is unknown"
        } else {
            "peak physical memory of the largest process"
        };
        let number = Number::new("max-resident", "max resident", NumberUnit::Bytes, most as f64, suggests);
        numbers.push(Number { at_most, ..number });
    }
    let minor = whole(measured, reading, "minor-faults").or(usage.minor_faults.map(|faults| faults as f64));
    if let Some(minor) = minor {
        // A fault that maps a larger page, or several pages, counts once.
        let touched = (minor * PAGE as f64) as u64;
        let more = usage.max_resident_bytes.is_some_and(|most| touched > most);
        let suggests = format!(
            "first accesses to pages: {} if all have 4 KiB{}",
            bytes(touched),
            if more { ", more than its peak memory" } else { "" }
        );
        numbers.push(Number::new("minor-faults", "minor page faults", NumberUnit::Count, minor, suggests));
    }
    let major = whole(measured, reading, "major-faults").or(usage.major_faults.map(|faults| faults as f64));
    if let Some(major) = major {
        let suggests = match scope {
            _ if major == 0.0 => "no page was read from disk",
            Scope::Machine => "pages read from disk while a thread waited",
            _ => "pages read from disk while it waited; the next run may find them in memory",
        };
        numbers.push(Number::new("major-faults", "major page faults", NumberUnit::Count, major, suggests));
    }
    numbers
}

fn switches(measured: &Measured, reading: &Reading) -> Vec<Number> {
    let usage = &reading.usage;
    let every = |times: f64| match cpu_ns(measured, reading) {
        Some(cpu) if times > 0.0 && cpu > 0.0 => {
            format!("; once per {} of CPU time", duration((cpu / times) as u64))
        }
        _ => String::new(),
    };
    let count = |name: &str, label: &str, value: f64, suggests: String| {
        Number::new(name, label, NumberUnit::Count, value, suggests)
    };
    let mut numbers = Vec::new();
    if let Some(times) = usage.voluntary_switches {
        let suggests = if times == 0 {
            "it never blocked".to_owned()
        } else {
            format!("it blocked on a lock, a timer, input or output{}", every(times as f64))
        };
        numbers.push(count("voluntary-switches", "voluntary switches", times as f64, suggests));
    }
    if let Some(times) = usage.involuntary_switches {
        let suggests = if times == 0 {
            "the scheduler never preempted it".to_owned()
        } else {
            format!("the scheduler preempted it while it could have run on{}", every(times as f64))
        };
        numbers.push(count("involuntary-switches", "involuntary switches", times as f64, suggests));
    }
    if usage.voluntary_switches.is_none()
        && let Some(times) =
            usage.switches.map(|times| times as f64).or_else(|| whole(measured, reading, "context-switches"))
    {
        let suggests = format!("a CPU switched to another thread{}", every(times));
        numbers.push(count("context-switches", "context switches", times, suggests));
    }
    if let Some(times) = whole(measured, reading, "cpu-migrations") {
        let suggests = if times == 0.0 {
            "no thread moved to another CPU".to_owned()
        } else {
            "threads moved to another CPU, where little of their data is cached".to_owned()
        };
        numbers.push(count("cpu-migrations", "CPU migrations", times, suggests));
    }
    numbers
}

fn input_and_output(reading: &Reading) -> Vec<Number> {
    let usage = &reading.usage;
    let size = |name: &str, label: &str, value: u64, suggests: &str| {
        Number::new(name, label, NumberUnit::Bytes, value as f64, suggests)
    };
    let mut numbers = Vec::new();
    if let Some(read) = usage.bytes_read {
        let suggests = "by system calls: files, pipes, sockets, terminals; without mapped files";
        numbers.push(size("bytes-read", "bytes read", read, suggests));
    }
    if let Some(read) = usage.disk_bytes_read {
        let suggests = if read == 0 {
            "everything was in the page cache"
        } else {
            "for system calls and mapped files, including read-ahead; the next run may find it in memory"
        };
        numbers.push(size("disk-bytes-read", "read from disk", read, suggests));
    }
    if let Some(written) = usage.bytes_written {
        let suggests = "by system calls: files, pipes, sockets, terminals";
        numbers.push(size("bytes-written", "bytes written", written, suggests));
    }
    if let Some(written) = usage.disk_bytes_written {
        let suggests =
            if written == 0 { "nothing to write to a disk" } else { "to be written to a disk, now or later" };
        numbers.push(size("disk-bytes-written", "written to disk", written, suggests));
    }
    numbers
}

/// The number of a requested event.
fn of_event(measured: &Measured, reading: &Reading, name: &str) -> Option<Number> {
    let seen = seen(measured, reading, name)?;
    let event = &seen.event.event;
    let value = seen.value()?;
    let unit = match &event.unit {
        Unit::Count => NumberUnit::Count,
        Unit::Nanoseconds => NumberUnit::Nanoseconds,
        Unit::Other(unit) => NumberUnit::Other(unit.clone()),
    };
    let per_cpu = match cpu_ns(measured, reading) {
        Some(cpu) if unit == NumberUnit::Count && value > 0.0 && cpu > 0.0 => {
            format!("; {} per second of CPU time", Count((value / cpu * 1e9).round() as u64))
        }
        _ => String::new(),
    };
    let number = Number::new(name, name, unit, value, format!("{}{per_cpu}", event.description));
    Some(Number { running_share: seen.count.running_share(), user_only: seen.is_user_only(), ..number })
}

#[cfg(test)]
mod tests {
    use whyslow_events::Usage;

    use super::super::testing::measured;
    use super::*;

    fn number<'a>(numbers: &'a [Number], name: &str) -> &'a Number {
        numbers.iter().find(|number| number.name == name).unwrap_or_else(|| panic!("{name} in {numbers:#?}"))
    }

    #[test]
    fn works_with_the_kernels_accounting_alone() {
        let mut run = measured(&[]);
        run.total.usage = Usage {
            user_ns: Some(600_000_000),
            system_ns: Some(200_000_000),
            max_resident_bytes: Some(8 << 20),
            minor_faults: Some(4096),
            major_faults: Some(0),
            voluntary_switches: Some(10),
            involuntary_switches: Some(0),
            bytes_read: Some(1 << 20),
            disk_bytes_read: Some(0),
            ..Usage::default()
        };
        let numbers = numbers(&run, Scope::Program, 0);
        assert_eq!(number(&numbers, "cpu-time").value, 8e8);
        let used = number(&numbers, "cpus-used");
        assert!((used.value - 0.4).abs() < 1e-9 && used.suggests.contains("60.0 % of the time"), "{used:?}");
        assert!(number(&numbers, "system-time").suggests.starts_with("25.0 %"));
        assert!(number(&numbers, "minor-faults").suggests.contains("16.0 MiB"));
        assert!(number(&numbers, "minor-faults").suggests.ends_with("more than its peak memory"));
        assert!(number(&numbers, "voluntary-switches").suggests.ends_with("once per 80.0 ms of CPU time"));
        assert_eq!(number(&numbers, "involuntary-switches").suggests, "the scheduler never preempted it");
        assert_eq!(number(&numbers, "disk-bytes-read").suggests, "everything was in the page cache");
        assert!(!numbers.iter().any(|number| number.name == "cpu-migrations" || number.name == "ipc"));
    }

    #[test]
    fn counters_win_over_the_kernels_accounting_when_complete() {
        let mut run = measured(&[("task-clock", 900), ("minor-faults", 7), ("cpu-migrations", 3)]);
        run.total.usage =
            Usage { user_ns: Some(500), system_ns: Some(100), minor_faults: Some(20), ..Usage::default() };
        let counted = numbers(&run, Scope::Program, 3);
        assert_eq!(
            (number(&counted, "cpu-time").value, number(&counted, "minor-faults").value),
            (900.0, 7.0)
        );
        assert_eq!(number(&counted, "cpu-migrations").value, 3.0);
        run.events[1].state = Ok(true);
        assert_eq!(
            number(&numbers(&run, Scope::Program, 3), "minor-faults").value,
            20.0,
            "user mode alone is not all"
        );
    }

    #[test]
    fn requested_event_has_its_own_number() {
        let mut run = measured(&[("task-clock", 500_000_000), ("page-faults:u", 250), ("cycles:k", 9)]);
        run.events[2].state = Ok(false);
        run.total.counts[2] = Some(whyslow_events::Count { value: 9, enabled_ns: 100, running_ns: 50 });
        let numbers = numbers(&run, Scope::Program, 1);
        let faults = number(&numbers, "page-faults:u");
        assert!(faults.suggests.ends_with("500 per second of CPU time"), "{faults:?}");
        let cycles = number(&numbers, "cycles:k");
        assert_eq!((cycles.value, cycles.running_share), (18.0, Some(0.5)));
    }

    /// The kernel removes counters from programs that may not be observed, so their counts are incomplete.
    #[test]
    fn incomplete_counters_fall_back_to_the_kernels_accounting() {
        let mut run = measured(&[("task-clock", 900), ("minor-faults", 7), ("cpu-migrations", 3)]);
        run.total.usage =
            Usage { user_ns: Some(5000), system_ns: Some(1000), minor_faults: Some(20), ..Usage::default() };
        run.uncounted_ns = 5100;
        let numbers = numbers(&run, Scope::Program, 3);
        assert_eq!(
            (number(&numbers, "cpu-time").value, number(&numbers, "minor-faults").value),
            (6000.0, 20.0)
        );
        assert!(!numbers.iter().any(|number| number.name == "cpu-migrations"));
    }

    #[test]
    fn max_resident_below_whyslows_own_is_an_upper_bound() {
        let mut run = measured(&[]);
        run.total.usage.resident_below_bytes = Some(4096);
        assert!(number(&numbers(&run, Scope::Program, 0), "max-resident").at_most);
    }
}
