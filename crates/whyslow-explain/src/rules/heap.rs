//! Rules over heap recordings: allocations, live bytes over time, and leaks.

use whyslow_analyze::heap::{SiteRow, Sites, live_over_time};
use whyslow_profile::heap::metric;
use whyslow_profile::{Growth, HeapCounts, LeakCheck};
use whyslow_words::{Count, Fact, bytes, duration, number_of};

use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::rule::{Rule, Signal};
use crate::rules::RuleId;

/// How many lines are shown as evidence.
const SHOWN: usize = 3;
/// This many allocations per second take about five percent of the time.
const MANY_PER_SECOND: f64 = 500_000.0;
/// Fewer allocations are not worth a change.
const FEWEST: u64 = 20_000;
/// Findings about less memory than this are not worth a change.
const MUCH_MEMORY: u64 = 16 << 20;

pub(super) static ALLOCATION_IN_LOOP: Rule = Rule {
    id: RuleId::AllocationInLoop,
    title: "a line allocates memory over and over and frees it soon after",
    rust: "create the buffer once, before the loop, and clear() it in each iteration, which keeps its memory; or pass in &mut Vec and &mut String instead of returning new ones",
    native: Some(
        "create the buffer once, before the loop, and clear() it in each iteration, or pass it in instead of returning a new one",
    ),
    signal: Signal::Facts(allocation_in_loop),
};

pub(super) static SHORT_LIVED_ALLOCATIONS: Rule = Rule {
    id: RuleId::ShortLivedAllocations,
    title: "most allocations are small and short-lived, across many lines",
    rust: "keep small values on the stack (arrays, ArrayVec, SmallVec, &str instead of String), reuse buffers, or allocate values with the same lifetime from an arena (bumpalo)",
    native: Some(
        "keep small values on the stack, pass pointers with a length (std::string_view), reuse buffers, or allocate values with the same lifetime from an arena (std::pmr::monotonic_buffer_resource)",
    ),
    signal: Signal::Facts(short_lived_allocations),
};

pub(super) static MANY_SMALL_BLOCKS: Rule = Rule {
    id: RuleId::ManySmallBlocks,
    title: "one line makes most of the allocations: a very large number of small blocks that are kept",
    rust: "keep the elements in one Vec and refer to them by index (u32) instead of a Box or Rc for each, or allocate them from an arena (typed-arena, bumpalo), which is freed at once",
    native: Some(
        "keep the elements in one array or std::vector and refer to them by index instead of allocating each, or allocate them from a pool (std::pmr::monotonic_buffer_resource), which is freed at once",
    ),
    signal: Signal::Facts(many_small_blocks),
};

pub(super) static UNUSED_CAPACITY: Rule = Rule {
    id: RuleId::UnusedCapacity,
    title: "a large part of the allocated memory is never written to",
    rust: "allocate only what you need: use a smaller with_capacity(n), or call shrink_to_fit() or into_boxed_slice() once it is filled",
    native: Some(
        "allocate only what you need: use a smaller reserve(n) or a buffer of the real size, or call shrink_to_fit() once it is filled",
    ),
    signal: Signal::Facts(unused_capacity),
};

pub(super) static LEAKS: Rule = Rule {
    id: RuleId::Leaks,
    title: "memory leak: nothing points to these blocks any more, and they were never freed",
    rust: "look for mem::forget, Box::leak, into_raw without from_raw, cycles of Rc or Arc (break them with Weak), and memory that C code hands over",
    native: Some(
        "free it before the last pointer goes away, or let std::unique_ptr own it; break cycles of std::shared_ptr with std::weak_ptr",
    ),
    signal: Signal::Facts(leaks),
};

pub(super) static MEMORY_GROWS: Rule = Rule {
    id: RuleId::MemoryGrows,
    title: "memory grows until the end of the run",
    rust: "limit what you keep: a cache with a maximum size (lru), a bounded channel, results written out instead of collected; drop values you no longer need",
    native: Some(
        "limit what you keep: a cache with a maximum size, a bounded queue, results written out instead of collected",
    ),
    signal: Signal::Facts(memory_grows),
};

