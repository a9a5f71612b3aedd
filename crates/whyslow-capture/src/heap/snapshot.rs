//! Writes what is counted so far in the middle of a recording as a separate profile.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use whyslow_convert::{Converter, Setup};
use whyslow_heap::{Outcome, SnapshotWriter};
use whyslow_profile::file::Writer;
use whyslow_profile::{Builder, HeapFacts, LeakCheck, Meta, Note};

use super::rows::{finish, metrics};
use crate::HeapOptions;
use crate::live::LiveWorld;

/// Writes snapshots, once the recording has started.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// The metadata that all profiles of this recording share, and its start time.
    recording: OnceLock<(Meta, u64)>,
}

impl Snapshots {
    /// Starts the recording.
    pub(crate) fn begin(&self, meta: &Meta, start_ns: u64) {
        let meta = Meta {
            command: meta.command.clone(),
            recorder: meta.recorder.clone(),
            started_unix_ns: meta.started_unix_ns,
            host: meta.host.clone(),
            ..Meta::default()
        };
        // A recording starts only once.
        let _ = self.recording.set((meta, start_ns));
    }
}

impl SnapshotWriter for Snapshots {
    fn write(&self, outcome: &Outcome, file: File) -> io::Result<()> {
        let (meta, start_ns) =
            self.recording.get().ok_or_else(|| io::Error::other("the recording has not started"))?;
        let end_ns =
            outcome.facts.snapshot.map_or_else(whyslow_proc::monotonic_ns, |snapshot| snapshot.time_ns);
        let HeapFacts { unused, sample_bytes, .. } = outcome.facts;
        let options = HeapOptions { unused, sample_bytes, ..HeapOptions::default() };
        let mut rows = Builder::new();
        let heap = Some(metrics(&mut rows, &options));
        let setup = Setup { start_ns: *start_ns, heap, ..Setup::default() };
        let mut converter = Converter::new(LiveWorld::default(), rows, &setup);
        finish(&mut converter, outcome, outcome.sites.iter(), end_ns);
        let meta = Meta {
            duration_ns: end_ns.saturating_sub(*start_ns),
            notes: outcome.notes.iter().cloned().map(Note::from).collect(),
            heap: Some(since(*start_ns, outcome.facts.clone())),
            ..meta.clone()
        };
        let mut writer = Writer::new(file, &meta)?;
        writer.append(converter.rows_mut())?;
        writer.meta(&meta)
    }
}

/// The facts with times relative to the start of the recording.
pub(crate) fn since(start_ns: u64, mut facts: HeapFacts) -> HeapFacts {
    facts.peak_ns = facts.peak_ns.saturating_sub(start_ns);
    if let LeakCheck::AtSnapshot(time) = &mut facts.leaks {
        *time = time.saturating_sub(start_ns);
    }
    if let Some(snapshot) = &mut facts.snapshot {
        snapshot.time_ns = snapshot.time_ns.saturating_sub(start_ns);
    }
    facts
}
