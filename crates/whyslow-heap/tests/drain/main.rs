//! The drain, with an agent that the tests play.

mod counting;
mod fake;
mod hostile;
