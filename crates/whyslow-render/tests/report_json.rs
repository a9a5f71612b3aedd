//! The JSON of reports: the names that programs rely on, and their description.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod described;

use described::assert_described;
use serde_json::Value;
use whyslow_analyze::heap::Sites;
use whyslow_analyze::testing::{self, SAMPLE_NS};
use whyslow_analyze::{
    By, Callers, Charges, FunctionTable, HotLines, HotPath, Lines, Outline, OwnTable, Quality, Selection,
    SortBy, Threads, TreeOptions,
};
use whyslow_answers::views::SUMMARY;
use whyslow_answers::{Detail, Query};
use whyslow_profile::{GrowthBar, KernelView, LeakCheck, MetricId, NoLeakCheck, Profile, Trigger, Unit};
use whyslow_render::json::{self, Context};

fn program() -> Profile {
    let mut profile = testing::profile(
        "app::main@src/main.rs:9;app::parse@src/parse.rs:3;+core::str::next@/rustc/lib.rs:40 60
         app::main@src/main.rs:9;app::parse@src/parse.rs:2 20
         app::main@src/main.rs:9;app::visit@src/main.rs:4;app::visit@src/main.rs:4;[libz.so] 10
         worker: [truncated];app::parse@src/parse.rs:2 10",
    );
    testing::add_source(&mut profile, "src/parse.rs", "fn parse() {\n    let x = 1;\n    next()\n}");
    testing::sampled_by(&mut profile, Trigger::CpuClock, 1000);
    profile.meta.kernel = KernelView::Hidden;
    profile
}

/// Every view of a profile.
fn views(profile: &Profile) -> Vec<Value> {
    let everything = Selection::default();
    let quality = Quality::of(profile);
    let sites = Sites::build(profile);
    let context =
        Context { profile, metric: MetricId(0), quality: &quality, sites: Some(&sites), site_limit: 3 };
    let table = FunctionTable::build(profile, &everything, true, SortBy::SelfValue);
    let outline = Outline::build(profile, &everything, &TreeOptions::default());
    let threads = Threads::build(profile, &everything);
    let callers = Callers::build(profile, &everything, "app::parse", true).unwrap();
    let lines = Lines::build(profile, &everything, "app::parse").unwrap();
    let (weights, charges) = (everything.weigh(profile), Charges::new(profile, true));
    let own = OwnTable::build(profile, &weights, &charges);
    let path = HotPath::find(profile, &weights, &charges, &own);
    let hot_lines = HotLines::build(profile, &weights, &charges, By::Own);
    let texts = [
        json::to_string(&json::report(&context, &table, &own, &path, &threads, usize::MAX)),
        json::to_string(&json::tree(&context, &outline, table.total_samples, false, 0.0)),
        json::to_string(&json::callers(&context, &callers, 0.0)),
        json::to_string(&json::lines(&context, &lines)),
        json::to_string(&json::threads(&context, &threads)),
        json::to_string(&json::quality(&context, table.total_value)),
        json::to_string(&json::heap(&context, table.total_samples, table.total_value)),
        json::to_string(&json::hot_lines(&context, &hot_lines, 2)),
        json::answer(&Query::whole(&SUMMARY, Detail::Complete, profile).answer(profile).unwrap()),
    ];
    texts.into_iter().map(|text| serde_json::from_str(&text.unwrap()).unwrap()).collect()
}

