//! How much each allocation site allocated and freed over time, with the peak as a boundary between periods.

use rustc_hash::FxHashMap;
use whyslow_profile::{HeapSite, Profile, heap::metric};

/// The allocations and frees of one site in one period.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The period: a row of [`Timeline::starts`].
    pub period: usize,
    /// Blocks that were allocated.
    pub allocations: u64,
    /// Their bytes.
    pub bytes_allocated: u64,
    /// Bytes of blocks that were freed.
    pub bytes_freed: u64,
    /// How many of the blocks were temporary.
    pub temporary: u64,
}

/// The steps of every site over the periods of the recording.
#[derive(Debug, Default)]
pub struct Timeline {
    /// When each period starts, in nanoseconds since the recording began; at least one.
    pub starts: Vec<u64>,
    /// The period that ends with the peak.
    pub peak: usize,
    /// The steps of each site, in order of time. They never free more than is live.
    pub steps: Vec<Vec<Step>>,
    /// The maximum live bytes of each site; the largest number if unknown.
    pub most: Vec<u64>,
    /// Bytes by which the sites miss their value at the peak; 0 for whyslow's own recordings.
    pub peak_missed: u64,
}

impl Timeline {
    /// Builds the timeline from its samples and adjusts it to the numbers of the sites.
    pub fn new(profile: &Profile) -> Self {
        let mut starts = starts(profile);
        let peak_ns = profile.meta.heap.as_ref().map_or(0, |facts| facts.peak_ns.0);
        let peak = starts.partition_point(|&start| start <= peak_ns).saturating_sub(1);
        let mut steps = sampled(profile, &starts);
        starts.insert(peak + 1, peak_ns.max(starts[peak]));
        let mut peak_missed = 0;
        for (steps, site) in steps.iter_mut().zip(&profile.heap.sites) {
            agree(steps, site, peak);
            let missed = split_at_peak(steps, site.counts.peak_bytes, peak);
            peak_missed = missed.saturating_add(peak_missed);
        }
        let most =
            |site: &HeapSite| Some(site.counts.max_bytes).filter(|&bytes| bytes > 0).unwrap_or(u64::MAX);
        let most = profile.heap.sites.iter().map(most).collect();
        Self { starts, peak, steps, most, peak_missed }
    }

    /// When a period ends. The last one ends with the recording.
    pub fn end(&self, period: usize, duration_ns: u64) -> u64 {
        self.starts.get(period + 1).copied().unwrap_or(duration_ns.max(self.starts[period]))
    }
}

/// Larger numbers occur only in damaged files. The sum of two of these does not overflow.
const MOST: u64 = 1 << 62;

type Field = fn(&mut Step) -> &mut u64;
const FIELDS: [(&str, Field); 4] = [
    (metric::ALLOCATIONS, |step| &mut step.allocations),
    (metric::BYTES_ALLOCATED, |step| &mut step.bytes_allocated),
    (metric::BYTES_FREED, |step| &mut step.bytes_freed),
    (metric::TEMPORARY, |step| &mut step.temporary),
];

/// The samples of the timeline's metrics.
fn series(profile: &Profile) -> impl Iterator<Item = (&whyslow_profile::Samples, Field)> {
    FIELDS.into_iter().filter_map(|(name, field)| {
        let metric = profile.metric_named(name)?;
        Some((profile.samples.get(metric.index())?, field))
    })
}

fn starts(profile: &Profile) -> Vec<u64> {
    let mut starts: Vec<u64> =
        series(profile).flat_map(|(samples, _)| samples.time_ns.iter().copied()).collect();
    starts.sort_unstable();
    starts.dedup();
    if starts.is_empty() {
        starts.push(0);
    }
    starts
}

/// The samples, summed over threads.
fn sampled(profile: &Profile, starts: &[u64]) -> Vec<Vec<Step>> {
    let mut steps: Vec<Vec<Step>> = profile.heap.sites.iter().map(|_| Vec::new()).collect();
    let site_of: FxHashMap<_, usize> =
        profile.heap.sites.iter().enumerate().map(|(row, site)| (site.stack, row)).collect();
    let mut rows: FxHashMap<(usize, usize), usize> = FxHashMap::default();
    for (samples, field) in series(profile) {
        for row in 0..samples.len() {
            let Some(&site) = site_of.get(&samples.stack[row]) else { continue };
            let period = starts.partition_point(|&start| start <= samples.time_ns[row]) - 1;
            let steps = &mut steps[site];
            let at = *rows.entry((site, period)).or_insert_with(|| {
                steps.push(Step { period, ..Step::default() });
                steps.len() - 1
            });
            let sum = field(&mut steps[at]);
            *sum = sum.saturating_add(samples.value[row]);
        }
    }
    steps.iter_mut().for_each(|steps| steps.sort_unstable_by_key(|step| step.period));
    steps
}

