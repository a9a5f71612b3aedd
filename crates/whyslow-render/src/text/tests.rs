//! Tests of the text views.

use proptest::prelude::*;
use whyslow_analyze::testing::{self, SAMPLE_NS};
use whyslow_analyze::{
    By, Callers, Charges, FunctionTable, HotLines, Lines, Outline, OwnTable, Parallelism, Quality, Ratios,
    Selection, SortBy, SpanTable, Threads, TreeOptions,
};
use whyslow_answers::{Detail, Query, Ranking, views};
use whyslow_profile::{
    KernelView, MetricId, Module, ModuleId, ModuleKind, Origin, Profile, Sampler, Span, ThreadId, Trigger,
};
use whyslow_words::Severity;

use super::*;

/// The text without its styles.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('\x1b') {
        out.push_str(&rest[..start]);
        rest = rest[start..].split_once('m').map_or("", |(_, after)| after);
    }
    out + rest
}

fn program() -> Profile {
    let start = "_start;__libc_start_main;std::rt::lang_start;app::main@src/main.rs:9;app::run@src/main.rs:4";
    let mut profile = testing::profile(&format!(
        "{start};app::parse::Parser::next_token@src/parse.rs:3;+core::str::Chars::next@/rustc/abc/library/core/src/str/iter.rs:40 600
         {start};app::parse::Parser::next_token@src/parse.rs:2 300
         {start};app::eval@src/eval.rs:7;dep::hash::Map::get@/home/me/.cargo/registry/src/index/dep-1.2/src/map.rs:77 400
         {start};app::eval@src/eval.rs:8;malloc;[kernel] 80
         {start};[libz.so.1] 20
         worker: clone3;app::work@src/work.rs:1{};app::leaf@src/work.rs:5 600",
        ";app::visit@src/work.rs:3".repeat(500),
    ));
    testing::add_source(
        &mut profile,
        "src/parse.rs",
        "fn next_token(&mut self) -> Token {\n\tlet start = self.at;\n\twhile let Some(c) = self.chars.next() {\n\t}\n}",
    );
    profile.meta.command = ["./app", "--input", "my file.json"].map(str::to_owned).to_vec();
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.kernel = KernelView::Included;
    profile.meta.duration_ns = 1_500 * SAMPLE_NS;
    profile
}

fn folded(profile: &Profile, options: &TreeOptions) -> Outline {
    Outline::folded(profile, &Selection::default().weigh(profile), options)
}

fn one_screen(profile: &Profile, width: usize) -> String {
    one_screen_by(profile, width, Ranking::Own)
}

fn one_screen_by(profile: &Profile, width: usize, ranking: Ranking) -> String {
    let file = Some("app.whyslow".to_owned());
    let query = Query { ranking, file, ..Query::whole(&views::SUMMARY, Detail::Screen, profile) };
    plain(&answer(&query.answer(profile).unwrap(), width, false))
}

/// The summary of a mostly waiting program says so, and has the command that shows where it waits.
#[test]
fn mostly_waiting_program_gets_a_note() {
    let mut waits = program();
    waits.meta.exit = Some(whyslow_profile::ExitStatus::Code(0));
    waits.meta.duration_ns = 10_000_000_000;
    let text = one_screen(&waits, 200);
    let expected = "mostly waits: all threads were blocked for 8.00 s of 10.0 s; to see where: whyslow record --off-cpu -- ./app";
    assert!(text.contains(expected), "{text}");
    waits.meta.duration_ns = 3_000_000_000;
    assert!(!one_screen(&waits, 200).contains("mostly waits"));
}

/// A single thread cannot be more than there are CPUs.
#[test]
fn a_starved_single_thread_is_one_thread() {
    const S: u64 = 1_000_000_000;
    let mut profile = testing::profile("main;app::count 2000");
    profile.meta.exit = Some(whyslow_profile::ExitStatus::Code(0));
    (profile.meta.duration_ns, profile.meta.user_time_ns) = (10 * S, 2 * S);
    let times = whyslow_profile::ThreadTimes {
        ran_ns: 2 * S,
        queued_ns: 8 * S,
        ..whyslow_profile::ThreadTimes::default()
    };
    profile.threads[0].times = Some(times);
    let text = one_screen(&profile, 200);
    let expected = "the main thread ran 2.00 s and queued 8.00 s for a CPU: the machine is busy\n";
    assert!(text.contains(expected), "{text}");
    let second = profile.threads[0].clone();
    profile.threads.push(second);
    let text = one_screen(&profile, 200);
    assert!(text.contains("or the program has more busy threads than CPUs"), "{text}");
}

#[test]
fn a_table_of_queueing_alone_has_no_blocked_thread() {
    let profile = testing::profile("main@app.rs:3;app::count 5");
    let charges = Charges::new(&profile, true);
    let mut table = whyslow_analyze::WaitTable::build(&profile, &Selection::default(), &charges, 0);
    table.rows.iter_mut().for_each(|row| row.reason = whyslow_analyze::Reason::Cpu);
    let text = plain(&waits(&table, &[], &profile, 9, Page::new(&profile, MetricId(0), 200)));
    assert!(text.starts_with("no thread was blocked; threads queued for a CPU 5.00 ms (5 times);"), "{text}");
}

