//! Commands side by side: which runs to make, in which order, and what they say. Nothing here starts a process.
//!
//! ```text
//! words      a quoted command → its words, or why only a shell understands it
//! contender  the commands that are compared, one for each value of a parameter
//! run        what one run took, and the numbers that can be compared
//! course     rounds of all commands in random order, until there are enough
//! judge      what the rounds say: comparisons with verdicts
//! note       what is to be said besides
//! document   all of it as a file that can be compared with later
//! stored     such a file with what was said of it
//! foreign    results of other tools
//! gate       what may be merged
//! harness    benchmark executables of cargo: criterion, divan, libtest
//! suite      their benchmarks in rounds, and what all of them together say
//! ```

pub mod contender;
pub mod course;
pub mod document;
pub mod foreign;
pub mod gate;
pub mod harness;
pub mod judge;
pub mod note;
pub mod padding;
pub mod run;
pub mod stored;
pub mod suite;
pub mod words;

pub use contender::{Contender, Parameter};
pub use course::{Course, Ended, Execute, Plan, Rounds};
pub use judge::{Answer, Comparison, Options, Summary};
pub use note::BenchNote;
pub use run::{Metric, Run};
