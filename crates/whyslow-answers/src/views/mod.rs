//! The views of a profile, a file per family, and the one list of them.

mod caches;
mod causal;
mod code;
mod heap;
mod threads;
mod waits;

use whyslow_analyze::heap::{has_heap, is_heap_only};
use whyslow_explain::Topic;
use whyslow_profile::{Profile, Samples};

pub use self::caches::CACHE;
pub use self::causal::CAUSAL;
pub use self::code::{CALLERS, CRATES, FUNCTIONS, LINES, MODULES, TREE};
pub use self::heap::{HEAP, LEAKS, MEMORY};
pub use self::threads::{PARALLELISM, SPANS, TASKS, THREADS};
pub use self::waits::{CRITICAL_PATH, LOCKS, SYSCALLS, WAITS};
use crate::answer::Body;
use crate::filters::Narrowing;
use crate::query::{Detail, Query};
use crate::refusal::Refusal;
use crate::summary::Summary;

/// A view of a profile.
pub struct View {
    /// Its name.
    pub name: &'static str,
    /// What a user types, and what it shows. Empty for a view that shares the line of the one before.
    pub help: &'static [(&'static str, &'static str)],
    /// Whether it takes a function.
    pub function: Needs,
    /// Whether it consists of samples, so that filters which no sample passes are an error. Other views have
    /// their own data: waits, calls, threads.
    pub of_samples: bool,
    /// Whether it shows waits, whatever metric is requested.
    pub of_waits: bool,
    /// What it is about, if it shows findings.
    pub topic: Option<Topic>,
    /// Why it cannot be shown, if so.
    pub(crate) refusal: fn(&Profile, Detail, Narrowing) -> Option<Refusal>,
    pub(crate) body: fn(&Query, &Profile) -> Result<Body, Refusal>,
}

/// Whether a view takes the name of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// It takes none.
    Nothing,
    /// It is about one function, or about all.
    MaybeOne,
    /// It is about one function.
    One,
}

/// All views, in the order of the help.
pub static ALL: [&View; 21] = [
    &SUMMARY,
    &FUNCTIONS,
    &TREE,
    &CALLERS,
    &LINES,
    &THREADS,
    &MODULES,
    &CRATES,
    &SPANS,
    &WAITS,
    &LOCKS,
    &CRITICAL_PATH,
    &TASKS,
    &PARALLELISM,
    &SYSCALLS,
    &HEAP,
    &LEAKS,
    &MEMORY,
    &CACHE,
    &CAUSAL,
    &QUALITY,
];

/// One screen about everything.
pub static SUMMARY: View = View {
    name: "summary",
    help: &[("summary", "the answer after a recording: one screen about everything")],
    function: Needs::Nothing,
    of_samples: false,
    of_waits: false,
    topic: None,
    refusal: |_, _, narrowing| (narrowing > Narrowing::None).then_some(Refusal::SummaryOfAPart),
    body: |query, profile| Ok(Body::Summary(Box::new(Summary::of(query, profile)))),
};

/// How far to trust the profile.
pub static QUALITY: View = View {
    name: "quality",
    help: &[("quality", "how far to trust the profile")],
    function: Needs::Nothing,
    of_samples: true,
    of_waits: false,
    topic: None,
    refusal: never,
    body: |query, profile| Ok(Body::Quality { value: query.weights(profile).total_value }),
};

/// The view with this name.
pub fn named(name: &str) -> Option<&'static View> {
    ALL.into_iter().find(|view| view.name == name)
}

/// The view to show if none was requested: the functions, the experiments if there are no samples, or for a person the
/// caches of a simulated program, or the heap if nothing else was recorded.
pub fn default_of(profile: &Profile, detail: Detail, narrowing: Narrowing) -> &'static View {
    if !profile.causal.experiments.is_empty() && profile.samples.iter().all(Samples::is_empty) {
        return &CAUSAL;
    }
    let is_screen = detail == Detail::Screen && narrowing == Narrowing::None;
    if is_screen
        && profile
            .meta
            .simulation
            .as_ref()
            .is_some_and(|facts| !facts.tool.is_empty() && !facts.caches.is_empty())
    {
        return &CACHE;
    }
    let of_heap = detail == Detail::Screen && narrowing == Narrowing::None && is_all_heap(profile);
    if of_heap { &HEAP } else { &FUNCTIONS }
}

/// Whether the heap was recorded completely, and nothing else was.
pub(crate) fn is_all_heap(profile: &Profile) -> bool {
    has_heap(profile) && is_heap_only(profile)
}

/// For views that work for every profile.
const fn never(_: &Profile, _: Detail, _: Narrowing) -> Option<Refusal> {
    None
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filters::Filters;
    use crate::refusal::Missing;
    use whyslow_analyze::testing::profile;

    #[test]
    fn names_are_unique_and_lead_to_their_views() {
        for (at, view) in ALL.iter().enumerate() {
            assert_eq!(named(view.name), Some(*view));
            assert!(ALL[..at].iter().all(|other| other.name != view.name), "{}", view.name);
        }
        assert_eq!(named("flame"), None);
    }

    #[test]
    fn each_view_answers_or_says_what_is_missing() {
        let mut profile = profile("main: app::main@m.rs:1;app::parse@m.rs:2 70\nworker: app::work@m.rs:3 30");
        for view in ALL {
            let query = Query::new(view, Detail::Complete, &Filters::default(), &mut profile);
            let query = query.map(|query| match view.function {
                Needs::One => query.about("parse"),
                Needs::Nothing | Needs::MaybeOne => query,
            });
            let answer = query.as_ref().map_err(Clone::clone).and_then(|query| query.answer(&profile));
            let missing = match view.name {
                "waits" => Some(Missing::Waits),
                "locks" => Some(Missing::Locks),
                "critical-path" => Some(Missing::Wakers),
                "syscalls" => Some(Missing::Syscalls),
                "heap" | "leaks" | "memory" => Some(Missing::Heap),
                "cache" => Some(Missing::Simulation),
                "causal" => Some(Missing::Experiments),
                _ => None,
            };
            match (answer, missing) {
                (Ok(answer), None) => assert_eq!(answer.query.view, view),
                (Err(Refusal::NotRecorded { missing, noted: None }), Some(expected)) => {
                    assert_eq!(missing, expected, "{}", view.name);
                }
                (answer, _) => panic!("{}: {answer:?}", view.name),
            }
        }
    }

    #[test]
    fn a_function_is_named_exactly_if_the_view_takes_one() {
        assert_eq!(CALLERS.check_function(None), Err(Refusal::NeedsFunction { view: "callers" }));
        let refusal = Refusal::TakesNoFunction { function: "f".to_owned() };
        assert_eq!(TREE.check_function(Some("f")), Err(refusal));
        assert_eq!(LINES.check_function(None), Ok(()));
        assert_eq!(LINES.check_function(Some("f")), Ok(()));
    }
}
