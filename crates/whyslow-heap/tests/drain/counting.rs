//! Runs sequences of mallocs, frees and reallocs over several rings, in a known order. The drain must find
//! exactly the numbers of a simple model, however the rings are read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use crate::fake::{Drain, FakeRing};
use proptest::prelude::*;
use whyslow_agent_host::{Until, sys};
use whyslow_agent_wire::record::op;
use whyslow_heap::{Batch, Config, Outcome, ProcessRow, Tick, Transfer};

const RINGS: usize = 3;
const ADDRESSES: u64 = 10;
const NODES: u32 = 4;
const FIRST_TID: u32 = 100;

fn address(slot: u64) -> u64 {
    0x10_0000 + slot * 64
}

fn call(node: u32) -> u64 {
    0x40_0000 + u64::from(node) * 16
}

/// A step of one thread.
#[derive(Debug, Clone, Copy)]
enum Step {
    Alloc { slot: u64, node: u32, size: u64 },
    Free { slot: u64 },
    Leave { slot: u64 },
    Realloc { slot: u64, node: u32, size: u64 },
    ReallocFailed { slot: u64 },
    FreedByRealloc { slot: u64 },
}

#[derive(Debug, Clone, Copy)]
struct Happening {
    ring: usize,
    tick: u64,
    step: Step,
}

/// Turns raw choices into a valid sequence for an allocator.
fn program(choices: &[(usize, u64, u8, u64, u32, u64)], start: u64) -> Vec<Happening> {
    let mut live = BTreeSet::new();
    let mut away: [Option<u64>; RINGS] = [None; RINGS];
    let mut tick = start;
    let mut steps = Vec::new();
    for &(ring, slot, choice, size, node, gap) in choices {
        tick += gap;
        let free_slot =
            (0..ADDRESSES).map(|more| (slot + more) % ADDRESSES).find(|slot| !live.contains(slot));
        let step = match (away[ring].take(), free_slot) {
            (Some(old), _) if choice == 0 && !live.contains(&old) => {
                live.insert(old);
                Step::ReallocFailed { slot: old }
            }
            (Some(old), _) if choice == 1 => Step::FreedByRealloc { slot: old },
            (Some(old), Some(new)) => {
                let slot = if choice < 5 && !live.contains(&old) { old } else { new };
                live.insert(slot);
                Step::Realloc { slot, node, size }
            }
            (Some(old), None) => Step::FreedByRealloc { slot: old },
            (None, _) if live.contains(&slot) && choice % 2 == 0 => {
                live.remove(&slot);
                Step::Free { slot }
            }
            (None, _) if live.contains(&slot) => {
                live.remove(&slot);
                away[ring] = Some(slot);
                Step::Leave { slot }
            }
            (None, Some(_)) => {
                live.insert(slot);
                Step::Alloc { slot, node, size }
            }
            (None, None) => unreachable!("a full pool has this slot"),
        };
        steps.push(Happening { ring, tick, step });
    }
    steps
}

fn write(ring: &mut FakeRing<'_>, tick: u64, step: Step) {
    match step {
        Step::Alloc { slot, node, size } => ring.alloc(tick, address(slot), call(node), size),
        Step::Free { slot } => ring.free(tick, address(slot)),
        Step::Leave { slot } => ring.put(tick, op::LEAVE, address(slot), &[]),
        Step::Realloc { slot, node, size } => {
            ring.stack(call(node));
            ring.put(tick, op::REALLOC, address(slot), &[size]);
        }
        Step::ReallocFailed { slot } => ring.put(tick, op::REALLOC_FAILED, address(slot), &[]),
        Step::FreedByRealloc { slot } => ring.put(tick, op::REALLOC_FREED, address(slot), &[]),
    }
}

