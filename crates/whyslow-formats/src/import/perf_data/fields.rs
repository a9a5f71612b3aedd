//! Reads numbers and texts from bytes, never beyond their end.

use linux_perf_event_reader::Endianness;

use super::super::ImportError;
use super::header::at;

/// A position in a part of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where the part starts in the file.
    base: usize,
    /// The length of the whole file.
    file_len: usize,
    pub(super) endian: Endianness,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8], endian: Endianness) -> Self {
        Self { bytes, at: 0, base: 0, file_len: bytes.len(), endian }
    }

    /// A part of the file. The caller has checked that it exists.
    pub(super) fn part(bytes: &'a [u8], start: usize, end: usize, endian: Endianness) -> Self {
        let part = bytes.get(start..end).unwrap_or_default();
        Self { bytes: part, at: 0, base: start, file_len: bytes.len(), endian }
    }

    pub(super) fn offset(&self) -> usize {
        self.base + self.at
    }

    pub(super) fn bytes(&mut self, len: usize) -> Result<&'a [u8], ImportError> {
        let end = self.at.checked_add(len);
        let Some(found) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(at(self.offset(), format!("{len} more bytes expected")));
        };
        self.at += len;
        Ok(found)
    }

    pub(super) fn skip(&mut self, len: usize) -> Result<(), ImportError> {
        self.bytes(len).map(|_| ())
    }

    /// The next bytes as separate fields.
    pub(super) fn take(&mut self, len: usize) -> Result<Self, ImportError> {
        let base = self.offset();
        Ok(Self { bytes: self.bytes(len)?, at: 0, base, ..*self })
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn u16(&mut self) -> Result<u16, ImportError> {
        let bytes = self.bytes(2)?.try_into().unwrap_or_default();
        Ok(match self.endian {
            Endianness::LittleEndian => u16::from_le_bytes(bytes),
            Endianness::BigEndian => u16::from_be_bytes(bytes),
        })
    }

    pub(super) fn u32(&mut self) -> Result<u32, ImportError> {
        let bytes = self.bytes(4)?.try_into().unwrap_or_default();
        Ok(match self.endian {
            Endianness::LittleEndian => u32::from_le_bytes(bytes),
            Endianness::BigEndian => u32::from_be_bytes(bytes),
        })
    }

    pub(super) fn u64(&mut self) -> Result<u64, ImportError> {
        let bytes = self.bytes(8)?.try_into().unwrap_or_default();
        Ok(match self.endian {
            Endianness::LittleEndian => u64::from_le_bytes(bytes),
            Endianness::BigEndian => u64::from_be_bytes(bytes),
        })
    }

    /// Kind, flags and size of a record.
    pub(super) fn record_header(&mut self) -> Result<(u32, u16, u16), ImportError> {
        Ok((self.u32()?, self.u16()?, self.u16()?))
    }

    /// The start and end of a section, which must lie in the file.
    pub(super) fn section(&mut self, what: &str) -> Result<(usize, usize), ImportError> {
        let said_at = self.offset();
        let (offset, size) = (self.u64()?, self.u64()?);
        let end = offset.checked_add(size).filter(|end| *end <= self.file_len as u64);
        match end {
            Some(end) => Ok((offset as usize, end as usize)),
            None => Err(at(
                said_at,
                format!("{what}: {size} bytes from byte {offset} on reach beyond the end of the file"),
            )),
        }
    }

    /// A length-prefixed text.
    pub(super) fn text(&mut self) -> Result<String, ImportError> {
        let len = self.u32()? as usize;
        Ok(until_zero(self.bytes(len)?))
    }

    /// The rest as a zero-terminated text.
    pub(super) fn c_text(&self) -> String {
        until_zero(self.rest())
    }
}

fn until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
