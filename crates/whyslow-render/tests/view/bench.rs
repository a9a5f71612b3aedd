//! Results of `whyslow bench` reach the viewer with their verdicts.

use serde_json::{Value, json};
use whyslow_bench::stored::read_stored;
use whyslow_render::html::{BenchPage, Content, Page, write_page, write_payload};

use crate::decoder::Payload;

fn run(place: u32, wall_ns: u64) -> Value {
    json!({
        "place": place, "wall_ns": wall_ns, "user_ns": wall_ns / 2, "system_ns": wall_ns / 4, "first_thread_ns": wall_ns,
        "queued_ns": 0, "max_resident_bytes": null, "minor_faults": 10, "major_faults": 0, "voluntary_switches": 1,
        "involuntary_switches": 0, "exit": { "code": 0 },
    })
}

/// Two commands; the second takes a tenth less in every pair.
fn runs() -> Value {
    let runs = |factor: u64, first: u32| {
        let round =
            |round: u32| run((round + first) % 2, (100_000_000 + u64::from(round) * 777_777) * factor / 10);
        (0..12).map(round).collect::<Vec<_>>()
    };
    let command = |name: &str, runs: Vec<Value>, allocations: f64| json!({ "name": name, "command": name, "words": [name], "runs": runs, "warmup": [], "exact": [["allocations", allocations]] });
    json!({
        "schema": "whyslow-bench/1", "began_unix_s": 7,
        "host": { "os": "linux", "arch": "x86_64", "cpu": "a CPU", "cpus": 2, "virtualisation": null },
        "surroundings": { "cpu_pressure": null, "steal": null, "governor": "performance", "mhz": null },
        "commands": [command("./old", runs(10, 0), 50.0), command("./new <b>", runs(9, 1), 40.0)],
    })
}

/// The same with stored verdicts that differ from what the runs would give now.
fn said() -> Value {
    let mut said = runs();
    let comparison = |metric: &str, ratio: f64, verdict: &str, decides: bool, pairs: usize| {
        json!({
            "baseline": "./old", "candidate": "./new <b>", "metric": metric, "ratio": ratio, "ratio_low": ratio - 0.2,
            "ratio_high": ratio + 0.2, "confidence": 0.95, "pairs": pairs, "verdict": verdict, "decides": decides,
            "pairs_needed": [20, 400],
        })
    };
    said["witness"] = json!({ "metric": "wall-time", "reason": "waits" });
    said["margin"] = json!(0.02);
    said["comparisons"] = json!([
        comparison("wall-time", 0.9, "undecided", true, 12),
        comparison("cpu-time", 0.8, "faster", false, 0)
    ]);
    said["fastest"] = json!(null);
    said["remarks"] =
        json!([{ "id": "x", "about": "bench", "severity": "warning", "message": "busy", "fix": "wait" }]);
    said
}

fn head(file: &Value) -> Value {
    let stored = read_stored(&file.to_string()).unwrap();
    let page = Page::of(Content::Bench(BenchPage { stored: &stored, file: "result.json" }));
    let mut bytes = Vec::new();
    write_payload(&page, &mut bytes).unwrap();
    Payload::decode(&bytes).header["bench"].clone()
}

#[test]
fn stored_verdicts_are_shown_unchanged() {
    let head = head(&said());
    let answer = &head["answers"][0];
    assert_eq!(answer["verdict"], "undecided");
    let sentence = answer["sentence"].as_str().unwrap();
    assert_eq!(
        sentence,
        "Undecided: `./new <b>` has -10.0 % wall time compared with `./old` (-30.0 % to +10.0 %)"
    );
    assert!(
        answer["basis"].as_str().unwrap().contains("12 pairs, 95 % confidence; about 20 to 400 pairs"),
        "{answer}"
    );
    assert_eq!(head["remarks"], json!([{ "severity": "warning", "message": "busy", "fix": "wait" }]));
    assert_eq!(
        (&head["margin"], &head["file"], &head["cpu"]),
        (&json!(0.02), &json!("result.json"), &json!("a CPU"))
    );
    let wall = &head["metrics"][0];
    assert_eq!(
        (&wall["name"], &wall["decides"], &wall["unit"]),
        (&json!("wall-time"), &json!(true), &json!(1))
    );
    assert_eq!(wall["runs"][1].as_array().unwrap().len(), 12);
    assert_eq!(wall["runs"][0][0], 1e8);
    let dots = wall["comparisons"][0]["dots"].as_array().unwrap();
    assert_eq!(dots.len(), 12);
    assert!(dots.iter().all(|dot| (dot.as_f64().unwrap() - 0.9).abs() < 1e-6), "{dots:?}");
    // Runs of different days are not pairs.
    let cpu = head["metrics"].as_array().unwrap().iter().find(|metric| metric["name"] == "cpu-time").unwrap();
    assert_eq!(cpu["comparisons"][0]["dots"], json!([]));
    assert_eq!(cpu["comparisons"][0]["verdict"], "faster");
}

