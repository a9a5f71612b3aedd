//! Wall time of threads, running or waiting: computed from CPU time and waits if both were recorded. It is
//! not stored in files.

use crate::Profile;
use crate::ids::{StackId, ThreadId};
use crate::metric::{Metric, Subject};
use crate::tables::{Samples, Unit};

impl Profile {
    /// Adds the metric `wall-time` if the two others exist.
    pub fn add_wall_time(&mut self) {
        let of =
            |subject| self.metric_where(|metric| metric.of == subject && metric.unit == Unit::Nanoseconds);
        let (Some(cpu), Some(wait), None) = (of(Subject::Cpu), of(Subject::Wait), of(Subject::Wall)) else {
            return;
        };
        let mut all = rows(&self.samples[cpu.index()]);
        all.extend(rows(&self.samples[wait.index()]));
        all.sort_by_key(|(time, ..)| *time);
        let mut samples = Samples::default();
        for (time, thread, stack, value) in all {
            samples.push(time, thread, stack, value);
        }
        self.samples.push(samples);
        let name = self.strings.push(Metric::WALL_TIME);
        self.metrics.push(Metric { of: Subject::Wall, ..Metric::unknown(name, Unit::Nanoseconds) });
    }
}

fn rows(samples: &Samples) -> Vec<(u64, ThreadId, StackId, u64)> {
    let row =
        |row: usize| (samples.time_ns[row], samples.thread[row], samples.stack[row], samples.value[row]);
    (0..samples.len()).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_running_and_waiting_in_time_order() {
        let mut profile = Profile::default();
        for metric in [Metric::cpu_time(Default::default()), Metric::off_cpu_time()] {
            let name = profile.strings.push(metric.name);
            profile.metrics.push(metric.renamed(name));
            profile.samples.push(Samples::default());
        }
        profile.samples[0].push(1, ThreadId(0), StackId(0), 10);
        profile.samples[0].push(5, ThreadId(0), StackId(1), 20);
        profile.samples[1].push(3, ThreadId(0), StackId(2), 300);
        profile.add_wall_time();
        profile.add_wall_time();
        assert_eq!((profile.metrics.len(), profile.metrics[2].of), (3, Subject::Wall));
        assert_eq!(profile.samples[2].value, [10, 300, 20]);
        assert_eq!(profile.text(profile.metrics[2].name), "wall-time");
    }
}
