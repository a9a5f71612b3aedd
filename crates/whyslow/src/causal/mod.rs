//! Experiments of `whyslow causal`: which code may be a target or a progress point, and what is tried next.

mod director;
pub(crate) mod modules;
pub(crate) mod points;
mod tables;
mod targets;

pub(crate) use director::{Experimenter, Wish};
pub(crate) use targets::{Wanted, WholeFunction};
