//! `whyslow scale` against functions that grow in known ways.

use serde_json::Value;
use whyslow_lab_harness::{Variant, build_or_skip, run};

use crate::recorded::{PATIENCE, has_perf_events, whyslow};

/// The row of a function in either list.
fn row<'a>(json: &'a Value, name: &str) -> &'a Value {
    let rows = ["functions", "with_callees"].into_iter().flat_map(|table| json[table].as_array().unwrap());
    let name = format!("growth::{name}");
    rows.filter(|row| row["name"] == name.as_str())
        .max_by(|one, other| {
            one["value_at_top"].as_f64().unwrap().total_cmp(&other["value_at_top"].as_f64().unwrap())
        })
        .unwrap_or_else(|| panic!("there is no {name}: {json:#}"))
}

#[test]
fn finds_the_exponents_of_functions_even_if_hidden() {
    if !has_perf_events() {
        return;
    }
    let Some(program) = build_or_skip("growth", Variant::Release) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = whyslow(folder.path());
    command.args([
        "-q",
        "scale",
        "--sizes",
        "1k,2k,4k,8k,16k",
        "--runs",
        "5",
        "-F",
        "3999",
        "--format",
        "json",
        "--svg",
        "growth.svg",
        "--",
    ]);
    let output = run(command.arg(program).arg("{n}"), PATIENCE).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (name, truth) in [("constant", 0.0), ("linear", 1.0), ("quadratic", 2.0), ("cubic", 3.0)] {
        let row = row(&json, name);
        let number = |field: &str| row[field].as_f64().unwrap();
        // Two intervals wide: one of 95 % would be wrong in one of twenty runs.
        let (low, high) = (number("exponent_low"), number("exponent_high"));
        let room = (high - low) / 2.0 + 0.05;
        assert!(low - room <= truth && truth <= high + room, "{name}: {row:#}");
    }
    // n log n grows slightly faster than n.
    let between = row(&json, "linearithmic")["exponent"].as_f64().unwrap();
    assert!((0.95..1.35).contains(&between), "{between}");
    let steep = json["steep"].as_array().unwrap();
    for name in ["quadratic", "cubic"] {
        assert!(steep.contains(&format!("growth::{name}").into()), "{steep:?}");
    }
    let quadratic = row(&json, "quadratic");
    assert!(quadratic["share"].as_f64().unwrap() < 0.12, "{quadratic:#}");
    assert_eq!(quadratic["steep"], true, "{quadratic:#}");
    for name in ["constant", "linear", "linearithmic"] {
        assert!(!steep.contains(&format!("growth::{name}").into()), "{steep:?}");
    }
    let picture = std::fs::read_to_string(folder.path().join("growth.svg")).unwrap();
    assert!(picture.contains("growth::quadratic"), "{picture}");
}
