//! Runs all commands in rounds of random order, until there are enough rounds.

use std::time::Duration;

use whyslow_profile::ExitStatus;
use whyslow_stats::hygiene::grain;
use whyslow_stats::interim::{CHECKPOINTS, Question, UntilDecided};
use whyslow_stats::median;
use whyslow_stats::pairs::log_ratios;
use whyslow_stats::random::{Orders, Random};
use whyslow_stats::witness::{CHOSEN_AFTER, Reason, Witness, choose};

use crate::padding;
use crate::run::{Metric, Run, known, known_pairs};

/// How many rounds to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rounds {
    /// A fixed number.
    Fixed(usize),
    /// At least `min`, then more until `time` is over, up to `max`.
    ForTime {
        /// The minimum.
        min: usize,
        /// The maximum.
        max: usize,
        /// How long to add rounds beyond the minimum.
        time: Duration,
    },
    /// Until every comparison with the reference is decided.
    UntilDecided {
        /// The maximum; there is no checkpoint beyond 200.
        max: usize,
    },
}

/// Which failures do not stop a series.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Ignored {
    /// None.
    #[default]
    None,
    /// All of them.
    All,
    /// These exit codes.
    Codes(Vec<i32>),
}

impl Ignored {
    fn contains(&self, exit: ExitStatus) -> bool {
        match (self, exit) {
            (_, ExitStatus::Code(0)) | (Self::All, _) => true,
            (Self::Codes(codes), ExitStatus::Code(code)) => codes.contains(&code),
            _ => false,
        }
    }
}

/// The plan of a series.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many commands there are.
    pub commands: usize,
    /// The command that the others are compared with.
    pub reference: usize,
    /// The number of warm-up rounds, which do not count.
    pub warmup: usize,
    /// The number of counted rounds.
    pub rounds: Rounds,
    /// No round starts after this time.
    pub max_time: Option<Duration>,
    /// The failed runs that count.
    pub ignored: Ignored,
    /// A difference below this share does not matter.
    pub margin: f64,
    /// What must be answered before `UntilDecided` ends.
    pub question: Question,
    /// The time that the user wants to decide.
    pub witness: Option<Witness>,
    /// The seed of the orders and environment sizes.
    pub seed: u64,
}

/// Runs the commands.
pub trait Execute {
    /// An error that stops everything.
    type Error;
    /// Runs a command once, with an environment that is larger by this many bytes. `None` means that the user
    /// wants to stop.
    fn run(&mut self, command: usize, of: Round, padding: usize) -> Result<Option<Run>, Self::Error>;
    /// The time since the start.
    fn elapsed(&self) -> Duration;
    /// Called after each round.
    fn round_is_over(&mut self, series: &Series);
    /// The error for a failed run.
    fn failed(&mut self, command: usize, exit: ExitStatus) -> Self::Error;
}

/// The round that a run belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// A warm-up round.
    Warmup(usize),
    /// A counted round.
    Counted(usize),
}

/// Why a series ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All planned rounds ran.
    Enough,
    /// Every comparison is decided.
    Decided,
    /// It is undecided after the last checkpoint.
    MaxRounds,
    /// The time ran out before all planned rounds ran.
    TimeIsOver,
    /// The user stopped it.
    Interrupted,
}

/// All runs of all commands, round by round.
#[derive(Debug, Clone)]
pub struct Series {
    /// The warm-up rounds: a run of each command per round.
    pub warmup: Vec<Vec<Run>>,
    /// The complete counted rounds.
    pub rounds: Vec<Vec<Run>>,
    /// The time that decides, once it is chosen, and why.
    pub witness: Option<(Witness, Reason)>,
    /// Why it ended.
    pub ended: Ended,
    interim: Vec<Option<UntilDecided>>,
    asked: Option<Witness>,
}

impl Series {
    /// A series of existing rounds.
    pub fn of_rounds(rounds: Vec<Vec<Run>>, asked: Option<Witness>) -> Self {
        let mut series = Self {
            warmup: Vec::new(),
            rounds,
            witness: None,
            ended: Ended::Enough,
            interim: Vec::new(),
            asked,
        };
        series.choose_witness(true);
        series
    }