pub(super) static MEMORY_SAW_TOOTH: Rule = Rule {
    id: RuleId::MemorySawTooth,
    title: "memory is built up and released over and over",
    rust: "reuse large buffers between rounds (clear() instead of a new one), or work in smaller pieces to lower the peak",
    native: Some(
        "reuse large buffers between rounds instead of freeing them, or work in smaller pieces to lower the peak",
    ),
    signal: Signal::Facts(memory_saw_tooth),
};

pub(super) static PEAK_BY_ONE_LINE: Rule = Rule {
    id: RuleId::PeakByOneLine,
    title: "one line holds most of the memory at the peak",
    rust: "process the data in pieces or as a stream (BufReader, chunks), free it before the next large allocation, or use smaller types (u32 for usize, Box<str> for String)",
    native: Some(
        "process the data in pieces or as a stream, free it before the next large allocation, or use smaller types",
    ),
    signal: Signal::Facts(peak_by_one_line),
};

/// Allocation sites that have a part of one of the counters.
struct Lines<'a> {
    facts: &'a Facts<'a>,
    sites: &'a Sites,
    rows: Vec<&'a SiteRow>,
    number: fn(&HeapCounts) -> u64,
    /// The total that `number` is a part of.
    whole: u64,
}

impl<'a> Lines<'a> {
    /// The sites that `is_relevant` accepts, largest part first.
    fn new(
        facts: &'a Facts<'a>,
        sites: &'a Sites,
        (number, whole): (fn(&HeapCounts) -> u64, u64),
        is_relevant: impl Fn(&SiteRow) -> bool,
    ) -> Self {
        let mut rows =
            sites.rows.iter().filter(|row| number(&row.counts) > 0 && is_relevant(row)).collect::<Vec<_>>();
        rows.sort_by_key(|row| (std::cmp::Reverse(number(&row.counts)), row.line));
        Self { facts, sites, rows, number, whole }
    }

    fn sum(&self) -> u64 {
        self.rows.iter().fold(0, |sum, row| sum.saturating_add((self.number)(&row.counts)))
    }

    fn share(&self) -> f64 {
        Measured::counted(self.sum(), self.whole).share
    }

    fn share_of(&self, row: &SiteRow) -> f64 {
        Measured::counted((self.number)(&row.counts), self.whole).share
    }

    /// The share. If only some allocations were recorded, the interval follows from the recording's sampling
    /// error.
    fn measured(&self) -> Measured {
        let counted = Measured::counted(self.sum(), self.whole);
        let error = self.facts.question.profile.meta.heap.as_ref().and_then(|facts| facts.sample_error);
        let error = error.filter(|_| self.sites.intervals.is_some()).unwrap_or(0.0);
        let margin = 1.96 * error * counted.share;
        let interval = [(counted.share - margin).max(0.0), (counted.share + margin).min(1.0)];
        Measured { interval, ..counted }
    }

    /// The finding, with the text of `says` for each line as evidence.
    fn finding(&self, rule: &'static Rule, of: Cost, says: impl Fn(&SiteRow) -> String) -> Finding {
        let places = self.rows.iter().map(|row| (place(row), self.share_of(row))).collect();
        let evidence = self.rows.iter().take(SHOWN);
        let evidence = evidence.map(|row| Evidence::at(says(row), place(row), self.share_of(row)));
        Finding {
            evidence: evidence.collect(),
            stacks: self.rows.iter().map(|row| row.stack).collect(),
            ..Finding::new(rule, self.facts.question, of, self.measured(), places)
        }
    }
}

/// The line in the user's code if another line allocates, else the allocating line.
fn place(row: &SiteRow) -> Place {
    row.own.map_or(Place { label: row.label, file: row.file, line: row.line }, Place::from)
}

/// Whether blocks of a line are freed before the next allocation, or soon after.
fn is_short_lived(facts: &Facts<'_>, counts: &HeapCounts) -> bool {
    let mean_ns = counts.lifetime_ns / counts.allocations.max(1);
    let is_temporary = counts.temporary >= counts.allocations / 2;
    is_temporary || mean_ns <= facts.question.profile.meta.duration_ns / 1000
}

