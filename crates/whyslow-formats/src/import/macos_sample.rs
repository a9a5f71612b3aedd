//! Imports the report of macOS's `sample`.
//!
//! ```text
//! Call graph:
//!     825 Thread_15758523   DispatchQueue_1: com.apple.main-thread  (serial)
//!     + 825 start  (in libdyld.dylib) + 1  [0x7fff737cf3d5]
//!     + ! 825 main  (in rg) + 41  [0x10384b549]
//! ```
//! Numbers are samples, callees included. Two columns are one level.

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

const GRAPH: &str = "Call graph:";
/// The column of the threads, and columns per level.
const INDENT: usize = 4;
const PER_LEVEL: usize = 2;

pub(super) fn looks_like(start: &[u8]) -> bool {
    start.starts_with(b"Analysis of sampling ") || start.starts_with(b"Sampling process ")
}

/// A line of the graph and how many of its samples are not in its callees.
struct Node {
    level: usize,
    own: u64,
    text: String,
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut stacks = StackText::of_samples(Format::MacosSample, "sample");
    let mut left_out = lines::LeftOut::default();
    let mut path: Vec<Node> = Vec::new();
    let mut in_graph = false;
    for (number, line) in lines::numbered(bytes) {
        match (in_graph, line.trim()) {
            (false, text) => in_graph = text == GRAPH,
            (true, text) if text.is_empty() || !line.starts_with(' ') => break,
            (true, _) => match node(&line) {
                Some(node) if node.level <= path.len() => {
                    leave(&mut stacks, &mut path, node.level);
                    if let Some(caller) = path.last_mut() {
                        caller.own = caller.own.saturating_sub(node.own);
                    }
                    path.push(node);
                }
                Some(_) => left_out.add(number, "a line of the call graph has no caller"),
                None => left_out.add(number, "a line of the call graph has no number of samples"),
            },
        }
    }
    leave(&mut stacks, &mut path, 0);
    if !in_graph {
        return Err(ImportError::unusable(Format::MacosSample, "no call graph"));
    }
    stacks.finish(left_out)
}

/// Writes the nodes from a level on.
fn leave(stacks: &mut StackText, path: &mut Vec<Node>, level: usize) {
    while path.len() > level {
        if let [thread, frames @ ..] = &path[..]
            && let Some(last) = path.last()
        {
            let frames: Vec<TextFrame<'_>> = frames.iter().map(|node| frame(&node.text)).collect();
            let name = thread.text.split_whitespace().next().unwrap_or("");
            stacks.add(name, &frames, 0, last.own);
        }
        path.pop();
    }
}

fn node(line: &str) -> Option<Node> {
    let at = line.find(|c: char| !matches!(c, ' ' | '+' | '|' | '!' | ':'))?;
    let (count, text) = line[at..].split_once(' ')?;
    let level = at.checked_sub(INDENT)? / PER_LEVEL;
    Some(Node { level, own: count.parse().ok()?, text: text.trim().to_owned() })
}

/// `main  (in rg) + 41  [0x10384b549]  main.rs:12`
fn frame(text: &str) -> TextFrame<'_> {
    match text.split_once("  (in ") {
        Some((name, rest)) => {
            TextFrame::new(name.trim(), rest.split_once(')').map_or("", |(module, _)| module))
        }
        None => TextFrame::new(text.split("  [").next().unwrap_or(text).trim(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::testing::folded;

    #[test]
    fn numbers_without_callees_are_the_stacks() {
        let text = "Analysis of sampling rg (pid 64751) every 1 millisecond\nPath: /rg\n----\n\nCall graph:\n\
            \x20   10 Thread_1   DispatchQueue_1: com.apple.main-thread  (serial)\n\
            \x20   + 10 start  (in libdyld.dylib) + 1  [0x7f]\n\
            \x20   +   6 main  (in rg) + 41  [0x10]\n\
            \x20   +   ! 4 read  (in libc.dylib) + 4  [0x11]\n\
            \x20   +   3 idle  (in rg) + 2  [0x12]\n\
            \x20   5 Thread_2\n\
            \x20     5 ???  (in <unknown binary>)  [0x13]\n\n\
            Total number in stack (recursive counted multiple, when >=5):\n";
        assert!(looks_like(text.as_bytes()));
        let imported = read(text.as_bytes(), &ImportOptions::default()).expect("it is a report");
        assert_eq!(
            folded(&imported),
            ["??? 5", "start 1", "start;idle 3", "start;main 2", "start;main;read 4"]
        );
        assert_eq!(imported.profile.threads.len(), 2);
        assert!(imported.profile.meta.notes.is_empty());
        let cut = text.split("Call graph").next().unwrap();
        assert!(read(cut.as_bytes(), &ImportOptions::default()).is_err());
    }
}
