//! Findings in small profiles written as text.

#![expect(clippy::unwrap_used, reason = "tests")]

use whyslow_analyze::{CallTree, Selection, testing};
use whyslow_explain::{ALL, Allowed, Confidence, Explanation, Question, RuleId, Shape, explain};
use whyslow_profile::Profile;

fn explained(profile: &Profile) -> Explanation {
    let (selection, allowed) = (Selection::default(), Allowed::default());
    explain(&Question { profile, selection: &selection, only_metric: false, allowed: &allowed, file: "x" })
}

/// `id share% function:line` of each finding.
fn found(folded: &str) -> Vec<String> {
    let profile = testing::profile(folded);
    let findings = explained(&profile).findings;
    let words = findings.iter().map(|finding| {
        let place = finding.place.unwrap();
        let function = CallTree::name(&profile, place.label).into_owned();
        format!("{} {:.0}% {function}:{}", finding.rule.id, finding.share * 100.0, place.line)
    });
    words.collect()
}

const SIP: &str = "core::hash::sip::Hasher<S>::write";
const GROW: &str = "alloc::raw_vec::RawVec<T,A>::grow_one;alloc::raw_vec::RawVecInner<A>::finish_grow";

#[test]
fn the_line_is_in_the_users_code_however_deep_the_library_is() {
    assert_eq!(
        found(&format!("main@m.rs:1;count@m.rs:7;dep::map::get@d.rs:90;{SIP} 100\nmain@m.rs:2 200")),
        ["sip-hash 33% count:7"]
    );
    // Without user code on the stack, it is the nearest library.
    assert_eq!(
        found(&format!("_start;dep::map::get@d.rs:90;{SIP} 100\n_start;dep::work 200")),
        ["sip-hash 33% dep::map::get:90"]
    );
}

#[test]
fn trait_implementations_that_std_calls_are_skipped() {
    // The line of `derive(Hash)` is not responsible.
    let derived = format!(
        "main@m.rs:1;count@m.rs:7;core::hash::BuildHasher::hash_one;<app::Key as core::hash::Hash>::hash@m.rs:3;{SIP} 100\nmain 200"
    );
    assert_eq!(found(&derived), ["sip-hash 33% count:7"]);
    let cloned = "main@m.rs:1;copy@m.rs:9;<app::Key as core::clone::Clone>::clone@m.rs:3;<alloc::string::String as core::clone::Clone>::clone;malloc 100\nmain 200";
    assert_eq!(found(cloned), ["clone-heavy 33% copy:9"]);
}

#[test]
fn user_code_beneath_a_library_does_not_count_for_the_library() {
    // `find` calls a user closure, and the function that it calls does the work.
    let work = "main@m.rs:1;core::slice::iter::Iter<T>::for_each;<core::slice::iter::Iter<T> as core::iter::traits::iterator::Iterator>::find;main::{{closure}}@m.rs:2;work@m.rs:5 300";
    assert_eq!(found(work), [""; 0]);
    // The closure's own work belongs to the search.
    let compare = "main@m.rs:1;<core::slice::iter::Iter<T> as core::iter::traits::iterator::Iterator>::find;main::{{closure}}@m.rs:1 300";
    assert_eq!(found(compare), ["linear-search 100% main:1"]);
}

#[test]
fn a_sample_counts_only_for_the_most_specific_finding() {
    let both = format!(
        "main@m.rs:1;fill@m.rs:7;{GROW};malloc 100\nmain@m.rs:1;one@m.rs:8;malloc 60\nmain@m.rs:2 240"
    );
    assert_eq!(found(&both), ["vec-growth 25% fill:7", "allocator-heavy 15% one:8"]);
    // Samples of a pattern below its threshold count for the next rule.
    let little = format!(
        "main@m.rs:1;fill@m.rs:7;{GROW};malloc 21\nmain@m.rs:1;one@m.rs:8;malloc 100\nmain@m.rs:2 800"
    );
    assert_eq!(found(&little), ["allocator-heavy 13% one:8"]);
    for folded in [both, little] {
        let sum: f64 =
            explained(&testing::profile(&folded)).findings.iter().map(|finding| finding.share).sum();
        assert!(sum <= 1.0, "{sum}");
    }
}

