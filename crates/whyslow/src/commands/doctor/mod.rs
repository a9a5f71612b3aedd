//! `whyslow doctor`: what this machine and this binary allow, and how to get more.

mod binary;
mod binary_checks;
mod checkup;
mod machine;
mod probe;
mod virtualisation;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use self::checkup::{Item, State};
use self::machine::Machine;
use crate::cli::Format;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output;

/// Check what profiling needs: this machine and, if given, a binary
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whyslow doctor                         this machine
  whyslow doctor ./target/release/app    this machine, and how the program was built

Exit codes: 0 recording works (notes are about what could be better); 1 something prevents
recording; 125 doctor itself failed.")]
pub(crate) struct DoctorArgs {
    /// A program or library to look into
    binary: Option<PathBuf>,
    /// Text for people or JSON for programs
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What was found out.
#[derive(Debug, Serialize)]
struct Report {
    /// Whether nothing prevents a recording.
    can_record: bool,
    machine: Vec<Item>,
    #[serde(skip_serializing_if = "Option::is_none")]
    binary: Option<BinaryReport>,
}

#[derive(Debug, Serialize)]
struct BinaryReport {
    path: String,
    checks: Vec<Item>,
}

/// Checks, prints.
pub(crate) fn run(args: &DoctorArgs) -> Result<Exit> {
    let machine = Machine::read(Path::new("/"), probe::Probe::run()?).check();
    let binary = args.binary.as_deref().map(|path| {
        let checks = binary_checks::check(path)?;
        Ok(BinaryReport { path: path.display().to_string(), checks })
    });
    let binary = binary.transpose()?;
    let all = machine.iter().chain(binary.iter().flat_map(|binary| &binary.checks));
    let can_record = !all.into_iter().any(|item| item.state == State::Problem);
    let report = Report { can_record, machine, binary };
    let text = match args.format {
        Format::Text => report.text(),
        Format::Json => serde_json::to_string_pretty(&report)
            .map(|json| json + "\n")
            .map_err(|error| Failure::new(format!("doctor: {error}")))?,
    };
    output::print(&text)?;
    Ok(if can_record { Exit::Success } else { Exit::CannotRecord })
}

impl Report {
    fn text(&self) -> String {
        let mut text = checkup::table("Machine", &self.machine);
        if let Some(binary) = &self.binary {
            text.push('\n');
            text += &checkup::table(&binary.path, &binary.checks);
        }
        text += if self.can_record {
            "\nRecording works.\n"
        } else {
            "\nRecording does NOT work: see the problems above.\n"
        };
        text
    }
}
