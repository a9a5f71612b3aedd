//! Imports the stacks that DTrace prints.
//!
//! ```text
//!               libc.so.1`write+0xa
//!               app`main+0x20
//!                12
//! ```
//! Stacks are innermost first, and the number below is how often they were seen. `stack()` and `ustack()`
//! together are two stacks above one number, the kernel's first.

use super::stack_text::{StackText, TextFrame};
use super::{Format, ImportError, ImportOptions, Imported, lines};

pub(super) fn looks_like(start: &[u8]) -> bool {
    let start = lines::whole(start);
    if !lines::is_text(start) {
        return false;
    }
    // Frames, the first of which has a module, and a number.
    let (mut has_module, mut frames) = (false, 0);
    for (_, line) in lines::numbered(start) {
        let text = line.trim();
        match text.parse::<u64>() {
            Ok(_) if frames > 0 && has_module => return true,
            _ if text.is_empty() => {}
            _ if line.starts_with(' ') && is_frame(text) => {
                frames += 1;
                has_module |= text.contains('`');
            }
            _ => (has_module, frames) = (false, 0),
        }
    }
    false
}

pub(super) fn read(bytes: &[u8], _options: &ImportOptions) -> Result<Imported, ImportError> {
    let mut stacks = StackText::of_samples(Format::Dtrace, "DTrace");
    let mut left_out = lines::LeftOut::default();
    // Innermost first.
    let mut open: Vec<String> = Vec::new();
    for (number, line) in lines::numbered(bytes) {
        let text = line.trim();
        if text.is_empty() {
            continue;
        }
        if let Ok(count) = text.parse() {
            let frames: Vec<TextFrame<'_>> = open.iter().rev().map(|line| frame(line)).collect();
            stacks.add("", &frames, 0, count);
            open.clear();
        } else if is_frame(text) || !open.is_empty() {
            open.push(text.to_owned());
        } else if number > 2 {
            // The first lines are titles.
            left_out.add(number, "neither a stack frame nor a number");
        }
    }
    stacks.finish(left_out)
}

fn is_frame(text: &str) -> bool {
    let address =
        text.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_module = |module: &str| !module.is_empty() && !module.contains(char::is_whitespace);
    address || text.split_once('`').is_some_and(|(module, name)| is_module(module) && !name.is_empty())
}

/// ``module`function+0xoffset``
fn frame(text: &str) -> TextFrame<'_> {
    let (module, name) = text.split_once('`').unwrap_or(("", text));
    let name = match name.rsplit_once("+0x") {
        Some((name, offset)) if offset.bytes().all(|byte| byte.is_ascii_hexdigit()) => name,
        _ => name,
    };
    TextFrame::new(name, module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::import::testing::folded;

    #[test]
    fn stacks_of_the_kernel_and_the_program_are_one() {
        let text = "CPU     ID                    FUNCTION:NAME\n  8  35077                        :tick-60s\n\n\
            \x20             genunix`open+0x2c\n              unix`sys_syscall\n\n\
            \x20             libc.so.1`__open\n              app`main+0x10\n                3\n\n\
            \x20             app`main+0x12\n              0x104d08831\n                2\n";
        assert!(looks_like(text.as_bytes()));
        let imported = read(text.as_bytes(), &ImportOptions::default()).expect("it is DTrace's");
        assert_eq!(folded(&imported), ["0x104d08831;main 2", "main;__open;sys_syscall;open 3"]);
    }

    #[test]
    fn other_texts_are_not_taken_for_it() {
        assert!(!looks_like(b"main;f 12\n"));
        assert!(!looks_like(b"  see `man perf`\n  12\n"));
        let titles = b"CPU     ID                    FUNCTION:NAME\n  8  35077      :tick-60s\n";
        assert!(read(titles, &ImportOptions::default()).is_err());
    }
}
