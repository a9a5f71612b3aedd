//! Handles the exit of a process: it waits until its rings have been read and its memory has been inspected.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use whyslow_agent_wire::area::MOST_STATES;
use whyslow_profile::{LeakCheck, NoLeakCheck};

use crate::drain::{Drain, Until, Watched};
use crate::ids::{AreaSlot, OwnPid, OwnTid, ProcessRow, Tick};
use crate::inspect::Findings;
use crate::inspection::Inspection;
use crate::leaks::{Listed, Subject, Waiting};
use crate::sys;
use crate::tally::End;

/// Sleep between two rounds while inspections are in progress.
const PAUSE: Duration = Duration::from_micros(100);

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
    /// This process waits until its inspection is done.
    Inspected { exiting: Exiting, inspection: Inspection },
    /// This process may continue, but has not done so yet.
    Allowed { exiting: Exiting },
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

    /// Address ranges in its processes that belong to the agent, as start and end.
    pub(crate) fn skip(&self) -> Vec<(u64, u64)> {
        let header = self.area.header();
        let ranges = [(&header.table_start, &header.table_len), (&header.agent_start, &header.agent_len)];
        let ranges = ranges.map(|(start, len)| {
            let start = start.load(Ordering::Acquire);
            (start, start.saturating_add(len.load(Ordering::Relaxed)))
        });
        ranges.into_iter().filter(|range| range.0 != 0).collect()
    }

    /// Where its processes have a list of further ranges.
    pub(crate) fn skip_listed(&self) -> Option<Listed> {
        let header = self.area.header();
        let (at, len) = (header.states.load(Ordering::Acquire), header.state_len.load(Ordering::Relaxed));
        (at != 0).then_some(Listed { at, count: MOST_STATES, len })
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

impl Drain {
    /// Takes the next step for all waiting processes. Returns whether any still waits.
    pub(crate) fn handle_exits(&mut self, horizon: Tick, now: Tick) -> bool {
        let mut awaited = false;
        for slot in self.areas.slots() {
            awaited |= self.handle_exit(slot, horizon, now).unwrap_or(false);
        }
        awaited
    }

    fn handle_exit(&mut self, slot: AreaSlot, horizon: Tick, now: Tick) -> Option<bool> {
        let watched = self.areas.get_mut(slot)?;
        let waiting = watched.waiting();
        match std::mem::take(&mut watched.exit) {
            Exit::Reading { exiting, since } if waiting == Some(exiting) => {
                if horizon < since {
                    watched.exit = Exit::Reading { exiting, since };
                } else {
                    self.begin_inspection(slot, exiting, now);
                }
            }
            Exit::Inspected { exiting, mut inspection } => {
                inspection.serve(horizon, |row| self.tally.live(row));
                if inspection.is_finished() {
                    watched.allow(exiting);
                    self.end_inspection(inspection, now);
                } else {
                    watched.exit = Exit::Inspected { exiting, inspection };
                }
            }
            Exit::Allowed { exiting } if waiting == Some(exiting) => {
                watched.exit = Exit::Allowed { exiting };
                // The process was killed before it could report that it continues.
                if watched.living(exiting.pid).is_none_or(|row| self.processes.has_ended(row)) {
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
        let exit = &self.areas.get(slot)?.exit;
        Some(!matches!(exit, Exit::None | Exit::Allowed { .. }))
    }

    /// Starts to inspect a waiting process. A process without blocks may continue at once.
    fn begin_inspection(&mut self, slot: AreaSlot, exiting: Exiting, now: Tick) {
        let Some(watched) = self.areas.get_mut(slot) else { return };
        let Some(row) = watched.living(exiting.pid).filter(|&row| !self.processes.has_exited(row)) else {
            watched.allow(exiting);
            return;
        };
        if self.snapshot_of == Some(row) {
            watched.exit = Exit::Reading { exiting, since: Tick(0) };
            return;
        }
        let waiting = watched.waiting_thread(exiting.tid);
        let inspection = self.inspect(row, slot, Some(waiting));
        let Some(watched) = self.areas.get_mut(slot) else { return };
        match inspection {
            Some(inspection) => watched.exit = Exit::Inspected { exiting, inspection },
            None => {
                watched.allow(exiting);
                self.process_exited(row, now);
            }
        }
    }

    /// Starts to inspect a process of an area. `None` if there is nothing to inspect, or inspection is not
    /// possible, which is noted.
    fn inspect(&mut self, row: ProcessRow, slot: AreaSlot, waiting: Option<Waiting>) -> Option<Inspection> {
        if !self.config.leak_check {
            return None;
        }
        let why = match self.processes.same_numbers(row) {
            _ if self.tally.is_sampled() => NoLeakCheck::OnlySamples,
            None => NoLeakCheck::InContainer,
            Some(_) if !self.tally.has_blocks(row) => {
                self.checks.done();
                return None;
            }
            Some(_) if !self.tally.knows_inherited(row) => NoLeakCheck::TooManyInherited,
            Some(pid) => {
                let watched = self.areas.get(slot)?;
                let (skip, skip_listed) = (watched.skip(), watched.skip_listed());
                let subject = Subject { pid: pid.0, waiting, skip, skip_listed };
                match Inspection::begin(row, subject, Arc::clone(&self.inspector)) {
                    Ok(inspection) => return Some(inspection),
                    Err(_) => NoLeakCheck::NoThread,
                }
            }
        };
        self.checks.missed(self.processes.describe(row), why);
        None
    }

    /// Adds the findings of an inspection, and counts the process as exited.
    fn end_inspection(&mut self, inspection: Inspection, now: Tick) {
        let row = inspection.process;
        match inspection.end() {
            Some(findings) => self.add_findings(row, findings),
            None => self.checks.missed(self.processes.describe(row), NoLeakCheck::CheckFailed),
        }
        self.process_exited(row, now);
    }

    /// Counts a process as exited: only its end remains.
    fn process_exited(&mut self, row: ProcessRow, now: Tick) {
        self.tally.process_ended(row, now, End::Exit);
        self.processes.exited(row);
    }

    /// Adds the findings of an inspection.
    fn add_findings(&mut self, row: ProcessRow, findings: Findings) {
        self.tally.found(&findings.stacks);
        match findings.leaks {
            LeakCheck::NotDone => {}
            LeakCheck::AtExit | LeakCheck::AtSnapshot(_) => self.checks.done(),
            LeakCheck::Impossible(why) => self.checks.missed(self.processes.describe(row), why),
        }
        self.notices.add(Vec::new(), findings.notes);
    }

    /// Notes a process that ended without an inspection.
    pub(crate) fn note_uninspected(&mut self, row: ProcessRow) {
        if !self.config.leak_check
            || self.processes.has_exited(row)
            || self.processes.end_of(row) == End::Exec
        {
            return;
        }
        if self.tally.has_blocks(row) {
            self.checks.missed(self.processes.describe(row), NoLeakCheck::EndedWithoutExit);
        } else {
            self.checks.done();
        }
    }

    /// Inspects all processes that still run, and waits for all inspections in progress.
    pub(crate) fn inspect_remaining(&mut self) {
        self.processes.find_ended();
        let mut inspections: Vec<Inspection> = Vec::new();
        for row in self.processes.all_living() {
            let ends = self.processes.has_ended(row) || self.processes.has_exited(row);
            let slot = self.areas.slot_of(row);
            if let Some(slot) = slot.filter(|slot| !ends && !self.is_waiting(*slot, row)) {
                inspections.extend(self.inspect(row, slot, None));
            }
        }
        loop {
            self.round(Until::Now);
            let now = sys::now();
            for inspection in &mut inspections {
                inspection.serve(self.read_until, |row| self.tally.live(row));
            }
            while let Some(done) = inspections.iter().position(Inspection::is_finished) {
                self.end_inspection(inspections.swap_remove(done), now);
            }
            let inspected = |watched: &Watched| matches!(watched.exit, Exit::Inspected { .. });
            if inspections.is_empty() && !self.areas.iter().any(inspected) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether a process of an area is being inspected at its exit.
    fn is_waiting(&self, slot: AreaSlot, row: ProcessRow) -> bool {
        let exit = self.areas.get(slot).map(|watched| &watched.exit);
        matches!(exit, Some(Exit::Inspected { inspection, .. }) if inspection.process == row)
    }
}