    /// Runs the plan.
    pub fn run<E: Execute>(plan: &Plan, execute: &mut E) -> Result<Self, E::Error> {
        let until_decided = matches!(plan.rounds, Rounds::UntilDecided { .. });
        let interim = |command| {
            (until_decided && command != plan.reference)
                .then(|| UntilDecided::new(plan.question, plan.margin, plan.commands.saturating_sub(1)))
        };
        let mut series = Self {
            warmup: Vec::new(),
            rounds: Vec::new(),
            witness: None,
            ended: Ended::Enough,
            interim: (0..plan.commands).map(interim).collect(),
            asked: plan.witness,
        };
        let mut orders = Orders::new(plan.commands, plan.seed);
        let mut random = Random::new(plan.seed ^ 0x5eed);
        for warmup in 0..plan.warmup {
            match round(plan, execute, &mut orders, &mut random, Round::Warmup(warmup))? {
                Some(runs) => series.warmup.push(runs),
                None => {
                    series.ended = Ended::Interrupted;
                    return Ok(series);
                }
            }
        }
        let started = execute.elapsed();
        while let Some(next) = series.next(plan, execute.elapsed(), started) {
            let Some(runs) = round(plan, execute, &mut orders, &mut random, next)? else {
                series.ended = Ended::Interrupted;
                break;
            };
            series.rounds.push(runs);
            series.choose_witness(false);
            series.check(plan);
            execute.round_is_over(&series);
        }
        series.choose_witness(true);
        Ok(series)
    }

    /// The next round, if there is one to run.
    fn next(&mut self, plan: &Plan, elapsed: Duration, started: Duration) -> Option<Round> {
        let done = self.rounds.len();
        if plan.max_time.is_some_and(|max| elapsed >= max) && done > 0 {
            self.ended = Ended::TimeIsOver;
        }
        let goes_on = match plan.rounds {
            Rounds::Fixed(count) => done < count,
            Rounds::ForTime { min, max, time } => done < min || done < max && elapsed - started < time,
            Rounds::UntilDecided { max } => {
                let max = max.min(CHECKPOINTS[CHECKPOINTS.len() - 1]);
                let decided =
                    self.interim.iter().flatten().all(|comparison| comparison.verdict().is_decided());
                if decided && done > 0 {
                    self.ended = Ended::Decided;
                } else if done >= max {
                    self.ended = Ended::MaxRounds;
                }
                done < max && !(decided && done > 0)
            }
        };
        if !goes_on && self.ended == Ended::TimeIsOver {
            self.ended = Ended::Enough;
        }
        (goes_on && self.ended == Ended::Enough).then_some(Round::Counted(done))
    }

    /// Chooses once, from the first rounds of all commands together.
    fn choose_witness(&mut self, at_last: bool) {
        if self.witness.is_none() && (self.rounds.len() >= CHOSEN_AFTER || at_last && !self.rounds.is_empty())
        {
            let first = self.rounds.iter().take(CHOSEN_AFTER).flatten().map(Run::times).collect::<Vec<_>>();
            self.witness = Some(match self.asked {
                Some(witness) => (witness, Reason::Asked),
                None => choose(&first),
            });
        }
    }

    fn check(&mut self, plan: &Plan) {
        let Some((witness, _)) = self.witness else { return };
        let metric = Metric::from(witness);
        let interim = self.interim.iter().enumerate().map(|(command, comparison)| {
            let mut comparison = comparison.clone()?;
            let (first, second) = paired_values(&self.rounds, [plan.reference, command], &metric)?;
            let clock = grain(metric.tick(), median(&second).min(median(&first)), plan.margin);
            comparison.check(&log_ratios(&first, &second)?, clock);
            Some(comparison)
        });
        self.interim = interim.collect();
    }

    /// The comparison of a command with the reference that is checked while the series runs; `None` without
    /// `--until-decided`.
    pub fn interim(&self, command: usize) -> Option<&UntilDecided> {
        self.interim.get(command)?.as_ref()
    }
}

