//! Live bytes over time, in a few points.

use whyslow_numbers::ClockNs;
use whyslow_profile::Growth;

use crate::growth::Trend;

/// Maximum number of points. When it is reached, every other point is dropped, and later points
/// are half as frequent.
const MOST: usize = 128;
/// Initial capacity.
const FEW: usize = 2;

/// A step curve: times, and the values from then on.
#[derive(Debug, Default, Clone)]
pub(crate) struct LiveCurve {
    points: Vec<(ClockNs, u64)>,
    /// The last value, which is not in `points` yet.
    latest: Option<(ClockNs, u64)>,
    /// Minimum distance of two points.
    apart_ns: u64,
}

impl LiveCurve {
    /// Adds a value. Of two values at the same time, the larger one is kept.
    pub(crate) fn add(&mut self, time_ns: ClockNs, value: u64) {
        match &mut self.latest {
            Some((time, latest)) if *time >= time_ns => *latest = value.max(*latest),
            latest => {
                if let Some(before) = latest.replace((time_ns, value)) {
                    self.keep(before);
                }
            }
        }
    }

    fn keep(&mut self, (time_ns, value): (ClockNs, u64)) {
        if self.points.last().is_some_and(|&(last, _)| time_ns < last.plus(self.apart_ns)) {
            return;
        }
        if self.points.capacity() == 0 {
            self.points.reserve_exact(FEW);
        }
        self.points.push((time_ns, value));
        if self.points.len() == MOST {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.apart_ns = time_ns.since(self.points[0].0) / (MOST as u64 / 2);
        }
    }

    /// Times and values.
    pub(crate) fn points(&self) -> impl Iterator<Item = (ClockNs, u64)> {
        self.points.iter().copied().chain(self.latest)
    }

    /// How the curve grows.
    pub(crate) fn growth(&self) -> Growth {
        let (times, values): (Vec<u64>, Vec<u64>) =
            self.points().map(|(time, value)| (time.raw(), value)).unzip();
        Trend::of(&times, &values).growth
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_curve_keeps_few_points() {
        let mut curve = LiveCurve::default();
        for second in 0..10_000u64 {
            curve.add(ClockNs::new(second * 1_000_000_000), second * 10_000);
            curve.add(ClockNs::new(second * 1_000_000_000), second * 10_000 + 1);
        }
        assert!(curve.points.len() <= MOST && curve.points.len() > MOST / 4);
        assert_eq!(curve.latest, Some((ClockNs::new(9_999_000_000_000), 99_990_001)));
        assert!(curve.points[0].0 < ClockNs::new(1_000_000_000_000));
        assert_eq!(curve.growth(), Growth::Linear);
    }
}