/// Whether there are enough allocations to matter, for the time that the program ran: on a busy machine it
/// takes longer, but allocates no less.
fn are_many(facts: &Facts<'_>, allocations: u64) -> bool {
    let (lasted, ran) = (facts.question.profile.meta.duration_ns, facts.cpu_ns());
    let seconds = if ran > 0 { lasted.min(ran) } else { lasted } as f64 / 1e9;
    allocations >= FEWEST && allocations as f64 >= MANY_PER_SECOND * seconds
}

/// The number of new blocks: growing a block does not count.
fn made(counts: &HeapCounts) -> u64 {
    counts.allocations.saturating_sub(counts.grown)
}

/// The lines with a large part of all allocations, each freed soon.
fn looping<'a>(facts: &'a Facts<'_>, sites: &'a Sites) -> Lines<'a> {
    const LEAST_OF_LINE: f64 = 0.20;
    let whole = made(&sites.totals);
    Lines::new(facts, sites, (made, whole), |row| {
        let is_large = made(&row.counts) as f64 >= LEAST_OF_LINE * whole as f64;
        is_large && is_short_lived(facts, &row.counts) && are_many(facts, made(&row.counts))
    })
}

fn allocation_in_loop(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    let Some(sites) = facts.sites() else { return Vec::new() };
    let lines = looping(facts, sites);
    if lines.rows.is_empty() {
        return Vec::new();
    }
    vec![lines.finding(rule, Cost::Allocations, |row| {
        format!(
            "{} allocations of {} on average, freed after {}:",
            Count(made(&row.counts)),
            mean_size(row),
            mean_life(row)
        )
    })]
}

fn short_lived_allocations(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const SMALL: u64 = 256;
    const LEAST: f64 = 0.5;
    let Some(sites) = facts.sites() else { return Vec::new() };
    let reported = looping(facts, sites);
    let lines = Lines::new(facts, sites, (made, made(&sites.totals)), |row| {
        let counts = &row.counts;
        let is_small = counts.bytes_allocated / counts.allocations.max(1) <= SMALL;
        let is_reported = reported.rows.iter().any(|other| std::ptr::eq(*other, row));
        is_small && !is_reported && is_short_lived(facts, counts)
    });
    // `allocation-in-loop` reports single lines.
    if lines.share() < LEAST || lines.rows.len() < 2 || !are_many(facts, lines.sum()) {
        return Vec::new();
    }
    vec![lines.finding(rule, Cost::Allocations, |row| {
        format!(
            "{} allocations of {} on average, freed after {}:",
            Count(made(&row.counts)),
            mean_size(row),
            mean_life(row)
        )
    })]
}

/// Lines that allocate most of all blocks, small ones, which live on.
fn many_small_blocks(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const SMALL: u64 = 256;
    const LEAST_OF_LINE: f64 = 0.5;
    const FEWEST_BLOCKS: u64 = 200_000;
    let Some(sites) = facts.sites() else { return Vec::new() };
    let whole = made(&sites.totals);
    let lines = Lines::new(facts, sites, (made, whole), |row| {
        let counts = &row.counts;
        let is_small = counts.bytes_allocated / counts.allocations.max(1) <= SMALL;
        let is_most = made(counts) as f64 >= LEAST_OF_LINE * whole as f64 && made(counts) >= FEWEST_BLOCKS;
        is_small && is_most && !is_short_lived(facts, counts)
    });
    if lines.rows.is_empty() {
        return Vec::new();
    }
    vec![lines.finding(rule, Cost::Allocations, |row| {
        let at_peak = Count(row.counts.peak_blocks);
        format!(
            "{} blocks of {} on average, {at_peak} at the peak:",
            Count(made(&row.counts)),
            mean_size(row)
        )
    })]
}

fn mean_size(row: &SiteRow) -> String {
    bytes(row.counts.bytes_allocated / row.counts.allocations.max(1)).to_string()
}

fn mean_life(row: &SiteRow) -> String {
    duration(row.counts.lifetime_ns / row.counts.allocations.max(1)).to_string()
}

