//! Correct and idiomatic code that looks like a pattern, each beside code that has it.

use whyslow_analyze::{Selection, testing};
use whyslow_explain::{Allowed, Question, RuleId, explain};
use whyslow_profile::{CodeKind, ExitStatus, Profile, ThreadTimes};

/// The ids of all findings.
fn ids(folded: &str) -> Vec<RuleId> {
    ids_of(&profile(folded))
}

/// A profile in which libc and the kernel have the functions that they have.
fn profile(folded: &str) -> Profile {
    let mut made = testing::profile(folded);
    for at in 0..made.functions.len() {
        let name = made.text(made.functions[at].name);
        let is_kernel =
            ["page", "sys_", "vfs_", "sock_", "tcp_", "pipe_"].iter().any(|part| name.contains(part));
        let is_libc = ["mem", "printf", "write", "strlen", "strcmp", "qsort", "free", "operator new"]
            .iter()
            .any(|part| name.contains(part));
        if !name.contains("::") && (is_kernel || is_libc) {
            made.functions[at].kind = if is_kernel { CodeKind::Kernel } else { CodeKind::Runtime };
        }
    }
    made
}

fn ids_of(profile: &Profile) -> Vec<RuleId> {
    let (selection, allowed) = (Selection::default(), Allowed::default());
    let question =
        Question { profile, selection: &selection, only_metric: false, allowed: &allowed, file: "x" };
    explain(&question).findings.iter().map(|finding| finding.rule.id).collect()
}

const NONE: [RuleId; 0] = [];

#[test]
fn cloning_a_counted_reference_copies_nothing() {
    for counted in ["alloc::rc::Rc<T,A>", "alloc::sync::Weak<T,A>"] {
        let cloned = format!("main@m.rs:1;<{counted} as core::clone::Clone>::clone 300");
        assert!(!ids(&cloned).contains(&RuleId::CloneHeavy), "{counted}");
    }
    assert_eq!(
        ids("main@m.rs:1;<alloc::vec::Vec<T,A> as core::clone::Clone>::clone 300"),
        [RuleId::CloneHeavy]
    );
}

#[test]
fn numbers_written_as_text_are_no_clones_and_collected_strings_are_kept() {
    let number = "<T as alloc::string::ToString>::to_string;<u64 as alloc::string::SpecToString>::spec_to_string;<str as alloc::string::SpecToString>::spec_to_string;malloc";
    assert_eq!(ids(&format!("main@m.rs:1;{number} 300")), [RuleId::Formatting], "write! is as slow");
    let float = number.replace("u64", "f64");
    assert_eq!(ids(&format!("main@m.rs:1;{float} 300")), [RuleId::FormatAllocates]);
    let collect = "<alloc::vec::Vec<T> as core::iter::traits::collect::FromIterator<T>>::from_iter";
    let kept = ids(&format!(
        "main@m.rs:1;{collect};main::{{{{closure}}}}@m.rs:2;alloc::fmt::format;core::fmt::write 300"
    ));
    assert!(!kept.contains(&RuleId::FormatAllocates), "{kept:?}");
}

#[test]
fn joining_text_is_no_copy_of_a_large_value() {
    let copy = "__memmove_avx_unaligned_erms";
    let joined = "<alloc::string::String>::push_str;alloc::vec::Vec<T,A>::extend_from_slice;core::ptr::copy_nonoverlapping";
    assert_eq!(ids(&format!("main@m.rs:1;{joined};{copy} 300")), NONE);
    assert_eq!(
        ids(&format!("main@m.rs:1;merge@m.rs:4;core::slice::<impl [T]>::copy_from_slice;{copy} 300")),
        NONE
    );
    let tree = "alloc::collections::btree::map::entry::VacantEntry<K,V,A>::insert;core::ptr::copy";
    assert_eq!(ids(&format!("main@m.rs:1;{tree};{copy} 300")), NONE);
    assert_eq!(ids(&format!("main@m.rs:1;pass@m.rs:4;{copy} 300")), [RuleId::MemoryCopies]);
}

