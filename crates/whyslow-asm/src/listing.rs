//! Everything shown for one function: its code, samples, source and hints.

use std::collections::HashMap;
use whyslow_profile::{Trigger, Unit};

use crate::body::Body;
use crate::hints::{Hint, Machine};
use crate::language::Language;
use crate::vectors::Vectors;
use crate::weights::Weights;

/// A function at an instruction: the one that contains the code, or one inlined into it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// Its name.
    pub function: String,
    /// The file of the line.
    pub file: Option<String>,
    /// The line; 0 if unknown.
    pub line: u32,
}

/// How samples are measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measure {
    /// The name of the metric.
    pub metric: String,
    /// The unit of its values.
    pub unit: Unit,
    /// What triggered the samples.
    pub trigger: Trigger,
    /// The value of all selected samples, in this function and all others.
    pub whole: u64,
}

/// A function with everything that is shown for it.
#[derive(Debug, Clone)]
pub struct Listing {
    /// Its name.
    pub function: String,
    /// The file that contains its code.
    pub module: String,
    /// Its code.
    pub body: Body,
    /// Its samples.
    pub weights: Weights,
    /// How they are measured; none without a recording.
    pub measure: Option<Measure>,
    /// The functions at each instruction, from the outermost to the innermost inlined one; empty if unknown.
    pub frames: Vec<Vec<SourceFrame>>,
    /// Texts of source lines, by file and line.
    pub sources: HashMap<(String, u32), String>,
    /// The machine that ran it, or that will.
    pub machine: Machine,
    /// The language of code whose file is unknown.
    pub language: Language,
    /// Its hints.
    pub hints: Vec<Hint>,
    /// Further notes, in sentences.
    pub notes: Vec<String>,
}

impl Listing {
    /// Where the function's source starts: the first line of its own code.
    pub fn place(&self) -> Option<(&str, u32)> {
        let outer = self.frames.iter().filter_map(|frames| frames.first());
        let known = outer.filter(|frame| frame.line > 0);
        known.filter_map(|frame| Some((frame.file.as_deref()?, frame.line))).min_by_key(|(_, line)| *line)
    }

    /// The line of an instruction in its innermost function.
    pub fn line_of(&self, instruction: usize) -> Option<(&str, u32)> {
        let frame = self.frames.get(instruction)?.last()?;
        Some((frame.file.as_deref()?, frame.line)).filter(|(_, line)| *line > 0)
    }

    /// The line of an instruction in the function itself, whatever is inlined there.
    pub fn own_line_of(&self, instruction: usize) -> Option<(&str, u32)> {
        let frame = self.frames.get(instruction)?.first()?;
        Some((frame.file.as_deref()?, frame.line)).filter(|(_, line)| *line > 0)
    }

    /// Whether the compiler vectorised a loop; `None` if that is no question for it.
    pub fn vectors(&self, at: usize) -> Option<Vectors> {
        Vectors::of(&self.body, at, &self.weights, &self.hints, &self.machine)
    }

    /// What to do about a hint, in the language of its code.
    pub fn advice(&self, hint: &Hint) -> &'static str {
        let at = hint.addresses.first().and_then(|&address| self.body.instruction_at(address));
        let frames = at.and_then(|at| self.frames.get(at)).map_or(&[][..], Vec::as_slice);
        let files = frames.iter().rev().filter_map(|frame| frame.file.as_deref());
        let language = files.filter_map(Language::of_file).next().unwrap_or(self.language);
        hint.advice.in_language(language)
    }

    /// Samples in the function's own code.
    pub fn own(&self) -> u64 {
        self.weights.own.iter().fold(0, |sum, &weight| sum.saturating_add(weight))
    }

    /// A note on how precisely samples hit instructions.
    pub fn skid(&self) -> Option<&'static str> {
        skid(self.measure.as_ref()?.trigger)
    }
}

/// A note on how precisely samples of this trigger hit instructions.
pub fn skid(trigger: Trigger) -> Option<&'static str> {
    match trigger {
        Trigger::Cycles => {
            Some("Samples fall on the instruction that waits to retire, usually the one after the slow one.")
        }
        Trigger::CpuClock => Some(
            "Samples were taken by the kernel's clock, whose interrupts arrive a few instructions late: trust loops and blocks, not single \
             instructions.",
        ),
        Trigger::Timer => Some(
            "Samples were taken by a timer in the program, whose signals arrive where the kernel resumes the program: trust loops and blocks, \
             not single instructions.",
        ),
        Trigger::Ptrace => Some(
            "Samples were taken by stopping the thread with ptrace: trust loops and blocks, not single instructions.",
        ),
        Trigger::Event | Trigger::Unknown => None,
    }
}
