use proptest::prelude::*;

use super::*;

const FILE: &str = "\
# known
{
   the cache
   Memcheck:Leak
   match-leak-kinds: definite,possible
   fun:malloc
   fun:cache_*
   ...
   fun:main
}
{
   not ours
   Helgrind:Race
   fun:anything
   strange line
}
{
   by object
   Memcheck,Addrcheck:Leak
   obj:*/libfoo.so*
}
{
   by line
   Memcheck:Leak
   fun:_Znwm
   src:pool.cc:12
}
leak:^tls_
race:whatever
leak:*/third_party/*.c
";

fn frame<'a>(function: &'a str, object: &'a str, file: &'a str, line: u32) -> Frame<'a> {
    Frame { raw_function: function, function, object, file, line, is_inlined: false }
}

fn functions<'a>(names: &[&'a str]) -> Vec<Frame<'a>> {
    names.iter().map(|name| frame(name, "/usr/bin/app", "", 0)).collect()
}

fn name(class: Class, stack: &[Frame<'_>]) -> Option<String> {
    Suppressions::parse(FILE, "x.supp").unwrap().find(class, stack).map(|found| found.name.clone())
}

fn error(text: &str) -> String {
    Suppressions::parse(text, "x.supp").unwrap_err().to_string()
}

#[test]
fn frames_match_from_the_allocator_outwards() {
    let stack = functions(&["cache_add", "load", "run", "main", "_start"]);
    assert_eq!(name(Class::DefinitelyLost, &stack).as_deref(), Some("the cache"));
    assert_eq!(name(Class::DefinitelyLost, &functions(&["x", "cache_add", "main"])), None);
    assert_eq!(name(Class::DefinitelyLost, &functions(&["cache_add", "main"])).as_deref(), Some("the cache"));
}

#[test]
fn a_suppression_applies_only_to_its_kinds() {
    let stack = functions(&["cache_add", "main"]);
    assert_eq!(name(Class::PossiblyLost, &stack).as_deref(), Some("the cache"));
    assert_eq!(name(Class::IndirectlyLost, &stack), None);
    assert_eq!(name(Class::Reachable, &stack), None);
}

#[test]
fn an_allocator_on_the_stack_matches_too() {
    let stack = functions(&["malloc", "cache_add", "main"]);
    assert_eq!(name(Class::DefinitelyLost, &stack).as_deref(), Some("the cache"));
}

#[test]
fn operator_new_is_the_allocator_although_it_calls_malloc() {
    let list = |first: &str| {
        Suppressions::parse(&format!("{{\n x\n Memcheck:Leak\n fun:{first}\n fun:make\n}}\n"), "x").unwrap()
    };
    let suppresses =
        |first: &str, stack: &[&str]| list(first).find(Class::DefinitelyLost, &functions(stack)).is_some();
    // libstdc++'s array form jumps into the plain one.
    assert!(suppresses("_Znwm", &["_Znwm", "make"]) && suppresses("_Znam", &["_Znwm", "make"]));
    assert!(suppresses("_ZnwmRKSt9nothrow_t", &["_Znwm", "_ZnwmRKSt9nothrow_t", "make"]));
    assert!(suppresses("_Znam", &["_Znwm", "_Znam", "make"]));
    assert!(suppresses("malloc", &["make"]) && suppresses("_Znwm", &["make"]), "it left no frame");
    // Valgrind would not confuse them.
    assert!(!suppresses("malloc", &["_Znwm", "make"]) && !suppresses("_Znwm", &["malloc", "make"]));
    assert!(!suppresses("_Znwm", &["_Znwm", "_Znam", "make"]));
    assert!(!suppresses("_ZnwmSt11align_val_t", &["_Znwm", "make"]));
}

/// Suppressions that Valgrind 3.19 generated for a C and a C++ program, each with the stack that is recorded
/// here for the same leak.
#[test]
fn suppressions_that_valgrind_generates_take_effect() {
    const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";
    const LIBSTDCXX: &str = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30";
    const APP: &str = "/app/leaks";
    let at = |object, raw_function| Frame { raw_function, object, ..Frame::default() };
    let inlined = |function| Frame { function, object: APP, is_inlined: true, ..Frame::default() };
    let (main, new) = (at(APP, "main"), at(LIBSTDCXX, "_Znwm"));
    let cases: [(&str, Vec<Frame<'_>>); 9] = [
        ("malloc strdup by_strdup main", vec![at(LIBC, "__GI___strdup"), at(APP, "by_strdup"), main]),
        ("calloc by_calloc main", vec![at(APP, "by_calloc"), main]),
        ("memalign posix_memalign by_memalign main", vec![at(APP, "by_memalign"), main]),
        (
            "realloc _IO_mem_finish fclose@@GLIBC_2.2.5 by_stream main",
            vec![at(LIBC, "_IO_mem_finish"), at(LIBC, "_IO_new_fclose"), at(APP, "by_stream"), main],
        ),
        (
            "malloc by_malloc thread_main start_thread clone",
            vec![
                at(APP, "by_malloc"),
                at(APP, "thread_main"),
                at(LIBC, "start_thread"),
                at(LIBC, "__clone3"),
            ],
        ),
        ("_Znam _Z12by_new_arrayv main", vec![new, at(APP, "_Z12by_new_arrayv"), main]),
        (
            "_Znwm make_unique<Node> _Z9by_uniquev main",
            vec![
                new,
                inlined("std::__detail::_MakeUniq<Node>::__single_object std::make_unique<Node, >(&&)"),
                at(APP, "_Z9by_uniquev"),
                main,
            ],
        ),
        ("_Znwm _ZN4PoolC1Ev main", vec![new, at(APP, "_ZN4PoolC2Ev"), main]),
        (
            "malloc msort_with_tmp.part.0 qsort_r main",
            vec![at(LIBC, "msort_with_tmp"), at(LIBC, "__qsort_r"), main],
        ),
    ];
    for (generated, stack) in &cases {
        let functions: String = generated.split(' ').map(|name| format!("   fun:{name}\n")).collect();
        let head = "   <insert_a_suppression_name_here>\n   Memcheck:Leak\n   match-leak-kinds: definite\n";
        let list = Suppressions::parse(&format!("{{\n{head}{functions}}}\n"), "generated.supp").unwrap();
        assert!(list.find(Class::DefinitelyLost, stack).is_some(), "{generated}");
        assert!(list.find(Class::Reachable, stack).is_none(), "{generated}");
        for (other, stack) in cases.iter().filter(|(other, _)| other != generated) {
            assert!(list.find(Class::DefinitelyLost, stack).is_none(), "{generated} is not {other}");
        }
    }
}

#[test]
fn a_frame_without_a_name_matches_by_its_object() {
    let text = "{\n x\n Memcheck:Leak\n fun:malloc\n obj:/app/bin\n obj:*/libz.so*\n}\n";
    let list = Suppressions::parse(text, "x").unwrap();
    let at = |object| Frame { object, ..Frame::default() };
    assert!(list.find(Class::DefinitelyLost, &[at("/app/bin"), at("/lib/libz.so.1")]).is_some());
    assert!(list.find(Class::DefinitelyLost, &[at("/app/bin"), at("/lib/libx.so.1")]).is_none());
}

