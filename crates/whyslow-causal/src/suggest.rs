//! Which functions are good progress points: those that are entered at a steady rate.
//!
//! ```text
//! counts     visits in equal slices of the time from the first visit to the end
//! variation  sqrt(variance of counts - 1/4) / mean        a count of a regular event is off by up to one half
//! steady     variation <= 0.15;  uneven <= 0.5;  else bursty
//! ```
//! Of steady functions the best is the one that covers most of the CPU time: with all that it calls, it is nearest to
//! what the program does all the time.

/// Visits per second from which on experiments of a tenth of a second, or somewhat longer, see enough of them.
pub const SLOWEST: f64 = 10.0;
/// Visits per second up to which counting costs at most half a per cent.
pub const FASTEST: f64 = 100_000.0;

/// Slices of the time.
const SLICES: usize = 12;
/// Fewer visits say nothing about a rate.
const LEAST_VISITS: u64 = 10;
/// Shorter times neither, in seconds.
const LEAST_TIME: f64 = 0.25;
const STEADY: f64 = 0.15;
const UNEVEN: f64 = 0.5;

/// The visits of a function while the program ran.
#[derive(Debug, Clone, PartialEq)]
pub struct Visited {
    /// The share of the CPU time that it has with all that it calls.
    pub share: f64,
    /// How many visits there were in all by so many seconds since the program's start: ascending.
    pub counts: Vec<(f64, u64)>,
}

/// How regularly a function is entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Steadiness {
    /// At the same rate all the time.
    Steady,
    /// The rate changes.
    Uneven,
    /// Many visits at once, or none for a long time.
    Bursty,
    /// Too few visits, or too short a time, to say.
    Unknown,
}

impl Steadiness {
    /// The word for people and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Uneven => "uneven",
            Self::Bursty => "bursty",
            Self::Unknown => "too few visits",
        }
    }
}

/// Whether a function is a good point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suitability {
    /// Its row in what was counted.
    pub row: usize,
    /// Visits per second, from the first one on.
    pub per_second: f64,
    /// The standard deviation of the rate between slices, as a share of it.
    pub variation: f64,
    /// The same in a word.
    pub steadiness: Steadiness,
    /// Whether it can be a progress point.
    pub is_suitable: bool,
}

/// A function that was counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// Its name.
    pub function: String,
    /// Its source file.
    pub file: Option<String>,
    /// The line of its definition; 0 if unknown.
    pub line: u32,
    /// The share of the CPU time that it has with all that it calls.
    pub share: f64,
    /// Whether it is a good point.
    pub suits: Suitability,
}

/// What `whyslow causal --suggest` found.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Suggestions {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// How long visits were counted.
    pub seconds: f64,
    /// CPU samples of the first run.
    pub samples: u64,
    /// How many functions were counted.
    pub counted: usize,
    /// Those that were entered, best first.
    pub rows: Vec<Suggestion>,
    /// The command with the best point, if there is one.
    pub command: Option<Vec<String>>,
}

/// The functions that were entered, best first.
pub fn suitable(visited: &[Visited]) -> Vec<Suitability> {
    let mut found: Vec<Suitability> =
        visited.iter().enumerate().filter_map(|(row, of)| suitability(row, of)).collect();
    // Shares of sampled time differ by chance: those within five points count as equal.
    let share = |of: &Suitability| (visited[of.row].share * 20.0).round() as u32;
    found.sort_by(|a, b| {
        let rank = |of: &Suitability| (!of.is_suitable, of.steadiness);
        let covers = share(b).cmp(&share(a));
        rank(a).cmp(&rank(b)).then(covers).then(a.variation.total_cmp(&b.variation))
    });
    found
}

