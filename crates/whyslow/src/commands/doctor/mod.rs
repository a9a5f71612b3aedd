//! `whyslow doctor`: what this machine and this binary allow, and how to get more.
use crate::{exit::Exit, failure::Result};
use clap::Args;
/// Check this machine, and a binary, for what profiling needs
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {}
pub(crate) fn run(_args: &DoctorArgs) -> Result<Exit> {
    Ok(Exit::Success)
}
