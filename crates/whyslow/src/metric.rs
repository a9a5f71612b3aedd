//! The options that choose the metric; shared by all query commands.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use whyslow_analyze::heap::{LIVE, live_at};
use whyslow_analyze::{ELAPSED_TIME, Selection, elapsed_time};
use whyslow_profile::Profile;

use crate::failure::{Failure, Result};
use crate::values;

/// The metric to count.
#[derive(Debug, Clone, Args)]
pub(crate) struct MetricArgs {
    /// Count this metric, such as cpu-time or live-at-peak [default: CPU time, else the first]
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Count heap bytes live at this time, such as 3.2s
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    live_at: Option<Duration>,
}

impl MetricArgs {
    /// Whether an option was given.
    pub(crate) fn is_given(&self) -> bool {
        self.metric.is_some() || self.live_at.is_some()
    }

    /// Uses this metric if no option was given.
    pub(crate) fn set_default(&mut self, name: &str) {
        if !self.is_given() {
            self.metric = Some(name.to_owned());
        }
    }

    /// The name of the requested metric, if the profile stores it (live bytes are computed).
    pub(crate) fn in_file(&self) -> Option<&str> {
        self.metric.as_deref().filter(|_| !self.is_live())
    }

    /// Whether live bytes are requested. They belong to an instant, not to a range of time.
    pub(crate) fn is_live(&self) -> bool {
        self.live_at.is_some() || self.metric.as_deref() == Some(LIVE)
    }

    /// Whether `--live-at` was given.
    pub(crate) fn has_live_at(&self) -> bool {
        self.live_at.is_some()
    }

    /// The row of the requested metric. Live bytes are computed and added to the profile; without
    /// `--live-at`, those at `end_ns`.
    pub(crate) fn resolve(&self, path: &Path, profile: &mut Profile, end_ns: u64) -> Result<usize> {
        let name = match (self.metric.as_deref(), self.live_at) {
            (None, None) => return Ok(profile.main_metric()),
            (None, Some(_)) => LIVE,
            (Some(name), None) => name,
            (Some(LIVE), Some(_)) => LIVE,
            (Some(name), Some(_)) => {
                return Err(Failure::new(format!(
                    "--live-at shows live bytes, but --metric asks for '{name}'"
                ))
                .next("--live-at without --metric"));
            }
        };
        if name == LIVE {
            let at = self.live_at.map(|at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
            if let Some((metric, samples)) = live_at(profile, at.unwrap_or(end_ns)) {
                return Ok(profile.set_metric(metric, samples));
            }
        }
        if name == ELAPSED_TIME
            && let Some((metric, samples)) = elapsed_time(profile)
        {
            return Ok(profile.set_metric(metric, samples));
        }
        Selection::metric_named(profile, name).map_err(|error| {
            let failure = Failure::new(format!("{}: {error}", path.display()));
            match recorded_by(name) {
                Some(command) => failure.next(command),
                None => failure,
            }
        })
    }
}

/// The command that records a metric, for the well-known ones.
fn recorded_by(metric: &str) -> Option<&'static str> {
    const HEAP: [&str; 7] = [
        LIVE,
        "allocations",
        "bytes-allocated",
        "bytes-freed",
        "live-at-exit",
        "live-at-peak",
        "temporary-allocations",
    ];
    match metric {
        "off-cpu-time" | "wall-time" => Some("whyslow record --off-cpu -- PROGRAM"),
        "page-faults" => Some("whyslow record --faults -- PROGRAM"),
        "syscalls" | "syscall-time" | "syscall-bytes" => Some("sudo whyslow record --syscalls -- PROGRAM"),
        metric if HEAP.contains(&metric) => Some("whyslow heap -- PROGRAM"),
        _ => None,
    }
}
