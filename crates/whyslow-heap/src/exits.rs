//! The last moment of a process: it waits until its rings are read and its memory was looked at.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use whyslow_profile::LeakCheck;

use crate::drain::{Drain, Watched};
use crate::inspect::Findings;
use crate::sys;

/// Who waits in an area.
#[derive(Debug, Default)]
pub(crate) enum Exit {
    /// Nobody.
    #[default]
    Nobody,
    /// This process, until everything up to this tick is read.
    Reading { pid: u32, tid: u32, since: u64 },
    /// This process, until it was looked at.
    Inspected { pid: u32, tid: u32, row: u32, look: Option<JoinHandle<Findings>> },
    /// This process may go; it has not left yet.
    Allowed { pid: u32, tid: u32 },
}

impl Watched {
    /// Whether somebody waits who is not attended to.
    pub(crate) fn is_awaited(&self) -> bool {
        let waiting = self.waiting();
        match self.exit {
            Exit::Allowed { pid, tid } => waiting.is_some_and(|waiting| waiting != (pid, tid)),
            _ => waiting.is_some(),
        }
    }

    fn waiting(&self) -> Option<(u32, u32)> {
        let header = self.area.header();
        let pid = header.exiting_pid.load(Ordering::Acquire);
        (pid != 0).then(|| (pid, header.exiting_tid.load(Ordering::Acquire)))
    }

    /// Ranges in its processes that are the agent's, from start to end.
    pub(crate) fn skip(&self) -> Vec<(u64, u64)> {
        let header = self.area.header();
        let ranges = [
            (&header.table_start, &header.table_len),
            (&header.agent_start, &header.agent_len),
            (&header.states_start, &header.states_len),
        ];
        let ranges = ranges.map(|(start, len)| {
            let start = start.load(Ordering::Acquire);
            (start, start.saturating_add(len.load(Ordering::Relaxed)))
        });
        ranges.into_iter().filter(|range| range.0 != 0).collect()
    }

    fn allow(&mut self, pid: u32, tid: u32) {
        let header = self.area.header();
        header.exits_allowed.fetch_add(1, Ordering::AcqRel);
        sys::wake_all(&header.exits_allowed);
        self.exit = Exit::Allowed { pid, tid };
    }
}

impl Drain {
    /// Takes the next step for everyone who waits; whether anyone still does.
    pub(crate) fn attend_exits(&mut self, horizon: u64, now: u64) -> bool {
        let mut awaited = false;
        for slot in 0..self.areas.len() {
            awaited |= self.attend(slot, horizon, now).unwrap_or(false);
        }
        awaited
    }

    fn attend(&mut self, slot: usize, horizon: u64, now: u64) -> Option<bool> {
        let watched = self.areas.get_mut(slot)?.as_mut()?;
        let waiting = watched.waiting();
        match std::mem::take(&mut watched.exit) {
            Exit::Reading { pid, tid, since } if waiting == Some((pid, tid)) => {
                if horizon < since {
                    watched.exit = Exit::Reading { pid, tid, since };
                } else {
                    self.begin_look(slot, pid, tid, now);
                }
            }
            Exit::Inspected { pid, tid, row, look } => {
                if look.as_ref().is_some_and(|look| !look.is_finished()) {
                    watched.exit = Exit::Inspected { pid, tid, row, look };
                } else {
                    watched.allow(pid, tid);
                    self.end_look(row, look, now);
                }
            }
            Exit::Allowed { pid, tid } if waiting == Some((pid, tid)) => {
                watched.exit = Exit::Allowed { pid, tid };
                // It was killed before it could say that it goes on.
                let gone = watched.processes.get(&pid).is_none_or(|&row| self.processes.is_gone(row));
                if gone {
                    let header = watched.area.header();
                    for (held, by) in [(&header.exiting_pid, pid), (&header.exiting_tid, tid)] {
                        // Another one's by now: it stays.
                        let _ = held.compare_exchange(by, 0, Ordering::AcqRel, Ordering::Relaxed);
                    }
                    sys::wake_all(&header.exiting_tid);
                }
            }
            Exit::Nobody | Exit::Reading { .. } | Exit::Allowed { .. } => {
                if let Some((pid, tid)) = waiting {
                    watched.exit = Exit::Reading { pid, tid, since: sys::ticks() };
                }
            }
        }
        let exit = &self.areas.get(slot)?.as_ref()?.exit;
        Some(!matches!(exit, Exit::Nobody | Exit::Allowed { .. }))
    }

    /// Looks at a process on another thread, so that others need not wait for it. One that has no blocks may go at once.
    fn begin_look(&mut self, slot: usize, pid: u32, tid: u32, now: u64) {
        let Some(watched) = self.areas.get_mut(slot).and_then(Option::as_mut) else { return };
        let Some(&row) = watched.processes.get(&pid).filter(|&&row| !self.processes.has_left(row)) else {
            watched.allow(pid, tid);
            return;
        };
        if self.looked_at == Some(row) {
            watched.exit = Exit::Reading { pid, tid, since: 0 };
            return;
        }
        let look =
            match (self.config.leak_check, self.tally.weights.sampled(), self.processes.same_numbers(row)) {
                (false, _, _) => None,
                (true, true, _) => {
                    self.leaks = LeakCheck::Impossible("only samples of the blocks are known".to_owned());
                    None
                }
                (true, false, None) => {
                    self.leaks = LeakCheck::Impossible("the program runs in a container".to_owned());
                    None
                }
                (true, false, Some(outside)) => {
                    let blocks = self.tally.live_blocks(row);
                    let inspector = Arc::clone(&self.inspector);
                    let skip = watched.skip();
                    if blocks.is_empty() {
                        // It hides no other process of which that could not be said.
                        if self.leaks == LeakCheck::NotDone {
                            self.leaks = LeakCheck::AtExit;
                        }
                        None
                    } else {
                        let look = move || inspector.at_exit(outside, tid, &blocks, &skip);
                        std::thread::Builder::new().name("heap-leaks".to_owned()).spawn(look).ok()
                    }
                }
            };
        if look.is_some() {
            watched.exit = Exit::Inspected { pid, tid, row, look };
        } else {
            watched.allow(pid, tid);
            self.end_look(row, None, now);
        }
    }

    /// Counts a process as ended: it does nothing any more but go.
    fn end_look(&mut self, row: u32, look: Option<JoinHandle<Findings>>, now: u64) {
        match look.map(JoinHandle::join) {
            None => {}
            Some(Ok(findings)) => self.add_findings(findings),
            Some(Err(_)) => {
                self.leaks = LeakCheck::Impossible("the leak check failed".to_owned());
            }
        }
        self.tally.end_process(row, now);
        self.processes.mark_left(row);
    }

    /// Waits for looks that are under way, and counts what they find.
    pub(crate) fn await_inspections(&mut self) {
        let now = sys::ticks();
        for slot in 0..self.areas.len() {
            let Some(watched) = &mut self.areas[slot] else { continue };
            if let Exit::Inspected { row, look, .. } = std::mem::take(&mut watched.exit) {
                self.end_look(row, look, now);
            }
        }
    }
}
