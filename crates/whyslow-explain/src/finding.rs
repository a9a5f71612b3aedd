//! A finding: one diagnosed cause and its evidence.

use whyslow_analyze::{CallTree, Label, Share, StackFrame};
use whyslow_asm::Language;
use whyslow_profile::simulation::D1_MISSES;
use whyslow_profile::{StackId, StringId};

use crate::Question;
use crate::allocator;
use crate::language::language_of;
use crate::order::speedup;
use crate::rule::Rule;

/// A line of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Place {
    /// The function.
    pub label: Label,
    /// The file of the line.
    pub file: Option<StringId>,
    /// The line; 0 if unknown.
    pub line: u32,
}

impl From<StackFrame> for Place {
    fn from(frame: StackFrame) -> Self {
        Self { label: frame.label, file: frame.file, line: frame.line }
    }
}

/// What a share is a share of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cost {
    /// CPU time.
    Cpu,
    /// The time of all threads, running and waiting.
    Time,
    /// Wall time of the whole run.
    Elapsed,
    /// The number of allocations.
    Allocations,
    /// Allocated bytes.
    Bytes,
    /// Live bytes at the heap's peak.
    Peak,
    /// Misses of the simulated first-level data cache.
    Misses,
}

impl Cost {
    /// Its name in text and JSON.
    pub fn label(self) -> &'static str {
        match self {
            Self::Cpu => "CPU time",
            Self::Time => "the time of all threads",
            Self::Elapsed => "elapsed time",
            Self::Allocations => "allocations",
            Self::Bytes => "allocated bytes",
            Self::Peak => "peak memory",
            Self::Misses => "simulated D1 misses",
        }
    }

    /// The metric that shows a change in this cost. `None` is the main metric.
    pub fn metric(self) -> Option<&'static str> {
        match self {
            Self::Cpu | Self::Elapsed => None,
            Self::Time => Some("wall-time"),
            Self::Allocations => Some("allocations"),
            Self::Bytes => Some("bytes-allocated"),
            Self::Peak => Some("live-at-peak"),
            Self::Misses => Some(D1_MISSES),
        }
    }

    /// Whether it is time, so that less of it makes a program faster.
    pub fn is_time(self) -> bool {
        matches!(self, Self::Cpu | Self::Time | Self::Elapsed)
    }
}

/// The confidence in a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Few samples, or a pattern that can have other causes.
    Low,
    /// Likely. Check before you change anything.
    Medium,
    /// Certain.
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

/// A piece of evidence for a finding.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// The text. If there is a place, its function's name follows.
    pub text: String,
    /// The line it is about.
    pub place: Option<Place>,
    /// Its share, of the same total as the finding's.
    pub share: Option<f64>,
    /// The system call that it counts.
    pub call: Option<StringId>,
}

impl Evidence {
    /// Text without a place.
    pub(crate) fn words(text: String) -> Self {
        Self { text, place: None, share: None, call: None }
    }

    /// A line and its share.
    pub(crate) fn at(text: impl Into<String>, place: Place, share: f64) -> Self {
        Self { text: text.into(), place: Some(place), share: Some(share), call: None }
    }
}

/// A share and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    pub(crate) share: f64,
    pub(crate) interval: [f64; 2],
}

impl Measured {
    /// A share of an exact count.
    pub(crate) fn counted(part: u64, whole: u64) -> Self {
        let share = (part as f64 / whole.max(1) as f64).min(1.0);
        Self { share, interval: [share; 2] }
    }

    /// A share of a sampled value, with the interval for this many samples.
    pub(crate) fn sampled(part: u64, whole: u64, samples: u64) -> Self {
        let margin = Share::new(part, whole, samples).margin_95();
        let Self { share, .. } = Self::counted(part, whole);
        Self { share, interval: [(share - margin).max(0.0), (share + margin).min(1.0)] }
    }
}

/// The functions that a finding is in, with everything that they call: a change can save no more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Enclosing {
    /// The function of the responsible line.
    pub function: Label,
    /// How many other functions show the pattern too.
    pub others: usize,
    /// Their share together, of the same total as the finding's.
    pub share: f64,
}

/// One diagnosed cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static Rule,
    /// What it is, without a full stop.
    pub title: String,
    /// What the share is of.
    pub of: Cost,
    /// The share that it costs, from 0 to 1.
    pub share: f64,
    /// The 95 % confidence interval of the share.
    pub interval: [f64; 2],
    /// The confidence in it.
    pub confidence: Confidence,
    /// The responsible line in the user's code, or the line nearest to it.
    pub place: Option<Place>,
    /// The evidence for it.
    pub evidence: Vec<Evidence>,
    /// What to do.
    pub advice: String,
    /// The speedup without this share, if it is about time and everything else stays as it is.
    pub speedup: Option<f64>,
    /// The largest possible speedup, if it is about time: without all of the functions that it is in.
    pub max_speedup: Option<f64>,
    /// The functions that bound the speedup; `None` if only the share does.
    pub enclosing: Option<Enclosing>,
    /// The command that checks whether a change helped.
    pub verify: String,
    /// The stacks that show it, to highlight in flame graphs.
    pub stacks: Vec<StackId>,
    /// The share of each line, largest first. Lines at which it is allowed are removed.
    pub places: Vec<(Place, f64)>,
}