#[test]
fn skips_suppressions_for_other_tools() {
    assert_eq!(name(Class::DefinitelyLost, &functions(&["anything", "main"])), None);
}

#[test]
fn an_object_matches_by_its_path() {
    let stack = [frame("f", "/usr/lib/libfoo.so.1", "", 0)];
    assert_eq!(name(Class::Reachable, &stack).as_deref(), Some("by object"));
}

#[test]
fn a_source_line_matches_by_file_name_and_line() {
    let at = |line| [frame("grow", "/app", "/src/pool.cc", line)];
    assert_eq!(name(Class::DefinitelyLost, &at(12)).as_deref(), Some("by line"));
    assert_eq!(name(Class::DefinitelyLost, &at(13)), None);
}

#[test]
fn a_sanitizer_pattern_matches_a_part_of_any_name() {
    assert_eq!(name(Class::DefinitelyLost, &functions(&["a", "tls_get", "main"])).as_deref(), Some("^tls_"));
    assert_eq!(name(Class::DefinitelyLost, &functions(&["a", "my_tls_get", "main"])), None);
    let stack = [frame("f", "/app", "/src/third_party/z/inflate.c", 3)];
    assert_eq!(name(Class::DefinitelyLost, &stack).as_deref(), Some("*/third_party/*.c"));
}

