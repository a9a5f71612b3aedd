//! Counts equal the truth exactly: allocations, bytes, peak, live at exit, temporary allocations.

use whyslow_lab_harness::{Linking, Lto, Variant, build_allocator_or_skip, try_again};

use crate::heap_recorded::{assert_exact, code, record_program, text};

/// One, two and sixteen threads.
const THREADS: [&str; 3] = ["1", "2", "16"];

#[test]
fn every_allocating_function_is_counted_exactly() {
    for threads in THREADS {
        assert_exact("heap_counts", Variant::Release, &[threads, "1000"]);
    }
}

#[test]
fn a_million_allocations_are_counted_exactly() {
    assert_exact("heap_counts", Variant::Release, &["2", "200000"]);
    assert_exact("heap_load", Variant::Release, &["deep", "1", "300000"]);
    assert_exact("heap_load", Variant::Release, &["tree", "2", "300000"]);
}

#[test]
fn blocks_that_another_thread_frees_are_counted_exactly() {
    for threads in ["2", "16"] {
        let Some(heap) = assert_exact("heap_cross", Variant::Release, &[threads, "50"]) else { return };
        assert_eq!(heap.heap("freed_elsewhere"), heap.truth().counts["freed_elsewhere"], "{threads} threads");
        let passed: u64 = heap.profile().heap.transfers.iter().map(|transfer| transfer.blocks).sum();
        assert_eq!(passed, heap.truth().heap["frees"], "{threads} threads: every block changed hands");
    }
}

#[test]
fn floods_of_realloc_are_counted_exactly() {
    for threads in THREADS {
        assert_exact("heap_realloc", Variant::Release, &[threads, "500"]);
    }
}

#[test]
fn counts_are_the_same_however_a_program_is_compiled() {
    for variant in [
        Variant::Debug,
        Variant::NoDebugInfo,
        Variant::FramePointers,
        Variant::DebugFrame,
        Variant::Dwarf4,
        Variant::SplitUnpacked,
    ] {
        assert_exact("heap_counts", variant, &["2", "500"]);
    }
}

/// As browsers and node are linked: the loader maps each segment separately.
#[test]
fn a_program_with_distant_segments_has_symbols_and_complete_stacks() {
    let Some(heap) = assert_exact("heap_counts", Variant::Apart, &["1", "500"]) else { return };
    let profile = heap.profile();
    let cut = profile.heap.sites.iter().filter(|site| {
        profile.locations_of(site.stack).any(|location| location == whyslow_profile::LocationId::TRUNCATED)
    });
    assert_eq!(cut.count(), 0);
}

/// Without symbols, only totals can be compared.
#[test]
fn a_stripped_program_has_the_same_totals() {
    let Some(program) = whyslow_lab_harness::build_or_skip("heap_counts", Variant::Stripped) else { return };
    let mut heap = record_program(&program, &[], &["1", "1000"]);
    heap.recorded.truth.sites.clear();
    heap.assert_equal("heap_counts, stripped");
}

#[test]
fn static_programs_are_counted_exactly() {
    for variant in [Variant::Static, Variant::StaticPie, Variant::Musl] {
        for threads in THREADS {
            assert_exact("heap_counts", variant, &[threads, "1000"]);
        }
        assert_exact("heap_cross", variant, &["2", "50"]);
        assert_exact("heap_realloc", variant, &["2", "500"]);
        assert_exact("heap_early", variant, &[]);
        let Some(program) = whyslow_lab_harness::build_or_skip("heap_hostile", variant) else { return };
        let mut heap = record_program(&program, &[], &[]);
        assert_eq!(code(&heap.output), 0, "heap_hostile {variant:?}: {}", text(&heap.output.stderr));
        if variant == Variant::Musl {
            // musl has no unwind information, so the caller of its strndup is unknown.
            heap.recorded.truth.sites.remove("copied");
        }
        heap.assert_equal(&format!("heap_hostile {variant:?}"));
        assert_exact("heap_unwind", variant, &["200"]);
    }
    for variant in [Variant::Static, Variant::StaticPie] {
        assert_exact("heap_vec", variant, &[]);
        assert_exact("heap_fork", variant, &["2", "3"]);
        assert_exact("heap_signals", variant, &["50"]);
    }
}

