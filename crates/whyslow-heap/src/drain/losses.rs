//! What was lost, in numbers and in words.

/// What was lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Losses {
    /// Events.
    pub(super) events: u64,
    /// Rings whose writer does not keep to the rules.
    pub(super) broken_rings: u64,
}

impl Losses {
    /// In words, each with the next step.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.events > 0 {
            notes.push(format!(
                "{} allocator events were lost, so numbers are a little off; leave a core to whyslow, \
                 or record samples with --sample",
                self.events
            ));
        }
        if self.broken_rings > 0 {
            notes.push(format!(
                "the records of {} threads are damaged and were left out from there on; the program may have \
                 written over the agent's memory: run it under a memory checker",
                self.broken_rings
            ));
        }
        notes
    }
}
