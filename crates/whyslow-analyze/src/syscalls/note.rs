//! Notes on recorded system calls.

use whyslow_words::{About, Count, Fact, Remark};

use super::SyscallTable;

whyslow_profile::facts! {
    /// A note on recorded system calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SyscallNote {
        /// Some calls have no stack.
        "stacks-spread" => Spread {
            /// How many.
            calls: u64,
            /// Of how many.
            of: u64,
        },
    }
}

impl SyscallTable {
    /// The note on the whole table.
    pub fn note(&self) -> Option<SyscallNote> {
        let (calls, of) = (self.all.spread, self.all.count);
        (calls > 0).then_some(SyscallNote::Spread { calls, of })
    }
}

impl Fact for SyscallNote {
    fn remark(&self) -> Remark {
        let Self::Spread { calls, of } = self;
        let text = format!(
            "{} of {} calls have no stack because they arrived too fast: they are counted and timed, and charged in proportion to \
             calls of the same thread and kind that have a stack, of the same file if there are any",
            Count(*calls),
            Count(*of)
        );
        Remark::note(self.id(), About::Counters, text)
    }
}