impl Finding {
    /// A finding with the rule's title, at these lines with their shares, largest first. It has high
    /// confidence and no evidence yet.
    pub(crate) fn new(
        rule: &'static Rule,
        question: &Question<'_>,
        of: Cost,
        measured: Measured,
        places: Vec<(Place, f64)>,
    ) -> Self {
        let place = places.first().map(|(place, _)| *place);
        let finding = Self {
            rule,
            title: rule.title.to_owned(),
            of,
            share: measured.share,
            interval: measured.interval,
            confidence: Confidence::High,
            place,
            evidence: Vec::new(),
            advice: String::new(),
            speedup: of.is_time().then(|| speedup(measured.share)),
            max_speedup: of.is_time().then(|| speedup(measured.share)),
            enclosing: None,
            verify: String::new(),
            stacks: Vec::new(),
            places,
        };
        finding.placed(question, place)
    }

    /// The same finding with another responsible line.
    pub(crate) fn placed(self, question: &Question<'_>, place: Option<Place>) -> Self {
        let language = place.map_or(Language::Rust, |place| language_of(question.profile, &place));
        let advice = allocator::advice(question.profile, self.rule.advice(language));
        let function = place.filter(|_| self.of != Cost::Elapsed);
        Self { place, advice, verify: verify(question, self.of.metric(), function.as_ref()), ..self }
    }

    /// Whether its cost is counted, not sampled.
    pub fn is_counted(&self) -> bool {
        !self.of.is_time() && self.interval == [self.share; 2]
    }

    /// Sets the functions that bound its speedup.
    pub(crate) fn bounded_by(&mut self, enclosing: Enclosing) {
        self.max_speedup = self.speedup.map(|_| speedup(enclosing.share));
        self.enclosing = Some(enclosing);
    }

    /// The same finding, checked by a metric other than that of its cost.
    pub(crate) fn checked_by(self, question: &Question<'_>, metric: &str) -> Self {
        Self { verify: verify(question, Some(metric), self.place.as_ref()), ..self }
    }
}

/// The command that checks whether a change helped.
fn verify(question: &Question<'_>, metric: Option<&str>, place: Option<&Place>) -> String {
    let metric = metric.map_or(String::new(), |name| format!(" --metric {name}"));
    let function = place.filter(|place| matches!(place.label, Label::Function(_)));
    let function = function.map_or(String::new(), |place| {
        let name = plain_name(&CallTree::name(question.profile, place.label));
        format!(" --function '{}'", regex::escape(&name).replace('\'', "'\\''"))
    });
    format!("whyslow verify {} AFTER.whyslow{metric}{function}", question.file)
}

/// The last two parts of a name's path, without arguments and closures, as a user would type it.
fn plain_name(name: &str) -> String {
    /// Operators that look like brackets, the longest first.
    const OPERATORS: [&str; 13] =
        ["<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "->", "<=", ">=", "<", ">"];
    /// What follows the parameters of a method.
    const QUALIFIERS: [&str; 4] = [" const", " volatile", " &&", " &"];
    let mut depth = 0u32;
    let mut plain = String::new();
    let mut rest = name;
    while let Some(letter) = rest.chars().next() {
        let symbol = OPERATORS.iter().find(|symbol| rest.starts_with(**symbol));
        if let Some(symbol) = symbol.filter(|_| depth == 0 && ends_with_operator(&plain)) {
            plain.push_str(symbol);
            rest = &rest[symbol.len()..];
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        let ends_parameters = letter == ')' && depth == 1;
        while let Some(after) =
            QUALIFIERS.iter().find_map(|it| rest.strip_prefix(it)).filter(|_| ends_parameters)
        {
            rest = after;
        }
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    let is_function = |part: &&str| !part.is_empty() && !part.starts_with('{');
    let parts = plain.split("::").filter(is_function).collect::<Vec<_>>();
    let last = parts[parts.len().saturating_sub(2)..].join("::");
    let last = last.rsplit(' ').find(|word| !word.is_empty()).unwrap_or_default();
    // Of `<impl Trait for Type>::method` only the method is left.
    if last.is_empty() { name.to_owned() } else { last.to_owned() }
}

/// Whether the word `operator` is the last one.
fn ends_with_operator(text: &str) -> bool {
    let before = text.strip_suffix("operator");
    before.is_some_and(|before| !before.ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_name_is_the_end_of_the_path() {
        for (name, plain) in [
            ("app::parse::line", "parse::line"),
            ("app::parse::line::{{closure}}", "parse::line"),
            ("<app::Map<K, V> as core::clone::Clone>::clone", "clone"),
            ("app::Index<std::string>::insert(std::string const&)", "Index::insert"),
            ("void std::sort<int*>(int*, int*)", "std::sort"),
            ("app::Set::get(std::string const&) const", "Set::get"),
            ("app::run(int) const::{lambda(int)#1}::operator()(int) const", "run::operator()"),
            ("bool app::Less<int>::operator()(int, int) const &", "Less::operator()"),
            ("std::ostream& app::operator<< <char>(std::ostream&, char const*)", "app::operator<<"),
            ("main", "main"),
            ("[libz.so]", "[libz.so]"),
        ] {
            assert_eq!(plain_name(name), plain);
        }
    }
}