#[test]
fn the_main_view_has_what_the_schema_promises() {
    let report = &views(&program())[0];
    assert_eq!(report["schema"], "whyslow-report/1");
    assert_eq!(report["view"], "functions");
    assert_eq!(report["command"], serde_json::json!(["./app"]));
    assert_eq!(report["duration_ns"], 100 * SAMPLE_NS);
    assert_eq!(report["cpu_time_ns"], 100 * SAMPLE_NS);
    assert_eq!(report["samples"], 100);
    assert_eq!(report["metric"], serde_json::json!({"name": "cpu-time", "unit": "ns"}));
    let hottest = &report["functions"][0];
    assert_eq!(hottest["name"], "core::str::next");
    assert_eq!(hottest["crate"], "core");
    assert_eq!(hottest["kind"], "std");
    assert_eq!((&hottest["file"], &hottest["line"]), (&"/rustc/lib.rs".into(), &1.into()));
    assert_eq!(hottest["self_ns"], 60 * SAMPLE_NS);
    assert_eq!((&hottest["self_share"], &hottest["total_share"]), (&0.6.into(), &0.6.into()));
    let parse =
        report["functions"].as_array().unwrap().iter().find(|row| row["name"] == "app::parse").unwrap();
    assert_eq!((&parse["self_ns"], &parse["total_ns"]), (&(30 * SAMPLE_NS).into(), &(90 * SAMPLE_NS).into()));
    let quality = &report["quality"];
    assert_eq!((&quality["lost"], &quality["throttled"]), (&0.into(), &0.into()));
    assert_eq!((&quality["truncated_share"], &quality["unresolved_share"]), (&0.1.into(), &0.1.into()));
    assert_eq!((&quality["source"], &quality["kernel"]), (&"cpu-clock".into(), &"hidden".into()));
    for warning in quality["warnings"].as_array().unwrap() {
        assert!(
            ["id", "severity", "message", "fix"].iter().all(|name| warning[*name].is_string()),
            "{warning}"
        );
    }
    assert_eq!(report["threads"][0]["name"], "main");
}

#[test]
fn time_is_charged_to_functions_and_lines_of_the_user() {
    let views = views(&program());
    let parse = &views[0]["own"][0];
    assert_eq!(
        (&parse["name"], &parse["own_share"], &parse["self_share"]),
        (&"app::parse".into(), &0.9.into(), &0.3.into())
    );
    assert_eq!((&parse["own_ns"], &parse["own_samples"]), (&(90 * SAMPLE_NS).into(), &90.into()));
    let line = &parse["hottest_line"];
    assert_eq!(
        (&line["line"], &line["own_share"], &line["text"]),
        (&3.into(), &0.6.into(), &"    next()".into())
    );
    let beneath = &parse["most_beneath"];
    assert_eq!((&beneath["name"], &beneath["own_share"]), (&"core::str::next".into(), &0.6.into()));
    let step = &views[0]["hot_path_own"];
    assert_eq!(views[0]["hot_path"][step["step"].as_u64().unwrap() as usize]["name"], "app::parse");
    assert_eq!((&step["own_share"], &step["path_share"]), (&0.9.into(), &0.8.into()));

    let lines = &views[7];
    assert_eq!(
        (&lines["view"], &lines["by"], &lines["lines_left_out"]),
        (&"lines".into(), &"own".into(), &1.into())
    );
    assert_eq!(lines["lines"][0]["function"]["name"], "app::parse");
    assert_eq!((&lines["lines"][0]["line"], &lines["lines"][0]["own_share"]), (&3.into(), &0.6.into()));
    assert_eq!((&lines["lines"][1]["line"], &lines["lines"][1]["self_share"]), (&2.into(), &0.3.into()));
    assert!(views.iter().all(|view| view["quality"]["grade"].is_string()));
}

#[test]
fn trees_are_lists_whose_parents_come_first() {
    let tree = &views(&program())[1];
    for node in tree["nodes"].as_array().unwrap() {
        assert!(node["parent"].is_null() == (node["depth"] == 0));
        assert!(node["parent"].is_null() || node["parent"].as_u64() < node["id"].as_u64());
    }
    let visit = tree["nodes"].as_array().unwrap().iter().find(|node| node["name"] == "app::visit").unwrap();
    assert_eq!((&visit["repeats"], &visit["repeat_frames"]), (&2.into(), &1.into()));
}

#[test]
fn lines_carry_their_text_and_the_hottest_is_marked() {
    let lines = &views(&program())[3]["lines"];
    assert_eq!(lines[1]["text"], "    next()");
    assert_eq!((&lines[0]["hottest"], &lines[1]["hottest"]), (&false.into(), &true.into()));
    assert_eq!(lines[0]["self_share"], 0.3);
}

