//! Rounds of all commands in random order, until there are enough.

use std::time::Duration;

use whyslow_profile::ExitStatus;
use whyslow_stats::hygiene::grain;
use whyslow_stats::looks::{LOOKS, UntilDecided};
use whyslow_stats::median;
use whyslow_stats::pairs::log_ratios;
use whyslow_stats::random::{Orders, Random};
use whyslow_stats::witness::{CHOSEN_AFTER, Reason, Witness, choose};

use crate::padding;
use crate::run::{Metric, Run};

/// How many rounds are made.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rounds {
    /// So many.
    Fixed(usize),
    /// At least so many, and more until the time is over, up to the second number.
    ForTime {
        /// At least.
        least: usize,
        /// At most.
        most: usize,
        /// How long more are made.
        time: Duration,
    },
    /// Until every comparison with the reference is decided, at most so many.
    UntilDecided {
        /// At most; there is no look beyond 200.
        most: usize,
    },
}

/// What is to be run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How many commands there are.
    pub commands: usize,
    /// The one that the others are compared with.
    pub reference: usize,
    /// Rounds that are made before, and not counted.
    pub warmup: usize,
    /// Rounds that count.
    pub rounds: Rounds,
    /// No round begins after this time.
    pub max_time: Option<Duration>,
    /// Whether runs that fail count.
    pub ignore_failure: bool,
    /// A difference below this share does not matter.
    pub margin: f64,
    /// The time that somebody wants to be believed.
    pub witness: Option<Witness>,
    /// What orders and sizes come from.
    pub seed: u64,
}

/// What is asked of whoever runs the commands.
pub trait Execute {
    /// What stops everything.
    type Error;
    /// Runs a command once, with an environment that is larger by so many bytes. `None`: somebody wants to stop.
    fn run(&mut self, command: usize, of: Round, padding: usize) -> Result<Option<Run>, Self::Error>;
    /// How long it has been since the start.
    fn elapsed(&self) -> Duration;
    /// A round is over.
    fn round_is_over(&mut self, course: &Course);
    /// What a run that did not succeed means.
    fn failed(&mut self, command: usize, exit: ExitStatus) -> Self::Error;
}

/// Which round a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Round {
    /// One that is not counted.
    Warmup(usize),
    /// One that counts.
    Counted(usize),
}

/// Why no more rounds were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// There were as many as planned.
    Enough,
    /// Everything was decided.
    Decided,
    /// It was not decided, and more would not be looked at.
    MostRounds,
    /// The time was over before there were as many as planned.
    TimeIsOver,
    /// Somebody stopped it.
    Interrupted,
}

/// All runs that were made.
#[derive(Debug, Clone)]
pub struct Course {
    /// The rounds that are not counted: of each, a run of each command.
    pub warmup: Vec<Vec<Run>>,
    /// The whole rounds that count.
    pub rounds: Vec<Vec<Run>>,
    /// The time that decides, once it is chosen, and why.
    pub witness: Option<(Witness, Reason)>,
    /// Why there are no more.
    pub ended: Ended,
    looks: Vec<Option<UntilDecided>>,
    asked: Option<Witness>,
}

impl Course {
    /// Rounds that were made elsewhere.
    pub fn of_rounds(rounds: Vec<Vec<Run>>, asked: Option<Witness>) -> Self {
        let mut course = Self {
            warmup: Vec::new(),
            rounds,
            witness: None,
            ended: Ended::Enough,
            looks: Vec::new(),
            asked,
        };
        course.choose_witness(true);
        course
    }

