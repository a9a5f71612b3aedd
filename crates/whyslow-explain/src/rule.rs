//! Rules: data, plus a small function where data is not enough.

use whyslow_asm::{Kind, Language};
use whyslow_profile::Profile;

use crate::facts::Facts;
use crate::finding::{Confidence, Finding, Place};
use crate::rules::RuleId;

/// A known pattern that costs time or memory.
#[derive(Debug)]
pub struct Rule {
    /// Its name.
    pub id: RuleId,
    /// What the pattern is, without a full stop.
    pub title: &'static str,
    /// What to do in Rust.
    pub rust: &'static str,
    /// What to do in C and C++, if that differs.
    pub native: Option<&'static str>,
    /// What the rule looks at.
    pub(crate) signal: Signal,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Rule {
    /// What to do, for code in this language. Empty for languages without advice.
    pub fn advice(&self, language: Language) -> &'static str {
        match (language, self.native) {
            (Language::Native, Some(native)) => native,
            (Language::Native | Language::Rust, _) => self.rust,
            _ => "",
        }
    }
}

impl Rule {
    /// Whether its share is that of a whole loop, not only of what the rule is about.
    pub fn is_about_loop(&self) -> bool {
        matches!(&self.signal, Signal::Code(code) if code.whole_loop)
    }
}

/// Finds a rule's pattern in the analyses of a profile.
pub(crate) type FromFacts = fn(&'static Rule, &Facts<'_>) -> Vec<Finding>;

/// Where a rule looks for its pattern.
pub(crate) enum Signal {
    /// Function names on CPU stacks.
    Frames(Frames),
    /// Machine code of hot loops.
    Code(InCode),
    /// Anything else.
    Facts(FromFacts),
}

impl Signal {
    /// The function that looks at facts, if the rule has one.
    pub(crate) fn facts(&self) -> Option<FromFacts> {
        match self {
            Self::Frames(frames) => frames.facts,
            Self::Code(_) => None,
            Self::Facts(find) => Some(*find),
        }
    }
}

impl std::fmt::Debug for Signal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Frames(_) => "Frames",
            Self::Code(_) => "Code",
            Self::Facts(_) => "Facts",
        })
    }
}

/// The machine-code hints that show a pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InCode {
    pub(crate) kinds: &'static [Kind],
    /// Whether the whole loop counts as its cost, not only the instructions that show it.
    pub(crate) whole_loop: bool,
    /// The smallest share at which it is reported.
    pub(crate) least: f64,
}

impl InCode {
    pub(crate) const fn of_loop(kinds: &'static [Kind]) -> Self {
        Self { kinds, whole_loop: true, least: 0.10 }
    }

    pub(crate) const fn of_weight(kinds: &'static [Kind]) -> Self {
        Self { kinds, whole_loop: false, least: 0.05 }
    }

    pub(crate) const fn least(self, least: f64) -> Self {
        Self { least, ..self }
    }
}

/// Regular expressions for the names of functions that show a pattern. A sample anywhere beneath such a
/// function counts once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    /// The functions.
    pub(crate) names: &'static [&'static str],
    /// No match if one of these is an outer frame.
    pub(crate) unless: &'static [&'static str],
    /// A match only if one of these is beneath it, or is the match itself.
    pub(crate) needs: &'static [&'static str],
    /// Functions beneath it that show a different cause.
    pub(crate) refuted_by: &'static [&'static str],
    /// There is no finding if those functions have this part of its value.
    pub(crate) refuted_at: f64,
    /// Functions that end the pattern: time in them does not count, and they do not show it themselves.
    pub(crate) ended_by: &'static [&'static str],
    /// Functions anywhere in the profile that show that the program needs what the pattern costs.
    pub(crate) needed_for: &'static [&'static str],
    /// The share of the samples beneath those functions that shows it.
    pub(crate) needed_at: f64,
    /// Those of its functions that end a round. A quarter of the pattern has to come after the first end of the same
    /// process, and a part of it has to be in the ends.
    pub(crate) rounds_end_in: &'static [&'static str],
    /// The smallest part of the pattern that one function is responsible for.
    pub(crate) least_of_function: f64,
    /// A condition on the responsible line.
    pub(crate) line: Option<fn(&Profile, &Place) -> bool>,
    /// The pool functions that the user's code calls, for patterns that run only on a pool's own threads.
    pub(crate) entry: Option<&'static str>,
    /// Rules whose share in the same function counts for this rule too: a clone is also dropped.
    pub(crate) absorbs: &'static [RuleId],
    /// Which frames beneath the functions still belong to the pattern.
    pub(crate) beneath: Beneath,
    /// The smallest share at which it is reported.
    pub(crate) least: f64,
    /// The highest confidence that names alone can give.
    pub(crate) most: Confidence,
    /// Whether at least two threads have to show it.
    pub(crate) needs_threads: bool,
    /// Whether most of its time is in the kernel, which may not have been sampled.
    pub(crate) is_in_kernel: bool,
    /// A second source: more evidence if names match, its own finding if they do not.
    pub(crate) facts: Option<FromFacts>,
    /// Machine code that shows the pattern where names do not: inlined, or built without debug info.
    pub(crate) code: Option<InCode>,
}

