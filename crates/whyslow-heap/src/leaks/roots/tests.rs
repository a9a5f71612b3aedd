use std::collections::BTreeMap;

use super::super::LiveBlock;
use super::*;

#[derive(Default)]
struct Words(BTreeMap<u64, u64>);

impl Words {
    fn with(at: u64, words: &[u64]) -> Self {
        Self((at..).step_by(8).zip(words.iter().copied()).collect())
    }
}

impl Memory for Words {
    fn read(&mut self, address: u64, into: &mut [u8]) {
        for (at, bytes) in (address..).step_by(8).zip(into.as_chunks_mut::<8>().0) {
            *bytes = self.0.get(&at).copied().unwrap_or(0).to_le_bytes();
        }
    }
}

const PROGRAM: &str = "\
400000-401000 r-xp 00000000 fe:00 1 /bin/app
402000-403000 rw-p 00002000 fe:00 1 /bin/app
403000-405000 rw-p 00000000 00:00 0
";

fn thread(sp: u64, fs: u64) -> Thread {
    Thread { tid: sp as u32, registers: Vec::new(), sp, red_zone: 128, fs }
}

/// The roots as (start, end), merged where they touch or overlap.
fn ranges(maps: &str, threads: &[Thread], blocks: &[(u64, u64)], memory: &mut Words) -> Vec<(u64, u64)> {
    let blocks: Vec<_> = blocks
        .iter()
        .map(|&(address, size)| LiveBlock {
            address: crate::Address(address),
            size,
            stack: crate::StackRow(0),
            inherited: false,
        })
        .collect();
    let maps = Mapping::parse_all(maps.as_bytes());
    let roots = find(&maps, threads, &Index::new(&blocks), &[], memory);
    let mut ranges: Vec<_> = roots.iter().map(|root| (root.start, root.end)).collect();
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let touches = next.0 <= before.1;
        if touches {
            before.1 = before.1.max(next.1);
        }
        touches
    });
    ranges
}

#[test]
fn data_of_modules_and_the_zeroed_data_after_it_are_roots() {
    assert_eq!(ranges(PROGRAM, &[], &[], &mut Words::default()), [(0x402000, 0x405000)]);
}

#[test]
fn data_protected_after_start_up_is_a_root() {
    let maps = "\
400000-401000 r-xp 00000000 fe:00 1 /bin/app
401000-402000 r--p 00001000 fe:00 1 /bin/app
402000-403000 r--p 00002000 fe:00 1 /bin/app
403000-404000 rw-p 00003000 fe:00 1 /bin/app
";
    assert_eq!(ranges(maps, &[], &[], &mut Words::default()), [(0x402000, 0x404000)]);
}

#[test]
fn memory_merged_with_zeroed_data_is_not_a_root() {
    assert_eq!(ranges(PROGRAM, &[], &[(0x404010, 64)], &mut Words::default()), [(0x402000, 0x404000)]);
}

#[test]
fn heap_devices_and_shared_files_are_not_roots() {
    let maps = "\
600000-700000 rw-p 00000000 00:00 0 [heap]
800000-900000 rw-s 00000000 fe:00 9 /var/db
900000-a00000 rw-s 00000000 00:05 9 /dev/dri/card0
a00000-a01000 rw-p 00000000 00:00 0 [vvar]
b00000-b01000 r--p 00000000 00:00 0
c00000-c01000 -w-p 00000000 00:00 0
";
    assert_eq!(ranges(maps, &[], &[], &mut Words::default()), []);
}

#[test]
fn the_allocators_own_pointers_are_skipped_only_in_libcs_data() {
    let find_in = |maps: &str| {
        let maps = Mapping::parse_all(maps.as_bytes());
        let roots = find(&maps, &[], &Index::new(&[]), &[], &mut Words::default());
        roots.iter().map(|root| root.pointers).collect::<Vec<_>>()
    };
    let libc = "\
700000-701000 r-xp 00000000 fe:00 2 /lib/libc.so.6
702000-703000 rw-p 00002000 fe:00 2 /lib/libc.so.6
";
    let in_program = [Pointers::Any, Pointers::Any];
    assert_eq!(find_in(&format!("{PROGRAM}{libc}")), [&in_program[..], &[Pointers::NotToHeaders]].concat());
    // Without a mapped libc, the program contains it.
    assert_eq!(find_in(PROGRAM), [Pointers::NotToHeaders, Pointers::NotToHeaders]);
}

#[test]
fn a_stack_is_a_root_from_its_red_zone_up() {
    let maps = "7ff000-800000 rw-p 00000000 00:00 0 [stack]\n";
    let expected = [(0x7ff800 - 128, 0x800000)];
    assert_eq!(ranges(maps, &[thread(0x7ff800, 0)], &[], &mut Words::default()), expected);
}

#[test]
fn a_stack_without_a_thread_is_a_root_as_a_whole() {
    let maps = "7ff000-800000 rw-p 00000000 00:00 0 [stack]\n";
    assert_eq!(ranges(maps, &[], &[], &mut Words::default()), [(0x7ff000, 0x800000)]);
}

