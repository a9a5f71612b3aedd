//! The result file: it holds every run, so other statistics can be computed from it and later runs can be
//! compared with it.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use whyslow_profile::Host;

use crate::contender::Contender;
use crate::run::Run;

/// The name and version of the schema.
pub const SCHEMA: &str = "whyslow-bench/1";

/// The contents of the file. `docs/bench-json.md` describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// The name and version of the schema.
    pub schema: String,
    /// When the first run started, in seconds since 1970.
    pub began_unix_s: u64,
    /// The machine.
    pub host: Host,
    /// How busy the machine was during the runs.
    pub surroundings: Surroundings,
    /// The commands, each with all its runs.
    pub commands: Vec<MeasuredCommand>,
}

/// A command with all its runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MeasuredCommand {
    /// The command.
    #[serde(flatten)]
    pub contender: Contender,
    /// The words that were executed.
    pub words: Vec<String>,
    /// The counted runs. Runs with the same index belong to the same round.
    pub runs: Vec<Run>,
    /// The warm-up runs, which do not count.
    pub warmup: Vec<Run>,
    /// Exact numbers from separate runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exact: Vec<(String, f64)>,
    /// The copy of its program, stored next to the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_program: Option<String>,
}

/// How busy the machine was during the runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The share of the time in which something was queued for a CPU, including the runs themselves.
    pub cpu_pressure: Option<f64>,
    /// The share of CPU time that the host took (steal).
    pub steal: Option<f64>,
    /// The CPU frequency governor.
    pub governor: Option<String>,
    /// The range of the CPU frequency during the runs, in MHz.
    pub mhz: Option<[f64; 2]>,
}

impl Surroundings {
    /// Whether it is known that hardly anything else used the machine.
    fn is_quiet(&self) -> bool {
        self.cpu_pressure.is_some_and(|share| share <= 0.05) && self.steal.is_none_or(|share| share <= 0.01)
    }

    /// Whether the machine was quiet both times, with the same governor and a similar clock.
    pub fn is_quiet_like(&self, other: &Self) -> bool {
        let fastest = [self, other].map(|one| one.mhz.map(|[_, high]| high));
        let same_clock = match fastest {
            [Some(one), Some(other)] => (one / other).ln().abs() < 0.1,
            [one, other] => one.is_none() && other.is_none(),
        };
        self.is_quiet() && other.is_quiet() && self.governor == other.governor && same_clock
    }
}

/// Why a file cannot be used.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is not JSON, or incomplete.
    #[error("it is damaged or not a result of whyslow bench: {0}")]
    Damaged(#[from] serde_json::Error),
    /// A newer version wrote it.
    #[error("its schema is `{0}`, which this version does not know")]
    Newer(String),
}

#[derive(Deserialize)]
struct Head {
    schema: String,
}

/// Reads a file.
pub fn read(text: &str) -> Result<Measured, ReadError> {
    let head: Head = serde_json::from_str(text)?;
    if head.schema != SCHEMA {
        return Err(ReadError::Newer(head.schema));
    }
    Ok(serde_json::from_str(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::computing;

    fn measured() -> Measured {
        let contender = Contender { name: "a".to_owned(), command: "./a".to_owned(), parameters: Vec::new() };
        Measured {
            schema: SCHEMA.to_owned(),
            began_unix_s: 1,
            host: Host::default(),
            surroundings: Surroundings::default(),
            commands: vec![MeasuredCommand {
                contender,
                words: vec!["./a".to_owned()],
                runs: vec![computing(7)],
                warmup: Vec::new(),
                exact: vec![("allocations".to_owned(), 3.0)],
                kept_program: None,
            }],
        }
    }

    #[test]
    fn reads_what_it_writes() {
        let text = serde_json::to_string(&measured()).unwrap();
        let again = read(&text).unwrap();
        assert_eq!(again.commands[0].runs, [computing(7)]);
        assert_eq!(again.commands[0].contender.name, "a");
        // A newer schema is rejected, and a truncated file is not accepted as complete.
        assert!(matches!(read(&text.replace("bench/1", "bench/2")), Err(ReadError::Newer(_))));
        for cut in (0..text.len()).step_by(7) {
            assert!(matches!(read(&text[..cut]), Err(ReadError::Damaged(_))), "{cut}");
        }
    }
}
