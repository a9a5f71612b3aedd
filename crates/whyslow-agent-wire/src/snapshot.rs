//! The exchange for a snapshot, over the collector's socket. Another whyslow connects and sends one
//! [`Request`]. The collector answers with one packet, together with a profile's descriptor (`SCM_RIGHTS`) if
//! it has one. An agent's hello never begins with [`MAGIC`].
//!
//! ```text
//! the answer = Reply                                 16 bytes
//!              Reply::text bytes of text             see `status`
//! ```

use crate::VERSION;

/// The first bytes of both messages.
pub const MAGIC: u32 = u32::from_le_bytes(*b"snap");

/// Bytes of either message, without the text.
pub const LEN: usize = 16;

/// Maximum length of the text.
pub const MOST_TEXT: usize = 4096;

/// The result of a request.
pub mod status {
    /// The packet carries the profile's descriptor; no text.
    pub const TAKEN: u32 = 1;
    /// This collector does not record that process. The text lists the processes that it records.
    pub const UNKNOWN: u32 = 2;
    /// The process is exiting or has exited; no text.
    pub const ENDED: u32 = 3;
    /// Another failure; the text describes it.
    pub const FAILED: u32 = 4;
}

/// Requests what holds memory in a process now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The sender's [`crate::VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// The sender's [`crate::VERSION`].
    pub version: u32,
    /// One of [`status`].
    pub status: u32,
    /// Length of the text that follows, in bytes.
    pub text: u32,
}

fn words(words: [u32; 4]) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// The three words after [`MAGIC`].
fn numbers(bytes: &[u8]) -> Option<[u32; 3]> {
    let (start, _) = bytes.split_at_checked(LEN)?;
    let mut numbers = [0; 4];
    for (number, word) in numbers.iter_mut().zip(start.chunks_exact(4)) {
        *number = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
    }
    let [magic, rest @ ..] = numbers;
    (magic == MAGIC).then_some(rest)
}

impl Request {
    /// A request of this version.
    pub fn new(pid: u32) -> Self {
        Self { version: VERSION, pid }
    }

    /// The request as it is sent.
    pub fn to_bytes(self) -> [u8; LEN] {
        words([MAGIC, self.version, self.pid, 0])
    }

    /// Parses a packet as a request; `None` if it is something else.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let [version, pid, _] = numbers(packet).filter(|_| packet.len() == LEN)?;
        Some(Self { version, pid })
    }
}

impl Reply {
    /// The reply as it is sent; the text follows.
    pub fn to_bytes(self) -> [u8; LEN] {
        words([MAGIC, self.version, self.status, self.text])
    }

    /// Parses a packet as a reply and its text; `None` if it is something else or the text's length is wrong.
    pub fn parse(packet: &[u8]) -> Option<(Self, &[u8])> {
        let [version, status, text] = numbers(packet)?;
        let bytes = &packet[LEN..];
        let whole = usize::try_from(text) == Ok(bytes.len()) && bytes.len() <= MOST_TEXT;
        whole.then_some((Self { version, status, text }, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::Hello;

    #[test]
    fn messages_round_trip() {
        let request = Request::new(4711);
        assert_eq!(Request::parse(&request.to_bytes()), Some(request));
        let reply = Reply { version: VERSION, status: status::FAILED, text: 3 };
        let mut packet = [0; LEN + 3];
        packet[..LEN].copy_from_slice(&reply.to_bytes());
        packet[LEN..].copy_from_slice(b"why");
        assert_eq!(Reply::parse(&packet), Some((reply, b"why".as_slice())));
    }

    #[test]
    fn rejects_other_packets() {
        let request = Request::new(1).to_bytes();
        assert_eq!(Request::parse(&request[..LEN - 1]), None);
        assert_eq!(Request::parse(&[request, request].concat::<u8>()), None);
        for packet in [&[][..], &[0; LEN], &[0xff; LEN], &[0; size_of::<Hello>()]] {
            assert_eq!(Request::parse(packet), None);
            assert_eq!(Reply::parse(packet), None);
        }
    }

    #[test]
    fn rejects_a_text_of_another_length() {
        for said in [0, 2, 4, u32::MAX] {
            let mut packet = [b'x'; LEN + 3];
            packet[..LEN].copy_from_slice(&Reply { version: VERSION, status: 4, text: said }.to_bytes());
            assert_eq!(Reply::parse(&packet), None, "{said}");
        }
        let mut packet = [b'x'; LEN + MOST_TEXT + 1];
        let text = MOST_TEXT as u32 + 1;
        packet[..LEN].copy_from_slice(&Reply { version: VERSION, status: 4, text }.to_bytes());
        assert_eq!(Reply::parse(&packet), None);
    }
}
