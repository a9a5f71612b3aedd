//! Ratios of the CPU's counters.
//!
//! ```text
//! IPC                      instructions / cycles
//! X per 1000 instructions  1000 · X / instructions
//! stalled                  stalled cycles / cycles
//! top-down, Ice Lake on    retiring, bad speculation, frontend and backend bound are counted, in slots
//! top-down, before         retiring        = slots retired / slots
//!                          bad speculation = (slots issued - slots retired + recovery bubbles) / slots
//!                          frontend bound  = fetch bubbles / slots
//!                          backend bound   = 1 - all others
//! ```

use whyslow_events::{Measured, Reading};

use super::numbers::cpu_ns;
use super::{Number, NumberUnit, Seen, seen};

/// Events shown as a rate per thousand instructions: event, name, label, explanation.
const PER_THOUSAND: [(&str, &str, &str, &str); 6] = [
    (
        "branch-misses",
        "branch-mpki",
        "branch misses",
        "mispredicted branches: each throws away work already started",
    ),
    (
        "cache-misses",
        "cache-mpki",
        "cache misses",
        "accesses that went to memory: each takes as long as a few hundred instructions",
    ),
    (
        "L1-dcache-load-misses",
        "l1-mpki",
        "L1 data misses",
        "loads that missed the first-level cache: smaller or denser data lowers it",
    ),
    ("LLC-load-misses", "llc-mpki", "last-level misses", "loads that went to memory"),
    (
        "dTLB-load-misses",
        "dtlb-mpki",
        "data TLB misses",
        "loads from pages whose address was not cached: scattered data; huge pages may help",
    ),
    (
        "iTLB-load-misses",
        "itlb-mpki",
        "code TLB misses",
        "code on pages whose address was not cached: large or scattered code",
    ),
];

/// The ratios of the counted CPU events. Events are combined only with events of the same modifiers.
pub(super) fn numbers(measured: &Measured, reading: &Reading) -> Vec<Number> {
    let mut suffixes = vec![String::new()];
    for event in &measured.events {
        if let Some((_, letters)) = event.event.name.split_once(':')
            && ["cycles", "instructions"].iter().any(|name| event.event.name == format!("{name}:{letters}"))
            && !suffixes.contains(&format!(":{letters}"))
        {
            suffixes.push(format!(":{letters}"));
        }
    }
    let mut numbers: Vec<Number> =
        suffixes.iter().flat_map(|suffix| with_suffix(measured, reading, suffix)).collect();
    numbers.extend(top_down(measured, reading));
    numbers
}

fn with_suffix(measured: &Measured, reading: &Reading, suffix: &str) -> Vec<Number> {
    let find = |name: &str| seen(measured, reading, &format!("{name}{suffix}"));
    let (cycles, instructions) = (find("cycles"), find("instructions"));
    let mut numbers = Vec::new();
    let mut push = |name: &str,
                    label: &str,
                    unit: NumberUnit,
                    value: Option<f64>,
                    suggests: String,
                    of: &[Seen<'_>]| {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            let number =
                Number::new(&format!("{name}{suffix}"), &format!("{label}{suffix}"), unit, value, suggests);
            numbers.push(Number {
                running_share: of.iter().filter_map(|seen| seen.count.running_share()).reduce(f64::min),
                user_only: of.iter().any(Seen::is_user_only),
                ..number
            });
        }
    };
    if let Some(cycles) = cycles {
        let clock = cpu_frequency(measured, reading, &cycles, suffix);
        push("cycles", "cycles", NumberUnit::Count, cycles.value(), clock, &[cycles]);
    }
    if let Some(instructions) = instructions {
        let suggests = "the work done, as the CPU counts it: fewer is faster only at the same IPC";
        push(
            "instructions",
            "instructions",
            NumberUnit::Count,
            instructions.value(),
            suggests.to_owned(),
            &[instructions],
        );
    }
    if let (Some(cycles), Some(instructions)) = (cycles, instructions) {
        let suggests = "instructions per cycle: how well the CPU is kept busy, not how much work there is; compare it with another version of the program";
        push(
            "ipc",
            "IPC",
            NumberUnit::Ratio,
            ratio(&instructions, &cycles),
            suggests.to_owned(),
            &[cycles, instructions],
        );
    }
    if let Some(instructions) = instructions {
        for (event, name, label, suggests) in PER_THOUSAND {
            if let Some(misses) = find(event) {
                let rate = ratio(&misses, &instructions).map(|rate| rate * 1000.0);
                push(
                    name,
                    label,
                    NumberUnit::PerThousandInstructions,
                    rate,
                    suggests.to_owned(),
                    &[misses, instructions],
                );
            }
        }
    }
    if let Some(cycles) = cycles {
        let stalls = [
            (
                "stalled-cycles-frontend",
                "frontend-stalled",
                "stalled, frontend",
                "cycles without new instructions: code that is scattered or hard to predict",
            ),
            (
                "stalled-cycles-backend",
                "backend-stalled",
                "stalled, backend",
                "cycles in which instructions waited for memory or a busy unit",
            ),
        ];
        for (event, name, label, suggests) in stalls {
            if let Some(stalled) = find(event) {
                push(
                    name,
                    label,
                    NumberUnit::Share,
                    ratio(&stalled, &cycles),
                    suggests.to_owned(),
                    &[stalled, cycles],
                );
            }
        }
    }
    numbers
}