/// A program that sleeps for 10 s gets its waits as its answer; if they were not recorded, the one command that
/// records them, and no table of its few CPU samples.
#[test]
fn answer_of_a_sleeping_program_is_its_waits() {
    let mut profile = testing::profile(
        "_start;app::main@src/main.rs:9;app::start@src/main.rs:4 3
         _start;app::main@src/main.rs:9;std::thread::sleep;sys_hrtimer_nanosleep 1",
    );
    profile.meta.command = vec!["./app".to_owned()];
    profile.meta.exit = Some(whyslow_profile::ExitStatus::Code(0));
    profile.meta.duration_ns = 10_000_000_000;
    profile.meta.user_time_ns = 3 * SAMPLE_NS;
    let text = one_screen(&profile, 120);
    assert!(text.contains("to see where: whyslow record --off-cpu -- ./app"), "{text}");
    assert!(!text.contains("app::start") && !text.contains("-F") && !text.contains("hottest path"), "{text}");

    let mut metric = profile.metrics[0];
    metric.of = whyslow_profile::Subject::Wait;
    profile.metrics.push(metric);
    let mut waits = profile.samples[0].clone();
    let last = waits.value.len() - 1;
    for column in [&mut waits.time_ns, &mut waits.value] {
        column.drain(..last);
    }
    waits.stack.drain(..last);
    waits.thread.drain(..last);
    waits.value[0] = 9_990_000_000;
    profile.samples.push(waits);
    let text = one_screen(&profile, 120);
    assert!(text.contains("sleep") && text.contains("src/main.rs:9") && text.contains("9.99 s"), "{text}");
    assert!(!text.contains("app::start") && !text.contains("-F"), "{text}");
    assert!(text.contains("next:  whyslow report app.whyslow waits"), "{text}");
}

/// The compiler below `make` comes first.
#[test]
fn what_ran_is_said_before_functions() {
    let mut profile = testing::profile("make: app::main 2\ncc1plus: app::parse 498");
    let name = profile.threads[1].name;
    for pid in [7, 8] {
        profile.processes.push(whyslow_profile::Process {
            pid,
            parent: None,
            name,
            start_ns: 0,
            end_ns: None,
        });
    }
    profile.processes[0].name = profile.threads[0].name;
    profile.threads[1].process = whyslow_profile::ProcessId(1);
    let other =
        whyslow_profile::Thread { process: whyslow_profile::ProcessId(2), ..profile.threads[1].clone() };
    profile.threads.push(other);
    let text = one_screen(&profile, 120);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "programs: cc1plus 99.6 % (2 processes), and 1 more", "{text}");
}

/// A serial part of 400 ms, then two threads for 600 ms.
fn parallel() -> Profile {
    let mut profile = testing::profile(
        "main: app::main@app.rs:1;app::parse@app.rs:12 400
         a: app::work@app.rs:20 600
         b: app::work@app.rs:20 600",
    );
    profile.samples[0].time_ns =
        (1..=400).chain(401..=1000).chain(401..=1000).map(|ms| ms * SAMPLE_NS).collect();
    profile.meta.duration_ns = 1000 * SAMPLE_NS;
    profile
}

#[test]
fn reports_the_serial_part_of_a_parallel_program() {
    let text = one_screen(&parallel(), 200);
    let expected = "why: 40.0 % one thread works while all others wait for it at app.rs:12";
    assert!(text.contains(expected) && text.contains("whyslow report app.whyslow parallelism"), "{text}");
    assert!(!one_screen(&program(), 200).contains("one thread"));
}

