//! The inspection of one process, on its own thread so that other processes need not wait. The inspector
//! requests the blocks once the process is stopped. It gets them after everything that the process wrote
//! until then has been read, so that memory and blocks are from the same point in time.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::ids::{ProcessRow, Tick};
use crate::inspect::{ExitInspector, Findings};
use crate::leaks::{Live, Subject};
use crate::sys;

/// An inspection in progress.
#[derive(Debug)]
pub(crate) struct Inspection {
    /// The process.
    pub(crate) process: ProcessRow,
    thread: JoinHandle<Findings>,
    asks: Receiver<()>,
    gives: Sender<Live>,
    /// The blocks are requested as of this tick.
    wanted: Option<Tick>,
}

impl Inspection {
    /// Starts to inspect a process.
    pub(crate) fn begin(
        process: ProcessRow,
        subject: Subject,
        inspector: Arc<dyn ExitInspector>,
    ) -> io::Result<Self> {
        let (ask, asks) = channel();
        let (gives, given) = channel();
        let inspect = move || {
            // Without an answer the collector has ended, and the result is not used.
            let mut take = move || ask.send(()).ok().and_then(|()| given.recv().ok()).unwrap_or_default();
            inspector.inspect(&subject, &mut take)
        };
        let thread = std::thread::Builder::new().name("heap-leaks".to_owned()).spawn(inspect)?;
        Ok(Self { process, thread, asks, gives, wanted: None })
    }

    /// Sends the blocks if they were requested, and if everything up to that time has been read.
    pub(crate) fn serve(&mut self, horizon: Tick, live: impl FnOnce(ProcessRow) -> Live) {
        if self.asks.try_recv().is_ok() {
            // This round may have read only older records.
            self.wanted = Some(sys::now());
            return;
        }
        if self.wanted.is_some_and(|tick| tick <= horizon) {
            self.wanted = None;
            // A failed inspection no longer receives them.
            let _ = self.gives.send(live(self.process));
        }
    }

    /// Whether the inspection is done.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The findings; `None` if the inspection failed.
    pub(crate) fn end(self) -> Option<Findings> {
        let Self { thread, gives, .. } = self;
        drop(gives);
        thread.join().ok()
    }
}
