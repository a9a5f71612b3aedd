//! Classifies live bytes over time: flat, steadily growing, sawtooth, or growing without bound.
//!
//! A series is a list of times and of the bytes live at those times. It is resampled to at most 64
//! equidistant points, with linear interpolation, so that the spacing of the times does not matter. The first
//! quarter is start-up and the last twentieth is clean-up; neither is judged. With `v` the points between:
//!
//! ```text
//! top              largest of v
//! swing            top - smallest of v
//! q1 q2 q3 q4      medians of the four quarters of v
//! rise             q4 - q1
//! falls            how often v falls by at least 20 % of swing before it rises by as much
//! floor            smallest of the second half of v - smallest of its first half
//! noise            median of |v[i-1] - 2 v[i] + v[i+1]|
//! steps            points at which v rises by more than 1 % of swing, as a share of all
//!
//! unknown          fewer than 16 values, or never 64 KB live
//! growing          rise ≥ 10 % of top, and q4 - q3 ≥ 10 % of rise: it still grows late,
//!                  and there are no falls, or floor ≥ 25 % of rise and ≥ 20 % of swing: the level after a fall grows too,
//!                  by more than the spacing of the points can explain
//!   unbounded      growing without a fall, and ever faster (q4 - q3 > 1.5 × (q2 - q1), by more than 2 × noise)
//!                  or in steps (≤ 25 %)
//!   linear         growing otherwise
//! sawtooth         not growing, falls ≥ 2, and swing ≥ 25 % of top
//! flat             everything else: it does not grow, but may shrink or have one hump
//! ```

use std::ops::Range;

use whyslow_profile::Growth;

/// Minimum number of values in a series.
const FEWEST: usize = 16;
/// Bytes that must have been live at some point.
const SMALLEST: u64 = 64 << 10;
/// Maximum number of points, including start-up and clean-up.
const POINTS: usize = 64;

/// The trend of a series.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Trend {
    /// The kind of growth.
    pub growth: Growth,
    /// Growth rate from the first to the last judged quarter. Negative if it shrinks, 0 if unknown.
    pub bytes_per_second: f64,
}

impl Trend {
    /// Classifies a series: ascending times in nanoseconds, and the bytes live at those times.
    ///
    /// ```
    /// use whyslow_heap::growth::Trend;
    /// use whyslow_profile::Growth;
    ///
    /// let seconds: Vec<u64> = (0..100).map(|second| second * 1_000_000_000).collect();
    /// let leak: Vec<u64> = (0..100).map(|second| second * 10_000).collect();
    /// let trend = Trend::of(&seconds, &leak);
    /// assert_eq!(trend.growth, Growth::Linear);
    /// assert!((trend.bytes_per_second - 10_000.0).abs() < 1.0);
    /// ```
    pub fn of(times_ns: &[u64], live_bytes: &[u64]) -> Self {
        let count = times_ns.len().min(live_bytes.len());
        if count < FEWEST || live_bytes.iter().all(|&bytes| bytes < SMALLEST) {
            return Self::default();
        }
        let points = at_equal_distances(&times_ns[..count], &live_bytes[..count], count.min(POINTS));
        let judged = &points[points.len() / 4..points.len() - points.len() / 20];
        let span_ns = times_ns[count - 1].saturating_sub(times_ns[0]) as f64;
        if span_ns == 0.0 {
            return Self::default();
        }
        let shape = Shape::of(judged);
        let middle = |quarter: Range<usize>| (quarter.start + quarter.end) as f64 / 2.0;
        let apart = middle(quarter(3, judged.len())) - middle(quarter(0, judged.len()));
        let seconds = span_ns / 1e9 * apart / (points.len() - 1) as f64;
        Self { growth: shape.growth(), bytes_per_second: shape.rise() / seconds }
    }

    /// Whether it grows.
    pub fn is_growing(&self) -> bool {
        matches!(self.growth, Growth::Linear | Growth::Unbounded)
    }
}

/// The rows of growing series, fastest first.
pub fn growing(trends: &[Trend]) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..trends.len()).filter(|&row| trends[row].is_growing()).collect();
    rows.sort_by(|&a, &b| trends[b].bytes_per_second.total_cmp(&trends[a].bytes_per_second));
    rows
}

/// The values in the table at the top of this file.
struct Shape {
    top: f64,
    swing: f64,
    quarters: [f64; 4],
    falls: usize,
    floor: f64,
    noise: f64,
    steps: f64,
}

impl Shape {
    fn of(points: &[f64]) -> Self {
        let top = largest(points);
        let swing = top - smallest(points);
        let (first, second) = points.split_at(points.len() / 2);
        let bends: Vec<f64> = points.windows(3).map(|v| (v[0] - 2.0 * v[1] + v[2]).abs()).collect();
        let rising = points.windows(2).filter(|pair| pair[1] - pair[0] > 0.01 * swing).count();
        Self {
            top,
            swing,
            quarters: std::array::from_fn(|at| median(&points[quarter(at, points.len())])),
            falls: falls(points, 0.2 * swing),
            floor: smallest(second) - smallest(first),
            noise: median(&bends),
            steps: rising as f64 / points.len() as f64,
        }
    }

