//! Which processes were looked at for leaks, and which could not be, and why.

use whyslow_profile::{HeapNote, LeakCheck, NoLeakCheck};

/// Processes that are named; the others are only counted.
const MOST_NAMED: usize = 20;

/// What became of the looks at all processes.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    done: u64,
    missed: Vec<Missed>,
    more: u64,
}

#[derive(Debug)]
struct Missed {
    who: String,
    why: NoLeakCheck,
}

impl Checks {
    /// A process was looked at.
    pub(crate) fn done(&mut self) {
        self.done += 1;
    }

    /// A process could not be looked at.
    pub(crate) fn missed(&mut self, who: String, why: NoLeakCheck) {
        if self.missed.len() < MOST_NAMED {
            self.missed.push(Missed { who, why });
        } else {
            self.more += 1;
        }
    }

    /// How many could not be, where others were.
    pub(crate) fn missing(&self) -> u64 {
        if self.done > 0 { self.missed.len() as u64 + self.more } else { 0 }
    }

    /// What can be said of the whole.
    pub(crate) fn outcome(&self) -> LeakCheck {
        match &self.missed[..] {
            _ if self.done > 0 => LeakCheck::AtExit,
            [] => LeakCheck::NotDone,
            [first, ..] => LeakCheck::Impossible(first.why.clone()),
        }
    }

    /// A note of each that could not be looked at where others were.
    pub(crate) fn notes(&self) -> Vec<HeapNote> {
        if self.done == 0 {
            return Vec::new();
        }
        let named = self.missed.iter().map(|Missed { who, why }| HeapNote::ProcessNotChecked {
            process: who.clone(),
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
    fn a_process_that_was_looked_at_hides_none_that_was_not() {
        let mut checks = Checks::default();
        assert_eq!((checks.outcome(), checks.missing()), (LeakCheck::NotDone, 0));
        checks.missed("process 7 (app)".to_owned(), NoLeakCheck::InContainer);
        assert_eq!(checks.outcome(), LeakCheck::Impossible(NoLeakCheck::InContainer));
        assert_eq!((checks.missing(), checks.notes().len()), (0, 0), "it is the check that is missing");
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