    /// Runs what is planned.
    pub fn run<E: Execute>(plan: &Plan, execute: &mut E) -> Result<Self, E::Error> {
        let until_decided = matches!(plan.rounds, Rounds::UntilDecided { .. });
        let look = |command| {
            (until_decided && command != plan.reference)
                .then(|| UntilDecided::new(plan.margin, plan.commands.saturating_sub(1)))
        };
        let mut course = Self {
            warmup: Vec::new(),
            rounds: Vec::new(),
            witness: None,
            ended: Ended::Enough,
            looks: (0..plan.commands).map(look).collect(),
            asked: plan.witness,
        };
        let mut orders = Orders::new(plan.commands, plan.seed);
        let mut random = Random::new(plan.seed ^ 0x5eed);
        for warmup in 0..plan.warmup {
            match round(plan, execute, &mut orders, &mut random, Round::Warmup(warmup))? {
                Some(runs) => course.warmup.push(runs),
                None => {
                    course.ended = Ended::Interrupted;
                    return Ok(course);
                }
            }
        }
        let begun = execute.elapsed();
        while let Some(next) = course.next(plan, execute.elapsed(), begun) {
            let Some(runs) = round(plan, execute, &mut orders, &mut random, next)? else {
                course.ended = Ended::Interrupted;
                break;
            };
            course.rounds.push(runs);
            course.choose_witness(false);
            course.look(plan);
            execute.round_is_over(&course);
        }
        course.choose_witness(true);
        Ok(course)
    }

    /// The next round, if there is one to make.
    fn next(&mut self, plan: &Plan, elapsed: Duration, begun: Duration) -> Option<Round> {
        let made = self.rounds.len();
        if plan.max_time.is_some_and(|most| elapsed >= most) && made > 0 {
            self.ended = Ended::TimeIsOver;
        }
        let goes_on = match plan.rounds {
            Rounds::Fixed(count) => made < count,
            Rounds::ForTime { least, most, time } => made < least || made < most && elapsed - begun < time,
            Rounds::UntilDecided { most } => {
                let most = most.min(LOOKS[LOOKS.len() - 1]);
                let decided = self.looks.iter().flatten().all(|look| look.verdict().is_decided());
                if decided && made > 0 {
                    self.ended = Ended::Decided;
                } else if made >= most {
                    self.ended = Ended::MostRounds;
                }
                made < most && !(decided && made > 0)
            }
        };
        if !goes_on && self.ended == Ended::TimeIsOver {
            self.ended = Ended::Enough;
        }
        (goes_on && self.ended == Ended::Enough).then_some(Round::Counted(made))
    }

    /// Chosen once, by the first rounds of all commands together.
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

    fn look(&mut self, plan: &Plan) {
        let Some((witness, _)) = self.witness else { return };
        let metric = Metric::from(witness);
        let of = |command: usize| values(&self.rounds, command, &metric);
        let looks = self.looks.iter().enumerate().map(|(command, look)| {
            let mut look = look.clone()?;
            let (first, second) = (of(plan.reference)?, of(command)?);
            let clock = grain(metric.tick(), median(&second), plan.margin);
            look.look(&log_ratios(&first, &second)?, clock.can_be_equivalent);
            Some(look)
        });
        self.looks = looks.collect();
    }

    /// The comparison of a command with the reference that is looked at again and again, if it is.
    pub fn looked_at(&self, command: usize) -> Option<&UntilDecided> {
        self.looks.get(command)?.as_ref()
    }
}

/// The values of a metric in all runs of a command; `None` when one lacks it.
pub fn values(rounds: &[Vec<Run>], command: usize, metric: &Metric) -> Option<Vec<f64>> {
    rounds.iter().map(|round| metric.of(round.get(command)?)).collect()
}

