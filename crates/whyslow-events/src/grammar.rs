//! The syntax of events.
//!
//! ```text
//! list      = event { "," event }                    commas inside of slashes, brackets and angles belong to the event
//! event     = name [ ":" modifiers ]                 cycles, LLC-load-misses, page-faults:u
//!           | "r" hex [ ":" modifiers ]              r01c2: the PMU's own number
//!           | unit "/" term { "," term } "/" [ ":" ] [ modifiers ]       cpu/event=0x3c,umask=0/u, cpu/cache-misses/
//!           | subsystem ":" name [ ":" modifiers ]   sched:sched_switch
//!           | event "/period=" number "/" [ modifiers ]                  cycles/period=100000/u: one sample per 100,000
//!           | ( "uprobe:" | "uretprobe:" ) [ file ":" ] function         uprobe:app::parse, uretprobe:/lib/libc.so.6:malloc
//! term      = name [ "=" number ]
//! modifiers = letters of "ukh", and up to three "p"
//! ```
//! A word of two letters or fewer after a colon is ambiguous: letters of `ukhp` are modifiers, everything
//! else is the name of a tracepoint.

use crate::known::is_known;

/// An event as the user wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The whole word, without its period.
    pub text: String,
    /// The thing that it names.
    pub what: What,
    /// The modes in which it is counted, and the precision of sampled instructions.
    pub modifiers: Modifiers,
    /// The number of occurrences per sample, if given.
    pub period: Option<u64>,
}

/// How an event is named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// A name: one that all machines understand, or one of a PMU of this machine.
    Named(String),
    /// The CPU PMU's number for it.
    Raw(u64),
    /// Terms for a PMU.
    Unit {
        /// Its name, a folder of `/sys/bus/event_source/devices`.
        unit: String,
        /// The terms.
        terms: Vec<Term>,
    },
    /// A kernel tracepoint.
    Tracepoint {
        /// The folder.
        subsystem: String,
        /// The name in it.
        name: String,
    },
    /// A function of the program.
    Uprobe {
        /// The file that contains it, unless that is the program itself.
        file: Option<String>,
        /// Its name.
        function: String,
        /// Whether the event is its return instead of its entry.
        returns: bool,
    },
}

/// A term of a PMU: a field with a value, or the name of an event of the PMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    /// Its name.
    pub name: String,
    /// Its value, if it has one.
    pub value: Option<u64>,
}

/// The modes in which an event is counted. If none is set, all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// `u`: count in user mode.
    pub user: bool,
    /// `k`: count in the kernel.
    pub kernel: bool,
    /// `h`: count in the hypervisor.
    pub hypervisor: bool,
    /// `p` to `ppp`: how precisely samples name their instruction.
    pub precise: u8,
}

impl Modifiers {
    /// Whether the user chose the modes.
    pub fn sets_modes(self) -> bool {
        self.user || self.kernel || self.hypervisor
    }

    fn parse(letters: &str) -> Option<Self> {
        let mut modifiers = Self::default();
        for letter in letters.chars() {
            match letter {
                'u' => modifiers.user = true,
                'k' => modifiers.kernel = true,
                'h' => modifiers.hypervisor = true,
                'p' if modifiers.precise < 3 => modifiers.precise += 1,
                _ => return None,
            }
        }
        Some(modifiers)
    }
}

/// Why a word is not an event. `Display` says what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrammarError {
    /// Nothing between two commas.
    #[error("an event is missing: there is nothing before or after a comma")]
    Empty,
    /// `cycles:x`
    #[error(
        "`{text}`: `{letters}` are not modifiers; those are u (user), k (kernel), h (hypervisor) and p, pp, ppp (precise)"
    )]
    Modifiers {
        /// The event.
        text: String,
        /// The part after its colon.
        letters: String,
    },
    /// `cpu/event=1`
    #[error("`{text}`: the second slash is missing, as in cpu/event=0x3c,umask=0/")]
    Unclosed {
        /// The event.
        text: String,
    },
    /// `cpu/event=x/`
    #[error("`{text}`: `{value}` is not a number such as 60 or 0x3c")]
    Number {
        /// The event.
        text: String,
        /// The text that should be a number.
        value: String,
    },
    /// `cycles/period=0/`
    #[error("`{text}`: a period is a number of occurrences, 1 or more, as in cycles/period=100000/")]
    Period {
        /// The event.
        text: String,
    },
    /// `:u`, `a:b:c:d`, `cpu//`
    #[error(
        "`{text}` is not an event such as cycles, page-faults:u, r01c2, cpu/event=0x3c/ or sched:sched_switch"
    )]
    Shape {
        /// The event.
        text: String,
    },
}

