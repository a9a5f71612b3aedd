//! Tests of comparisons as text.

use whyslow_analyze::diff::Side;
use whyslow_analyze::{Selection, testing};
use whyslow_profile::heap::metric;
use whyslow_profile::{MetricId, Trigger};

use super::*;
use crate::text::tests::plain;

fn screen(before: &Profile, after: &Profile, metric: MetricId, limit: Option<usize>, width: usize) -> String {
    let selection = Selection { metric, ..Selection::default() };
    let side = |profile| Side { profile, selection: &selection };
    let diff = Diff::build(side(before), side(after), true);
    let qualities = [before, after].map(Quality::of);
    let view = DiffView {
        diff: &diff,
        before: DiffFile { name: "before.whyslow", profile: before, quality: &qualities[0], more: &[] },
        after: DiffFile { name: "after.whyslow", profile: after, quality: &qualities[1], more: &[] },
        limit,
        paths: None,
        focus: None,
    };
    plain(&super::diff(&view, Page::new(after, metric, width)))
}

fn heaps() -> [Profile; 2] {
    let start = "_start;std::rt::lang_start;app::main@/home/me/app/src/main.rs:9";
    let before = testing::heap_profile(&format!(
        "{start};app::load::numbers@/home/me/app/src/load.rs:12;alloc::raw_vec::finish_grow : allocations=975 frees=975 \
             bytes_allocated=2862000 peak_bytes=16384 bytes_copied=3320
         {start};app::count@/home/me/app/src/main.rs:40 : allocations=10013 frees=10013 bytes_allocated=1170000 \
             peak_bytes=819200 temporary=103
         {start};app::keep@/home/me/app/src/main.rs:50 : allocations=1 bytes_allocated=544 live_at_exit_bytes=544 \
             reachable_bytes=544
         {start};app::old::<alloc::string::String>::parse@/home/me/app/src/old.rs:3 : allocations=7 bytes_allocated=700 \
             live_at_exit_bytes=700 definitely_lost_bytes=700"
    ));
    let after = testing::heap_profile(&format!(
        "{start};app::load::numbers@/home/me/app/src/load.rs:13;alloc::vec::with_capacity : allocations=100 frees=100 \
             bytes_allocated=839600 peak_bytes=8192
         {start};app::count@/home/me/app/src/main.rs:40 : allocations=13 frees=13 bytes_allocated=819200 \
             peak_bytes=819200 temporary=1030
         {start};app::keep@/home/me/app/src/main.rs:50 : allocations=1 bytes_allocated=544 live_at_exit_bytes=544 \
             reachable_bytes=544
         {start};app::fresh@/home/me/app/src/main.rs:70 : allocations=2 bytes_allocated=64"
    ));
    [before, after]
}