impl Frames {
    /// Reported from 5 % on. Of the frames beneath it, only std, the allocator and the kernel belong to it.
    pub(crate) const fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            unless: &[],
            needs: &[],
            refuted_by: &[],
            refuted_at: 1.0 / 3.0,
            ended_by: &[],
            needed_for: &[],
            needed_at: 0.0,
            rounds_end_in: &[],
            least_of_function: 0.0,
            line: None,
            entry: None,
            absorbs: &[],
            beneath: Beneath::Std,
            least: 0.05,
            most: Confidence::High,
            needs_threads: false,
            is_in_kernel: false,
            facts: None,
            code: None,
        }
    }

    pub(crate) const fn least(self, least: f64) -> Self {
        Self { least, ..self }
    }

    pub(crate) const fn with(self, beneath: Beneath) -> Self {
        Self { beneath, ..self }
    }

    pub(crate) const fn at_most(self, most: Confidence) -> Self {
        Self { most, ..self }
    }

    pub(crate) const fn unless(self, unless: &'static [&'static str]) -> Self {
        Self { unless, ..self }
    }

    pub(crate) const fn needs(self, needs: &'static [&'static str]) -> Self {
        Self { needs, ..self }
    }

    pub(crate) const fn refuted_by(self, refuted_by: &'static [&'static str], refuted_at: f64) -> Self {
        Self { refuted_by, refuted_at, ..self }
    }

    pub(crate) const fn ended_by(self, ended_by: &'static [&'static str]) -> Self {
        Self { ended_by, ..self }
    }

    pub(crate) const fn needed_for(self, needed_for: &'static [&'static str]) -> Self {
        Self { needed_for, ..self }
    }

    pub(crate) const fn needed_at(self, needed_at: f64) -> Self {
        Self { needed_at, ..self }
    }

    pub(crate) const fn rounds_end_in(self, rounds_end_in: &'static [&'static str]) -> Self {
        Self { rounds_end_in, ..self }
    }

    pub(crate) const fn in_one_function(self, least_of_function: f64) -> Self {
        Self { least_of_function, ..self }
    }

    pub(crate) const fn on_line(self, line: fn(&Profile, &Place) -> bool) -> Self {
        Self { line: Some(line), ..self }
    }

    pub(crate) const fn entered_by(self, entry: &'static str) -> Self {
        Self { entry: Some(entry), ..self }
    }

    pub(crate) const fn absorbs(self, absorbs: &'static [RuleId]) -> Self {
        Self { absorbs, ..self }
    }

    pub(crate) const fn or_by(self, facts: FromFacts) -> Self {
        Self { facts: Some(facts), ..self }
    }

    pub(crate) const fn in_kernel(self) -> Self {
        Self { is_in_kernel: true, ..self }
    }

    pub(crate) const fn or_in_code(self, code: InCode) -> Self {
        Self { code: Some(code), ..self }
    }

    pub(crate) const fn of_threads(self) -> Self {
        Self { needs_threads: true, ..self }
    }
}

/// Which frames beneath a matching function still belong to the pattern. Implementations of std traits, such
/// as `Clone::clone` of a user's type, always do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beneath {
    /// The standard library, the allocator and the kernel.
    Std,
    /// Closures too.
    Closures,
    /// Everything.
    All,
}
