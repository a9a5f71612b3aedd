//! The confidence intervals of the numbers of a sampled heap.
//!
//! ```text
//! number V of several stacks      variance v = Σ Vᵢ gᵢ      gᵢ: the stack's grain, see [`Grains`]
//! lower end                       c v/V                     V²/v: the number of equal samples that are as noisy
//!                                                           c: the least mean with which so many are seen, if any
//! upper end                       G(s) (v+m²)/(V+m)         s = (V+m)²/(v+m²), G: the gamma distribution's quantile
//!                                                           m: the grain of the program's smallest blocks
//! ```
//! For blocks of one size these are the ends of a Poisson mean. Blocks that are smaller than those that were drawn are
//! drawn more rarely: the upper end counts with one more sample of the smallest ones (Fay and Feuer's interval of a
//! weighted sum). So it covers the true number also on a line that has two large blocks and many tiny ones of which none
//! was drawn, and it is far above the estimate there. Only lines with a sample are shown, and among those with few
//! blocks these are the ones that chance made large: the lower end takes that into account.
//!
//! The peak is the largest of many estimates, so noise makes it too large, and more so the more often the
//! heap was renewed before. With n = bytes allocated / bytes live at the peak, its lower end uses `z =
//! √(1.96² + 2 ln n)`, the most by which noise lifts the largest of n independent estimates.

use std::collections::BTreeMap;

