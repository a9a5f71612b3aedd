//! How a program grows with its input, as JSON; `docs/scale-json.md` describes it.

use serde::Serialize;
use whyslow_analyze::scale::{Grown, Growth};
use whyslow_stats::growth::{Cliff, Shapes};

/// The name and version of the schema.
pub const SCALE_SCHEMA: &str = "whyslow-scale/1";

#[derive(Serialize)]
struct Scale<'a> {
    schema: &'static str,
    metric: &'a str,
    sizes: &'a [f64],
    runs: usize,
    whole: GrownJson<'a>,
    functions: Vec<GrownJson<'a>>,
    with_callees: Vec<GrownJson<'a>>,
    numbers: Vec<GrownJson<'a>>,
    steep: Vec<&'a str>,
    dominates: Option<&'a str>,
}

#[derive(Serialize)]
struct CliffJson {
    below: f64,
    above: f64,
    factor: f64,
    shape: &'static str,
}

#[derive(Serialize)]
struct GrownJson<'a> {
    name: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    value_at_top: f64,
    share: f64,
    projected_share: Option<f64>,
    projected_share_low: Option<f64>,
    projected_share_high: Option<f64>,
    exponent: Option<f64>,
    exponent_low: Option<f64>,
    exponent_high: Option<f64>,
    exponent_at_top: Option<f64>,
    constant: Option<f64>,
    steep: bool,
    fit: Option<&'static str>,
    cliff: Option<CliffJson>,
    shapes: Option<Vec<&'static str>>,
    costs: Vec<[f64; 2]>,
}

/// Everything, including the cost of every run.
pub fn scale(growth: &Growth) -> impl Serialize {
    Scale {
        schema: SCALE_SCHEMA,
        metric: &growth.metric,
        sizes: &growth.sizes,
        runs: growth.runs,
        whole: row(&growth.whole),
        functions: growth.functions.iter().map(row).collect(),
        with_callees: growth.with_callees.iter().map(row).collect(),
        numbers: growth.numbers.iter().map(row).collect(),
        steep: growth.steep().into_iter().map(|row| row.name.as_str()).collect(),
        dominates: growth.dominating().map(|function| function.name.as_str()),
    }
}

fn row(grown: &Grown) -> GrownJson<'_> {
    let interval = grown.exponent.map(|exponent| exponent.interval);
    GrownJson {
        name: &grown.name,
        file: grown.place.as_ref().map(|(file, _)| file.as_str()),
        line: grown.place.as_ref().map(|(_, line)| *line),
        value_at_top: grown.at_top,
        share: grown.share,
        projected_share: grown.projected_share.map(|share| share.estimate),
        projected_share_low: grown.projected_share.map(|share| share.low),
        projected_share_high: grown.projected_share.map(|share| share.high),
        exponent: interval.map(|interval| interval.estimate),
        exponent_low: interval.map(|interval| interval.low),
        exponent_high: interval.map(|interval| interval.high),
        exponent_at_top: grown.exponent.map(|exponent| exponent.at_the_top),
        constant: grown.exponent.map(|exponent| exponent.base),
        steep: grown.is_steep(),
        fit: grown.shapes.as_ref().map(|shapes| match shapes {
            Shapes::OneOf(_) => "shape",
            Shapes::Power => "power",
            Shapes::Cliff(_) => "cliff",
            Shapes::None => "none",
        }),
        cliff: match grown.shapes {
            Some(Shapes::Cliff(Cliff { below, above, factor, shape })) => {
                Some(CliffJson { below, above, factor, shape: shape.label() })
            }
            _ => None,
        },
        shapes: grown.shapes.as_ref().map(|shapes| match shapes {
            Shapes::OneOf(all) => all.iter().map(|fit| fit.shape.label()).collect(),
            Shapes::Power | Shapes::Cliff(_) | Shapes::None => Vec::new(),
        }),
        costs: grown.costs.iter().map(|cost| [cost.size, cost.value]).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_run_is_written() {
        let json = serde_json::to_value(scale(&crate::text::growth_for_tests())).unwrap();
        assert_eq!(json["schema"], SCALE_SCHEMA);
        let steep = json["functions"].as_array().unwrap().iter().find(|row| row["steep"] == true).unwrap();
        assert_eq!((&steep["name"], steep["costs"].as_array().unwrap().len()), (&"deduplicate".into(), 15));
        assert_eq!(json["numbers"][0]["name"], "wall-time");
    }
}
