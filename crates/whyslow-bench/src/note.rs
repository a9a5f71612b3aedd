//! What is to be said of runs besides numbers.

use whyslow_analyze::{About, Fact, Percent, Remark, Severity, duration, number_of};
use whyslow_profile::{ExitStatus, facts};

facts! {
    /// What is to be said of runs besides numbers.
    #[derive(Debug, Clone, PartialEq)]
    pub enum BenchNote {
        /// There are too few pairs for a verdict.
        "few-pairs" => FewPairs {
            /// How many there are.
            pairs: usize,
            /// How many there should be.
            least: usize,
        },
        /// Others have the CPUs, so CPU time decides.
        "cpu-time-decides" => CpuDecides,
        /// The programs wait, and that is in the time that decides.
        "waiting-counts" => WaitsCount,
        /// Wall time and CPU time say the opposite.
        "times-disagree" => TimesDisagree {
            /// The command.
            command: String,
            /// Whether it is wall time that went down.
            wall_is_less: bool,
        },
        /// Runs are hardly longer than the start of a process.
        "short-runs" => ShortRuns {
            /// Of which commands.
            commands: Vec<String>,
        },
        /// The first run took longer than all others.
        "slow-first-run" => SlowFirstRun {
            /// Of which commands.
            commands: Vec<String>,
            /// How many times as long as usual, at most.
            factor: f64,
        },
        /// Some runs are far from the others.
        "outliers" => Outliers {
            /// Of which commands.
            commands: Vec<String>,
            /// How many.
            runs: usize,
            /// Of how many.
            of: usize,
            /// How many times as long as usual the longest was.
            worst: f64,
        },
        /// The runs fall into two groups.
        "two-modes" => TwoModes {
            /// The command.
            command: String,
            /// The means of both.
            means_ns: [f64; 2],
            /// The share of the slower.
            upper_share: f64,
        },
        /// Runs became slower or faster with time.
        "times-drift" => Drift {
            /// Whether slower.
            slower: bool,
        },
        /// Who is first in a round has it easier, or harder.
        "order-matters" => OrderMatters {
            /// What it was worth, as the logarithm of a ratio.
            effect: f64,
        },
        /// The clock is too coarse to say that two are equal.
        "clock-too-coarse" => CoarseClock,
        /// All runs end with the same code, and it is not 0.
        "all-runs-fail" => AllFail {
            /// How.
            exit: ExitStatus,
        },
        /// Runs ended in different ways.
        "exits-differ" => ExitsDiffer {
            /// For each command, how its runs ended.
            exits: Vec<(String, Vec<ExitStatus>)>,
        },
        /// Somebody stopped it.
        "bench-interrupted" => Interrupted {
            /// How many rounds were whole by then.
            rounds: usize,
        },
        /// The time was over.
        "time-is-over" => TimeIsOver {
            /// How many rounds were made by then.
            rounds: usize,
        },
        /// It is not decided, and more rounds would not be looked at.
        "still-undecided" => StillUndecided {
            /// How many rounds were made.
            rounds: usize,
        },
        /// The runs that are compared with are of another time.
        "runs-of-another-day" => AnotherDay {
            /// What they are called.
            baseline: String,
            /// Why they could not be repeated.
            why: String,
        },
        /// The runs that are compared with are of another machine.
        "another-machine" => AnotherMachine {
            /// What they are called.
            baseline: String,
            /// Its CPU.
            cpu: String,
        },
        /// A metric that was asked for could not be had.
        "metric-not-measured" => NotMeasured {
            /// Which.
            metric: String,
            /// Why.
            why: String,
            /// What to do.
            fix: String,
        },
    }
}