#[test]
fn explicit_copies_in_c_are_no_copies_of_large_values() {
    for (text, found) in
        [("    memcpy(to, from, n);", &NONE[..]), ("    draw(scene);", &[RuleId::MemoryCopies])]
    {
        let mut profile = profile("main@m.c:1;pass@m.c:2;memcpy 300");
        testing::add_source(&mut profile, "m.c", &format!("int main\n{text}\n"));
        assert_eq!(ids_of(&profile), found, "{text}");
    }
}

#[test]
fn a_tree_map_with_ranges_is_needed() {
    let get = "main@m.rs:1;alloc::collections::btree::map::BTreeMap<K,V,A>::get;alloc::collections::btree::search::search_tree 300";
    assert_eq!(ids(get), [RuleId::BtreeSearch]);
    for ordered in ["range", "pop_first", "last_key_value", "remove"] {
        let used =
            format!("{get}\nmain@m.rs:2;alloc::collections::btree::map::BTreeMap<K,V,A>::{ordered} 30");
        assert_eq!(ids(&used), NONE, "{ordered}");
    }
    let entry = format!(
        "{get}\nmain@m.rs:2;alloc::collections::btree::map::entry::OccupiedEntry<K,V,A>::remove_kv 30"
    );
    assert_eq!(ids(&entry), NONE);
    let at_exit = "main@m.rs:1;<alloc::collections::btree::map::BTreeMap<usize, std::sys::pal::unix::stack_overflow::thread_info::ThreadInfo>>::remove::<usize> 1";
    assert_eq!(ids(&format!("{get}\n{at_exit}")), [RuleId::BtreeSearch], "the runtime's own tree");
    let filled = "main@m.rs:1;alloc::collections::btree::map::BTreeMap<K,V,A>::insert;alloc::collections::btree::search::search_tree 300";
    assert_eq!(ids(filled), NONE);
}

#[test]
fn elements_that_free_nothing_are_not_slow_to_drop() {
    let dropped = "main@m.rs:1;core::ptr::drop_in_place<[app::Span]>;core::ptr::drop_in_place<app::Span>";
    assert_eq!(ids(&format!("{dropped} 300")), NONE);
    assert_eq!(ids(&format!("{dropped};free 300")), [RuleId::DropHeavy]);
}

#[test]
fn a_constant_list_is_short() {
    let contains = "core::slice::<impl [T]>::contains";
    for (text, found) in [
        ("if KEYWORDS.contains(&word) {", &NONE[..]),
        ("let vowels = word.bytes().filter(|byte| b\"aeiou\".contains(byte));", &NONE),
        ("if lexer::KEYWORDS\n    .iter()\n    .any(|word| word == next) {", &NONE),
        ("if ['a', 'b'].contains(&letter) {", &NONE),
        ("if seen.contains(&word) {", &[RuleId::LinearSearch]),
        ("if self.rows[at].contains(&word) {", &[RuleId::LinearSearch]),
    ] {
        let line = 1 + text.lines().count();
        let mut profile = profile(&format!("main@m.rs:1;app::count@m.rs:{line};{contains} 300"));
        testing::add_source(&mut profile, "m.rs", &format!("fn main\n{text}\n"));
        assert_eq!(ids_of(&profile), found, "{text}");
    }
}

#[test]
fn a_string_that_is_measured_once_is_no_loop_over_it() {
    for (text, found) in [
        ("    for (size_t at = 0; at < strlen(line); at++)", &[RuleId::StrlenInLoop][..]),
        ("    size_t length = strlen(line);", &NONE),
    ] {
        let mut profile = profile("main@m.c:1;mask@m.c:2;__strlen_avx2 300");
        testing::add_source(&mut profile, "m.c", &format!("int main\n{text}\n"));
        assert_eq!(ids_of(&profile), found, "{text}");
    }
}

#[test]
fn a_comparison_that_formats_is_a_costly_key() {
    let compare = "main@m.c:1;qsort;by_key@m.c:4";
    assert_eq!(ids(&format!("{compare};snprintf;__vsnprintf_internal 300")), [RuleId::SortByCostlyKey]);
    assert_eq!(ids(&format!("{compare};strcmp 300")), NONE);
}

#[test]
fn a_string_that_is_put_together_is_no_vector_that_grows() {
    let append = "std::__cxx11::basic_string<char>::_M_append(char const*, unsigned long);std::__cxx11::basic_string<char>::_M_mutate(unsigned long)";
    assert_eq!(
        ids(&format!("main@m.cpp:1;{append};operator new(unsigned long) 300")),
        [RuleId::AllocatorHeavy]
    );
}

