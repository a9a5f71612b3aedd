//! Builds the programs of `lab/programs` and checks their claims, for tests that need a known answer.
//!
//! ```no_run
//! use whyslow_lab_harness::{Variant, build, run};
//! use std::{process::Command, time::Duration};
//!
//! let program = build("ratio", Variant::Release)?;
//! let output = run(Command::new(program).args(["1", "200"]), Duration::from_secs(20))?;
//! let truth = whyslow_lab_harness::Truth::parse(&String::from_utf8_lossy(&output.stdout));
//! assert_eq!(truth.shares["alpha"], 0.5);
//! # anyhow::Ok(())
//! ```

mod allocators;
mod churn;
mod compile;
mod notes;
mod packages;
mod run;
mod truth;
mod variant;

pub use allocators::{Linking, Lto, build_allocator, build_allocator_or_skip};
pub use churn::{ChurnPaths, StackVerdict};
pub use compile::{CompilerMissing, build, build_or_skip, lab_folder, programs};
pub use notes::{NOTES_FILE, is_installed, skip, try_again};
pub use packages::{build_packages, build_patterns_or_skip, build_runtime, build_runtime_or_skip};
pub use run::{TimedOut, run};
pub use truth::{Numbers, Truth, binomial_ok, last_segment, standard_error};
pub use variant::Variant;
