//! Which time is to be believed: the wall clock or the CPU's.
//!
//! A choice that does not look at who is who keeps every error rate; "whichever is significant" does not. So all runs of all commands are pooled, and
//! the choice is made once, after a few rounds.

use crate::median;

/// After how many rounds the choice is made.
pub const CHOSEN_AFTER: usize = 8;

/// The time that decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Witness {
    /// From start to end.
    Wall,
    /// What the CPUs worked, user and system together. Each alone depends on where the clock ticks fall.
    Cpu,
}

/// Why it was chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Somebody asked for it.
    Asked,
    /// Several threads or processes work, so that several CPUs may do so at once: CPU time would not show that.
    Parallel,
    /// The program computes all the time, and nobody disturbs it.
    Undisturbed,
    /// The program computes, and waits for CPUs that others have.
    Crowded,
    /// The program waits for something else than a CPU, and that counts.
    Waits,
    /// The CPU clock was too coarse or was not to be had.
    NoCpuTime,
}

/// What is known of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Times {
    /// From start to end, in seconds.
    pub wall: f64,
    /// User and system time, in seconds.
    pub cpu: f64,
    /// How long its first thread ran, in seconds; `None` where the kernel does not tell.
    pub first_thread: Option<f64>,
    /// How long it was ready to run and had no CPU, in seconds, of the first thread alone; `None` where the kernel does not tell.
    pub queued: Option<f64>,
    /// How often it gave its CPU away by itself.
    pub voluntary_switches: u64,
}

/// Chooses by the runs of all commands.
pub fn choose(runs: &[Times]) -> (Witness, Reason) {
    /// Of what is not CPU time, what has to be explained by waiting for a CPU.
    const EXPLAINED: f64 = 0.8;
    let share = median(
        &runs.iter().map(|run| run.cpu / run.wall).filter(|share| share.is_finite()).collect::<Vec<_>>(),
    );
    if runs.iter().all(|run| run.cpu == 0.0) {
        return (Witness::Wall, Reason::NoCpuTime);
    }
    if share > 1.1 || has_helpers(runs) {
        return (Witness::Wall, Reason::Parallel);
    }
    if share >= 0.95 {
        return (Witness::Wall, Reason::Undisturbed);
    }
    let queued = runs.iter().map(|run| Some((run.queued?, run.wall - run.cpu))).collect::<Option<Vec<_>>>();
    let crowded = match queued {
        Some(runs) => {
            let explained = runs.iter().map(|(queued, missing)| queued / missing.max(f64::MIN_POSITIVE));
            median(&explained.collect::<Vec<_>>()) >= EXPLAINED
        }
        // Who never gives his CPU away was made to.
        None => runs.iter().all(|run| run.voluntary_switches == 0),
    };
    if crowded { (Witness::Cpu, Reason::Crowded) } else { (Witness::Wall, Reason::Waits) }
}

/// Whether a quarter of all runs left a tenth of their work to others than their first thread. One command of two is half of them.
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
    fn a_command_with_threads_is_judged_by_the_wall_on_a_crowded_machine_too() {
        let alone =
            Times { wall: 1.0, cpu: 0.5, first_thread: Some(0.49), queued: Some(0.5), voluntary_switches: 0 };
        let helped = Times { first_thread: Some(0.25), ..alone };
        assert_eq!(choose(&[[alone; 8], [alone; 8]].concat()), (Witness::Cpu, Reason::Crowded));
        assert_eq!(choose(&[[alone; 8], [helped; 8]].concat()), (Witness::Wall, Reason::Parallel));
    }

    #[test]
    fn the_choice_follows_from_what_the_runs_did() {
        assert_eq!(chosen(1.0, 0.99, Some(0.0), 0), (Witness::Wall, Reason::Undisturbed));
        assert_eq!(chosen(1.0, 1.9, Some(0.0), 50), (Witness::Wall, Reason::Parallel));
        assert_eq!(chosen(1.0, 0.33, Some(0.62), 1), (Witness::Cpu, Reason::Crowded));
        assert_eq!(chosen(1.0, 0.33, Some(0.01), 100), (Witness::Wall, Reason::Waits));
        assert_eq!(chosen(1.0, 0.33, None, 0), (Witness::Cpu, Reason::Crowded));
        // A sleeper gives its CPU away once.
        assert_eq!(chosen(1.0, 0.001, None, 1), (Witness::Wall, Reason::Waits));
        assert_eq!(chosen(0.001, 0.0, None, 1), (Witness::Wall, Reason::NoCpuTime));
    }
}
