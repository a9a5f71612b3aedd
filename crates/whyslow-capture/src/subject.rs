//! What is recorded, and when the recording is over.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::time::Instant;

use whyslow_proc::process;
use whyslow_profile::ExitStatus;

use crate::host::Usage;
use crate::launch::{self, Running};
use crate::signals::{Received, Signals};
use crate::{Command, Target};

/// The processes whose exit ends the recording.
pub(crate) enum Subject {
    /// A program that whyslow has started.
    Child(Running),
    /// Processes that already ran, with the pidfds that report their exits.
    Processes(Vec<(u32, Option<OwnedFd>)>),
    /// No process: the user or a deadline ends the recording.
    UntilStopped,
}

/// What ended the recording.
pub(crate) enum End {
    Exited(ExitStatus, Usage),
    Stopped,
}

impl Subject {
    /// Running processes.
    pub(crate) fn attached(pids: &[u32]) -> Self {
        Self::Processes(pids.iter().map(|pid| (*pid, whyslow_proc::watch(*pid).ok().flatten())).collect())
    }

    /// What the signals that have arrived ask for.
    pub(crate) fn signals_received(&self, signals: &Signals) -> Option<End> {
        let mut end = None;
        while let Some(signal) = signals.next() {
            match (signal, self) {
                (Received::Child, Self::Child(child)) => {
                    if let Some((exit, usage)) = child.try_wait() {
                        end = Some(End::Exited(exit, usage));
                    }
                }
                (Received::Child, _) => {}
                // The program receives it too, and decides what it means.
                (Received::FromTerminal(_), Self::Child(_)) => {}
                (Received::Sent(signal), Self::Child(child)) => whyslow_proc::send_signal(child.pid, signal),
                (Received::FromTerminal(_) | Received::Sent(_), _) => end = Some(End::Stopped),
            }
        }
        if let (None, Self::Child(child)) = (&end, self) {
            end = child.try_wait().map(|(exit, usage)| End::Exited(exit, usage));
        }
        end
    }

    /// Whether the program has ended. The signal that says so may be lost: threads of this process that do not block it
    /// can take it.
    pub(crate) fn has_exited(&self) -> bool {
        matches!(self, Self::Child(child) if launch::has_ended(child.pid))
    }

    /// Whether the recording is over without a signal.
    pub(crate) fn is_over(&mut self, deadline: Option<Instant>) -> Option<End> {
        let timed_out = deadline.is_some_and(|deadline| Instant::now() >= deadline);
        let exited = match self {
            Self::Processes(processes) => {
                processes.retain(|(pid, watch)| !has_ended(*pid, watch.as_ref()));
                processes.is_empty()
            }
            Self::Child(_) | Self::UntilStopped => false,
        };
        (timed_out || exited).then_some(End::Stopped)
    }
}

fn has_ended(pid: u32, watch: Option<&OwnedFd>) -> bool {
    watch.map_or_else(|| !process::exists(pid), whyslow_proc::has_ended)
}

impl Target {
    /// The program to start.
    pub fn command(&self) -> Option<&Command> {
        match self {
            Self::Command(command) => Some(command),
            Self::System { while_runs } => while_runs.as_ref(),
            Self::Processes(_) => None,
        }
    }

    /// The command line stored in the profile.
    pub(crate) fn words(&self) -> Vec<String> {
        match (self, self.command()) {
            (_, Some(command)) => std::iter::once(&command.program)
                .chain(&command.args)
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            (Self::Processes(pids), _) if pids.len() == 1 => process::command_line(pids[0]),
            (Self::Processes(pids), _) => vec![format!("({} processes)", pids.len())],
            _ => vec!["(the whole machine)".to_owned()],
        }
    }

    /// The `XDG_RUNTIME_DIR` that the program sees.
    pub(crate) fn runtime_folder(&self) -> Option<OsString> {
        const NAME: &str = "XDG_RUNTIME_DIR";
        let set = self.command().and_then(|command| command.env.iter().rev().find(|(name, _)| name == NAME));
        set.map(|(_, value)| value.clone()).or_else(|| std::env::var_os(NAME))
    }
}
