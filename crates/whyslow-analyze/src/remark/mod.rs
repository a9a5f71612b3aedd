//! Whatever the user is told besides numbers, in one form.
//!
//! ```text
//! remark = id, what it is about, how much it matters, one text, and the fix where there is one
//! ```
//! Each family of facts (warnings of quality, notes of recorders and importers, caveats of `diff`, advice on the heap, what an export
//! leaves out, the doctor's checks) is an enum that is a [`Fact`]: its one function makes the remark, so that a fact is told in
//! the same words by every view. A view has one way to show remarks.

mod heap_notes;
mod import_notes;
mod leak_check;
mod recording_notes;

pub(crate) use leak_check::leak_check_fix;
pub use leak_check::no_leak_check;
use whyslow_profile::Note;

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
    /// The samples: how many there are and how they came.
    Samples,
    /// The frames of stacks.
    Stacks,
    /// Names of functions, and lines.
    Names,
    /// What the program marks itself.
    Marks,
    /// Allocations.
    Heap,
    /// The search for leaks.
    Leaks,
    /// What was counted.
    Counters,
    /// Two recordings beside each other.
    Comparison,
    /// Another tool's format.
    Format,
    /// The machine.
    Machine,
    /// How a program was built.
    Build,
    /// What threads wait for.
    Waits,
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
        }
    }
}

/// What the user is told. Its texts may hold names from strangers: whoever shows them makes them harmless.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remark {
    /// A short name that stays the same for ever.
    pub id: &'static str,
    /// What it is about.
    pub about: About,
    /// How much it matters.
    pub severity: Severity,
    /// What is so, without a full stop at its end.
    pub text: String,
    /// What to type or change, when something can be done.
    pub fix: Option<String>,
}

impl Remark {
    /// Something that is good to know, without a fix.
    pub fn note(id: &'static str, about: About, text: impl Into<String>) -> Self {
        Self { id, about, severity: Severity::Note, text: text.into(), fix: None }
    }

    /// The same with a fix.
    #[must_use]
    pub fn or(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// Something that is known and can be told.
pub trait Fact {
    /// The words for it.
    fn remark(&self) -> Remark;
}

/// The id of a sentence in a file of another version.
pub(crate) const SENTENCE: &str = "recorder-note";

impl Fact for Note {
    fn remark(&self) -> Remark {
        match self {
            Self::Recording(note) => note.remark(),
            Self::Heap(note) => note.remark(),
            Self::Import(note) => note.remark(),
            Self::Text(text) => Remark::note(SENTENCE, About::Recording, text.clone()),
        }
    }
}