#[test]
fn demangled_names_match_as_well_as_raw_ones() {
    let list =
        Suppressions::parse("{\n x\n Memcheck:Leak\n fun:pool::Pool::*\n}\nleak:_ZN4pool", "x").unwrap();
    let stack =
        [Frame { raw_function: "_ZN4pool4Pool3newE", function: "pool::Pool::new", ..Frame::default() }];
    assert_eq!(list.find(Class::DefinitelyLost, &stack).map(|found| found.name.as_str()), Some("x"));
    let stack = [Frame { raw_function: "_ZN4pool4other", function: "pool::other", ..Frame::default() }];
    assert_eq!(list.find(Class::DefinitelyLost, &stack).map(|found| found.name.as_str()), Some("_ZN4pool"));
}

#[test]
fn errors_name_file_and_line() {
    assert_eq!(error("\n{\n a\n Memcheck:Leak\n fun:x\n"), "x.supp:2: this suppression has no `}`");
    assert_eq!(error("hello"), "x.supp:1: expected `{` or `leak:pattern`, found `hello`");
    assert_eq!(error("leak:"), "x.supp:1: `leak:` without a pattern");
    assert_eq!(
        error("{\n a\n Memcheck:Leak\n call:x\n}"),
        "x.supp:4: expected `fun:`, `obj:`, `src:`, `...` or `match-leak-kinds:`, found `call:x`"
    );
    assert_eq!(
        error("{\n a\n Memcheck:Leak\n match-leak-kinds: certain\n fun:x\n}"),
        "x.supp:4: unknown kind of leak `certain`; expected definite, indirect, possible, reachable, all or none"
    );
    assert_eq!(
        error("{\n a\n Memcheck:Leak\n ...\n}"),
        "x.supp:1: the suppression `a` names no function, object or file"
    );
    assert_eq!(
        error("{\n a\n}"),
        "x.supp:1: a suppression needs a name, then a line such as `Memcheck:Leak`"
    );
    assert_eq!(error("{\n a\n {\n"), "x.supp:3: `{` inside the suppression that starts in line 1");
}

/// Matches patterns in the simplest way.
fn slow_frames(patterns: &[FramePattern], stack: &[Step<'_>]) -> bool {
    match (patterns, stack) {
        ([], _) => true,
        ([FramePattern::AnyNumber, rest @ ..], _) => {
            (0..=stack.len()).any(|at| slow_frames(rest, &stack[at..]))
        }
        (_, []) => false,
        ([pattern, rest @ ..], [frame, outer @ ..]) => pattern.matches(frame) && slow_frames(rest, outer),
    }
}

fn slow_glob(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|at| slow_glob(rest, &text[at..])),
        (_, []) => false,
        ([b'?', rest @ ..], [_, more @ ..]) => slow_glob(rest, more),
        ([byte, rest @ ..], [other, more @ ..]) => byte == other && slow_glob(rest, more),
    }
}

proptest! {
    #[test]
    fn globs_match_like_the_simple_matcher(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
        prop_assert_eq!(
            glob(pattern.as_bytes(), text.as_bytes(), true),
            slow_glob(pattern.as_bytes(), text.as_bytes())
        );
    }

    #[test]
    fn frames_match_like_the_simple_matcher(patterns in "[abc.]{0,7}", stack in "[abc]{0,9}") {
        let patterns: Vec<_> = patterns
            .chars()
            .map(|c| if c == '.' { FramePattern::AnyNumber } else { FramePattern::Function(c.to_string()) })
            .collect();
        let names: Vec<String> = stack.chars().map(|c| c.to_string()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let stack = functions(&names);
        let stack: Vec<_> = stack.iter().map(Step::Frame).collect();
        prop_assert_eq!(match_frames(&patterns, &stack), slow_frames(&patterns, &stack));
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in "[{}\n a:.*#lkfunobjMemcheckLeak]{0,200}") {
        let _ = Suppressions::parse(&text, "x");
    }

    #[test]
    fn a_suppression_generated_for_a_stack_matches_it(names in prop::collection::vec("[a-z_]{1,8}", 1..8)) {
        let text = names.iter().map(|name| format!("   fun:{name}\n")).collect::<String>();
        let list = Suppressions::parse(&format!("{{\n   made\n   Memcheck:Leak\n   fun:malloc\n{text}}}\n"), "x").unwrap();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        prop_assert!(list.find(Class::DefinitelyLost, &functions(&names)).is_some());
    }
}
