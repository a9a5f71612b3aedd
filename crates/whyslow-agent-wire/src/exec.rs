//! The exchange before a program executes a file into which the dynamic loader will not preload the agent. It
//! uses the collector's socket: the agent sends its question together with the file (`SCM_RIGHTS`), and the
//! collector answers.
//!
//! ```text
//! agent       Ask and the file                        the agent waits for the answer, for a limited time
//! collector   Go                                      the collector does nothing
//!             or Preload                              the dynamic loader will load the agent
//!             or Watched                              the collector traces the thread and injects the agent at exec
//! agent       executes; the socket closes by itself
//!             or Failed                               the exec failed: the agent waits until it is no longer traced
//! collector   Go
//! ```
//! All messages are 16 bytes. An agent's hello never begins with [`MAGIC`].

use crate::VERSION;

/// The first bytes of every message.
pub const MAGIC: u32 = u32::from_le_bytes(*b"exec");

/// Bytes of a message.
pub const LEN: usize = 16;

/// A message between agent and collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Agent: this thread is about to execute the file.
    Ask {
        /// Whether the thread is the process's main thread. When another thread executes, the kernel gives it
        /// the main thread's id.
        first_thread: bool,
    },
    /// Agent: the exec failed.
    Failed,
    /// Collector: continue, the thread is not traced.
    Go,
    /// Collector: continue, the thread is traced; report a failed exec.
    Watched,
    /// Collector: continue, the loader can preload the agent.
    Preload,
}

impl Message {
    /// The message as it is sent.
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

    /// Parses a message of this version.
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
    fn messages_round_trip() {
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
    fn rejects_malformed_messages() {
        let good = Message::Go.to_bytes();
        assert_eq!(Message::parse(&good[..LEN - 1]), None);
        for at in 0..12 {
            let mut bad = good;
            bad[at] ^= 0x40;
            assert_eq!(Message::parse(&bad), None, "byte {at}");
        }
    }
}
