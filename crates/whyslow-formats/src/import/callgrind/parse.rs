//! Parses the lines of callgrind.out and cachegrind.out.

use rustc_hash::FxHashMap;

use super::super::{Format, ImportError};

/// The maximum number of events: a line has a cost for each.
const MOST_EVENTS: usize = 64;

/// The costs of one line or call, one per event.
pub(super) type Cost = Box<[u64]>;

/// Everything in a file.
#[derive(Debug, Default)]
pub(crate) struct Costs<'a> {
    pub(super) command: String,
    pub(super) pid: u32,
    pub(super) thread: Option<u32>,
    pub(super) events: Vec<String>,
    /// What the file says about itself: the caches.
    pub(super) descriptions: Vec<&'a str>,
    pub(super) objects: Names<'a>,
    pub(super) files: Names<'a>,
    pub(super) functions: Vec<Function<'a>>,
}

/// A function and its costs.
#[derive(Debug)]
pub(super) struct Function<'a> {
    pub(super) name: &'a str,
    pub(super) object: usize,
    pub(super) file: usize,
    /// Own costs by place.
    pub(super) own: FxHashMap<Place, Cost>,
    /// Calls by callee, and the place of the call.
    pub(super) calls: FxHashMap<(usize, Place), Call>,
}

/// A line, or one of its instructions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: u32,
    /// The address in the object file; 0 if the file has only lines.
    pub(super) address: u64,
}

/// The calls to a function at one call site: their number and inclusive cost.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) count: u64,
    /// The address of the function; 0 if the file has only lines.
    pub(super) entry: u64,
    pub(super) cost: Cost,
}

/// Names, each once. Number 0 is the unknown one.
#[derive(Debug)]
pub(super) struct Names<'a> {
    ids: FxHashMap<&'a str, usize>,
    list: Vec<&'a str>,
    /// The file's own numbers.
    numbered: FxHashMap<u64, usize>,
}

impl Default for Names<'_> {
    fn default() -> Self {
        Self { ids: FxHashMap::from_iter([("", 0)]), list: vec![""], numbered: FxHashMap::default() }
    }
}

impl<'a> Names<'a> {
    fn id(&mut self, name: &'a str) -> usize {
        let list = &mut self.list;
        *self.ids.entry(name).or_insert_with(|| {
            list.push(name);
            list.len() - 1
        })
    }

    /// The name in `(3) name`, `(3)` or `name`; `None` for a number without a name.
    fn take(&mut self, text: &'a str) -> Option<usize> {
        match split_number(text) {
            (Some(number), "") => self.numbered.get(&number).copied(),
            (Some(number), name) => {
                let id = self.id(name);
                self.numbered.insert(number, id);
                Some(id)
            }
            (None, name) => Some(self.id(name)),
        }
    }

    pub(super) fn name(&self, id: usize) -> &'a str {
        self.list.get(id).copied().unwrap_or("")
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.list.iter().copied()
    }
}

/// `(3) name` is number 3 and a name.
fn split_number(text: &str) -> (Option<u64>, &str) {
    let text = text.trim();
    let inside = text.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    match inside.and_then(|(number, name)| Some((number.parse().ok()?, name))) {
        Some((number, name)) => (Some(number), name.trim()),
        None => (None, text),
    }
}

/// Reads a whole file.
pub(crate) fn parse(format: Format, bytes: &[u8]) -> Result<Costs<'_>, ImportError> {
    let Ok(text) = std::str::from_utf8(bytes) else {
        // Names are slices of the text.
        let end = bytes.utf8_chunks().next().map_or(0, |chunk| chunk.valid().len());
        let line = 1 + bytes[..end].iter().filter(|byte| **byte == b'\n').count();
        return Err(ImportError::at_line(format, line as u64, "not UTF-8 text"));
    };
    let mut parser = Parser::new(format);
    for (number, line) in (1..).zip(text.lines()) {
        parser.line = number;
        parser.take(line.trim_end())?;
    }
    if parser.costs.events.is_empty() {
        return Err(ImportError::unusable(format, "the counted events are missing"));
    }
    Ok(parser.costs)
}