impl Fact for BenchNote {
    fn remark(&self) -> Remark {
        let note = |text: String| Remark::note(self.id(), About::Comparison, text);
        let warning = |text: String| Remark { severity: Severity::Warning, ..note(text) };
        match self {
            Self::FewPairs { pairs, least } => warning(format!(
                "{} say nothing: a verdict needs {least} at least",
                number_of(*pairs as u64, "pair", "pairs")
            ))
            .or("--runs 12"),
            Self::CpuDecides => note(
                "CPU time decides: the programs compute, and other programs had the CPUs for part of the wall time; what they did \
                 is in the wall time and not in the CPU time"
                    .to_owned(),
            )
            .or("a quiet machine, or --witness wall"),
            Self::WaitsCount => note(
                "wall time decides, and it holds time in which the programs neither computed nor missed a CPU: files, pipes, sleeps, \
                 other processes"
                    .to_owned(),
            )
            .or("whyslow record --off-cpu -- COMMAND shows what is waited for; --witness cpu leaves it out"),
            Self::TimesDisagree { command, wall_is_less } => {
                let (less, more) = if *wall_is_less { ("wall", "CPU") } else { ("CPU", "wall") };
                warning(format!("of `{command}` the {less} time went down and the {more} time up: work was moved between threads or into waiting"))
            }
            Self::ShortRuns { commands } => note(format!(
                "runs of {} take less than 5 ms: most of that is the start of a process, which no change of the program makes shorter",
                list(commands)
            ))
            .or("let the program do its work many times in one run"),
            Self::SlowFirstRun { commands, factor } => note(format!(
                "the first run of {} took up to {factor:.1} times as long as usual and is not counted: caches were cold",
                list(commands)
            ))
            .or("--prepare with a command that empties them, if that is what you want to measure"),
            Self::Outliers { commands, runs, of, worst } => note(format!(
                "{} of {of} of {} {} far from the others (up to {worst:.1} times the median): something else used the \
                 machine; they count, and the interval allows for them",
                number_of(*runs as u64, "run", "runs"),
                list(commands),
                if *runs == 1 { "is" } else { "are" },
            )),
            Self::TwoModes { command, means_ns, upper_share } => note(format!(
                "runs of `{command}` fall into two groups, around {} and {} ({} of them): look for what differs, such as the CPU they \
                 run on, the layout of memory, or a cache",
                duration(means_ns[0] as u64),
                duration(means_ns[1] as u64),
                Percent(*upper_share)
            )),
            Self::Drift { slower } => note(format!(
                "runs became {} with time: the machine's heat or clock, or files that fill up; the pairs are not harmed by it",
                if *slower { "slower" } else { "faster" }
            )),
            Self::OrderMatters { effect } => note(format!(
                "whoever comes second in a round takes {} {} time; that is taken out of the comparison",
                Percent(effect.abs().exp_m1()),
                if *effect > 0.0 { "more" } else { "less" }
            )),
            Self::CoarseClock => warning(
                "a tick of the CPU clock is too large a part of these runs to call them equivalent".to_owned(),
            )
            .or("longer runs, or --witness wall"),
            Self::AllFail { exit } => {
                note(format!("all runs ended with {}, and count because of --ignore-failure", words(*exit)))
            }
            Self::ExitsDiffer { exits } => {
                let each = exits.iter().map(|(command, exits)| {
                    let exits = exits.iter().map(|exit| words(*exit)).collect::<Vec<_>>();
                    format!("`{command}` ended with {}", exits.join(" or "))
                });
                warning(format!("the runs did not do the same, so there is no verdict: {}", each.collect::<Vec<_>>().join(", ")))
            }
            Self::Interrupted { rounds } => {
                note(format!("stopped early: these are the {} that were whole", number_of(*rounds as u64, "round", "rounds")))
            }
            Self::TimeIsOver { rounds } => {
                note(format!("--max-time was over after {}", number_of(*rounds as u64, "round", "rounds")))
            }
            Self::StillUndecided { rounds } => note(format!(
                "after {rounds} rounds it is not decided: the difference is too small for the noise of this machine"
            ))
            .or("a larger --margin, longer runs, or a quieter machine"),
            Self::AnotherDay { baseline, why } => warning(format!(
                "the runs of `{baseline}` were made at another time, and {why}: they are no pairs, so the interval is wider by 15 %, \
                 an allowance for what machines differ by from day to day, and nothing is called equivalent"
            )),
            Self::AnotherMachine { baseline, cpu } => warning(format!(
                "the runs of `{baseline}` are of another machine ({cpu}): there is no verdict between machines"
            )),
            Self::NotMeasured { metric, why, fix } => warning(format!("{metric} is not measured: {why}")).or(fix.clone()),
        }
    }
}

/// How a run ended, in words.
pub fn words(exit: ExitStatus) -> String {
    match exit {
        ExitStatus::Code(code) => format!("exit code {code}"),
        ExitStatus::Signal(signal) => format!("signal {signal}"),
    }
}

/// The first of some commands, and how many others there are.
fn list(commands: &[String]) -> String {
    const SHOWN: usize = 3;
    let names =
        commands.iter().take(SHOWN).map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ");
    match commands.len().saturating_sub(SHOWN) {
        0 => names,
        others => format!("{names} and {others} others"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_commands_are_not_all_named() {
        let commands = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>();
        assert_eq!(list(&commands(2)), "`0`, `1`");
        assert_eq!(list(&commands(60)), "`0`, `1`, `2` and 57 others");
    }
}