use whyslow_profile::{HeapCounts, HeapSite, Profile, Unit};
use whyslow_stats::chance::{gamma_quantile, least_mean_if_seen, normal_two_sided};

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
    /// An upper end this many times the number says nothing.
    const FAR: f64 = 10.0;

    /// The distance of the farther end from the number, as a share of it. `None` if only the lower end is known.
    pub fn relative(&self, number: u64) -> Option<f64> {
        let far = number.saturating_sub(self.low).max(self.high.saturating_sub(number));
        (self.high as f64 <= Self::FAR * number as f64).then(|| far as f64 / number.max(1) as f64)
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
        let mut spread = Spread { value: 0.0, variance: 0.0, unseen: self.grains.largest(unit) };
        for site in sites {
            let (value, grain) = (number(&site.counts) as f64, self.grains.grain(site.stack, unit));
            spread.value += value;
            spread.variance += value * grain;
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

/// An estimate and what is known of its noise.
#[derive(Debug, Clone, Copy)]
struct Spread {
    value: f64,
    variance: f64,
    /// The grain of blocks that may not have been drawn.
    unseen: f64,
}

impl Spread {
    fn interval(&self, z: f64) -> Interval {
        let Self { value, variance, unseen } = *self;
        if value <= 0.0 {
            return Interval { low: 0, high: 0 };
        }
        let equal = value * value / variance;
        let low = match equal.is_finite() {
            true => least_mean_if_seen(equal, normal_two_sided(z) / 2.0) * (value / equal),
            false => value,
        };
        let (value, variance) = (value + unseen, variance + unseen * unseen);
        let equal = value * value / variance;
        let high = if equal.is_finite() { gamma_quantile(equal, z) * (value / equal) } else { value };
        // What was seen is there.
        Interval { low: (low.round() as u64).max(1), high: high.ceil() as u64 }
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
                if seen == 0.0 {
                    continue;
                }
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
    fn intervals_cover_the_true_value_in_at_least_95_of_100_cases() {
        let programs: [(&[&[Does]], f64); 5] = [
            (&[&[(64, 4000, 4000)]], 4096.0),
            (&[&[(64, 600, 600)]], 4096.0),
            (&[&[(24, 3000, 3000)], &[(512, 300, 300)], &[(100_000, 5, 5)]], 4096.0),
            (&[&[(24, 2000, 2000), (100, 1000, 1000), (3000, 40, 40)]], 8192.0),
            (&[&[(4096, 60, 60)]], 4096.0),
        ];
        for (sites, every) in programs {
            let held = coverage(sites, every);
            // 4,000 trials tell the coverage within 1 %.
            assert!(held.iter().all(|held| *held >= 94.0), "{sites:?}: {held:?}");
        }
    }

    /// Lines as programs have them, by what their blocks are like.
    const LINES: [(&str, &[&[Does]]); 5] = [
        (
            "of one size",
            &[
                &[(24, 400, 0)],
                &[(24, 3000, 0)],
                &[(24, 80_000, 0)],
                &[(300, 60, 0)],
                &[(300, 6000, 0)],
                &[(9000, 1, 0)],
                &[(9000, 40, 0)],
                &[(80_000, 3, 0)],
                &[(1 << 20, 2, 0)],
            ],
        ),
        (
            "that grow",
            &[
                &[
                    (64, 1, 0),
                    (128, 1, 0),
                    (256, 1, 0),
                    (512, 1, 0),
                    (1024, 1, 0),
                    (2048, 1, 0),
                    (4096, 1, 0),
                    (8192, 1, 0),
                ],
                &[
                    (64, 40, 0),
                    (128, 40, 0),
                    (256, 40, 0),
                    (512, 40, 0),
                    (1024, 40, 0),
                    (2048, 40, 0),
                    (4096, 40, 0),
                ],
            ],
        ),
        (
            "of many sizes",
            &[
                &[
                    (8, 50, 0),
                    (30, 90, 0),
                    (90, 120, 0),
                    (300, 90, 0),
                    (900, 50, 0),
                    (3000, 20, 0),
                    (10_000, 5, 0),
                    (30_000, 1, 0),
                ],
                &[
                    (8, 5000, 0),
                    (30, 9000, 0),
                    (90, 12_000, 0),
                    (300, 9000, 0),
                    (900, 5000, 0),
                    (3000, 2000, 0),
                ],
            ],
        ),
        (
            "of few large and many tiny ones",
            &[
                &[(500_000, 2, 0), (16, 1000, 0)],
                &[(500_000, 2, 0), (16, 9000, 0)],
                &[(5000, 30, 0), (24, 300, 0)],
            ],
        ),
        ("of rare blocks", &[&[(100, 3, 0)], &[(100, 1, 0)], &[(2000, 1, 0)], &[(40, 5, 0)], &[(16, 30, 0)]]),
    ];

    #[test]
    fn intervals_of_visible_lines_cover_the_true_value_whatever_the_sizes_of_their_blocks() {
        const EVERY: f64 = 65_536.0;
        let numbers: [(&Number<'_>, Unit); 2] =
            [(&|counts| counts.allocations, Unit::Count), (&|counts| counts.bytes_allocated, Unit::Bytes)];
        let mut random = Random(11);
        // How many lines were visible, how many of the intervals of their blocks and of their bytes hold.
        let mut held = [[0u32; 3]; LINES.len()];
        let mut widths = Vec::new();
        for _ in 0..200 {
            let sites = LINES.iter().flat_map(|(_, lines)| lines.iter().copied()).collect::<Vec<_>>();
            let kinds =
                LINES.iter().enumerate().flat_map(|(kind, (_, lines))| lines.iter().map(move |_| kind));
            let profile = record(&sites, EVERY, &mut random);
            let intervals = Intervals::of(&profile).unwrap();
            for ((site, does), kind) in profile.heap.sites.iter().zip(&sites).zip(kinds) {
                if site.counts.allocations == 0 {
                    continue;
                }
                let truth = [
                    does.iter().map(|(_, made, _)| made).sum::<u64>(),
                    does.iter().map(|(size, made, _)| size * made).sum::<u64>(),
                ];
                held[kind][0] += 1;
                for (at, ((number, unit), truth)) in numbers.iter().zip(truth).enumerate() {
                    let found = intervals.spread(std::iter::once(site), number, *unit).interval(Z_95);
                    held[kind][at + 1] += u32::from((found.low..=found.high).contains(&truth));
                    if *does == [(24, 80_000, 0)] && *unit == Unit::Count {
                        widths.push(found.high as f64 / site.counts.allocations as f64);
                    }
                }
            }
        }
        for ([visible, rest @ ..], (kind, _)) in held.into_iter().zip(LINES) {
            let shares = rest.map(|held| f64::from(held) / f64::from(visible));
            assert!(shares.iter().all(|share| *share >= 0.95), "lines {kind}: {shares:?} of {visible}");
        }
        // The many small blocks of a line are known well.
        let width = widths.iter().sum::<f64>() / widths.len() as f64;
        assert!((1.3..1.6).contains(&width), "{width}");
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
        // Two are certain. Of blocks of 16 bytes, up to 37 may be there of which none was drawn.
        assert_eq!(large.low, 2);
        assert!((35..45).contains(&large.high) && large.relative(2).is_none(), "{large:?}");
        // 10 samples of 10 blocks each: the exact interval of 10 events.
        assert!((47..50).contains(&small.low) && (180..188).contains(&small.high), "{small:?}");
        assert!((small.relative(100).unwrap() - 0.84).abs() < 0.05);
    }
}
