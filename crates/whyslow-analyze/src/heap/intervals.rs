//! The confidence intervals of the numbers of a sampled heap.
//!
//! ```text
//! number V of several stacks      variance v = Σ Vᵢ gᵢ      gᵢ: the stack's grain, see [`Grains`]
//! skew                            g = Σ Vᵢ gᵢ² / v          the grain of the stacks that contribute the noise
//! interval                        V + g z²/2 ± z √(v + g² z²/4)      z = 1.96
//! ```
//! For blocks of one size this is the score interval of a Poisson count. It covers the true number in about
//! 95 of 100 cases, however few samples there are; for many samples it is V ± 1.96 √v.
//!
//! The peak is the largest of many estimates, so noise makes it too large, and more so the more often the
//! heap was renewed before. With n = bytes allocated / bytes live at the peak, its lower end uses `z =
//! √(1.96² + 2 ln n)`, the most by which noise lifts the largest of n independent estimates.

use std::collections::BTreeMap;

use whyslow_profile::{HeapCounts, HeapSite, Profile, Unit};

use super::grains::Grains;
use super::sites::SiteRow;

/// Two-sided 95 % of a normal distribution.
const Z_95: f64 = 1.959_964;

/// A 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// The lower end.
    pub low: u64,
    /// The upper end.
    pub high: u64,
}

impl Interval {
    /// The distance of the farther end from the number, as a share of it.
    pub fn relative(&self, number: u64) -> f64 {
        let far = number.saturating_sub(self.low).max(self.high.saturating_sub(number));
        if number > 0 { far as f64 / number as f64 } else { 0.0 }
    }
}

/// Computes the intervals of a sampled heap.
#[derive(Debug, Clone, PartialEq)]
pub struct Intervals {
    grains: Grains,
}

impl Intervals {
    /// For a profile; `None` if every allocation was counted.
    pub fn of(profile: &Profile) -> Option<Self> {
        Grains::of(profile).map(|grains| Self { grains })
    }

    /// The interval of a number of one line.
    pub fn of_row(&self, profile: &Profile, row: &SiteRow, number: &Number<'_>, unit: Unit) -> Interval {
        let sites = row.rows.iter().filter_map(|&site| profile.heap.sites.get(site as usize));
        self.spread(sites, number, unit).interval(Z_95)
    }

    /// The interval of a number of the whole program.
    pub fn of_all(&self, profile: &Profile, number: &Number<'_>, unit: Unit) -> Interval {
        self.spread(profile.heap.sites.iter(), number, unit).interval(Z_95)
    }

    /// The interval of the peak of live bytes.
    pub fn of_peak(&self, profile: &Profile) -> Interval {
        let spread = self.spread(profile.heap.sites.iter(), &|counts| counts.peak_bytes, Unit::Bytes);
        let made: f64 = profile.heap.sites.iter().map(|site| site.counts.bytes_allocated as f64).sum();
        let renewed = (made / spread.value.max(1.0)).max(1.0);
        let low = spread.interval((Z_95 * Z_95 + 2.0 * renewed.ln()).sqrt()).low;
        Interval { low, ..spread.interval(Z_95) }
    }

    /// The intervals of all numbers of one line that are not 0.
    pub fn all_of_row(&self, profile: &Profile, row: &SiteRow) -> Ends {
        all(|number, unit| self.of_row(profile, row, number, unit))
    }

    /// The intervals of all numbers of the whole program that are not 0.
    pub fn all_of_program(&self, profile: &Profile) -> Ends {
        let mut ends = all(|number, unit| self.of_all(profile, number, unit));
        let Interval { low, high } = self.of_peak(profile);
        ends.insert("peak_bytes", [low, high]);
        ends
    }

    fn spread<'a>(
        &self,
        sites: impl Iterator<Item = &'a HeapSite>,
        number: &Number<'_>,
        unit: Unit,
    ) -> Spread {
        let mut spread = Spread::default();
        for site in sites {
            let (value, grain) = (number(&site.counts) as f64, self.grains.grain(site.stack, unit));
            spread.value += value;
            spread.variance += value * grain;
            spread.skew += value * grain * grain;
        }
        spread
    }
}

