//! Which processes were looked at for leaks, and which could not be, and why.

use whyslow_profile::LeakCheck;

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
    why: String,
}

impl Checks {
    /// A process was looked at.
    pub(crate) fn done(&mut self) {
        self.done += 1;
    }

    /// A process could not be looked at.
    pub(crate) fn missed(&mut self, who: String, why: impl Into<String>) {
        if self.missed.len() < MOST_NAMED {
            self.missed.push(Missed { who, why: why.into() });
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

    /// A sentence for each that could not be looked at where others were.
    pub(crate) fn notes(&self) -> Vec<String> {
        if self.done == 0 {
            return Vec::new();
        }
        let named = self.missed.iter().map(|Missed { who, why }| {
            format!("{who} was not looked at for leaks: {why}. What it lost is not in the recording.")
        });
        let more = (self.more > 0).then(|| format!("{} more processes were not either.", self.more));
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
        checks.missed("process 7 (app)".to_owned(), "signal 9 ended it");
        assert_eq!(checks.outcome(), LeakCheck::Impossible("signal 9 ended it".to_owned()));
        assert_eq!((checks.missing(), checks.notes().len()), (0, 0), "it is the check that is missing");
        checks.done();
        assert_eq!((checks.outcome(), checks.missing()), (LeakCheck::AtExit, 1));
        assert!(
            checks.notes()[0].starts_with("process 7 (app) was not looked at for leaks: signal 9 ended it.")
        );
        for _ in 0..MOST_NAMED {
            checks.missed("another".to_owned(), "of this");
        }
        assert_eq!((checks.missing(), checks.notes().len()), (1 + MOST_NAMED as u64, MOST_NAMED + 1));
    }
}