struct Parser<'a> {
    format: Format,
    costs: Costs<'a>,
    line: u64,
    /// The number of columns before the costs. The last is the line.
    positions: usize,
    /// The last position, which others are relative to.
    last: Vec<u64>,
    object: usize,
    file: usize,
    function: Option<usize>,
    callee_object: Option<usize>,
    callee_file: Option<usize>,
    callee: Option<usize>,
    /// The number of calls that the next line's cost is for.
    calls: Option<u64>,
    /// The address that they go to; 0 if the file has only lines.
    entry: u64,
    function_ids: FxHashMap<FunctionKey<'a>, usize>,
    /// Names of functions by the file's own numbers.
    function_names: FxHashMap<u64, &'a str>,
}

/// Functions are distinguished by number if they have one: two files can have functions of the same name.
#[derive(Debug, PartialEq, Eq, Hash)]
enum FunctionKey<'a> {
    Number(u64),
    Name(&'a str, usize, usize),
}

impl<'a> Parser<'a> {
    fn new(format: Format) -> Self {
        Self {
            format,
            costs: Costs::default(),
            line: 0,
            positions: 1,
            last: vec![0],
            object: 0,
            file: 0,
            function: None,
            callee_object: None,
            callee_file: None,
            callee: None,
            calls: None,
            entry: 0,
            function_ids: FxHashMap::default(),
            function_names: FxHashMap::default(),
        }
    }

    fn error(&self, what: impl Into<String>) -> ImportError {
        ImportError::at_line(self.format, self.line, what)
    }

