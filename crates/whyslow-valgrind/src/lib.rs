//! Runs programs under Valgrind: finds it, builds its command line, keeps its files in a temporary folder, and
//! says what became of each process. It does not read the results: `whyslow-formats` does.
//!
//! ```no_run
//! use whyslow_valgrind::{Job, Tool, Valgrind};
//!
//! let valgrind = Valgrind::find()?;
//! let mut job = Job::new(Tool::Callgrind, whyslow_capture::Command::default());
//! job.options.push("--cache-sim=yes".into());
//! let run = valgrind.run(&job, &mut |elapsed| eprintln!("{elapsed:?}"))?;
//! for process in &run.processes {
//!     println!("{} {:?}: {:?}", process.pid, process.command, process.output);
//! }
//! # Ok::<(), whyslow_valgrind::ValgrindError>(())
//! ```

mod error;
mod install;
mod job;
mod process;
mod sink;

pub use error::ValgrindError;
pub use install::{Valgrind, Version};
pub use job::{Job, Run, Streams, Tool};
pub use process::ProcessRun;
