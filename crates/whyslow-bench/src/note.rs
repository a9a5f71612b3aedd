//! Notes on a benchmark: what limits its verdicts, and what is odd about its runs.

use whyslow_profile::{ExitStatus, facts};
use whyslow_words::{About, Fact, Percent, Remark, Severity, duration, number_of};

facts! {
    /// A note on a benchmark.
    #[derive(Debug, Clone, PartialEq)]
    pub enum BenchNote {
        /// There are too few pairs for a verdict.
        "few-pairs" => FewPairs {
            /// How many there are.
            pairs: usize,
            /// How many there should be.
            least: usize,
        },
        /// Other programs use the CPUs, so CPU time decides.
        "cpu-time-decides" => CpuDecides,
        /// Runs are short and compute, so CPU time decides.
        "short-runs-compute" => ShortComputes,
        /// Wall time decides, and the programs wait in it.
        "waiting-counts" => WaitsCount,
        /// Wall time and CPU time changed in opposite directions.
        "times-disagree" => TimesDisagree {
            /// The command.
            command: String,
            /// Whether it is wall time that went down.
            wall_is_less: bool,
        },
        /// Runs take little longer than starting a process.
        "short-runs" => ShortRuns {
            /// The commands.
            commands: Vec<String>,
        },
        /// The first run took longer than all others.
        "slow-first-run" => SlowFirstRun {
            /// The commands.
            commands: Vec<String>,
            /// The largest ratio to the median.
            factor: f64,
        },
        /// Some runs are far from the others.
        "outliers" => Outliers {
            /// The commands.
            commands: Vec<String>,
            /// How many.
            runs: usize,
            /// Of how many.
            of: usize,
            /// The ratio of the longest run to the median.
            worst: f64,
        },
        /// The runs fall into two groups.
        "two-modes" => TwoModes {
            /// The command.
            command: String,
            /// The means of both groups.
            means_ns: [f64; 2],
            /// The share of runs in the slower group.
            upper_share: f64,
        },
        /// Runs became slower or faster over time.
        "times-drift" => Drift {
            /// Whether slower.
            slower: bool,
        },
        /// The position within a round changes the time.
        "order-matters" => OrderMatters {
            /// The size of the effect, as the logarithm of a ratio.
            effect: f64,
        },
        /// The clock is too coarse for the verdict `equivalent`.
        "clock-too-coarse" => CoarseClock,
        /// All runs end with the same status, and it is not exit code 0.
        "all-runs-fail" => AllFail {
            /// The status.
            exit: ExitStatus,
        },
        /// Runs ended in different ways.
        "exits-differ" => ExitsDiffer {
            /// For each command, how its runs ended.
            exits: Vec<(String, Vec<ExitStatus>)>,
        },
        /// The start of the shell is subtracted from all times.
        "shell-subtracted" => ShellSubtracted {
            /// The shell.
            shell: String,
            /// How long it takes for an empty command.
            wall_ns: u64,
        },
        /// The user stopped it.
        "bench-interrupted" => Interrupted {
            /// How many rounds were complete.
            rounds: usize,
        },
        /// `--max-time` ran out.
        "time-is-over" => TimeIsOver {
            /// How many rounds ran.
            rounds: usize,
        },
        /// Undecided after all checkpoints of `--until-decided`.
        "still-undecided" => StillUndecided {
            /// How many rounds ran.
            rounds: usize,
        },
        /// The baseline runs are from another time.
        "runs-of-another-day" => AnotherDay {
            /// The name of the baseline.
            baseline: String,
            /// Why the baseline could not be run again.
            why: String,
        },
        /// The baseline runs are from another machine.
        "another-machine" => AnotherMachine {
            /// The name of the baseline.
            baseline: String,
            /// Its CPU.
            cpu: String,
        },
        /// A requested metric could not be measured.
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
                "{} too few: a verdict needs at least {least}",
                number_of(*pairs as u64, "pair is", "pairs are")
            ))
            .or("run again with `--runs 12`"),
            Self::CpuDecides => note(
                "CPU time decides: the programs compute, but were queued for a CPU for part of the wall time because the machine was busy"
                    .to_owned(),
            )
            .or("use an idle machine, or `--witness wall` to judge by wall time"),
            Self::ShortComputes => note(
                "CPU time decides: the programs compute, and in runs this short one turn of another program on the CPU outweighs a change"
                    .to_owned(),
            )
            .or("use longer runs, or `--witness wall` to judge by wall time"),
            Self::WaitsCount => note(
                "wall time decides, and it includes time in which the programs were blocked"
                    .to_owned(),
            )
            .or("`whyslow record --off-cpu -- COMMAND` shows what they wait for; `--witness cpu` leaves waiting out"),
            Self::TimesDisagree { command, wall_is_less } => {
                let (less, more) = if *wall_is_less { ("wall", "CPU") } else { ("CPU", "wall") };
                warning(format!("`{command}` took less {less} time but more {more} time: work moved between threads, or into or out of waiting"))
            }
            Self::ShortRuns { commands } => note(format!(
                "runs of {} take less than 5 ms: most of that is process start, which no change to the program makes faster",
                list(commands)
            ))
            .or("repeat the work many times within one run"),
            Self::SlowFirstRun { commands, factor } => note(format!(
                "the first run of {} took up to {factor:.1} times the median and is not counted; cold caches are the usual reason",
                list(commands)
            ))
            .or("to measure cold caches, use `--prepare` with a command that empties them"),
            Self::Outliers { commands, runs, of, worst } => note(format!(
                "outliers among the runs of {}: {} of {of}, up to {worst:.1} times the median; they count, and the interval allows for them",
                list(commands),
                number_of(*runs as u64, "run", "runs"),
            )),
            Self::TwoModes { command, means_ns, upper_share } => note(format!(
                "runs of `{command}` fall into two groups, around {} and {} ({} of the runs): something differs between runs, for \
                 example the CPU they ran on, memory layout or a cache",
                duration(means_ns[0] as u64),
                duration(means_ns[1] as u64),
                Percent(*upper_share)
            )),
            Self::Drift { slower } => note(format!(
                "runs became {} over time (for example CPU temperature or frequency, or growing files): comparisons within a round are not affected",
                if *slower { "slower" } else { "faster" }
            )),
            Self::OrderMatters { effect } => note(format!(
                "the second command of a round takes {} {} time: the comparison corrects for it",
                Percent(effect.abs().exp_m1()),
                if *effect > 0.0 { "more" } else { "less" }
            )),
            Self::CoarseClock => warning(
                "the CPU clock is too coarse for such short runs: they cannot be called equivalent".to_owned(),
            )
            .or("use longer runs, or `--witness wall`"),
            Self::AllFail { exit } => {
                note(format!("all runs ended with {}; they count because of --ignore-failure", words(*exit)))
            }
            Self::ExitsDiffer { exits } => {
                let each = exits.iter().map(|(command, exits)| {
                    let exits = exits.iter().map(|exit| words(*exit)).collect::<Vec<_>>();
                    format!("`{command}` ended with {}", exits.join(" or "))
                });
                warning(format!("no verdict, because runs ended differently: {}", each.collect::<Vec<_>>().join(", ")))
            }
            Self::ShellSubtracted { shell, wall_ns } => {
                note(format!("the start of {shell}, {}, is subtracted from all times", duration(*wall_ns)))
            }
            Self::Interrupted { rounds } => {
                note(format!("stopped early: the results cover {}", number_of(*rounds as u64, "complete round", "complete rounds")))
            }
            Self::TimeIsOver { rounds } => {
                note(format!("--max-time ran out after {}", number_of(*rounds as u64, "round", "rounds")))
            }
            Self::StillUndecided { rounds } => note(format!(
                "undecided after {rounds} rounds: the difference is too small for the noise of this machine"
            ))
            .or("use a larger `--margin`, longer runs or an idle machine"),
            Self::AnotherDay { baseline, why } => warning(format!(
                "the runs of `{baseline}` are from another time, and {why}: they cannot be paired, so the interval is 15 % wider, \
                 an allowance for day-to-day changes of a quiet machine, and nothing is called equivalent; \
                 unless the machine was quiet both times, there is no verdict"
            )),
            Self::AnotherMachine { baseline, cpu } => warning(format!(
                "the runs of `{baseline}` are from another machine ({cpu}): there is no verdict between machines"
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

/// The first few commands, and how many others there are.
fn list(commands: &[String]) -> String {
    const SHOWN: usize = 3;
    let names =
        commands.iter().take(SHOWN).map(|command| format!("`{command}`")).collect::<Vec<_>>().join(", ");
    match commands.len().saturating_sub(SHOWN) {
        0 => names,
        others => format!("{names} and {}", number_of(others as u64, "other", "others")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_only_the_first_of_many_commands() {
        let commands = |count: usize| (0..count).map(|at| at.to_string()).collect::<Vec<_>>();
        assert_eq!(list(&commands(2)), "`0`, `1`");
        assert_eq!(list(&commands(60)), "`0`, `1`, `2` and 57 others");
    }
}
