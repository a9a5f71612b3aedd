//! The last moment of a process: it waits until its rings are read and its memory was looked at.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use whyslow_heap_wire::area::MOST_STATES;
use whyslow_profile::{LeakCheck, NoLeakCheck};

use crate::drain::{Drain, Until, Watched};
use crate::ids::{AreaSlot, OwnPid, OwnTid, ProcessRow, Tick};
use crate::inspect::Findings;
use crate::leaks::{Listed, Subject, Waiting};
use crate::looks::Look;
use crate::sys;
use crate::tally::End;

/// How long to sleep between two rounds for looks that are awaited.
const PAUSE: Duration = Duration::from_micros(100);

/// A thread in the last moment of its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exiting {
    pid: OwnPid,
    tid: OwnTid,
}

/// Who waits in an area.
#[derive(Debug, Default)]
pub(crate) enum Exit {
    /// Nobody.
    #[default]
    Nobody,
    /// This process, until everything up to this tick is read.
    Reading { who: Exiting, since: Tick },
    /// This process, until it was looked at.
    Inspected { who: Exiting, look: Look },
    /// This process may go; it has not left yet.
    Allowed { who: Exiting },
}

impl Watched {
    /// Whether somebody waits who is not attended to.
    pub(crate) fn is_awaited(&self) -> bool {
        let waiting = self.waiting();
        match self.exit {
            Exit::Allowed { who } => waiting.is_some_and(|waiting| waiting != who),
            _ => waiting.is_some(),
        }
    }

    fn waiting(&self) -> Option<Exiting> {
        let header = self.area.header();
        let pid = header.exiting_pid.load(Ordering::Acquire);
        let who = || Exiting { pid: OwnPid(pid), tid: OwnTid(header.exiting_tid.load(Ordering::Acquire)) };
        (pid != 0).then(who)
    }

    /// Ranges in its processes that are the agent's, from start to end.
    pub(crate) fn skip(&self) -> Vec<(u64, u64)> {
        let header = self.area.header();
        let ranges = [(&header.table_start, &header.table_len), (&header.agent_start, &header.agent_len)];
        let ranges = ranges.map(|(start, len)| {
            let start = start.load(Ordering::Acquire);
            (start, start.saturating_add(len.load(Ordering::Relaxed)))
        });
        ranges.into_iter().filter(|range| range.0 != 0).collect()
    }

    /// Where its processes have a list of others.
    pub(crate) fn skip_listed(&self) -> Option<Listed> {
        let header = self.area.header();
        let (at, len) = (header.states.load(Ordering::Acquire), header.state_len.load(Ordering::Relaxed));
        (at != 0).then_some(Listed { at, count: MOST_STATES, len })
    }

    /// The thread that waits, as the program left it.
    fn moment(&self, tid: OwnTid) -> Waiting {
        let header = self.area.header();
        let registers = header.exiting_registers.iter();
        Waiting {
            tid: tid.0,
            sp: header.exiting_sp.load(Ordering::Relaxed),
            registers: registers.map(|register| register.load(Ordering::Relaxed)).collect(),
        }
    }

    fn allow(&mut self, who: Exiting) {
        let header = self.area.header();
        header.exits_allowed.fetch_add(1, Ordering::AcqRel);
        sys::wake_all(&header.exits_allowed);
        self.exit = Exit::Allowed { who };
    }
}

impl Drain {
    /// Takes the next step for everyone who waits; whether anyone still does.
    pub(crate) fn attend_exits(&mut self, horizon: Tick, now: Tick) -> bool {
        let mut awaited = false;
        for slot in self.areas.slots() {
            awaited |= self.attend(slot, horizon, now).unwrap_or(false);
        }
        awaited
    }

    fn attend(&mut self, slot: AreaSlot, horizon: Tick, now: Tick) -> Option<bool> {
        let watched = self.areas.get_mut(slot)?;
        let waiting = watched.waiting();
        match std::mem::take(&mut watched.exit) {
            Exit::Reading { who, since } if waiting == Some(who) => {
                if horizon < since {
                    watched.exit = Exit::Reading { who, since };
                } else {
                    self.begin_look(slot, who, now);
                }
            }
            Exit::Inspected { who, mut look } => {
                look.serve(horizon, |row| self.tally.live(row));
                if look.is_finished() {
                    watched.allow(who);
                    self.end_look(look, now);
                } else {
                    watched.exit = Exit::Inspected { who, look };
                }
            }
            Exit::Allowed { who } if waiting == Some(who) => {
                watched.exit = Exit::Allowed { who };
                // It was killed before it could say that it goes on.
                if watched.living(who.pid).is_none_or(|row| self.processes.has_ended(row)) {
                    let header = watched.area.header();
                    for (held, by) in [(&header.exiting_pid, who.pid.0), (&header.exiting_tid, who.tid.0)] {
                        // Another one's by now: it stays.
                        let _ = held.compare_exchange(by, 0, Ordering::AcqRel, Ordering::Relaxed);
                    }
                    sys::wake_all(&header.exiting_tid);
                }
            }
            Exit::Nobody | Exit::Reading { .. } | Exit::Allowed { .. } => {
                if let Some(who) = waiting {
                    watched.exit = Exit::Reading { who, since: sys::now() };
                }
            }
        }
        let exit = &self.areas.get(slot)?.exit;
        Some(!matches!(exit, Exit::Nobody | Exit::Allowed { .. }))
    }

