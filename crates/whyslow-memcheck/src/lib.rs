//! What Valgrind's memcheck reports, as findings. Pure: it starts nothing and reads no files.
//!
//! ```text
//! xml          bytes → elements; tolerant: cut off, out of order, nested too deeply
//! report       elements → what memcheck says of each process
//! descriptors  the log's list of open file descriptors
//! address      memcheck's words about an address → numbers
//! title        a report → its kind and a sentence
//! finding      reports of all processes → findings, equal ones grouped
//! known        harmless reports, each with the reason why it is suppressed
//! ```

mod address;
mod descriptors;
mod finding;
mod kind;
pub mod known;
mod report;
mod title;
mod xml;

pub use address::{Address, Block, Relation};
pub use descriptors::{OpenDescriptor, open_descriptors};
pub use finding::{Answer, Completeness, Finding, Judge, Occurrence, Place, Site, Suppressed, findings};
pub use kind::{Kind, Severity};
pub use report::{Crash, Frame, Leaked, Note, Process, Report, State, read};
