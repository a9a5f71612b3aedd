//! Runs a program in the foreground on behalf of another: it has whyslow's descriptors, gets the signals that
//! are meant for it, and somebody is called while it runs.

use std::io;
use std::process;
use std::time::{Duration, Instant};

use whyslow_profile::ExitStatus;

use crate::launch::{exec_error, has_ended, wait4};
use crate::signals::{self, Received, Signals};
use crate::{Command, RecordError, inherited};

/// How long to wait for a program's end before the caller is asked again.
const TICK: Duration = Duration::from_millis(200);

/// How a program ended.
#[derive(Debug)]
pub struct Attended {
    /// Its process.
    pub pid: u32,
    /// How it ended.
    pub exit: ExitStatus,
    /// Whether the user asked it to end: Ctrl-C, or a signal that was passed on.
    pub asked_to_end: bool,
    /// From its start to its end.
    pub elapsed: Duration,
    /// An impatient second Ctrl-C must not lose the results.
    _signals: Signals,
}

/// Whether a program can be started, and if not why not: for programs that another program starts.
pub fn can_start(command: &Command) -> Result<(), RecordError> {
    let refused = |error: i32| Err(exec_error(command, io::Error::from_raw_os_error(error)));
    match command.file() {
        None => refused(libc::ENOENT),
        Some(file) if !file.exists() => refused(libc::ENOENT),
        Some(file) if file.is_dir() => refused(libc::EACCES),
        Some(file) if rustix::fs::access(&file, rustix::fs::Access::EXEC_OK).is_err() => {
            refused(libc::EACCES)
        }
        Some(_) => Ok(()),
    }
}

/// Runs a program to its end, without a core file. Signals sent to whyslow alone are passed on to it; those of
/// the terminal reach it anyway. `tick` is called a few times per second.
pub fn attend(command: &mut process::Command, tick: &mut dyn FnMut(Duration)) -> io::Result<Attended> {
    let signals = Signals::new()?;
    inherited::before_exec(command, || {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Core);
        let none = rustix::process::Rlimit { current: Some(0), ..limit };
        // A core file is a nuisance, not an error.
        let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    });
    let start = Instant::now();
    let pid = command.spawn()?.id();
    let mut asked_to_end = false;
    while !has_ended(pid) {
        let mut waits = [libc::pollfd { fd: signals.fd(), events: libc::POLLIN, revents: 0 }];
        signals::poll(&mut waits, TICK.as_millis() as i32);
        while let Some(received) = signals.next() {
            let (signal, pass_on) = match received {
                Received::Child => continue,
                Received::Sent(signal) => (signal, true),
                Received::FromTerminal(signal) => (signal, false),
            };
            asked_to_end |= signals::ENDS.contains(&signal);
            if pass_on {
                whyslow_proc::send_signal(pid, signal);
            }
        }
        tick(start.elapsed());
    }
    let (exit, _) = wait4(pid, 0).ok_or(io::ErrorKind::NotFound)?;
    Ok(Attended { pid, exit, asked_to_end, elapsed: start.elapsed(), _signals: signals })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_ends_with_its_own_status() {
        let run =
            |script: &str| attend(inherited::command("sh").args(["-c", script]), &mut |_| {}).unwrap().exit;
        assert_eq!(run("exit 3"), ExitStatus::Code(3));
        assert_eq!(run("kill -9 $$"), ExitStatus::Signal(9));
        assert_eq!(run("test $(ulimit -S -c) = 0"), ExitStatus::Code(0));
    }

    #[test]
    fn what_cannot_be_started_is_said_before() {
        let of = |program: &str| can_start(&Command { program: program.into(), ..Command::default() });
        assert!(matches!(of("no-such-program-anywhere"), Err(RecordError::NotFound { .. })));
        assert!(matches!(of("/no/such/program"), Err(RecordError::NotFound { .. })));
        assert!(matches!(of("/etc/passwd"), Err(RecordError::NotExecutable { .. })));
        assert!(matches!(of("/etc"), Err(RecordError::NotExecutable { .. })));
        assert!(of("sh").is_ok() && of("/bin/sh").is_ok());
    }
}
