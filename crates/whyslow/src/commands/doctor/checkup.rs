//! One item of a check-up, and a list of them as text.

use std::fmt::Write;

use anstyle::Style;
use serde::Serialize;
use whyslow_analyze::{About, Fact, Remark, Severity};
use whyslow_render::json::RemarkJson;
use whyslow_render::text::severity_style;

whyslow_profile::facts! {
    /// What is looked at.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) enum Check {
        /// Whether the kernel lets events be opened.
        "perf-events" => PerfEvents,
        /// Whether programs can sample themselves.
        "own-timers" => OwnTimers,
        /// Whether programs that run already can be looked at, where perf events are refused.
        "running-programs" => RunningPrograms,
        /// Whether kernel time is recorded.
        "kernel-time" => KernelTime,
        /// Whether the kernel's functions have names.
        "kernel-names" => KernelNames,
        /// Whether there is a hardware counter.
        "cycle-counter" => CycleCounter,
        /// How often samples may be taken.
        "sample-rate" => SampleRate,
        /// The rings that a recording gets.
        "buffers" => Buffers,
        /// Whether memory of other programs can be read.
        "live-stacks" => LiveStacks,
        /// A virtual machine, or Windows.
        "system" => System,
        /// What whyslow runs in.
        "container" => Container,
        /// The service that runs the job.
        "runner" => Runner,
        /// A filter of system calls.
        "seccomp" => Seccomp,
        /// Where symbols are kept.
        "symbol-cache" => SymbolCache,
        /// What kind of file it is.
        "file" => File,
        /// Lines and inlined functions.
        "debug-info" => DebugInfo,
        /// Names.
        "symbols" => Symbols,
        /// Whether the compiler optimised.
        "optimisation" => Optimisation,
        /// How stacks can be walked.
        "unwind-tables" => UnwindTables,
        /// The other way.
        "frame-pointers" => FramePointers,
        /// What tells builds apart.
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

/// What was looked at, what it is, what follows, and how to change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Item {
    /// What was looked at.
    pub(super) check: Check,
    /// How much it matters: fine, or serious where it prevents recording.
    pub(super) severity: Severity,
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

/// An item as JSON: what only a check-up has, and the remark.
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

/// The file that keeps settings of the kernel.
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

    /// It is as it should be.
    pub(super) fn ok(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Fine, found)
    }

    /// It is good to know.
    pub(super) fn note(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Note, found)
    }

    /// Something is lost by it.
    pub(super) fn loss(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Warning, found)
    }

    /// It prevents recording.
    pub(super) fn problem(check: Check, found: impl Into<String>) -> Self {
        Self::new(check, Severity::Serious, found)
    }

    /// The word in JSON for how it is.
    fn state(&self) -> &'static str {
        match self.severity {
            Severity::Fine => "ok",
            Severity::Note | Severity::Warning => "note",
            Severity::Serious => "problem",
        }
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

/// A list of items under a heading: how each is, the check, the finding; then what follows and the fix, each on its own line.
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
        let ways = [("fix", &item.fix), ("for good", &item.permanent), ("for a group", &item.for_group)];
        for (name, way) in ways {
            if let Some(way) = way {
                let _ = writeln!(text, "{indent}{dim}{name}:{dim:#} {way}");
            }
        }
    }
    text
}
