//! Questions to a profile, and their answers as values. The command line, the viewer's server and other front ends
//! are adapters: they resolve their arguments into a [`Query`], and show the [`Answer`].
//!
//! Nothing here knows arguments, terminals, files or the environment. The steps are:
//!
//! 1. [`Filters`] are what a user writes. [`Query::new`] resolves them for one profile.
//! 2. [`Query::answer`] computes the answer: a pure function over the profile.
//! 3. `whyslow-render` shows an answer as text or JSON.
//!
//! ```
//! use whyslow_answers::{Body, Detail, Filters, Query, Refusal, views};
//!
//! let mut profile = whyslow_analyze::testing::profile(
//!     "main: app::main;app::parse 70
//!      main: app::main;app::print 10
//!      worker: app::work 20",
//! );
//!
//! // Which function costs most on the main thread?
//! let main = Filters { threads: vec!["main".to_owned()], ..Filters::default() };
//! let query = Query::new(&views::FUNCTIONS, Detail::Screen, &main, &mut profile)?;
//! let answer = query.answer(&profile)?;
//! let Body::Functions(functions) = &answer.body else { panic!("another body") };
//! let first = &functions.own.rows[0];
//! assert_eq!(whyslow_analyze::CallTree::name(&profile, first.label), "app::parse");
//! assert_eq!(functions.own.own_share(first).value, 70.0 / 80.0);
//!
//! // Who calls it?
//! let all = Filters::default();
//! let query = Query::new(&views::CALLERS, Detail::Complete, &all, &mut profile)?.about("parse");
//! let answer = query.answer(&profile)?;
//! let Body::Callers(callers) = &answer.body else { panic!("another body") };
//! assert_eq!((callers.total_value, callers.whole_samples), (70_000_000, 100));
//!
//! // Where does it wait? A refusal is a value as well.
//! let refusal = Query::new(&views::WAITS, Detail::Screen, &all, &mut profile).unwrap_err();
//! assert!(matches!(refusal, Refusal::NotRecorded { .. }));
//! # Ok::<(), Refusal>(())
//! ```

pub mod allowed;
mod answer;
mod filters;
mod findings;
mod query;
mod refusal;
mod summary;
pub mod views;

pub use answer::{Answer, Body, Functions, Heap, PartOfHeap, Tree};
pub use filters::{Filters, MetricChoice, Narrowing, unless_regex};
pub use findings::whole_explanation;
pub use query::{Detail, Query, Ranking};
pub use refusal::{FilterError, FilterName, Missing, Refusal};
pub use summary::{EventTotal, HeapTotal, Summary};
