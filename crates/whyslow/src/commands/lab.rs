//! `whyslow lab`: records a bundled slow program and shows what there is to find.

use std::ffi::{OsStr, OsString};

use clap::Args;
use whyslow_capture::{Command, Target};

use crate::cli::Volume;
use crate::exit::Exit;
use crate::failure::Result;
use crate::recording::RecordOptions;

/// The argument with which whyslow starts itself as the program to record.
const PROGRAM: &str = "--whyslow-lab-program";

/// Try it: record a bundled slow program and see the answer
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(flatten)]
    options: RecordOptions,
}

/// Is the slow program, when whyslow was started as that.
pub(crate) fn program(args: &[OsString]) -> Option<Result<Exit>> {
    (args.get(1).map(OsString::as_os_str) == Some(OsStr::new(PROGRAM))).then(|| Ok(Exit::Success))
}

/// Records the slow program.
pub(crate) fn run(args: &LabArgs, volume: Volume) -> Result<Exit> {
    let target = Target::Command(Command {
        program: "/proc/self/exe".into(),
        args: vec![PROGRAM.into()],
        ..Command::default()
    });
    super::record::record_and_answer(&target, OsStr::new("lab"), &args.options, volume)
}