#[test]
fn the_lower_part_of_a_threads_stack_is_dead_only_after_a_guard_page() {
    let guard = "500000-501000 ---p 00000000 00:00 0\n";
    let stack = "501000-521000 rw-p 00000000 00:00 0\n";
    let threads = [thread(0x518000, 0x520700)];
    let with_guard = ranges(&format!("{guard}{stack}"), &threads, &[], &mut Words::default());
    assert_eq!(with_guard, [(0x518000 - 128, 0x521000)]);
    // It may be one of many stacks that the program keeps in one mapping.
    assert_eq!(ranges(stack, &threads, &[], &mut Words::default()), [(0x501000, 0x521000)]);
}

#[test]
fn blocks_above_a_stack_in_the_same_mapping_are_not_roots() {
    let maps = "\
500000-501000 ---p 00000000 00:00 0
501000-900000 rw-p 00000000 00:00 0
";
    let threads = [thread(0x518000, 0x520700)];
    let blocks = [(0x600010, 1000)];
    let found = ranges(maps, &threads, &blocks, &mut Words::default());
    assert_eq!(found, [(0x518000 - 128, 0x523000)]);
}

#[test]
fn a_stack_within_a_block_is_a_root() {
    let maps = "600000-700000 rw-p 00000000 00:00 0 [heap]\n";
    let found = ranges(maps, &[thread(0x650100, 0)], &[(0x650000, 0x200)], &mut Words::default());
    assert_eq!(found, [(0x650100 - 128, 0x650200)]);
}

#[test]
fn thread_local_storage_within_the_heap_is_a_root_up_to_the_next_block() {
    let maps = "600000-700000 rw-p 00000000 00:00 0 [heap]\n";
    let found = ranges(maps, &[thread(0, 0x600780)], &[(0x601010, 32)], &mut Words::default());
    assert_eq!(found, [(0x600000, 0x601010)]);
    // Freed memory after it is not a root.
    let found = ranges(maps, &[thread(0, 0x600780)], &[(0x602010, 32)], &mut Words::default());
    assert_eq!(found, [(0x600000, 0x601080)]);
}

#[test]
fn large_thread_local_storage_at_the_start_of_the_heap_is_a_root() {
    let maps = "600000-700000 rw-p 00000000 00:00 0 [heap]\n";
    let found = ranges(maps, &[thread(0, 0x640000)], &[(0x641000, 16)], &mut Words::default());
    assert_eq!(found, [(0x600000, 0x640900)]);
}

#[test]
fn a_separately_mapped_block_is_cut_out_of_its_mapping() {
    let maps = "500000-600000 rw-p 00000000 00:00 0\n";
    let block = [(0x520010, 0x20000)];
    let mut memory = Words::with(0x520000, &[0, 0x21000 | 2]);
    assert_eq!(ranges(maps, &[], &block, &mut memory), [(0x500000, 0x520000), (0x541000, 0x600000)]);
    // Any other block means that the whole mapping belongs to the allocator.
    assert_eq!(ranges(maps, &[], &block, &mut Words::default()), []);
}

#[test]
fn a_separately_mapped_aligned_block_is_cut_out_too() {
    let maps = "500000-600000 rw-p 00000000 00:00 0\n";
    let mut memory = Words::with(0x520ff0, &[0xff0, (0x21000 - 0xff0) | 2]);
    let found = ranges(maps, &[], &[(0x521000, 0x20000)], &mut memory);
    assert_eq!(found, [(0x500000, 0x520000), (0x541000, 0x600000)]);
}

#[test]
fn an_empty_glibc_arena_is_not_a_root() {
    let maps = "\
7000000000-7000021000 rw-p 00000000 00:00 0
7000021000-7004000000 ---p 00000000 00:00 0
";
    let mut arena = Words::with(0x70_0000_0000, &[0x70_0000_0030, 0, 0x21000, 0x21000]);
    assert_eq!(ranges(maps, &[], &[], &mut arena), []);
    let mut table = Words::with(0x70_0000_0000, &[0x70_0000_0030, 0x600010, 0x21000, 0x21000]);
    assert_eq!(ranges(maps, &[], &[], &mut table), [(0x70_0000_0000, 0x70_0002_1000)]);
}

#[test]
fn jemallocs_records_are_not_roots() {
    let maps = "7000100000-7000500000 rw-p 00000000 00:00 0\n";
    let mut records = Words::with(0x70_0020_0000, &[0x20_0000, 0, 1, 0x70_0027_2300, 0x18_dd00]);
    let expected = [(0x70_0010_0000, 0x70_0020_0000), (0x70_0040_0000, 0x70_0050_0000)];
    assert_eq!(ranges(maps, &[], &[], &mut records), expected);
}

#[test]
fn cutting_leaves_the_rest() {
    let mut pieces = vec![(0, 10), (20, 30)];
    cut(&mut pieces, 5, 22);
    assert_eq!(pieces, [(0, 5), (22, 30)]);
    cut(&mut pieces, 24, 26);
    assert_eq!(pieces, [(0, 5), (22, 24), (26, 30)]);
    cut(&mut pieces, 0, 100);
    assert_eq!(pieces, []);
}
