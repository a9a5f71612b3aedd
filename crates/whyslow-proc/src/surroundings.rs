//! How busy the machine is: CPU pressure, steal time, CPU clocks.

use std::fs;
use std::path::Path;

/// Totals since boot.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Busy {
    /// Microseconds in which some task was queued for a CPU; `None` if the kernel does not count them.
    pub cpu_pressure_us: Option<u64>,
    /// Ticks of all CPUs, and those of them that the hypervisor took (steal).
    pub ticks: Option<[u64; 2]>,
}

impl Busy {
    /// The totals up to now.
    pub fn now() -> Self {
        Self::under(Path::new("/proc"))
    }

    /// The totals in the files of a folder.
    pub fn under(proc: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(proc.join(name)).unwrap_or_default();
        Self { cpu_pressure_us: pressure(&read("pressure/cpu")), ticks: ticks(&read("stat")) }
    }

    /// The share of the wall time since an earlier reading in which some task was queued for a CPU.
    pub fn pressure_since(&self, earlier: &Self, wall_us: u64) -> Option<f64> {
        let waited = self.cpu_pressure_us?.checked_sub(earlier.cpu_pressure_us?)?;
        (wall_us > 0).then(|| (waited as f64 / wall_us as f64).min(1.0))
    }

    /// The share of the CPU time since an earlier reading that the hypervisor took.
    pub fn steal_since(&self, earlier: &Self) -> Option<f64> {
        let [[all, stolen], [all_before, stolen_before]] = [self.ticks?, earlier.ticks?];
        let all = all.checked_sub(all_before).filter(|all| *all > 0)?;
        Some(stolen.saturating_sub(stolen_before) as f64 / all as f64)
    }
}

/// `some avg10=0.00 avg60=0.00 avg300=0.00 total=123`
fn pressure(text: &str) -> Option<u64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// `cpu  user nice system idle iowait irq softirq steal guest guest_nice`; user and nice already include the
/// guests.
fn ticks(text: &str) -> Option<[u64; 2]> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers = line.split_whitespace().take(8).map_while(|word| word.parse().ok()).collect::<Vec<u64>>();
    Some([numbers.iter().sum(), *numbers.get(7)?])
}

/// The frequency governor of the first CPU, if known.
pub fn governor() -> Option<String> {
    let text = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").ok()?;
    Some(text.trim().to_owned())
}

/// The clocks of all CPUs in MHz, if the system reports them.
pub fn clocks_mhz() -> Vec<f64> {
    let of_cpu = |cpu: u32| {
        let text =
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")).ok()?;
        Some(text.trim().parse::<f64>().ok()? / 1000.0)
    };
    crate::machine::online_cpus().into_iter().filter_map(of_cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_the_time_between_two_readings() {
        let before = Busy {
            cpu_pressure_us: pressure(
                "some avg10=1.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0 total=5",
            ),
            ticks: ticks("cpu  100 0 0 100 0 0 0 0 50 0\ncpu0 1 2 3"),
        };
        let after = Busy { cpu_pressure_us: Some(3000), ticks: ticks("cpu  150 0 0 130 0 0 0 20 70 0") };
        assert_eq!(after.pressure_since(&before, 10_000), Some(0.2));
        assert_eq!(after.steal_since(&before), Some(0.2));
        let nothing = Busy::under(Path::new("/no/such/folder"));
        assert_eq!((nothing.pressure_since(&before, 1), nothing.steal_since(&before)), (None, None));
        assert_eq!(ticks("cpu  1 2"), None);
    }
}