/// One of the numbers.
type Number<'a> = dyn Fn(&HeapCounts) -> u64 + 'a;

/// The ends of intervals, by the name of the number.
pub type Ends = BTreeMap<&'static str, [u64; 2]>;

fn all(of: impl Fn(&Number<'_>, Unit) -> Interval) -> Ends {
    let numbers: [(&'static str, Unit, &Number<'_>); 15] = [
        ("allocations", Unit::Count, &|counts| counts.allocations),
        ("frees", Unit::Count, &|counts| counts.frees),
        ("bytes_allocated", Unit::Bytes, &|counts| counts.bytes_allocated),
        ("bytes_freed", Unit::Bytes, &|counts| counts.bytes_freed),
        ("peak_bytes", Unit::Bytes, &|counts| counts.peak_bytes),
        ("peak_blocks", Unit::Count, &|counts| counts.peak_blocks),
        ("live_at_exit_bytes", Unit::Bytes, &|counts| counts.live_at_exit_bytes),
        ("live_at_exit_blocks", Unit::Count, &|counts| counts.live_at_exit_blocks),
        ("freed_elsewhere", Unit::Count, &|counts| counts.freed_elsewhere),
        ("leaks.definitely.bytes", Unit::Bytes, &|counts| counts.definitely_lost_bytes),
        ("leaks.indirectly.bytes", Unit::Bytes, &|counts| counts.indirectly_lost_bytes),
        ("leaks.possibly.bytes", Unit::Bytes, &|counts| counts.possibly_lost_bytes),
        ("leaks.definitely.blocks", Unit::Count, &|counts| counts.definitely_lost_blocks),
        ("leaks.indirectly.blocks", Unit::Count, &|counts| counts.indirectly_lost_blocks),
        ("leaks.possibly.blocks", Unit::Count, &|counts| counts.possibly_lost_blocks),
    ];
    let ends = numbers.map(|(name, unit, number)| {
        let Interval { low, high } = of(number, unit);
        (name, [low, high])
    });
    ends.into_iter().filter(|(_, [_, high])| *high > 0).collect()
}

#[derive(Debug, Default, Clone, Copy)]
struct Spread {
    value: f64,
    variance: f64,
    skew: f64,
}

impl Spread {
    fn interval(&self, z: f64) -> Interval {
        let grain = if self.variance > 0.0 { self.skew / self.variance } else { 0.0 };
        let middle = self.value + grain * z * z / 2.0;
        let half = z * (self.variance + (grain * z / 2.0).powi(2)).sqrt();
        Interval { low: (middle - half).max(0.0).round() as u64, high: (middle + half).round() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use whyslow_profile::{HistogramBar, HistogramOf};

    use super::*;
    use crate::testing;

    const TRIALS: usize = 4000;

    /// A reproducible random number generator.
    struct Random(u64);

    impl Random {
        fn exponential(&mut self, mean: f64) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            let uniform = (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -mean * uniform.ln()
        }
    }

    /// The behaviour of a site: a size, how many blocks of it are allocated, and how many of them are live at
    /// the peak.
    type Does = (u64, u64, u64);

    /// Samples a program byte by byte like the agent, and weighs like the collector.
    fn record(sites: &[&[Does]], every: f64, random: &mut Random) -> Profile {
        let mut left = random.exponential(every);
        let mut text = String::new();
        let mut bars = Vec::new();
        for (number, does) in sites.iter().enumerate() {
            let (mut blocks, mut bytes, mut peak_blocks, mut peak_bytes) = (0.0, 0.0, 0.0, 0.0);
            for &(size, made, live) in *does {
                let weight = -1.0 / (-(size as f64) / every).exp_m1();
                let mut seen = 0.0;
                for block in 0..made {
                    left -= size as f64;
                    if left > 0.0 {
                        continue;
                    }
                    left = random.exponential(every);
                    seen += weight;
                    if block >= made - live {
                        peak_blocks += weight;
                        peak_bytes += weight * size as f64;
                    }
                }
                blocks += seen;
                bytes += seen * size as f64;
                bars.push(HistogramBar {
                    site: number as u32,
                    of: HistogramOf::Size,
                    bar: (u64::BITS - size.leading_zeros()) as u8,
                    blocks: seen.round() as u64,
                });
            }
            text.push_str(&format!(
                "main;f{number} : allocations={blocks:.0} bytes_allocated={bytes:.0} peak_blocks={peak_blocks:.0} \
                 peak_bytes={peak_bytes:.0}\n"
            ));
        }
        let mut profile = testing::heap_profile(&text);
        profile.meta.heap.as_mut().unwrap().sample_bytes = Some(every as u64);
        profile.heap.histograms = bars;
        profile
    }

    /// How many of 100 intervals cover the true value: for allocations, bytes, blocks and bytes at the peak.
    fn coverage(sites: &[&[Does]], every: f64) -> [f64; 4] {
        let numbers: [(&Number<'_>, Unit); 3] = [
            (&|counts| counts.allocations, Unit::Count),
            (&|counts| counts.bytes_allocated, Unit::Bytes),
            (&|counts| counts.peak_blocks, Unit::Count),
        ];
        let all = || sites.iter().flat_map(|does| does.iter());
        let truth = [
            all().map(|(_, made, _)| made).sum::<u64>(),
            all().map(|(size, made, _)| size * made).sum(),
            all().map(|(_, _, live)| live).sum(),
            all().map(|(size, _, live)| size * live).sum(),
        ];
        let mut random = Random(7);
        let mut held = [0; 4];
        for _ in 0..TRIALS {
            let profile = record(sites, every, &mut random);
            let intervals = Intervals::of(&profile).unwrap();
            let found = numbers.map(|(number, unit)| intervals.of_all(&profile, number, unit));
            let found = [found[0], found[1], found[2], intervals.of_peak(&profile)];
            for ((held, interval), truth) in held.iter_mut().zip(found).zip(truth) {
                *held += usize::from((interval.low..=interval.high).contains(&truth));
            }
        }
        held.map(|held| 100.0 * held as f64 / TRIALS as f64)
    }

    #[test]
    fn intervals_cover_the_true_value_in_95_of_100_cases() {
        let programs: [(&[&[Does]], f64); 5] = [
            (&[&[(64, 4000, 4000)]], 4096.0),
            (&[&[(64, 600, 600)]], 4096.0),
            (&[&[(24, 3000, 3000)], &[(512, 300, 300)], &[(100_000, 5, 5)]], 4096.0),
            (&[&[(24, 2000, 2000), (100, 1000, 1000), (3000, 40, 40)]], 8192.0),
            (&[&[(4096, 60, 60)]], 4096.0),
        ];
        for (sites, every) in programs {
            let held = coverage(sites, every);
            assert!(held.iter().all(|held| (93.0..=97.0).contains(held)), "{sites:?}: {held:?}");
        }
    }

    #[test]
    fn peak_after_many_frees_is_covered_at_least_as_often() {
        let [.., peak] = coverage(&[&[(64, 8000, 800)]], 4096.0);
        assert!(peak >= 93.0, "{peak}");
    }

    #[test]
    fn counted_numbers_have_no_interval() {
        assert_eq!(Intervals::of(&testing::heap_profile("main : allocations=3 bytes_allocated=30")), None);
    }

    #[test]
    fn a_line_has_the_interval_of_its_own_blocks() {
        let mut profile = testing::heap_profile(
            "main;small : allocations=100 bytes_allocated=1600
             main;large : allocations=2 bytes_allocated=2000000000",
        );
        profile.meta.heap.as_mut().unwrap().sample_bytes = Some(160);
        let sites = super::super::Sites::build(&profile);
        let intervals = sites.intervals.as_ref().unwrap();
        let of = |row: usize| {
            intervals.of_row(&profile, &sites.rows[row], &|counts| counts.allocations, Unit::Count)
        };
        let (large, small) = (of(0), of(1));
        assert_eq!((large.low, large.high), (2, 2));
        // 10 samples of 10 blocks each.
        assert!((50..60).contains(&small.low) && (175..190).contains(&small.high), "{small:?}");
        assert!((small.relative(100) - 0.8).abs() < 0.1);
    }
}
