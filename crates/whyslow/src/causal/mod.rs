//! Experiments of `whyslow causal`: which code may be a target or a progress point, and what is tried next.

mod director;
mod entries;
pub(crate) mod modules;
pub(crate) mod points;
mod problem;
mod suggest;
mod tables;
mod targets;
mod whole_runs;

pub(crate) use director::{Experimenter, Wish};
pub(crate) use suggest::{Proposal, propose};
pub(crate) use targets::{Wanted, WholeFunction};
