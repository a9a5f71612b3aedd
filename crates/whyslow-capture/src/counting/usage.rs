//! What the kernel itself accounts to the counted processes.

use std::collections::HashMap;

use whyslow_events::Usage;
use whyslow_proc::accounts::{Account, Io, MachineAccount};
use whyslow_proc::process::{self, Status};

use super::counters::{CountTarget, threads_of};
use super::with_descendants;
use crate::host;

/// The accounts at the start, and at the last reading.
pub(super) enum Accounts {
    /// A child. Its usage before the exec belongs to the recorder.
    Child { pid: u32, before: Account, switches: (u64, u64) },
    /// Running processes. Their earlier usage is not counted.
    Processes { rows: Vec<Process>, switches: HashMap<u32, [(u64, u64); 2]> },
    /// Everything on the machine.
    Machine { before: Option<MachineAccount> },
}

/// The accounts of a process at the start and at the last reading.
pub(super) struct Process {
    pid: u32,
    account: [Account; 2],
    io: Option<[Io; 2]>,
    resident: Option<u64>,
}

impl Accounts {
    /// Reads the accounts before counting starts.
    pub(super) fn before(count_target: &CountTarget) -> Self {
        match count_target {
            CountTarget::Child(pid) => {
                let status = Status::of(*pid).unwrap_or_default();
                Self::Child {
                    pid: *pid,
                    before: Account::of(*pid).unwrap_or_default(),
                    switches: status.switches().unwrap_or_default(),
                }
            }
            CountTarget::Processes(pids) => {
                let rows = pids.iter().filter_map(|pid| {
                    let account = Account::of(*pid)?;
                    let io = Io::of(*pid).map(|io| [io, io]);
                    Some(Process { pid: *pid, account: [account, account], io, resident: None })
                });
                let mut accounts = Self::Processes { rows: rows.collect(), switches: HashMap::new() };
                accounts.read_threads(true);
                accounts
            }
            CountTarget::Machine => Self::Machine { before: MachineAccount::now() },
        }
    }

    /// Reads the accounts of processes that may exit at any time.
    pub(super) fn refresh(&mut self) {
        if let Self::Processes { rows, .. } = self {
            for row in rows {
                if let Some(account) = Account::of(row.pid) {
                    row.account[1] = account;
                }
                if let (Some(known), Some(io)) = (&mut row.io, Io::of(row.pid)) {
                    known[1] = io;
                }
                let resident = Status::of(row.pid).and_then(|status| status.peak_resident_bytes());
                row.resident = resident.or(row.resident);
            }
            self.read_threads(false);
        }
    }

    fn read_threads(&mut self, first: bool) {
        let Self::Processes { rows, switches } = self else { return };
        for tid in threads_of(&rows.iter().map(|row| row.pid).collect::<Vec<_>>()) {
            if let Some(now) = Status::of(tid).and_then(|status| status.switches()) {
                // All usage of a new thread is since the start.
                let before = if first { now } else { (0, 0) };
                switches.entry(tid).or_insert([before, now])[1] = now;
            }
        }
    }

    /// The usage while the processes still run.
    pub(super) fn so_far(&mut self) -> Usage {
        let Self::Child { pid, before, .. } = self else { return self.at_end() };
        let all = with_descendants(&[*pid]).into_iter().filter_map(Account::of);
        let account = all.fold(Account::default(), Account::plus).since(*before);
        usage_of(account)
    }

    /// The usage at the end of counting, if no process was reaped.
    pub(super) fn at_end(&mut self) -> Usage {
        self.refresh();
        match self {
            Self::Child { .. } => self.so_far(),
            Self::Processes { rows, switches } => {
                let account = rows.iter().map(|row| row.account[1].since(row.account[0]));
                let io = rows.iter().map(|row| row.io.map(|[before, now]| now.since(before)));
                let io = io.collect::<Option<Vec<_>>>().filter(|all| !all.is_empty());
                let switched = switches.values().fold((0, 0), |sum, [before, now]| {
                    (sum.0 + now.0.saturating_sub(before.0), sum.1 + now.1.saturating_sub(before.1))
                });
                let usage = Usage {
                    max_resident_bytes: rows.iter().filter_map(|row| row.resident).max(),
                    voluntary_switches: Some(switched.0),
                    involuntary_switches: Some(switched.1),
                    ..usage_of(account.fold(Account::default(), Account::plus))
                };
                match io {
                    Some(io) => with_io(usage, io.into_iter().fold(Io::default(), Io::plus)),
                    None => usage,
                }
            }
            Self::Machine { before } => {
                let Some((now, before)) = MachineAccount::now().zip(*before) else { return Usage::default() };
                let since = now.since(before);
                Usage {
                    switches: Some(since.switches),
                    disk_bytes_read: Some(since.read_from_disk),
                    disk_bytes_written: Some(since.written_to_disk),
                    ..usage_of(since.account)
                }
            }
        }
    }

    /// The usage of an exited child: what the kernel accounts to it, minus its usage before the exec.
    pub(super) fn at_exit(&self, usage: &host::Usage) -> Usage {
        let Self::Child { before, switches, .. } = self else { return Usage::default() };
        let known_peak = usage.known_peak_bytes();
        let ns =
            |time: std::time::Duration, before: u64| Some((time.as_nanos() as u64).saturating_sub(before));
        let accounted = Usage {
            user_ns: ns(usage.user, before.user_ns),
            system_ns: ns(usage.system, before.system_ns),
            max_resident_bytes: known_peak,
            resident_below_bytes: known_peak.is_none().then_some(usage.max_resident_bytes),
            minor_faults: Some(usage.minor_faults.saturating_sub(before.minor_faults)),
            major_faults: Some(usage.major_faults.saturating_sub(before.major_faults)),
            voluntary_switches: Some(usage.voluntary_switches.saturating_sub(switches.0)),
            involuntary_switches: Some(usage.involuntary_switches.saturating_sub(switches.1)),
            disk_bytes_read: Some(usage.disk_bytes.0),
            disk_bytes_written: Some(usage.disk_bytes.1),
            ..Usage::default()
        };
        usage.io.map_or(accounted, |io| with_io(accounted, io))
    }
}

fn usage_of(account: Account) -> Usage {
    Usage {
        user_ns: Some(account.user_ns),
        system_ns: Some(account.system_ns),
        minor_faults: Some(account.minor_faults),
        major_faults: Some(account.major_faults),
        ..Usage::default()
    }
}

fn with_io(usage: Usage, io: Io) -> Usage {
    Usage {
        bytes_read: Some(io.read),
        bytes_written: Some(io.written),
        disk_bytes_read: Some(io.read_from_disk),
        disk_bytes_written: Some(io.written_to_disk),
        ..usage
    }
}

/// The name of a thread while it runs.
pub(super) fn name_of(tid: u32) -> Option<(u32, String)> {
    let pid = process::process_of(tid)?;
    Some((pid, process::thread_name(pid, tid)?))
}
