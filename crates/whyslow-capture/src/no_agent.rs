//! Stand-in for the agent in builds without it. No option can request it, so none of this is ever
//! constructed.

use std::convert::Infallible;
use std::ffi::OsString;

use whyslow_convert::{Converter, World};
use whyslow_profile::{Meta, MetricId, RecordingNote};

use crate::heap::{Batch, HeapOptions, Outcome};
use crate::launch::{Running, Suspended};
use crate::{RecordError, Target};

/// What the agent would do.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wanted {
    pub(crate) heap: Option<HeapOptions>,
    pub(crate) cpu_period_ns: Option<u64>,
}

/// How much of a stack the agent would copy.
pub(crate) const STACK_BYTES: usize = 0;

#[derive(Debug)]
pub(crate) struct AgentWatch(Infallible);

pub(crate) struct CpuLosses {
    pub(crate) lost: u64,
    pub(crate) period_ns: u64,
}

impl CpuLosses {
    pub(crate) fn notes(&self) -> Vec<RecordingNote> {
        Vec::new()
    }
}

impl AgentWatch {
    pub(crate) fn start(_wanted: Wanted, _target: &Target) -> Result<Self, RecordError> {
        Err(RecordError::Refused(
            "this whyslow was built without the agent, which samples inside the program".to_owned(),
        ))
    }

    pub(crate) fn environment(&self) -> Vec<(OsString, OsString)> {
        match self.0 {}
    }

    pub(crate) fn sampling_hz(&self) -> Option<u32> {
        match self.0 {}
    }

    pub(crate) fn begin(&self, _meta: &Meta, _start_ns: u64) {
        match self.0 {}
    }

    pub(crate) fn enter(&mut self, _child: Suspended) -> Result<Running, RecordError> {
        match self.0 {}
    }

    pub(crate) fn take(&self) -> Batch {
        match self.0 {}
    }

    pub(crate) fn cpu_losses(&self) -> CpuLosses {
        match self.0 {}
    }

    pub(crate) fn finish(self) -> Outcome {
        match self.0 {}
    }
}

/// Timer samples, of which there are none.
#[derive(Debug)]
pub(crate) struct TimerSource(());

impl TimerSource {
    pub(crate) fn new(_metric: MetricId) -> Self {
        Self(())
    }

    pub(crate) fn finish<W: World>(&mut self, _period_ns: u64, _converter: &mut Converter<W>) {}

    pub(crate) fn drain<W: World>(&mut self, agent: &AgentWatch, _converter: &mut Converter<W>) {
        let Self(()) = self;
        match agent.0 {}
    }
}
