//! The browser viewer: the payload with a profile, a comparison or results of `whyslow bench`, and the pages
//! that hold it.
//!
//! `viewer/PAYLOAD.md` describes the payload. The viewer itself is the bundle in `viewer/dist`, built from
//! `viewer/src` and embedded here, so that a page loads nothing from elsewhere.

mod base64;
mod bench;
mod causal;
mod changes;
mod code;
mod container;
mod findings;
mod heap;
mod page;
mod parallelism;
mod payload;
mod sha256;
mod syscalls;
mod tasks;
mod texts;
mod waits;

pub use bench::BenchPage;
pub use changes::ChangesView;
pub use findings::Explained;
pub use page::{Bundle, Content, Page, served_page, served_policy, write_page, write_payload};
pub use payload::{first_view, view_of_metric};