#[test]
fn a_clone_absorbs_the_drops_in_its_function() {
    let cloned = "main@m.rs:1;copy@m.rs:9;<T as core::clone::Clone>::clone;malloc 100\n\
        main@m.rs:1;copy@m.rs:11;core::ptr::drop_in_place<[T]>;free 80\n\
        main@m.rs:1;other@m.rs:20;core::ptr::drop_in_place<[T]>;free 60\n\
        main@m.rs:2 200";
    assert_eq!(found(cloned), ["clone-heavy 41% copy:9", "drop-heavy 14% other:20"]);
}

#[test]
fn patterns_with_another_explanation_are_not_reported() {
    let write = "<std::fs::File as std::io::Write>::write";
    assert_eq!(found(&format!("main@m.rs:1;{write};write;sys_call 300")), ["unbuffered-writes 100% main:1"]);
    // Through a buffer.
    assert_eq!(
        found(&format!(
            "main@m.rs:1;<std::io::BufWriter<W> as std::io::Write>::write;{write};write;sys_call 300"
        )),
        [""; 0]
    );
    // Large writes: the kernel copies most of the time.
    assert_eq!(
        found(&format!(
            "main@m.rs:1;{write};write;sys_copy_from_iter 200\nmain@m.rs:1;{write};write;sys_call 100"
        )),
        [""; 0]
    );
    // Single bytes pass through the same kernel functions, but hardly any time is spent on copying.
    let one_byte = |copied: u32| {
        let read = "main@m.rs:1;<std::fs::File as std::io::Read>::read;read;do_syscall_64;ksys_read;vfs_read";
        found(&format!(
            "{read};ext4_file_read_iter;filemap_read 200\n{read} 70\n{read};filemap_read;copy_page_to_iter {copied}"
        ))
    };
    assert_eq!(one_byte(30), ["unbuffered-reads 100% main:1"]);
    assert_eq!(one_byte(100), [""; 0]);
    // Checking the capacity is not growth.
    assert_eq!(
        found("main@m.rs:1;alloc::vec::Vec<T,A>::reserve;alloc::raw_vec::RawVec<T,A>::reserve 300"),
        [""; 0]
    );
    // Functions in the user's code with the same names.
    assert_eq!(found("main@m.rs:1;malloc_all@m.rs:3;read@m.rs:4 300"), [""; 0]);
}

#[test]
fn atomics_are_reported_only_for_several_threads() {
    let add = "core::sync::atomic::AtomicU64::fetch_add";
    assert_eq!(found(&format!("main@m.rs:1;{add} 300")), [""; 0]);
    assert_eq!(
        found(&format!("main@m.rs:1;{add} 150\nother: main@m.rs:1;{add} 150")),
        ["atomic-traffic 100% main:1"]
    );
    // A user's name is not that of a shared pointer.
    let own = format!("shared_counters::main@m.rs:1;{add} 150");
    assert_eq!(found(&format!("{own}\nother: {own}")), ["atomic-traffic 100% shared_counters::main:1"]);
}

#[test]
fn asking_again_and_again_is_busy_waiting() {
    for asked in [
        "std::sync::mpsc::Receiver<T>::try_recv",
        "crossbeam_channel::channel::Receiver<T>::try_recv",
        "std::sync::poison::mutex::Mutex<T>::try_lock",
        "lock_api::mutex::Mutex<R,T>::try_lock",
        "std::thread::functions::yield_now;sched_yield",
    ] {
        assert_eq!(found(&format!("main@m.rs:7;{asked} 300")), ["spin-waiting 100% main:7"], "{asked}");
        assert_eq!(found(&format!("main@m.rs:7;{asked} 30\nmain@m.rs:9 970")), [""; 0], "{asked}");
    }
    assert_eq!(found("main@m.rs:7;app::queue::try_recv@q.rs:3 300"), [""; 0], "the user's own");
}

