//! Tests of the heap report as text.

use whyslow_analyze::{Selection, testing};
use whyslow_profile::{
    GrowthBar, HeapProcess, HeapSnapshot, HeapTransfer, HistogramBar, HistogramOf, LeakCheck, MetricId,
    NoLeakCheck, ProfileNs, ThreadId,
};

use super::*;
use crate::text::tests::plain;

const MS: u64 = 1_000_000;

fn program() -> Profile {
    let start = "_start;__libc_start_main;std::rt::lang_start;app::main@src/main.rs:9";
    let mut profile = testing::heap_profile(&format!(
        "{start};app::cache::Cache::insert@src/cache.rs:40;alloc::raw_vec::finish_grow@/rustc/1/library/alloc/src/raw_vec.rs:7 : \
             allocations=18 bytes_allocated=2097136 frees=17 bytes_freed=1048560 peak_bytes=1048576 peak_blocks=1 \
             max_bytes=1048576 max_blocks=1 live_at_exit_blocks=1 live_at_exit_bytes=1048576 grown=17 growth_chains=1 \
             bytes_copied=1048560 largest_grown=1048576 bytes_grown_to=1048576 reachable_blocks=1 \
             reachable_bytes=1048576 growth=unbounded made_ms=30 freed_ms=60
         {start};app::parse::token@src/parse.rs:12;alloc::string::String::push@/rustc/1/s.rs:3;alloc::raw_vec::finish_grow : \
             allocations=500000 bytes_allocated=4000000 frees=500000 bytes_freed=4000000 peak_bytes=8 peak_blocks=1 \
             temporary=499990 grown=200000 growth_chains=100000 bytes_copied=800000 largest_grown=64 \
             bytes_grown_to=3200000 made_ms=20 freed_ms=21
         {start};app::load@src/load.rs:7;+dep::buffer::Buffer::new@/home/me/.cargo/registry/src/index/dep-1.2/src/buffer.rs:77;malloc : \
             allocations=4 bytes_allocated=262144 frees=1 bytes_freed=65536 peak_bytes=196608 peak_blocks=3 \
             live_at_exit_blocks=3 live_at_exit_bytes=196608 definitely_lost_blocks=3 definitely_lost_bytes=196608 \
             unused_bytes=200000 examined_bytes=262144 made_ms=1 freed_ms=5
         worker: clone3;app::work@src/work.rs:2 : allocations=40 bytes_allocated=4000 frees=38 bytes_freed=3800 \
             live_at_exit_blocks=2 live_at_exit_bytes=200 possibly_lost_blocks=1 possibly_lost_bytes=120 \
             indirectly_lost_blocks=1 indirectly_lost_bytes=80 made_ms=50 freed_ms=80
         {start};std::io::stdout : allocations=1 bytes_allocated=1024 peak_bytes=1024 peak_blocks=1 \
             live_at_exit_blocks=1 live_at_exit_bytes=1024 reachable_blocks=1 reachable_bytes=1024 made_ms=2
         {start};app::small@src/main.rs:3 : allocations=1 bytes_allocated=10 frees=1 bytes_freed=10 made_ms=1 freed_ms=2
         {start};app::small@src/main.rs:4 : allocations=1 bytes_allocated=10 frees=1 bytes_freed=10 made_ms=1 freed_ms=2",
    ));
    profile.meta.command = ["./app", "my file.json"].map(str::to_owned).to_vec();
    profile.meta.max_resident_bytes = 5 << 20;
    let facts = profile.meta.heap.as_mut().unwrap();
    facts.peak_ns = ProfileNs(61 * MS);
    facts.growth = "unbounded".to_owned();
    let bar = |of, bar, blocks| HistogramBar { site: 1, of, bar, blocks };
    profile.heap.histograms = vec![
        bar(HistogramOf::Size, 0, 2),
        bar(HistogramOf::Size, 4, 500_000),
        bar(HistogramOf::Size, 6, 60),
        bar(HistogramOf::Lifetime, 9, 400_000),
        bar(HistogramOf::Lifetime, 10, 100_000),
    ];
    profile.heap.growth = vec![
        GrowthBar {
            site: 0,
            bar: 21,
            grown: 17,
            bytes_copied: 1048560,
            reached: 1,
            reached_bytes: 1 << 20,
            largest: 1 << 20,
        },
        GrowthBar {
            site: 1,
            bar: 6,
            grown: 150_000,
            bytes_copied: 600_000,
            reached: 95_000,
            reached_bytes: 3_040_000,
            largest: 40,
        },
        GrowthBar {
            site: 1,
            bar: 7,
            grown: 50_000,
            bytes_copied: 200_000,
            reached: 5000,
            reached_bytes: 320_000,
            largest: 64,
        },
    ];
    profile.heap.transfers = vec![
        HeapTransfer { from: ThreadId(0), to: ThreadId(1), blocks: 17, bytes: 1700 },
        HeapTransfer { from: ThreadId(1), to: ThreadId(0), blocks: 3, bytes: 2000 },
    ];
    profile
}