/// Nothing can be hooked: the message says what to do, and the program runs.
#[test]
fn a_stripped_static_program_is_refused_with_a_reason() {
    let Some(program) = whyslow_lab_harness::build_or_skip("heap_counts", Variant::Static) else { return };
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("stripped");
    let mut strip = std::process::Command::new("objcopy");
    if strip.arg("--strip-all").arg(&program).arg(&stripped).status().is_err() {
        whyslow_lab_harness::skip("objcopy is not installed");
        return;
    }
    let mut command = crate::recorded::whyslow(folder.path());
    command.args(["heap", "--fail-on-leak", "-o", "run.whyslow", "--"]).arg(&stripped);
    let output = whyslow_lab_harness::run(&mut command, crate::recorded::PATIENCE).unwrap();
    // Its leaks are not known.
    assert_eq!(code(&output), 3, "{}", text(&output.stderr));
    let said = text(&output.stderr) + &text(&output.stdout);
    assert!(!said.contains("every allocation counted"), "{said}");
    assert!(said.contains("no allocation recorded"), "{said}");
    assert!(said.contains("leaks: unknown, no allocation was recorded"), "{said}");
    let profile = whyslow_profile::file::read(&folder.path().join("run.whyslow")).unwrap();
    let reason = format!(
        "{} is statically linked and has no symbols: its allocations are not recorded",
        stripped.display()
    );
    let notes = crate::recorded::notes(&profile);
    assert!(notes.iter().any(|note| note.starts_with(&reason)), "{notes:?}");
    let facts = profile.meta.heap.as_ref().unwrap();
    assert!(facts.allocators.is_empty(), "{:?}", facts.allocators);
    assert_eq!(profile.heap.totals().allocations, 0);
}

#[test]
fn linked_allocators_are_counted_exactly_at_every_lto_setting() {
    for lto in Lto::ALL {
        for allocator in ["jemalloc", "mimalloc", "system"] {
            for threads in ["1", "2"] {
                let Some(program) = build_allocator_or_skip(allocator, lto, Linking::Dynamic) else { return };
                let heap = record_program(&program, &[], &[threads, "1000"]);
                let what = format!("{allocator}, {lto:?}, {threads} threads");
                assert_eq!(code(&heap.output), 0, "{what}: {}", text(&heap.output.stderr));
                heap.assert_equal(&what);
            }
        }
    }
}

#[test]
fn allocators_in_static_programs_are_counted_exactly() {
    for allocator in ["jemalloc", "mimalloc", "system"] {
        let Some(program) = build_allocator_or_skip(allocator, Lto::Fat, Linking::Static) else { return };
        let heap = record_program(&program, &[], &["2", "1000"]);
        assert_eq!(code(&heap.output), 0, "{allocator}: {}", text(&heap.output.stderr));
        heap.assert_equal(&format!("{allocator}, static"));
    }
}

/// Only Rust's own functions can be hooked there, and the compiler may have inlined them, which is then
/// reported.
#[test]
fn a_rust_allocator_is_counted_or_reported_as_incomplete() {
    for lto in Lto::ALL {
        let Some(program) = build_allocator_or_skip("bump", lto, Linking::Dynamic) else { return };
        let heap = record_program(&program, &[], &["1", "1000"]);
        assert_eq!(code(&heap.output), 0, "{lto:?}: {}", text(&heap.output.stderr));
        let sites = &heap.truth().sites;
        let whole = sites.iter().all(|(function, claims)| {
            claims.iter().all(|(name, claimed)| heap.at(function, name) == *claimed)
        });
        let reason = "has an allocator written in Rust: calls that the compiler inlined are not recorded";
        let notes = crate::recorded::notes(heap.profile());
        let is_said = notes.iter().any(|note| note.contains(reason))
            && heap.profile().meta.heap.as_ref().unwrap().is_partly_seen();
        assert!(whole || is_said, "{lto:?}: counts are not whole, and nothing says so: {notes:?}");
    }
}