/// Parses a list of events.
///
/// ```
/// let events = whyslow_events::parse("cycles:u,cpu/event=0x3c,umask=0/,sched:sched_switch").unwrap();
/// assert_eq!(events.len(), 3);
/// ```
pub fn parse(list: &str) -> Result<Vec<Spec>, GrammarError> {
    split(list).into_iter().map(|word| parse_one(word.trim())).collect()
}

/// Splits at the commas between events.
fn split(list: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let (mut start, mut depth, mut in_slashes) = (0, 0usize, false);
    for (at, letter) in list.char_indices() {
        let is_function = probe_in(list[start..].trim_start()).is_some();
        match letter {
            '/' if !is_function => in_slashes = !in_slashes,
            '<' | '(' | '[' | '{' if is_function => depth += 1,
            '>' | ')' | ']' | '}' if is_function => depth = depth.saturating_sub(1),
            ',' if !in_slashes && depth == 0 => {
                words.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&list[start..]);
    words
}

/// The part after `uprobe:` (`false`) or `uretprobe:` (`true`).
fn probe_in(word: &str) -> Option<(&str, bool)> {
    let entry = word.strip_prefix("uprobe:").map(|rest| (rest, false));
    entry.or_else(|| word.strip_prefix("uretprobe:").map(|rest| (rest, true)))
}

/// The file and the function, separated by a single colon; the double colons of a path such as `app::parse`
/// do not separate.
fn file_and_function(text: &str) -> (Option<&str>, &str) {
    let bytes = text.as_bytes();
    let alone = |at: &usize| {
        bytes[*at] == b':' && (*at == 0 || bytes[at - 1] != b':') && bytes.get(at + 1) != Some(&b':')
    };
    match (0..bytes.len()).find(alone) {
        Some(at) => (Some(text[..at].trim()), text[at + 1..].trim()),
        None => (None, text.trim()),
    }
}

fn parse_one(word: &str) -> Result<Spec, GrammarError> {
    let shape = || GrammarError::Shape { text: word.to_owned() };
    let spec = |what, modifiers| Spec { text: word.to_owned(), what, modifiers, period: None };
    if word.is_empty() {
        return Err(GrammarError::Empty);
    }
    if let Some((text, returns)) = probe_in(word) {
        let (file, function) = file_and_function(text);
        if function.is_empty() || file.is_some_and(str::is_empty) {
            return Err(shape());
        }
        let (file, function) = (file.map(str::to_owned), function.to_owned());
        return Ok(spec(What::Uprobe { file, function, returns }, Modifiers::default()));
    }
    if let Some((unit, rest)) = word.split_once('/') {
        let Some((terms, behind)) = rest.rsplit_once('/') else {
            return Err(GrammarError::Unclosed { text: word.to_owned() });
        };
        if unit.is_empty() || terms.trim().is_empty() {
            return Err(shape());
        }
        let letters = behind.strip_prefix(':').unwrap_or(behind);
        let modifiers = modifiers(word, letters)?;
        let terms = terms.split(',').map(|text| term(word, text.trim()));
        let mut terms = terms.collect::<Result<Vec<Term>, _>>()?;
        let Some(at) = terms.iter().position(|term| term.name == PERIOD) else {
            return Ok(spec(What::Unit { unit: unit.to_owned(), terms }, modifiers));
        };
        let period = terms.remove(at).value.filter(|period| *period > 0);
        let period = Some(period.ok_or_else(|| GrammarError::Period { text: word.to_owned() })?);
        let behind = if letters.is_empty() { String::new() } else { format!(":{letters}") };
        if terms.is_empty() {
            return Ok(Spec { period, ..parse_one(&format!("{unit}{behind}"))? });
        }
        let words: Vec<String> = terms.iter().map(Term::to_string).collect();
        let text = format!("{unit}/{}/{letters}", words.join(","));
        return Ok(Spec { text, what: What::Unit { unit: unit.to_owned(), terms }, modifiers, period });
    }
    let parts: Vec<&str> = word.split(':').collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(shape());
    }
    let tracepoint = |subsystem: &str, name: &str| What::Tracepoint {
        subsystem: subsystem.to_owned(),
        name: name.to_owned(),
    };
    match parts[..] {
        [name] => Ok(spec(named(name), Modifiers::default())),
        [name, letters] => match Modifiers::parse(letters) {
            Some(modifiers) => Ok(spec(named(name), modifiers)),
            None if is_known(name) || raw(name).is_some() => Err(wrong_modifiers(word, letters)),
            None => Ok(spec(tracepoint(name, letters), Modifiers::default())),
        },
        [subsystem, name, letters] => Ok(spec(tracepoint(subsystem, name), modifiers(word, letters)?)),
        _ => Err(shape()),
    }
}

/// The term for the number of occurrences per sample.
const PERIOD: &str = "period";

impl std::fmt::Display for Term {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.value {
            Some(value) => write!(f, "{}={value:#x}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

fn named(name: &str) -> What {
    raw(name).map_or_else(|| What::Named(name.to_owned()), What::Raw)
}

/// `r01c2`
fn raw(name: &str) -> Option<u64> {
    let digits = name.strip_prefix('r')?;
    u64::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
}

fn modifiers(word: &str, letters: &str) -> Result<Modifiers, GrammarError> {
    Modifiers::parse(letters).ok_or_else(|| wrong_modifiers(word, letters))
}

fn wrong_modifiers(word: &str, letters: &str) -> GrammarError {
    GrammarError::Modifiers { text: word.to_owned(), letters: letters.to_owned() }
}

fn term(word: &str, text: &str) -> Result<Term, GrammarError> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim())),
        None => (text, None),
    };
    if name.is_empty() {
        return Err(GrammarError::Shape { text: word.to_owned() });
    }
    let value = value.map(|value| {
        number(value).ok_or_else(|| GrammarError::Number { text: word.to_owned(), value: value.to_owned() })
    });
    Ok(Term { name: name.to_owned(), value: value.transpose()? })
}

