//! One item of a check-up, and the table of all items.

use std::fmt::Write;

use anstyle::Style;
use serde::Serialize;
use whyslow_render::json::RemarkJson;
use whyslow_render::text::severity_style;
use whyslow_words::{About, Fact, Remark, Severity};

whyslow_profile::facts! {
    /// What to check.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Check {
        /// Whether this user may open perf events.
        "perf-events" => PerfEvents,
        /// Whether programs can sample themselves with timers.
        "own-timers" => OwnTimers,
        /// Whether running programs can be recorded without perf events.
        "running-programs" => RunningPrograms,
        /// Whether kernel time is recorded.
        "kernel-time" => KernelTime,
        /// Whether kernel functions have names.
        "kernel-names" => KernelNames,
        /// Whether there is a hardware counter.
        "cycle-counter" => CycleCounter,
        /// The highest permitted sample rate.
        "sample-rate" => SampleRate,
        /// The ring buffers that a recording gets.
        "buffers" => Buffers,
        /// Whether the memory of other programs is readable.
        "live-stacks" => LiveStacks,
        /// A virtual machine, or Windows.
        "system" => System,
        /// The container that whyslow runs in.
        "container" => Container,
        /// The CI service that runs the job.
        "runner" => Runner,
        /// A filter of system calls.
        "seccomp" => Seccomp,
        /// The folder for symbols.
        "symbol-cache" => SymbolCache,
        /// The kind of file.
        "file" => File,
        /// Lines and inlined functions.
        "debug-info" => DebugInfo,
        /// Function names.
        "symbols" => Symbols,
        /// Whether the compiler optimised.
        "optimisation" => Optimisation,
        /// Tables to unwind stacks with.
        "unwind-tables" => UnwindTables,
        /// Frame pointers to unwind stacks with.
        "frame-pointers" => FramePointers,
        /// The id that distinguishes builds.
        "build-id" => BuildId,
    }
}

impl Check {
    /// The name in text and JSON.
    fn label(self) -> String {
        self.id().replace('-', " ")
    }

    fn about(self) -> About {
        match self {
            Self::File
            | Self::DebugInfo
            | Self::Symbols
            | Self::Optimisation
            | Self::UnwindTables
            | Self::FramePointers
            | Self::BuildId => About::Build,
            _ => About::Machine,
        }
    }
}

/// The result of a check, what follows from it, and how to change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// The check.
    pub(super) check: Check,
    /// How much it matters: from fine to serious (recording does not work).
    pub(super) severity: Severity,
    /// The result.
    pub(super) found: String,
    /// What follows from it; may be empty.
    pub(super) consequence: String,
    /// The command or setting that changes it, if there is one.
    pub(super) fix: Option<String>,
    /// The command that makes the change permanent, if a reboot would undo the fix.
    pub(super) permanent: Option<String>,
    /// The commands that permit it to the members of a group only, if that is possible.
    pub(super) for_group: Option<String>,
}

impl Fact for Item {
    fn remark(&self) -> Remark {
        let so = if self.consequence.is_empty() { String::new() } else { format!("; {}", self.consequence) };
        Remark {
            id: self.check.id(),
            about: self.check.about(),
            severity: self.severity,
            text: format!("{}: {}{so}", self.check.label(), self.found),
            fix: self.fix.clone(),
        }
    }
}

/// An item as JSON: the fields of a check-up, and the remark.
#[derive(Debug, Serialize)]
pub(super) struct ItemJson<'a> {
    check: String,
    state: &'static str,
    found: &'a str,
    consequence: &'a str,
    permanent: Option<&'a str>,
    for_group: Option<&'a str>,
    #[serde(flatten)]
    remark: RemarkJson,
}

impl<'a> From<&'a Item> for ItemJson<'a> {
    fn from(item: &'a Item) -> Self {
        Self {
            check: item.check.label(),
            state: item.state(),
            found: &item.found,
            consequence: &item.consequence,
            permanent: item.permanent.as_deref(),
            for_group: item.for_group.as_deref(),
            remark: item.remark().into(),
        }
    }
}

/// The file that makes kernel settings permanent.
const SETTINGS_FILE: &str = "/etc/sysctl.d/99-whyslow.conf";

impl Item {
    fn new(check: Check, severity: Severity, found: impl Into<String>) -> Self {
        Self {
            check,
            severity,
            found: found.into(),
            consequence: String::new(),
            fix: None,
            permanent: None,
            for_group: None,
        }
    }

    /// All is well.
    pub(super) fn ok(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Fine, found)
    }

    /// Good to know.
    pub(super) fn note(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, found)
    }

    /// Profiles lose something.
    pub(super) fn loss(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, found)
    }

    /// Recording does not work.
    pub(super) fn problem(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Serious, found)
    }

    /// The state in JSON.
    fn state(&self) -> &'static str {
        match self.severity {
            Severity::Fine => "ok",
            Severity::Note | Severity::Warning => "note",
            Severity::Serious => "problem",
        }
    }

    /// Adds what follows.
    pub(super) fn so(mut self, consequence: impl Into<String>) -> Self {
        self.consequence = consequence.into();
        self
    }

    /// Adds the kernel settings that change it, `name=value` separated by spaces: until reboot, and
    /// permanently.
    pub(super) fn sysctl(mut self, settings: &str) -> Self {
        self.fix = Some(format!("sudo sysctl {settings}"));
        self.permanent = Some(format!("printf '%s\\n' {settings} | sudo tee -a {SETTINGS_FILE}"));
        self
    }

    /// Adds how to permit perf events to a group of users instead of all.
    pub(super) fn or_group(mut self) -> Self {
        self.for_group = Some(
            "sudo groupadd -f perf_users; sudo usermod -aG perf_users $USER; W=$(command -v whyslow); \
             sudo chgrp perf_users $W; sudo chmod 750 $W; sudo setcap cap_perfmon,cap_ipc_lock,cap_syslog+ep $W; \
             then log in again"
                .to_owned(),
        );
        self
    }

    /// Adds how to change it.
    pub(super) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into());
        self
    }
}

/// A table with a heading: state, check and result of each item; then what follows and the fixes, each on its
/// own line.
pub(super) fn table(heading: &str, items: &[Item]) -> String {
    let bold = Style::new().bold();
    let dim = Style::new().dimmed();
    let width = items.iter().map(|item| item.check.id().len()).max().unwrap_or(0);
    let indent = " ".repeat(11 + width);
    let mut text = format!("{bold}{heading}{bold:#}\n");
    for item in items {
        let word = if item.severity == Severity::Serious { "PROBLEM" } else { item.state() };
        let style = severity_style(item.severity);
        // Writing to a String cannot fail.
        let _ = writeln!(text, " {style}{word:<7}{style:#}  {:<width$} {}", item.check.label(), item.found);
        if !item.consequence.is_empty() {
            let _ = writeln!(text, "{indent}{}", item.consequence);
        }
        let ways = [("fix", &item.fix), ("permanent fix", &item.permanent), ("for a group", &item.for_group)];
        for (name, way) in ways {
            if let Some(way) = way {
                let _ = writeln!(text, "{indent}{dim}{name}:{dim:#} {way}");
            }
        }
    }
    text
}
