//! A look at a process, on a thread of its own so that others need not wait for it. Its blocks are asked for when it stands still, and given once
//! everything that it has written until then is read: memory and blocks are those of one moment.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use crate::ids::{ProcessRow, Tick};
use crate::inspect::{ExitInspector, Findings};
use crate::leaks::{Live, Subject};
use crate::sys;

/// A look that is under way.
#[derive(Debug)]
pub(crate) struct Look {
    /// The process.
    pub(crate) process: ProcessRow,
    thread: JoinHandle<Findings>,
    asks: Receiver<()>,
    gives: Sender<Live>,
    /// The blocks are wanted of this tick.
    wanted: Option<Tick>,
}

impl Look {
    /// Begins to look at a process.
    pub(crate) fn begin(
        process: ProcessRow,
        subject: Subject,
        inspector: Arc<dyn ExitInspector>,
    ) -> io::Result<Self> {
        let (ask, asks) = channel();
        let (gives, given) = channel();
        let look = move || {
            // Without an answer the collector has ended, and nobody wants to know.
            let mut take = move || ask.send(()).ok().and_then(|()| given.recv().ok()).unwrap_or_default();
            inspector.look(&subject, &mut take)
        };
        let thread = std::thread::Builder::new().name("heap-leaks".to_owned()).spawn(look)?;
        Ok(Self { process, thread, asks, gives, wanted: None })
    }

    /// Gives the blocks if they are asked for, and if everything up to that moment is read.
    pub(crate) fn serve(&mut self, horizon: Tick, live: impl FnOnce(ProcessRow) -> Live) {
        if self.asks.try_recv().is_ok() {
            // What was read in this round may be older.
            self.wanted = Some(sys::now());
            return;
        }
        if self.wanted.is_some_and(|tick| tick <= horizon) {
            self.wanted = None;
            // A look that failed wants them no more.
            let _ = self.gives.send(live(self.process));
        }
    }

    /// Whether it is done.
    pub(crate) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// What it found; none if it failed.
    pub(crate) fn end(self) -> Option<Findings> {
        let Self { thread, gives, .. } = self;
        drop(gives);
        thread.join().ok()
    }
}