    /// Looks at a process that waits. One that has no blocks may go at once.
    fn begin_look(&mut self, slot: AreaSlot, who: Exiting, now: Tick) {
        let Some(watched) = self.areas.get_mut(slot) else { return };
        let Some(row) = watched.living(who.pid).filter(|&row| !self.processes.has_exited(row)) else {
            watched.allow(who);
            return;
        };
        if self.looked_at == Some(row) {
            watched.exit = Exit::Reading { who, since: Tick(0) };
            return;
        }
        let waiting = watched.moment(who.tid);
        let look = self.look_at(row, slot, Some(waiting));
        let Some(watched) = self.areas.get_mut(slot) else { return };
        match look {
            Some(look) => watched.exit = Exit::Inspected { who, look },
            None => {
                watched.allow(who);
                self.process_exited(row, now);
            }
        }
    }

    /// Begins a look at a process of an area. None if there is nothing to see, or nobody could; that is noted.
    fn look_at(&mut self, row: ProcessRow, slot: AreaSlot, waiting: Option<Waiting>) -> Option<Look> {
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
                match Look::begin(row, subject, Arc::clone(&self.inspector)) {
                    Ok(look) => return Some(look),
                    Err(_) => NoLeakCheck::NoThread,
                }
            }
        };
        self.checks.missed(self.processes.who(row), why);
        None
    }

    /// Counts what a look found, and the process as ended.
    fn end_look(&mut self, look: Look, now: Tick) {
        let row = look.process;
        match look.end() {
            Some(findings) => self.add_findings(row, findings),
            None => self.checks.missed(self.processes.who(row), NoLeakCheck::CheckFailed),
        }
        self.process_exited(row, now);
    }

    /// Counts a process as ended: it has nothing left to do but to end.
    fn process_exited(&mut self, row: ProcessRow, now: Tick) {
        self.tally.process_ended(row, now, End::Exit);
        self.processes.exited(row);
    }

    /// Adds what a look at a process found.
    fn add_findings(&mut self, row: ProcessRow, findings: Findings) {
        self.tally.found(&findings.stacks);
        match findings.leaks {
            LeakCheck::NotDone => {}
            LeakCheck::AtExit | LeakCheck::AtSnapshot(_) => self.checks.done(),
            LeakCheck::Impossible(why) => self.checks.missed(self.processes.who(row), why),
        }
        self.notices.add(Vec::new(), findings.notes);
    }

    /// A process has ended that nobody looked at.
    pub(crate) fn ended_unseen(&mut self, row: ProcessRow) {
        if !self.config.leak_check
            || self.processes.has_exited(row)
            || self.processes.end_of(row) == End::Exec
        {
            return;
        }
        if self.tally.has_blocks(row) {
            self.checks.missed(self.processes.who(row), NoLeakCheck::EndedWithoutExit);
        } else {
            self.checks.done();
        }
    }

    /// Looks at everyone who still lives, and waits for all looks that are under way.
    pub(crate) fn last_looks(&mut self) {
        self.processes.look_for_ended();
        let mut looks: Vec<Look> = Vec::new();
        for row in self.processes.all_living() {
            let goes = self.processes.has_ended(row) || self.processes.has_exited(row);
            let slot = self.areas.slot_of(row);
            if let Some(slot) = slot.filter(|slot| !goes && !self.is_waiting(*slot, row)) {
                looks.extend(self.look_at(row, slot, None));
            }
        }
        loop {
            self.round(Until::Now);
            let now = sys::now();
            for look in &mut looks {
                look.serve(self.read_until, |row| self.tally.live(row));
            }
            while let Some(done) = looks.iter().position(Look::is_finished) {
                self.end_look(looks.swap_remove(done), now);
            }
            let inspected = |watched: &Watched| matches!(watched.exit, Exit::Inspected { .. });
            if looks.is_empty() && !self.areas.iter().any(inspected) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether a process of an area is being looked at in its last moment.
    fn is_waiting(&self, slot: AreaSlot, row: ProcessRow) -> bool {
        let exit = self.areas.get(slot).map(|watched| &watched.exit);
        matches!(exit, Some(Exit::Inspected { look, .. }) if look.process == row)
    }
}
