//! Allocation sites: which lines allocate, and for which lines of your code.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;
use whyslow_profile::heap::metric;
use whyslow_profile::{CodeKind, Growth, GrowthBar, HeapCounts, HeapSite, Profile, StackId, StringId};

use super::capacity::CapacityAdvice;
use super::intervals::Intervals;
use super::wrappers::Wrappers;
use crate::labels::{self, Label, Labels};
use crate::own::{Charges, Nearness, StackFrame, frames_of};
use crate::selection::Selection;

/// The allocations of a line of code, over all stacks that lead to it.
#[derive(Debug, Clone, PartialEq)]
pub struct SiteRow {
    /// The innermost function that is not std, runtime, allocator or one of [`Wrappers`]; the nearest frame
    /// if there is none.
    pub label: Label,
    /// The file of the line.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
    /// The line of your code that it allocates for, if that is another one.
    pub own: Option<StackFrame>,
    /// The numbers. `max_bytes`, `max_blocks` and `largest_grown` are the maximum over its stacks, the others
    /// are sums.
    pub counts: HeapCounts,
    /// How its live bytes developed: the class of the stacks with the most bytes.
    pub growth: Growth,
    /// Its stack with the most bytes at the peak; among equals the one that allocated most.
    pub stack: StackId,
    /// What grows here, if anything.
    pub grower: Grower,
    /// Whether a capacity would avoid that.
    pub advice: CapacityAdvice,
    /// Its rows of `Heap::sites`.
    pub rows: Vec<u32>,
}

/// What a reallocation grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grower {
    /// A `Vec`, or a type built on one.
    Vec,
    /// A `String`.
    String,
    /// Anything else.
    Block,
}

impl SiteRow {
    /// The value that [`SiteOrder`] sorts by.
    pub fn key(&self, order: SiteOrder) -> u64 {
        let grows = matches!(self.growth, Growth::Linear | Growth::Unbounded);
        if order == SiteOrder::Growing && !grows { 0 } else { order.key(&self.counts) }
    }

    /// The number of blocks that the bytes of [`SiteRow::key`] are in.
    pub fn blocks(&self, order: SiteOrder) -> u64 {
        order.blocks(&self.counts)
    }
}

impl SiteOrder {
    /// The value by which lines with these numbers are sorted.
    pub fn key(self, counts: &HeapCounts) -> u64 {
        match self {
            Self::Peak => counts.peak_bytes,
            Self::Bytes => counts.bytes_allocated,
            Self::Allocations => counts.allocations,
            Self::Temporary => counts.temporary,
            Self::DefinitelyLost => counts.definitely_lost_bytes,
            Self::IndirectlyLost => counts.indirectly_lost_bytes,
            Self::PossiblyLost => counts.possibly_lost_bytes,
            Self::LiveAtExit => counts.live_at_exit_bytes,
            Self::Copied => counts.bytes_copied,
            Self::Unused => counts.unused_bytes,
            Self::PassedOver => counts.passed_over_bytes,
            Self::Growing => counts.max_bytes,
        }
    }

    /// The number of blocks that the bytes of [`Self::key`] are in.
    pub fn blocks(self, counts: &HeapCounts) -> u64 {
        match self {
            Self::Peak => counts.peak_blocks,
            Self::Bytes | Self::Allocations | Self::Unused => counts.allocations,
            Self::Temporary => counts.temporary,
            Self::DefinitelyLost => counts.definitely_lost_blocks,
            Self::IndirectlyLost => counts.indirectly_lost_blocks,
            Self::PossiblyLost => counts.possibly_lost_blocks,
            Self::LiveAtExit => counts.live_at_exit_blocks,
            Self::Copied => counts.growth_chains,
            Self::PassedOver => counts.passed_over_blocks,
            Self::Growing => counts.max_blocks,
        }
    }
}

