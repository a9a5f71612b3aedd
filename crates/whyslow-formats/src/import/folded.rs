//! Folded stacks: `outermost;…;innermost VALUE`, one stack per line.
//!
//! Marks at the end of a frame are understood: `_[i]` was inlined into the frame before it, `_[k]` is the kernel's,
//! `_[j]` was made at run time. A second number (the format of differences) is left out.

use rustc_hash::FxHashMap;
use whyslow_profile::{Frame, LocationId, ModuleId, ModuleKind, StackId, Unit};

use super::assemble::{Assembly, FunctionText};
use super::{Format, ImportError, ImportOptions, Imported, lines};

/// What our own folded output calls the place of missing outer frames.
const TRUNCATED: &str = "[truncated stack]";

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    let mut content =
        lines::numbered_bytes(start).filter(|(_, line)| !line.trim_ascii().is_empty()).peekable();
    lines::is_text(start)
        && content.peek().is_some()
        && content.all(|(_, line)| split_value(line).is_some_and(|(stack, _)| !stack.trim_ascii().is_empty()))
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut assembly = Assembly::new("folded stacks");
    assembly.note("folded stacks have no times, threads, lines or addresses; their values have no unit");
    let metric = assembly.metric("samples", Unit::Count);
    let process = assembly.process(0, "folded");
    let thread = assembly.thread(process, 0, "all threads");
    let two_columns = has_two_columns(bytes);
    if two_columns {
        assembly.note("each stack has two values, as in a difference; the first is read");
    }
    let mut frames = Frames::default();
    for (number, line) in lines::numbered_bytes(bytes) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            continue;
        }
        let error = |what| ImportError::at_line(Format::Folded, number, what);
        let (mut stack, mut value) = split_value(line).ok_or_else(|| error("a value should end the line"))?;
        if two_columns && let Some((rest, first)) = split_value(stack) {
            (stack, value) = (rest, first);
        }
        let Some(node) = frames.stack(&mut assembly, stack) else {
            return Err(error("there is a value, but no stack before it"));
        };
        if value.fract() != 0.0 {
            assembly.note("values that are no whole numbers are rounded");
        }
        // Numbers beyond 2^53 are not whole in the other form.
        let value = value.whole();
        assembly.sample(metric, 0, thread, node, value);
    }
    assembly.finish()
}

/// A value as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value {
    Whole(u64),
    Real(f64),
}

impl Value {
    fn fract(self) -> f64 {
        match self {
            Self::Whole(_) => 0.0,
            Self::Real(value) => value.fract(),
        }
    }

    fn whole(self) -> u64 {
        match self {
            Self::Whole(value) => value,
            Self::Real(value) => value.round() as u64,
        }
    }
}

/// The stack and the value behind it.
fn split_value(line: &[u8]) -> Option<(&[u8], Value)> {
    let line = line.trim_ascii_end();
    let at = memchr::memrchr2(b' ', b'\t', line)?;
    let value = std::str::from_utf8(&line[at + 1..]).ok()?;
    let digits = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = match value.parse() {
        Ok(value) => Value::Whole(value),
        Err(_) if digits => Value::Real(value.parse().ok()?),
        Err(_) => return None,
    };
    Some((&line[..at], value))
}

/// Whether every line ends in two numbers; a single line can do so because its last function ends in a number.
fn has_two_columns(bytes: &[u8]) -> bool {
    let mut content =
        lines::numbered_bytes(bytes).filter(|(_, line)| !line.trim_ascii().is_empty()).peekable();
    content.peek().is_some()
        && content.all(|(_, line)| split_value(line).is_some_and(|(rest, _)| split_value(rest).is_some()))
}

/// Turns frames into locations.
#[derive(Default)]
struct Frames<'a> {
    kernel: Option<ModuleId>,
    jit: Option<ModuleId>,
    group: Vec<Frame>,
    /// The stack before this one, and where each frame ends in it with the stack up to there. Files are usually sorted,
    /// so that a stack shares most of its frames with the one before, and those need no look-up.
    before: &'a [u8],
    ends: Vec<(usize, StackId)>,
    /// Frames without marks that were seen.
    plain: FxHashMap<&'a [u8], LocationId>,
}

impl<'a> Frames<'a> {
    /// The stack that a line names; `None` when it names nothing.
    fn stack(&mut self, assembly: &mut Assembly, text: &'a [u8]) -> Option<StackId> {
        let same = common_prefix(text, self.before);
        let is_end = |at: usize| at == text.len() || text[at] == b';';
        while self.ends.last().is_some_and(|&(end, _)| end > same || !is_end(end)) {
            self.ends.pop();
        }
        let (mut at, mut stack) = match self.ends.last() {
            Some(&(end, stack)) => (end + 1, Some(stack)),
            None => (0, None),
        };
        let rest = text.get(at..).unwrap_or_default();
        if stack.is_none() && rest.trim_ascii().is_empty() {
            return None;
        }
        // What is the same as before had no marks.
        if memchr::memmem::find(rest, b"_[").is_some()
            || rest.trim_ascii_start().starts_with(TRUNCATED.as_bytes())
        {
            self.before = b"";
            self.ends.clear();
            return self.marked_stack(assembly, &String::from_utf8_lossy(text));
        }
        while at <= text.len() {
            let rest = &text[at..];
            let name = &rest[..memchr::memchr(b';', rest).unwrap_or(rest.len())];
            at += name.len();
            let location = match self.plain.get(name) {
                Some(&location) => location,
                None => self.plain(assembly, name),
            };
            let node = assembly.stack(stack, location);
            self.ends.push((at, node));
            stack = Some(node);
            at += 1;
        }
        self.before = text;
        stack
    }

