//! Columns of numbers and of byte strings inside a chunk.
//!
//! ```text
//! column  = name length: u8, name, type: u8, rows: varint, data length: varint, data
//! numbers = per row: varint of the zigzag of the difference to the row before
//! blobs   = per row: varint length; then all bytes
//! ```

const NUMBERS: u8 = 0;
const BLOBS: u8 = 1;

/// A chunk with more rows or columns is refused: writers remain far below.
const MAX_ROWS: usize = 1 << 20;
const MAX_COLUMNS: usize = 64;
const MISSING: Malformed = "a column is missing";

/// Why columns cannot be decoded.
pub(super) type Malformed = &'static str;

/// Encodes columns one after the other.
#[derive(Default)]
pub(super) struct ColumnWriter {
    out: Vec<u8>,
    data: Vec<u8>,
}

impl ColumnWriter {
    pub(super) fn numbers(&mut self, name: &str, values: impl Iterator<Item = u64>) -> &mut Self {
        let mut previous = 0u64;
        let mut rows = 0;
        self.data.clear();
        for value in values {
            let difference = value.wrapping_sub(previous) as i64;
            put_varint(&mut self.data, ((difference << 1) ^ (difference >> 63)) as u64);
            previous = value;
            rows += 1;
        }
        self.finish(name, NUMBERS, rows);
        self
    }

    pub(super) fn blobs<'a>(&mut self, name: &str, values: impl Iterator<Item = &'a [u8]>) -> &mut Self {
        let mut bytes = Vec::new();
        let mut rows = 0;
        self.data.clear();
        for value in values {
            put_varint(&mut self.data, value.len() as u64);
            bytes.extend_from_slice(value);
            rows += 1;
        }
        self.data.append(&mut bytes);
        self.finish(name, BLOBS, rows);
        self
    }

    fn finish(&mut self, name: &str, kind: u8, rows: u64) {
        self.out.push(name.len() as u8);
        self.out.extend_from_slice(name.as_bytes());
        self.out.push(kind);
        put_varint(&mut self.out, rows);
        put_varint(&mut self.out, self.data.len() as u64);
        self.out.extend_from_slice(&self.data);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.out
    }
}

struct Column<'a> {
    name: &'a [u8],
    kind: u8,
    rows: usize,
    data: &'a [u8],
}

/// The columns of one chunk.
pub(super) struct ColumnReader<'a> {
    columns: Vec<Column<'a>>,
    rows: usize,
}

impl<'a> ColumnReader<'a> {
    /// Splits a chunk into columns. All columns of a chunk have the same number of rows.
    pub(super) fn new(mut bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut columns: Vec<Column<'_>> = Vec::new();
        while !bytes.is_empty() {
            let name_len = usize::from(take(&mut bytes, 1)?[0]);
            let name = take(&mut bytes, name_len)?;
            let kind = take(&mut bytes, 1)?[0];
            let rows = usize::try_from(get_varint(&mut bytes)?).map_err(|_| "too many rows")?;
            let len = usize::try_from(get_varint(&mut bytes)?).map_err(|_| "a column is too long")?;
            let data = take(&mut bytes, len)?;
            // Each row takes at least one byte, so the claimed number of rows is limited by the data.
            if rows > data.len() || rows > MAX_ROWS {
                return Err("a column claims more rows than it has");
            }
            if columns.first().is_some_and(|first| first.rows != rows) {
                return Err("the columns of a table differ in length");
            }
            if columns.len() == MAX_COLUMNS {
                return Err("a table has too many columns");
            }
            columns.push(Column { name, kind, rows, data });
        }
        let rows = columns.first().map_or(0, |column| column.rows);
        Ok(Self { columns, rows })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    fn find(&self, name: &str, kind: u8) -> Result<&Column<'a>, Malformed> {
        self.columns
            .iter()
            .find(|column| column.name == name.as_bytes() && column.kind == kind)
            .ok_or(MISSING)
    }

    /// A column of numbers.
    pub(super) fn numbers(&self, name: &str) -> Result<Vec<u64>, Malformed> {
        let column = self.find(name, NUMBERS)?;
        let mut data = column.data;
        let mut value = 0u64;
        let mut values = Vec::with_capacity(column.rows);
        for _ in 0..column.rows {
            let coded = get_varint(&mut data)?;
            value = value.wrapping_add(((coded >> 1) as i64 ^ -((coded & 1) as i64)) as u64);
            values.push(value);
        }
        if data.is_empty() { Ok(values) } else { Err("a column has bytes left over") }
    }

    /// A column of numbers that older files lack: zeros there.
    pub(super) fn numbers_or_zeros(&self, name: &str) -> Result<Vec<u64>, Malformed> {
        if self.find(name, NUMBERS).is_err() { Ok(vec![0; self.rows]) } else { self.numbers(name) }
    }

    /// A column of byte strings.
    pub(super) fn blobs(&self, name: &str) -> Result<Vec<&'a [u8]>, Malformed> {
        let column = self.find(name, BLOBS)?;
        let mut data = column.data;
        let mut lengths = Vec::with_capacity(column.rows);
        for _ in 0..column.rows {
            lengths.push(usize::try_from(get_varint(&mut data)?).map_err(|_| "a text is too long")?);
        }
        let values = lengths.into_iter().map(|len| take(&mut data, len)).collect::<Result<_, _>>()?;
        if data.is_empty() { Ok(values) } else { Err("a column has bytes left over") }
    }
}

fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], Malformed> {
    let (head, rest) = bytes.split_at_checked(len).ok_or("a column ends early")?;
    *bytes = rest;
    Ok(head)
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[inline]
pub(super) fn get_varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    // Most numbers are small.
    if let [byte @ ..0x80, rest @ ..] = *bytes {
        *bytes = rest;
        return Ok(u64::from(*byte));
    }
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        // Nine bytes hold 63 bits; the tenth adds one more.
        if index == 9 && byte > 1 {
            return Err("a number is too long");
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err("a number ends early")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn columns_are_read_back_equal(
            numbers in prop::collection::vec(any::<u64>(), 0..200),
            seed in any::<u8>(),
        ) {
            let blobs: Vec<Vec<u8>> = numbers.iter().map(|n| vec![seed; (*n % 20) as usize]).collect();
            let mut writer = ColumnWriter::default();
            writer.numbers("n", numbers.iter().copied());
            writer.blobs("b", blobs.iter().map(Vec::as_slice));
            let bytes = writer.into_bytes();
            let reader = ColumnReader::new(&bytes).unwrap();
            prop_assert_eq!(reader.numbers("n").unwrap(), numbers);
            prop_assert_eq!(reader.blobs("b").unwrap(), blobs.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }

        #[test]
        fn garbage_is_an_error_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(reader) = ColumnReader::new(&bytes) {
                let _ = (reader.numbers("n"), reader.blobs("b"));
            }
        }
    }

    #[test]
    fn a_missing_column_is_an_error() {
        let mut writer = ColumnWriter::default();
        writer.numbers("n", [1, 2, 3].into_iter());
        let bytes = writer.into_bytes();
        let reader = ColumnReader::new(&bytes).unwrap();
        assert_eq!(reader.numbers("m"), Err(MISSING));
        assert_eq!(reader.blobs("n"), Err(MISSING), "a column of another type is another column");
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_an_error() {
        let mut bytes = vec![0xff; 9];
        bytes.push(1);
        assert_eq!(get_varint(&mut &*bytes), Ok(u64::MAX));
        bytes[9] = 2;
        assert!(get_varint(&mut &*bytes).is_err());
    }
}