/// The sort order of lines, largest first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum SiteOrder {
    /// Bytes at the peak.
    #[default]
    Peak,
    /// Bytes allocated in all.
    Bytes,
    /// Allocations.
    Allocations,
    /// Temporary allocations.
    Temporary,
    /// Bytes that are definitely lost.
    DefinitelyLost,
    /// Bytes that only lost blocks point to.
    IndirectlyLost,
    /// Bytes that are possibly lost.
    PossiblyLost,
    /// Bytes live at exit.
    LiveAtExit,
    /// Bytes copied while growing.
    Copied,
    /// Bytes that were never written.
    Unused,
    /// Bytes of freed blocks that were too large to check for unused bytes.
    PassedOver,
    /// Bytes of lines whose live bytes only grow.
    Growing,
}

/// One of the numbers.
type Column = fn(&mut HeapCounts) -> &mut u64;

/// All allocating lines.
#[derive(Debug)]
pub struct Sites {
    /// The lines, most bytes at the peak first, then most bytes allocated.
    pub rows: Vec<SiteRow>,
    /// Their totals.
    pub totals: HeapCounts,
    /// The intervals of the numbers, if they are estimates.
    pub intervals: Option<Intervals>,
    /// Functions through which others allocate: their lines are never allocation sites.
    pub wrappers: Wrappers,
}

impl Sites {
    /// Adds up the allocating stacks of a profile per line of your code.
    pub fn build(profile: &Profile) -> Self {
        let wrappers =
            if profile.heap.is_empty() { Wrappers::known(profile) } else { Wrappers::find(profile) };
        let totals = profile.heap.totals();
        let mut rows = rows_of(profile, &profile.heap.sites, &wrappers);
        advise(profile, &totals, &mut rows);
        let intervals = if rows.is_empty() { None } else { Intervals::of(profile) };
        Self { rows, totals, intervals, wrappers }
    }

    /// The same for the threads, processes and times of a selection, with the numbers that are known per
    /// sample: allocations and bytes, bytes live at the peak and at exit, and temporary allocations. All
    /// others are 0.
    pub fn of_selection(profile: &Profile, selection: &Selection) -> Self {
        let mut counts = vec![HeapCounts::default(); profile.stacks.len()];
        let columns: [(&str, Column); 5] = [
            (metric::ALLOCATIONS, |counts| &mut counts.allocations),
            (metric::BYTES_ALLOCATED, |counts| &mut counts.bytes_allocated),
            (metric::LIVE_AT_PEAK, |counts| &mut counts.peak_bytes),
            (metric::LIVE_AT_EXIT, |counts| &mut counts.live_at_exit_bytes),
            (metric::TEMPORARY, |counts| &mut counts.temporary),
        ];
        for (name, column) in columns {
            let Some(metric) = profile.metric_named(name) else { continue };
            let weights = Selection { metric, ..selection.clone() }.weigh(profile);
            for (counts, value) in counts.iter_mut().zip(weights.value) {
                *column(counts) = value;
            }
        }
        let sites: Vec<HeapSite> = (0..counts.len())
            .filter(|&stack| counts[stack] != HeapCounts::default())
            .map(|stack| HeapSite {
                stack: StackId::from(stack),
                counts: counts[stack],
                growth: Growth::Unknown,
            })
            .collect();
        let mut totals = HeapCounts::default();
        sites.iter().for_each(|site| add(&mut totals, &site.counts));
        let wrappers = Wrappers::find(profile);
        Self { rows: rows_of(profile, &sites, &wrappers), totals, intervals: None, wrappers }
    }

    /// The lines with a value in this order, largest first.
    pub fn by(&self, order: SiteOrder) -> Vec<&SiteRow> {
        let mut rows = self.rows.iter().filter(|row| row.key(order) > 0).collect::<Vec<_>>();
        rows.sort_by_key(|row| Reverse((row.key(order), row.blocks(order))));
        rows
    }
}