    /// The place of a frame without marks.
    fn plain(&mut self, assembly: &mut Assembly, text: &'a [u8]) -> LocationId {
        let name = String::from_utf8_lossy(text);
        let name = match name.trim() {
            "" => "[no name]",
            name => name,
        };
        let function = assembly.function(&FunctionText { name, ..FunctionText::default() });
        let location = assembly.location(None, 0, &[Frame { function, file: None, line: 0 }]);
        self.plain.insert(text, location);
        location
    }

    /// The stack of a line whose frames may have marks.
    fn marked_stack(&mut self, assembly: &mut Assembly, text: &str) -> Option<StackId> {
        let mut stack = None;
        let mut module = None;
        self.group.clear();
        for name in text.split(';') {
            let name = name.trim();
            if name == TRUNCATED && stack.is_none() && self.group.is_empty() {
                stack = Some(assembly.stack(None, LocationId::TRUNCATED));
                continue;
            }
            let (name, mark) = split_mark(name);
            if mark != Mark::Inlined && !self.group.is_empty() {
                stack = Some(self.close(assembly, module, stack));
            }
            module = match mark {
                Mark::Kernel => Some(
                    *self.kernel.get_or_insert_with(|| assembly.module("[kernel]", None, ModuleKind::Kernel)),
                ),
                Mark::Jit => {
                    Some(*self.jit.get_or_insert_with(|| assembly.module("[jit]", None, ModuleKind::Jit)))
                }
                Mark::Inlined => module,
                Mark::None => None,
            };
            let name = if name.is_empty() { "[no name]" } else { name };
            let function = assembly.function(&FunctionText { name, module, ..FunctionText::default() });
            self.group.push(Frame { function, file: None, line: 0 });
        }
        if self.group.is_empty() { stack } else { Some(self.close(assembly, module, stack)) }
    }

    fn close(
        &mut self,
        assembly: &mut Assembly,
        module: Option<ModuleId>,
        parent: Option<StackId>,
    ) -> StackId {
        let location = assembly.location(module, 0, &self.group);
        self.group.clear();
        assembly.stack(parent, location)
    }
}

/// How many bytes two texts have in common at their start.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    const STEP: usize = 16;
    let steps = a.chunks_exact(STEP).zip(b.chunks_exact(STEP)).take_while(|(a, b)| a == b).count() * STEP;
    steps + a[steps..].iter().zip(&b[steps..]).take_while(|(a, b)| a == b).count()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    None,
    Inlined,
    Kernel,
    Jit,
}

fn split_mark(name: &str) -> (&str, Mark) {
    for (mark, kind) in [("_[i]", Mark::Inlined), ("_[k]", Mark::Kernel), ("_[j]", Mark::Jit)] {
        if let Some(name) = name.strip_suffix(mark) {
            return (name, kind);
        }
    }
    (name, Mark::None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FoldedOptions, write_folded};
    use whyslow_profile::CodeKind;

    fn import(text: &str) -> Imported {
        read(text.as_bytes(), &ImportOptions::default()).expect("it is folded")
    }

    fn export(imported: &Imported) -> String {
        let mut out = Vec::new();
        let options = FoldedOptions { mark_inlined: true, ..FoldedOptions::default() };
        write_folded(&imported.profile, &Default::default(), &options, &mut out).expect("memory takes it");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_is_written_is_read_back() {
        let text = "main;b;c 30\nmain;a 5\nmain;a;x_[i];y_[i];f<[u8: 4]> 20\n[truncated stack];g 1\n";
        let imported = import(text);
        let mut lines: Vec<String> = export(&imported).lines().map(str::to_owned).collect();
        let mut expected: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        expected.sort();
        assert_eq!(lines, expected);
        assert!(imported.profile.is_truncated(imported.profile.samples[0].stack[3]));
    }

    #[test]
    fn marks_say_whose_code_it_is() {
        let imported = import("main;do_syscall_64_[k];vfs_read_[k] 2\n");
        let kinds: Vec<CodeKind> = imported.profile.functions.iter().map(|function| function.kind).collect();
        assert_eq!(kinds, [CodeKind::Unknown, CodeKind::Kernel, CodeKind::Kernel]);
    }

    #[test]
    fn a_second_column_is_left_out_and_that_is_said() {
        let imported = import("a;b 10 20\na 5 0\n");
        assert_eq!(imported.profile.samples[0].value, [10, 5]);
        assert_eq!(imported.notes.len(), 2);
        let imported = import("a;part 2 10\na 5\n");
        assert_eq!(imported.profile.samples[0].value, [10, 5], "a name may end in a number");
        assert_eq!(imported.profile.text(imported.profile.functions[1].name), "part 2");
    }

    #[test]
    fn a_line_without_a_value_is_an_error_with_its_number() {
        let error = read(b"a;b 1\n\na;b\n", &ImportOptions::default()).expect_err("no value");
        assert_eq!(error.to_string(), "as folded stacks it is wrong at line 3: a value should end the line");
    }

    #[test]
    fn other_texts_are_not_taken_for_folded_stacks() {
        assert!(looks_like(b"a;b 1\nc 22\ncut li"));
        assert!(looks_like(b"main 1.5\n"));
        assert!(!looks_like(b"{\"a\": 1}\n"));
        assert!(!looks_like(b""));
        assert!(!looks_like(b"\0\x01 1\n"));
        assert!(!looks_like(b"hello world\n"));
    }
}
