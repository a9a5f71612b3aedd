//! Causal profiling: what would speeding up a line buy? Pure functions over the tables of experiments; nothing
//! here runs, delays or measures a program.
//!
//! ```text
//! schedule   which experiment comes next, which targets are decided, how many experiments are missing
//! estimate   what the experiments say: a curve with intervals and a verdict, per progress point and target
//! observe    experiments as differences to the baselines around them; load and outliers
//! interval   robust intervals of those differences
//! suggest    which functions are good progress points
//! words      what a row says, in one sentence
//! ```
//! An *effect* is the share of the time per visit of a progress point that a speed-up saves: 0.11 means that
//! each visit takes 11 % less time. All shares are of 1.

mod estimate;
mod interval;
mod observe;
pub mod schedule;
pub mod suggest;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod words;

pub use estimate::{Curve, Estimates, PointEstimates, Row, Verdict, estimate};
pub use observe::{Overload, QUEUED_LIMIT, is_coarse, period_ns, visits_per_experiment};
pub use schedule::{Next, Progress, Schedule};

/// Effects below this do not matter, even if they are certain: 3 points.
pub const LEAST_EFFECT: f64 = 0.03;

/// What effects are off by besides chance, in 95 of 100 cases: a virtual speed-up is not quite a real one. Measured with
/// the lab's causal programs.
pub const METHOD_ERROR: f64 = 0.035;
/// The same, where threads wait for each other more often than once in [`SAMPLES_PER_WAIT`] samples.
pub const COARSE_ERROR: f64 = 0.06;
/// With fewer samples between two waits, delays come late, and in larger steps than the program's own.
pub const SAMPLES_PER_WAIT: f64 = 5.0;
