//! Advice on system calls.

use whyslow_processor::PAGE;
use whyslow_profile::Profile;

use super::{SyscallRow, SyscallTable};
use whyslow_words::{About, Fact, Remark};
use whyslow_words::{Count, bytes, number_of};

whyslow_profile::facts! {
    /// Advice on system calls.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SyscallAdvice {
        /// Calls transfer less than a page each.
        "small-transfers" => Small {
            /// Whether they write.
            writes: bool,
            /// Bytes of each, on average.
            each: u64,
            /// How many.
            calls: u64,
            /// How many calls it would take in full pages.
            in_pages: u64,
        },
        /// Some calls have no stack.
        "stacks-spread" => Spread {
            /// How many.
            calls: u64,
            /// Of how many.
            of: u64,
        },
    }
}

impl SyscallRow {
    /// Advice on the size of its transfers. Sockets get none: a message has the size that it has, and a buffer
    /// that waits for more delays the answer.
    pub fn advice(&self, profile: &Profile) -> Option<SyscallAdvice> {
        let call = profile.text(self.call);
        let writes = ["write", "writev", "pwrite64", "pwritev", "pwritev2"].contains(&call);
        let reads = ["read", "readv", "pread64", "preadv", "preadv2"].contains(&call);
        let is_message = |name: &str| {
            ["socket", "TCP", "UDP", "Unix", "eventfd", "timerfd", "signalfd", "inotify"]
                .iter()
                .any(|start| name.starts_with(start))
        };
        let messages = self.targets.iter().filter(|(name, _)| is_message(profile.text(*name)));
        if messages.map(|(_, cost)| cost.count).sum::<u64>() * 2 > self.cost.count {
            return None;
        }
        // A page is the unit of the page cache, and the smallest useful buffer.
        let each = self.cost.bytes_each().filter(|each| *each < PAGE && (reads || writes))?;
        let (calls, in_pages) = (self.cost.count, self.cost.bytes.div_ceil(PAGE));
        // Fewer saved calls are not worth a change.
        (in_pages * 2 <= calls).then_some(SyscallAdvice::Small { writes, each, calls, in_pages })
    }
}

impl SyscallTable {
    /// Advice on the whole table.
    pub fn advice(&self) -> Option<SyscallAdvice> {
        let (calls, of) = (self.all.spread, self.all.count);
        (calls > 0).then_some(SyscallAdvice::Spread { calls, of })
    }
}

impl Fact for SyscallAdvice {
    fn remark(&self) -> Remark {
        match self {
            Self::Small { writes, each, calls, in_pages } => {
                let text = format!(
                    "{} each on average: with a 4 KiB buffer the same bytes take {} instead of {}",
                    bytes(*each),
                    number_of(*in_pages, "call", "calls"),
                    Count(*calls)
                );
                let buffer = if *writes {
                    "write through a buffer, such as BufWriter or setvbuf"
                } else {
                    "read through a buffer, such as BufReader or setvbuf"
                };
                Remark::note(self.id(), About::Counters, text).or(buffer)
            }
            Self::Spread { calls, of } => Remark::note(
                self.id(),
                About::Counters,
                format!(
                    "{} of {} calls have no stack because they arrived too fast: they are counted and timed, and charged in proportion to \
                     calls of the same thread and kind that have a stack, of the same file if there are any",
                    Count(*calls),
                    Count(*of)
                ),
            ),
        }
    }
}
