//! Handles the exit of a process: it waits until its rings have been read and every purpose allows it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::areas::Watched;
use crate::host::{Host, Until};
use crate::ids::{AreaSlot, OwnPid, OwnTid, ProcessRow, Tick};
use crate::purpose::{AtExit, End, Leaving};
use crate::sys;

/// Sleep between two rounds while processes are held.
const PAUSE: Duration = Duration::from_micros(100);

/// A thread that waits in the agent, as the program left it. The agent's own frames and registers do not
/// count.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// The thread id.
    pub tid: u32,
    /// Its stack pointer in the program.
    pub sp: u64,
    /// Its registers in the program.
    pub registers: Vec<u64>,
}

/// A thread that waits at the exit of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exiting {
    pid: OwnPid,
    tid: OwnTid,
}

/// The exit in progress in an area.
#[derive(Debug, Default)]
pub(crate) enum Exit {
    /// No process waits.
    #[default]
    None,
    /// This process waits until everything up to this tick has been read.
    Reading { exiting: Exiting, since: Tick },
    /// This process waits until all purposes allow its exit.
    Held { exiting: Exiting, asked: Asked },
    /// This process may continue, but has not done so yet.
    Allowed { exiting: Exiting },
}

impl Exit {
    /// Whether a purpose looks at this process.
    pub(crate) fn holds(&self, process: ProcessRow) -> bool {
        matches!(self, Self::Held { asked, .. } if asked.leaving.process == process)
    }
}

/// A process that purposes are asked about.
#[derive(Debug)]
pub(crate) struct Asked {
    leaving: Leaving,
    /// The purposes that have answered, as bits.
    answered: u32,
    /// Whether one of them has looked at it.
    looked: bool,
}

impl Asked {
    fn new(process: ProcessRow, waiting: Option<Waiting>) -> Self {
        Self { leaving: Leaving { process, waiting }, answered: 0, looked: false }
    }
}

impl Watched {
    /// Whether a process waits that is not handled yet.
    pub(crate) fn is_awaited(&self) -> bool {
        let waiting = self.waiting();
        match self.exit {
            Exit::Allowed { exiting } => waiting.is_some_and(|waiting| waiting != exiting),
            _ => waiting.is_some(),
        }
    }

    fn waiting(&self) -> Option<Exiting> {
        let header = self.area.header();
        let pid = header.exiting_pid.load(Ordering::Acquire);
        let exiting =
            || Exiting { pid: OwnPid(pid), tid: OwnTid(header.exiting_tid.load(Ordering::Acquire)) };
        (pid != 0).then(exiting)
    }

    /// The waiting thread, as the program left it.
    fn waiting_thread(&self, tid: OwnTid) -> Waiting {
        let header = self.area.header();
        let registers = header.exiting_registers.iter();
        Waiting {
            tid: tid.0,
            sp: header.exiting_sp.load(Ordering::Relaxed),
            registers: registers.map(|register| register.load(Ordering::Relaxed)).collect(),
        }
    }

    fn allow(&mut self, exiting: Exiting) {
        let header = self.area.header();
        header.exits_allowed.fetch_add(1, Ordering::AcqRel);
        sys::wake_all(&header.exits_allowed);
        self.exit = Exit::Allowed { exiting };
    }
}

impl Host {
    /// Takes the next step for all waiting processes. Returns whether any still waits.
    pub(crate) fn handle_exits(&mut self, horizon: Tick, now: Tick) -> bool {
        let mut awaited = false;
        for slot in self.programs.areas.slots() {
            awaited |= self.handle_exit(slot, horizon, now).unwrap_or(false);
        }
        awaited
    }

