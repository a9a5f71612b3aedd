//! A source: a part of a recording that observes the target in its own way and hands over what it sees.
//!
//! The session calls all sources in the same order and knows nothing else about them:
//!
//! ```text
//! start    before the program executes; running processes go on
//! enter    lets the program execute, with the source inside it
//! drain    inputs up to a time, some milliseconds apart      │ while the target runs,
//! look     the threads as they are now, after all drains     │ at the interval that
//! flush    rows that are added less often, once a second     │ the sources agree on
//! stop     no new observations; one more drain follows
//! finish   rows, numbers and notes that are known only at the end
//! ```

use std::fmt::Debug;
use std::os::fd::RawFd;
use std::time::Duration;

use whyslow_convert::Converter;
use whyslow_numbers::ClockNs;
use whyslow_profile::{Meta, Note};

use crate::RecordError;
use crate::host::Usage;
use crate::launch::{Program, Suspended};
use crate::live::LiveWorld;

/// The converter of a live recording.
pub(crate) type LiveConverter = Converter<LiveWorld>;

/// How long observations may wait for a drain. Reading a live stack requires a drain while its outer frames
/// are still active, so drains are faster while that is needed, and at the start, when it is not known yet.
/// Each drain costs about 30 µs.
pub(crate) const CALM: Duration = Duration::from_millis(50);
pub(crate) const EAGER: Duration = Duration::from_millis(5);

/// Observes the target.
pub(crate) trait Source: Debug {
    /// Starts observing.
    fn start(&mut self, _converter: &mut LiveConverter) -> Result<(), RecordError> {
        Ok(())
    }

    /// Lets the program execute, if this source must be inside it from its start.
    fn enter(&mut self, program: Suspended) -> Result<Program, RecordError> {
        Ok(Program::Suspended(program))
    }

    /// The descriptors that become readable when a drain is urgent.
    fn wait_on(&self) -> &[RawFd] {
        &[]
    }

    /// The time until the next drain, given what the sources before it agree to.
    fn interval(&mut self, interval: Duration) -> Duration {
        interval
    }

    /// Reads what disappears when the program is reaped, if a signal has arrived that may announce its exit.
    fn before_reaping(&mut self, _converter: &mut LiveConverter) {}

    /// Hands over what was observed up to a time.
    fn drain(&mut self, _until: ClockNs, _converter: &mut LiveConverter) {}

    /// Looks at the threads that the observations so far are about.
    fn look(&mut self, _converter: &mut LiveConverter) {}

    /// Adds rows that are added less often, before rows are written.
    fn flush(&mut self, _converter: &mut LiveConverter) {}

    /// Observes as little as it can until [`Source::resume`]. The converter ignores samples meanwhile.
    fn pause(&mut self) {}

    /// Observes again. The states of threads are not known any more.
    fn resume(&mut self, converter: &mut LiveConverter) -> Result<(), RecordError> {
        self.start(converter)
    }

    /// Stops observing.
    fn stop(&mut self) {}

    /// Adds what is known only now.
    fn finish(self: Box<Self>, _ending: &mut Ending<'_>) {}
}

/// The end of a recording.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    pub(crate) time: ClockNs,
    pub(crate) converter: &'a mut LiveConverter,
    /// What is known about the recording, with the program's times and exit.
    pub(crate) meta: &'a mut Meta,
    /// What the recorded program used, if it has exited.
    pub(crate) usage: Option<&'a Usage>,
}

impl Ending<'_> {
    /// Adds notes to the profile.
    pub(crate) fn note<N: Into<Note>>(&mut self, notes: impl IntoIterator<Item = N>) {
        self.meta.notes.extend(notes.into_iter().map(Into::into));
    }
}
