//! Tests the drain with a fake agent.

mod counting;
mod fake;
mod hostile;