fn suitability(row: usize, of: &Visited) -> Option<Suitability> {
    let (end, all) = *of.counts.last()?;
    let first = of.counts.iter().position(|(_, count)| *count > 0)?;
    // It was entered between two looks.
    let start = first.checked_sub(1).map_or(0.0, |before| of.counts[before].0);
    let time = (end - start).max(1e-6);
    let per_second = all as f64 / time;
    let slice = |number: usize| {
        let at = |part: usize| count_at(&of.counts, start + time * part as f64 / SLICES as f64);
        at(number + 1) - at(number)
    };
    let slices: Vec<f64> = (0..SLICES).map(slice).collect();
    let mean = slices.iter().sum::<f64>() / SLICES as f64;
    let variance = slices.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / (SLICES - 1) as f64;
    let variation = (variance - 0.25).max(0.0).sqrt() / mean.max(1e-9);
    let steadiness = match variation {
        _ if all < LEAST_VISITS || time < LEAST_TIME => Steadiness::Unknown,
        variation if variation <= STEADY => Steadiness::Steady,
        variation if variation <= UNEVEN => Steadiness::Uneven,
        _ => Steadiness::Bursty,
    };
    let is_suitable = (SLOWEST..=FASTEST).contains(&per_second) && steadiness < Steadiness::Bursty;
    Some(Suitability { row, per_second, variation, steadiness, is_suitable })
}

/// The count at a time, between two looks in proportion.
fn count_at(counts: &[(f64, u64)], time: f64) -> f64 {
    let after = counts.partition_point(|(at, _)| *at <= time);
    let before = after.checked_sub(1).map_or((0.0, 0), |row| counts[row]);
    let Some(&(at, count)) = counts.get(after) else { return before.1 as f64 };
    let part = (time - before.0) / (at - before.0).max(1e-9);
    before.1 as f64 + part * (count - before.1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts each 50 ms for 3 s.
    fn visited(share: f64, count: impl Fn(f64) -> f64) -> Visited {
        let at = |look: u32| f64::from(look) * 0.05;
        Visited { share, counts: (0..=60).map(|look| (at(look), count(at(look)) as u64)).collect() }
    }

    #[test]
    fn a_regular_function_is_steady_also_if_it_is_rare_or_starts_late() {
        for rate in [12.0, 1000.0, 90_000.0] {
            let found = suitable(&[visited(0.9, |time| time * rate)])[0];
            assert_eq!((found.steadiness, found.is_suitable), (Steadiness::Steady, true), "{found:?}");
            assert!((found.per_second / rate - 1.0).abs() < 0.05, "{found:?}");
        }
        let late = suitable(&[visited(0.9, |time| (time - 1.0).max(0.0) * 500.0)])[0];
        assert!(late.steadiness == Steadiness::Steady && (late.per_second / 500.0 - 1.0).abs() < 0.05);
    }

    #[test]
    fn what_stops_is_not_steady_and_what_is_too_rare_or_too_frequent_is_not_suitable() {
        let stops = suitable(&[visited(0.9, |time| time.min(1.0) * 1000.0)])[0];
        assert_eq!((stops.steadiness, stops.is_suitable), (Steadiness::Bursty, false), "{stops:?}");
        assert!(!suitable(&[visited(0.9, |time| time * 200_000.0)])[0].is_suitable);
        assert!(!suitable(&[visited(0.9, |time| time * 5.0)])[0].is_suitable);
        assert_eq!(suitable(&[visited(0.9, |_| 1.0)])[0].steadiness, Steadiness::Unknown);
        assert!(suitable(&[visited(0.9, |_| 0.0)]).is_empty());
        let mut short = visited(0.9, |time| time * 1000.0);
        short.counts.truncate(4);
        assert_eq!(suitable(&[short])[0].steadiness, Steadiness::Unknown);
    }

    #[test]
    fn the_best_point_is_steady_and_covers_most_of_the_time() {
        let all = [
            visited(0.99, |_| 1.0),
            visited(0.30, |time| time * 800.0),
            visited(0.95, |time| time * 400.0),
            visited(0.97, |time| time * time * 300.0),
            visited(0.96, |time| time * 300_000.0),
        ];
        let order: Vec<usize> = suitable(&all).iter().map(|found| found.row).collect();
        assert_eq!(order[..2], [2, 1], "{:?}", suitable(&all));
    }
}
