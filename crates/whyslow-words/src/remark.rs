//! Remarks: everything that whyslow says besides numbers, in one form.
//!
//! ```text
//! remark = id, what it is about, how much it matters, one text, and the fix where there is one
//! ```
//! Each family of facts (quality warnings, notes of recorders and importers, caveats of `diff`, heap advice,
//! losses of an export, the doctor's checks) is an enum that implements [`Fact`]. Its one function builds the
//! remark, so every view uses the same words for a fact. A view has one way to show remarks.

/// How much a remark matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// As it should be.
    Fine,
    /// Good to know.
    Note,
    /// Something is missing from the answer.
    Warning,
    /// The answer may be wrong, or there is none.
    Serious,
}

impl Severity {
    /// The word used in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Fine => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Serious => "serious",
        }
    }
}

/// What a remark is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum About {
    /// The recording as a whole.
    Recording,
    /// The samples: how many there are and how they were taken.
    Samples,
    /// The frames of stacks.
    Stacks,
    /// Names of functions, and lines.
    Names,
    /// The program's own marks.
    Marks,
    /// Allocations.
    Heap,
    /// The leak check.
    Leaks,
    /// Counters.
    Counters,
    /// A comparison of recordings.
    Comparison,
    /// Another tool's format.
    Format,
    /// The machine.
    Machine,
    /// How a program was built.
    Build,
    /// What threads wait for.
    Waits,
    /// Experiments of causal profiling.
    Experiments,
}

impl About {
    /// The word used in JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Recording => "recording",
            Self::Samples => "samples",
            Self::Stacks => "stacks",
            Self::Names => "names",
            Self::Marks => "marks",
            Self::Heap => "heap",
            Self::Leaks => "leaks",
            Self::Counters => "counters",
            Self::Comparison => "comparison",
            Self::Format => "format",
            Self::Machine => "machine",
            Self::Build => "build",
            Self::Waits => "waits",
            Self::Experiments => "experiments",
        }
    }
}

/// One message to the user. Its texts may contain names from untrusted input: the view that shows them must
/// escape them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// A short name that never changes.
    pub id: &'static str,
    /// What it is about.
    pub about: About,
    /// How much it matters.
    pub severity: Severity,
    /// The message, without a full stop at its end.
    pub text: String,
    /// What to type or change, when something can be done.
    pub fix: Option<String>,
}

impl Remark {
    /// A remark of severity `note`, without a fix.
    pub fn note(id: &'static str, about: About, text: impl Into<String>) -> Self {
        Self { id, about, severity: Severity::Note, text: text.into(), fix: None }
    }

    /// Adds a fix.
    #[must_use]
    pub fn or(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// A fact that has a remark.
pub trait Fact {
    /// The remark for this fact.
    fn remark(&self) -> Remark;
}
