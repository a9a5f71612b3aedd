//! Reads results of other tools as baselines: hyperfine's JSON of version 1 and 2, and criterion's folder.

pub mod criterion;

use std::collections::BTreeMap;

use serde::Deserialize;
use whyslow_profile::{ExitStatus, Host};

use crate::contender::{Contender, Parameter};
use crate::document::{Measured, MeasuredCommand, ReadError, SCHEMA, Surroundings, read};
use crate::run::Run;

#[derive(Deserialize)]
struct Hyperfine {
    schema_version: Option<u32>,
    results: Vec<Results>,
}

#[derive(Deserialize)]
struct Results {
    command: String,
    name: Option<String>,
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
    // Version 1: a column per number.
    #[serde(default)]
    times: Vec<f64>,
    user: Option<f64>,
    system: Option<f64>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
    #[serde(default)]
    memory_usage_byte: Vec<u64>,
    // Version 2: a row per run.
    #[serde(default)]
    measurements: Vec<Measurement>,
}

/// What only whyslow's files have.
#[derive(Deserialize)]
struct Own {
    #[serde(rename = "schema")]
    _schema: String,
}

/// A number, or one with its unit.
#[derive(Deserialize)]
#[serde(untagged)]
enum Value {
    WithUnit { value: Box<Value> },
    Text(String),
    Number(f64),
}

impl Value {
    fn number(&self) -> f64 {
        match self {
            Self::WithUnit { value } => value.number(),
            Self::Text(text) => text.parse().unwrap_or(0.0),
            Self::Number(number) => *number,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::WithUnit { value } => value.text(),
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
        }
    }
}

#[derive(Deserialize)]
struct Measurement {
    time_wall_clock: Value,
    time_user: Value,
    time_system: Value,
    memory_peak_resident: Option<Value>,
    exit_code: Option<i32>,
}

fn run(wall_s: f64, user_s: f64, system_s: f64, resident: Option<f64>, exit: Option<i32>) -> Run {
    let ns = |seconds: f64| (seconds * 1e9).round().max(0.0) as u64;
    Run {
        place: 0,
        wall_ns: ns(wall_s),
        user_ns: ns(user_s),
        system_ns: ns(system_s),
        first_thread_ns: None,
        queued_ns: None,
        max_resident_bytes: resident.map(|bytes| bytes as u64),
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        counts: BTreeMap::new(),
        exit: ExitStatus::Code(exit.unwrap_or(0)),
    }
}

impl From<Results> for MeasuredCommand {
    fn from(results: Results) -> Self {
        // Version 1 stores only the means of CPU times.
        let mean = |time: Option<f64>| time.unwrap_or(0.0);
        let (user, system) = (mean(results.user), mean(results.system));
        let columns = results.times.iter().enumerate().map(|(at, time)| {
            let resident = results.memory_usage_byte.get(at).map(|bytes| *bytes as f64);
            run(*time, user, system, resident, results.exit_codes.get(at).copied().flatten())
        });
        let rows = results.measurements.iter().map(|row| {
            let resident = row.memory_peak_resident.as_ref().map(Value::number);
            let [wall, user, system] =
                [&row.time_wall_clock, &row.time_user, &row.time_system].map(Value::number);
            run(wall, user, system, resident, row.exit_code)
        });
        let runs = columns.chain(rows).collect();
        let parameters = results.parameters.iter();
        let parameters =
            parameters.map(|(name, value)| Parameter { name: name.clone(), value: value.text() }).collect();
        Self {
            contender: Contender {
                name: results.name.unwrap_or_else(|| results.command.clone()),
                command: results.command,
                parameters,
            },
            words: Vec::new(),
            runs,
            warmup: Vec::new(),
            exact: Vec::new(),
            kept_program: None,
        }
    }
}

/// Reads results of whyslow or hyperfine.
pub fn read_any(text: &str) -> Result<Measured, ReadError> {
    // whyslow's own files also have hyperfine's fields.
    if serde_json::from_str::<Own>(text).is_ok() {
        return read(text);
    }
    match serde_json::from_str::<Hyperfine>(text) {
        Ok(hyperfine) if hyperfine.schema_version.is_none_or(|version| version <= 2) => Ok(Measured {
            schema: SCHEMA.to_owned(),
            began_unix_s: 0,
            host: Host::default(),
            surroundings: Surroundings::default(),
            commands: hyperfine.results.into_iter().map(MeasuredCommand::from).collect(),
        }),
        Ok(hyperfine) => {
            Err(ReadError::Newer(format!("hyperfine {}", hyperfine.schema_version.unwrap_or(0))))
        }
        Err(_) => read(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_versions_of_hyperfine() {
        let first = r#"{"results":[{"command":"sleep 0.1","mean":0.1,"stddev":0.01,"median":0.1,"user":0.001,"system":0.002,"min":0.1,"max":0.2,
            "times":[0.1,0.2],"exit_codes":[0,1],"parameters":{"n":"3"}}]}"#;
        let read = read_any(first).unwrap();
        let command = &read.commands[0];
        assert_eq!((command.runs[1].wall_ns, command.runs[1].user_ns), (200_000_000, 1_000_000));
        assert_eq!(command.runs[1].exit, ExitStatus::Code(1));
        assert_eq!(command.contender.parameters[0].value, "3");
        let second = r#"{"schema_version":2,"metadata":{},"primary_metric":"time_wall_clock","results":[{"command":"a","name":"b","measurements":[
            {"time_wall_clock":{"value":0.5,"unit":"second"},"time_cpu":{"value":0.4,"unit":"second"},"time_user":{"value":0.3,"unit":"second"},
             "time_system":{"value":0.1,"unit":"second"},"memory_peak_resident":{"value":4096,"unit":"byte"},"exit_code":0}],
            "parameters":{"n":{"value":"3"}},"summary":{}}]}"#;
        let read = read_any(second).unwrap();
        let run = &read.commands[0].runs[0];
        assert_eq!(
            (run.wall_ns, run.cpu_ns(), run.max_resident_bytes),
            (500_000_000, 400_000_000, Some(4096))
        );
        assert_eq!(read.commands[0].contender.name, "b");
        assert!(matches!(read_any(&second.replace("version\":2", "version\":3")), Err(ReadError::Newer(_))));
        assert!(matches!(read_any("{}"), Err(ReadError::Damaged(_))));
    }
}