#[test]
fn no_gain_is_claimed_for_system_calls_in_a_hidden_kernel() {
    let profile = testing::profile(
        "[not sampled] 700\nmain@m.rs:1;<std::fs::File as std::io::Read>::read;read 250\nmain@m.rs:2 50",
    );
    let finding = explained(&profile).findings.remove(0);
    assert_eq!((finding.rule.id, finding.share, finding.speedup), (RuleId::UnbufferedReads, 0.25, None));
    let words = "70.0 % of the CPU time was not sampled, mostly in the kernel";
    assert!(finding.evidence.iter().any(|one| one.text.contains(words)), "{:?}", finding.evidence);
}

#[test]
fn advice_is_for_the_language_of_the_line() {
    let advice = |file: &str| {
        let stacks = format!("main@m.{file}:1;work@m.{file}:7;malloc 300");
        let profile = testing::profile(&stacks);
        explained(&profile).findings.first().map(|finding| finding.advice.clone())
    };
    assert!(advice("c").is_some_and(|advice| advice.contains("std::pmr")), "{:?}", advice("c"));
    assert!(advice("rs").is_some_and(|advice| advice.contains("mimalloc")), "{:?}", advice("rs"));
    assert_eq!(advice("f90"), Some(String::new()));
}

#[test]
fn few_samples_lower_the_confidence_and_too_few_give_no_finding() {
    let confidence = |hits: u32, rest: u32| {
        let profile = testing::profile(&format!("main@m.rs:1;{SIP} {hits}\nmain@m.rs:2 {rest}"));
        explained(&profile).findings.first().map(|finding| finding.confidence)
    };
    assert_eq!(confidence(300, 300), Some(Confidence::High));
    assert_eq!(confidence(100, 300), Some(Confidence::Medium));
    assert_eq!(confidence(30, 300), Some(Confidence::Low));
    assert_eq!(confidence(19, 300), None);
    assert_eq!(confidence(100, 99), None);
}

#[test]
fn every_profile_has_a_shape() {
    let shape = |folded: &str| explained(&testing::profile(folded)).shape;
    assert!(matches!(shape("main;hot 300\nmain;cold 50"), Shape::Hotspot { share, .. } if share > 0.8));
    assert!(matches!(shape("main;f 10"), Shape::TooFew { samples: 10, .. }));
    let spread = (0..20).map(|function| format!("main;f{function} 20\n")).collect::<String>();
    assert!(matches!(shape(&spread), Shape::Spread { functions: 20, .. }));
    let frameworks = (0..20).map(|function| format!("_start;dep::f{function} 20\n")).collect::<String>();
    assert!(matches!(shape(&format!("{frameworks}main 50")), Shape::Frameworks { share } if share > 0.8));
}

#[test]
fn handles_odd_profiles() {
    for folded in ["[unknown] 300", "[truncated];f 300", "main;[libz.so] 300", "main;;f 300"] {
        let profile = testing::profile(folded);
        assert!(explained(&profile).findings.is_empty(), "{folded}");
    }
    let empty = explained(&Profile::default());
    assert!(
        empty.findings.is_empty() && matches!(empty.shape, Shape::TooFew { samples: 0, .. }),
        "{empty:?}"
    );
    let deep = format!("{}{SIP} 300", "main@m.rs:1;".repeat(5_000));
    assert!(!found(&deep).is_empty());
}

#[test]
fn ids_are_unique_and_in_kebab_case() {
    let mut ids = ALL.iter().map(|rule| rule.id.as_str()).collect::<Vec<_>>();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
    assert!(ids.iter().all(|id| {
        id.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-')
    }));
    assert!(ALL.iter().all(|rule| !rule.title.ends_with('.') && !rule.rust.is_empty()));
}