/// The same program with a heap recording.
fn with_heap() -> Profile {
    let mut profile = program();
    testing::add_heap(
        &mut profile,
        "app::main@src/main.rs:9;app::parse@src/parse.rs:3;alloc::raw_vec::finish_grow : \
             allocations=6 bytes_allocated=600 frees=5 bytes_freed=500 peak_bytes=300 peak_blocks=3 grown=4 \
             growth_chains=2 bytes_copied=90 largest_grown=128 bytes_grown_to=200 live_at_exit_blocks=1 \
             live_at_exit_bytes=100 definitely_lost_blocks=1 definitely_lost_bytes=100 lifetime_ns=6000 growth=linear
         app::main@src/main.rs:10;app::parse@src/parse.rs:3;alloc::string::grow : \
             allocations=4 bytes_allocated=40 frees=4 bytes_freed=40 peak_bytes=10 peak_blocks=1 temporary=3
         app::main@src/main.rs:9;dep::table : \
             allocations=2 bytes_allocated=9 unused_bytes=4 examined_bytes=9 live_at_exit_blocks=2 \
             live_at_exit_bytes=9 reachable_blocks=1 reachable_bytes=5 possibly_lost_blocks=1 possibly_lost_bytes=4
         _start;__libc_init : allocations=1 bytes_allocated=1
         [truncated];[libz.so] : allocations=1 bytes_allocated=2",
    );
    profile
}

#[test]
fn every_view_has_the_heap_when_it_was_recorded() {
    for view in views(&with_heap()) {
        let heap = &view["heap"];
        let numbers = ["allocations", "frees", "bytes_allocated", "peak_bytes", "temporary"];
        assert_eq!(numbers.map(|name| heap[name].as_u64().unwrap()), [14, 9, 652, 310, 3]);
        assert_eq!((&heap["live_at_exit_blocks"], &heap["live_at_exit_bytes"]), (&3.into(), &109.into()));
        let leaks = ["definitely", "indirectly", "possibly", "reachable", "suppressed"];
        let leaks = leaks.map(|class| {
            let lost = &heap["leaks"][class];
            (lost["blocks"].as_u64().unwrap(), lost["bytes"].as_u64().unwrap())
        });
        assert_eq!(leaks, [(1, 100), (0, 0), (1, 4), (1, 5), (0, 0)]);
        assert_eq!(
            heap["unused"],
            serde_json::json!({"bytes": 4, "examined_bytes": 9, "passed_over_blocks": 0, "passed_over_bytes": 0})
        );
        // All but the summary are asked for three.
        let shown = if view.get("findings").is_some() { (4, &0.into()) } else { (3, &1.into()) };
        assert_eq!((view["sites"].as_array().unwrap().len(), &view["sites_left_out"]), shown);
    }
    for view in views(&program()) {
        assert!(view.get("heap").is_none() && view.get("sites").is_none());
    }
}

#[test]
fn a_site_names_the_users_line_and_its_callers() {
    let start = "app::main@m.rs:3;dep::build@d.rs:1";
    let mut profile = program();
    let callers = ["a", "b", "c", "d", "e"].map(|name| {
        format!(
            "{start};dep::{name}@d.rs:9;room@r.rs:2;malloc : allocations=2 bytes_allocated=10 peak_bytes=1\n"
        )
    });
    let most =
        format!("{start};dep::big@d.rs:5;room@r.rs:2;malloc : allocations=2 bytes_allocated=10 peak_bytes=9");
    testing::add_heap(&mut profile, &(callers.concat() + &most));
    let view = &views(&profile)[0];
    assert_eq!(view["heap"]["wrappers"], serde_json::json!(["room"]));
    let site = &view["sites"][0];
    assert_eq!((&site["function"], &site["line"]), (&"dep::big".into(), &5.into()));
    assert_eq!(site["own"], serde_json::json!({"function": "app::main", "file": "m.rs", "line": 3}));
    assert_eq!(
        site["callers"],
        serde_json::json!([
            {"function": "dep::build", "file": "d.rs", "line": 1, "depth": 1, "peak_bytes": 9},
            {"function": "app::main", "file": "m.rs", "line": 3, "depth": 2, "peak_bytes": 9},
        ])
    );
    assert_eq!(view["sites"][1]["callers"], serde_json::json!([]));
}

