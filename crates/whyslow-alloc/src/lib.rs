//! A global allocator that counts: heap assertions for tests, and heap profiles from inside a program.
//!
//! A test that allocates is only as good as what it counts. This crate counts the allocations of *one thread* between two points, so that
//! its numbers are the same whether `cargo test` runs one test or sixteen beside it, and shows the stacks of what was too much:
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
//! # fn main() { adding_up_allocates_nothing(); squares_allocate_once(); a_round_gives_everything_back(); }
//! # #[cfg(any())]
//! #[test]
//! # fn _nothing() {}
//! fn adding_up_allocates_nothing() {
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
//! fn a_round_gives_everything_back() {
//!     let heap = Scope::new();
//!     drop(squares(1000));
//!     let stats = heap.stats();
//!     assert_eq!((stats.live_bytes, stats.peak_bytes), (0, 8000));
//! }
//! ```
//!
//! If `sum` copied the numbers first, the test would end with the allocation, its caller and its line:
//!
//! ```text
//! thread 'adding_up_allocates_nothing' panicked at tests/heap.rs:17:16:
//! 1 allocation made, 80 bytes, where none is allowed
//!   1 allocation, 80 bytes by alloc::slice::<impl [T]>::to_vec
//!       at heap::sum (tests/heap.rs:7)
//!       at heap::adding_up_allocates_nothing (tests/heap.rs:17)
//! ```
//!
//! # What to use for what
//!
//! | question | answer |
//! |---|---|
//! | what does this closure allocate? | [`count`] |
//! | and between two points? | [`Scope::new`], [`Scope::stats`] |
//! | it must not allocate | [`assert_no_alloc()`], [`assert_no_alloc!`] |
//! | it must make exactly, or at most, so many allocations | [`assert_allocations!`] |
//! | it must stay below so many allocations, bytes, bytes at the peak, bytes left | [`budget`], [`Scope::assert`] |
//! | with the threads that it starts, or a pool's | [`Scope::spawn`], [`Scope::spawn_scoped`], [`Scope::inherit`] |
//! | the whole program, as a file | [`Profiler`], [`dump`] |
//! | the whole program, as numbers | [`HeapStats`], [`assert!`], [`assert_eq!`] |
//! | something else that happens, by stack | [`Profiler::new_ad_hoc`], [`ad_hoc_event`] |
//!
//! # Another allocator underneath
//!
//! ```ignore
//! #[global_allocator]
//! static ALLOC: whyslow_alloc::Alloc<mimalloc::MiMalloc> = whyslow_alloc::Alloc::new(mimalloc::MiMalloc);
//! ```
//!
//! # From the dhat crate
//!
//! | dhat | here |
//! |---|---|
//! | `static ALLOC: dhat::Alloc = dhat::Alloc;` | `static ALLOC: whyslow_alloc::Alloc = whyslow_alloc::Alloc::system();` |
//! | `Profiler::new_heap()`, `builder()`, `file_name`, `testing`, `eprint_json`, `build` | the same |
//! | `trim_backtraces` | the same; stacks have all frames unless it is called, and never the allocator's own |
//! | `drop_and_get_memory_output()` | the same; in testing mode too |
//! | `HeapStats::get()` and its fields | the same numbers: a reallocation is one more block in total, with its new size |
//! | `dhat::assert!`, `assert_eq!`, `assert_ne!` | the same, in testing mode only; the message shows the stacks too |
//! | panics without a profiler, with a second one, after a failed assertion | at the same moments, in other words |
//! | `Profiler::new_ad_hoc()`, `ad_hoc()`, `ad_hoc_event`, `AdHocStats::get()` | the same; the innermost frame is the caller's |
//! | `dhat-heap.json`, `dhat-ad-hoc.json` | the same header, units and numbers per stack, for the same viewer; or `NAME.whyslow` |
//! | a reallocated block stays with the stack that first made it | so in JSON; in `NAME.whyslow` it goes to the stack that reallocates |
//! | lifetimes (`tl`) begin anew at a reallocation | the time before counts too |
//! | a test file for each test, because numbers are the process' | [`Scope`]: the thread's |
//!
//! The file is also written when the program ends by `std::process::exit`, and whenever [`dump`] is called. A program that is killed writes
//! nothing: `whyslow heap -- ./app` records from outside, needs no change to the program, and sees C code too.
//!
//! # Cost
//!
//! Nanoseconds of CPU time for an allocation of 48 bytes with its free, measured on a virtual machine with two CPUs (Linux 6.18, much other work beside)
//! by the example `alloc_cost`: `cargo run --release -p whyslow-alloc --example alloc_cost`.
//!
//! | | ns |
//! |---|---|
//! | the system's allocator alone | 8.8 |
//! | around it, nothing watched | 9.3 |
//! | while another thread has a scope | 18 |
//! | in a scope | 70 |
//! | in a scope with stacks, 30 frames more | 157 |
//! | with a profiler, 30 frames that stay | 270 |
//! | with a profiler, 30 frames that are new each time (with the calls) | 316 |
//!
//! Nothing watched, an allocation costs one look at a number. Stacks are named only when they are shown.
//!
//! # What to know
//!
//! - Counted is what goes through Rust's global allocator: not what C code, or an allocator API of its own, takes elsewhere.
//! - A scope is its thread's: what rayon, an async runtime or another thread does for it lies outside, unless that enters it ([`Inherit`]).
//! - A block that one thread makes and another frees counts in a scope as what the thread of the scope did with it.
//! - A reallocation is an allocation and a free; [`Stats::reallocations`] says how many were.
//! - Stacks have function names and lines as far as the program has debug information: `debug = "line-tables-only"` is enough.
//! - A forked child counts nothing and writes nothing; its parent goes on.
//! - The allocator is usable everywhere it was before: in destructors of thread-locals, in signal handlers that may allocate at all,
//!   around `fork`. What a signal handler allocates while it interrupts the counting itself is not counted.
//! - Linux on x86-64 only.

#![expect(clippy::test_attr_in_doctest, reason = "the example is a whole test file")]

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("whyslow-alloc walks stacks of Linux on x86-64 only");

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

// Last: it has macros with the names of the standard library's, which are meant for programs, not for the code here.
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