/// Sets the advice of every line. Samples do not show blocks from start to end, so sampled heaps get none.
fn advise(profile: &Profile, totals: &HeapCounts, rows: &mut [SiteRow]) {
    if profile.meta.heap.as_ref().is_some_and(|facts| facts.sample_bytes.is_some()) {
        return;
    }
    let mut bars_of: FxHashMap<u64, Vec<&GrowthBar>> = FxHashMap::default();
    for bar in &profile.heap.growth {
        bars_of.entry(bar.site).or_default().push(bar);
    }
    for row in rows {
        let bars = row.rows.iter().filter_map(|&site| bars_of.get(&site.into()));
        row.advice = CapacityAdvice::of(bars.flatten().copied(), totals);
    }
}

/// Groups allocating stacks by the line that requested memory, most bytes at the peak first.
fn rows_of(profile: &Profile, sites: &[HeapSite], wrappers: &Wrappers) -> Vec<SiteRow> {
    if sites.is_empty() {
        return Vec::new();
    }
    let labels = Labels::new(profile);
    let (nearest, own) = (Charges::of_sites(profile, wrappers), Charges::of_heap(profile, true, wrappers));
    // Functions that look the same to a reader share one label.
    let key = |frame: &StackFrame| (labels.code(frame.label), frame.file, frame.line);
    let mut row_of = FxHashMap::default();
    let mut rows: Vec<SiteRow> = Vec::new();
    for (index, site) in (0u32..).zip(sites) {
        let place = nearest.of(site.stack).frame;
        let own = Some(own.of(site.stack)).filter(|charge| charge.nearness == Nearness::Own);
        let own = own.map(|charge| charge.frame).filter(|own| key(own) != key(&place));
        let at = *row_of.entry((key(&place), own.as_ref().map(key))).or_insert(rows.len());
        if at == rows.len() {
            rows.push(SiteRow {
                label: labels.label(labels.code(place.label)),
                file: place.file,
                line: place.line,
                own,
                counts: HeapCounts::default(),
                growth: Growth::Unknown,
                stack: site.stack,
                grower: Grower::Block,
                advice: CapacityAdvice::Silent,
                rows: Vec::new(),
            });
        }
        add(&mut rows[at].counts, &site.counts);
        rows[at].rows.push(index);
    }
    for row in &mut rows {
        let of_row = || row.rows.iter().map(|&index| &sites[index as usize]);
        let weight = |site: &&HeapSite| (site.counts.peak_bytes, site.counts.bytes_allocated);
        row.stack = of_row().max_by_key(weight).map_or(row.stack, |site| site.stack);
        row.growth = growth(of_row());
        let most_copied = of_row().filter(|site| site.counts.grown > 0).max_by_key(|s| s.counts.bytes_copied);
        row.grower = most_copied.map_or(Grower::Block, |site| grower(profile, site.stack));
    }
    rows.sort_by_key(|row| (Reverse(row.counts.peak_bytes), Reverse(row.counts.bytes_allocated)));
    rows
}

/// What grows, from the frames below your code.
fn grower(profile: &Profile, stack: StackId) -> Grower {
    let mut grower = Grower::Block;
    for frame in frames_of(profile, stack) {
        if !matches!(labels::kind(profile, frame.label), CodeKind::Std | CodeKind::Allocator) {
            break;
        }
        let name = labels::name(profile, frame.label);
        if name.contains("string::String") {
            return Grower::String;
        }
        if name.contains("raw_vec::") || name.contains("vec::Vec") {
            grower = Grower::Vec;
        }
    }
    grower
}

/// The class of the stacks with the most bytes together.
fn growth<'a>(sites: impl Iterator<Item = &'a HeapSite>) -> Growth {
    let mut bytes = [0u64; Growth::ALL.len()];
    for site in sites {
        let sum = &mut bytes[usize::from(site.growth.code())];
        *sum = sum.saturating_add(site.counts.max_bytes.max(1));
    }
    bytes[usize::from(Growth::Unknown.code())] = 0;
    let most = Growth::ALL.iter().copied().max_by_key(|growth| bytes[usize::from(growth.code())]);
    most.filter(|growth| bytes[usize::from(growth.code())] > 0).unwrap_or_default()
}

