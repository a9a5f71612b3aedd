//! Functions that may be progress points, as JSON.

use serde::Serialize;
use whyslow_causal::suggest::{Suggestion, Suggestions};

#[derive(Serialize)]
struct RowJson<'a> {
    function: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    cpu_share: f64,
    visits_per_second: f64,
    variation: f64,
    steadiness: &'static str,
    suitable: bool,
}

impl<'a> From<&'a Suggestion> for RowJson<'a> {
    fn from(of: &'a Suggestion) -> Self {
        Self {
            function: &of.function,
            file: of.file.as_deref(),
            line: (of.line > 0).then_some(of.line),
            cpu_share: of.share,
            visits_per_second: of.suits.per_second,
            variation: of.suits.variation,
            steadiness: of.suits.steadiness.label(),
            suitable: of.suits.is_suitable,
        }
    }
}

/// The proposals, best first.
pub fn suggestions(found: &Suggestions) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Body<'a> {
        schema: &'static str,
        command: &'a [String],
        seconds: f64,
        samples: u64,
        counted: usize,
        suggestions: Vec<RowJson<'a>>,
        next: Option<&'a [String]>,
    }
    let body = Body {
        schema: "whyslow-causal-suggest/1",
        command: &found.program,
        seconds: found.seconds,
        samples: found.samples,
        counted: found.counted,
        suggestions: found.rows.iter().map(RowJson::from).collect(),
        next: found.command.as_deref(),
    };
    serde_json::to_string_pretty(&body).map(|text| text + "\n")
}