/// The known values of a metric of a command; `None` if most of its runs lack it.
pub fn values(rounds: &[Vec<Run>], command: usize, metric: &Metric) -> Option<Vec<f64>> {
    known(rounds.iter().map(|round| &round[command]), metric)
}

/// The values of a metric of two commands in the rounds that have both; `None` if most rounds lack one.
pub fn paired_values(
    rounds: &[Vec<Run>],
    [first, second]: [usize; 2],
    metric: &Metric,
) -> Option<(Vec<f64>, Vec<f64>)> {
    known_pairs(rounds.iter().map(|round| (&round[first], &round[second])), metric)
}

/// A run of each command; `None` if the user stopped it.
fn round<E: Execute>(
    plan: &Plan,
    execute: &mut E,
    orders: &mut Orders,
    random: &mut Random,
    of: Round,
) -> Result<Option<Vec<Run>>, E::Error> {
    let mut runs = (0..plan.commands).map(|_| None).collect::<Vec<Option<Run>>>();
    for (place, command) in orders.next().unwrap_or_default().into_iter().enumerate() {
        let Some(run) = execute.run(command, of, random.below(padding::MAX_BYTES))? else { return Ok(None) };
        if !plan.ignored.contains(run.exit) {
            return Err(execute.failed(command, run.exit));
        }
        runs[command] = Some(Run { place: place as u32, ..run });
    }
    Ok(runs.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::computing;

    /// Commands with known times and 2 % noise; the clock advances as they run.
    struct FakeCommands {
        times_ns: Vec<f64>,
        random: Random,
        elapsed: Duration,
        ran: Vec<(usize, Round)>,
        stop_after: usize,
        exit: ExitStatus,
    }

    impl FakeCommands {
        fn new(times_ns: &[f64]) -> Self {
            Self {
                times_ns: times_ns.to_vec(),
                random: Random::new(3),
                elapsed: Duration::ZERO,
                ran: Vec::new(),
                stop_after: usize::MAX,
                exit: ExitStatus::Code(0),
            }
        }
    }

    impl Execute for FakeCommands {
        type Error = (usize, ExitStatus);

        fn run(&mut self, command: usize, of: Round, _: usize) -> Result<Option<Run>, Self::Error> {
            if self.ran.len() == self.stop_after {
                return Ok(None);
            }
            self.ran.push((command, of));
            let ns = (self.times_ns[command] * (0.02 * self.random.normal()).exp()) as u64;
            self.elapsed += Duration::from_nanos(ns);
            Ok(Some(Run { exit: self.exit, ..computing(ns) }))
        }

        fn elapsed(&self) -> Duration {
            self.elapsed
        }

        fn round_is_over(&mut self, _: &Series) {}

        fn failed(&mut self, command: usize, exit: ExitStatus) -> Self::Error {
            (command, exit)
        }
    }

    fn plan(commands: usize, rounds: Rounds) -> Plan {
        Plan {
            commands,
            reference: 0,
            warmup: 1,
            rounds,
            max_time: None,
            ignored: Ignored::None,
            margin: 0.01,
            question: Question::Differs,
            witness: None,
            seed: 1,
        }
    }

    #[test]
    fn every_round_has_every_command_once() {
        let mut fake = FakeCommands::new(&[1e8, 1e8, 1e8]);
        let series = Series::run(&plan(3, Rounds::Fixed(10)), &mut fake).unwrap();
        assert_eq!((series.warmup.len(), series.rounds.len(), series.ended), (1, 10, Ended::Enough));
        for round in fake.ran.chunks(3) {
            let mut commands = round.iter().map(|(command, _)| *command).collect::<Vec<_>>();
            commands.sort_unstable();
            assert_eq!(commands, [0, 1, 2]);
        }
        assert_eq!(series.witness, Some((Witness::Wall, Reason::Undisturbed)));
        assert!(series.rounds.iter().flatten().any(|run| run.place == 2));
    }

    #[test]
    fn runs_for_the_given_time_and_no_longer() {
        let rounds = Rounds::ForTime { min: 12, max: 1000, time: Duration::from_secs(3) };
        let quick = Series::run(&plan(2, rounds), &mut FakeCommands::new(&[1e6, 1e6])).unwrap();
        assert_eq!(quick.rounds.len(), 1000);
        let slow = Series::run(&plan(2, rounds), &mut FakeCommands::new(&[1e9, 1e9])).unwrap();
        assert_eq!(slow.rounds.len(), 12);
        let capped = Plan { max_time: Some(Duration::from_secs(10)), ..plan(2, rounds) };
        let capped = Series::run(&capped, &mut FakeCommands::new(&[1e9, 1e9])).unwrap();
        assert_eq!(capped.ended, Ended::TimeIsOver);
        assert!((3..6).contains(&capped.rounds.len()), "{}", capped.rounds.len());
    }

    #[test]
    fn stops_when_it_is_decided() {
        let rounds = Rounds::UntilDecided { max: 200 };
        let far = Series::run(&plan(2, rounds), &mut FakeCommands::new(&[1e8, 0.9e8])).unwrap();
        assert_eq!((far.rounds.len(), far.ended), (8, Ended::Decided));
        let few = Rounds::UntilDecided { max: 8 };
        let near = Series::run(&plan(2, few), &mut FakeCommands::new(&[1e8, 1e8])).unwrap();
        assert_eq!((near.rounds.len(), near.ended), (8, Ended::MaxRounds));
        // With three commands, both comparisons must be decided.
        let three = Series::run(&plan(3, rounds), &mut FakeCommands::new(&[1e8, 0.5e8, 0.98e8])).unwrap();
        assert!(three.rounds.len() > 8 && three.ended == Ended::Decided);
    }

    /// Eight rounds of three commands have no interval at the level of a checkpoint.
    #[test]
    fn no_command_is_the_fastest_while_comparisons_are_undecided() {
        let rounds = Rounds::UntilDecided { max: 8 };
        let series = Series::run(&plan(3, rounds), &mut FakeCommands::new(&[1e8, 0.8e8, 1.2e8])).unwrap();
        let contenders = ["a", "b", "c"].map(|name| crate::Contender {
            name: name.to_owned(),
            command: name.to_owned(),
            parameters: Vec::new(),
        });
        let options =
            crate::Options { contenders: &contenders, reference: 0, margin: 0.01, exact: &[], itself: false };
        let answer = crate::judge::judge(&series, options);
        let deciding = answer.comparisons.iter().filter(|one| one.decides).map(crate::Comparison::word);
        assert_eq!((deciding.collect::<Vec<_>>(), answer.fastest), (vec!["undecided"; 2], None));
    }

    #[test]
    fn stopping_keeps_complete_rounds() {
        let mut fake = FakeCommands { stop_after: 9, ..FakeCommands::new(&[1e8, 1e8]) };
        let series = Series::run(&plan(2, Rounds::Fixed(10)), &mut fake).unwrap();
        assert_eq!((series.rounds.len(), series.ended), (3, Ended::Interrupted));
        assert!(series.witness.is_some());
    }

    #[test]
    fn failed_run_stops_unless_failures_are_ignored() {
        let mut fake = FakeCommands { exit: ExitStatus::Code(2), ..FakeCommands::new(&[1e8, 1e8]) };
        let failed = Series::run(&plan(2, Rounds::Fixed(3)), &mut fake).unwrap_err();
        assert_eq!(failed.1, ExitStatus::Code(2));
        assert_eq!(fake.ran.len(), 1);
        for ignored in [Ignored::All, Ignored::Codes(vec![1, 2])] {
            let expected = Plan { ignored, ..plan(2, Rounds::Fixed(3)) };
            assert_eq!(Series::run(&expected, &mut fake).unwrap().rounds.len(), 3);
        }
        let others = Plan { ignored: Ignored::Codes(vec![1]), ..plan(2, Rounds::Fixed(3)) };
        assert!(Series::run(&others, &mut fake).is_err());
    }
}
