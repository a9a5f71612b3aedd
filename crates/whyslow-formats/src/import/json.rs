//! Shared by the JSON importers: errors with a byte offset, and lenient values for other tools' quirks.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::{Format, ImportError};

/// Parses a whole file.
pub(super) fn parse<'a, T: Deserialize<'a>>(format: Format, bytes: &'a [u8]) -> Result<T, ImportError> {
    // Some tools on Windows write a byte-order mark.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    serde_json::from_slice(text).map_err(|error| located(format, bytes, text, &error))
}

/// The parser's error with its offset in the file. `text` is the end of the file.
pub(super) fn located(format: Format, bytes: &[u8], text: &[u8], error: &serde_json::Error) -> ImportError {
    let what = error.to_string();
    let what = what.rsplit_once(" at line ").map_or(what.as_str(), |(what, _)| what);
    let at = offset(text, error.line(), error.column()) + (bytes.len() - text.len()) as u64;
    ImportError::at_byte(format, at, shortened(what))
}

/// Whether the start of a file is a JSON object with this quoted key near its start.
pub(super) fn has_key(start: &[u8], key: &str) -> bool {
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let quoted = format!("\"{key}\"");
    text.starts_with(b"{") && text.windows(quoted.len()).any(|window| window == quoted.as_bytes())
}

/// A parser's message without long quoted values.
fn shortened(what: &str) -> String {
    match what.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &what[..at]),
        None => what.to_owned(),
    }
}

/// The byte offset of a line and column as serde_json counts them: lines from 1, columns in bytes.
fn offset(bytes: &[u8], line: usize, column: usize) -> u64 {
    let start = match line {
        0 | 1 => 0,
        _ => bytes
            .iter()
            .enumerate()
            .filter(|&(_, &byte)| byte == b'\n')
            .nth(line - 2)
            .map_or(0, |(at, _)| at + 1),
    };
    (start + column).min(bytes.len()) as u64
}

/// A text. Lone surrogates, which JavaScript allows and Rust strings cannot hold, are replaced.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl Text<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl<'de> Visitor<'de> for Bytes {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_bytes<E: de::Error>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
                Ok(Text(String::from_utf8_lossy(bytes)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(text.to_owned().into()))
            }

            fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Self::Value, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned().into()))
            }
        }
        // serde_json accepts lone surrogates in bytes, but not in strings.
        deserializer.deserialize_bytes(Bytes)
    }
}

/// A row number of another table. `null`, negative numbers and numbers beyond 32 bits mean no row.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Index(pub(super) Option<u32>);

impl Index {
    /// The row of a table that it refers to, if there is one.
    pub(super) fn of<T>(self, table: &[T]) -> Option<&T> {
        table.get(self.0? as usize)
    }
}

/// A number, also in quotes, or 0 for `null`.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(super) struct Number(pub(super) f64);

struct Numeric;

impl Visitor<'_> for Numeric {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a number in quotes, or null")
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<f64, E> {
        Ok(value as f64)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<f64, E> {
        Ok(value)
    }

    /// Hermes puts numbers in quotes.
    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        text.trim().parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
    }

    fn visit_unit<E: de::Error>(self) -> Result<f64, E> {
        Ok(f64::NAN)
    }
}

impl<'de> Deserialize<'de> for Index {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(Numeric)?;
        Ok(Self((0.0..f64::from(u32::MAX)).contains(&value).then_some(value as u32)))
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = deserializer.deserialize_any(Numeric)?;
        Ok(Self(if value.is_finite() { value } else { 0.0 }))
    }
}

/// A whole number of nanoseconds. Negative values and NaN become 0.
pub(super) fn nanoseconds(value: f64, ns_per_unit: f64) -> u64 {
    (value * ns_per_unit).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_byte_offset() {
        for (text, at) in [("[1,\n2,\n x]", 9), ("[1, x]", 5), ("[1,\n", 4), ("", 0)] {
            let error = parse::<Vec<u32>>(Format::Speedscope, text.as_bytes()).expect_err("broken");
            assert!(matches!(error, ImportError::AtByte { offset, .. } if offset == at), "{text:?}: {error}");
        }
    }

    #[test]
    fn lone_surrogates_are_replaced() {
        let texts: Vec<Text<'_>> =
            parse(Format::Firefox, br#"["a", "\ud800b", "\u00e4\n", "\udc00\ud800", "\ud83d\ude00"]"#)
                .expect("parses");
        let texts: Vec<&str> = texts.iter().map(Text::as_str).collect();
        assert_eq!(texts[0], "a");
        assert!(texts[1].ends_with('b') && texts[1].starts_with('\u{fffd}'));
        assert_eq!(texts[2], "ä\n");
        assert!(texts[3].chars().all(|c| c == '\u{fffd}'));
        assert_eq!(texts[4], "😀");
    }

    #[test]
    fn numbers_may_be_missing_or_odd() {
        let rows: Vec<Index> = parse(Format::Firefox, b"[0, null, -1, 3.0, 1e99]").expect("parses");
        assert_eq!(rows, [Some(0), None, None, Some(3), None].map(Index));
        let numbers: Vec<Number> =
            parse(Format::Firefox, br#"[1.5, null, -2, "12.5", " 7 "]"#).expect("parses");
        assert_eq!(numbers, [1.5, 0.0, -2.0, 12.5, 7.0].map(Number));
        assert!(parse::<Vec<Number>>(Format::Firefox, br#"["soon"]"#).is_err());
        assert_eq!(
            [nanoseconds(1.5, 1e6), nanoseconds(-1.0, 1e6), nanoseconds(f64::NAN, 1.0)],
            [1_500_000, 0, 0]
        );
    }
}
