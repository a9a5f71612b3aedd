//! Words for people, which every crate that says something shares: remarks with their severity and fix, numbers with
//! their units, the names that a misspelled word may mean, and words quoted for the shell.
//!
//! It depends on no other crate of this project, so that analysis and comparison stay pure.

mod cpus;
mod nearest;
mod remark;
mod shell;
mod units;

pub use cpus::{cpu_list, cpu_words};
pub use nearest::nearest;
pub use remark::{About, Fact, Remark, Severity};
pub use shell::{command_line, description, quoted, quoted_path};
pub use units::{Count, Percent, bytes, duration, number_of, times};
