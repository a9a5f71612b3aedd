//! A global allocator that counts: heap assertions for tests, and heap profiles from inside a program.
//!
//! This crate counts the allocations of *one thread* between two points. So its numbers are the same whether
//! `cargo test` runs one test or sixteen in parallel. A failed assertion shows the stacks of the allocations:
//!
//! ```
//! // tests/heap.rs
//! use whyslow_alloc::{Budget, Scope};
//!
//! #[global_allocator]
//! static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();
//!
//! fn sum(numbers: &[u64]) -> u64 {
//!     numbers.iter().sum()
//! }
//!
//! fn squares(end: u64) -> Vec<u64> {
//!     (0..end).map(|number| number * number).collect()
//! }
//!
//! # fn main() { sum_does_not_allocate(); squares_allocate_once(); dropping_frees_everything(); }
//! # #[cfg(any())]
//! #[test]
//! # fn _nothing() {}
//! fn sum_does_not_allocate() {
//!     let numbers = squares(10);
//!     assert_eq!(whyslow_alloc::assert_no_alloc(|| sum(&numbers)), 285);
//! }
//!
//! # #[cfg(any())]
//! #[test]
//! # fn _nothing_either() {}
//! fn squares_allocate_once() {
//!     let budget = Budget { allocations: 1, bytes: 800, ..Budget::UNLIMITED };
//!     whyslow_alloc::budget(budget, || squares(100));
//! }
//!
//! # #[cfg(any())]
//! #[test]
//! # fn _nor_here() {}
//! fn dropping_frees_everything() {
//!     let heap = Scope::new();
//!     drop(squares(1000));
//!     let stats = heap.stats();
//!     assert_eq!((stats.live_bytes, stats.peak_bytes), (0, 8000));
//! }
//! ```
//!
//! If `sum` copied the numbers first, the test would fail with the allocation, its caller and its line:
//!
//! ```text
//! thread 'sum_does_not_allocate' panicked at tests/heap.rs:17:16:
//! 1 allocation, 80 bytes, but none is allowed
//!   1 allocation, 80 bytes by alloc::slice::<impl [T]>::to_vec
//!       at heap::sum (tests/heap.rs:7)
//!       at heap::sum_does_not_allocate (tests/heap.rs:17)
//! ```
//!
//! # What to use
//!
//! | task | use |
//! |---|---|
//! | count the allocations of a closure | [`count`] |
//! | count the allocations between two points | [`Scope::new`], [`Scope::stats`] |
//! | forbid allocations | [`assert_no_alloc()`], [`assert_no_alloc!`] |
//! | require an exact or a max number of allocations | [`assert_allocations!`] |
//! | limit allocations, bytes, peak bytes, bytes left at the end | [`budget`], [`Scope::assert`] |
//! | include threads that the code starts, or those of a pool | [`Scope::spawn`], [`Scope::spawn_scoped`], [`Scope::inherit`] |
//! | profile the whole program into a file | [`Profiler`], [`dump`] |
//! | get numbers for the whole program | [`HeapStats`], [`assert!`], [`assert_eq!`] |
//! | count other events by stack | [`Profiler::new_ad_hoc`], [`ad_hoc_event`] |
//!
//! # Another allocator underneath
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOC: whyslow_alloc::Alloc<mimalloc::MiMalloc> = whyslow_alloc::Alloc::new(mimalloc::MiMalloc);
//! ```
//!
//! # Migrating from the dhat crate
//!
//! | dhat | whyslow-alloc |
//! |---|---|
//! | `static ALLOC: dhat::Alloc = dhat::Alloc;` | `static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();` |
//! | `Profiler::new_heap()`, `builder()`, `file_name`, `testing`, `eprint_json`, `build` | the same |
//! | `trim_backtraces` | the same; without it stacks are complete, and they never contain the allocator's own frames |
//! | `drop_and_get_memory_output()` | the same, also in testing mode |
//! | `HeapStats::get()` and its fields | the same numbers: a reallocation counts as one more block in total, with its new size |
//! | `dhat::assert!`, `assert_eq!`, `assert_ne!` | the same, in testing mode only; the message also shows the stacks |
//! | panics without a profiler, with a second one, after a failed assertion | in the same situations, with other messages |
//! | `Profiler::new_ad_hoc()`, `ad_hoc()`, `ad_hoc_event`, `AdHocStats::get()` | the same; the innermost frame is the caller's |
//! | `dhat-heap.json`, `dhat-ad-hoc.json` | the same header, units and numbers per stack, for the same viewer; or `NAME.whyslow` |
//! | a reallocated block belongs to the stack that first allocated it | the same in JSON; in `NAME.whyslow` it belongs to the stack that reallocates it |
//! | lifetimes (`tl`) restart at a reallocation | the time before it is included |
//! | one test file per test, because numbers are per process | [`Scope`]: numbers are per thread |
//!
//! The file is also written when the program ends by `std::process::exit`, and on each call of [`dump`]. A
//! program that is killed writes nothing. `whyslow heap -- ./app` records from outside, needs no change to
//! the program, and includes C code.
//!
//! # Cost
//!
//! Nanoseconds of CPU time for an allocation of 48 bytes and its free, measured on a busy virtual machine
//! with two CPUs (Linux 6.18) by the example `alloc_cost`: `cargo run --release -p whyslow-alloc --example
//! alloc_cost`.
//!
//! | | ns |
//! |---|---|
//! | the system allocator alone | 8.8 |
//! | whyslow-alloc, nothing watched | 9.3 |
//! | while another thread has a scope | 18 |
//! | in a scope | 70 |
//! | in a scope with stacks, 30 frames deeper | 157 |
//! | with a profiler, 30 unchanged frames | 270 |
//! | with a profiler, 30 new frames each time (including the calls) | 316 |
//!
//! While nothing is watched, an allocation costs one extra load. Stacks are symbolised only when they are
//! shown.
//!
//! # Limits
//!
//! - Only Rust's global allocator is counted, not memory that C code or a separate allocator API takes.
//! - A scope belongs to its thread. Work that rayon, an async runtime or another thread does for it is not counted unless that work enters the scope ([`Inherit`]).
//! - If one thread allocates a block and another frees it, a scope counts only what its own thread did.
//! - A reallocation counts as an allocation and a free. [`Stats::reallocations`] says how many there were.
//! - Stacks have function names and lines as far as the program has debug info: `debug = "line-tables-only"` is enough.
//! - A forked child counts nothing and writes nothing. Its parent continues.
//! - The allocator works wherever the inner one does: in destructors of thread-locals, in signal handlers that may allocate at all,
//!   around `fork`. If a signal handler interrupts the counting itself, its allocations are not counted.
//! - Linux on x86-64 only.

#![expect(clippy::test_attr_in_doctest, reason = "the example is a whole test file")]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("whyslow-alloc supports only Linux on x86-64");

mod ad_hoc;
mod alloc;
#[cfg(target_arch = "x86_64")]
#[path = "x86_64/mod.rs"]
mod arch;
mod check;
mod dhat;
mod events;
#[cfg(feature = "profile")]
mod file;
mod fork;
mod modules;
mod names;
mod numbers;
mod origin;
mod outcome;
mod profiler;
mod recorded;
mod report;
mod scope;
mod stack;
mod stats;
mod symbols;
mod sys;
mod tally;
mod timeline;
mod watch;

// Last, because its macros have the names of the standard library's. They are for programs, not for the code
// here.
mod macros;

pub use ad_hoc::ad_hoc_event;
pub use alloc::Alloc;
pub use check::{Budget, assert_no_alloc, budget, count};
#[doc(hidden)]
pub use check::{Check, Found};
#[doc(hidden)]
pub use numbers::Asserting;
pub use numbers::{AdHocStats, HeapStats};
pub use profiler::{Profiler, ProfilerBuilder, dump};
pub use scope::{Entered, Inherit, Scope};
pub use stats::Stats;
