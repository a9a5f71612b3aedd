//! Static programs that watched ones execute: the agent comes in at their exec. Where that cannot be, it is said by name.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use whyslow_heap_wire::exec::{LEN, Message};
use whyslow_inject::{Entry, InjectError, Injector, entry_of_file};

use crate::drain::Drain;
use crate::packet::Connection;

/// How long an exec may take after the asker's end of the socket has closed. Its own close is a part of the exec.
const AFTER_CLOSE: Duration = Duration::from_secs(2);
/// How long it may take at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Who brings the agent in.
pub(crate) struct Usher<'a> {
    pub(crate) agent: &'a [u8],
    pub(crate) socket: &'a Path,
    pub(crate) drain: &'a Mutex<Drain>,
}

impl Usher<'_> {
    /// Answers a thread of this process that is about to execute the file. Returns when the program runs.
    pub(crate) fn attend(
        &self,
        connection: &Connection,
        pid: u32,
        first_thread: bool,
        file: Option<OwnedFd>,
    ) -> io::Result<()> {
        let go = || connection.send(&Message::Go.to_bytes(), None);
        let Some(file) = file.map(File::from) else { return go() };
        let name = name_of(&file);
        let refusal = match entry_of_file(&file, &name) {
            Entry::Preload => return go(),
            Entry::Impossible(why) => why,
            Entry::Inject if !first_thread => {
                format!("{} is static, and not the first thread of its process executed it", name.display())
            }
            Entry::Inject => match Injector::watch(pid) {
                Ok(injector) => {
                    drop(file);
                    return self.enter(connection, pid, injector, &name);
                }
                Err(InjectError::Ended) => return go(),
                Err(error) => is_static(&name, &error.to_string()),
            },
        };
        self.note(&refusal);
        go()
    }

    fn enter(&self, connection: &Connection, pid: u32, injector: Injector, name: &Path) -> io::Result<()> {
        let before = self.lock().processes.living(pid);
        // Who does not hear this any more executes all the same.
        let _ = connection.send(&Message::Watched.to_bytes(), None);
        let mut asker = Asker { connection, since: Instant::now(), closed: None, failed: false };
        let result = injector.inject_unless(self.agent, self.socket, || asker.has_given_up());
        match result {
            Ok(()) if self.lock().processes.living(pid) == before => {
                self.note(&is_static(name, "its agent could not reach the collector"));
            }
            Ok(()) | Err(InjectError::Ended | InjectError::Dynamic) => {}
            Err(InjectError::NotExecuted) if asker.failed => {
                return connection.send(&Message::Go.to_bytes(), None);
            }
            Err(error) => self.note(&is_static(name, &error.to_string())),
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Drain> {
        self.drain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, why: &str) {
        let note =
            format!("{why}. The heap of this program, which a watched one started, is not in the recording.");
        self.lock().tell(Vec::new(), vec![note]);
    }
}

fn is_static(name: &Path, why: &str) -> String {
    format!("{} is static, and the agent could not be brought in: {why}", name.display())
}

/// What an open file is called.
fn name_of(file: &File) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// The thread that wants to execute, at the other end.
struct Asker<'a> {
    connection: &'a Connection,
    since: Instant,
    closed: Option<Instant>,
    /// It said that the exec failed.
    failed: bool,
}

impl Asker<'_> {
    /// Whether no exec will come any more.
    fn has_given_up(&mut self) -> bool {
        let mut room = [0; LEN];
        match (self.closed, self.connection.try_receive(&mut room)) {
            (Some(closed), _) => return closed.elapsed() > AFTER_CLOSE,
            (None, Ok(None)) => {}
            (None, Ok(Some(len))) if room.get(..len).and_then(Message::parse) == Some(Message::Failed) => {
                self.failed = true;
                return true;
            }
            (None, Ok(Some(_)) | Err(_)) => self.closed = Some(Instant::now()),
        }
        self.since.elapsed() > PATIENCE
    }
}
