//! Experiments of `whyslow causal`: which code may be a target, and what is tried next.

mod director;
mod tables;
mod targets;

pub(crate) use director::{Experimenter, Wish};
pub(crate) use targets::{Wanted, WholeFunction};
