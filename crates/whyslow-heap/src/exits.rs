//! Inspects processes at their exit, or at the end of the recording.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use whyslow_agent_host::{Area, AtExit, End, Leaving, ProcessRow, Programs};
use whyslow_agent_wire::area::MOST_STATES;
use whyslow_profile::{LeakCheck, NoLeakCheck};

use crate::accounting::Accounting;
use crate::inspect::Findings;
use crate::inspection::Inspection;
use crate::leaks::{Listed, Subject};

/// Address ranges in the processes of an area that belong to the agent, as start and end.
pub(crate) fn skip(area: &Area) -> Vec<(u64, u64)> {
    let header = area.header();
    let ranges = [(&header.table_start, &header.table_len), (&header.agent_start, &header.agent_len)];
    let ranges = ranges.map(|(start, len)| {
        let start = start.load(Ordering::Acquire);
        (start, start.saturating_add(len.load(Ordering::Relaxed)))
    });
    ranges.into_iter().filter(|range| range.0 != 0).collect()
}

/// Where the processes of an area have a list of further ranges.
pub(crate) fn skip_listed(area: &Area) -> Option<Listed> {
    let header = area.header();
    let (at, len) = (header.states.load(Ordering::Acquire), header.state_len.load(Ordering::Relaxed));
    (at != 0).then_some(Listed { at, count: MOST_STATES, len })
}

impl Accounting {
    /// Takes the next step of an inspection.
    pub(crate) fn inspected(&mut self, programs: &mut Programs, leaving: &Leaving) -> AtExit {
        let row = leaving.process;
        if let Some(at) = self.inspections.iter().position(|inspection| inspection.process == row) {
            let inspection = &mut self.inspections[at];
            inspection.serve(programs.read_until(), |row| self.tally.live(row));
            if !inspection.is_finished() {
                return AtExit::Held;
            }
            let inspection = self.inspections.swap_remove(at);
            self.end_inspection(programs, inspection);
            return AtExit::Done;
        }
        if leaving.waiting.is_some() && self.snapshot_of == Some(row) {
            return AtExit::NotYet;
        }
        match self.inspect(programs, leaving) {
            Some(inspection) => {
                self.inspections.push(inspection);
                AtExit::Held
            }
            None => AtExit::Nothing,
        }
    }

    /// Starts to inspect a process. `None` if there is nothing to inspect, or inspection is not possible,
    /// which is noted.
    fn inspect(&mut self, programs: &Programs, leaving: &Leaving) -> Option<Inspection> {
        if !self.config.leak_check {
            return None;
        }
        let row = leaving.process;
        let why = match programs.processes.same_numbers(row) {
            _ if self.tally.is_sampled() => NoLeakCheck::OnlySamples,
            None => NoLeakCheck::InContainer,
            Some(_) if !self.tally.has_blocks(row) => {
                self.checks.done();
                return None;
            }
            Some(_) if !self.tally.knows_inherited(row) => NoLeakCheck::TooManyInherited,
            Some(pid) => {
                let area = programs.area_of(row)?;
                let (skip, skip_listed) = (skip(area), skip_listed(area));
                let subject = Subject { pid: pid.0, waiting: leaving.waiting.clone(), skip, skip_listed };
                match Inspection::begin(row, subject, Arc::clone(&self.inspector)) {
                    Ok(inspection) => return Some(inspection),
                    Err(_) => NoLeakCheck::NoThread,
                }
            }
        };
        self.checks.missed(programs.processes.describe(row), why);
        None
    }

    /// Adds the findings of an inspection.
    fn end_inspection(&mut self, programs: &mut Programs, inspection: Inspection) {
        let row = inspection.process;
        match inspection.end() {
            Some(findings) => self.add_findings(programs, row, findings),
            None => self.checks.missed(programs.processes.describe(row), NoLeakCheck::CheckFailed),
        }
    }

    fn add_findings(&mut self, programs: &mut Programs, row: ProcessRow, findings: Findings) {
        self.tally.found(&findings.stacks);
        match findings.leaks {
            LeakCheck::NotDone => {}
            LeakCheck::AtExit | LeakCheck::AtSnapshot(_) => self.checks.done(),
            LeakCheck::Impossible(why) => self.checks.missed(programs.processes.describe(row), why),
        }
        programs.notices.add(Vec::new(), findings.notes);
    }

    /// Notes a process that ended without an inspection.
    pub(crate) fn note_uninspected(&mut self, programs: &Programs, row: ProcessRow) {
        let processes = &programs.processes;
        if !self.config.leak_check || processes.has_exited(row) || processes.end_of(row) == End::Exec {
            return;
        }
        if self.tally.has_blocks(row) {
            self.checks.missed(processes.describe(row), NoLeakCheck::EndedWithoutExit);
        } else {
            self.checks.done();
        }
    }
}
