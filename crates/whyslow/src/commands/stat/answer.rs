//! The answer of `whyslow stat`, as text and JSON.

use std::os::fd::AsFd;

use whyslow_analyze::stat::{self, Interval, Scope, Spread, ThreadRow};
use whyslow_capture::Counted;
use whyslow_profile::ExitStatus;
use whyslow_render::{json, text};
use whyslow_words::Remark;

use crate::failure::{Failure, Result};
use crate::terminal;

/// All numbers of all runs.
pub(super) struct Answer<'a> {
    runs: &'a [Counted],
    scope: Scope,
    remarks: &'a [Remark],
    spreads: Vec<Spread>,
    series: Vec<Vec<Interval>>,
    threads: Vec<Vec<ThreadRow>>,
    exits: Vec<Option<ExitStatus>>,
}

impl<'a> Answer<'a> {
    /// The events from `asked` on are those that the user named.
    pub(super) fn new(runs: &'a [Counted], scope: Scope, asked: usize, remarks: &'a [Remark]) -> Self {
        let measured = || runs.iter().map(|run| &run.measured);
        let numbers: Vec<_> = measured().map(|measured| stat::numbers(measured, scope, asked)).collect();
        let series = measured().map(|measured| stat::intervals(measured, asked, 0));
        let threads = measured().map(|measured| stat::threads(measured, asked));
        Self {
            runs,
            scope,
            remarks,
            spreads: stat::spreads(&numbers),
            series: series.filter(|intervals| !intervals.is_empty()).collect(),
            threads: threads.filter(|threads| !threads.is_empty()).collect(),
            exits: runs.iter().map(|run| run.exit).collect(),
        }
    }

    /// Text, as wide as the stream.
    pub(super) fn text(&self, stream: impl AsFd) -> String {
        let view = text::StatView {
            runs: self.runs.len(),
            spreads: &self.spreads,
            threads: self.threads.first().map_or(&[], Vec::as_slice),
            remarks: self.remarks,
        };
        text::stat(&view, terminal::width(stream))
    }

    /// JSON.
    pub(super) fn json(&self) -> Result<String> {
        let Some(first) = self.runs.first() else { return Ok(String::new()) };
        let document = json::StatDocument {
            scope: self.scope,
            command: &first.command,
            host: &first.host,
            exits: &self.exits,
            runs: self.runs.len(),
            spreads: &self.spreads,
            events: &first.measured.events,
            series: &self.series,
            threads: &self.threads,
            remarks: self.remarks,
        };
        json::to_string(&json::stat(&document)).map_err(|error| Failure::new(format!("stat: {error}")))
    }
}
