//! What a rule is: data, and a small function where data do not do.

use whyslow_asm::Kind;
use whyslow_profile::Profile;

use crate::facts::Facts;
use crate::finding::{Confidence, Finding, Place};

/// A pattern that makes programs slow or big.
#[derive(Debug)]
pub struct Rule {
    /// A short name that stays the same for ever.
    pub id: &'static str,
    /// What is so, as a sentence without a full stop.
    pub title: &'static str,
    /// What to do in Rust.
    pub rust: &'static str,
    /// What to do in C and C++, where that is something else.
    pub native: Option<&'static str>,
    /// Its page in the documentation.
    pub page: &'static str,
    /// What shows it.
    pub(crate) signal: Signal,
}

impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// What a function is written in, by its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Rust, and whatever is not known.
    Rust,
    /// C, C++ and their kin.
    Native,
}

impl Language {
    /// By the name of a file.
    pub fn of(file: &str) -> Self {
        let end = file.rsplit('.').next().unwrap_or("");
        let is_native = ["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx", "ipp", "m", "mm"].contains(&end);
        if is_native { Self::Native } else { Self::Rust }
    }
}

impl Rule {
    /// What to do, for code in this language.
    pub fn advice(&self, language: Language) -> &'static str {
        match (language, self.native) {
            (Language::Native, Some(native)) => native,
            _ => self.rust,
        }
    }
}

/// Looks for a rule's pattern in what is known of a profile.
pub(crate) type FromFacts = fn(&'static Rule, &Facts<'_>) -> Vec<Finding>;

/// What shows a pattern.
pub(crate) enum Signal {
    /// Names on stacks of CPU time.
    Frames(Frames),
    /// Machine code of hot loops.
    Code(InCode),
    /// Anything else.
    Facts(FromFacts),
}

impl Signal {
    /// What looks at facts, if anything does.
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

/// Hints on machine code that show a pattern.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InCode {
    pub(crate) kinds: &'static [Kind],
    /// Whether all of the loop is what it costs, and not only the instructions that show it.
    pub(crate) whole_loop: bool,
    /// The part of the loop's time that can go away at most.
    pub(crate) gain: f64,
    /// The share from which on it is told.
    pub(crate) least: f64,
}

impl InCode {
    pub(crate) const fn of_loop(kinds: &'static [Kind]) -> Self {
        Self { kinds, whole_loop: true, gain: 1.0, least: 0.10 }
    }

    pub(crate) const fn of_weight(kinds: &'static [Kind]) -> Self {
        Self { kinds, whole_loop: false, gain: 1.0, least: 0.03 }
    }

    pub(crate) const fn gain(self, gain: f64) -> Self {
        Self { gain, ..self }
    }

    pub(crate) const fn least(self, least: f64) -> Self {
        Self { least, ..self }
    }
}

/// Names of functions that show a pattern, as regular expressions. All of a sample beneath such a function is the pattern's, once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames {
    /// The functions.
    pub(crate) names: &'static [&'static str],
    /// No match where one of these is outside of it.
    pub(crate) unless: &'static [&'static str],
    /// A match only where one of these is beneath it, or is the match itself.
    pub(crate) needs: &'static [&'static str],
    /// Functions beneath it that show that it is something else: no finding where they have a third of it.
    pub(crate) refuted_by: &'static [&'static str],
    /// Functions beneath it from which on it is something else: no match for what is in them.
    pub(crate) ended_by: &'static [&'static str],
    /// What has to be true of the responsible line.
    pub(crate) line: Option<fn(&Profile, &Place) -> bool>,
    /// What the user's code calls where all of it happens on threads of others: the name of a pool's functions.
    pub(crate) entry: Option<&'static str>,
    /// Rules whose part in the same function is this one's too: what is cloned is dropped again.
    pub(crate) absorbs: &'static [&'static str],
    /// What beneath the functions still belongs to them.
    pub(crate) beneath: Beneath,
    /// The share from which on it is told.
    pub(crate) least: f64,
    /// As sure as it can be by names alone.
    pub(crate) most: Confidence,
    /// Whether several threads have to do it.
    pub(crate) needs_threads: bool,
    /// What else shows it: a finding of its own where names are silent, more evidence where they are not.
    pub(crate) facts: Option<FromFacts>,
}

impl Frames {
    /// Told from 3 % on; code of others beneath it is not part of it.
    pub(crate) const fn new(names: &'static [&'static str]) -> Self {
        Self {
            names,
            unless: &[],
            needs: &[],
            refuted_by: &[],
            ended_by: &[],
            line: None,
            entry: None,
            absorbs: &[],
            beneath: Beneath::Std,
            least: 0.03,
            most: Confidence::High,
            needs_threads: false,
            facts: None,
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

    pub(crate) const fn refuted_by(self, refuted_by: &'static [&'static str]) -> Self {
        Self { refuted_by, ..self }
    }

    pub(crate) const fn ended_by(self, ended_by: &'static [&'static str]) -> Self {
        Self { ended_by, ..self }
    }

    pub(crate) const fn on_line(self, line: fn(&Profile, &Place) -> bool) -> Self {
        Self { line: Some(line), ..self }
    }

    pub(crate) const fn entered_by(self, entry: &'static str) -> Self {
        Self { entry: Some(entry), ..self }
    }

    pub(crate) const fn absorbs(self, absorbs: &'static [&'static str]) -> Self {
        Self { absorbs, ..self }
    }

    pub(crate) const fn or_by(self, facts: FromFacts) -> Self {
        Self { facts: Some(facts), ..self }
    }

    pub(crate) const fn of_threads(self) -> Self {
        Self { needs_threads: true, ..self }
    }
}

/// What beneath a function that shows a pattern still belongs to it. Implementations of traits of std always do: `Clone::clone` of the user's own type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beneath {
    /// The standard library, the allocator and the kernel.
    Std,
    /// Closures too.
    Closures,
    /// Everything.
    All,
}
