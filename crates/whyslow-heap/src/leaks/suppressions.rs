//! Parses and matches suppressions of known leaks: Valgrind's files and LeakSanitizer's.
//!
//! ```text
//! {                                            leak:pattern
//!    name                                      # a comment
//!    Memcheck:Leak
//!    match-leak-kinds: definite,possible
//!    fun:glob        obj:glob        src:file:line        ...
//! }
//! ```
//! Both kinds may be in one file. Valgrind's frames start at the allocator, must match one after the other,
//! and may end before the stack does; `...` stands for any number of frames, including none. Suppressions for
//! other tools, or for errors other than leaks, are skipped. A LeakSanitizer pattern is a part of the name of
//! a function, file or object; `*` stands for anything, `^` and `$` for the ends. `?` stands for one
//! character, only in Valgrind's patterns.
//!
//! The stacks here start with the function that called the allocator, or with libstdc++'s `operator new`,
//! which calls `malloc`. Valgrind's stacks start with its replacement of either. So a stack is matched with
//! an additional frame for the allocator (`allocator`), and unchanged, for suppressions without an allocator
//! frame. `names` knows how Valgrind names functions that have several names.

mod allocator;
mod names;

use self::allocator::Allocator;
use super::Class;

/// A frame of the allocating stack, innermost first.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The function's name as in the file's symbols.
    pub raw_function: &'a str,
    /// The function's demangled name.
    pub function: &'a str,
    /// The path of the program or library.
    pub object: &'a str,
    /// The path of the source file; empty if not known.
    pub file: &'a str,
    /// The line in it; 0 if not known.
    pub line: u32,
    /// Whether it was inlined into the next frame.
    pub is_inlined: bool,
}

/// All suppressions of one or more files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Suppressions {
    list: Vec<Suppression>,
}

/// One suppression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suppression {
    /// Its name; for a LeakSanitizer line, its pattern.
    pub name: String,
    kinds: Kinds,
    how: How,
}

