//! The one kind of error a user sees, on one line: what happened and why, then the next thing to try.

use std::fmt;
use std::io::Write;

use anstyle::{AnsiColor, Style};

use crate::exit::Exit;

/// A message for the user, and the exit code that goes with it.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    what: String,
    next: Option<String>,
}

/// The result of everything that can fail in front of the user.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure of whyslow itself: what happened and why, naming the file.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { exit: Exit::Failed, what: what.into(), next: None }
    }

    /// Adds the next thing to try.
    #[must_use]
    pub(crate) fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }

    /// Chooses another exit code.
    #[must_use]
    pub(crate) fn exit_with(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// Shows it on stderr.
    pub(crate) fn show(&self) {
        tell("error", AnsiColor::Red, &self.to_string());
    }
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

/// Shows a warning on stderr: something the user should know although the work goes on.
pub(crate) fn warn(text: &str) {
    tell("warning", AnsiColor::Yellow, text);
}

fn tell(kind: &str, colour: AnsiColor, text: &str) {
    let style = Style::new().fg_color(Some(colour.into())).bold();
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(anstream::stderr(), "whyslow: {style}{kind}{style:#}: {text}");
}
