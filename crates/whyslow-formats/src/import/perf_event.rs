//! The metrics of perf's event names.

use whyslow_profile::{Metric, Origin, OverTime, Sampler, Subject, Unit};

/// The metric of an event by its name, such as `cycles:u` or `cpu_core/cycles/`. Events that advance with CPU
/// time stand for CPU time.
pub(super) fn metric(name: &str, unit: Unit, sampler: Sampler) -> Metric<&str> {
    let inner = name.split(':').next().unwrap_or(name);
    let inner = inner.split('/').nth(1).unwrap_or(inner);
    let of = match inner {
        "cycles" | "cpu-cycles" | "ref-cycles" | "cpu-clock" | "task-clock" | Metric::CPU_TIME => {
            Subject::Cpu
        }
        "samples" => Subject::Samples,
        _ => Subject::Event,
    };
    Metric { name, unit, of, origin: Origin::Sampled(sampler), over_time: OverTime::Sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_time_on_a_cpu_and_misses_are_events() {
        let of = |name| metric(name, Unit::Count, Sampler::default()).of;
        for name in ["cycles", "cycles:Pu", "cpu-clock:ppp", "cpu_core/cycles/", "cpu_atom/cycles/u"] {
            assert_eq!(of(name), Subject::Cpu, "{name}");
        }
        for name in ["cache-misses", "page-faults:u", "sched:sched_switch", "cycles-nonsense", ""] {
            assert_eq!(of(name), Subject::Event, "{name}");
        }
        assert_eq!(of("samples"), Subject::Samples);
    }
}
