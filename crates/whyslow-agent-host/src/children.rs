//! Handles programs that recorded programs execute and that the loader may not preload. The agent is injected
//! into static programs at their exec. Programs where that is not possible are listed by name.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use whyslow_agent_wire::exec::{LEN, Message};
use whyslow_inject::{Entry, InjectError, Injector, entry_of_file};
use whyslow_profile::WhyLeftOut;

use crate::host::Host;
use crate::ids::Pid;
use crate::packet::Connection;

/// Time limit for an exec after the requesting thread's socket has closed. The exec itself closes the socket.
const AFTER_CLOSE: Duration = Duration::from_secs(2);
/// Total time limit for an exec.
const PATIENCE: Duration = Duration::from_secs(60);

/// Injects the agent into executed programs.
pub(crate) struct ExecHandler<'a> {
    pub(crate) agent: &'a [u8],
    pub(crate) socket: &'a Path,
    pub(crate) host: &'a Mutex<Host>,
}

impl ExecHandler<'_> {
    /// Answers a thread of this process that is about to execute the file. Returns when the program runs.
    pub(crate) fn answer(
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
            Entry::Preload => return connection.send(&Message::Preload.to_bytes(), None),
            Entry::Impossible(why) => WhyLeftOut::Refused { why },
            Entry::Inject if !first_thread => WhyLeftOut::StaticLaterThread,
            Entry::Inject => match Injector::watch(pid) {
                Ok(injector) => {
                    drop(file);
                    return self.enter(connection, pid, injector, &name);
                }
                Err(InjectError::Ended) => return go(),
                Err(error) => WhyLeftOut::Static { error: error.to_string() },
            },
        };
        self.leave_out(&name, refusal);
        go()
    }

    fn enter(&self, connection: &Connection, pid: u32, injector: Injector, name: &Path) -> io::Result<()> {
        let before = self.lock().programs.processes.programs_of(Pid(pid));
        // If the thread no longer receives this, it executes anyway.
        let _ = connection.send(&Message::Watched.to_bytes(), None);
        let mut requester = Requester { connection, since: Instant::now(), closed: None, failed: false };
        let result = injector.inject_unless(self.agent, self.socket, || requester.has_given_up());
        match result {
            Ok(()) if self.lock().programs.processes.programs_of(Pid(pid)) == before => {
                self.leave_out(name, WhyLeftOut::StaticNoCollector);
            }
            Ok(()) | Err(InjectError::Ended | InjectError::Dynamic) => {}
            Err(InjectError::NotExecuted) if requester.failed => {
                return connection.send(&Message::Go.to_bytes(), None);
            }
            Err(error) => self.leave_out(name, WhyLeftOut::Static { error: error.to_string() }),
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Host> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn leave_out(&self, program: &Path, why: WhyLeftOut) {
        self.lock().programs.notices.left_out(program.display().to_string(), why);
    }
}

/// The path of an open file.
fn name_of(file: &File) -> PathBuf {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default()
}

/// The thread that is about to execute, at the other end of the connection.
struct Requester<'a> {
    connection: &'a Connection,
    since: Instant,
    closed: Option<Instant>,
    /// The thread reported that its exec failed.
    failed: bool,
}

impl Requester<'_> {
    /// Whether no exec is to be expected any more.
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;
    use crate::clock::Clock;
    use crate::packet::Listener;
    use whyslow_profile::HeapNote;

    /// The host's answer to this process, which asks about a file, and the resulting notes.
    fn asked(file: Option<&Path>, first_thread: bool) -> (Option<Message>, Vec<HeapNote>) {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = Listener::bind(&socket).unwrap();
        let requester = Connection::to(&socket).unwrap();
        let answerer = listener.accept().unwrap();
        let host = Mutex::new(Host::new(Clock::start(), Vec::new()));
        let handler = ExecHandler { agent: &[], socket: &socket, host: &host };
        let file = file.map(|path| OwnedFd::from(File::open(path).unwrap()));
        handler.answer(&answerer, std::process::id(), first_thread, file).unwrap();
        let mut room = [0; LEN];
        let len = requester.try_receive(&mut room).unwrap().unwrap();
        let notes = handler.lock().programs.notices.notes().to_vec();
        (Message::parse(&room[..len]), notes)
    }

    /// A file with only an ELF header for a machine: it names no loader.
    fn program(machine: u8) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let mut header = [0; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        (header[16], header[18], header[20], header[52], header[54]) = (2, machine, 1, 64, 56);
        file.write_all(&header).unwrap();
        file
    }

    #[test]
    fn a_program_that_the_loader_preloads_may_continue() {
        assert_eq!(asked(Some(Path::new("/bin/sh")), true), (Some(Message::Preload), Vec::new()));
        assert_eq!(asked(None, true), (Some(Message::Go), Vec::new()));
    }

    #[test]
    fn a_program_that_cannot_be_injected_continues_and_gets_a_note() {
        let (arm, own) = (program(183), program(62));
        for (file, first_thread, why) in [
            (&arm, true, "is not a program for x86-64"),
            (&own, false, "StaticLaterThread"),
            (&own, true, "no permission to trace"),
        ] {
            let (answer, notes) = asked(Some(file.path()), first_thread);
            assert_eq!(answer, Some(Message::Go), "{why}");
            let name = file.path().display().to_string();
            assert!(
                matches!(&notes[..], [HeapNote::ProgramLeftOut { program, why: reason }]
                    if *program == name && format!("{reason:?}").contains(why)),
                "{notes:?}"
            );
        }
    }

    #[test]
    fn a_failed_or_closed_exec_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let listener = Listener::bind(&socket).unwrap();
        let agent = Connection::to(&socket).unwrap();
        let host = listener.accept().unwrap();
        let mut requester =
            Requester { connection: &host, since: Instant::now(), closed: None, failed: false };
        assert!(!requester.has_given_up());
        agent.send(&Message::Failed.to_bytes(), None).unwrap();
        assert!(requester.has_given_up() && requester.failed);
        drop(agent);
        let mut requester = Requester { failed: false, ..requester };
        assert!(!requester.has_given_up() && requester.closed.is_some(), "its exec may be in progress");
        requester.closed = Instant::now().checked_sub(AFTER_CLOSE * 2);
        assert!(requester.has_given_up() && !requester.failed);
    }
}
