//! Benchmarks commands against each other: which runs to make, in which order, and what they show. Nothing
//! here starts a process.
//!
//! ```text
//! words      splits a quoted command into words, or says why it needs a shell
//! contender  the commands to compare, one for each value of a parameter
//! run        the numbers of one run that can be compared
//! rounds     rounds of all commands in random order, until there are enough
//! judge      comparisons with verdicts
//! note       notes on the runs
//! document   the result file
//! stored     a result file with its verdicts
//! foreign    results of other tools
//! gate       the CI gate
//! harness    benchmark executables of cargo: criterion, divan, libtest
//! suite      benchmarks of such executables in rounds, with a joint verdict
//! ```

pub mod contender;
pub mod document;
pub mod foreign;
pub mod gate;
pub mod harness;
pub mod judge;
pub mod note;
pub mod padding;
pub mod rounds;
pub mod run;
pub mod stored;
pub mod suite;
pub mod words;

pub use contender::{Contender, Parameter};
pub use judge::{Answer, Comparison, Options, Summary};
pub use note::BenchNote;
pub use rounds::{Ended, Execute, Ignored, Plan, Rounds, Series};
pub use run::{Metric, Run};
