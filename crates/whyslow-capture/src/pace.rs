//! Limits how many stacks of threads leaving their CPU are recorded per second. A program that switches more
//! often would spend its time copying them. Above the limit, stacks are switched on and off so that the
//! average rate stays within it. The switches themselves are always recorded.

use whyslow_numbers::ClockNs;

/// Stacks per second over all threads: at about 5 µs each, that is a twentieth of a CPU.
const MAX_PER_SECOND: u64 = 10_000;
/// Too few to estimate a rate from.
const MIN_STACKS: u64 = 200;
const WINDOW_NS: u64 = 100_000_000;
const LONGEST_PAUSE_NS: u64 = 200_000_000;

/// What to do with the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Pause,
    Resume,
}

/// Keeps the rate within the limit.
#[derive(Debug)]
pub(crate) struct Pace {
    since: ClockNs,
    taken: u64,
    paused_until: Option<ClockNs>,
    /// Whether the events were ever paused.
    pub(crate) has_paused: bool,
}

impl Pace {
    pub(crate) fn new(now: ClockNs) -> Self {
        Self { since: now, taken: 0, paused_until: None, has_paused: false }
    }

    /// Forgets the rate so far.
    pub(crate) fn restarted(&self, now: ClockNs) -> Self {
        Self { has_paused: self.has_paused, ..Self::new(now) }
    }

    /// What to do after this many more stacks have arrived.
    pub(crate) fn turn(&mut self, arrived: u64, now: ClockNs) -> Option<Turn> {
        if let Some(until) = self.paused_until {
            if now < until {
                return None;
            }
            *self = self.restarted(now);
            return Some(Turn::Resume);
        }
        self.taken += arrived;
        let elapsed_ns = now.since(self.since);
        let fair_ns = self.taken * (1_000_000_000 / MAX_PER_SECOND);
        if self.taken >= MIN_STACKS && fair_ns > elapsed_ns {
            self.paused_until = Some(now.plus((fair_ns - elapsed_ns).min(LONGEST_PAUSE_NS)));
            self.has_paused = true;
            return Some(Turn::Pause);
        }
        if elapsed_ns > WINDOW_NS {
            (self.since, self.taken) = (now, 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// The stacks recorded from a program that switches this often, in ten seconds with a drain every five
    /// milliseconds.
    fn taken(per_second: u64) -> (u64, bool) {
        let mut pace = Pace::new(ClockNs::MIN);
        let (mut taken, mut paused) = (0, false);
        for drain in 1..=2000 {
            let arrived = if paused { 0 } else { per_second / 200 };
            taken += arrived;
            match pace.turn(arrived, ClockNs::new(drain * 5 * MS)) {
                Some(Turn::Pause) => paused = true,
                Some(Turn::Resume) => paused = false,
                None => {}
            }
        }
        (taken, pace.has_paused)
    }

    #[test]
    fn limits_the_average_rate_and_keeps_every_stack_below_it() {
        assert_eq!(taken(8_000), (80_000, false));
        for per_second in [20_000, 100_000, 400_000] {
            let (taken, has_paused) = taken(per_second);
            assert!(has_paused && (80_000..=110_000).contains(&taken), "{per_second} a second: {taken}");
        }
    }

    #[test]
    fn a_pause_ends_at_any_rate() {
        let mut pace = Pace::new(ClockNs::MIN);
        let at = |ms: u64| ClockNs::new(ms * MS);
        assert_eq!(pace.turn(1_000_000, at(1)), Some(Turn::Pause));
        assert_eq!(pace.turn(0, at(2)), None);
        assert_eq!(pace.turn(0, at(202)), Some(Turn::Resume));
        assert_eq!(pace.turn(10, at(203)), None);
    }
}