#[test]
fn busy_threads_over_time() {
    let profile = parallel();
    let built = Parallelism::build(&profile, &Selection::default(), &Charges::new(&profile, true)).unwrap();
    let query = Query::whole(&views::PARALLELISM, Detail::Screen, &profile);
    let found = query.answer(&profile).unwrap().findings;
    insta::assert_snapshot!(plain(&parallelism(&built, &found, &profile, Page::new(&profile, MetricId(0), 80))), @"
    running threads over time, estimated from CPU samples; for exact numbers:
    whyslow record --off-cpu
    finding: one thread works while all others wait for it [poor-parallelism]
       40.0 % of elapsed time (37.6 to 42.4); at most 1.67 times as fast without it;
       confidence: medium
       at app::parse  app.rs:12
         only one thread is busy for 400 ms; at other times up to 2 are
       do: parallelise this part too (par_iter, a pipeline that starts on the first
           results), or make it faster: all other threads wait for it

     threads    share      time  running functions
           1   40.0 %    400 ms   100.0 %  app::parse  app.rs:12
           2   60.0 %    600 ms   100.0 %  app::work   app.rs:20

    ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄████████████████████████████████████████████████
    1.00 s in all, 12.5 ms per character; peak: 2.0 threads
    ");
}

#[test]
fn summary_of_a_good_recording() {
    insta::assert_snapshot!(one_screen(&program(), 100), @r#"
    ./app --input 'my file.json'
    1.50 s wall, 2.00 s CPU (1.33 cores busy), 2 threads
    good: 2,000 samples, 100.0 % of stacks complete, 0 lost

         own  function                        hottest line    mostly in
      45.0 %  app::parse::Parser::next_token  src/parse.rs:3   30.0 % core::str::Chars::next
      30.0 %  app::leaf                       src/work.rs:5    30.0 % itself
      24.0 %  app::eval                       src/eval.rs:7    20.0 % dep::hash::Map::get
       1.0 %  app::run                        src/main.rs:4     1.0 % [libz.so.1]
              own: your function plus the libraries it calls; see --by self

    hottest path: app::main → app::run → app::parse::Parser::next_token 45.0 %
                  ⇢ core::str::Chars::next 30.0 %
    saved: app.whyslow
    next:  whyslow view app.whyslow   whyslow report app.whyslow tree   whyslow flame app.whyslow
           whyslow report app.whyslow lines
    "#);
}

#[test]
fn summary_by_self() {
    let text = one_screen_by(&program(), 100, Ranking::SelfTime);
    let table = text.lines().skip(4).take(7).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(table, @r"
        self   total  kind       function                        where
      30.0 %  30.0 %  yours      app::leaf                       src/work.rs:1
      30.0 %  30.0 %  std        core::str::Chars::next          …/core/src/str/iter.rs:1
      20.0 %  20.0 %  dependency dep::hash::Map::get             …/index/dep-1.2/src/map.rs:1
      15.0 %  45.0 %  yours      app::parse::Parser::next_token  src/parse.rs:1
       4.0 %   4.0 %  kernel     [kernel]
       1.0 %   1.0 %  unknown    [libz.so.1]
    ");
}

#[test]
fn the_hottest_path_keeps_the_users_own_frames() {
    let between = (0..30).map(|at| format!(";dep::executor::Layer{at}::call")).collect::<String>();
    let profile = testing::profile(&format!(
        "app::main{between};app::search{between};app::find{between};std::scan 300"
    ));
    let text = one_screen(&profile, 100);
    assert!(
        text.contains(
            "hottest path: app::main → … → app::search → … → app::find 100.0 % → … → std::scan 100.0 %\n"
        ),
        "{text}"
    );
}

#[test]
fn a_long_path_without_user_code_keeps_its_ends() {
    let between = (0..30).map(|at| format!(";dep::compiler::pass{at}")).collect::<String>();
    let leaves = (0..30).map(|leaf| format!("dep::main{between};dep::leaf{leaf} 10\n")).collect::<String>();
    let text = one_screen(&testing::profile(&leaves), 100);
    assert!(text.contains("hottest path: dep::main → … → ") && text.contains("pass29 100.0 %\n"), "{text}");
    assert!(text.contains("pass25"), "what is nearest to the time stays: {text}");
}

#[test]
fn hot_path_shows_its_share_of_the_last_function() {
    let callers = (0..10).map(|caller| format!("app::main;app::c{caller};app::hot {}\n", 30 + caller));
    let text = one_screen(&testing::profile(&callers.collect::<String>()), 100);
    assert!(text.contains("app::main → app::c9 → app::hot 100.0 % (11.3 % on this path)\n"), "{text}");
}

#[test]
fn without_user_code_time_is_charged_to_the_nearest_code() {
    let profile = testing::profile("_start;dep::run;dep::poll;std::wait 200\n_start;std::exit;sys_exit 100");
    let text = one_screen(&profile, 100);
    let table = text.lines().skip(4).take(3).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(table, @r"
       own  kind       function   mostly in
    66.7 %  dependency dep::poll   66.7 % std::wait
    33.3 %  std        std::exit   33.3 % sys_exit
    ");
}

#[test]
fn summary_with_every_warning_fits_one_screen() {
    let mut profile = program();
    profile.meta.kernel = KernelView::Hidden;
    profile.meta.system_time_ns = profile.meta.user_time_ns / 4;
    profile.meta.counters.lost_samples = 400;
    profile.meta.counters.throttled = 3;
    profile.modules[0].symbols = whyslow_profile::SymbolState::Names;
    profile.modules[0].optimised = whyslow_profile::Optimised::No;
    profile.meta.exit = Some(whyslow_profile::ExitStatus::Signal(15));
    profile.sealed = false;
    let text = one_screen(&profile, 80);
    assert!(text.lines().count() <= 24, "{text}");
    insta::assert_snapshot!(text, @r#"
    ./app --input 'my file.json'
    1.50 s wall, 2.50 s CPU (1.67 cores busy), 2 threads, ended by signal 15
    (SIGTERM)
    poor: 2,000 samples, 100.0 % of stacks complete, 400 lost, recording incomplete
    serious: app (95.0 % of the samples) was built without optimisation
      fix: build with `cargo build --release`; `cargo whyslow` does it for you
    serious: 400 samples were lost (16.7 % of all)
      fix: record at a lower rate: -F 500
    warning: the recording is incomplete: the recorder was killed
      fix: stop whyslow with Ctrl-C, not `kill -9`; what was recorded is right
    +3 more: whyslow report app.whyslow quality

         own  function                        hottest line    mostly in
      45.0 %  app::parse::Parser::next_token  src/parse.rs:3   30.0 % Chars::next
      30.0 %  app::leaf                       src/work.rs:5    30.0 % itself
      24.0 %  app::eval                       src/eval.rs:7    20.0 % Map::get
       1.0 %  app::run                        src/main.rs:4     1.0 % [libz.so.1]
              own: your function plus the libraries it calls; see --by self

    hottest path: app::main → app::run → app::parse::Parser::next_token 45.0 %
                  ⇢ core::str::Chars::next 30.0 %
    saved: app.whyslow
    next:  whyslow view app.whyslow   whyslow report app.whyslow tree
           whyslow flame app.whyslow   whyslow report app.whyslow lines
    "#);
}

/// Waits, events and findings can fill the screen; the reason of a grade stands beside it nevertheless.
#[test]
fn a_grade_below_good_has_its_reason_however_little_room_there_is() {
    let mut profile = program();
    profile.meta.kernel = KernelView::Hidden;
    profile.meta.system_time_ns = profile.meta.user_time_ns;
    let event = |name: &'static str| {
        whyslow_profile::Metric::event(name, whyslow_profile::Unit::Count, whyslow_profile::Origin::Counted)
    };
    for name in ["page-faults", "major-faults", "minor-faults", "migrations"] {
        let samples = profile.samples[0].clone();
        profile.set_metric(event(name), samples);
    }
    profile.meta.command = vec!["a very long command ".repeat(9)];
    profile.meta.notes.push(whyslow_profile::RecordingNote::WakersNotRecorded.into());
    let text = one_screen(&profile, 60);
    let lines: Vec<&str> = text.lines().collect();
    let grade = lines.iter().position(|line| line.starts_with("fair: ")).unwrap();
    assert!(lines[grade + 1].starts_with("warning: wakers were not recorded"), "{text}");
    assert!(text.contains("warning: kernel time is not in the profile: 50.0 %"), "{text}");
}

#[test]
fn summary_of_cpu_time_and_heap() {
    let mut profile = program();
    testing::add_heap(
        &mut profile,
        "app::main@m.rs:3;dep::load@d.rs:7;malloc : allocations=1200 bytes_allocated=5000000 peak_bytes=2000000",
    );
    let text = one_screen(&profile, 100);
    let heap = "heap: 1,200 allocations, 4.77 MiB in all, 1.91 MiB at the peak, 100.0 % by dep::load (d.rs:7) for\n\
                app::main (m.rs:3)\ngood";
    assert!(text.contains(heap), "{text}");
    assert!(text.ends_with("   whyslow report app.whyslow heap\n"), "{text}");
}

#[test]
fn heap_values_name_their_metric() {
    let mut profile = program();
    testing::add_heap(&mut profile, "app::main;app::load : peak_bytes=2048\napp::main : peak_bytes=2048");
    let metric = Selection::metric_named(&profile, "live-at-peak").unwrap();
    let selection = Selection { metric, ..Selection::default() };
    let page = Page::new(&profile, metric, 100);
    let table = FunctionTable::build(&profile, &selection, true, SortBy::Total);
    insta::assert_snapshot!(plain(&functions(&profile, &table, 8, page)), @r"
    4.00 KiB of live-at-peak; self: allocated by the function itself, without its callees

        self   total      self  kind       function   where
      50.0 % 100.0 %  2.00 KiB  yours      app::main  src/main.rs:1
      50.0 %  50.0 %  2.00 KiB  yours      app::load
    ");
    let built = Callers::build(&profile, &selection, "app::load", true).unwrap();
    let text = plain(&callers(&profile, &built, 0.01, page));
    assert!(text.contains("total 50.0 % (2.00 KiB)\n"), "{text}");
    let built = Quality::of(&profile);
    assert!(plain(&quality(&built, 80)).contains("allocations         0\n"));
}

#[test]
fn summary_of_nothing() {
    insta::assert_snapshot!(one_screen(&Profile::default(), 80), @r#"
    0 ns wall, 0 ns CPU, 0 threads
    poor: 0 samples, 0 lost, recording incomplete
    serious: the recording has no samples
      fix: the program used almost no CPU time: record a longer run, or raise the
           rate with -F 10000
    warning: the recording is incomplete: the recorder was killed
      fix: stop whyslow with Ctrl-C, not `kill -9`; what was recorded is right

    saved: app.whyslow
    next:  whyslow view app.whyslow   whyslow report app.whyslow tree
           whyslow flame app.whyslow
    "#);
}

/// Renders every view as text.
fn every_view(profile: &Profile, width: usize) -> Vec<String> {
    let everything = Selection::default();
    let page = Page::new(profile, MetricId(0), width);
    let weights = everything.weigh(profile);
    let charges = Charges::new(profile, true);
    let own = OwnTable::build(profile, &weights, &charges);
    let table = FunctionTable::build(profile, &everything, true, SortBy::Total);
    let outline = Outline::build(profile, &everything, &TreeOptions::default());
    let built = Quality::of(profile);
    let mut texts = vec![
        one_screen(profile, width),
        one_screen_by(profile, width, Ranking::SelfTime),
        functions(profile, &table, 9, page),
        own_functions(profile, &own, 9, page),
        tree(profile, &outline, TreeView::default(), page),
        spans(&SpanTable::build(profile, &everything), 9, page),
        quality(&built, page.width),
        verdict_lines(&built, page),
    ];
    for by in [By::Own, By::SelfValue] {
        texts.push(hot_lines(profile, &HotLines::build(profile, &weights, &charges, by), 9, page));
    }
    if let Some(row) = table.rows.first() {
        let name = whyslow_analyze::CallTree::name(profile, row.label);
        texts.extend(
            Callers::build(profile, &everything, &name, true)
                .map(|built| callers(profile, &built, 0.0, page)),
        );
        texts.extend(Lines::build(profile, &everything, &name).map(|built| lines(profile, &built, page)));
    }
    texts.into_iter().map(|text| plain(&text)).collect()
}

/// Unusual names.
fn names() -> impl Strategy<Value = String> {
    let pieces = vec![
        "a",
        "名前のとても長い",
        "::",
        "<",
        ">",
        "(",
        ")",
        "std::vector<int, std::allocator<int> >",
        "operator<<",
        "{closure#0}",
        " as ",
        "github.com/a/b.(*T).F",
        "e\u{301}",
        "❤\u{fe0f}",
        "\u{1b}[31m",
        "a_rather_long_identifier",
        "/",
        ".",
    ];
    prop::collection::vec(prop::sample::select(pieces), 1..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_view_is_wider_than_its_page(names in prop::collection::vec(names(), 4), width in 60usize..140) {
        let mut profile = program();
        let ids = names.iter().map(|name| profile.strings.push(name)).collect::<Vec<_>>();
        for (index, function) in profile.functions.iter_mut().enumerate() {
            function.name = ids[index % ids.len()];
            function.file = Some(ids[(index + 1) % ids.len()]);
        }
        profile.modules[0].path = ids[2];
        profile.modules[0].symbols = whyslow_profile::SymbolState::Names;
        profile.meta.command = vec![names[3].clone()];
        let span = Span { name: ids[0], thread: None, start_ns: 0, end_ns: SAMPLE_NS, detail: None };
        profile.spans.push(span);
        for text in every_view(&profile, width) {
            for line in text.lines() {
                prop_assert!(crate::names::columns(line) <= width, "{} of {width}: {line}\n{text}", crate::names::columns(line));
            }
        }
    }
}

#[test]
fn whole_names_are_shown_on_request() {
    let name = format!("app::{}", "very_long_".repeat(30));
    let profile = testing::profile(&format!("{name} 5"));
    let page = Page::new(&profile, MetricId(0), 80).with_full_names(true);
    let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::Total);
    assert!(plain(&functions(&profile, &table, 9, page)).contains(&name));
}

#[test]
fn intro_counts_agree_with_nouns_and_empty_tables_have_no_error() {
    let shown = |folded: &str| {
        let profile = testing::profile(folded);
        let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::Total);
        plain(&functions(&profile, &table, 1, Page::new(&profile, MetricId(0), 80)))
    };
    assert!(shown("").starts_with("0 ns in 0 samples\n"), "{}", shown(""));
    assert!(shown("main;f 1").starts_with("1.00 ms in 1 sample; sampling error"), "{}", shown("main;f 1"));
    assert!(shown("main;f 1").ends_with("and 1 more function\n"), "{}", shown("main;f 1"));
}

#[test]
fn the_verdict_names_the_two_worst_problems() {
    let mut profile = program();
    let page = Page::new(&profile, MetricId(0), 80);
    let shown = |profile: &Profile| plain(&verdict_lines(&Quality::of(profile), page));
    assert_eq!(shown(&profile), "good: 2,000 samples, 100.0 % of stacks complete, 0 lost\n");
    profile.meta.counters.lost_samples = 400;
    profile.meta.counters.throttled = 3;
    insta::assert_snapshot!(shown(&profile), @r"
    poor: 2,000 samples, 100.0 % of stacks complete, 400 lost
    serious: 400 samples were lost (16.7 % of all)
    warning: the kernel throttled sampling 3 times: some samples are missing
    ");
    let line = plain(&verdict(&Quality::of(&profile)));
    assert!(line.contains("400 lost; serious: 400 samples were lost"), "{line}");
}

#[test]
fn table_of_own_functions_and_lines() {
    let profile = program();
    let weights = Selection::default().weigh(&profile);
    let charges = Charges::new(&profile, true);
    let table = OwnTable::build(&profile, &weights, &charges);
    let page = Page::new(&profile, MetricId(0), 110);
    insta::assert_snapshot!(plain(&own_functions(&profile, &table, 3, page)), @r"
    2.00 s in 2,000 samples; sampling error of a 50 % share: ±2.2 points
    own: your function plus the libraries it calls; see --by self, --by total

         own    self       own  function                        hottest line    mostly in
      45.0 %  15.0 %    900 ms  app::parse::Parser::next_token  src/parse.rs:3   30.0 % core::str::Chars::next
      30.0 %  30.0 %    600 ms  app::leaf                       src/work.rs:5    30.0 % itself
      24.0 %   0.0 %    480 ms  app::eval                       src/eval.rs:7    20.0 % dep::hash::Map::get
    and 1 more function
    ");
    let built = HotLines::build(&profile, &weights, &charges, By::Own);
    let text = plain(&hot_lines(&profile, &built, 3, page));
    assert!(text.contains("  30.0 %   0.0 %  src/parse.rs:3  "), "{text}");
    assert!(text.contains("while let Some(c) = self.chars.next() {\n"), "{text}");
    assert!(text.ends_with("more lines\n"), "{text}");
}

#[test]
fn cpu_counters_are_columns_in_the_function_table() {
    let mut profile = testing::profile("main;fast 100\nmain;slow 100\nmain;rare 2");
    let sampled = Origin::Sampled(Sampler { trigger: Trigger::Event, rate_hz: 997 });
    let by = |fast, slow| move |name: &str| if name == "fast" { fast } else { slow };
    testing::add_event(&mut profile, "cycles", sampled, by(1000, 2000));
    testing::add_event(&mut profile, "instructions", sampled, by(3000, 1000));
    testing::add_event(&mut profile, "cache-misses", sampled, by(0, 40));
    let everything = Selection::default();
    let mut own = OwnTable::build(&profile, &everything.weigh(&profile), &Charges::new(&profile, true));
    own.ratios = Ratios::own(&profile, &everything, true);
    insta::assert_snapshot!(plain(&own_functions(&profile, &own, 9, Page::new(&profile, MetricId(0), 120))), @r"
    202 ms in 202 samples; sampling error of a 50 % share: ±6.9 points
    own: your function plus the libraries it calls; see --by self, --by total
    IPC: instructions per cycle, 1.32 overall; cache/k: cache-misses per thousand instructions, 10.1 overall; ?: too few
    samples

         own    self       own    IPC  cache/k  function  mostly in
      49.5 %  49.5 %    100 ms   3.00        0  fast       49.5 % itself
      49.5 %  49.5 %    100 ms   0.50     40.0  slow       49.5 % itself
       1.0 %   1.0 %   2.00 ms      ?        ?  rare        1.0 % itself
    ");
    let mut table = FunctionTable::build(&profile, &everything, true, SortBy::Total);
    table.ratios = Ratios::functions(&profile, &everything, true, SortBy::Total);
    let text = plain(&functions(&profile, &table, 9, Page::new(&profile, MetricId(0), 100)));
    let main = text.lines().find(|line| line.ends_with("main")).unwrap_or_else(|| panic!("{text}"));
    assert!(main.contains("   1.32     10.1  "), "{text}");
}

#[test]
fn page_faults_show_bytes_and_events_show_their_name() {
    let mut profile = testing::profile("main;fill 10");
    testing::add_event(&mut profile, "page-faults:u", Origin::Counted, |_| 256);
    testing::add_event(&mut profile, "sched:sched_switch", Origin::Counted, |_| 1);
    let whole = |row| Page::new(&profile, MetricId(row), 100).whole(&profile, 2560);
    assert_eq!(whole(1), "2,560 page-faults:u, 10.0 MiB of new memory with 4 KiB pages");
    assert_eq!(whole(2), "2,560 sched:sched_switch");
    assert_eq!(whole(0), "2.56 µs", "CPU time is as before");
}

#[test]
fn table_of_functions() {
    let profile = program();
    let table = FunctionTable::build(&profile, &Selection::default(), true, SortBy::Total);
    let text = plain(&functions(&profile, &table, 8, Page::new(&profile, MetricId(0), 110)));
    insta::assert_snapshot!(text, @r#"
    2.00 s in 2,000 samples; sampling error of a 50 % share: ±2.2 points

        self   total      self  kind       function                        where
       0.0 %  70.0 %      0 ns  runtime    __libc_start_main
       0.0 %  70.0 %      0 ns  runtime    _start
       0.0 %  70.0 %      0 ns  yours      app::main                       src/main.rs:1
       0.0 %  70.0 %      0 ns  yours      app::run                        src/main.rs:1
       0.0 %  70.0 %      0 ns  runtime    std::rt::lang_start
      15.0 %  45.0 %    300 ms  yours      app::parse::Parser::next_token  src/parse.rs:1
      30.0 %  30.0 %    600 ms  yours      app::leaf                       src/work.rs:1
      30.0 %  30.0 %    600 ms  std        core::str::Chars::next          …/core/src/str/iter.rs:1
    and 8 more functions
    "#);
}

#[test]
fn top_down_tree() {
    let profile = program();
    let outline = folded(&profile, &TreeOptions::default());
    let text = plain(&tree(&profile, &outline, TreeView::default(), Page::new(&profile, MetricId(0), 80)));
    insta::assert_snapshot!(text, @r#"
    2.00 s; callees below each function; branches of 1.0 % or more

       total    self
      70.0 %   0.0 %  [start-up: 3 frames] → app::main → app::run
      45.0 %  15.0 %  ├─ app::parse::Parser::next_token
      30.0 %  30.0 %  │  └┄ core::str::Chars::next
      24.0 %   0.0 %  ├─ app::eval
      20.0 %  20.0 %  │  ├─ dep::hash::Map::get
       4.0 %   4.0 %  │  └─ malloc → [kernel]
       1.0 %   1.0 %  └─ [libz.so.1]
      30.0 %  30.0 %  clone3 → app::work → app::visit (×500) → app::leaf

    dashed lines and arrows: inlined by the compiler
    [… frames]: start-up and runtime frames; --unfolded shows them
    "#);
}

#[test]
fn executor_frames_are_folded_unless_unfolded() {
    let start =
        "clone3;start_thread;std::thread::lifecycle::spawn;__rust_try;rayon_core::registry::main_loop";
    let halves = ["rayon_core::join::join;rayon::iter::left", "rayon_core::job::execute;rayon::iter::right"];
    let stacks = (0..32).map(|path| {
        let ways = (0..5).map(|bit| halves[path >> bit & 1]).collect::<Vec<_>>().join(";");
        format!("rayon-{}: {start};{ways};app::render;app::pixel 10", path % 2)
    });
    let profile = testing::profile(&stacks.collect::<Vec<_>>().join("\n"));
    let text = |outline: &Outline| {
        plain(&tree(&profile, outline, TreeView::default(), Page::new(&profile, MetricId(0), 80)))
    };
    insta::assert_snapshot!(text(&folded(&profile, &TreeOptions::default())), @r#"
    320 ms; callees below each function; branches of 1.0 % or more

       total    self
     100.0 % 100.0 %  [thread start, rayon: 15 frames] → app::render → app::pixel

    [… frames]: start-up and runtime frames; --unfolded shows them
    "#);
    let whole = text(&Outline::build(&profile, &Selection::default(), &TreeOptions::default()));
    assert!(whole.lines().count() > 15 && !whole.contains("frames]"), "{whole}");
    let built = Threads::build(&profile, &Selection::default());
    insta::assert_snapshot!(plain(&threads(&profile, &built, 1, Page::new(&profile, MetricId(0), 80))), @r#"
      share    used  samples  threads  thread name
    100.0 %  320 ms      320        2  rayon-*

     share    used  samples  thread   tid  pid  start  end
    50.0 %  160 ms      160  rayon-0  100  100   0 ns    -
    and 1 more thread
    "#);
}

#[test]
fn several_programs_are_summed_up() {
    let mut profile = testing::profile("make: main 4\na: main 30\nb: main 32\nc: main 34");
    for (at, name) in [(1, "cc1"), (2, "cc1"), (3, "as")] {
        let name = profile.strings.push(name);
        let pid = 200 + at as u32;
        profile.processes.push(whyslow_profile::Process {
            pid,
            parent: None,
            name,
            start_ns: 0,
            end_ns: None,
        });
        profile.threads[at].process = whyslow_profile::ProcessId(at as u32);
    }
    let text = one_screen(&profile, 80);
    assert!(text.contains("\nprograms: cc1 62.0 % (2 processes), as 34.0 %, app 4.0 %\n"), "{text}");
    let built = Threads::build(&profile, &Selection::default());
    insta::assert_snapshot!(plain(&threads(&profile, &built, 2, Page::new(&profile, MetricId(0), 80))), @r#"
     share     used  samples  processes  program
    62.0 %  62.0 ms       62          2  cc1
    34.0 %  34.0 ms       34          1  as
    and 1 more program

     share     used  samples  threads  process  pid
    34.0 %  34.0 ms       34        1  as       203
    32.0 %  32.0 ms       32        1  cc1      202
    and 2 more processes

     share     used  samples  thread  tid  pid  start  end
    34.0 %  34.0 ms       34  c       103  203   0 ns    -
    32.0 %  32.0 ms       32  b       102  202   0 ns    -
    and 2 more threads
    "#);
    assert!(!one_screen(&program(), 80).contains("programs:"));
}

#[test]
fn inverted_tree() {
    let profile = program();
    let options = TreeOptions { inverted: true, ..TreeOptions::default() };
    let outline = folded(&profile, &options);
    let view = TreeView { inverted: true, min_share: 0.05 };
    let text = plain(&tree(&profile, &outline, view, Page::new(&profile, MetricId(0), 120)));
    insta::assert_snapshot!(text, @r#"
    2.00 s; callers below each function; branches of 5.0 % or more

       total
      30.0 %  core::str::Chars::next ⇠ app::parse::Parser::next_token ← app::run ← app::main ← [start-up: 3 frames]
      30.0 %  app::leaf ← app::visit (×500) ← app::work ← clone3
      20.0 %  dep::hash::Map::get ← app::eval ← app::run ← app::main ← [start-up: 3 frames]
      15.0 %  app::parse::Parser::next_token ← app::run ← app::main ← [start-up: 3 frames]

    dashed lines and arrows: inlined by the compiler
    [… frames]: start-up and runtime frames; --unfolded shows them
    "#);
}

#[test]
fn callers_and_callees() {
    let profile = program();
    let built = Callers::folded(&profile, &Selection::default(), "next_token", true).unwrap();
    insta::assert_snapshot!(plain(&callers(&profile, &built, 0.01, Page::new(&profile, MetricId(0), 100))), @r#"
    app::parse::Parser::next_token
    self 15.0 % (300 ms), total 45.0 % (900 ms), 900 samples

    called by (shares of app::parse::Parser::next_token)
       total
     100.0 %  └─ app::run ← app::main ← [start-up: 3 frames]

    calls (shares of app::parse::Parser::next_token)
       total    self
      66.7 %  66.7 %  └┄ core::str::Chars::next

    dashed lines and arrows: inlined by the compiler
    [… frames]: start-up and runtime frames; --unfolded shows them
    "#);
}

#[test]
fn lines_with_source() {
    let profile = program();
    let built = Lines::build(&profile, &Selection::default(), "next_token").unwrap();
    insta::assert_snapshot!(plain(&lines(&profile, &built, Page::new(&profile, MetricId(0), 80))), @r#"
    app::parse::Parser::next_token
    self 15.0 %, total 45.0 % (900 ms); shares below are of the function's total

        self   total   line  src/parse.rs
                          1  fn next_token(&mut self) -> Token {
      33.3 %  33.3 %      2      let start = self.at;
              66.7 %      3▶     while let Some(c) = self.chars.next() {
                          4      }
                          5  }
    "#);
}

#[test]
fn lines_without_source_or_debug_info() {
    let profile = program();
    let page = Page::new(&profile, MetricId(0), 80);
    let built = Lines::build(&profile, &Selection::default(), "app::eval").unwrap();
    insta::assert_snapshot!(plain(&lines(&profile, &built, page)), @r#"
    app::eval
    self 0.0 %, total 24.0 % (480 ms); shares below are of the function's total

        self   total   line  src/eval.rs
              83.3 %      7▶ (source text not in the profile)
              16.7 %      8  (source text not in the profile)
    "#);
    let built = Lines::build(&profile, &Selection::default(), "malloc").unwrap();
    assert!(plain(&lines(&profile, &built, page)).contains("debug = \"line-tables-only\""));
}

#[test]
fn table_of_threads() {
    let mut profile = program();
    profile.threads[1].end_ns = Some(1_200 * SAMPLE_NS);
    let built = Threads::build(&profile, &Selection::default());
    insta::assert_snapshot!(plain(&threads(&profile, &built, 10, Page::new(&profile, MetricId(0), 100))), @r#"
     share    used  samples  thread  tid  pid  start     end
    70.0 %  1.40 s    1,400  main    100  100   0 ns       -
    30.0 %  600 ms      600  worker  101  100   0 ns  1.20 s
    "#);
    assert!(
        plain(&threads(&profile, &built, 1, Page::new(&profile, MetricId(0), 100)))
            .ends_with("and 1 more thread\n")
    );
}

/// The largest numbers, and names as long as Linux keeps them and longer.
#[test]
fn tables_of_threads_fit_the_page() {
    let mut profile = program();
    let long = profile.strings.push("tokio-runtime-worker-of-the-third-pool");
    for (at, thread) in profile.threads.iter_mut().enumerate() {
        (thread.tid, thread.name) = (4_194_300 + at as u32, long);
        (thread.start_ns, thread.end_ns) = (123_456_789_000, Some(234_567_890_000));
    }
    profile.processes[0].pid = 4_194_300;
    let built = Threads::build(&profile, &Selection::default());
    for width in [60, 80, 96, 200] {
        let text = plain(&threads(&profile, &built, 10, Page::new(&profile, MetricId(0), width)));
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width, "{widest} columns on a page of {width}:\n{text}");
        assert!(text.contains("4194301"), "{text}");
        assert_eq!(text.contains("start"), width >= 80, "{text}");
    }
    let narrow = plain(&threads(&profile, &built, 10, Page::new(&profile, MetricId(0), 80)));
    assert!(narrow.contains("tokio-runtim…"), "{narrow}");
    let whole = Page::new(&profile, MetricId(0), 80).with_full_names(true);
    assert!(plain(&threads(&profile, &built, 10, whole)).contains("tokio-runtime-worker-of-the-third-pool"));
}

#[test]
fn quality_of_waits_reports_waits_only() {
    let mut profile = program();
    let waits = std::mem::take(&mut profile.samples[0]);
    let metric = profile.set_metric(whyslow_profile::Metric::off_cpu_time(), waits);
    profile.meta.counters.lost_samples = 4;
    let sampled = whyslow_profile::RecordingNote::WaitsSampled { stacks: 2000, waits: 2000 };
    profile.meta.notes.push(sampled.into());
    let of_waits = Quality::of_metric(&profile, metric);
    insta::assert_snapshot!(plain(&quality(&of_waits, 80)), @"
    good: 2,000 waits, 2,000 with complete stacks (100.0 % of the time), stacks sampled, 4 lost

    waits               2,000
    stacks              from the kernel, sampled because there were too many waits
    complete stacks     2,000, 100.0 % of the waiting time
    without a stack     0.0 % of the waiting time
    lost                4 records, 0 other records
    recording           complete

    note: 4 samples were lost (0.2 % of all)
      fix: record at a lower rate: -F 500
    note: 2,000 of 2,000 waits have a stack: above 10,000 waits a second whyslow
          takes only some stacks, to keep the overhead low; all waits are counted
          and timed
    ");
    let json = serde_json::to_value(crate::json::QualityBody::new(&of_waits)).unwrap();
    assert_eq!((&json["waits"]["waits"], &json["waits"]["in_turns"]), (&2000.into(), &true.into()));
    let of_cpu_time = serde_json::to_value(crate::json::QualityBody::new(&Quality::of(&profile))).unwrap();
    assert_eq!(of_cpu_time.get("waits"), None);
}

#[test]
fn quality_in_full() {
    let mut profile = program();
    profile.meta.kernel = KernelView::Hidden;
    profile.meta.system_time_ns = profile.meta.user_time_ns / 4;
    profile.meta.counters.lost_samples = 4;
    profile.meta.notes.push(whyslow_profile::Note::Text("a note from the recorder".to_owned()));
    insta::assert_snapshot!(plain(&quality(&Quality::of(&profile), 80)), @r#"
    fair: 2,000 samples, 100.0 % of stacks complete, 4 lost

    samples             2,000
    expected            2,000 at 1000 per second of CPU time: 100.0 % recorded
    source              cpu-clock: kernel timer
    kernel              hidden: 20.0 % of the CPU time is not in the profile
    stacks complete     100.0 %
    unresolved          5.0 % of the samples end in code without symbols
    no frame resolved   0.0 %
    lost                4 samples, 0 other records
    throttled           0 times
    recording           complete

    warning: kernel time is not in the profile: 20.0 % of the CPU time is missing
      fix: `sudo sysctl kernel.perf_event_paranoid=1`, then record again
    note: 4 samples were lost (0.2 % of all)
      fix: record at a lower rate: -F 500
    note: a note from the recorder
    "#);
}

#[test]
fn heads_of_views_give_every_reason_of_the_grade() {
    let mut profile = program();
    profile.sealed = false;
    profile.meta.kernel = KernelView::Hidden;
    profile.meta.system_time_ns = profile.meta.user_time_ns / 4;
    profile.meta.counters.lost_samples = 900;
    profile.meta.notes.push(whyslow_profile::Note::Text("a note from the recorder".to_owned()));
    let quality = Quality::of(&profile);
    let problems = quality.remarks().into_iter().filter(|remark| remark.severity > Severity::Note);
    let problems = problems.map(|remark| remark.text).collect::<Vec<_>>();
    assert!(problems.len() > 2, "{problems:?}");
    let line = verdict(&quality);
    assert!(problems.iter().all(|problem| line.contains(problem)), "{line}");
    assert!(line.ends_with(" (+1 note: `report FILE quality`)"), "{line}");
}

#[test]
fn compiled_code_in_memory_shows_where_it_is_instead_of_a_line() {
    let mut profile = testing::profile("main@m.rs:3;JS:*fib 600\nmain@m.rs:3 300");
    let path = profile.strings.push("[jit:7]");
    profile.modules.push(Module { path, kind: ModuleKind::Jit, ..profile.modules[0].clone() });
    let jit = ModuleId::from(profile.modules.len() - 1);
    let is_fib = |profile: &Profile, at: usize| profile.text(profile.functions[at].name) == "JS:*fib";
    let fib = (0..profile.functions.len()).find(|&at| is_fib(&profile, at)).unwrap();
    profile.functions[fib].module = Some(jit);
    profile.functions[fib].file = None;
    let text = one_screen(&profile, 100);
    let row = text.lines().find(|line| line.contains("JS:*fib") && line.contains('%')).unwrap();
    assert!(row.contains("[jit]"), "{text}");
}

#[test]
fn hostile_names_are_escaped() {
    let mut profile = testing::profile("main;evil@f.rs:1 300\nworker: main;evil@f.rs:1 10");
    let hostile = profile.strings.push("ev\x1b[2Jil\r\n\u{202e}::x");
    for function in &mut profile.functions {
        function.name = hostile;
        function.file = Some(hostile);
    }
    profile.threads.iter_mut().for_each(|thread| thread.name = hostile);
    profile.processes.iter_mut().for_each(|process| process.name = hostile);
    profile.modules[0].path = hostile;
    profile.modules[0].symbols = whyslow_profile::SymbolState::Names;
    profile.meta.command = vec!["\x1b]0;title\x07".to_owned()];
    profile.meta.notes = vec![whyslow_profile::Note::Text("\x1b[31m".to_owned())];
    profile.meta.imported_from = Some("\x1b[31m".to_owned());
    let everything = Selection::default();
    let page = Page::new(&profile, MetricId(0), 80);
    let outline = Outline::build(&profile, &everything, &TreeOptions::default());
    let name = "ev\x1b[2Jil\r\n\u{202e}::x";
    let texts = [
        one_screen(&profile, 80),
        plain(&functions(
            &profile,
            &FunctionTable::build(&profile, &everything, true, SortBy::Total),
            9,
            page,
        )),
        plain(&tree(&profile, &outline, TreeView::default(), page)),
        plain(&callers(&profile, &Callers::build(&profile, &everything, name, true).unwrap(), 0.0, page)),
        plain(&lines(&profile, &Lines::build(&profile, &everything, name).unwrap(), page)),
        plain(&threads(&profile, &Threads::build(&profile, &everything), 9, page)),
        plain(&quality(&Quality::of(&profile), 80)),
    ];
    for text in texts {
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{text:?}");
    }
}

#[test]
fn a_very_deep_tree_is_drawn_on_a_small_stack() {
    let deep = format!("main{};leaf 2", ";f;g;h;i;j".repeat(2_000));
    let profile = testing::profile(&deep);
    let work = move || {
        let outline = Outline::build(&profile, &Selection::default(), &TreeOptions::default());
        tree(&profile, &outline, TreeView::default(), Page::new(&profile, MetricId(0), 80))
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(work).unwrap().join().unwrap();
}

#[test]
fn table_of_spans() {
    let mut profile = program();
    let spans =
        [("load", 0, 0, 500), ("load", 0, 700, 900), ("par\x1b[31mse\n", 0, 100, 101), ("tick", 1, 3, 3)];
    for (name, thread, start, end) in spans {
        let name = profile.strings.push(name);
        let (start_ns, end_ns) = (start * SAMPLE_NS, end * SAMPLE_NS);
        profile.spans.push(Span { name, thread: Some(ThreadId(thread)), start_ns, end_ns, detail: None });
    }
    let shown = |limit| {
        let table = SpanTable::build(&profile, &Selection::default());
        plain(&super::spans(&table, limit, Page::new(&profile, MetricId(0), 100)))
    };
    insta::assert_snapshot!(shown(9), @r"
     share      used     count     total      mean       p50       p95       max  span
    35.0 %    700 ms         2    700 ms    350 ms    200 ms    500 ms    500 ms  load
     0.1 %   1.00 ms         1   1.00 ms   1.00 ms   1.00 ms   1.00 ms   1.00 ms  par\u{1b}[31mse\u{a}
     0.0 %      0 ns         1      0 ns      0 ns      0 ns      0 ns      0 ns  tick
    ");
    assert!(shown(1).ends_with("and 2 more names\n"));
    let none = SpanTable::build(&program(), &Selection::default());
    assert!(super::spans(&none, 9, Page::new(&profile, MetricId(0), 100)).starts_with("no spans"));
}