#[test]
fn stored_runs_without_verdicts_are_judged_on_view() {
    let head = head(&runs());
    assert_eq!(head["answers"][0]["verdict"], "faster");
    assert!(
        head["answers"][0]["sentence"]
            .as_str()
            .unwrap()
            .starts_with("`./new <b>` is faster than `./old`: -10.0 %")
    );
    let metrics = head["metrics"].as_array().unwrap();
    let allocations = metrics.iter().find(|metric| metric["name"] == "allocations").unwrap();
    assert_eq!(allocations["comparisons"][0]["verdict"], "less");
    assert_eq!(allocations["summaries"][1][0], 40.0);
    // No run has memory if it is not known.
    assert!(metrics.iter().all(|metric| metric["name"] != "max-resident"));
}

#[test]
fn commands_with_the_same_name_are_distinguished_by_order() {
    let mut file = said();
    let mut third = file["commands"][1].clone();
    third["runs"] = file["commands"][0]["runs"].clone();
    file["commands"].as_array_mut().unwrap().push(third);
    let row = file["comparisons"][0].clone();
    file["comparisons"].as_array_mut().unwrap().push(row);
    file["fastest"] = json!("./new <b>");
    file["detectable"] = json!([{ "pairs": 10, "share": 0.2 }]);
    let head = head(&file);
    let wall = head["metrics"][0]["comparisons"].as_array().unwrap();
    assert_eq!(wall.iter().map(|row| row["candidate"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(wall[1]["dots"][0], 1.0, "the third has the times of the first");
    let more = [
        "`./new <b>` is the fastest: it beats every other command.",
        "Differences that this machine detects in 4 of 5 cases: 10 pairs detect 20.0 %.",
    ];
    assert_eq!(head["more"], json!(more));
}

#[test]
fn results_without_a_command_or_a_run_are_shown_too() {
    let mut file = runs();
    file["commands"] = json!([]);
    assert_eq!((head(&file)["answers"].clone(), head(&file)["metrics"].clone()), (json!([]), json!([])));
    let mut file = runs();
    for command in 0..2 {
        file["commands"][command]["runs"] = json!([]);
    }
    assert_eq!(head(&file)["commands"].as_array().unwrap().len(), 2);
}

#[test]
fn the_page_shows_the_verdict_without_scripts() {
    let stored = read_stored(&said().to_string()).unwrap();
    let page = Page::of(Content::Bench(BenchPage { stored: &stored, file: "result.json" }));
    let mut out = Vec::new();
    write_page(&page, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let noscript = text.split("<noscript>").nth(1).unwrap().split("</noscript>").next().unwrap();
    assert!(noscript.contains("Undecided: `./new &lt;b"), "{noscript}");
    assert!(
        noscript.contains("<td>wall-time</td><td>0.900 (0.700 to 1.100)</td><td>undecided</td>"),
        "{noscript}"
    );
    assert!(!noscript.contains("<b>"), "{noscript}");
}

#[test]
fn truncated_or_newer_files_are_refused() {
    let text = said().to_string();
    for cut in (0..text.len()).step_by(text.len() / 40) {
        assert!(read_stored(&text[..cut]).is_err(), "{cut}");
    }
    let newer = text.replace("bench/1", "bench/2");
    assert!(read_stored(&newer).unwrap_err().to_string().contains("whyslow-bench/2"));
}
