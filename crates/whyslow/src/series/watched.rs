//! Measures how busy the machine is during a benchmark.

use std::time::{Duration, Instant};

use whyslow_bench::document::Surroundings;
use whyslow_proc::surroundings::{Busy, clocks_mhz, governor};

/// The state of the machine since the start of a measurement.
pub(crate) struct Watched {
    began: Instant,
    busy: Busy,
    clocks: Vec<f64>,
}

impl Watched {
    /// Starts now.
    pub(crate) fn new() -> Self {
        Self { began: Instant::now(), busy: Busy::now(), clocks: clocks_mhz() }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// How busy the machine was since the start.
    pub(crate) fn surroundings(&self) -> Surroundings {
        let now = Busy::now();
        let clocks = self.clocks.iter().copied().chain(clocks_mhz());
        let range = clocks.fold(None, |range: Option<[f64; 2]>, clock| {
            Some(range.map_or([clock; 2], |[low, high]| [low.min(clock), high.max(clock)]))
        });
        Surroundings {
            cpu_pressure: now.pressure_since(&self.busy, self.began.elapsed().as_micros() as u64),
            steal: now.steal_since(&self.busy),
            governor: governor(),
            mhz: range,
        }
    }
}