    fn take(&mut self, line: &'a str) -> Result<(), ImportError> {
        let first = line.as_bytes().first().copied().unwrap_or(b'#');
        if first == b'#' {
            return Ok(());
        }
        if first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'*') {
            return self.cost_line(line);
        }
        if let Some((key, value)) = line.split_once('=')
            && key.bytes().all(|byte| byte.is_ascii_lowercase())
        {
            return self.name_line(key, value);
        }
        if let Some((key, value)) = line.split_once(':') {
            return self.head_line(key, value.trim());
        }
        Err(self.error("unknown line"))
    }

    fn head_line(&mut self, key: &str, value: &'a str) -> Result<(), ImportError> {
        match key {
            "cmd" => value.clone_into(&mut self.costs.command),
            "desc" => self.costs.descriptions.push(value),
            "pid" => self.costs.pid = value.parse().unwrap_or(0),
            "thread" => self.costs.thread = value.parse().ok(),
            "positions" => {
                self.positions = value.split_whitespace().count().clamp(1, 2);
                self.last = vec![0; self.positions];
            }
            "events" => {
                let events: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
                if events.is_empty() || events.len() > MOST_EVENTS {
                    return Err(self.error(format!("invalid number of events: {}", events.len())));
                }
                // Each part of a recording repeats this line.
                if !self.costs.events.is_empty() && self.costs.events != events {
                    return Err(self.error("another part of this file counts different events"));
                }
                self.costs.events = events;
            }
            _ => {}
        }
        Ok(())
    }

    fn name_line(&mut self, key: &str, value: &'a str) -> Result<(), ImportError> {
        let unknown = "this number has no name";
        match key {
            "ob" => {
                self.object = self.costs.objects.take(value).ok_or_else(|| self.error(unknown))?;
            }
            "fl" | "fi" | "fe" => {
                self.file = self.costs.files.take(value).ok_or_else(|| self.error(unknown))?;
            }
            "fn" => self.function = Some(self.function(value, self.object, self.file)?),
            "cob" => {
                let object = self.costs.objects.take(value).ok_or_else(|| self.error(unknown))?;
                self.callee_object = Some(object);
            }
            "cfi" | "cfl" => {
                let file = self.costs.files.take(value).ok_or_else(|| self.error(unknown))?;
                self.callee_file = Some(file);
            }
            "cfn" => {
                let object = self.callee_object.unwrap_or(self.object);
                let file = self.callee_file.unwrap_or(self.file);
                self.callee = Some(self.function(value, object, file)?);
            }
            "calls" => {
                let mut words = value.split_whitespace();
                self.calls = Some(words.next().and_then(number).unwrap_or(0));
                let entry = words.next().filter(|_| self.positions > 1);
                self.entry = entry.and_then(|word| position(word, self.last[0])).unwrap_or(0);
            }
            // Jumps have no cost, and the line after them is a position without costs. But a name can appear
            // here for the first time.
            "jfi" | "jfl" => {
                self.costs.files.take(value).ok_or_else(|| self.error(unknown))?;
            }
            "jfn" => {
                self.function(value, self.object, self.file)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn function(&mut self, text: &'a str, object: usize, file: usize) -> Result<usize, ImportError> {
        let (key, name) = match split_number(text) {
            (Some(number), "") => {
                let name = self.function_names.get(&number).copied();
                (FunctionKey::Number(number), name.ok_or_else(|| self.error("this number has no name"))?)
            }
            (Some(number), name) => {
                self.function_names.insert(number, name);
                (FunctionKey::Number(number), name)
            }
            (None, name) => (FunctionKey::Name(name, object, file), name),
        };
        let functions = &mut self.costs.functions;
        Ok(*self.function_ids.entry(key).or_insert_with(|| {
            let (own, calls) = (FxHashMap::default(), FxHashMap::default());
            functions.push(Function { name, object, file, own, calls });
            functions.len() - 1
        }))
    }

    fn cost_line(&mut self, line: &str) -> Result<(), ImportError> {
        let mut words = line.split_ascii_whitespace();
        for column in 0..self.positions {
            let word = words.next().ok_or_else(|| self.error("a position is missing"))?;
            let position = position(word, self.last[column]);
            self.last[column] =
                position.ok_or_else(|| self.error(format!("{word:.20} is not a position")))?;
        }
        let line = u32::try_from(self.last.last().copied().unwrap_or(0)).unwrap_or(0);
        let address = if self.positions > 1 { self.last[0] } else { 0 };
        let at = Place { file: self.file, line, address };
        let mut cost: Cost = vec![0; self.costs.events.len()].into();
        let mut some = false;
        for (column, word) in words.enumerate() {
            // Zeros can be written as a dot.
            let value = if word == "." { Some(0) } else { number(word) };
            let value = value.ok_or_else(|| self.error(format!("{word:.20} is not a cost")))?;
            let slot = cost.get_mut(column);
            *slot.ok_or_else(|| self.error("more costs than events"))? = value;
            some |= value > 0;
        }
        let calls = self.calls.take();
        let callee = self.callee.take_if(|_| calls.is_some());
        if calls.is_some() {
            (self.callee_object, self.callee_file) = (None, None);
        }
        let Some(function) = self.function.and_then(|function| self.costs.functions.get_mut(function)) else {
            return Err(self.error("a cost before the first function"));
        };
        if !some && calls.is_none() {
            return Ok(());
        }
        let sum = match (callee, calls) {
            (Some(callee), Some(count)) => {
                let call = function.calls.entry((callee, at));
                let call = call.or_insert_with(|| Call { count: 0, entry: self.entry, cost: zeros(&cost) });
                call.count = call.count.saturating_add(count);
                &mut call.cost
            }
            (None, Some(_)) => return Err(self.error("a call without a callee")),
            _ => function.own.entry(at).or_insert_with(|| zeros(&cost)),
        };
        sum.iter_mut().zip(&cost).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
        Ok(())
    }
}

fn zeros(like: &Cost) -> Cost {
    vec![0; like.len()].into()
}

/// A position after this one: `+3`, `-3`, `*` for the same one, or a number.
fn position(word: &str, last: u64) -> Option<u64> {
    match word.as_bytes() {
        [b'*'] => Some(last),
        [b'+', ..] => number(&word[1..]).map(|more| last.wrapping_add(more)),
        [b'-', ..] => number(&word[1..]).map(|less| last.wrapping_sub(less)),
        _ => number(word),
    }
}

/// A decimal number, or a hexadecimal one with `0x`.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}