/// Adds the numbers of one stack to those of others.
fn add(sum: &mut HeapCounts, more: &HeapCounts) {
    let mut numbers = sum.numbers();
    for (number, more) in numbers.iter_mut().zip(more.numbers()) {
        *number = number.saturating_add(more);
    }
    *sum = HeapCounts {
        max_bytes: sum.max_bytes.max(more.max_bytes),
        max_blocks: sum.max_blocks.max(more.max_blocks),
        largest_grown: sum.largest_grown.max(more.largest_grown),
        ..HeapCounts::from_numbers(numbers)
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn named_places(text: &str) -> Vec<(String, u32, u64)> {
        let profile = testing::heap_profile(text);
        let sites = Sites::build(&profile);
        let row = |row: &SiteRow| {
            (labels::name(&profile, row.label).into_owned(), row.line, row.counts.bytes_allocated)
        };
        sites.rows.iter().map(row).collect()
    }

    #[test]
    fn selected_threads_have_their_own_numbers() {
        let text = "app::load@l.rs:7 : allocations=3 bytes_allocated=300 peak_bytes=200 live_at_exit_bytes=10 temporary=1
             worker: app::load@l.rs:7 : allocations=2 bytes_allocated=50 peak_bytes=20
             worker: app::work@w.rs:9 : allocations=1 bytes_allocated=8 live_at_exit_bytes=8";
        let profile = testing::heap_profile(text);
        let whole = Sites::of_selection(&profile, &Selection::default()).totals;
        let columns = |counts: &HeapCounts| {
            [
                counts.allocations,
                counts.bytes_allocated,
                counts.peak_bytes,
                counts.live_at_exit_bytes,
                counts.temporary,
            ]
        };
        assert_eq!(columns(&whole), columns(&profile.heap.totals()));
        let worker = Selection { threads: vec!["worker".parse().unwrap()], ..Selection::default() };
        let part = Sites::of_selection(&profile, &worker);
        assert_eq!(columns(&part.totals), [3, 58, 20, 8, 0]);
        assert_eq!(part.rows.iter().map(|row| row.line).collect::<Vec<_>>(), [7, 9]);
    }

    #[test]
    fn allocations_belong_to_the_innermost_requesting_line() {
        assert_eq!(
            named_places(
                "app::main@m.rs:3;dep::read@d.rs:9;alloc::vec::push@v.rs:1 : bytes_allocated=5
                 app::main@m.rs:3;std::read@s.rs:2 : bytes_allocated=4
                 app::main@m.rs:4;+alloc::vec::push@v.rs:1 : bytes_allocated=3
                 dep::pool@p.rs:7;std::spawn@s.rs:2 : bytes_allocated=2"
            ),
            [
                ("dep::read".into(), 9, 5),
                ("app::main".into(), 3, 4),
                ("app::main".into(), 4, 3),
                ("dep::pool".into(), 7, 2)
            ]
        );
    }

    #[test]
    fn library_lines_are_separated_by_your_line_they_allocate_for() {
        let profile = testing::heap_profile(
            "app::main@m.rs:3;dep::read@d.rs:9;malloc : bytes_allocated=5
             app::main@m.rs:4;dep::each@d.rs:2;dep::read@d.rs:9 : bytes_allocated=4
             dep::pool@p.rs:1;dep::read@d.rs:9 : bytes_allocated=3
             app::main@m.rs:3;dep::each;app::f@m.rs:8;std::x : bytes_allocated=2",
        );
        let own = |row: &SiteRow| (row.line, row.own.map(|own| own.line), row.counts.bytes_allocated);
        let rows = Sites::build(&profile).rows.iter().map(own).collect::<Vec<_>>();
        assert_eq!(rows, [(9, Some(3), 5), (9, Some(4), 4), (9, None, 3), (8, None, 2)]);
    }

    #[test]
    fn skips_and_names_known_and_evident_wrappers() {
        let callers = ["a", "b", "c", "d", "e"];
        let text = callers.map(|name| format!("main@m.c:1;{name}@{name}.c:7;room@r.c:2;xmalloc@x.c:3;malloc : allocations=2 bytes_allocated=9\n"));
        let profile = testing::heap_profile(&text.concat());
        let sites = Sites::build(&profile);
        let names = sites.rows.iter().map(|row| labels::name(&profile, row.label)).collect::<Vec<_>>();
        assert_eq!(names, callers);
        assert!(sites.rows.iter().all(|row| row.line == 7 && row.own.is_none()));
        assert_eq!(
            sites.wrappers.evident.iter().map(|&label| labels::name(&profile, label)).collect::<Vec<_>>(),
            ["room"]
        );
    }

    #[test]
    fn wrapper_without_a_caller_is_a_site() {
        assert_eq!(
            named_places("_start;xmalloc@x.c:3;malloc : bytes_allocated=9"),
            [("xmalloc".into(), 3, 9)]
        );
    }

    #[test]
    fn function_that_allocates_everything_is_a_site() {
        assert_eq!(
            named_places("main@m.c:1;load@l.c:4;xmalloc;malloc : allocations=99 bytes_allocated=9"),
            [("load".into(), 4, 9)]
        );
    }

    #[test]
    fn without_your_code_the_caller_of_the_allocator_is_the_site() {
        assert_eq!(
            named_places(
                "_start;[app.so];std::read;malloc : bytes_allocated=3
                 _start;[app.so];malloc : bytes_allocated=9
                 _start;__libc_start_main;__libc_setlocale : bytes_allocated=2
                 [truncated];__libc_x : bytes_allocated=1"
            ),
            [("[app.so]".into(), 0, 12), ("__libc_setlocale".into(), 0, 2), ("__libc_x".into(), 0, 1)]
        );
    }

    #[test]
    fn line_has_its_heaviest_stack_and_the_class_of_most_bytes() {
        let profile = testing::heap_profile(
            "app::a@m.rs:1;app::f@m.rs:9 : peak_bytes=5 max_bytes=5 growth=flat
             app::b@m.rs:2;app::f@m.rs:9 : peak_bytes=7 max_bytes=9 growth=linear
             app::c@m.rs:3;app::f@m.rs:9 : peak_bytes=1 max_bytes=99",
        );
        let sites = Sites::build(&profile);
        let [row] = sites.rows.as_slice() else { panic!("{} rows", sites.rows.len()) };
        assert_eq!((row.counts.peak_bytes, row.counts.max_bytes, row.growth), (13, 99, Growth::Linear));
        assert_eq!(row.rows, [0, 1, 2]);
        let outermost = frames_of(&profile, row.stack).last().unwrap();
        assert_eq!(labels::name(&profile, outermost.label), "app::b");
    }

    #[test]
    fn grower_follows_from_the_frames_below_your_code() {
        let profile = testing::heap_profile(
            "app::f@m.rs:1;alloc::string::String::push;alloc::raw_vec::finish_grow : grown=2 bytes_copied=8
             app::f@m.rs:2;alloc::raw_vec::finish_grow : grown=2 bytes_copied=7
             app::f@m.rs:3 : grown=2 bytes_copied=6
             app::f@m.rs:4 : allocations=1",
        );
        let sites = Sites::build(&profile);
        let growers = sites.by(SiteOrder::Copied).iter().map(|row| row.grower).collect::<Vec<_>>();
        assert_eq!(growers, [Grower::String, Grower::Vec, Grower::Block]);
    }
}