#[test]
fn a_counted_heap_is_compared_line_by_line() {
    let [before, after] = heaps();
    insta::assert_snapshot!(screen(&before, &after, MetricId(0), None, 100), @r"
    before: before.whyslow, ./app
            good: every allocation counted, 100.0 % of stacks complete, 0 lost
    after:  after.whyslow, ./app
            good: every allocation counted, 100.0 % of stacks complete, 0 lost
    counted exactly; a single run per side cannot show run-to-run noise

                             before     after     change
    allocations              10,996       116    -10,880   -98.9 %
    frees                    10,988       113    -10,875   -99.0 %
    temporary allocations       103     1,030       +927     ×10.0
    bytes allocated        3.85 MiB  1.58 MiB  -2.26 MiB   -58.9 %
    bytes copied           3.24 KiB       0 B  -3.24 KiB  -100.0 %
    live at peak            816 KiB   808 KiB  -8.00 KiB    -1.0 %
    live at exit           1.21 KiB     544 B     -700 B   -56.3 %
    definitely lost           700 B       0 B     -700 B  -100.0 %
    still reachable           544 B     544 B          0

    lines by bytes-allocated: 4 changed, 1 unchanged
        before    after     change           function              where
      2.73 MiB  820 KiB  -1.93 MiB  -70.7 %  app::load::numbers    …/me/app/src/load.rs:13
      1.12 MiB  800 KiB   -343 KiB  -30.0 %  app::count            …/me/app/src/main.rs:40
         700 B        -     -700 B  removed  app::old::<…>::parse  …/me/app/src/old.rs:3
             -     64 B      +64 B      new  app::fresh            …/me/app/src/main.rs:70

    only before: app::old::<alloc::string::String>::parse 700 B
    only after: app::fresh 64 B
    ");
}

#[test]
fn the_limit_sets_the_number_of_rows() {
    let [before, after] = heaps();
    let allocations = Selection::metric_named(&before, metric::ALLOCATIONS).unwrap();
    let text = screen(&before, &after, allocations, Some(1), 80);
    let (_, rows) = text.split_once("lines by").unwrap();
    insta::assert_snapshot!(rows, @r"
     allocations: 4 changed, 1 unchanged
      before  after   change           function    where
      10,013     13  -10,000  -99.9 %  app::count  …/src/main.rs:40
    and 3 more changed: -n 0 shows all

    only before: app::old::<alloc::string::String>::parse 7
    only after: app::fresh 2
    ");
}

#[test]
fn unchanged_rows_are_counted_not_listed() {
    let [before, _] = heaps();
    let text = screen(&before, &before, MetricId(0), None, 100);
    assert!(text.ends_with("\nlines by bytes-allocated: 4 unchanged\n"), "{text}");
}

#[test]
fn sampled_functions_of_one_run_have_intervals_and_no_verdicts() {
    let before = testing::profile(
        "_start;std::rt::lang_start;app::main@src/main.rs:9;app::parse@src/parse.rs:3;core::str::next@/rustc/lib.rs:4 700
         _start;std::rt::lang_start;app::main@src/main.rs:9;app::parse@src/parse.rs:3 100
         _start;std::rt::lang_start;app::main@src/main.rs:9;app::hash@src/main.rs:30 50
         _start;std::rt::lang_start;app::main@src/main.rs:9;app::slow_path@src/main.rs:40 30
         _start;std::rt::lang_start;app::main@src/main.rs:9;app::rare@src/main.rs:50 2",
    );
    let mut after = testing::profile(
        "_start;std::rt::lang_start;app::main@src/main.rs:9;app::parse@src/parse.rs:5;core::str::next@/rustc/lib.rs:4 200
         _start;std::rt::lang_start;app::main@src/main.rs:9;app::parse@src/parse.rs:5 100
         _start;std::rt::lang_start;app::main@src/main.rs:9;app::hash@src/main.rs:30 60",
    );
    testing::sampled_by(&mut after, Trigger::Unknown, 99);
    after.meta.command.push("--fast".to_owned());
    insta::assert_snapshot!(screen(&before, &after, MetricId(0), None, 100), @r"
    before: before.whyslow, ./app
            good: 882 samples, 100.0 % of stacks complete, 0 lost
    after:  after.whyslow, ./app --fast
            good: 360 samples, 100.0 % of stacks complete, 0 lost
    warning: the arguments differ: none before, `--fast` after
    warning: the sampling rates differ: -F 1000 before, -F 99 after
    ± is the sampling error (95 %). A single run per side cannot show run-to-run noise, so there is no
    verdict: `whyslow diff --runs 5 'BEFORE' 'AFTER'` gives one

               before   after   change        ±
    cpu time   882 ms  360 ms  -522 ms  69.1 ms  -59.2 %
    wall time  882 ms  360 ms  -522 ms           -59.2 %
    user time  882 ms  360 ms  -522 ms           -59.2 %

    functions by self cpu-time: 2 beyond the sampling error, 6 within it
       before    after    change        ±  function         where
       700 ms   200 ms   -500 ms  58.9 ms  core::str::next  /rustc/lib.rs:1
      30.0 ms        -  -30.0 ms  11.1 ms  app::slow_path   src/main.rs:1
      50.0 ms  60.0 ms  +10.0 ms  20.7 ms  app::hash        src/main.rs:1
      2.00 ms        -  -2.00 ms  3.92 ms  app::rare        src/main.rs:1

    functions by total cpu-time: 4 beyond the sampling error, 2 within it
       before   after    change        ±  function         where
       882 ms  360 ms   -522 ms  69.1 ms  app::main        src/main.rs:1
       700 ms  200 ms   -500 ms  58.9 ms  core::str::next  /rustc/lib.rs:1
       800 ms  300 ms   -500 ms  65.1 ms  app::parse       src/parse.rs:1
      30.0 ms       -  -30.0 ms  11.1 ms  app::slow_path   src/main.rs:1

    only before: app::slow_path 30.0 ms, 1 with too few samples
    ");
}

#[test]
fn names_cannot_change_the_terminal_and_lines_fit() {
    let hostile =
        "main;evil\x1b7::very::long::path::of::modules::and::functions::until::the::end@/a/b/c/d/e/f.rs:3 90";
    let [before, after] = ["main 3".to_owned(), hostile.to_owned()].map(|folded| testing::profile(&folded));
    for width in [80, 100] {
        let text = screen(&before, &after, MetricId(0), None, width);
        assert!(!text.contains('\x1b') && text.contains("evil"), "{text}");
        let wide = text.lines().filter(|line| line.chars().count() > width);
        assert_eq!(wide.collect::<Vec<_>>(), [""; 0]);
    }
}