/// The numbers by which the model and the drain are compared, by name and key.
type Numbers = BTreeMap<(&'static str, u64, u64), u64>;

#[derive(Debug, Clone, Copy)]
struct ModelBlock {
    node: u32,
    ring: usize,
    size: u64,
    made: u64,
    grew: bool,
    shrank: bool,
}

#[derive(Default)]
struct Model {
    numbers: Numbers,
    live: BTreeMap<u64, ModelBlock>,
    away: BTreeMap<usize, (u64, ModelBlock)>,
    made: [u64; RINGS],
    peak: u64,
    at_peak: Vec<ModelBlock>,
}

impl Model {
    fn add(&mut self, name: &'static str, key: u64, second: u64, value: u64) {
        if value > 0 {
            *self.numbers.entry((name, key, second)).or_default() += value;
        }
    }

    fn max(&mut self, name: &'static str, key: u64, value: u64) {
        if value > 0 {
            let most = self.numbers.entry((name, key, 0)).or_default();
            *most = value.max(*most);
        }
    }

    fn all_live(&self) -> Vec<ModelBlock> {
        self.live.values().copied().chain(self.away.values().map(|away| away.1)).collect()
    }

    fn made_block(&mut self, ring: usize, slot: u64, node: u32, size: u64, before: Option<ModelBlock>) {
        let grew = before.is_some_and(|old| old.grew || size > old.size);
        let shrank = before.is_some_and(|old| old.shrank || (old.grew && size < old.size));
        self.made[ring] += 1;
        let made = self.made[ring];
        self.live.insert(slot, ModelBlock { node, ring, size, made, grew, shrank });
        let site = call(node);
        self.add("allocations", site, 0, 1);
        self.add("bytes", site, 0, size);
        self.add("size", site, u64::from(u64::BITS - size.leading_zeros()), 1);
        self.add("row allocations", site, ring as u64, 1);
        self.add("row bytes", site, ring as u64, size);
        let live = self.all_live();
        let bytes = live.iter().map(|block| block.size).sum();
        let of_site = live.iter().filter(|block| block.node == node).map(|block| block.size).sum();
        self.max("max", site, of_site);
        if bytes > self.peak {
            self.peak = bytes;
            self.at_peak = live;
        }
    }

    fn freed_block(&mut self, ring: usize, block: ModelBlock) {
        let site = call(block.node);
        self.add("frees", site, 0, 1);
        self.add("bytes freed", site, 0, block.size);
        self.add("row freed", site, block.ring as u64, block.size);
        if block.ring != ring {
            self.add("elsewhere", site, 0, 1);
            self.add("transfer", block.ring as u64, ring as u64, 1);
            self.add("transfer bytes", block.ring as u64, ring as u64, block.size);
        }
    }

    fn ended_block(&mut self, ring: usize, block: ModelBlock, within: u64) {
        self.freed_block(ring, block);
        if block.ring == ring && self.made[ring] - block.made < within {
            self.add("temporary", call(block.node), 0, 1);
            self.add("row temporary", call(block.node), ring as u64, 1);
        }
        self.ended_chain(block);
    }

    fn ended_chain(&mut self, block: ModelBlock) {
        if block.grew && !block.shrank {
            let (site, bits) = (call(block.node), u64::from(u64::BITS - block.size.leading_zeros()));
            self.add("grown to", site, 0, block.size);
            self.add("reached", site, bits, 1);
            self.add("reached bytes", site, bits, block.size);
        }
    }

    fn step(&mut self, ring: usize, step: Step, within: u64) {
        match step {
            Step::Alloc { slot, node, size } => self.made_block(ring, slot, node, size, None),
            Step::Free { slot } => {
                let block = self.live.remove(&slot).expect("live");
                self.ended_block(ring, block, within);
            }
            Step::Leave { slot } => {
                let block = self.live.remove(&slot).expect("live");
                self.away.insert(ring, (slot, block));
            }
            Step::ReallocFailed { slot } => {
                let (_, block) = self.away.remove(&ring).expect("away");
                self.live.insert(slot, block);
            }
            Step::FreedByRealloc { .. } => {
                let (_, block) = self.away.remove(&ring).expect("away");
                self.ended_block(ring, block, within);
            }
            Step::Realloc { slot, node, size } => {
                let (old_slot, old) = self.away.remove(&ring).expect("away");
                self.freed_block(ring, old);
                let site = call(node);
                if size > old.size {
                    self.add("grown", site, 0, 1);
                    self.max("largest grown", site, size);
                    self.add("chains", site, 0, u64::from(!old.grew));
                    let copied = if slot == old_slot { 0 } else { old.size };
                    self.add("copied", site, 0, copied);
                    if !old.shrank {
                        let bits = u64::from(u64::BITS - size.leading_zeros());
                        self.add("grown by size", site, bits, 1);
                        self.add("copied by size", site, bits, copied);
                    }
                } else if size < old.size {
                    self.ended_chain(old);
                }
                self.made_block(ring, slot, node, size, Some(old));
            }
        }
    }

    fn finish(mut self) -> Numbers {
        for block in self.all_live() {
            let site = call(block.node);
            self.add("exit", site, 0, 1);
            self.add("exit bytes", site, 0, block.size);
            self.add("exit by", site, block.ring as u64, block.size);
            self.ended_chain(block);
        }
        for block in std::mem::take(&mut self.at_peak) {
            let site = call(block.node);
            self.add("peak", site, 0, block.size);
            self.add("peak blocks", site, 0, 1);
            self.add("peak by", site, block.ring as u64, block.size);
        }
        self.add("the peak", 0, 0, self.peak);
        self.numbers
    }
}

/// The drain's numbers, in the model's terms.
fn numbers(batches: &[Batch], outcome: &Outcome) -> Numbers {
    let mut numbers = Numbers::new();
    let mut add = |name, key, second, value| {
        if value > 0 {
            *numbers.entry((name, key, second)).or_default() += value;
        }
    };
    let all = || batches.iter().chain([&outcome.batch]);
    let stacks: Vec<u64> = all().flat_map(|batch| &batch.stacks).map(|stack| stack.address).collect();
    let threads: Vec<u64> =
        all().flat_map(|batch| &batch.threads).map(|thread| u64::from(thread.tid - FIRST_TID)).collect();
    for row in all().flat_map(|batch| &batch.rows) {
        let (stack, thread) = (stacks[row.stack.index()], threads[row.thread.index()]);
        add("row allocations", stack, thread, row.allocations);
        add("row bytes", stack, thread, row.bytes_allocated);
        add("row freed", stack, thread, row.bytes_freed);
        add("row temporary", stack, thread, row.temporary);
    }
    for site in &outcome.sites {
        let stack = stacks[site.stack.index()];
        let counts = &site.counts;
        for (name, value) in [
            ("allocations", counts.allocations),
            ("bytes", counts.bytes_allocated),
            ("frees", counts.frees),
            ("bytes freed", counts.bytes_freed),
            ("peak", counts.peak_bytes),
            ("peak blocks", counts.peak_blocks),
            ("max", counts.max_bytes),
            ("exit", counts.live_at_exit_blocks),
            ("exit bytes", counts.live_at_exit_bytes),
            ("temporary", counts.temporary),
            ("grown", counts.grown),
            ("chains", counts.growth_chains),
            ("copied", counts.bytes_copied),
            ("largest grown", counts.largest_grown),
            ("grown to", counts.bytes_grown_to),
            ("elsewhere", counts.freed_elsewhere),
        ] {
            add(name, stack, 0, value);
        }
        for (bar, blocks) in site.sizes.bars() {
            add("size", stack, bar.into(), blocks);
        }
        for bar in &site.chains {
            add("reached", stack, bar.bar, bar.reached);
            add("reached bytes", stack, bar.bar, bar.reached_bytes);
            add("grown by size", stack, bar.bar, bar.grown);
            add("copied by size", stack, bar.bar, bar.bytes_copied);
        }
        for &(thread, bytes) in &site.peak_by_thread {
            add("peak by", stack, threads[thread.index()], bytes);
        }
        for &(thread, bytes) in &site.exit_by_thread {
            add("exit by", stack, threads[thread.index()], bytes);
        }
        assert_eq!(site.lifetimes.bars().map(|(_, blocks)| blocks).sum::<u64>(), counts.frees);
    }
    for &Transfer { from, to, blocks, bytes } in &outcome.transfers {
        add("transfer", threads[from.index()], threads[to.index()], blocks);
        add("transfer bytes", threads[from.index()], threads[to.index()], bytes);
    }
    add("the peak", 0, 0, outcome.facts.peak_bytes);
    numbers
}

fn run(
    steps: &[Happening],
    within: u64,
    order: [usize; RINGS],
    pauses: &[u8],
) -> (Numbers, Numbers, Outcome) {
    let mut model = Model::default();
    let config = Config { temporary_within: within, ..Config::default() };
    let mut drain = Drain::new(config);
    let area = drain.arrive();
    let mut rings: Vec<FakeRing<'_>> =
        (0..RINGS).map(|ring| FakeRing::take(&area, order[ring], 1, FIRST_TID + ring as u32)).collect();
    let mut batches = Vec::new();
    for (number, happening) in steps.iter().enumerate() {
        model.step(happening.ring, happening.step, within);
        write(&mut rings[happening.ring], happening.tick, happening.step);
        match pauses.get(number) {
            // Any time up to now is safe, also earlier ones.
            Some(0..40) => {
                drain.round(Until::Tick(Tick(happening.tick)));
            }
            Some(40..60) => {
                drain.round(Until::Tick(Tick(happening.tick - 3)));
                batches.push(drain.take());
            }
            _ => {}
        }
    }
    drain.round(Until::Tick(Tick(steps.last().map_or(0, |last| last.tick))));
    let outcome = drain.finish();
    (numbers(&batches, &outcome), model.finish(), outcome)
}

fn choices() -> impl Strategy<Value = Vec<(usize, u64, u8, u64, u32, u64)>> {
    // Neighbours in time, other buckets, and distances that need a stamp.
    let gap = prop_oneof![4 => 1u64..40, 1 => 1u64..3_000_000, 1 => 60_000u64..70_000];
    let size = prop_oneof![3 => 0u64..300, 1 => 0u64..(1 << 36)];
    let one = (0..RINGS, 0..ADDRESSES, 0u8..12, size, 1..=NODES, gap);
    proptest::collection::vec(one, 1..250)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn all_numbers_match_the_model(
        choices in choices(),
        within in 1u64..4,
        order in Just([0, 1, 2]).prop_shuffle(),
        pauses in proptest::collection::vec(any::<u8>(), 250),
    ) {
        let steps = program(&choices, sys::now().0 + 1000);
        let (found, expected, outcome) = run(&steps, within, order, &pauses);
        for (key, value) in &expected {
            prop_assert_eq!((key, found.get(key)), (key, Some(value)));
        }
        for key in found.keys() {
            prop_assert!(expected.contains_key(key), "{:?} is made up", key);
        }
        let facts = &outcome.facts;
        prop_assert_eq!((facts.unknown_frees, facts.lost_events, facts.inherited_frees), (0, 0, 0));
        prop_assert!(outcome.notes.is_empty());
    }
}

#[test]
fn at_the_same_tick_a_free_comes_before_the_next_owner() {
    for order in [[0, 1, 2], [2, 1, 0]] {
        let start = sys::now().0 + 1000;
        let steps = [
            Happening { ring: 0, tick: start, step: Step::Alloc { slot: 0, node: 1, size: 10 } },
            Happening { ring: 0, tick: start + 50, step: Step::Free { slot: 0 } },
            Happening { ring: 1, tick: start + 50, step: Step::Alloc { slot: 0, node: 2, size: 20 } },
            Happening { ring: 2, tick: start + 50, step: Step::Free { slot: 0 } },
        ];
        let (found, expected, outcome) = run(&steps, 1, order, &[]);
        assert_eq!(found, expected);
        assert_eq!((outcome.facts.lost_events, outcome.facts.unknown_frees), (0, 0));
    }
}

#[test]
fn a_free_of_an_unknown_block_is_counted_separately() {
    let mut drain = Drain::new(Config::default());
    let area = drain.arrive();
    let tick = sys::now().0;
    let mut own = FakeRing::take(&area, 0, 1, FIRST_TID);
    let mut child = FakeRing::take(&area, 1, 77, FIRST_TID + 1);
    own.alloc(tick, address(1), call(1), 100);
    own.free(tick + 1, address(2));
    // The child's copy of the parent's block is not its own.
    child.free(tick + 2, address(1));
    child.alloc(tick + 3, address(1), call(1), 30);
    drain.round(Until::Tick(Tick(tick + 3)));
    let outcome = drain.finish();
    assert_eq!((outcome.facts.unknown_frees, outcome.facts.inherited_frees), (1, 1));
    assert_eq!(outcome.facts.peak_bytes, 130);
    let counts = outcome.sites[0].counts;
    assert_eq!((counts.frees, counts.live_at_exit_bytes), (0, 130));
    assert_eq!(outcome.facts.processes, 2);
    assert_eq!(outcome.batch.processes[1].parent, Some(ProcessRow(0)));
}

#[test]
fn a_child_and_its_own_child_seen_together_are_parent_and_child() {
    let mut drain = Drain::new(Config::default());
    let area = drain.arrive();
    let tick = sys::now().0;
    for (number, pid, parent) in [(0, 1, 0), (1, 77, 1), (2, 78, 77)] {
        let mut ring = FakeRing::take(&area, number, pid, FIRST_TID + number as u32);
        let header = area.ring(number).expect("a ring");
        header.parent.store(parent, Ordering::Relaxed);
        ring.alloc(tick, address(1), call(1), 10);
    }
    drain.round(Until::Tick(Tick(tick + 1)));
    let parents: Vec<_> = drain.finish().batch.processes.iter().map(|process| process.parent).collect();
    assert_eq!(parents, [None, Some(ProcessRow(0)), Some(ProcessRow(1))]);
}

#[test]
fn a_block_at_a_live_address_replaces_the_old_one() {
    let mut drain = Drain::new(Config::default());
    let area = drain.arrive();
    let tick = sys::now().0;
    let mut ring = FakeRing::take(&area, 0, 1, FIRST_TID);
    ring.alloc(tick, address(1), call(1), 100);
    ring.alloc(tick + 1, address(1), call(2), 30);
    drain.round(Until::Tick(Tick(tick + 1)));
    let outcome = drain.finish();
    assert_eq!(outcome.facts.lost_events, 1);
    assert_eq!((outcome.sites[0].counts.frees, outcome.sites[1].counts.live_at_exit_bytes), (1, 30));
    assert_eq!(outcome.notes, [], "the count is a fact, without a note");
}

#[test]
fn mappings_count_by_their_bytes() {
    let mut drain = Drain::new(Config { maps: true, ..Config::default() });
    let area = drain.arrive();
    let tick = sys::now().0;
    let mut ring = FakeRing::take(&area, 0, 1, FIRST_TID);
    ring.stack(call(1));
    ring.put(tick, op::MAP, 0x7000_0000, &[10]);
    ring.put(tick + 1, op::UNMAP, 0x7000_2000, &[2]);
    ring.stack(call(2));
    ring.put(tick + 2, op::MAP, 0x7000_0000, &[1]);
    drain.round(Until::Tick(Tick(tick + 2)));
    let outcome = drain.finish();
    let (first, second) = (outcome.sites[0].counts, outcome.sites[1].counts);
    assert_eq!((first.allocations, first.bytes_allocated, first.frees), (1, 40960, 0));
    assert_eq!((first.live_at_exit_bytes, first.bytes_freed), (7 * 4096, 3 * 4096));
    assert_eq!((second.live_at_exit_blocks, second.live_at_exit_bytes), (1, 4096));
    assert_eq!(outcome.facts.peak_bytes, 40960);
}

#[test]
fn unused_bytes_belong_to_the_allocating_stack() {
    let mut drain = Drain::new(Config { unused: true, ..Config::default() });
    let area = drain.arrive();
    let tick = sys::now().0;
    let mut ring = FakeRing::take(&area, 0, 1, FIRST_TID);
    ring.alloc(tick, address(1), call(1), 100);
    ring.alloc(tick, address(2), call(1), 50);
    ring.put(tick + 1, op::UNUSED, address(1), &[60]);
    ring.free(tick + 1, address(1));
    ring.put(tick + 2, op::UNUSED, address(2), &[u64::MAX]);
    ring.free(tick + 2, address(2));
    drain.round(Until::Tick(Tick(tick + 2)));
    let outcome = drain.finish();
    let counts = outcome.sites[0].counts;
    assert_eq!((counts.unused_bytes, counts.examined_bytes), (110, 150));
    assert_eq!(outcome.batch.rows.iter().map(|row| row.unused_bytes).sum::<u64>(), 110);
}

#[test]
fn samples_stand_for_unsampled_blocks() {
    let every = 1 << 12;
    let config = Config { sample_bytes: Some(every), ..Config::default() };
    let mut drain = Drain::new(config);
    let area = drain.arrive();
    let tick = sys::now().0;
    let mut ring = FakeRing::take(&area, 0, 1, FIRST_TID);
    // Every 64th of blocks of 64 bytes is kept, at random.
    let (blocks, kept) = (640_000u64, 10_000u64);
    // Each in its own kilobyte: blocks in the same kilobyte share a filter slot.
    let address = |slot| address(16 * slot);
    let filter = |slot| &area.filter()[whyslow_agent_wire::area::filter_slot(address(slot))];
    for block in 0..kept {
        let slot = block % ADDRESSES;
        if block >= ADDRESSES {
            ring.free(tick + block, address(slot));
            ring.free(tick + block, address(slot) + 32);
        }
        filter(slot).fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        ring.alloc(tick + block, address(slot), call(1), 64);
        if block % 1000 == 999 {
            drain.round(Until::Tick(Tick(tick + block)));
        }
    }
    drain.round(Until::Tick(Tick(tick + kept)));
    for slot in 0..ADDRESSES {
        assert_eq!(filter(slot).load(std::sync::atomic::Ordering::Relaxed), 1);
    }
    let outcome = drain.finish();
    let counts = outcome.sites[0].counts;
    let near = |found: u64, expected: u64| found.abs_diff(expected) * 50 < expected;
    assert!(near(counts.allocations, blocks), "{}", counts.allocations);
    assert!(near(counts.bytes_allocated, blocks * 64), "{}", counts.bytes_allocated);
    assert_eq!(outcome.facts.unknown_frees, 0);
    // One percent for ten thousand samples.
    let error = outcome.facts.sample_error.expect("an error");
    assert!((0.009..0.011).contains(&error), "{error}");
}