#[test]
fn a_vector_or_map_of_unknown_length_has_no_size_to_set() {
    let push = "alloc::vec::Vec<T,A>::push;alloc::raw_vec::RawVec<T,A>::grow_one;alloc::raw_vec::finish_grow";
    for (text, found) in [
        ("    for row in 0..count {\n        rows.push(row);", &[RuleId::VecGrowth][..]),
        (
            "    for row in &rows {\n        let value = row * 2;\n        rows.push(value);",
            &[RuleId::VecGrowth],
        ),
        ("    for line in text.lines() {\n        rows.push(line);", &NONE),
        ("    while let Some(row) = next() {\n        rows.push(row);", &NONE),
        ("    lexer.sequence(|next| {\n        rows.push(parse(next));", &NONE),
    ] {
        let line = 1 + text.lines().count();
        let mut profile = profile(&format!("main@m.rs:1;app::fill@m.rs:{line};{push} 300"));
        testing::add_source(&mut profile, "m.rs", &format!("fn main\n{text}\n"));
        assert_eq!(ids_of(&profile), found, "{text}");
    }
    let rehash = "hashbrown::raw::RawTable<T,A>::reserve_rehash";
    for (text, found) in [
        ("    for word in words {\n        set.insert(word);", &[RuleId::MapGrowth][..]),
        ("    input.for_each_line(|line| {\n        set.insert(line);", &NONE),
    ] {
        let mut profile = profile(&format!("main@m.rs:1;app::fill@m.rs:3;{rehash} 300"));
        testing::add_source(&mut profile, "m.rs", &format!("fn main\n{text}\n"));
        assert_eq!(ids_of(&profile), found, "{text}");
    }
}

#[test]
fn erasing_from_a_vector_is_found_by_its_inlined_functions() {
    let iterator = "__gnu_cxx::__normal_iterator<M*, std::vector<M, std::allocator<M> > >";
    let erase = format!("std::vector<M, std::allocator<M> >::_M_erase({iterator})");
    assert_eq!(ids(&format!("main@m.cpp:1;take@m.cpp:4;{erase};__memmove_avx 300")), [RuleId::FrontRemoval]);
}

#[test]
fn a_vector_of_cpp_grows_only_where_it_allocates() {
    let insert = "std::vector<Point>::_M_realloc_insert<Point>";
    let ids = |beneath: &str| {
        let mut profile = profile(&format!("main@m.cpp:1;outline@m.cpp:3;{insert}{beneath} 300"));
        testing::add_source(
            &mut profile,
            "m.cpp",
            "int main\nfor (int at = 0; at < n; at++)\n  line.push_back(at);\n",
        );
        ids_of(&profile)
    };
    assert_eq!(ids(";operator new(unsigned long);malloc"), [RuleId::VecGrowth]);
    assert_eq!(ids(";std::__relocate_a_1<Point>"), [RuleId::VecGrowth]);
    assert_eq!(ids(""), NONE, "instructions that the compiler moved into the loop");
}

#[test]
fn formatting_for_a_file_is_the_programs_purpose() {
    let format = "core::fmt::write;core::fmt::num::imp::<impl core::fmt::Display for u64>::fmt";
    assert_eq!(ids(&format!("main@m.rs:1;std::io::Write::write_fmt;{format} 300")), NONE);
    assert_eq!(ids("main@m.c:1;printf;__vfprintf_internal 300"), NONE);
    assert_eq!(ids(&format!("main@m.rs:1;core::fmt::Write::write_fmt;{format} 300")), [RuleId::Formatting]);
    let key = "main@m.c:1;make_key@m.c:4;snprintf;__vsnprintf_internal 300";
    assert_eq!(ids(key), [RuleId::Formatting]);
    assert_eq!(ids(&format!("{key}\nmain@m.c:2;fwrite 20")), NONE, "it writes what it formats");
    assert_eq!(ids(&format!("{key}\nmain@m.c:2;fwrite 2")), [RuleId::Formatting]);
    assert_eq!(ids("main;od;snprintf;__vsnprintf_internal 300"), NONE, "nobody knows the line");
}

