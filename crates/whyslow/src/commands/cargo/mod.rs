//! `cargo whyslow`: build the right target with the right settings, then record it.
use crate::{cli::Volume, exit::Exit, failure::Result, recording::RecordOptions};
use clap::Args;
#[derive(Debug, Args)]
pub(crate) struct CargoArgs {
    #[command(flatten)]
    options: RecordOptions,
}
pub(crate) fn run(_args: CargoArgs, _volume: Volume) -> Result<Exit> {
    Ok(Exit::Success)
}