#[test]
fn a_site_is_a_line_of_the_user_with_its_numbers() {
    let mut profile = with_heap();
    let (grown, bytes_copied) = (1100, 5000);
    profile.heap.growth = vec![GrowthBar {
        site: 0,
        bar: 12,
        grown,
        bytes_copied,
        reached: 2,
        reached_bytes: 8000,
        largest: 4096,
    }];
    let view = &views(&profile)[0];
    let site = &view["sites"][0];
    assert_eq!(site["function"], "app::parse");
    assert_eq!((&site["file"], &site["line"]), (&"src/parse.rs".into(), &3.into()));
    assert_eq!((&site["kind"], &site["crate"]), (&"yours".into(), &"app".into()));
    let numbers = ["allocations", "frees", "bytes_allocated", "peak_bytes", "peak_blocks", "temporary"];
    assert_eq!(numbers.map(|name| site[name].as_u64().unwrap()), [10, 9, 640, 310, 4, 3]);
    assert_eq!(site["lifetime_mean_ns"], 600);
    let advice = serde_json::json!({
        "id": "reserve-capacity", "about": "heap", "severity": "note", "fix": null,
        "message": "`with_capacity` for 4.00 KiB would save 1,100 reallocations and copying 4.88 KiB, but leave 96 B \
                    unused in a typical block",
    });
    assert_eq!(
        site["growth"],
        serde_json::json!(
            {"chains": 2, "grown": 4, "bytes_copied": 90, "largest": 128, "suggested_capacity": 4096,
             "spared_reallocations": 1100, "spared_bytes_copied": 5000, "typical_unused_bytes": 96, "advice": advice}
        )
    );
    assert_eq!(
        (&site["growth_class"], &site["leaks"]["definitely"]["bytes"]),
        (&"linear".into(), &100.into())
    );
    assert_eq!(
        site["stack"],
        serde_json::json!([
            "alloc::raw_vec::finish_grow",
            "app::parse at src/parse.rs:3",
            "app::main at src/main.rs:9"
        ])
    );
}

#[test]
fn without_a_leak_check_the_reason_replaces_the_classes() {
    let mut profile = with_heap();
    profile.meta.heap.as_mut().unwrap().leaks =
        LeakCheck::Impossible(NoLeakCheck::Text { text: "it was killed".to_owned() });
    let view = &views(&profile)[0];
    assert!(view["heap"]["leaks"].is_null() && view["sites"][0]["leaks"].is_null());
    assert_eq!(view["heap"]["leak_check"], "impossible: it was killed");
}

#[test]
fn counted_values_have_no_sampling_error() {
    let mut profile = with_heap();
    profile.metrics.remove(0);
    profile.samples.remove(0);
    let view = &views(&profile)[0];
    assert_eq!(view["metric"], serde_json::json!({"name": "bytes-allocated", "unit": "bytes"}));
    let row = &view["functions"][0];
    assert_eq!((&row["self_error"], &row["self_value"]), (&0.0.into(), &600.into()));
}

#[test]
fn other_units_have_other_names() {
    let mut profile = program();
    profile.metrics[0].unit = Unit::Bytes;
    let row = &views(&profile)[0]["functions"][0];
    assert!(row["self_ns"].is_null());
    assert_eq!(row["self_value"], 60 * SAMPLE_NS);
}

#[test]
fn every_name_is_described() {
    let views = [views(&program()), views(&with_heap())].concat();
    // Findings have a page of their own.
    let pages = [include_str!("../../../docs/report-json.md"), include_str!("../../../docs/explain-json.md")];
    assert_described(&views, &pages.concat());
}