#[test]
fn growth_of_a_vec_is_reported_at_its_line() {
    let Some(heap) = assert_exact("heap_vec", Variant::Release, &["1000"]) else { return };
    let sites = heap.json["sites"].as_array().unwrap();
    let line = heap.truth().counts["line_grow_vec"];
    let of_vec = sites.iter().filter(|site| {
        site["function"].as_str().is_some_and(|name| crate::recorded::last_segment(name) == "grow_vec")
    });
    let lines: Vec<_> =
        of_vec.map(|site| (site["line"].as_u64(), site["growth"]["grown"].as_u64())).collect();
    assert!(lines.contains(&(Some(line), Some(8))), "grown 8 times at line {line}: {lines:?}");
}

#[test]
fn names_the_callers_of_an_allocation_wrapper_instead_of_it() {
    let Some(heap) = assert_exact("heap_wrapper", Variant::Release, &["shared", "100"]) else { return };
    assert_eq!(heap.json["heap"]["wrappers"], serde_json::json!(["room"]));
    let sites = heap.json["sites"].as_array().unwrap();
    let mut named =
        sites.iter().map(|site| (site["function"].as_str().unwrap(), site["peak_bytes"].as_u64().unwrap()));
    assert_eq!(named.next(), Some(("cells", 100_000)));
    let mut others = named.filter(|(_, bytes)| *bytes > 0).collect::<Vec<_>>();
    others.sort_unstable();
    assert_eq!(others, [("edges", 2400), ("names", 1600), ("notes", 10_000), ("order", 800), ("rows", 4800)]);
}

#[test]
fn a_function_that_allocates_everything_is_the_line_with_its_caller() {
    let Some(heap) = assert_exact("heap_wrapper", Variant::Release, &["alone", "100"]) else { return };
    assert_eq!(heap.json["heap"]["wrappers"], serde_json::json!([]));
    let site = &heap.json["sites"][0];
    assert_eq!((&site["function"], &site["peak_bytes"]), (&"hoard".into(), &50_000.into()));
    assert_eq!(site["callers"][0]["function"], "fill");
}

#[test]
fn unused_bytes_are_counted_exactly() {
    let Some(program) = whyslow_lab_harness::build_or_skip("heap_unused", Variant::Release) else { return };
    let heap = record_program(&program, &["--unused"], &[]);
    assert_eq!(code(&heap.output), 0, "{}", text(&heap.output.stderr));
    heap.assert_equal("heap_unused");
}

/// The trends of the whole heap, of the function that grows, and of the one that does not.
fn growth_classes(how: &str, milliseconds: &str) -> Option<[String; 3]> {
    let heap = assert_exact("heap_growth", Variant::Release, &[how, milliseconds])?;
    let class_of = |function: &str| {
        let mut sites = heap.profile().heap.sites.iter();
        let site = sites.find(|site| heap.functions(site.stack).first() == Some(&function)).unwrap();
        site.growth.label().to_owned()
    };
    let whole = heap.json["heap"]["growth_class"].as_str().unwrap().to_owned();
    Some([whole, class_of("grows"), class_of("steady")])
}

#[test]
fn growth_over_time_is_classified() {
    for class in ["flat", "linear", "sawtooth", "unbounded"] {
        // A stalled machine bends every curve; the longer the run, the less.
        let mut seen = Vec::new();
        let mut right = false;
        for milliseconds in ["1500", "6000", "12000"] {
            let Some(classes) = growth_classes(class, milliseconds) else { return };
            right = classes == [class, class, "flat"];
            if right {
                break;
            }
            try_again(&format!("{class} in {milliseconds} ms is {classes:?}"));
            seen.push(classes);
        }
        assert!(right, "{class}: {seen:?}");
    }
}
