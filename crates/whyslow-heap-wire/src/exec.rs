//! The exchange before a program executes one that the dynamic loader will not preload the agent into, over the collector's
//! socket: the agent asks with the program's file beside it (`SCM_RIGHTS`), the collector answers.
//!
//! ```text
//! agent       Ask and the file                        it waits for the answer, a bounded time
//! collector   Go                                      nothing is done about it
//!             or Preload                              the dynamic loader will bring the agent in
//!             or Watched                              the thread is traced, and gets the agent when it executes
//! agent       executes; the socket closes by itself
//!             or Failed                               there was no exec: it waits until it is no longer traced
//! collector   Go
//! ```
//! All are 16 bytes. An agent's hello never begins with [`MAGIC`].

use crate::VERSION;

/// How all begin.
pub const MAGIC: u32 = u32::from_le_bytes(*b"exec");

/// Bytes of each.
pub const LEN: usize = 16;

/// What may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// The agent: this thread is about to execute the file.
    Ask {
        /// Whether the thread is the process's first. The kernel gives another one the first one's number when it executes.
        first_thread: bool,
    },
    /// The agent: the exec failed.
    Failed,
    /// The collector: go on, nobody watches.
    Go,
    /// The collector: go on, and say if it fails.
    Watched,
    /// The collector: go on, it can be preloaded.
    Preload,
}

impl Message {
    /// As it is sent.
    pub fn to_bytes(self) -> [u8; LEN] {
        let kind = match self {
            Message::Ask { first_thread: false } => 1,
            Message::Ask { first_thread: true } => 2,
            Message::Failed => 3,
            Message::Go => 4,
            Message::Watched => 5,
            Message::Preload => 6,
        };
        let mut bytes = [0; LEN];
        for (to, word) in bytes.chunks_exact_mut(4).zip([MAGIC, VERSION, kind, 0_u32]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads one of this version.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if bytes.len() != LEN || word(0)? != MAGIC || word(4)? != VERSION {
            return None;
        }
        match word(8)? {
            1 => Some(Message::Ask { first_thread: false }),
            2 => Some(Message::Ask { first_thread: true }),
            3 => Some(Message::Failed),
            4 => Some(Message::Go),
            5 => Some(Message::Watched),
            6 => Some(Message::Preload),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let all = [
            Message::Ask { first_thread: false },
            Message::Ask { first_thread: true },
            Message::Failed,
            Message::Go,
            Message::Watched,
            Message::Preload,
        ];
        for message in all {
            assert_eq!(Message::parse(&message.to_bytes()), Some(message));
        }
    }

    #[test]
    fn nonsense_is_not_understood() {
        let good = Message::Go.to_bytes();
        assert_eq!(Message::parse(&good[..LEN - 1]), None);
        for at in 0..12 {
            let mut bad = good;
            bad[at] ^= 0x40;
            assert_eq!(Message::parse(&bad), None, "byte {at}");
        }
    }
}