    fn handle_exit(&mut self, slot: AreaSlot, horizon: Tick, now: Tick) -> Option<bool> {
        let watched = self.programs.areas.get_mut(slot)?;
        let waiting = watched.waiting();
        match std::mem::take(&mut watched.exit) {
            Exit::Reading { exiting, since } if waiting == Some(exiting) => {
                if horizon < since {
                    watched.exit = Exit::Reading { exiting, since };
                } else if let Some(row) =
                    watched.living(exiting.pid).filter(|&row| !self.programs.processes.has_exited(row))
                {
                    let waiting = watched.waiting_thread(exiting.tid);
                    self.hold(slot, exiting, Asked::new(row, Some(waiting)), now);
                } else {
                    watched.allow(exiting);
                }
            }
            Exit::Held { exiting, asked } => self.hold(slot, exiting, asked, now),
            Exit::Allowed { exiting } if waiting == Some(exiting) => {
                watched.exit = Exit::Allowed { exiting };
                // The process was killed before it could report that it continues.
                if watched.living(exiting.pid).is_none_or(|row| self.programs.processes.has_ended(row)) {
                    let header = watched.area.header();
                    for (held, by) in
                        [(&header.exiting_pid, exiting.pid.0), (&header.exiting_tid, exiting.tid.0)]
                    {
                        // If another process has taken it, it is unchanged.
                        let _ = held.compare_exchange(by, 0, Ordering::AcqRel, Ordering::Relaxed);
                    }
                    sys::wake_all(&header.exiting_tid);
                }
            }
            Exit::None | Exit::Reading { .. } | Exit::Allowed { .. } => {
                if let Some(exiting) = waiting {
                    watched.exit = Exit::Reading { exiting, since: sys::now() };
                }
            }
        }
        let exit = &self.programs.areas.get(slot)?.exit;
        Some(!matches!(exit, Exit::None | Exit::Allowed { .. }))
    }

    /// Asks about a waiting process, and lets it exit if nothing holds it.
    fn hold(&mut self, slot: AreaSlot, exiting: Exiting, mut asked: Asked, now: Tick) {
        let row = asked.leaving.process;
        let answer = self.ask(&mut asked);
        let Some(watched) = self.programs.areas.get_mut(slot) else { return };
        match answer {
            AtExit::NotYet => watched.exit = Exit::Reading { exiting, since: Tick(0) },
            AtExit::Held => watched.exit = Exit::Held { exiting, asked },
            AtExit::Done | AtExit::Nothing => {
                watched.allow(exiting);
                self.process_exited(row, now);
            }
        }
    }

    /// Asks all purposes that have not answered yet.
    fn ask(&mut self, asked: &mut Asked) -> AtExit {
        if self.programs.processes.has_exited(asked.leaving.process) {
            return AtExit::Nothing;
        }
        let mut holds = None;
        for purpose in self.purposes.iter_mut() {
            let bit = 1 << purpose.kind() as u32;
            if asked.answered & bit != 0 {
                continue;
            }
            match purpose.at_exit(&mut self.programs, &asked.leaving) {
                AtExit::NotYet if asked.answered == 0 => holds = holds.or(Some(AtExit::NotYet)),
                AtExit::NotYet | AtExit::Held => holds = Some(AtExit::Held),
                answer => {
                    asked.answered |= bit;
                    asked.looked |= answer == AtExit::Done;
                }
            }
        }
        holds.unwrap_or(if asked.looked { AtExit::Done } else { AtExit::Nothing })
    }

    /// Counts a process as exited: only its end remains.
    fn process_exited(&mut self, row: ProcessRow, now: Tick) {
        if !self.programs.processes.has_exited(row) {
            self.programs.processes.exited(row);
            let Self { programs, purposes, .. } = self;
            purposes.iter_mut().for_each(|purpose| purpose.process_ended(programs, row, now, End::Exit));
        }
    }

    /// Asks about all processes that still run, and waits until no purpose looks at any process.
    pub(crate) fn ask_about_remaining(&mut self) {
        self.programs.processes.find_ended();
        let Self { programs, .. } = self;
        let processes = &programs.processes;
        let runs = |row: &ProcessRow| !processes.has_ended(*row) && !processes.has_exited(*row);
        let reached = |row: &ProcessRow| programs.areas.slot_of(*row).is_some() && !programs.is_held(*row);
        let mut remaining: Vec<Asked> = processes
            .all_living()
            .into_iter()
            .filter(|row| runs(row) && reached(row))
            .map(|row| Asked::new(row, None))
            .collect();
        loop {
            remaining.retain_mut(|asked| match self.ask(asked) {
                AtExit::NotYet | AtExit::Held => true,
                AtExit::Nothing => false,
                AtExit::Done => {
                    self.process_exited(asked.leaving.process, sys::now());
                    false
                }
            });
            self.round(Until::Now);
            let held = |watched: &Watched| matches!(watched.exit, Exit::Held { .. });
            if remaining.is_empty() && !self.programs.areas.iter().any(held) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }
}