/// `60` or `0x3c`.
pub(crate) fn number(text: &str) -> Option<u64> {
    let digits =
        |digits: &str, radix| u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) => digits(hex, 16),
        None => digits(text, 10),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(text: &str) -> (What, Modifiers) {
        let specs = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!((specs.len(), specs[0].text.as_str()), (1, text));
        (specs[0].what.clone(), specs[0].modifiers)
    }

    fn tracepoint(subsystem: &str, name: &str) -> What {
        What::Tracepoint { subsystem: subsystem.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn names_have_modifiers_and_tracepoints_have_names() {
        let user = Modifiers { user: true, ..Modifiers::default() };
        assert_eq!(one("cycles"), (What::Named("cycles".to_owned()), Modifiers::default()));
        assert_eq!(one("cycles:u"), (What::Named("cycles".to_owned()), user));
        assert_eq!(one("LLC-loads:upp").1, Modifiers { precise: 2, ..user });
        assert_eq!(one("cycles:uk").1, Modifiers { kernel: true, ..user });
        assert_eq!(one("slots:u").0, What::Named("slots".to_owned()), "a name that only a machine knows");
        assert_eq!(one("sched:sched_switch"), (tracepoint("sched", "sched_switch"), Modifiers::default()));
        assert_eq!(one("sched:sched_switch:u"), (tracepoint("sched", "sched_switch"), user));
    }

    #[test]
    fn raw_numbers_are_hexadecimal() {
        assert_eq!(one("r01c2").0, What::Raw(0x1c2));
        assert_eq!(one("r3c:k").0, What::Raw(0x3c));
        assert_eq!(one("ref-cycles").0, What::Named("ref-cycles".to_owned()));
        assert_eq!(one("r+1").0, What::Named("r+1".to_owned()));
    }

    #[test]
    fn terms_of_a_unit_have_their_own_commas() {
        let specs = parse("cpu/event=0x3c,umask=0/u, instructions,cpu/cache-misses,inv/").unwrap();
        assert_eq!(specs.len(), 3);
        let term = |name: &str, value| Term { name: name.to_owned(), value };
        let unit = |terms| What::Unit { unit: "cpu".to_owned(), terms };
        assert_eq!(specs[0].what, unit(vec![term("event", Some(0x3c)), term("umask", Some(0))]));
        assert!(specs[0].modifiers.user);
        assert_eq!(specs[1].what, What::Named("instructions".to_owned()));
        assert_eq!(specs[2].what, unit(vec![term("cache-misses", None), term("inv", None)]));
        assert!(parse("cpu/event=1/:k").unwrap()[0].modifiers.kernel);
    }

    #[test]
    fn functions_keep_their_colons_commas_and_slashes() {
        let function = |text: &str| match one(text).0 {
            What::Uprobe { file: None, function, returns: false } => function,
            other => panic!("{other:?}"),
        };
        assert_eq!(function("uprobe:app::parse"), "app::parse");
        assert_eq!(function("uprobe:Map<u8, (u8, u8)>::get"), "Map<u8, (u8, u8)>::get");
        let specs = parse("uprobe:f<a, b>,cycles,uprobe:g").unwrap();
        assert_eq!(
            specs.iter().map(|spec| spec.text.as_str()).collect::<Vec<_>>(),
            ["uprobe:f<a, b>", "cycles", "uprobe:g"]
        );
    }

    #[test]
    fn a_function_can_have_a_file_and_mean_its_return() {
        let probe = |text: &str| match one(text).0 {
            What::Uprobe { file, function, returns } => (file.unwrap_or_default(), function, returns),
            other => panic!("{other:?}"),
        };
        let is = |file: &str, function: &str, returns| (file.to_owned(), function.to_owned(), returns);
        assert_eq!(probe("uprobe:/lib/libc.so.6:malloc"), is("/lib/libc.so.6", "malloc", false));
        assert_eq!(probe("uretprobe:./app:app::parse"), is("./app", "app::parse", true));
        assert_eq!(probe("uretprobe:app::parse"), is("", "app::parse", true));
        assert_eq!(parse("uprobe:/a/b:f,uretprobe:g,cycles").unwrap().len(), 3);
        assert!(parse("uprobe::f").is_err() && parse("uprobe:/a:").is_err());
    }

    #[test]
    fn a_period_belongs_to_any_event() {
        let spec = |text: &str| parse(text).unwrap().remove(0);
        let cycles = spec("cycles/period=1000/u");
        assert_eq!((cycles.text.as_str(), cycles.period), ("cycles:u", Some(1000)));
        assert!(cycles.what == What::Named("cycles".to_owned()) && cycles.modifiers.user);
        let tracepoint_spec = spec("sched:sched_switch/period=10/");
        assert_eq!(tracepoint_spec.period, Some(10));
        assert_eq!(tracepoint_spec.what, tracepoint("sched", "sched_switch"));
        let unit = spec("cpu/event=60,period=7,umask=1/k");
        assert_eq!((unit.text.as_str(), unit.period), ("cpu/event=0x3c,umask=0x1/k", Some(7)));
        assert_eq!(spec("cpu/event=0x3c/").period, None);
    }

    #[test]
    fn errors_name_the_problem() {
        let says = |text: &str, words: &str| {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        };
        says("", "an event is missing");
        says("cycles,,instructions", "an event is missing");
        says("cycles:x", "`x` are not modifiers");
        says("r3c:z", "`z` are not modifiers");
        says("cycles:pppp", "are not modifiers");
        says("cpu/event=1", "second slash");
        says("cpu/event=one/", "`one` is not a number");
        says("cpu//", "is not an event");
        says("a:b:c:d", "is not an event");
        says(":u", "is not an event");
        says("uprobe:", "is not an event");
        says("cycles/period=0/", "1 or more");
        says("cycles/period/", "1 or more");
        says("cpu/event=1/z", "`z` are not modifiers");
    }

    proptest! {
        #[test]
        fn no_input_panics(text in "[a-z0-9:/,=<>() é-]{0,40}") {
            let _ = parse(&text);
        }
    }
}
