//! Writes what is counted so far in the middle of a recording as a separate profile.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use whyslow_convert::{Converter, Setup};
use whyslow_heap::{Outcome, SnapshotWriter};
use whyslow_numbers::Start;
use whyslow_profile::file::Writer;
use whyslow_profile::{Builder, HeapFacts, Meta, Note};

use super::rows::{finish, metrics};
use crate::HeapOptions;
use crate::live::LiveWorld;

/// Writes snapshots, once the recording has started.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// The metadata that all profiles of this recording share, and its start time.
    recording: OnceLock<(Meta, Start)>,
}

impl Snapshots {
    /// Starts the recording.
    pub(crate) fn begin(&self, meta: &Meta, start: Start) {
        let meta = Meta {
            command: meta.command.clone(),
            recorder: meta.recorder.clone(),
            started_unix_ns: meta.started_unix_ns,
            host: meta.host.clone(),
            ..Meta::default()
        };
        // A recording starts only once.
        let _ = self.recording.set((meta, start));
    }
}

impl SnapshotWriter for Snapshots {
    fn write(&self, outcome: &Outcome, file: File) -> io::Result<()> {
        let (meta, start) =
            self.recording.get().ok_or_else(|| io::Error::other("the recording has not started"))?;
        let end = outcome.facts.snapshot.map_or_else(whyslow_proc::now, |snapshot| snapshot.time_ns);
        let HeapFacts { unused, sample_bytes, .. } = outcome.facts;
        let options = HeapOptions { unused, sample_bytes, ..HeapOptions::default() };
        let mut rows = Builder::new();
        let heap = Some(metrics(&mut rows, &options));
        let setup = Setup { start: *start, heap, ..Setup::default() };
        let mut converter = Converter::new(LiveWorld::default(), rows, &setup);
        finish(&mut converter, outcome, outcome.sites.iter(), end);
        let meta = Meta {
            duration_ns: start.since(end).0,
            notes: outcome.notes.iter().cloned().map(Note::from).collect(),
            heap: Some(outcome.facts.clone().since(*start)),
            ..meta.clone()
        };
        let mut writer = Writer::new(file, &meta)?;
        writer.append(converter.rows_mut())?;
        writer.meta(&meta)
    }
}
