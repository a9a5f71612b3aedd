//! The payload and the page of the viewer, decoded as a browser would.

#![expect(clippy::unwrap_used, reason = "a failed step of a test fails the test")]

mod bench;
mod causal;
mod changes;
mod decoder;
mod findings;
mod page;
mod parallelism;
mod payload;
mod program;
mod syscalls;
mod tasks;
mod waits;