/// A run of each command; `None` when somebody stopped it.
fn round<E: Execute>(
    plan: &Plan,
    execute: &mut E,
    orders: &mut Orders,
    random: &mut Random,
    of: Round,
) -> Result<Option<Vec<Run>>, E::Error> {
    let mut runs = (0..plan.commands).map(|_| None).collect::<Vec<Option<Run>>>();
    for (place, command) in orders.next().unwrap_or_default().into_iter().enumerate() {
        let Some(run) = execute.run(command, of, random.below(padding::MOST_BYTES))? else { return Ok(None) };
        if run.exit != ExitStatus::Code(0) && !plan.ignore_failure {
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

    /// Commands that take a known time, with a noise of 2 %; time goes by as they run.
    struct Made {
        times_ns: Vec<f64>,
        random: Random,
        elapsed: Duration,
        ran: Vec<(usize, Round)>,
        stop_after: usize,
        exit: ExitStatus,
    }

    impl Made {
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

    impl Execute for Made {
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

        fn round_is_over(&mut self, _: &Course) {}

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
            ignore_failure: false,
            margin: 0.01,
            witness: None,
            seed: 1,
        }
    }

    #[test]
    fn every_round_has_every_command_once() {
        let mut made = Made::new(&[1e8, 1e8, 1e8]);
        let course = Course::run(&plan(3, Rounds::Fixed(10)), &mut made).unwrap();
        assert_eq!((course.warmup.len(), course.rounds.len(), course.ended), (1, 10, Ended::Enough));
        for round in made.ran.chunks(3) {
            let mut commands = round.iter().map(|(command, _)| *command).collect::<Vec<_>>();
            commands.sort_unstable();
            assert_eq!(commands, [0, 1, 2]);
        }
        assert_eq!(course.witness, Some((Witness::Wall, Reason::Undisturbed)));
        assert!(course.rounds.iter().flatten().any(|run| run.place == 2));
    }

    #[test]
    fn it_goes_on_for_the_time_and_no_longer() {
        let rounds = Rounds::ForTime { least: 12, most: 1000, time: Duration::from_secs(3) };
        let quick = Course::run(&plan(2, rounds), &mut Made::new(&[1e6, 1e6])).unwrap();
        assert_eq!(quick.rounds.len(), 1000);
        let slow = Course::run(&plan(2, rounds), &mut Made::new(&[1e9, 1e9])).unwrap();
        assert_eq!(slow.rounds.len(), 12);
        let capped = Plan { max_time: Some(Duration::from_secs(10)), ..plan(2, rounds) };
        let capped = Course::run(&capped, &mut Made::new(&[1e9, 1e9])).unwrap();
        assert_eq!(capped.ended, Ended::TimeIsOver);
        assert!((3..6).contains(&capped.rounds.len()), "{}", capped.rounds.len());
    }

    #[test]
    fn it_ends_when_it_is_decided() {
        let rounds = Rounds::UntilDecided { most: 200 };
        let far = Course::run(&plan(2, rounds), &mut Made::new(&[1e8, 0.9e8])).unwrap();
        assert_eq!((far.rounds.len(), far.ended), (8, Ended::Decided));
        let few = Rounds::UntilDecided { most: 8 };
        let near = Course::run(&plan(2, few), &mut Made::new(&[1e8, 1e8])).unwrap();
        assert_eq!((near.rounds.len(), near.ended), (8, Ended::MostRounds));
        // Of three commands both comparisons have to be decided.
        let three = Course::run(&plan(3, rounds), &mut Made::new(&[1e8, 0.5e8, 0.98e8])).unwrap();
        assert!(three.rounds.len() > 8 && three.ended == Ended::Decided);
    }

    #[test]
    fn who_stops_keeps_whole_rounds() {
        let mut made = Made { stop_after: 9, ..Made::new(&[1e8, 1e8]) };
        let course = Course::run(&plan(2, Rounds::Fixed(10)), &mut made).unwrap();
        assert_eq!((course.rounds.len(), course.ended), (3, Ended::Interrupted));
        assert!(course.witness.is_some());
    }

    #[test]
    fn a_failed_run_stops_it_unless_that_is_expected() {
        let mut made = Made { exit: ExitStatus::Code(2), ..Made::new(&[1e8, 1e8]) };
        let failed = Course::run(&plan(2, Rounds::Fixed(3)), &mut made).unwrap_err();
        assert_eq!(failed.1, ExitStatus::Code(2));
        assert_eq!(made.ran.len(), 1);
        let expected = Plan { ignore_failure: true, ..plan(2, Rounds::Fixed(3)) };
        assert_eq!(Course::run(&expected, &mut made).unwrap().rounds.len(), 3);
    }
}
