//! The other exchange over the collector's socket: another whyslow connects and sends one [`Request`]; the collector answers
//! with one packet, with a profile's descriptor beside it (`SCM_RIGHTS`) if it has one. An agent's hello never begins with [`MAGIC`].
//!
//! ```text
//! the answer = Reply                                 16 bytes
//!              Reply::text bytes of text             see `status`
//! ```

use crate::VERSION;

/// How both begin.
pub const MAGIC: u32 = u32::from_le_bytes(*b"snap");

/// Bytes of either, without the text.
pub const LEN: usize = 16;

/// The longest text.
pub const MOST_TEXT: usize = 4096;

/// What became of a request.
pub mod status {
    /// The profile comes beside it; no text.
    pub const TAKEN: u32 = 1;
    /// The process is none that this collector watches. The text lists those that it does.
    pub const UNKNOWN: u32 = 2;
    /// The process ends or has ended; no text.
    pub const ENDED: u32 = 3;
    /// Something else; the text says what.
    pub const FAILED: u32 = 4;
}

/// Asks what holds memory in a process now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// [`crate::VERSION`] of who asks.
    pub version: u32,
    /// The process.
    pub pid: u32,
}

/// The answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// [`crate::VERSION`] of who answers.
    pub version: u32,
    /// One of [`status`].
    pub status: u32,
    /// Bytes of text that follow.
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

    /// As it is sent.
    pub fn to_bytes(self) -> [u8; LEN] {
        words([MAGIC, self.version, self.pid, 0])
    }

    /// The request in a packet; `None` if there is something else in it.
    pub fn parse(packet: &[u8]) -> Option<Self> {
        let [version, pid, _] = numbers(packet).filter(|_| packet.len() == LEN)?;
        Some(Self { version, pid })
    }
}

impl Reply {
    /// As it is sent; the text follows.
    pub fn to_bytes(self) -> [u8; LEN] {
        words([MAGIC, self.version, self.status, self.text])
    }

    /// The reply in a packet and its text; `None` if there is something else in it, or its length is not what it says.
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
    fn what_is_sent_is_what_is_read() {
        let request = Request::new(4711);
        assert_eq!(Request::parse(&request.to_bytes()), Some(request));
        let reply = Reply { version: VERSION, status: status::FAILED, text: 3 };
        let mut packet = [0; LEN + 3];
        packet[..LEN].copy_from_slice(&reply.to_bytes());
        packet[LEN..].copy_from_slice(b"why");
        assert_eq!(Reply::parse(&packet), Some((reply, b"why".as_slice())));
    }

    #[test]
    fn other_packets_are_neither() {
        let request = Request::new(1).to_bytes();
        assert_eq!(Request::parse(&request[..LEN - 1]), None);
        assert_eq!(Request::parse(&[request, request].concat::<u8>()), None);
        for packet in [&[][..], &[0; LEN], &[0xff; LEN], &[0; size_of::<Hello>()]] {
            assert_eq!(Request::parse(packet), None);
            assert_eq!(Reply::parse(packet), None);
        }
    }

    #[test]
    fn a_text_is_as_long_as_said() {
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
