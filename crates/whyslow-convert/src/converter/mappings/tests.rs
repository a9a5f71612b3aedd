//! Mappings of a synthetic recording.

use whyslow_elf::Elf;
use whyslow_elf::testing::Built;
use whyslow_numbers::{FileAddress, RunTimeAddress};

use super::*;
use crate::Converter;
use crate::testing::{Recorded, at};
use crate::world::FileKey;

const APP: (u32, u32) = (100, 100);

fn recorded() -> Recorded {
    let mut recorded = Recorded::new();
    recorded.converter.add_process(100, "app");
    recorded
}

#[test]
fn a_sample_uses_the_mappings_of_its_time() {
    let mut recorded = recorded();
    recorded.sample_at(APP, 1, 0x1010);
    recorded.map(100, "/lib/first", 0x1000);
    recorded.sample_at(APP, 2, 0x1010);
    recorded.map(100, "/lib/second", 0x1000);
    recorded.sample_at(APP, 3, 0x1010);
    let has = |pid, address| recorded.converter.has_code(pid, RunTimeAddress(address));
    assert!(has(100, 0x1010) && !has(100, 0x9999) && !has(101, 0x1010));
    assert_eq!(recorded.stacks(), ["?1010", "/lib/first+10", "/lib/second+10"]);
}

/// A file that was replaced while it was mapped: by one with another inode, or with the reused inode of
/// the deleted one.
#[test]
fn a_replaced_file_is_another_module() {
    let mut recorded = recorded();
    for (at, file) in [(1, 0), (1, 0), (2, 0), (3, 7), (3, 7), (3, 8)].into_iter().enumerate() {
        recorded.map_file(100, "/lib/plugin", 0x1000 * (at as u64 + 1), file);
    }
    assert_eq!(recorded.profile().modules.len(), 4);
}

/// Two processes of one program share its module and all knowledge about it.
#[test]
fn one_file_is_one_module_in_all_processes() {
    let mut recorded = recorded();
    recorded.converter.add_process(200, "app");
    recorded.map(100, "/bin/app", 0x1000);
    recorded.map(200, "/bin/app", 0x7000);
    recorded.sample_at(APP, 1, 0x1010);
    recorded.sample_at((200, 200), 2, 0x7010);
    let profile = recorded.profile();
    assert_eq!(profile.modules.len(), 1);
    assert_eq!(profile.samples[0].stack[0], profile.samples[0].stack[1]);
}

/// The library has code at 0x1000, and data from 0x4000: 8 bytes in the file, then 0x2000 zeros.
#[test]
fn an_address_after_code_is_in_its_module_data_up_to_the_end_of_the_data() {
    let mut recorded = recorded();
    let file = Built::default().load(0x1000, b"code").data(0x4000, b"initials", 0x2000).bytes();
    let offset = Elf::parse(&file).unwrap().file_offset_of(FileAddress(0x1000)).unwrap();
    recorded.converter.world.files.insert("/lib/first".to_owned(), file);
    let loaded_at = 0x7f00_0000;
    let key = FileKey { path: "/lib/first".to_owned(), device: (0, 0), inode: 0 };
    let [start, end] = [loaded_at, loaded_at + 0x1000].map(RunTimeAddress);
    let mapping = FileMapping { key, generation: 0, start, end, offset };
    let Converter { world, tables, mappings, .. } = &mut recorded.converter;
    mappings.map(world, tables, 100, mapping, ModuleKind::Library);
    recorded.map(100, "/lib/second", loaded_at + 0x1_0000);
    let at = |pid, relative| {
        let found = recorded.converter.mappings.data_at(pid, RunTimeAddress(loaded_at + relative));
        found.map(|(module, address)| (module.index(), address.0))
    };
    assert_eq!(at(100, 0x3000), Some((0, 0x3000)));
    assert_eq!(at(100, 0x3000 + 0x2007), Some((0, 0x5007)), "a zero-initialised variable");
    assert_eq!(at(100, 0x3000 + 0x2008), None, "after the last one");
    assert_eq!(at(100, 0x10), None, "code");
    assert_eq!(at(100, 0x1_0010), None, "in a module without a file");
    assert_eq!((at(101, 0x3000), recorded.converter.mappings.data_at(100, RunTimeAddress(3))), (None, None));
}

#[test]
fn run_time_code_belongs_to_its_process_until_a_dump_describes_it() {
    let mut recorded = recorded();
    recorded.map(100, "//anon", 0x1000);
    recorded.sample_at(APP, 1, 0x1010);
    recorded.map(100, "/tmp/jit-100.dump", 0x9000);
    recorded.sample_at(APP, 2, 0x1010);
    recorded.map(100, "//anon", 0x3000);
    recorded.sample_at(APP, 3, 0x3010);
    let expected = ["[jit:100]+1010", "/tmp/jit-100.dump+1010", "/tmp/jit-100.dump+3010"];
    assert_eq!(recorded.stacks(), expected);
}

#[test]
fn a_return_address_outside_code_truncates_the_stack() {
    let mut recorded = recorded();
    recorded.map(100, "/bin/app", 0x1000);
    let frames = crate::UserStack::Frames(&[0x1010, 0x1020, 0x9000, 0x1030]);
    recorded.sample(APP, 1, frames);
    assert_eq!(recorded.converter.tables.counters.no_unwind_info, 1);
    assert_eq!(recorded.stacks(), ["/bin/app+10 /bin/app+1f ..."]);
}

#[test]
fn limits_the_mappings_that_a_file_claims() {
    let mut recorded = recorded();
    recorded.converter.mappings.limits = Limits { mappings: 3, copies: 4 };
    for at in 1..=5 {
        recorded.map(100, "/bin/app", at * 0x2000);
    }
    assert_eq!(recorded.converter.tables.counters.lost_records, 2);
    // Each of these would need a copy of three mappings to add its own.
    recorded.converter.mappings.limits.mappings = 10;
    for child in [101, 102] {
        recorded.fork(100, (child, child), 10);
        recorded.map(child, "/lib/plugin", 0x20000);
    }
    assert_eq!(recorded.converter.tables.counters.lost_records, 3);
    recorded.sample_at((101, 101), 20, 0x20010);
    recorded.sample_at((102, 102), 20, 0x20010);
    assert_eq!(recorded.stacks(), ["/lib/plugin+10", "?20010"]);
}

/// Kernel modules move with every boot; after a reboot, only the kernel's own code has symbols.
#[test]
fn only_the_kernels_own_code_is_known_after_a_reboot() {
    let mut recorded = recorded();
    let (metric, task) = (recorded.metric, crate::Task { pid: 100, tid: 100 });
    recorded
        .converter
        .take(&crate::Input::KernelMapped(RunTimeAddress(0x10_0000), RunTimeAddress(0x20_0000)));
    recorded.converter.take(&crate::Input::Sample(crate::Sample {
        metric,
        time_ns: at(1),
        task,
        value: 1,
        user: crate::UserStack::None,
        kernel: &[0x30_0000, 0x10_0011],
    }));
    assert_eq!(recorded.converter.tables.counters.without_user_stack, 1);
    assert_eq!(recorded.stacks(), ["?300000 [kernel]+10"]);
}