fn ratio(part: &Seen<'_>, whole: &Seen<'_>) -> Option<f64> {
    let whole = whole.value().filter(|whole| *whole > 0.0)?;
    Some(part.value()? / whole)
}

/// Cycles per nanosecond of CPU time are gigahertz.
fn cpu_frequency(measured: &Measured, reading: &Reading, cycles: &Seen<'_>, suffix: &str) -> String {
    let cpu = cpu_ns(measured, reading).filter(|cpu| *cpu > 0.0);
    match (cycles.value(), cpu) {
        (Some(cycles_value), Some(cpu)) if suffix.is_empty() && !cycles.is_user_only() => {
            format!("{:.2} GHz on average while it ran", cycles_value / cpu)
        }
        _ => "CPU cycles while it ran".to_owned(),
    }
}

/// The four top-down parts: name, label, explanation.
const PARTS: [(&str, &str, &str); 4] = [
    ("topdown-retiring", "retiring", "useful work"),
    ("topdown-bad-speculation", "bad speculation", "thrown away after a misprediction"),
    ("topdown-frontend-bound", "frontend bound", "no instructions to start: they did not arrive in time"),
    ("topdown-backend-bound", "backend bound", "waiting for data or a busy unit"),
];

fn top_down(measured: &Measured, reading: &Reading) -> Vec<Number> {
    let find = |name: &str| {
        let seen = seen(measured, reading, name)?;
        Some((seen.value()?, seen.count.running_share(), seen.is_user_only()))
    };
    let newer = || {
        let slots = find("slots")?;
        let parts = ["topdown-retiring", "topdown-bad-spec", "topdown-fe-bound", "topdown-be-bound"];
        let parts = parts.map(|name| find(name).map(|part| part.0 / slots.0));
        Some((parts, slots))
    };
    let older = || {
        let slots = find("topdown-total-slots")?;
        let of = |name: &str| find(name).map(|part| part.0 / slots.0);
        let (issued, retired) = (of("topdown-slots-issued")?, of("topdown-slots-retired")?);
        let (bubbles, recovery) = (of("topdown-fetch-bubbles")?, of("topdown-recovery-bubbles")?);
        let wrong = (issued - retired + recovery).max(0.0);
        let rest = (1.0 - retired - wrong - bubbles).max(0.0);
        Some(([Some(retired), Some(wrong), Some(bubbles), Some(rest)], slots))
    };
    let Some((parts, (slots, running_share, user_only))) = newer().or_else(older) else { return Vec::new() };
    if slots <= 0.0 {
        return Vec::new();
    }
    let lost = parts.iter().skip(1).flatten().copied().fold(0.0, f64::max);
    PARTS
        .iter()
        .zip(parts)
        .enumerate()
        .filter_map(|(at, ((name, label, suggests), part))| {
            let part = part?;
            let largest = if at > 0 && part == lost { "; the largest loss" } else { "" };
            let suggests = format!("of the instructions the CPU could have started: {suggests}{largest}");
            let number = Number::new(name, label, NumberUnit::Share, part, suggests);
            Some(Number { running_share, user_only, ..number })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use whyslow_events::{Count, CountedEvent, Event, Kind, Reach, Unit};

    use super::super::testing::measured;
    use super::*;

    fn value(numbers: &[Number], name: &str) -> Option<f64> {
        numbers.iter().find(|number| number.name == name).map(|number| number.value)
    }

    #[test]
    fn computes_ratios_of_counters() {
        let run = measured(&[
            ("task-clock", 1_000_000_000),
            ("cycles", 3_000_000_000),
            ("instructions", 6_000_000_000),
            ("branch-misses", 12_000_000),
            ("cache-misses", 600_000),
            ("dTLB-load-misses", 0),
            ("stalled-cycles-backend", 750_000_000),
        ]);
        let numbers = numbers(&run, &run.total);
        let expected = [
            ("ipc", Some(2.0)),
            ("branch-mpki", Some(2.0)),
            ("cache-mpki", Some(0.1)),
            ("dtlb-mpki", Some(0.0)),
            ("backend-stalled", Some(0.25)),
            ("frontend-stalled", None),
        ];
        for (name, expected) in expected {
            assert_eq!(value(&numbers, name), expected, "{name}");
        }
        assert!(numbers[0].suggests.starts_with("3.00 GHz"), "{:?}", numbers[0]);
    }

    /// Two counters ran half and a quarter of the time: both are scaled before the ratio, which reports the
    /// smaller share.
    #[test]
    fn multiplexed_counters_are_scaled_before_the_ratio() {
        let mut run = measured(&[("cycles", 0), ("instructions", 0)]);
        run.total.counts = vec![
            Some(Count { value: 500, enabled_ns: 100, running_ns: 50 }),
            Some(Count { value: 500, enabled_ns: 100, running_ns: 25 }),
        ];
        let numbers = numbers(&run, &run.total);
        let ipc = numbers.iter().find(|number| number.name == "ipc").unwrap();
        assert_eq!((ipc.value, ipc.running_share), (2.0, Some(0.25)));
        run.total.counts[0] = Some(Count { value: 0, enabled_ns: 100, running_ns: 0 });
        let numbers = super::numbers(&run, &run.total);
        assert_eq!(value(&numbers, "ipc"), None, "an event that was never counted is not 0");
        assert_eq!(value(&numbers, "instructions"), Some(2000.0));
    }

    #[test]
    fn combines_only_events_with_the_same_modifiers() {
        let run = measured(&[("cycles:u", 100), ("instructions:u", 150), ("branch-misses", 5)]);
        let numbers = numbers(&run, &run.total);
        assert_eq!((value(&numbers, "ipc:u"), value(&numbers, "ipc")), (Some(1.5), None));
        assert_eq!(value(&numbers, "branch-mpki:u"), None);
    }

    fn with_events(events: &[(&str, u64)]) -> Measured {
        let mut run = measured(&[]);
        for (name, value) in events {
            let event = Event {
                name: (*name).to_owned(),
                kind: Kind::Unit,
                description: String::new(),
                unit: Unit::Count,
                scale: if *name == "topdown-total-slots" { 2.0 } else { 1.0 },
                attrs: Vec::new(),
                reach: Reach::Tasks,
                sets_modes: false,
            };
            run.events.push(CountedEvent { event, state: Ok(false) });
            run.total.counts.push(Some(Count { value: *value, enabled_ns: 10, running_ns: 10 }));
        }
        run
    }

    #[test]
    fn reads_both_kinds_of_top_down_events() {
        let newer = with_events(&[
            ("slots", 1000),
            ("topdown-retiring", 400),
            ("topdown-bad-spec", 100),
            ("topdown-fe-bound", 200),
            ("topdown-be-bound", 300),
        ]);
        let older = with_events(&[
            ("topdown-total-slots", 500),
            ("topdown-slots-issued", 480),
            ("topdown-slots-retired", 400),
            ("topdown-fetch-bubbles", 200),
            ("topdown-recovery-bubbles", 20),
        ]);
        for run in [newer, older] {
            let numbers = numbers(&run, &run.total);
            let parts: Vec<f64> = PARTS.iter().map(|(name, ..)| value(&numbers, name).unwrap()).collect();
            for (part, expected) in parts.iter().zip([0.4, 0.1, 0.2, 0.3]) {
                assert!((part - expected).abs() < 1e-9, "{parts:?}");
            }
            let largest: Vec<_> =
                numbers.iter().filter(|number| number.suggests.contains("largest")).collect();
            assert!(matches!(largest[..], [number] if number.name == "topdown-backend-bound"), "{largest:?}");
        }
        let nothing = with_events(&[("slots", 0), ("topdown-retiring", 0)]);
        assert!(numbers(&nothing, &nothing.total).is_empty());
    }
}
