//! The one kind of error that the user sees, on one line: what failed, why, and the next command to try.

use std::fmt;
use std::io::Write;

use anstyle::{AnsiColor, Style};
use whyslow_render::sanitize::clean;

use crate::exit::Exit;

/// An error message and its exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    next: Option<String>,
}

/// The result of everything whose failure the user sees.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// An error of whyslow itself: what failed and why, with the name of the file.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, what: without_error_numbers(what.into()), next: None }
    }

    /// Adds the next command to try.
    #[must_use]
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Sets another exit code.
    #[must_use]
    pub(crate) fn exit_with(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Prints it to stderr.
    pub(crate) fn show(&self) {
        print("error", AnsiColor::Red, &self.to_string());
    }
}

/// Removes the numbers that std adds to the messages of system errors: `Permission denied (os error 13)`.
pub(crate) fn without_error_numbers(mut text: String) -> String {
    const START: &str = " (os error ";
    while let Some(start) = text.find(START) {
        let Some(length) = text[start..].find(')') else { break };
        text.replace_range(start..=start + length, "");
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.next {
            Some(next) => write!(f, "; try: {next}"),
            None => Ok(()),
        }
    }
}

/// Prints a warning to stderr; the command continues.
pub(crate) fn warn(text: &str) {
    print("warning", AnsiColor::Yellow, text);
}

fn print(kind: &str, colour: AnsiColor, text: &str) {
    let style = Style::new().fg_color(Some(colour.into())).bold();
    let text = harmless(text);
    // If stderr is closed, there is no place left to print to.
    let _ = writeln!(anstream::stderr(), "whyslow: {style}{kind}{style:#}: {text}");
}

/// Names in a message come from files: a terminal must not obey them. Line ends are whyslow's own.
pub(crate) fn harmless(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminals_do_not_obey_names_in_messages() {
        assert_eq!(harmless("no metric 'a\x1b[31mb'\ntry: c\r"), "no metric 'a\\u{1b}[31mb'\ntry: c\\u{d}");
    }

    #[test]
    fn messages_have_no_error_numbers() {
        let failure = Failure::new("x: denied (os error 13), and y: missing (os error 2)").next("z");
        assert_eq!(failure.to_string(), "x: denied, and y: missing; try: z");
    }
}