/// A line that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {what}")]
pub struct SuppressionError {
    /// The file.
    pub file: String,
    /// The line, starting at 1.
    pub line: usize,
    /// What is wrong with it.
    pub what: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum How {
    /// Valgrind's: frames in order.
    Frames(Vec<FramePattern>),
    /// LeakSanitizer's: any part of any frame.
    Anywhere(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum FramePattern {
    Function(String),
    Object(String),
    Source(String, Option<u32>),
    AnyNumber,
}

/// The leak classes that a suppression applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const ALL: Self = Self(15);

    fn parse(text: &str) -> Result<Self, String> {
        let mut bits = 0;
        for kind in text.split(',').map(str::trim) {
            bits |= match kind {
                "definite" => Self::bit(Class::DefinitelyLost),
                "indirect" => Self::bit(Class::IndirectlyLost),
                "possible" => Self::bit(Class::PossiblyLost),
                "reachable" => Self::bit(Class::Reachable),
                "all" => Self::ALL.0,
                "none" => 0,
                other => {
                    return Err(format!(
                        "unknown kind of leak `{other}`; expected definite, indirect, possible, reachable, all or none"
                    ));
                }
            };
        }
        Ok(Self(bits))
    }

    fn bit(class: Class) -> u8 {
        match class {
            Class::DefinitelyLost => 1,
            Class::IndirectlyLost => 2,
            Class::PossiblyLost => 4,
            Class::Reachable => 8,
        }
    }

    fn has(self, class: Class) -> bool {
        self.0 & Self::bit(class) != 0
    }
}

impl Suppressions {
    /// Parses the text of a file. `file` is its name, for errors.
    pub fn parse(text: &str, file: &str) -> Result<Self, SuppressionError> {
        let mut lines = (1..)
            .zip(text.lines().map(str::trim))
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let mut list = Vec::new();
        while let Some((number, line)) = lines.next() {
            let at = |line: usize| move |what: String| SuppressionError { file: file.to_owned(), line, what };
            if line == "{" {
                let mut body = Vec::new();
                loop {
                    match lines.next() {
                        Some((_, "}")) => break,
                        Some((inner, "{")) => {
                            return Err(at(inner)(format!(
                                "`{{` inside the suppression that starts in line {number}"
                            )));
                        }
                        Some(line) => body.push(line),
                        None => return Err(at(number)("this suppression has no `}`".to_owned())),
                    }
                }
                list.extend(valgrind(&body).map_err(|(line, what)| at(line.unwrap_or(number))(what))?);
            } else if let Some(pattern) = line.strip_prefix("leak:") {
                if pattern.is_empty() {
                    return Err(at(number)("`leak:` without a pattern".to_owned()));
                }
                list.push(Suppression {
                    name: pattern.to_owned(),
                    kinds: Kinds::ALL,
                    how: How::Anywhere(pattern.to_owned()),
                });
            } else if !is_for_other_sanitizer(line) {
                return Err(at(number)(format!("expected `{{` or `leak:pattern`, found `{line}`")));
            }
        }
        Ok(Self { list })
    }

    /// Adds the suppressions of another file.
    pub fn extend(&mut self, others: Self) {
        self.list.extend(others.list);
    }

    /// Whether there are no suppressions.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The first suppression that matches a leak of this class with this stack, innermost frame first.
    pub fn find(&self, class: Class, stack: &[Frame<'_>]) -> Option<&Suppression> {
        self.list.iter().find(|suppression| suppression.kinds.has(class) && suppression.how.matches(stack))
    }
}

/// LeakSanitizer's files may have lines for other sanitizers: `race:pattern`.
fn is_for_other_sanitizer(line: &str) -> bool {
    line.split_once(':').is_some_and(|(kind, rest)| {
        !rest.is_empty()
            && !kind.is_empty()
            && !["fun", "obj", "src"].contains(&kind)
            && kind.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '-')
    })
}

/// Parses one of Valgrind's suppressions; `None` if it is not about leaks. Errors have their line, if known.
fn valgrind(body: &[(usize, &str)]) -> Result<Option<Suppression>, (Option<usize>, String)> {
    let [(_, name), (tools_line, tools), rest @ ..] = body else {
        return Err((None, "a suppression needs a name, then a line such as `Memcheck:Leak`".to_owned()));
    };
    let Some((tools, kind)) = tools.split_once(':') else {
        return Err((
            Some(*tools_line),
            format!("expected `tool:kind`, such as `Memcheck:Leak`, found `{tools}`"),
        ));
    };
    if kind.trim() != "Leak" || !tools.split(',').any(|tool| tool.trim() == "Memcheck") {
        return Ok(None);
    }
    let mut kinds = Kinds::ALL;
    let mut frames = Vec::new();
    for &(number, line) in rest {
        let here = |what| (Some(number), what);
        if let Some(list) = line.strip_prefix("match-leak-kinds:") {
            kinds = Kinds::parse(list).map_err(here)?;
        } else if line == "..." {
            frames.push(FramePattern::AnyNumber);
        } else if let Some(glob) = line.strip_prefix("fun:") {
            frames.push(FramePattern::Function(glob.to_owned()));
        } else if let Some(glob) = line.strip_prefix("obj:") {
            frames.push(FramePattern::Object(glob.to_owned()));
        } else if let Some(place) = line.strip_prefix("src:") {
            frames.push(source(place));
        } else {
            return Err(here(format!(
                "expected `fun:`, `obj:`, `src:`, `...` or `match-leak-kinds:`, found `{line}`"
            )));
        }
    }
    if frames.iter().all(|frame| *frame == FramePattern::AnyNumber) {
        return Err((None, format!("the suppression `{name}` names no function, object or file")));
    }
    Ok(Some(Suppression { name: (*name).to_owned(), kinds, how: How::Frames(frames) }))
}

fn source(place: &str) -> FramePattern {
    match place.rsplit_once(':').map(|(file, line)| (file, line.parse())) {
        Some((file, Ok(line))) => FramePattern::Source(file.to_owned(), Some(line)),
        _ => FramePattern::Source(place.to_owned(), None),
    }
}

impl How {
    fn matches(&self, stack: &[Frame<'_>]) -> bool {
        match self {
            Self::Frames(patterns) => {
                let (allocator, callers) = Allocator::split(stack);
                // In Valgrind, posix_memalign has two frames because it calls memalign.
                let most = if allocator.is_malloc() { 2 } else { 1 };
                (0..=most).any(|allocators| {
                    let allocators = std::iter::repeat_n(Step::Allocator(allocator), allocators);
                    let steps: Vec<_> = allocators.chain(callers.iter().map(Step::Frame)).collect();
                    match_frames(patterns, &steps)
                })
            }
            Self::Anywhere(pattern) => stack.iter().any(|frame| {
                [frame.function, frame.raw_function, frame.object, frame.file]
                    .iter()
                    .any(|name| !name.is_empty() && has_part(name, pattern))
            }),
        }
    }
}

/// An item that a pattern may match.
#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Allocator(Allocator),
    Frame(&'a Frame<'a>),
}

/// Whether all patterns match frames, starting at the first. Patterns between two `...` match as early as
/// possible: everything that a later match could reach, the earlier one can reach too.
fn match_frames(patterns: &[FramePattern], stack: &[Step<'_>]) -> bool {
    let mut parts = patterns.split(|pattern| *pattern == FramePattern::AnyNumber);
    let starts_with = |part: &[FramePattern], stack: &[Step<'_>]| {
        part.len() <= stack.len() && part.iter().zip(stack).all(|(pattern, step)| pattern.matches(step))
    };
    let first = parts.next().unwrap_or_default();
    if !starts_with(first, stack) {
        return false;
    }
    let mut rest = &stack[first.len()..];
    for part in parts {
        let Some(at) = (0..=rest.len()).find(|&at| starts_with(part, &rest[at..])) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

impl FramePattern {
    fn matches(&self, step: &Step<'_>) -> bool {
        let is = |pattern: &str, name: &str| glob(pattern.as_bytes(), name.as_bytes(), true);
        let frame = match step {
            Step::Frame(frame) => frame,
            Step::Allocator(allocator) => {
                return match self {
                    Self::Function(name) => allocator.names().any(|allocator| is(name, allocator)),
                    // Valgrind's own allocator is in its own library.
                    Self::Object(name) => {
                        is(name, "vgpreload_memcheck-amd64-linux.so") || name.contains("vgpreload")
                    }
                    Self::Source(..) => false,
                    Self::AnyNumber => true,
                };
            }
        };
        match self {
            Self::Function(name) => {
                is(name, frame.raw_function) || is(name, frame.function) || names::is_alias(name, frame)
            }
            Self::Object(name) => is(name, frame.object),
            Self::Source(name, line) => {
                let file = frame.file.rsplit('/').next().unwrap_or_default();
                (is(name, frame.file) || is(name, file)) && line.is_none_or(|line| line == frame.line)
            }
            Self::AnyNumber => true,
        }
    }
}

/// Whether a LeakSanitizer pattern matches a part of a name.
fn has_part(name: &str, pattern: &str) -> bool {
    let (pattern, at_start) = pattern.strip_prefix('^').map_or((pattern, false), |rest| (rest, true));
    let (pattern, at_end) = pattern.strip_suffix('$').map_or((pattern, false), |rest| (rest, true));
    let before = if at_start { "" } else { "*" };
    let after = if at_end { "" } else { "*" };
    glob(format!("{before}{pattern}{after}").as_bytes(), name.as_bytes(), false)
}

/// Whether a pattern matches a whole text; `*` stands for anything, `?` for one character if `special` is
/// set.
fn glob(pattern: &[u8], text: &[u8], special: bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // The last `*`, and the end of the text that it has been tried with.
    let mut star = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, t));
                p += 1;
            }
            Some(b'?') if special => (p, t) = (p + 1, t + 1),
            Some(&byte) if byte == text[t] => (p, t) = (p + 1, t + 1),
            _ => match star {
                Some((at, tried)) => {
                    star = Some((at, tried + 1));
                    (p, t) = (at + 1, tried + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests;