    fn rise(&self) -> f64 {
        self.quarters[3] - self.quarters[0]
    }

    fn growth(&self) -> Growth {
        let [q1, q2, q3, q4] = self.quarters;
        let rise = self.rise();
        let growing = rise >= 0.1 * self.top
            && rise > 0.0
            && q4 - q3 >= 0.1 * rise
            && (self.falls == 0 || (self.floor >= 0.25 * rise && self.floor >= 0.2 * self.swing));
        if growing {
            let ever_faster = q4 - q3 > 1.5 * (q2 - q1) && (q4 - q3) - (q2 - q1) > 2.0 * self.noise;
            let in_steps = self.steps <= 0.25;
            if self.falls == 0 && (ever_faster || in_steps) { Growth::Unbounded } else { Growth::Linear }
        } else if self.falls >= 2 && self.swing >= 0.25 * self.top {
            Growth::Sawtooth
        } else {
            Growth::Flat
        }
    }
}

/// The rows of a quarter.
fn quarter(at: usize, rows: usize) -> Range<usize> {
    at * rows / 4..(at + 1) * rows / 4
}

/// Resamples the series to equidistant points, from its first time to its last.
fn at_equal_distances(times: &[u64], values: &[u64], points: usize) -> Vec<f64> {
    let (first, last) = (times[0], times[times.len() - 1]);
    let span = last.saturating_sub(first) as f64;
    let mut after = 0;
    let point = |row: usize| {
        let time = first as f64 + span * row as f64 / (points - 1) as f64;
        while after + 1 < times.len() && (times[after] as f64) < time {
            after += 1;
        }
        let before = after.saturating_sub(1);
        let (from, to) = (times[before] as f64, times[after] as f64);
        let share = if to > from { ((time - from) / (to - from)).clamp(0.0, 1.0) } else { 1.0 };
        values[before] as f64 * (1.0 - share) + values[after] as f64 * share
    };
    (0..points).map(point).collect()
}

/// How often the points fall by at least `much` before they rise by as much.
fn falls(points: &[f64], much: f64) -> usize {
    let mut count = 0;
    let (mut high, mut low) = (points[0], points[0]);
    let mut falling = false;
    for &point in points {
        high = high.max(point);
        low = low.min(point);
        if !falling && high - point >= much && much > 0.0 {
            falling = true;
            count += 1;
            low = point;
        } else if falling && point - low >= much {
            falling = false;
            high = point;
        }
    }
    count
}

fn largest(points: &[f64]) -> f64 {
    points.iter().copied().fold(f64::MIN, f64::max)
}

fn smallest(points: &[f64]) -> f64 {
    points.iter().copied().fold(f64::MAX, f64::min)
}

