//! `whyslow doctor`: checks whether profiling works on this machine and with this binary, and how to improve
//! it.

mod binary;
mod binary_checks;
mod checkup;
mod machine;
mod probe;
mod virtualisation;

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use whyslow_words::Severity;

use self::checkup::{Item, ItemJson};
use self::machine::Machine;
use crate::cli::{Format, Volume};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::output;

/// Check whether profiling works on this machine, or with a binary
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whyslow doctor                       this machine
  whyslow doctor ./target/release/app  this machine and this program

Exit codes: 0 if recording works (notes say what could be better); 1 if it does
not; 125 if doctor itself fails.")]
pub(crate) struct DoctorArgs {
    /// A program or library to check
    binary: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// The ids of all checks.
#[cfg(test)]
pub(crate) const CHECK_IDS: &[&str] = <checkup::Check as whyslow_profile::Family>::IDS;

/// The result of all checks.
#[derive(Debug)]
struct Report {
    /// Whether recording works.
    can_record: bool,
    machine: Vec<Item>,
    binary: Option<BinaryReport>,
}

#[derive(Debug)]
struct BinaryReport {
    path: String,
    checks: Vec<Item>,
}

/// Runs the checks and prints them.
pub(crate) fn run(args: &DoctorArgs, _: Volume) -> Result<Exit> {
    let machine =
        Machine::read(Path::new("/"), |name| std::env::var_os(name).is_some(), probe::Probe::run()?).check();
    let binary = args.binary.as_deref().map(|path| {
        let checks = binary_checks::check(path)?;
        Ok(BinaryReport { path: path.display().to_string(), checks })
    });
    let binary = binary.transpose()?;
    let all = machine.iter().chain(binary.iter().flat_map(|binary| &binary.checks));
    let can_record = !all.into_iter().any(|item| item.severity == Severity::Serious);
    let report = Report { can_record, machine, binary };
    let text = match args.format {
        Format::Text => report.text(),
        Format::Json => whyslow_render::json::to_string(&report.json())
            .map_err(|error| Failure::new(format!("doctor: {error}")))?,
    };
    output::print(&text)?;
    Ok(if can_record { Exit::Success } else { Exit::CannotRecord })
}

impl Report {
    fn json(&self) -> impl Serialize + '_ {
        #[derive(Serialize)]
        struct Json<'a> {
            can_record: bool,
            machine: Vec<ItemJson<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            binary: Option<BinaryJson<'a>>,
        }
        #[derive(Serialize)]
        struct BinaryJson<'a> {
            path: &'a str,
            checks: Vec<ItemJson<'a>>,
        }
        fn items(items: &[Item]) -> Vec<ItemJson<'_>> {
            items.iter().map(ItemJson::from).collect()
        }
        Json {
            can_record: self.can_record,
            machine: items(&self.machine),
            binary: self
                .binary
                .as_ref()
                .map(|binary| BinaryJson { path: &binary.path, checks: items(&binary.checks) }),
        }
    }

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