/// Lines where the heap recording knows a capacity that would avoid the reallocations.
pub(super) fn vec_growth(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.05;
    let Some(sites) = facts.sites() else { return Vec::new() };
    let number: fn(&HeapCounts) -> u64 = |counts| counts.grown;
    let lines =
        Lines::new(facts, sites, (number, sites.totals.allocations), |row| row.advice.capacity().is_some());
    // Copied bytes count too: a few large moves are as slow as many small ones.
    let copied: u64 = lines.rows.iter().map(|row| row.counts.bytes_copied).sum();
    let copied_much = copied as f64 >= LEAST * sites.totals.bytes_allocated as f64;
    let grown_much = lines.share() >= LEAST && are_many(facts, lines.sum());
    // Few reallocations that copy much are named by the bytes that they copy.
    let copying: (fn(&HeapCounts) -> u64, u64) = (|counts| counts.bytes_copied, sites.totals.bytes_allocated);
    let (lines, of) = if grown_much {
        (lines, Cost::Allocations)
    } else {
        (Lines::new(facts, sites, copying, |row| row.advice.capacity().is_some()), Cost::Bytes)
    };
    if lines.rows.is_empty() || !(grown_much || (copied_much && copied >= MUCH_MEMORY)) {
        return Vec::new();
    }
    vec![lines.finding(rule, of, |row| {
        let advice =
            row.capacity_advice().map_or(String::new(), |advice| format!("; {}", advice.remark().text));
        let grown = number_of(row.counts.grown, "reallocation", "reallocations");
        format!("{grown} moved {}{advice}:", bytes(row.counts.bytes_copied))
    })]
}

fn unused_capacity(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.10;
    const LEAST_OF_LINE: f64 = 0.5;
    const FEWEST_BYTES: u64 = 1 << 20;
    let Some(sites) = facts.sites() else { return Vec::new() };
    let number: fn(&HeapCounts) -> u64 = |counts| counts.unused_bytes;
    let lines = Lines::new(facts, sites, (number, sites.totals.examined_bytes), |row| {
        let HeapCounts { unused_bytes, examined_bytes, .. } = row.counts;
        unused_bytes as f64 >= LEAST_OF_LINE * examined_bytes as f64
    });
    if lines.share() < LEAST || lines.sum() < FEWEST_BYTES {
        return Vec::new();
    }
    vec![
        lines
            .finding(rule, Cost::Bytes, |row| {
                let HeapCounts { unused_bytes, examined_bytes, .. } = row.counts;
                format!("{} of {} never written to:", bytes(unused_bytes), bytes(examined_bytes))
            })
            .checked_by(facts.question, metric::UNUSED),
    ]
}

fn lost(counts: &HeapCounts) -> u64 {
    counts.definitely_lost_bytes.saturating_add(counts.indirectly_lost_bytes)
}

fn leaks(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.01;
    const FEWEST_BYTES: u64 = 4 << 10;
    let Some(sites) = facts.sites() else { return Vec::new() };
    let heap = facts.question.profile.meta.heap.as_ref();
    let is_checked = heap.is_some_and(|heap| heap.leaks == LeakCheck::AtExit);
    let lines = Lines::new(facts, sites, (lost, sites.totals.peak_bytes), |_| true);
    if !is_checked || lines.share() < LEAST || lines.sum() < FEWEST_BYTES {
        return Vec::new();
    }
    vec![
        lines
            .finding(rule, Cost::Peak, |row| {
                let blocks = row.counts.definitely_lost_blocks + row.counts.indirectly_lost_blocks;
                format!("{} lost in {}:", bytes(lost(&row.counts)), number_of(blocks, "block", "blocks"))
            })
            .checked_by(facts.question, metric::LIVE_AT_EXIT),
    ]
}

fn at_peak(counts: &HeapCounts) -> u64 {
    counts.peak_bytes
}

/// How the live bytes of the whole program developed.
fn program_growth(facts: &Facts<'_>) -> Option<Growth> {
    let heap = facts.question.profile.meta.heap.as_ref()?;
    Growth::ALL.iter().copied().find(|growth| growth.label() == heap.growth)
}

/// Lines that grow in a program that grows. `leaks` reports lost memory.
fn growing<'a>(facts: &'a Facts<'_>, sites: &'a Sites) -> Lines<'a> {
    let grows = matches!(program_growth(facts), Some(Growth::Linear | Growth::Unbounded));
    Lines::new(facts, sites, (at_peak, sites.totals.peak_bytes), |row| {
        let is_lost = lost(&row.counts) >= row.counts.peak_bytes / 2;
        grows && matches!(row.growth, Growth::Linear | Growth::Unbounded) && !is_lost
    })
}

