//! Ground truth: whyslow records the programs of `lab/`, and its answers are compared with the known ones.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails")]

mod abuse;
mod asm;
mod caches;
mod causal;
mod clean;
mod compared;
mod control;
mod counts;
mod events;
mod files;
mod growth;
mod heap_children;
mod heap_counts;
mod heap_inherited;
mod heap_leaks;
mod heap_life;
mod heap_recorded;
mod heap_snapshot;
mod heap_transparent;
mod lock_kinds;
mod memcheck;
mod memory;
mod names;
mod parallelism;
mod patterns;
mod ptrace;
mod recorded;
mod shapes;
mod shares;
mod spans;
mod stacks;
mod syscalls;
mod tasks;
mod timer;
mod transparent;
mod unprivileged;
mod waits;