fn screen(profile: &Profile, width: usize, change: impl FnOnce(&mut HeapView<'_>)) -> String {
    let (sites, quality) = (Sites::build(profile), Quality::of(profile));
    let mut view = HeapView {
        profile,
        sites: &sites,
        quality: &quality,
        limit: None,
        histograms: false,
        saved: Some("app.whyslow"),
    };
    change(&mut view);
    plain(&heap(&view, Page::new(profile, MetricId(0), width)))
}

#[test]
fn one_screen_of_everything() {
    let text = screen(&program(), 100, |_| {});
    assert!(text.lines().count() <= 60, "{text}");
    insta::assert_snapshot!(text, @r#"
    ./app 'my file.json'
    100 ms wall, 500,065 allocations (5,000,650 per second), 500,058 frees, 6.07 MiB in all
    peak 1.19 MiB at 61.0 ms (max resident 5.00 MiB), live at exit 1.19 MiB in 7 blocks
    good: every allocation counted, 100.0 % of stacks complete, 0 lost

    live at peak: 1.19 MiB in 6 blocks (2 of 4 lines)
        1.00 MiB   84.1 %  1 block   app::cache::Cache::insert  src/cache.rs:40
                           called by app::main (main.rs:9)
         192 KiB   15.8 %  3 blocks  dep::buffer::Buffer::new   …/dep-1.2/src/buffer.rs:77
                           for app::load (src/load.rs:7)

    allocated in all: 6.07 MiB (3 of 7 lines)
        3.81 MiB   62.9 %  500,000 blocks  app::parse::token          src/parse.rs:12
                           called by app::main (main.rs:9)
        2.00 MiB   33.0 %       18 blocks  app::cache::Cache::insert  src/cache.rs:40
         256 KiB    4.1 %        4 blocks  dep::buffer::Buffer::new   …/src/buffer.rs:77
                           for app::load (src/load.rs:7)

    most allocations: 500,065 blocks (1 of 7 lines)
         500,000  >99.9 %  3.81 MiB  app::parse::token  src/parse.rs:12

    temporary: 499,990 allocations (>99.9 %) were freed before their thread allocated again
         499,990  100.0 %  of 500,000 blocks  app::parse::token  src/parse.rs:12

    growing blocks: 100,001 blocks grew 200,017 times, 1.76 MiB copied
      a Vec in app::cache::Cache::insert (src/cache.rs:40) grew 17 times to 1.00 MiB, 1.00 MiB copied:
      `with_capacity` for 1.00 MiB would save all of these reallocations, with nothing unused in a
      typical block
      100,000 Strings in app::parse::token (src/parse.rs:12) grew 200,000 times in all, up to 64 B,
      781 KiB copied: `with_capacity` for 40 B would save 150,000 reallocations and copying 586 KiB, but
      leave 8 B unused in a typical block

    leaks: 192 KiB definitely lost in 3 blocks, 80 B indirectly lost in 1 block, 120 B possibly lost in
           1 block, 1.00 MiB still reachable in 2 blocks
         192 KiB  100.0 %  3 definitely  dep::buffer::Buffer::new  …/src/buffer.rs:77
                           for app::load (src/load.rs:7)
            80 B  100.0 %  1 indirectly  app::work                 src/work.rs:2
           120 B  100.0 %    1 possibly  app::work                 src/work.rs:2

    unused: 195 KiB of 256 KiB examined (76.3 %) were never written to
         195 KiB  100.0 %  of 256 KiB  dep::buffer::Buffer::new  …/dep-1.2/src/buffer.rs:77
                           for app::load (src/load.rs:7)

    live bytes over time: keep growing
      ▁▁▁▁▁▁▁▁▁▁▁▁▁▁██▁▁▁▁▁▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃
      0                                                                 100 ms
      never shrinking: app::cache::Cache::insert (src/cache.rs:40) to 1.00 MiB

    saved: app.whyslow
    next:  whyslow report app.whyslow leaks   whyslow view app.whyslow
           whyslow flame app.whyslow --metric live-at-peak
           whyslow report app.whyslow heap --histograms
    "#);
}

#[test]
fn a_site_with_most_bytes_shows_its_call_path_and_callers() {
    let start = "_start;app::main@src/main.rs:3;dep::build@d.rs:1;dep::new@d.rs:2";
    let profile = testing::heap_profile(&format!(
        "{start};dep::core@d.rs:7;alloc::sync::new;malloc : allocations=2 bytes_allocated=400 peak_bytes=400 peak_blocks=2
         {start};dep::pool@d.rs:8;malloc : allocations=3 bytes_allocated=300 peak_bytes=300 peak_blocks=3
         _start;app::main@src/main.rs:4;dep::read@r.rs:2 : allocations=1 bytes_allocated=100 peak_bytes=100 peak_blocks=1"
    ));
    let text = screen(&profile, 100, |_| {});
    let (from, to) = (text.find("live at peak").unwrap(), text.find("most allocations").unwrap());
    insta::assert_snapshot!(&text[from..to], @r#"
    live at peak: 800 B in 6 blocks
      87.5 % for app::main (src/main.rs:3) → dep::build → dep::new → dep::core 50.0 %
           400 B   50.0 %  2 blocks  dep::core  d.rs:7
           300 B   37.5 %  3 blocks  dep::pool  d.rs:8
           100 B   12.5 %  1 block   dep::read  r.rs:2
                           for app::main (src/main.rs:4)

    allocated in all: 800 B
      87.5 % for app::main (src/main.rs:3)
           400 B   50.0 %  2 blocks  dep::core  d.rs:7
           300 B   37.5 %  3 blocks  dep::pool  d.rs:8
           100 B   12.5 %  1 block   dep::read  r.rs:2
                           for app::main (src/main.rs:4)
    "#);
}

#[test]
fn skipped_wrappers_are_named() {
    let line = |name: &str, bytes: u64| {
        format!(
            "main@m.c:1;{name}@{name}.c:7;room@r.c:2;malloc : allocations=2 bytes_allocated={bytes} peak_bytes={bytes} peak_blocks=2\n"
        )
    };
    let callers =
        [("a", 900), ("b", 40), ("c", 30), ("d", 20), ("e", 10)].map(|(name, bytes)| line(name, bytes));
    let text = screen(&testing::heap_profile(&callers.concat()), 100, |view| view.limit = Some(1));
    let (from, to) = (text.find("nearly").unwrap(), text.find("allocated in all").unwrap());
    insta::assert_snapshot!(&text[from..to], @r#"
    nearly all allocations go through room: its callers are shown instead

    live at peak: 1000 B in 10 blocks (1 of 5 lines)
           900 B   90.0 %  2 blocks  a  a.c:7
                           called by main (m.c:1)
    "#);
}

#[test]
fn a_program_that_frees_everything_has_little_to_say() {
    let mut profile = testing::heap_profile(
        "app::main@src/main.rs:3 : allocations=2 bytes_allocated=2048 frees=2 bytes_freed=2048 peak_bytes=1024 \
         peak_blocks=1 made_ms=1 freed_ms=40",
    );
    profile.meta.heap.as_mut().unwrap().growth = "flat".to_owned();
    insta::assert_snapshot!(screen(&profile, 100, |view| view.saved = None), @r#"
    ./app
    100 ms wall, 2 allocations (20 per second), 2 frees, 2.00 KiB in all
    peak 1.00 KiB at 0 ns, live at exit nothing
    good: every allocation counted, 100.0 % of stacks complete, 0 lost

    live at peak: 1.00 KiB in 1 block
        1.00 KiB  100.0 %  1 block   app::main  src/main.rs:3

    allocated in all: 2.00 KiB
        2.00 KiB  100.0 %  2 blocks  app::main  src/main.rs:3

    most allocations: 2 blocks
               2  100.0 %  2.00 KiB  app::main  src/main.rs:3

    leaks: none

    live bytes over time: flat
      █████████████████████████████
      0                                                                 100 ms
    "#);
}

#[test]
fn histograms_threads_and_cross_thread_frees() {
    let text = screen(&program(), 100, |view| {
        view.histograms = true;
        view.limit = Some(1);
    });
    let from = text.find("sizes of blocks").unwrap();
    insta::assert_snapshot!(&text[from..], @r#"
    sizes of blocks:
                         0 B             2   <0.1 %  █
                   1 B – 2 B             0    0.0 %
                   2 B – 4 B             0    0.0 %
                   4 B – 8 B             0    0.0 %
                  8 B – 16 B       500,000  >99.9 %  ████████████████████████████████████████
                 16 B – 32 B             0    0.0 %
                 32 B – 64 B            60   <0.1 %  █

    lifetimes of freed blocks:
             256 ns – 512 ns       400,000   80.0 %  ████████████████████████████████████████
            512 ns – 1.02 µs       100,000   20.0 %  ██████████

    threads      allocated        blocks     at peak     freed by others    freed for others
    main (100)    6.07 MiB       500,025    1.19 MiB                  17                   3
    and 1 more thread

    freed by another thread:
      main (100) frees memory of worker (101): 1.95 KiB in 3 blocks
    and 1 more pair

    allocators: malloc

    saved: app.whyslow
    next:  whyslow report app.whyslow leaks   whyslow view app.whyslow
           whyslow flame app.whyslow --metric live-at-peak
           whyslow report app.whyslow heap --histograms
    "#);
}

#[test]
fn lost_events_and_a_missing_leak_check_are_reported() {
    let mut profile = program();
    let facts = profile.meta.heap.as_mut().unwrap();
    facts.lost_events = 12;
    facts.unknown_frees = 3;
    facts.leaks = LeakCheck::Impossible(NoLeakCheck::EndedBySignal { signal: 9 });
    let text = screen(&profile, 100, |_| {});
    assert!(
        text.contains("poor: every allocation counted, 100.0 % of stacks complete, 12 lost\nserious: 12 "),
        "{text}"
    );
    assert_eq!(text.matches("not checked").count(), 1);
    let leaks = "leaks: not checked: signal 9 ended the program\n  fix: `whyslow heap --snapshot PID` checks";
    assert!(text.contains(leaks), "{text}");
    assert_eq!(text.matches("12 allocations and frees were lost").count(), 1, "{text}");
}

#[test]
fn heap_quality_is_separate_from_cpu_time_quality() {
    let mut profile = testing::profile("main;a 3");
    testing::add_heap(&mut profile, "main@m.rs:1 : allocations=5 bytes_allocated=8");
    let text = screen(&profile, 100, |_| {});
    assert!(text.contains("good: every allocation counted") && !text.contains("samples"), "{text}");
}

#[test]
fn a_program_still_running_has_no_live_at_exit() {
    let mut profile = program();
    profile.meta.exit = None;
    let text = screen(&profile, 100, |_| {});
    assert!(text.contains(", live at the end ") && !text.contains("live at exit"), "{text}");
}

#[test]
fn counts_agree_with_nouns() {
    let profile = testing::heap_profile(
        "main@m.rs:1 : allocations=1 bytes_allocated=8 frees=1 bytes_freed=8 temporary=1",
    );
    let text = screen(&profile, 100, |_| {});
    assert!(text.contains("1 allocation (10 per second), 1 free, 8 B in all"), "{text}");
    assert!(text.contains("1 allocation (100.0 %) was freed before its thread allocated again"), "{text}");
}

#[test]
fn more_rows_are_shown_on_demand() {
    let text = screen(&program(), 100, |view| view.limit = Some(2));
    assert!(text.contains("allocated in all: 6.07 MiB (2 of 7 lines)"), "{text}");
    let few = screen(&program(), 100, |_| {});
    assert!(few.contains("most allocations: 500,065 blocks (1 of 7 lines)"), "{few}");
    let all = screen(&program(), 100, |view| view.limit = Some(usize::MAX));
    assert!(!all.contains(" lines"), "{all}");
}

#[test]
fn no_line_is_wider_than_the_page() {
    for width in [80, 100, 140] {
        let text = screen(&program(), width, |view| view.histograms = width >= 100);
        let widest = text.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!(widest.chars().count() <= width, "{width}: {widest}");
    }
}

#[test]
fn hostile_names_are_escaped() {
    let mut profile = program();
    let hostile = profile.strings.push("ev\x1b[2Jil\r\n\u{202e}::x");
    for function in &mut profile.functions {
        function.name = hostile;
    }
    profile.threads.iter_mut().for_each(|thread| thread.name = hostile);
    profile.meta.command = vec!["\x1b]0;title\x07".to_owned()];
    let facts = profile.meta.heap.as_mut().unwrap();
    facts.leaks = LeakCheck::Impossible(NoLeakCheck::Text { text: "\x1b[31m".to_owned() });
    facts.allocators = vec!["\x1b[31m".to_owned()];
    facts.growth = "\x1b[31m".to_owned();
    let text = screen(&profile, 100, |view| view.histograms = true);
    assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
}

#[test]
fn the_largest_bars_are_drawn() {
    let mut profile = program();
    let bar = |of, bar| HistogramBar { site: 0, of, bar, blocks: u64::MAX };
    profile.heap.histograms = vec![bar(HistogramOf::Size, 64), bar(HistogramOf::Lifetime, 255)];
    screen(&profile, 100, |view| view.histograms = true);
}

#[test]
fn a_snapshot_shows_what_is_live_now() {
    let mut profile = program();
    let facts = profile.meta.heap.as_mut().unwrap();
    facts.snapshot = Some(HeapSnapshot { pid: 4711, time_ns: ProfileNs(90 * MS) });
    facts.leaks = LeakCheck::AtSnapshot(ProfileNs(90 * MS));
    let text = screen(&profile, 100, |_| {});
    assert!(text.contains("\nsnapshot of process 4711 at 90.0 ms\n"), "{text}");
    assert!(text.contains(", live now 1.19 MiB in 7 blocks\n"), "{text}");
    assert!(text.contains("\nlive now: 1.19 MiB in 7 blocks"), "{text}");
    assert!(text.contains("--metric live-at-exit"), "{text}");
    profile.meta.heap.as_mut().unwrap().processes = 3;
    let text = screen(&profile, 100, |_| {});
    assert!(
        text.contains(
            "\nlive and lost memory is of this process; all other numbers are of 3 processes together\n"
        ),
        "{text}"
    );
}

#[test]
fn a_part_shows_only_per_thread_counts() {
    let profile = testing::heap_profile(
        "sh: app::load@l.rs:7 : allocations=3 bytes_allocated=300 peak_bytes=200
         cc: app::work@w.rs:9 : allocations=2 bytes_allocated=5000 peak_bytes=4096 live_at_exit_bytes=8",
    );
    let selection = Selection { threads: vec!["cc".parse().unwrap()], ..Selection::default() };
    let (sites, quality) = (Sites::of_selection(&profile, &selection), Quality::of(&profile));
    let view = HeapView {
        profile: &profile,
        sites: &sites,
        quality: &quality,
        limit: None,
        histograms: false,
        saved: None,
    };
    let process = HeapProcess {
        pid: 7,
        name: "cc".to_owned(),
        peak_bytes: 4100,
        live_at_exit_bytes: 8,
        live_at_exit_blocks: 1,
        executed: false,
    };
    let text = plain(&heap_part(&view, &[process], Page::new(&profile, MetricId(0), 80)));
    for line in [
        "cc (7): 2 allocations, 4.88 KiB in all",
        "own peak 4.00 KiB, 8 B live at exit in 1 block",
        "live at the peak of all processes: 4.00 KiB",
        "app::work",
        "leaks, growth, sizes and lifetimes exist only for all processes together",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(!text.contains("app::load"), "{text}");
}
