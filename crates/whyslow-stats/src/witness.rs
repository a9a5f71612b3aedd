//! Which time decides: wall time or CPU time.
//!
//! The choice must not depend on which run belongs to which command: then every error rate still holds.
//! Picking whichever time is significant would break them. So the runs of all commands are pooled, and the
//! choice is made once, after a few rounds.

use crate::median;

/// The number of rounds after which the choice is made.
pub const CHOSEN_AFTER: usize = 8;

/// The time that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Witness {
    /// From start to end.
    Wall,
    /// CPU time, user and system together. Each alone depends on where the clock ticks fall.
    Cpu,
}

/// Why it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The user requested it.
    Asked,
    /// Several threads or processes work, possibly on several CPUs at once. CPU time would not show that.
    Parallel,
    /// The program computes all the time, and always has a CPU.
    Undisturbed,
    /// The program computes, but is queued for CPUs that other programs use.
    Crowded,
    /// The program computes, and so briefly that one turn of another program on its CPU counts more than a
    /// change of the program.
    Short,
    /// The program blocks on something other than a CPU, and that time counts.
    Waits,
    /// The CPU clock was too coarse or not available.
    NoCpuTime,
}

/// The times of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// From start to end, in seconds.
    pub wall: f64,
    /// User and system time, in seconds.
    pub cpu: f64,
    /// How long its first thread ran, in seconds; `None` where the kernel does not report it.
    pub first_thread: Option<f64>,
    /// Run-queue delay of the first thread alone, in seconds; `None` where the kernel does not report it.
    pub queued: Option<f64>,
    /// How often it gave up its CPU voluntarily.
    pub voluntary_switches: u64,
}

/// Chooses from the runs of all commands.
pub fn choose(runs: &[Times]) -> (Witness, Reason) {
    /// The share of the time without CPU that run-queue delay must explain.
    const EXPLAINED: f64 = 0.8;
    /// The share of the wall time that may be unexplained: a process start has short waits of its own.
    const UNEXPLAINED: f64 = 0.1;
    /// A turn of another program takes a few milliseconds: a tenth of such a run.
    const SHORT: f64 = 0.05;
    let share = median(
        &runs.iter().map(|run| run.cpu / run.wall).filter(|share| share.is_finite()).collect::<Vec<_>>(),
    );
    if runs.iter().all(|run| run.cpu == 0.0) {
        return (Witness::Wall, Reason::NoCpuTime);
    }
    if share > 1.1 || has_helpers(runs) {
        return (Witness::Wall, Reason::Parallel);
    }
    let wall = median(&runs.iter().map(|run| run.wall).collect::<Vec<_>>());
    // Some runs may lack it.
    let queued = runs.iter().filter_map(|run| Some((run.queued?, run.wall - run.cpu, run.wall)));
    let queued = queued.collect::<Vec<_>>();
    let computes = if 2 * queued.len() >= runs.len() {
        let explained = queued.iter().map(|(queued, missing, _)| queued / missing.max(f64::MIN_POSITIVE));
        let unexplained = queued.iter().map(|(queued, missing, wall)| (missing - queued) / wall);
        median(&explained.collect::<Vec<_>>()) >= EXPLAINED
            || median(&unexplained.collect::<Vec<_>>()) <= UNEXPLAINED
    } else {
        // A program that never gives up its CPU was preempted.
        runs.iter().all(|run| run.voluntary_switches == 0)
    };
    match () {
        () if wall < SHORT && (computes || share >= 0.95) => (Witness::Cpu, Reason::Short),
        () if share >= 0.95 => (Witness::Wall, Reason::Undisturbed),
        () if computes => (Witness::Cpu, Reason::Crowded),
        () => (Witness::Wall, Reason::Waits),
    }
}

/// Whether in a quarter of all runs a tenth of the work was done outside the first thread. One command of two
/// is half of the runs.
fn has_helpers(runs: &[Times]) -> bool {
    let by_others = runs.iter().filter(|run| run.first_thread.is_some_and(|first| first < 0.9 * run.cpu));
    by_others.count() * 4 >= runs.len().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(wall: f64, cpu: f64, queued: Option<f64>, voluntary_switches: u64) -> (Witness, Reason) {
        choose(&[Times { wall, cpu, first_thread: Some(cpu), queued, voluntary_switches }; 16])
    }

    #[test]
    fn threads_are_judged_by_wall_time_even_on_a_busy_machine() {
        let alone =
            Times { wall: 1.0, cpu: 0.5, first_thread: Some(0.49), queued: Some(0.5), voluntary_switches: 0 };
        let helped = Times { first_thread: Some(0.25), ..alone };
        assert_eq!(choose(&[[alone; 8], [alone; 8]].concat()), (Witness::Cpu, Reason::Crowded));
        assert_eq!(choose(&[[alone; 8], [helped; 8]].concat()), (Witness::Wall, Reason::Parallel));
    }

    /// Times of a loop of 5 ms beside other programs, of which one run lacks its run-queue delay.
    #[test]
    fn a_short_program_that_computes_is_judged_by_cpu_time() {
        let run = |queued| Times {
            wall: 0.0062 + queued,
            cpu: 0.0059,
            first_thread: Some(0.0059),
            queued: Some(queued),
            voluntary_switches: 1,
        };
        let mut runs = [run(0.0), run(0.004), run(0.0001), run(0.002)].repeat(4);
        assert_eq!(choose(&runs), (Witness::Cpu, Reason::Short));
        runs[3].queued = None;
        assert_eq!(choose(&runs), (Witness::Cpu, Reason::Short));
        // One that sleeps for a third of its time does wait.
        let sleeps = Times { wall: 0.0093, ..run(0.0) };
        assert_eq!(choose(&[sleeps; 16]), (Witness::Wall, Reason::Waits));
    }

    #[test]
    fn chooses_from_cpu_time_queueing_and_switches() {
        assert_eq!(chosen(1.0, 0.99, Some(0.0), 0), (Witness::Wall, Reason::Undisturbed));
        assert_eq!(chosen(1.0, 1.9, Some(0.0), 50), (Witness::Wall, Reason::Parallel));
        assert_eq!(chosen(1.0, 0.33, Some(0.62), 1), (Witness::Cpu, Reason::Crowded));
        assert_eq!(chosen(1.0, 0.33, Some(0.01), 100), (Witness::Wall, Reason::Waits));
        assert_eq!(chosen(1.0, 0.33, None, 0), (Witness::Cpu, Reason::Crowded));
        // A sleeping program gives up its CPU once.
        assert_eq!(chosen(1.0, 0.001, None, 1), (Witness::Wall, Reason::Waits));
        assert_eq!(chosen(0.001, 0.0, None, 1), (Witness::Wall, Reason::NoCpuTime));
    }
}
