//! The options that choose the metric; shared by all query commands.

use std::time::Duration;

use clap::Args;
use whyslow_answers::MetricChoice;

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
        self.resolved().is_given()
    }

    /// What they mean, for any front end.
    pub(crate) fn resolved(&self) -> MetricChoice {
        let live_at_ns = self.live_at.map(|at| u64::try_from(at.as_nanos()).unwrap_or(u64::MAX));
        MetricChoice { name: self.metric.clone(), live_at_ns }
    }
}