fn memory_grows(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.3;
    /// In a shorter run, the growth may just be a program reading its input.
    const LONG_NS: u64 = 30_000_000_000;
    let Some(sites) = facts.sites() else { return Vec::new() };
    let lines = growing(facts, sites);
    if lines.share() < LEAST || sites.totals.peak_bytes < MUCH_MEMORY {
        return Vec::new();
    }
    let lasted = facts.question.profile.meta.duration_ns;
    let mut finding = lines.finding(rule, Cost::Peak, |row| {
        let blocks = number_of(row.counts.peak_blocks, "block", "blocks");
        format!("{} in {blocks} at the peak:", bytes(row.counts.peak_bytes))
    });
    let how = if program_growth(facts) == Some(Growth::Unbounded) {
        "faster and faster, or in steps"
    } else {
        "steadily"
    };
    finding.evidence.push(Evidence::words(format!(
        "live memory grows {how}, to {} in {}",
        bytes(sites.totals.peak_bytes),
        duration(lasted)
    )));
    finding.confidence = if lasted >= LONG_NS { Confidence::Medium } else { Confidence::Low };
    vec![finding]
}

/// Lines whose live bytes go up and down in a program whose live bytes do.
fn swinging<'a>(facts: &'a Facts<'_>, sites: &'a Sites) -> Lines<'a> {
    let swings = program_growth(facts) == Some(Growth::Sawtooth);
    Lines::new(facts, sites, (at_peak, sites.totals.peak_bytes), |row| {
        swings && row.growth == Growth::Sawtooth
    })
}

fn memory_saw_tooth(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.5;
    let Some(sites) = facts.sites() else { return Vec::new() };
    let lines = swinging(facts, sites);
    if lines.share() < LEAST || sites.totals.peak_bytes < MUCH_MEMORY {
        return Vec::new();
    }
    let falls = falls(&live_over_time(facts.question.profile, 200));
    let mut finding = lines.finding(rule, Cost::Peak, |row| {
        format!(
            "{} at the peak, {} allocated in total:",
            bytes(row.counts.peak_bytes),
            bytes(row.counts.bytes_allocated)
        )
    });
    finding.evidence.push(Evidence::words(format!(
        "live bytes drop by half of the peak or more, at least {falls} times"
    )));
    finding.confidence = Confidence::Medium;
    // One drop is just the end of the work.
    if falls < 3 { Vec::new() } else { vec![finding] }
}

/// How often a curve drops by half of its peak after it rose by as much.
fn falls(line: &[u64]) -> usize {
    let half = line.iter().max().copied().unwrap_or(0) / 2;
    let (mut falls, mut high, mut low, mut is_up) = (0, 0, 0, false);
    for &live in line {
        if is_up {
            high = live.max(high);
            if live + half <= high {
                (falls, is_up, low) = (falls + 1, false, live);
            }
        } else {
            low = live.min(low);
            if live >= low + half {
                (is_up, high) = (true, live);
            }
        }
    }
    falls
}

