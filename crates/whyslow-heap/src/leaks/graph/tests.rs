use std::collections::BTreeMap;

use proptest::prelude::*;

use super::Class::{DefinitelyLost as D, IndirectlyLost as I, PossiblyLost as P, Reachable as R};
use super::*;
use crate::ids::{Address, StackRow};

/// Words by address; everything else is zero.
#[derive(Default)]
struct Words(BTreeMap<u64, u64>);

impl Memory for Words {
    fn read(&mut self, address: u64, into: &mut [u8]) {
        into.fill(0);
        let end = address + into.len() as u64;
        for (at, word) in self.0.range(address.saturating_sub(7)..end) {
            for (byte, at) in word.to_le_bytes().into_iter().zip(*at..) {
                if (address..end).contains(&at) {
                    into[(at - address) as usize] = byte;
                }
            }
        }
    }

    fn is_virtual_table(&mut self, address: u64) -> bool {
        (0x9000..0xa000).contains(&address)
    }
}

const ROOTS: u64 = 0x100;

/// The classes of blocks of 64 bytes at 0x1000, 0x1100, …, with pointers from (block, offset) to (block,
/// offset); block `None` is the roots.
fn classes(blocks: usize, pointers: &[(Option<usize>, u64, usize, u64)]) -> Vec<Class> {
    let at = |block: usize| 0x1000 + 0x100 * block as u64;
    let mut memory = Words::default();
    for &(from, offset, to, into) in pointers {
        let from = from.map_or(ROOTS, at);
        memory.0.insert(from + offset, at(to) + into);
    }
    let blocks: Vec<_> = (0..blocks)
        .map(|row| LiveBlock { address: Address(at(row)), size: 64, stack: StackRow(0), inherited: false })
        .collect();
    let ranges = vec![Root { start: ROOTS, end: ROOTS + 0x100, pointers: Pointers::Any }];
    classify(&blocks, &Roots { ranges, words: Vec::new() }, &mut memory)
}

#[test]
fn the_nine_cases_of_the_manual() {
    // RRR → BBB
    assert_eq!(classes(1, &[(None, 0, 0, 0)]), [R]);
    // RRR → AAA → BBB
    assert_eq!(classes(2, &[(None, 0, 0, 0), (Some(0), 8, 1, 0)]), [R, R]);
    // RRR   BBB
    assert_eq!(classes(1, &[]), [D]);
    // RRR   AAA → BBB
    assert_eq!(classes(2, &[(Some(0), 8, 1, 0)]), [D, I]);
    // RRR -?→ BBB
    assert_eq!(classes(1, &[(None, 0, 0, 16)]), [P]);
    // RRR → AAA -?→ BBB
    assert_eq!(classes(2, &[(None, 0, 0, 0), (Some(0), 8, 1, 16)]), [R, P]);
    // RRR -?→ AAA → BBB
    assert_eq!(classes(2, &[(None, 0, 0, 16), (Some(0), 8, 1, 0)]), [P, P]);
    // RRR -?→ AAA -?→ BBB
    assert_eq!(classes(2, &[(None, 0, 0, 16), (Some(0), 8, 1, 16)]), [P, P]);
    // RRR   AAA -?→ BBB
    assert_eq!(classes(2, &[(Some(0), 8, 1, 16)]), [D, I]);
}

#[test]
fn a_better_pointer_found_later_counts_for_the_whole_chain() {
    let chain = [(None, 0, 0, 16), (Some(0), 8, 1, 0), (Some(1), 8, 2, 0), (None, 8, 0, 0)];
    assert_eq!(classes(3, &chain), [R, R, R]);
}

#[test]
fn the_leader_of_a_ring_is_the_lowest_block() {
    assert_eq!(classes(3, &[(Some(0), 0, 1, 0), (Some(1), 0, 2, 0), (Some(2), 0, 0, 0)]), [D, I, I]);
}

#[test]
fn a_leader_is_taken_by_a_later_block_that_leads_to_it() {
    assert_eq!(classes(3, &[(Some(0), 0, 1, 0), (Some(2), 0, 0, 0)]), [I, I, D]);
    assert_eq!(classes(3, &[(Some(0), 0, 1, 0), (Some(1), 0, 0, 0), (Some(2), 0, 0, 0)]), [I, I, D]);
}

#[test]
fn a_block_that_leads_into_another_clique_remains_a_leader() {
    assert_eq!(classes(3, &[(Some(0), 0, 1, 0), (Some(2), 0, 1, 0)]), [D, I, D]);
    assert_eq!(classes(3, &[(Some(0), 0, 1, 0), (Some(1), 0, 0, 0), (Some(2), 0, 1, 0)]), [D, I, D]);
}

#[test]
fn a_pointer_to_itself_does_not_save_a_block() {
    assert_eq!(classes(1, &[(Some(0), 0, 0, 0)]), [D]);
}

#[test]
fn a_pointer_past_the_end_does_not_count() {
    assert_eq!(classes(1, &[(None, 0, 0, 64)]), [D]);
    assert_eq!(classes(1, &[(None, 0, 0, 63)]), [P]);
}

#[test]
fn unaligned_words_are_not_pointers() {
    assert_eq!(classes(1, &[(None, 4, 0, 0)]), [D]);
}

#[test]
fn a_register_is_a_root() {
    let blocks = [
        LiveBlock { address: Address(0x1000), size: 0, stack: StackRow(0), inherited: false },
        LiveBlock { address: Address(0x1010), size: 0, stack: StackRow(0), inherited: false },
    ];
    let roots = Roots { ranges: Vec::new(), words: vec![0x1010] };
    assert_eq!(classify(&blocks, &roots, &mut Words::default()), [D, R]);
}

