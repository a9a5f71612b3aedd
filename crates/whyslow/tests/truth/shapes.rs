//! Every shape of code: inlined, without frame pointers, with only frame pointers, signal frames, stubs,
//! plug-ins, run-time code; and every shape of debug info.

use whyslow_lab_harness::Variant;

use crate::recorded::{Recorded, last_segment, record, record_program};

fn chain_share(recorded: &Recorded, chain: &[&str]) -> f64 {
    recorded.share(|names| {
        let names: Vec<_> = names.iter().map(|name| last_segment(name)).collect();
        names.windows(chain.len()).any(|window| window == chain)
    })
}

/// Inlined frames are present and in order, however the debug info is stored.
#[test]
fn inlined_frames_are_in_order_in_every_kind_of_debug_info() {
    for variant in [
        Variant::Release,
        Variant::LineTablesOnly,
        Variant::Dwarf4,
        Variant::Dwarf5,
        Variant::SplitPacked,
        Variant::SplitUnpacked,
        Variant::DebugLink,
        Variant::CompressedDebugInfo,
        Variant::V0Names,
        Variant::PanicAbort,
        Variant::FramePointers,
        Variant::StaticPie,
    ] {
        let Some(recorded) = record("inlined", variant, &["250"]) else { continue };
        recorded.assert_complete(variant.name());
        // black_box and iterators may be the innermost frames.
        let plain = chain_share(&recorded, &["d", "c", "b", "a", "plain", "main"]);
        assert!((plain - 0.6).abs() < 0.15, "{}: d < c < b < a < plain has {plain}", variant.name());
        let generic = chain_share(&recorded, &["turn", "middle", "outer", "generic", "main"]);
        assert!((generic - 0.4).abs() < 0.15, "{}: turn < … < generic has {generic}", variant.name());
    }
}

/// Functions keep their names and stacks remain complete, with less and less debug info.
#[test]
fn programs_without_debug_info_keep_their_stacks() {
    for variant in [Variant::NoDebugInfo, Variant::Stripped, Variant::Debug, Variant::Static] {
        let Some(recorded) = record("ratio", variant, &["1", "250"]) else { continue };
        recorded.assert_complete(variant.name());
        if variant != Variant::Stripped {
            assert!(recorded.total_share("alpha") > 0.35, "{}", variant.name());
        }
    }
}

#[test]
fn c_without_unwind_information_is_walked_by_its_frame_pointers() {
    for variant in [Variant::FramePointers, Variant::DebugFrame, Variant::Static, Variant::Stripped] {
        let Some(recorded) = record("chain", variant, &["400"]) else { continue };
        recorded.assert_complete(variant.name());
        if variant != Variant::Stripped {
            let share = chain_share(&recorded, &["third", "second", "first", "main"]);
            assert!((share - 0.5).abs() < 0.12, "{}: third < second < first has {share}", variant.name());
        }
    }
}

#[test]
fn signal_handlers_are_walked_through_to_the_interrupted_code() {
    for mode in ["timer", "raise"] {
        let Some(recorded) = record("signals", Variant::Release, &["300", mode]) else { return };
        recorded.assert_complete(mode);
        let through = recorded.share(|names| {
            let names: Vec<_> = names.iter().map(|name| last_segment(name)).collect();
            names.contains(&"handler_work") && names.contains(&"main")
        });
        let handled = recorded.total_share("handler_work");
        assert!(handled > 0.2 && through >= handled * 0.99, "{mode}: {through} of {handled}");
    }
}

/// The C library of static programs has no tables for the code that a handler returns to.
#[test]
fn signal_handlers_of_a_static_program_are_walked_through() {
    let Some(recorded) = record("signals", Variant::Musl, &["300", "timer"]) else { return };
    recorded.assert_complete("musl");
    let through = recorded.share(|names| {
        let names: Vec<_> = names.iter().map(|name| last_segment(name)).collect();
        names.contains(&"handler_work") && names.contains(&"interrupted") && names.contains(&"main")
    });
    let handled = recorded.total_share("handler_work");
    assert!(handled > 0.2 && through >= handled * 0.9, "{through} of {handled}");
}

#[test]
fn a_coroutine_is_complete_down_to_the_start_of_its_stack() {
    let Some(recorded) = record("coroutine", Variant::Release, &["500"]) else { return };
    recorded.assert_complete("coroutine");
    let share = |function| recorded.self_share(function);
    assert!((share("on_own") - 0.75).abs() < 0.08, "on_own has {}", share("on_own"));
    let chain = chain_share(&recorded, &["on_own", "body"]);
    assert!(chain >= share("on_own") * 0.98, "body calls on_own in {chain}");
    for stack in recorded.stacks() {
        let names = recorded.names(stack);
        if names.contains(&"on_own") {
            assert!(!names.contains(&"main"), "{names:?}");
        }
    }
    assert_eq!(recorded.profile.meta.counters.no_unwind_info, 0);
}

