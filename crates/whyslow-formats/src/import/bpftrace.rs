//! Imports the maps of stacks that bpftrace prints.
//!
//! ```text
//! @samples[
//!     do_sys_open+5
//! ,
//!     main+20
//! , bash]: 12
//! ```
//! Stacks are innermost first. Other keys of a map (a name, numbers) name the thread.

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    let mut lines = lines::numbered(start).map(|(_, line)| line);
    let mut before = lines.by_ref().take(1000);
    let is_open = |line: &str| opening(line).is_some();
    lines::is_text(start)
        && before.any(|line| is_open(&line))
        && lines.next().is_some_and(|line| line.starts_with("    "))
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut stacks = StackText::of_samples(Format::Bpftrace, "bpftrace");
    let mut left_out = lines::LeftOut::default();
    let mut open: Option<Open> = None;
    for (number, line) in lines::numbered(bytes) {
        let text = line.trim();
        if let Some(keys) = opening(&line) {
            open = Some(Open { keys: keys_of(keys), frames: Vec::new() });
        } else if let Some((keys, count)) = closing(text) {
            let Some(mut open) = open.take() else { continue };
            open.keys.extend(keys_of(keys));
            let Some(count) = count else {
                left_out.add(number, "the value of a stack is not a number");
                continue;
            };
            let frames: Vec<TextFrame<'_>> = open.frames.iter().rev().map(|line| frame(line)).collect();
            stacks.add(&open.keys.join(" "), &frames, 0, count);
        } else if let Some(open) = &mut open
            && !matches!(text, "" | ",")
        {
            match text.strip_prefix(", ").or(text.strip_suffix(',').filter(|_| !line.starts_with("    "))) {
                Some(keys) => open.keys.extend(keys_of(keys)),
                None => open.frames.push(text.to_owned()),
            }
        }
    }
    stacks.finish(left_out)
}

/// A stack that is being read.
struct Open {
    keys: Vec<String>,
    /// Innermost first.
    frames: Vec<String>,
}

/// The keys in the first line of an entry whose next lines are a stack: `@name[` or `@[bash, `.
fn opening(line: &str) -> Option<&str> {
    let (name, keys) = line.strip_prefix('@')?.split_once('[')?;
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_name && !keys.contains(']')).then_some(keys)
}

/// The keys and the value of the last line: `, bash]: 12`.
fn closing(text: &str) -> Option<(&str, Option<u64>)> {
    let (keys, value) = text.rsplit_once("]: ")?;
    Some((keys, value.trim().parse().ok()))
}

fn keys_of(keys: &str) -> Vec<String> {
    keys.split(',').map(str::trim).filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// `function+12`
fn frame(text: &str) -> TextFrame<'_> {
    match text.rsplit_once('+') {
        Some((name, offset)) if !offset.is_empty() && offset.bytes().all(|byte| byte.is_ascii_digit()) => {
            TextFrame::new(name, "")
        }
        _ => TextFrame::new(text, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::testing::folded;

    #[test]
    fn maps_of_stacks_are_read() {
        let text = "Attaching 1 probe...\n\n@start[7]: 12\n@[\n    do_sys_open+5\n    entry+113\n, \n    __open+8\n    main+20\n, bash]: 12\n\
            @on[cat, \n    read+3\n    main+9\n]: 3\n@[\n    0x7f12\n]: 1\n";
        assert!(looks_like(text.as_bytes()));
        let imported = read(text.as_bytes(), &ImportOptions::default()).expect("it is bpftrace's");
        assert_eq!(folded(&imported), ["0x7f12 1", "main;__open;entry;do_sys_open 12", "main;read 3"]);
        let profile = &imported.profile;
        let threads: Vec<&str> = profile.threads.iter().map(|thread| profile.text(thread.name)).collect();
        assert_eq!(threads, ["bash", "cat", "all threads"]);
        assert!(!looks_like(b"@[bash]: 12\n@[cat]: 3\n"));
    }
}
