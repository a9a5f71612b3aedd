//! All that is shown of one function: its code, its samples, the source it was compiled from, its hints.

use std::collections::HashMap;
use whyslow_profile::{Trigger, Unit};

use crate::body::Body;
use crate::hints::Hint;
use crate::weights::Weights;

/// A function on the way to an instruction: the one that has the code, or one that was inlined into it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// Its name.
    pub function: String,
    /// The file of the line.
    pub file: Option<String>,
    /// The line; 0 when not known.
    pub line: u32,
}

/// What samples are counted in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// The name of the metric.
    pub metric: String,
    /// The unit of its values.
    pub unit: Unit,
    /// What triggered the samples.
    pub trigger: Trigger,
    /// The value of all samples that were selected, of this function and all others.
    pub whole: u64,
}

/// A function as it is shown.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Its name.
    pub function: String,
    /// The file that its code is in.
    pub module: String,
    /// Its code.
    pub body: Body,
    /// Its samples.
    pub weights: Weights,
    /// What those are; none where nothing was recorded.
    pub measure: Option<Measure>,
    /// For each instruction the functions from the outermost to the innermost inlined one; empty where nothing is known.
    pub frames: Vec<Vec<SourceFrame>>,
    /// Texts of source lines, by file and line.
    pub sources: HashMap<(String, u32), String>,
    /// What costs more than it must.
    pub hints: Vec<Hint>,
    /// What else a reader should know, in sentences.
    pub notes: Vec<String>,
}

impl Listing {
    /// Where the function's source begins: the first line that its own code has.
    pub fn place(&self) -> Option<(&str, u32)> {
        let outer = self.frames.iter().filter_map(|frames| frames.first());
        let known = outer.filter(|frame| frame.line > 0);
        known.filter_map(|frame| Some((frame.file.as_deref()?, frame.line))).min_by_key(|(_, line)| *line)
    }

    /// The line of an instruction: that of the innermost function.
    pub fn line_of(&self, instruction: usize) -> Option<(&str, u32)> {
        let frame = self.frames.get(instruction)?.last()?;
        Some((frame.file.as_deref()?, frame.line)).filter(|(_, line)| *line > 0)
    }

    /// The line of the function itself that an instruction belongs to, whatever was inlined there.
    pub fn own_line_of(&self, instruction: usize) -> Option<(&str, u32)> {
        let frame = self.frames.get(instruction)?.first()?;
        Some((frame.file.as_deref()?, frame.line)).filter(|(_, line)| *line > 0)
    }

    /// Samples of the function's own code.
    pub fn own(&self) -> u64 {
        self.weights.own.iter().fold(0, |sum, &weight| sum.saturating_add(weight))
    }

    /// What a reader has to know about where samples fall.
    pub fn skid(&self) -> Option<&'static str> {
        skid(self.measure.as_ref()?.trigger)
    }
}

/// What a reader has to know about where samples of this trigger fall.
pub fn skid(trigger: Trigger) -> Option<&'static str> {
    match trigger {
        Trigger::Cycles => Some(
            "Samples fall on the instruction that waits to be finished, mostly the one behind the one that takes the time.",
        ),
        Trigger::CpuClock => Some(
            "Samples were taken by the kernel's clock, whose interrupts come a few instructions late: trust loops and blocks, not single \
             instructions.",
        ),
        Trigger::Timer => Some(
            "Samples were taken by a timer in the program, whose signals come where the kernel lets the program go on: trust loops and blocks, \
             not single instructions.",
        ),
        Trigger::Look => Some(
            "Samples are looks from the outside, at which the thread was stopped: trust loops and blocks, not single instructions.",
        ),
        Trigger::Event | Trigger::Unknown => None,
    }
}