fn peak_by_one_line(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.5;
    /// Small programs also have such a line, and it does not matter.
    const LEAST_BYTES: u64 = 64 << 20;
    let Some(sites) = facts.sites() else { return Vec::new() };
    // Other rules already report these lines.
    let reported = [growing(facts, sites), swinging(facts, sites)];
    let is_reported =
        |row: &SiteRow| reported.iter().any(|lines| lines.rows.iter().any(|other| std::ptr::eq(*other, row)));
    let whole = sites.totals.peak_bytes;
    let lines = Lines::new(facts, sites, (at_peak, whole), |row| {
        let is_lost = lost(&row.counts) >= row.counts.peak_bytes / 2;
        row.counts.peak_bytes as f64 >= LEAST * whole as f64 && !is_lost && !is_reported(row)
    });
    if lines.rows.is_empty() || whole < LEAST_BYTES {
        return Vec::new();
    }
    vec![lines.finding(rule, Cost::Peak, |row| {
        format!(
            "{} of {} at the peak, in {}:",
            bytes(row.counts.peak_bytes),
            bytes(whole),
            number_of(row.counts.peak_blocks, "block", "blocks")
        )
    })]
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::{add_heap, heap_profile, profile};
    use whyslow_profile::{GrowthBar, MetricId, Profile};

    use super::super::testing::{evidence, found, line, of_rule, percent};
    use super::*;

    const MB: u64 = 1 << 20;

    /// A recording of one second.
    fn second(text: &str) -> Profile {
        let mut profile = heap_profile(text);
        profile.meta.duration_ns = 1_000_000_000;
        profile
    }

    #[test]
    fn many_small_blocks_of_one_line_that_live_on_are_reported() {
        let text = |allocations: u64, size: u64, life: u64| {
            second(&format!(
                "app::main@m.rs:3;app::build@w.rs:9 : allocations={allocations} bytes_allocated={} lifetime_ns={} peak_blocks={allocations}
                 app::main@m.rs:4;app::rest@w.rs:20 : allocations=20000 bytes_allocated=2000000 lifetime_ns=100000000000000",
                allocations * size,
                allocations * life
            ))
        };
        let second_ns = 1_000_000_000;
        let finding = of_rule(&text(1_000_000, 24, second_ns / 2), RuleId::ManySmallBlocks).unwrap();
        assert_eq!((line(&finding), percent(&finding), finding.of), (9, 98, Cost::Allocations));
        let words = "1,000,000 blocks of 24 B on average, 1,000,000 at the peak:";
        assert!(evidence(&finding).contains(words), "{}", evidence(&finding));
        assert_eq!(
            of_rule(&text(1_000_000, 24, 100), RuleId::ManySmallBlocks),
            None,
            "allocation-in-loop has them"
        );
        assert_eq!(of_rule(&text(1_000_000, 4096, second_ns), RuleId::ManySmallBlocks), None);
        assert_eq!(of_rule(&text(10_000, 24, second_ns), RuleId::ManySmallBlocks), None);
    }

    #[test]
    fn a_starved_program_allocates_as_often() {
        let mut profile = second(
            "app::main@m.rs:3;app::work@w.rs:9 : allocations=800000 bytes_allocated=80000000 temporary=800000",
        );
        profile.meta.duration_ns *= 30;
        assert_eq!(of_rule(&profile, RuleId::AllocationInLoop), None);
        profile.meta.user_time_ns = 1_000_000_000;
        assert!(of_rule(&profile, RuleId::AllocationInLoop).is_some());
    }

    #[test]
    fn a_line_that_allocates_repeatedly_is_reported_with_its_numbers() {
        let text = |allocations: u64, temporary: u64, life: u64| {
            second(&format!(
                "app::main@m.rs:3;app::work@w.rs:9 : allocations={allocations} bytes_allocated={} temporary={temporary} lifetime_ns={}
                 app::main@m.rs:4;app::rest@w.rs:20 : allocations=200000 bytes_allocated=2000000 lifetime_ns=100000000000000",
                allocations * 100,
                allocations * life
            ))
        };
        let finding = of_rule(&text(800_000, 800_000, 50), RuleId::AllocationInLoop).unwrap();
        assert_eq!(
            (line(&finding), percent(&finding), finding.of, finding.max_speedup),
            (9, 80, Cost::Allocations, None)
        );
        assert!(
            evidence(&finding).contains("800,000 allocations of 100 B on average"),
            "{}",
            evidence(&finding)
        );
        assert!(finding.verify.contains("--metric allocations --function 'app::work'"), "{}", finding.verify);
        // Few allocations per second, and blocks that live long, are not a problem.
        assert_eq!(of_rule(&text(300_000, 300_000, 50), RuleId::AllocationInLoop), None);
        assert_eq!(of_rule(&text(800_000, 0, 500_000_000), RuleId::AllocationInLoop), None);
    }

    #[test]
    fn small_blocks_of_many_lines_are_one_finding() {
        let text = |size: u64| {
            let rows = (1..=8).map(|line| {
                format!(
                    "app::main@m.rs:{line} : allocations=100000 temporary=100000 bytes_allocated={}\n",
                    100_000 * size
                )
            });
            second(&rows.collect::<String>())
        };
        let finding = of_rule(&text(24), RuleId::ShortLivedAllocations).unwrap();
        assert_eq!((percent(&finding), finding.places.len()), (100, 8));
        assert_eq!(of_rule(&text(24), RuleId::AllocationInLoop), None, "no line stands out");
        assert_eq!(of_rule(&text(4096), RuleId::ShortLivedAllocations), None);
    }

    #[test]
    fn a_line_in_heap_and_cpu_samples_becomes_one_finding() {
        let mut profile = profile(
            "app::main@m.rs:3;malloc 300
             app::main@m.rs:4;app::other@m.rs:9 100",
        );
        add_heap(
            &mut profile,
            "app::main@m.rs:3;alloc::x : allocations=200000 temporary=200000 bytes_allocated=200000",
        );
        let findings = found(&profile);
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(
            (finding.rule.id, finding.of, percent(finding)),
            (RuleId::AllocationInLoop, Cost::Cpu, 75)
        );
        assert!(evidence(finding).contains("100.0 % of allocations: "), "{}", evidence(finding));
        assert!(finding.max_speedup.is_some() && finding.evidence.iter().any(|row| row.text == "in"));
    }

    #[test]
    fn avoidable_growth_is_reported_from_the_heap_and_is_evidence_for_cpu_time() {
        let heap = "app::main@m.rs:3;alloc::raw_vec::finish_grow : allocations=800000 grown=700000 bytes_copied=1000000 bytes_allocated=4000000 growth_chains=100000";
        let bar = GrowthBar {
            bar: 9,
            grown: 700_000,
            bytes_copied: 1_000_000,
            reached: 50_000,
            reached_bytes: 16_000_000,
            largest: 330,
            ..GrowthBar::default()
        };
        let mut alone = second(heap);
        assert_eq!(of_rule(&alone, RuleId::VecGrowth), None, "how it grew is not known");
        alone.heap.growth = vec![bar];
        let finding = of_rule(&alone, RuleId::VecGrowth).unwrap();
        assert_eq!((line(&finding), finding.of, percent(&finding)), (3, Cost::Allocations, 88));
        assert!(evidence(&finding).contains("700,000 reallocations moved"), "{}", evidence(&finding));
        let mut both = profile(
            "app::main@m.rs:3;alloc::raw_vec::RawVec::grow_one;alloc::raw_vec::finish_grow 150\napp::main@m.rs:4 150",
        );
        add_heap(&mut both, heap);
        both.heap.growth = vec![bar];
        let finding = of_rule(&both, RuleId::VecGrowth).unwrap();
        assert_eq!((finding.of, percent(&finding)), (Cost::Cpu, 50));
        assert!(evidence(&finding).contains("700,000 reallocations moved"), "{}", evidence(&finding));
    }

    #[test]
    fn many_unused_bytes_are_reported() {
        let text = |unused: u64| {
            second(&format!(
                "app::main@m.rs:3;app::load@l.rs:7 : allocations=100 bytes_allocated=8000000 examined_bytes=8000000 unused_bytes={unused}
                 app::main@m.rs:3;app::rest@l.rs:9 : allocations=100 bytes_allocated=2000000 examined_bytes=2000000 unused_bytes=1000"
            ))
        };
        let finding = of_rule(&text(7_000_000), RuleId::UnusedCapacity).unwrap();
        assert_eq!((line(&finding), percent(&finding), finding.of), (7, 70, Cost::Bytes));
        assert_eq!(
            of_rule(&text(2_000_000), RuleId::UnusedCapacity),
            None,
            "a quarter of a buffer is ordinary"
        );
    }

    #[test]
    fn leaks_are_reported_unless_tiny_or_not_checked() {
        let text = |lost: u64| {
            second(&format!(
                "app::main@m.rs:3;app::load@l.rs:7 : allocations=100 peak_bytes={MB} definitely_lost_bytes={lost} definitely_lost_blocks=10"
            ))
        };
        let mut leaking = text(MB / 2);
        let finding = of_rule(&leaking, RuleId::Leaks).unwrap();
        assert_eq!((line(&finding), percent(&finding), finding.of), (7, 50, Cost::Peak));
        assert!(evidence(&finding).contains("in 10 blocks"), "{}", evidence(&finding));
        assert!(finding.verify.contains("--metric live-at-exit"), "{}", finding.verify);
        assert_eq!(of_rule(&text(3_000), RuleId::Leaks), None);
        leaking.meta.heap.as_mut().unwrap().leaks = LeakCheck::NotDone;
        assert_eq!(of_rule(&leaking, RuleId::Leaks), None);
    }

    /// A program whose live bytes, and those of one of its lines, develop like this.
    fn with_growth(growth: &str, peak: u64) -> Profile {
        let mut profile = second(&format!(
            "app::main@m.rs:3;app::keep@k.rs:5 : allocations=100 peak_blocks=100 peak_bytes={peak} growth={growth}
             app::main@m.rs:3;app::rest@k.rs:9 : allocations=100 peak_bytes={} growth=flat",
            peak / 4
        ));
        profile.meta.heap.as_mut().unwrap().growth = growth.to_owned();
        profile
    }

    #[test]
    fn memory_that_grows_to_the_end_is_reported_once() {
        for growth in ["linear", "unbounded"] {
            let profile = with_growth(growth, 100 * MB);
            let findings = found(&profile);
            let [finding] = &findings[..] else { panic!("{findings:?}") };
            assert_eq!((finding.rule.id, line(finding), percent(finding)), (RuleId::MemoryGrows, 5, 80));
            assert_eq!(finding.confidence, Confidence::Low, "a second is short");
        }
        assert_eq!(of_rule(&with_growth("flat", 100 * MB), RuleId::MemoryGrows), None);
        assert_eq!(of_rule(&with_growth("linear", MB), RuleId::MemoryGrows), None);
        let mut lost = with_growth("linear", 100 * MB);
        lost.heap.sites[0].counts.definitely_lost_bytes = 90 * MB;
        assert_eq!(of_rule(&lost, RuleId::MemoryGrows), None, "`leaks` reports it");
    }

    #[test]
    fn sawtooth_memory_is_reported_with_the_number_of_drops() {
        let waves = |count: u64| {
            let rows = (0..count).map(|wave| {
                let (up, down) = (wave * 200, wave * 200 + 100);
                format!(
                    "app::main@m.rs:3;app::build@b.rs:5 : allocations=10 peak_bytes={} bytes_allocated={} bytes_freed={} made_ms={up} freed_ms={down} growth=sawtooth\n",
                    if wave == 0 { 40 * MB } else { 0 },
                    40 * MB,
                    40 * MB
                )
            });
            let mut profile = heap_profile(&rows.collect::<String>());
            profile.meta.duration_ns = 1_000_000_000;
            profile.meta.heap.as_mut().unwrap().growth = "sawtooth".to_owned();
            profile
        };
        let finding = of_rule(&waves(5), RuleId::MemorySawTooth).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (5, 100));
        assert!(evidence(&finding).contains("5 times"), "{}", evidence(&finding));
        assert_eq!(of_rule(&waves(2), RuleId::MemorySawTooth), None);
    }

    #[test]
    fn a_line_with_most_of_a_large_peak_is_reported() {
        let finding = of_rule(&with_growth("flat", 100 * MB), RuleId::PeakByOneLine).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (5, 80));
        assert_eq!(of_rule(&with_growth("flat", 30 * MB), RuleId::PeakByOneLine), None);
    }

    #[test]
    fn heap_rules_need_the_whole_recording_and_its_metric() {
        use crate::{Allowed, Question, explain};
        let mut profile = profile("app::main@m.rs:3 1");
        add_heap(
            &mut profile,
            "app::main@m.rs:3 : allocations=200000 temporary=200000 bytes_allocated=200000",
        );
        let allowed = Allowed::default();
        let count = |selection: &whyslow_analyze::Selection, only_metric| {
            explain(&Question { profile: &profile, selection, only_metric, allowed: &allowed, file: "" })
                .findings
                .len()
        };
        let all = whyslow_analyze::Selection::default();
        assert_eq!((count(&all, false), count(&all, true)), (1, 0));
        let late = whyslow_analyze::Selection { time_ns: Some(5..6), ..all.clone() };
        assert_eq!(count(&late, false), 0);
        let of_heap = whyslow_analyze::Selection { metric: MetricId(1), ..all };
        assert_eq!(count(&of_heap, true), 1);
    }
}
