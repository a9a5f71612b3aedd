//! What is told of system calls besides their numbers.

use whyslow_profile::Profile;

use super::{SyscallRow, SyscallTable};
use crate::remark::{About, Fact, Remark};
use crate::units::{Count, bytes, number_of};

/// What the kernel keeps files in, and what a buffer holds at least.
const PAGE: u64 = 4096;

whyslow_profile::facts! {
    /// What system calls show.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum SyscallAdvice {
        /// Calls move less than a page each.
        "small-transfers" => Small {
            /// Whether they write.
            writes: bool,
            /// Bytes of each, on average.
            each: u64,
            /// How many.
            calls: u64,
            /// How many they were in full pages.
            in_pages: u64,
        },
        /// Some calls came without a stack.
        "stacks-spread" => Spread {
            /// How many.
            calls: u64,
            /// Of how many.
            of: u64,
        },
    }
}

impl SyscallRow {
    /// What is to be told of how much its calls move.
    pub fn advice(&self, profile: &Profile) -> Option<SyscallAdvice> {
        let call = profile.text(self.call);
        let writes =
            ["write", "writev", "pwrite64", "pwritev", "pwritev2", "sendto", "sendmsg"].contains(&call);
        let reads = ["read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg"].contains(&call);
        let each = self.cost.bytes_each().filter(|each| *each < PAGE && (reads || writes))?;
        let (calls, in_pages) = (self.cost.count, self.cost.bytes.div_ceil(PAGE));
        (in_pages < calls).then_some(SyscallAdvice::Small { writes, each, calls, in_pages })
    }
}

impl SyscallTable {
    /// What is to be told of all of them.
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
                    "{} each on average: in full pages of 4 KiB the same bytes are {} instead of {}",
                    bytes(*each),
                    number_of(*in_pages, "call", "calls"),
                    Count(*calls)
                );
                let buffer = if *writes {
                    "collect them in a buffer, such as BufWriter or setvbuf"
                } else {
                    "read through a buffer, such as BufReader or setvbuf"
                };
                Remark::note(self.id(), About::Counters, text).or(buffer)
            }
            Self::Spread { calls, of } => Remark::note(
                self.id(),
                About::Counters,
                format!(
                    "{} of {} calls came too fast to copy their stacks: they are counted and timed all the same, and charged in proportion to \
                     calls of the same thread, kind and file that have one",
                    Count(*calls),
                    Count(*of)
                ),
            ),
        }
    }
}