#[test]
fn buffered_lines_are_not_printed_one_by_one() {
    let line = "<std::io::buffered::linewritershim::LineWriterShim<W> as std::io::Write>::write_all";
    let buffer = "std::io::buffered::bufwriter::BufWriter<W>::flush_buf";
    assert_eq!(ids(&format!("main@m.rs:1;{line};__write 300")), [RuleId::PrintPerLine]);
    assert_eq!(ids(&format!("main@m.rs:1;{buffer};{line};__write 300")), NONE);
}

#[test]
fn small_writes_to_sockets_and_pipes_need_no_buffer() {
    for kernel in ["sock_write_iter;tcp_sendmsg", "pipe_write"] {
        assert_eq!(ids(&format!("main@m.rs:1;__write;{kernel} 300")), NONE, "{kernel}");
        let entry = "main@m.rs:1;__write;do_syscall_64 200";
        assert_eq!(ids(&format!("{entry}\nmain@m.rs:1;__write;{kernel} 100")), NONE, "{kernel}");
    }
    assert_eq!(ids("main@m.rs:1;__write;vfs_write 300"), [RuleId::UnbufferedWrites]);
}

#[test]
fn memory_that_is_mapped_once_faults_once() {
    let fault = "main@m.rs:1;fill@m.rs:4;asm_exc_page_fault;clear_page 300";
    let unmap = "main@m.rs:1;fill@m.rs:6;__x64_sys_munmap 30";
    assert_eq!(ids(fault), NONE);
    assert_eq!(ids(&format!("{fault}\n{unmap}")), NONE, "at the end");
    assert_eq!(ids(&format!("{fault}\n{unmap}\n{fault}\n{unmap}")), [RuleId::PageFaults]);
    let file = fault.replace("clear_page", "filemap_map_pages");
    assert_eq!(ids(&format!("{file}\n{unmap}\n{file}\n{unmap}")), NONE, "a mapped file");
    let little = unmap.replace("30", "3");
    assert_eq!(ids(&format!("{fault}\n{little}\n{fault}\n{little}")), NONE, "other memory was unmapped");
    let spread = (0..5).map(|at| fault.replace("fill@m.rs:4", &format!("f{at}@m.rs:{at}")) + "\n");
    let spread = spread.collect::<String>();
    let ends = unmap.replace("30", "150");
    assert_eq!(ids(&format!("{spread}{ends}\n{spread}{ends}")), NONE, "small blocks all over the program");
    let mut several = profile(&format!("{fault}\n{unmap}\nb: {fault}\nb: {unmap}"));
    assert_eq!(ids_of(&several), [RuleId::PageFaults]);
    several.processes.push(several.processes[0].clone());
    several.threads[1].process = 1.into();
    assert_eq!(ids_of(&several), NONE, "each process maps its memory once");
}

#[test]
fn searches_inside_the_standard_library_are_not_the_users() {
    let find = "<core::slice::iter::Iter<T> as core::iter::traits::iterator::Iterator>::position";
    assert_eq!(ids(&format!("main@m.rs:1;std::sync::mpmc::waker::Waker::try_select;{find} 300")), NONE);
}

#[test]
fn processes_that_share_a_machine_do_not_crowd_each_other() {
    let rows = (0..9).map(|thread| format!("t{thread}: app::work@app.rs:7 100\n")).collect::<String>();
    let crowd = |one_process: bool| {
        let mut profile = testing::profile(&rows);
        profile.meta.host.cpus = 2;
        profile.meta.duration_ns = 400_000_000;
        profile.meta.exit = one_process.then_some(ExitStatus::Code(0));
        let process = profile.processes[0].clone();
        for thread in 0..profile.threads.len() {
            if !one_process && thread > 0 {
                profile.processes.push(process.clone());
                profile.threads[thread].process = (profile.processes.len() - 1).into();
            }
            let row = &mut profile.threads[thread];
            (row.start_ns, row.end_ns) = (0, Some(400_000_000));
            row.times =
                Some(ThreadTimes { ran_ns: 100_000_000, queued_ns: 300_000_000, ..ThreadTimes::default() });
        }
        ids_of(&profile)
    };
    assert_eq!(crowd(true), [RuleId::Oversubscription]);
    assert_eq!(crowd(false), NONE);
}
