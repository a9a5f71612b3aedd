//! One item of a check-up, and a list of them as text.

use std::fmt::Write;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

/// How an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Something is lost, or good to know.
    Note,
    /// It prevents recording.
    Problem,
}

/// What was looked at, what it is, what follows, and how to change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Item {
    /// A stable name for programs.
    pub(super) check: &'static str,
    /// How it is.
    pub(super) state: State,
    /// What was found.
    pub(super) found: String,
    /// What follows from it; empty when nothing does.
    pub(super) consequence: String,
    /// The command or setting that changes it, if there is one.
    pub(super) fix: Option<String>,
    /// The command that keeps the change after the next start of the machine, where the fix alone is undone by it.
    pub(super) permanent: Option<String>,
    /// The commands that allow it to the members of a group only, where that is possible.
    pub(super) for_group: Option<String>,
}

/// The file that keeps settings of the kernel.
const SETTINGS_FILE: &str = "/etc/sysctl.d/99-whyslow.conf";

impl Item {
    fn new(check: &'static str, state: State, found: impl Into<String>) -> Self {
        Self {
            check,
            state,
            found: found.into(),
            consequence: String::new(),
            fix: None,
            permanent: None,
            for_group: None,
        }
    }

    pub(super) fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, State::Ok, found)
    }

    pub(super) fn note(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, State::Note, found)
    }

    pub(super) fn problem(check: &'static str, found: impl Into<String>) -> Self {
        Self::new(check, State::Problem, found)
    }

    /// Says what follows.
    pub(super) fn so(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = consequence.into();
        self
    }

    /// Says which settings of the kernel, `name=value` with spaces between them, change it: now and for good.
    pub(super) fn sysctl(mut self, settings: &str) -> Self {
        self.fix = Some(format!("sudo sysctl {settings}"));
        self.permanent = Some(format!("printf '%s\\n' {settings} | sudo tee -a {SETTINGS_FILE}"));
        self
    }

    /// Says how to allow the events to a group of users instead of to everybody.
    pub(super) fn or_group(mut self) -> Self {
        self.for_group = Some(
            "sudo groupadd -f perf_users; sudo usermod -aG perf_users $USER; W=$(command -v whyslow); \
             sudo chgrp perf_users $W; sudo chmod 750 $W; sudo setcap cap_perfmon,cap_ipc_lock,cap_syslog+ep $W; \
             then log in again"
                .to_owned(),
        );
        self
    }

    /// Says how to change it.
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// A list of items under a heading: state, check, finding; then what follows and the fix, each on its own line.
pub(super) fn table(heading: &str, items: &[Item]) -> String {
    let bold = Style::new().bold();
    let dim = Style::new().dimmed();
    let width = items.iter().map(|item| item.check.len()).max().unwrap_or(0);
    let indent = " ".repeat(11 + width);
    let mut text = format!("{bold}{heading}{bold:#}\n");
    for item in items {
        let (word, colour) = match item.state {
            State::Ok => ("ok", AnsiColor::Green),
            State::Note => ("note", AnsiColor::Yellow),
            State::Problem => ("PROBLEM", AnsiColor::Red),
        };
        let style = Style::new().fg_color(Some(colour.into()));
        // Writing to a String cannot fail.
        let _ = writeln!(text, " {style}{word:<7}{style:#}  {:<width$} {}", item.check, item.found);
        if !item.consequence.is_empty() {
            let _ = writeln!(text, "{indent}{}", item.consequence);
        }
        let ways = [("fix", &item.fix), ("for good", &item.permanent), ("for a group", &item.for_group)];
        for (name, way) in ways {
            if let Some(way) = way {
                let _ = writeln!(text, "{indent}{dim}{name}:{dim:#} {way}");
            }
        }
    }
    text
}
