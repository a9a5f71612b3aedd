//! Binary columns behind a header that says where each is.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};

/// The missing value in `u32` columns.
pub(super) const NONE: u32 = u32::MAX;

/// Every column starts at a multiple of this, so a reader can use it in place.
const ALIGNMENT: usize = 8;

/// The rows of a column, generated while they are written.
pub(super) enum Rows<'p> {
    U8(Box<dyn ExactSizeIterator<Item = u8> + 'p>),
    U32(Box<dyn ExactSizeIterator<Item = u32> + 'p>),
    F64(Box<dyn ExactSizeIterator<Item = f64> + 'p>),
}

impl Rows<'_> {
    fn type_name(&self) -> &'static str {
        match self {
            Self::U8(_) => "u8",
            Self::U32(_) => "u32",
            Self::F64(_) => "f64",
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::U8(rows) => rows.len(),
            Self::U32(rows) => rows.len(),
            Self::F64(rows) => rows.len(),
        }
    }

    fn byte_len(&self) -> usize {
        let size = match self {
            Self::U8(_) => 1,
            Self::U32(_) => 4,
            Self::F64(_) => 8,
        };
        self.len() * size
    }

    fn write(self, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::U8(rows) => write_all(rows.map(|row| [row]), out),
            Self::U32(rows) => write_all(rows.map(u32::to_le_bytes), out),
            Self::F64(rows) => write_all(rows.map(f64::to_le_bytes), out),
        }
    }
}

fn write_all<const N: usize>(rows: impl Iterator<Item = [u8; N]>, out: &mut dyn Write) -> io::Result<()> {
    const AT_ONCE: usize = 64 << 10;
    let mut buffer = Vec::with_capacity(AT_ONCE);
    for row in rows {
        buffer.extend_from_slice(&row);
        if buffer.len() >= AT_ONCE {
            out.write_all(&buffer)?;
            buffer.clear();
        }
    }
    out.write_all(&buffer)
}

/// Columns in the order in which they are written.
#[derive(Default)]
pub(super) struct Columns<'p> {
    columns: Vec<(String, Rows<'p>)>,
}

impl<'p> Columns<'p> {
    pub(super) fn u8<I>(&mut self, name: impl Into<String>, rows: I)
    where
        I: IntoIterator<Item = u8, IntoIter: ExactSizeIterator + 'p>,
    {
        self.columns.push((name.into(), Rows::U8(Box::new(rows.into_iter()))));
    }

    pub(super) fn u32<I>(&mut self, name: impl Into<String>, rows: I)
    where
        I: IntoIterator<Item = u32, IntoIter: ExactSizeIterator + 'p>,
    {
        self.columns.push((name.into(), Rows::U32(Box::new(rows.into_iter()))));
    }

    pub(super) fn f64<I>(&mut self, name: impl Into<String>, rows: I)
    where
        I: IntoIterator<Item = f64, IntoIter: ExactSizeIterator + 'p>,
    {
        self.columns.push((name.into(), Rows::F64(Box::new(rows.into_iter()))));
    }

    /// Writes the header, which `head` builds from the description of the columns, and then the columns.
    pub(super) fn write<H: Serialize>(
        self,
        head: impl FnOnce(Description) -> H,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let header = serde_json::to_vec(&head(self.description()))?;
        let length = u32::try_from(header.len()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "the profile's command line is too long")
        })?;
        out.write_all(&length.to_le_bytes())?;
        out.write_all(&header)?;
        pad(4 + header.len(), out)?;
        for (_, rows) in self.columns {
            let bytes = rows.byte_len();
            rows.write(out)?;
            pad(bytes, out)?;
        }
        Ok(())
    }

    fn description(&self) -> Description {
        let mut offset = 0;
        let columns = self.columns.iter().map(|(name, rows)| {
            let column = Column { kind: rows.type_name(), offset, length: rows.len() };
            offset += rows.byte_len().next_multiple_of(ALIGNMENT);
            (name.clone(), column)
        });
        Description(columns.collect())
    }
}

fn pad(written: usize, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&[0; ALIGNMENT][..written.next_multiple_of(ALIGNMENT) - written])
}

/// The name and position of every column.
pub(super) struct Description(Vec<(String, Column)>);

#[derive(serde::Serialize)]
struct Column {
    #[serde(rename = "type")]
    kind: &'static str,
    offset: usize,
    length: usize,
}

impl Serialize for Description {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, column) in &self.0 {
            map.serialize_entry(name, column)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_described() {
        let mut columns = Columns::default();
        columns.u8("a", [1, 2, 3]);
        columns.u32("b", [NONE]);
        columns.f64("c", [0.5]);
        let mut out = Vec::new();
        columns.write(|columns| columns, &mut out).unwrap();
        let (length, rest) = out.split_first_chunk().unwrap();
        let length = u32::from_le_bytes(*length) as usize;
        let header: serde_json::Value = serde_json::from_slice(&rest[..length]).unwrap();
        let column = |kind: &str, offset: u32, length: u32| serde_json::json!({ "type": kind, "offset": offset, "length": length });
        let all = serde_json::json!({ "a": column("u8", 0, 3), "b": column("u32", 8, 1), "c": column("f64", 16, 1) });
        assert_eq!(header, all);
        let data = &out[(4 + length).next_multiple_of(8)..];
        assert_eq!(data[..16], [1, 2, 3, 0, 0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0]);
        assert_eq!(data[16..], 0.5_f64.to_le_bytes());
    }
}
