//! One diagnosed cause, with what speaks for it.

use whyslow_analyze::Label;
use whyslow_profile::{StackId, StringId};

use crate::rule::Rule;

/// A line of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The function.
    pub label: Label,
    /// The file of the line.
    pub file: Option<StringId>,
    /// The line; 0 when not known.
    pub line: u32,
}

/// What a share is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// CPU time.
    Cpu,
    /// The time of all threads, running and waiting.
    Time,
    /// From start to end.
    Elapsed,
    /// How often memory is allocated.
    Allocations,
    /// Bytes that are allocated.
    Bytes,
    /// Bytes at the peak of the heap.
    Peak,
}

impl Cost {
    /// The words in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Time => "the time of all threads",
            Self::Elapsed => "elapsed time",
            Self::Allocations => "allocations",
            Self::Bytes => "allocated bytes",
            Self::Peak => "peak memory",
        }
    }

    /// Whether less of it means that a program ends sooner.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Cpu | Self::Time | Self::Elapsed)
    }
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Few samples, or a pattern that has other causes too.
    Low,
    /// Likely; look before you change anything.
    Medium,
    /// It is so.
    High,
}

impl Confidence {
    /// The word in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// Something that speaks for a finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// What; the name of the place's function follows.
    pub text: String,
    /// Where.
    pub place: Option<Place>,
    /// Its share, of what the finding's is of.
    pub share: Option<f64>,
}

/// One diagnosed cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// What it is known as.
    pub rule: &'static Rule,
    /// One plain sentence, without a full stop.
    pub title: String,
    /// What the share is of.
    pub of: Cost,
    /// The share that it explains, from 0 to 1.
    pub share: f64,
    /// The interval that holds the true share in 95 of 100 cases.
    pub interval: [f64; 2],
    /// How sure it is.
    pub confidence: Confidence,
    /// The line of the user's code that is responsible, or the nearest to it.
    pub place: Option<Place>,
    /// What speaks for it.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// How many times as fast it can become at most, where it is about time.
    pub max_speedup: Option<f64>,
    /// The command that tells afterwards whether it helped.
    pub verify: String,
    /// The stacks that show it, for pictures.
    pub stacks: Vec<StackId>,
    /// What each line has of the share, the most first. Lines where it is allowed are taken off.
    pub places: Vec<(Place, f64)>,
}
