//! Which processes were checked for leaks, which could not be checked, and why.

use whyslow_numbers::ClockNs;
use whyslow_profile::{HeapNote, LeakCheck, NoLeakCheck};

/// Maximum number of processes that notes name; the others are only counted.
const MOST_NAMED: usize = 20;

/// The results of the leak checks of all processes.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    done: u64,
    missed: Vec<Missed>,
    more: u64,
}

#[derive(Debug)]
struct Missed {
    process: String,
    why: NoLeakCheck,
}

impl Checks {
    /// Counts a checked process.
    pub(crate) fn done(&mut self) {
        self.done += 1;
    }

    /// Counts a process that could not be checked.
    pub(crate) fn missed(&mut self, process: String, why: NoLeakCheck) {
        if self.missed.len() < MOST_NAMED {
            self.missed.push(Missed { process, why });
        } else {
            self.more += 1;
        }
    }

    /// The number of processes that could not be checked, if others were.
    pub(crate) fn missing(&self) -> u64 {
        if self.done > 0 { self.missed.len() as u64 + self.more } else { 0 }
    }

    /// The result for the whole recording.
    pub(crate) fn outcome(&self) -> LeakCheck<ClockNs> {
        match &self.missed[..] {
            _ if self.done > 0 => LeakCheck::AtExit,
            [] => LeakCheck::NotDone,
            [first, ..] => LeakCheck::Impossible(first.why.clone()),
        }
    }

    /// One note per process that could not be checked, if others were.
    pub(crate) fn notes(&self) -> Vec<HeapNote> {
        if self.done == 0 {
            return Vec::new();
        }
        let named = self.missed.iter().map(|Missed { process, why }| HeapNote::ProcessNotChecked {
            process: process.clone(),
            why: why.clone(),
        });
        let more = (self.more > 0).then_some(HeapNote::MoreProcessesNotChecked { processes: self.more });
        named.chain(more).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checked_process_does_not_hide_unchecked_ones() {
        let mut checks = Checks::default();
        assert_eq!((checks.outcome(), checks.missing()), (LeakCheck::NotDone, 0));
        checks.missed("process 7 (app)".to_owned(), NoLeakCheck::InContainer);
        assert_eq!(checks.outcome(), LeakCheck::Impossible(NoLeakCheck::InContainer));
        assert_eq!((checks.missing(), checks.notes().len()), (0, 0), "no process was checked at all");
        checks.done();
        assert_eq!((checks.outcome(), checks.missing()), (LeakCheck::AtExit, 1));
        let process = "process 7 (app)".to_owned();
        assert_eq!(checks.notes(), [HeapNote::ProcessNotChecked { process, why: NoLeakCheck::InContainer }]);
        for _ in 0..MOST_NAMED {
            checks.missed("another".to_owned(), NoLeakCheck::NoThread);
        }
        assert_eq!((checks.missing(), checks.notes().len()), (1 + MOST_NAMED as u64, MOST_NAMED + 1));
    }
}