/// Makes the steps add up to the site's numbers. Missing events (a profile without a timeline) are placed at
/// the peak.
fn agree(steps: &mut Vec<Step>, site: &HeapSite, peak: usize) {
    let counts = &site.counts;
    let freed = counts.bytes_allocated.saturating_sub(counts.live_at_exit_bytes);
    let totals =
        [counts.allocations, counts.bytes_allocated, freed, counts.temporary.min(counts.allocations)];
    for ((_, field), total) in FIELDS.into_iter().zip(totals) {
        let total = u128::from(total.min(MOST));
        let sum: u128 = steps.iter_mut().map(|step| u128::from(*field(step))).sum();
        if sum < total {
            let at = steps.iter().position(|step| step.period >= peak).unwrap_or(steps.len());
            if steps.get(at).is_none_or(|step| step.period != peak) {
                steps.insert(at, Step { period: peak, ..Step::default() });
            }
            *field(&mut steps[at]) += (total - sum) as u64;
        }
        let mut over = sum.saturating_sub(total);
        for step in steps.iter_mut().rev() {
            let less = over.min(u128::from(*field(step)));
            *field(step) -= less as u64;
            over -= less;
        }
    }
    let (mut live, mut later) = (0, 0);
    for step in steps {
        let wanted = step.bytes_freed + later;
        step.bytes_freed = wanted.min(live + step.bytes_allocated);
        later = wanted - step.bytes_freed;
        live = live + step.bytes_allocated - step.bytes_freed;
    }
}

/// Splits the period that contains the peak at the peak, where the site had this many bytes. Later periods
/// move up by one. Returns the error in bytes.
fn split_at_peak(steps: &mut Vec<Step>, at_peak: u64, peak: usize) -> u64 {
    let row = steps.partition_point(|step| step.period < peak);
    let live = live_after(&steps[..row]);
    let has_step = steps.get(row).is_some_and(|step| step.period == peak);
    let whole = if has_step { steps.remove(row) } else { Step { period: peak, ..Step::default() } };
    steps[row..].iter_mut().for_each(|step| step.period += 1);
    let (made, freed) = before_peak(&whole, live, at_peak);
    let blocks = blocks_before(&whole, made);
    let temporary = whole.temporary.min(whole.allocations - blocks);
    let before = Step {
        period: peak,
        allocations: blocks,
        bytes_allocated: made,
        bytes_freed: freed,
        temporary: whole.temporary - temporary,
    };
    let after = Step {
        period: peak + 1,
        allocations: whole.allocations - blocks,
        bytes_allocated: whole.bytes_allocated - made,
        bytes_freed: whole.bytes_freed - freed,
        temporary,
    };
    let parts =
        [before, after].into_iter().filter(|step| *step != Step { period: step.period, ..Step::default() });
    steps.splice(row..row, parts);
    (live + made - freed).abs_diff(at_peak)
}

/// The live bytes after these steps.
pub fn live_after(steps: &[Step]) -> u64 {
    steps.iter().fold(0, |live, step| live + step.bytes_allocated - step.bytes_freed)
}

/// How many of the period's bytes were allocated and freed before the peak.
fn before_peak(whole: &Step, live: u64, at_peak: u64) -> (u64, u64) {
    let all = live + whole.bytes_allocated;
    if whole.allocations == 1 && at_peak <= all && all - at_peak <= whole.bytes_freed {
        return (whole.bytes_allocated, all - at_peak);
    }
    if at_peak >= live {
        ((at_peak - live).min(whole.bytes_allocated), 0)
    } else {
        (0, (live - at_peak).min(whole.bytes_freed))
    }
}

/// How many of the period's blocks these bytes make up.
fn blocks_before(whole: &Step, made: u64) -> u64 {
    let Step { allocations, bytes_allocated, temporary, .. } = *whole;
    if made == 0 || allocations == 0 {
        return 0;
    }
    if made == bytes_allocated {
        return allocations.saturating_sub(temporary).max(1);
    }
    let share = u128::from(allocations) * u128::from(made) / u128::from(bytes_allocated);
    (share as u64).clamp(1, (allocations - 1).max(1))
}
