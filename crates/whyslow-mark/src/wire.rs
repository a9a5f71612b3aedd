//! The format of the pipe: one record per mark, written at once.
//!
//! ```text
//! 0  u16  length of the whole record         12  u16  length of the name
//! 2  u8   kind                               14  u16  zero
//! 3  u8   CHECK                              16  u64  start; a counter's time
//! 4  u32  thread                             24  u64  end; a counter's value; the version in a greeting
//! 8  u32  marks lost before this one         32  name, then detail
//! ```
//! Numbers are in native byte order: both ends are on the same machine. A record is at most [`RECORD_MOST`]
//! bytes, up to which Linux writes to a pipe atomically, so threads and processes can share one pipe.

/// The version of the format. Recorder and program must agree on it.
pub const VERSION: u64 = 1;
/// The largest record: `PIPE_BUF` of Linux.
pub const RECORD_MOST: usize = 4096;
/// Bytes before the name.
pub const HEADER: usize = 32;
/// Longer names are cut, and end with [`CUT`].
pub const NAME_MOST: usize = 1000;
/// Longer details are cut, and end with [`CUT`].
pub const DETAIL_MOST: usize = RECORD_MOST - HEADER - NAME_MOST;
/// The end of a text that was cut.
pub const CUT: &str = "…";

const CHECK: u8 = 0xA7;

/// The kind of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A program has found the pipe.
    Hello,
    /// A stretch of time.
    Span,
    /// A point in time.
    Moment,
    /// A new value of a counter.
    Counter,
}

impl Kind {
    fn code(self) -> u8 {
        match self {
            Self::Hello => 1,
            Self::Span => 2,
            Self::Moment => 3,
            Self::Counter => 4,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        [Self::Hello, Self::Span, Self::Moment, Self::Counter].into_iter().find(|kind| kind.code() == code)
    }
}

/// One mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The kind of mark.
    pub kind: Kind,
    /// The thread that made it.
    pub tid: u32,
    /// Marks dropped because the pipe was full, since the last one that was written.
    pub lost: u32,
    /// Start, in nanoseconds of `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End; or the bits of a counter's value, or the version in a greeting.
    pub end_ns: u64,
    /// The name; may hold any byte.
    pub name: &'a [u8],
    /// The detail; may hold any byte.
    pub detail: &'a [u8],
}

/// Cuts a text to at most `most` bytes; the second value is [`CUT`] if something was cut off.
pub(super) fn cut(text: &str, most: usize) -> (&str, &str) {
    if text.len() <= most {
        return (text, "");
    }
    let mut end = most - CUT.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    (&text[..end], CUT)
}

impl<'a> Record<'a> {
    /// The header for a name and a detail of these lengths.
    pub fn header(&self, name_length: usize, detail_length: usize) -> [u8; HEADER] {
        debug_assert!(name_length <= NAME_MOST && detail_length <= DETAIL_MOST);
        let length = (HEADER + name_length + detail_length) as u16;
        let mut header = [0; HEADER];
        header[0..2].copy_from_slice(&length.to_ne_bytes());
        header[2] = self.kind.code();
        header[3] = CHECK;
        header[4..8].copy_from_slice(&self.tid.to_ne_bytes());
        header[8..12].copy_from_slice(&self.lost.to_ne_bytes());
        header[12..14].copy_from_slice(&(name_length as u16).to_ne_bytes());
        header[16..24].copy_from_slice(&self.start_ns.to_ne_bytes());
        header[24..32].copy_from_slice(&self.end_ns.to_ne_bytes());
        header
    }

    /// Decodes the first record and its length; `Ok(None)` if more bytes are needed.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, Corrupt> {
        let Some(header) = bytes.first_chunk::<HEADER>() else { return Ok(None) };
        let short = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let word =
            |at: usize| u32::from_ne_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let long = |at: usize| {
            let (low, high) = (u64::from(word(at)), u64::from(word(at + 4)));
            if cfg!(target_endian = "little") { high << 32 | low } else { low << 32 | high }
        };
        let (length, name_length) = (usize::from(short(0)), usize::from(short(12)));
        let whole = HEADER + name_length <= length && length <= RECORD_MOST && name_length <= NAME_MOST;
        let Some(kind) = Kind::from_code(header[2]).filter(|_| whole && header[3] == CHECK) else {
            return Err(Corrupt);
        };
        let Some(texts) = bytes.get(HEADER..length) else { return Ok(None) };
        let (name, detail) = texts.split_at(name_length);
        let record =
            Self { kind, tid: word(4), lost: word(8), start_ns: long(16), end_ns: long(24), name, detail };
        Ok(Some((record, length)))
    }
}

/// The bytes are not a valid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corrupt;

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(record: &Record<'_>) -> Vec<u8> {
        let header = record.header(record.name.len(), record.detail.len());
        [&header[..], record.name, record.detail].concat()
    }

    #[test]
    fn records_round_trip() {
        let record = Record {
            kind: Kind::Counter,
            tid: u32::MAX,
            lost: 7,
            start_ns: 0x0102_0304_0506_0708,
            end_ns: (-5i64).cast_unsigned(),
            name: b"a\nname\0with everything",
            detail: "…".as_bytes(),
        };
        let written = bytes(&record);
        assert_eq!(Record::decode(&written), Ok(Some((record, written.len()))));
        for length in 0..written.len() {
            assert_eq!(Record::decode(&written[..length]), Ok(None), "cut at {length}");
        }
    }

    #[test]
    fn decoding_survives_any_wrong_byte() {
        let record =
            Record { kind: Kind::Span, tid: 1, lost: 0, start_ns: 1, end_ns: 2, name: b"n", detail: b"d" };
        let good = bytes(&record);
        for at in 0..good.len() {
            for byte in 0..=255 {
                let mut bad = good.clone();
                bad[at] = byte;
                if let Ok(Some((_, length))) = Record::decode(&bad) {
                    assert!(length <= bad.len());
                }
            }
        }
        assert_eq!(Record::decode(&[0; HEADER]), Err(Corrupt));
        assert_eq!(Record::decode(&[0xff; HEADER]), Err(Corrupt));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(cut("short", 100), ("short", ""));
        let long = "é".repeat(600_000);
        for most in [NAME_MOST, NAME_MOST - 1] {
            let (kept, end) = cut(&long, most);
            assert!(kept.len() + end.len() <= most && kept.len() + end.len() > most - 4);
            assert_eq!(end, CUT);
        }
    }
}