#[test]
fn slow_handlers_show_the_interrupted_code_on_the_other_stack() {
    let Some(recorded) = record("signals", Variant::Release, &["400", "altstack-long"]) else { return };
    let is = |names: &[&str], function| names.iter().any(|name| last_segment(name) == function);
    let handled = recorded.total_share("handler_work");
    let through =
        recorded.share(|names| is(names, "handler_work") && is(names, "interrupted") && is(names, "main"));
    assert!(handled > 0.2 && through >= handled * 0.5, "{through} of {handled}");
    for stack in recorded.stacks().filter(|stack| !recorded.profile.is_truncated(*stack)) {
        let names = recorded.names(stack);
        assert!(!is(&names, "handler_work") || is(&names, "main"), "{names:?}");
    }
    let counters = &recorded.profile.meta.counters;
    assert_eq!(counters.no_unwind_info, 0, "{counters:?}");
}

#[test]
fn go_programs_have_complete_stacks_stripped_or_not() {
    const SOURCE: &str = "package main\n\
        var sum int\n\
        //go:noinline\n\
        func work(n int) { for i := 0; i < n; i++ { sum = sum*31 + i } }\n\
        func run(done chan bool) { for i := 0; i < 10; i++ { work(30000000) }; done <- true }\n\
        func main() { done := make(chan bool); go run(done); <-done }\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("app.go"), SOURCE).unwrap();
    for flags in ["", "-s -w"] {
        let mut build = std::process::Command::new("go");
        build.args(["build", "-o", "app", "-ldflags", flags, "app.go"]).current_dir(folder.path());
        let Ok(status) = build.status() else {
            whyslow_lab_harness::skip("go is not installed");
            return;
        };
        assert!(status.success(), "{build:?}");
        let recorded = record_program(&folder.path().join("app"), &[]);
        recorded.assert_complete("Go");
        // Without tables, only the frame pointer is left, and a leaf function has none of its own.
        let callers: &[&str] = if flags.is_empty() { &["main.work", "main.run"] } else { &["main.work"] };
        let chain =
            recorded.share(|names| names.starts_with(callers) && names.last() == Some(&"runtime.goexit"));
        assert!(chain > 0.9, "{flags:?}: main.work < … < runtime.goexit has {chain}");
    }
}

/// The interrupted stack is not in the copied bytes. Unless the live one is proved to be the same, it is left
/// out.
#[test]
fn handlers_on_their_own_stack_are_truncated_rather_than_guessed() {
    let Some(recorded) = record("signals", Variant::Release, &["300", "altstack"]) else { return };
    for stack in recorded.stacks() {
        let names = recorded.names(stack);
        if names.iter().any(|name| last_segment(name) == "handler_work")
            && !recorded.profile.is_truncated(stack)
        {
            assert!(names.iter().any(|name| last_segment(name) == "main"), "{names:?}");
        }
    }
    assert!(recorded.total_share("on_signal") > 0.2);
}

#[test]
fn linker_stubs_are_crossed_and_named() {
    let Some(recorded) = record("plt", Variant::Release, &["500"]) else { return };
    recorded.assert_complete("plt");
    assert!(recorded.total_share("hot_loop") > 0.97);
    let stub = recorded.self_share("tiny_step@plt");
    assert!(stub > 0.02, "the stub tiny_step@plt has {stub}");
}

#[test]
fn plugins_loaded_later_are_resolved() {
    let Some(recorded) = record("dlopen_host", Variant::Release, &["500"]) else { return };
    recorded.assert_complete("dlopen_host");
    let share = chain_share(&recorded, &["plugin_work", "plugin_entry", "rounds"]);
    assert!((share - 0.8).abs() < 0.08, "plugin_work has {share}");
}

#[test]
fn run_time_code_has_names_and_callers() {
    for mode in ["perfmap", "jitdump"] {
        let Some(recorded) = record("jit", Variant::Release, &["500", mode]) else { return };
        recorded.assert_complete(mode);
        let share = chain_share(&recorded, &["jit_hot", "rounds", "main"]);
        assert!((share - 0.75).abs() < 0.08, "{mode}: jit_hot < rounds < main has {share}");
        if let Some(pid) = recorded.truth.counts.get("pid") {
            // The program leaves this file behind, as real ones do.
            let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
        }
    }
}

#[test]
fn kernel_time_is_recorded_or_reported_as_missing() {
    use whyslow_profile::{CodeKind, KernelView};
    let Some(recorded) = record("syscalls", Variant::Release, &["500", "read"]) else { return };
    let profile = &recorded.profile;
    if profile.meta.kernel == KernelView::Included {
        let in_kernel = recorded.stacks().filter(|stack| {
            let location = profile.stacks.location(*stack);
            let frames = profile.frames.of(location);
            frames
                .first()
                .is_some_and(|frame| profile.functions[frame.function.index()].kind == CodeKind::Kernel)
        });
        let share = in_kernel.count() as f64 / recorded.samples() as f64;
        assert!(share > 0.6, "the kernel has {share}");
        assert!(recorded.total_share("read_much") > 0.9, "and its callers are known");
    } else {
        assert!(profile.meta.system_time_ns > profile.meta.user_time_ns, "{:?}", profile.meta);
    }
}
