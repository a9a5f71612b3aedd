//! The wire format of protocol buffers: reads the fields of a message, never beyond its end.

use crate::import::{Format, ImportError};

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    /// A text, a message, or several numbers.
    Bytes(Message<'a>),
    /// A number of fixed length, which profiles do not use.
    Other,
}

/// A message: bytes, and where they are in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) bytes: &'a [u8],
    offset: usize,
}

impl<'a> Message<'a> {
    /// The whole file.
    pub(super) fn file(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// Its fields.
    pub(super) fn fields(self) -> Fields<'a> {
        Fields { message: self, at: 0 }
    }

    /// An error at its start.
    pub(super) fn wrong(self, what: impl Into<String>) -> ImportError {
        ImportError::at_byte(Format::Pprof, self.offset as u64, what)
    }
}

/// Walks the fields of a message.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    message: Message<'a>,
    at: usize,
}

impl<'a> Fields<'a> {
    fn wrong(&self, what: &str) -> ImportError {
        ImportError::at_byte(Format::Pprof, (self.message.offset + self.at) as u64, what)
    }

    fn number(&mut self) -> Result<u64, ImportError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(&byte) = self.message.bytes.get(self.at) else {
                return Err(self.wrong("the file ends inside a number"));
            };
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.wrong("a number has more than 64 bits"))
    }

    fn take(&mut self, len: u64) -> Result<Message<'a>, ImportError> {
        let rest = &self.message.bytes[self.at..];
        let Some(bytes) = usize::try_from(len).ok().and_then(|len| rest.get(..len)) else {
            return Err(self.wrong(&format!("expected {len} bytes, found {}", rest.len())));
        };
        let message = Message { bytes, offset: self.message.offset + self.at };
        self.at += bytes.len();
        Ok(message)
    }

    /// The next field: its number and value.
    pub(super) fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, ImportError> {
        if self.at >= self.message.bytes.len() {
            return Ok(None);
        }
        let tag = self.number()?;
        let value = match tag & 7 {
            0 => Value::Number(self.number()?),
            1 => self.take(8).map(|_| Value::Other)?,
            2 => {
                let len = self.number()?;
                Value::Bytes(self.take(len)?)
            }
            5 => self.take(4).map(|_| Value::Other)?,
            kind => return Err(self.wrong(&format!("a field has the unknown type {kind}"))),
        };
        if tag >> 3 == 0 {
            return Err(self.wrong("a field has the number 0"));
        }
        Ok(Some((tag >> 3, value)))
    }

    /// The next number of a message that contains only numbers.
    fn next_number(&mut self) -> Result<Option<u64>, ImportError> {
        if self.at >= self.message.bytes.len() { Ok(None) } else { self.number().map(Some) }
    }
}

/// Adds the numbers of a repeated field: one, or several packed into bytes.
pub(super) fn numbers(value: Value<'_>, into: &mut Vec<u64>) -> Result<(), ImportError> {
    match value {
        Value::Number(number) => into.push(number),
        Value::Bytes(packed) => {
            let mut fields = packed.fields();
            while let Some(number) = fields.next_number()? {
                into.push(number);
            }
        }
        Value::Other => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_in_order() {
        let bytes = [0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i', 0x1d, 1, 2, 3, 4];
        let mut fields = Message::file(&bytes).fields();
        assert_eq!(fields.next().expect("field"), Some((1, Value::Number(150))));
        let Ok(Some((2, Value::Bytes(text)))) = fields.next() else { panic!("text") };
        assert_eq!((text.bytes, text.offset), (&b"hi"[..], 5));
        assert_eq!(fields.next().expect("field"), Some((3, Value::Other)));
        assert_eq!(fields.next().expect("end"), None);
    }

    #[test]
    fn an_error_has_its_offset() {
        let offset = |bytes: &[u8]| {
            let mut fields = Message::file(bytes).fields();
            loop {
                match fields.next() {
                    Err(ImportError::AtByte { offset, .. }) => return Some(offset),
                    Ok(None) => return None,
                    _ => {}
                }
            }
        };
        assert_eq!(offset(&[0x08]), Some(1));
        assert_eq!(offset(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 1]), Some(6), "huge length");
        assert_eq!(offset(&[0x08, 1, 0x0f]), Some(3), "unknown type");
        assert_eq!(offset(&[0xff; 11]), Some(10), "too many bits");
        assert_eq!(offset(&[0x08, 1]), None);
    }
}