fn median(points: &[f64]) -> f64 {
    let mut sorted = points.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MB: f64 = 1e6;
    const SECOND: u64 = 1_000_000_000;

    /// A pseudo-random number from 0 to 1, always the same for a row.
    fn chance(row: usize) -> f64 {
        let mut bits = (row as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits >> 40) as f64 / (1u64 << 24) as f64
    }

    /// Classifies bytes as a function of time (from 0 to 1), with 20, 64 and 500 values.
    fn growth(bytes: impl Fn(f64) -> f64) -> Growth {
        let with = |count: usize| {
            let times: Vec<u64> = (0..count as u64).map(|row| 5 * SECOND + row * SECOND / 10).collect();
            let values: Vec<u64> =
                (0..count).map(|row| bytes(row as f64 / (count - 1) as f64) as u64).collect();
            Trend::of(&times, &values).growth
        };
        let judged = [20, 64, 500].map(with);
        assert!(judged.iter().all(|growth| *growth == judged[0]), "{judged:?}");
        judged[0]
    }

    #[test]
    fn a_constant_is_flat() {
        assert_eq!(growth(|_| 10.0 * MB), Growth::Flat);
    }

    #[test]
    fn start_up_followed_by_a_level_is_flat() {
        assert_eq!(growth(|t| 10.0 * MB * (t / 0.2).min(1.0)), Growth::Flat);
        assert_eq!(growth(|t| 10.0 * MB * (t / 0.45).min(1.0)), Growth::Flat);
        assert_eq!(growth(|t| 10.0 * MB * (1.0 - (-12.0 * t).exp())), Growth::Flat);
    }

    #[test]
    fn clean_up_at_the_end_does_not_count() {
        assert_eq!(growth(|t| if t > 0.97 { 0.0 } else { 10.0 * MB }), Growth::Flat);
        assert_eq!(growth(|t| if t > 0.97 { 0.0 } else { 10.0 * MB * t }), Growth::Linear);
    }

    #[test]
    fn a_leak_is_linear() {
        assert_eq!(growth(|t| 10.0 * MB * t), Growth::Linear);
        assert_eq!(growth(|t| 100.0 * MB + 30.0 * MB * t), Growth::Linear);
        assert_eq!(growth(|t| 10.0 * MB * t * (2.0 + t).ln()), Growth::Linear);
    }

    #[test]
    fn a_leak_with_noise_is_linear() {
        assert_eq!(growth(|t| 10.0 * MB * t + MB * chance((t * 1000.0) as usize)), Growth::Linear);
    }

    #[test]
    fn a_leak_that_is_small_next_to_a_level_is_flat() {
        assert_eq!(growth(|t| 100.0 * MB + 5.0 * MB * t), Growth::Flat);
    }

    #[test]
    fn noise_around_a_level_is_flat() {
        assert_eq!(growth(|t| 10.0 * MB + MB * chance((t * 1000.0) as usize)), Growth::Flat);
    }

    #[test]
    fn a_cache_that_fills_and_is_emptied_is_a_sawtooth() {
        assert_eq!(growth(|t| MB + 20.0 * MB * (t * 4.0).fract()), Growth::Sawtooth);
        assert_eq!(growth(|t| MB + 20.0 * MB * (0.5 + 0.5 * (t * 25.0).sin())), Growth::Sawtooth);
    }

    #[test]
    fn a_leak_under_a_sawtooth_is_linear() {
        assert_eq!(growth(|t| 60.0 * MB * t + 10.0 * MB * (t * 4.0).fract()), Growth::Linear);
    }

    #[test]
    fn accelerating_growth_is_unbounded() {
        assert_eq!(growth(|t| 50.0 * MB * t * t), Growth::Unbounded);
        assert_eq!(growth(|t| 0.1 * MB * (8.0 * t).exp()), Growth::Unbounded);
    }

    #[test]
    fn growth_in_steps_is_unbounded() {
        let stairs = |t: f64| 10.0 * MB * (t * 6.0).floor();
        let times: Vec<u64> = (0..200).map(|row| row * SECOND).collect();
        let values: Vec<u64> = (0..200).map(|row| stairs(row as f64 / 200.0) as u64).collect();
        assert_eq!(Trend::of(&times, &values).growth, Growth::Unbounded);
    }

    #[test]
    fn shrinking_or_one_hump_is_flat() {
        assert_eq!(growth(|t| 10.0 * MB * (1.0 - t)), Growth::Flat);
        assert_eq!(growth(|t| 10.0 * MB * (std::f64::consts::PI * t).sin()), Growth::Flat);
    }

    #[test]
    fn too_few_values_or_bytes_are_not_judged() {
        let times: Vec<u64> = (0..100).map(|row| row * SECOND).collect();
        let values: Vec<u64> = (0..100).map(|row| row * 100_000).collect();
        assert_eq!(Trend::of(&times[..15], &values[..15]), Trend::default());
        assert_eq!(Trend::of(&times, &[60_000; 100]), Trend::default());
        assert_eq!(Trend::of(&[7; 100], &values), Trend::default());
        assert_eq!(Trend::of(&[], &[]), Trend::default());
    }

    #[test]
    fn growing_distances_do_not_matter() {
        let times: Vec<u64> = (0..60).map(|row| (1.2f64.powi(row) * 1e6) as u64).collect();
        let values: Vec<u64> = times.iter().map(|time| time / 100).collect();
        let trend = Trend::of(&times, &values);
        assert_eq!(trend.growth, Growth::Linear);
        assert!((trend.bytes_per_second - 1e7).abs() < 1e5, "{trend:?}");
    }

    #[test]
    fn the_fastest_comes_first() {
        let trend = |growth, bytes_per_second| Trend { growth, bytes_per_second };
        let trends = [
            trend(Growth::Linear, 5.0),
            trend(Growth::Flat, 100.0),
            trend(Growth::Unbounded, 7.0),
            trend(Growth::Linear, 50.0),
        ];
        assert_eq!(growing(&trends), [3, 2, 0]);
    }

    proptest! {
        #[test]
        fn any_series_is_judged(
            times in prop::collection::vec(any::<u64>(), 0..80),
            values in prop::collection::vec(any::<u64>(), 0..80),
            sorted in any::<bool>(),
        ) {
            let mut times = times;
            if sorted {
                times.sort_unstable();
            }
            prop_assert!(!Trend::of(&times, &values).bytes_per_second.is_nan());
        }

        #[test]
        fn the_unit_of_time_does_not_matter(values in prop::collection::vec(0u64..10_000_000, 16..80), unit in 1u64..1_000_000) {
            let by = |unit: u64| (0..values.len() as u64).map(|row| row * unit).collect::<Vec<_>>();
            prop_assert_eq!(Trend::of(&by(unit), &values).growth, Trend::of(&by(SECOND), &values).growth);
        }
    }
}
