//! Names of closures and async functions that debug info leaves without a path: with line tables only, each
//! inlined `async fn` is just `{async_fn#0}`. The source says which function a line is in.

use rustc_hash::FxHashMap;
use whyslow_profile::{AsyncForm, Frame, Function, FunctionId, LocationId, Profile, StringId};

use crate::fill::Texts;
use crate::sources::Text;

/// Splits functions without a path by the function that their lines are written in, and names them after it.
pub(crate) fn name(profile: &mut Profile, texts: &mut Texts) {
    let bare: Vec<Option<Bare>> =
        profile.functions.iter().map(|function| Bare::of(profile.text(function.name))).collect();
    if bare.iter().all(Option::is_none) {
        return;
    }
    let mut files: FxHashMap<StringId, Option<Text>> = FxHashMap::default();
    let mut named: FxHashMap<(FunctionId, String), FunctionId> = FxHashMap::default();
    for location in (0..profile.locations.len()).map(LocationId::from) {
        let mut frames: Vec<Frame> = profile.frames.of(location).to_vec();
        let mut changed = false;
        for frame in &mut frames {
            let Some(Some(bare)) = bare.get(frame.function.index()) else { continue };
            let Some(file) = frame.file.filter(|_| frame.line > 0) else { continue };
            let text = files.entry(file).or_insert_with(|| Text::read(profile.text(file)));
            let Some((outer, line)) = text.as_ref().and_then(|text| written_in(text, frame.line, *bare))
            else {
                continue;
            };
            let key = (frame.function, outer);
            frame.function = match named.get(&key) {
                Some(known) => *known,
                None => {
                    let shown = texts.id(&mut profile.strings, &bare.shown(&key.1));
                    let function = &profile.functions[frame.function.index()];
                    let function = Function { name: shown, file: Some(file), line, ..function.clone() };
                    let id = FunctionId::from(profile.functions.len());
                    profile.functions.push(function);
                    named.insert(key, id);
                    id
                }
            };
            changed = true;
        }
        if changed {
            profile.frames.set(location, &frames);
        }
    }
}

/// What a name without a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bare {
    Async(AsyncForm),
    Closure,
}

impl Bare {
    /// `{async_fn#0}`, also with generic arguments.
    fn of(name: &str) -> Option<Self> {
        if name.starts_with("{closure#") {
            return Some(Self::Closure);
        }
        AsyncForm::of_debug_name(name).map(Self::Async)
    }

    fn shown(self, outer: &str) -> String {
        match self {
            Self::Async(form) => format!("{}{outer}", form.prefix()),
            Self::Closure => format!("{outer}::{{{{closure}}}}"),
        }
    }
}

/// The function around a line, and its first line. In formatted source it is the nearest one above that is
/// less indented.
fn written_in(text: &Text, line: u32, bare: Bare) -> Option<(String, u32)> {
    /// Longer functions stay without a name.
    const FARTHEST: u32 = 2000;
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut inner = indent(text.line(line)?);
    let (is_async, name, number) =
        (line.saturating_sub(FARTHEST).max(1)..=line).rev().find_map(|number| {
            let candidate = text.line(number)?;
            let encloses = number == line || indent(candidate) < inner;
            let (is_async, name) = declared(candidate).filter(|_| encloses).or_else(|| {
                // What is around this line is also around the one that it encloses. The end of a declaration
                // over several lines is as indented as its first.
                let trimmed = candidate.trim_start();
                let ends_declaration = [")", "{", "where"].iter().any(|start| trimmed.starts_with(start));
                if !trimmed.is_empty() && !ends_declaration {
                    inner = inner.min(indent(candidate));
                }
                None
            })?;
            Some((is_async, name, number))
        })?;
    let fits = is_async || bare != Bare::Async(AsyncForm::Function);
    fits.then(|| (name.to_owned(), number))
}

/// Whether a line declares an async function, and its name: `pub(crate) async fn fetch<T>(…` → `fetch`.
fn declared(line: &str) -> Option<(bool, &str)> {
    let mut words = line.split_whitespace();
    let mut is_async = false;
    loop {
        match words.next()? {
            "fn" => break,
            "async" => is_async = true,
            "pub" | "const" | "unsafe" | "default" | "extern" | "\"C\"" => {}
            word if word.starts_with("pub(") => {}
            // `pub(in a::b)` has a space.
            word if word.ends_with(')') => {}
            _ => return None,
        }
    }
    let name = words.next()?;
    let end = name.find(|letter: char| !(letter.is_alphanumeric() || letter == '_')).unwrap_or(name.len());
    (end > 0).then(|| (is_async, &name[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "
async fn hash(n: u64) -> u64 {
    spin(n);
    fn helper() {
        work();
    }
    tokio::spawn(async move {
        spin(1);
    });
}
pub(crate) async fn one() { spin(2) }
async fn long(
    n: u64,
) -> u64 {
    spin(n)
}
impl App {
    pub fn run<T>(&self) {
        thread::spawn(move || {
            self.turn();
        });
    }
}
";

    #[test]
    fn lines_are_in_the_nearest_function_that_is_less_indented() {
        let text = Text::of(SOURCE.to_owned(), None);
        let (function, block) = (Bare::Async(AsyncForm::Function), Bare::Async(AsyncForm::Block));
        for (line, bare, expected) in [
            (3, function, Some("async fn hash")),
            (8, block, Some("async block in hash")),
            (9, function, Some("async fn hash")),
            (11, function, Some("async fn one")),
            (15, function, Some("async fn long")),
            (20, Bare::Closure, Some("run::{{closure}}")),
            (20, function, None),
            (1, block, None),
        ] {
            let found = written_in(&text, line, bare).map(|(outer, _)| bare.shown(&outer));
            assert_eq!(found.as_deref(), expected, "line {line}");
        }
        assert_eq!(Bare::of("{async_fn#0}<&str>"), Some(function));
        assert_eq!(Bare::of("app::{closure#0}"), None);
    }
}