#[test]
fn a_block_at_an_odd_address_is_read_at_aligned_words() {
    let mut memory = Words(BTreeMap::from([(0x2008, 0x3000), (0x2010, 0x4000)]));
    let blocks = [
        LiveBlock { address: Address(0x2004), size: 16, stack: StackRow(0), inherited: false },
        LiveBlock { address: Address(0x3000), size: 8, stack: StackRow(0), inherited: false },
        LiveBlock { address: Address(0x4000), size: 8, stack: StackRow(0), inherited: false },
    ];
    let roots = Roots { ranges: Vec::new(), words: vec![0x2004] };
    assert_eq!(classify(&blocks, &roots, &mut memory), [R, R, D]);
}

#[test]
fn finds_a_pointer_in_the_middle_of_a_very_large_block() {
    let far = 0x10_0000 + (5 << 20) + 8;
    let mut memory = Words(BTreeMap::from([(far, 0x1000)]));
    let blocks = [
        LiveBlock { address: Address(0x10_0000), size: 8 << 20, stack: StackRow(0), inherited: false },
        LiveBlock { address: Address(0x1000), size: 32, stack: StackRow(0), inherited: false },
    ];
    assert_eq!(classify(&blocks, &Roots { ranges: Vec::new(), words: vec![0x10_0000] }, &mut memory), [R, R]);
    assert_eq!(classify(&blocks, &Roots::default(), &mut memory), [D, I]);
}

#[test]
fn the_allocators_pointer_to_the_next_header_does_not_count() {
    let blocks = [LiveBlock { address: Address(0x1010), size: 24, stack: StackRow(0), inherited: false }];
    let mut memory = Words(BTreeMap::from([(ROOTS, 0x1020)]));
    let mut with = |pointers| {
        let ranges = vec![Root { start: ROOTS, end: ROOTS + 8, pointers }];
        classify(&blocks, &Roots { ranges, words: Vec::new() }, &mut memory)
    };
    assert_eq!(with(Pointers::Any), [P]);
    assert_eq!(with(Pointers::NotToHeaders), [D]);
}

#[test]
fn interior_pointers_of_other_modules_data_count() {
    let blocks = [LiveBlock { address: Address(0x1010), size: 24, stack: StackRow(0), inherited: false }];
    let mut memory = Words(BTreeMap::from([(ROOTS, 0x1018)]));
    let ranges = vec![Root { start: ROOTS, end: ROOTS + 8, pointers: Pointers::NotToHeaders }];
    assert_eq!(classify(&blocks, &Roots { ranges, words: Vec::new() }, &mut memory), [P]);
}

#[test]
fn an_array_is_reachable_by_a_pointer_after_its_count() {
    let blocks =
        [LiveBlock { address: Address(0x1000), size: 8 + 3 * 24, stack: StackRow(0), inherited: false }];
    let mut memory = Words(BTreeMap::from([(0x1000, 3), (ROOTS, 0x1008)]));
    let ranges = vec![Root { start: ROOTS, end: ROOTS + 8, pointers: Pointers::Any }];
    let roots = Roots { ranges, words: Vec::new() };
    assert_eq!(classify(&blocks, &roots, &mut memory), [R]);
    memory.0.insert(0x1000, 5);
    assert_eq!(classify(&blocks, &roots, &mut memory), [P]);
}

#[test]
fn the_second_base_of_an_object_is_as_good_as_the_first() {
    let blocks = [LiveBlock { address: Address(0x1000), size: 64, stack: StackRow(0), inherited: false }];
    let mut memory = Words(BTreeMap::from([(0x1000, 0x9000), (0x1020, 0x9100), (ROOTS, 0x1020)]));
    let ranges = vec![Root { start: ROOTS, end: ROOTS + 8, pointers: Pointers::Any }];
    let roots = Roots { ranges, words: Vec::new() };
    assert_eq!(classify(&blocks, &roots, &mut memory), [R]);
    memory.0.insert(0x1020, 0x8000);
    assert_eq!(classify(&blocks, &roots, &mut memory), [P]);
}

/// The definition, implemented directly with a matrix.
fn by_definition(blocks: usize, pointers: &[(Option<usize>, u64, usize, u64)]) -> Vec<Class> {
    let mut states = vec![None; blocks];
    loop {
        let before = states.clone();
        for &(from, _, to, into) in pointers {
            let from = from.map_or(Some(R), |from| states[from]);
            let found = from.map(|from| if into == 0 { from } else { P });
            states[to] = states[to].max(found);
        }
        if before == states {
            break;
        }
    }
    let mut taken = vec![false; blocks];
    for leader in 0..blocks {
        if states[leader].is_some() || taken[leader] {
            continue;
        }
        let mut reached = vec![leader];
        let mut at = 0;
        while at < reached.len() {
            for &(from, _, to, _) in pointers {
                if from == Some(reached[at]) && states[to].is_none() && !taken[to] && to != leader {
                    taken[to] = true;
                    reached.push(to);
                }
            }
            at += 1;
        }
    }
    states.iter().zip(taken).map(|(state, taken)| state.unwrap_or(if taken { I } else { D })).collect()
}

proptest! {
    #[test]
    fn classes_match_the_definition_for_any_graph(
        blocks in 1usize..24,
        pointers in prop::collection::vec((0usize..30, 0u64..8, 0usize..24, 0u64..3), 0..40),
    ) {
        let mut seen = std::collections::BTreeSet::new();
        let pointers: Vec<_> = pointers
            .into_iter()
            .map(|(from, offset, to, into)| {
                ((from < blocks).then_some(from), offset * 8, to % blocks, [0, 16, 40][into as usize])
            })
            .filter(|&(from, offset, ..)| seen.insert((from, offset)))
            .collect();
        prop_assert_eq!(classes(blocks, &pointers), by_definition(blocks, &pointers));
    }
}
