//! The values at the ends of lines, and how all lines together show them to be written.

use super::content;

/// How the values are written, as all lines together show it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ValueFormat {
    /// The factor for all values, so that none of them is rounded away: 1 for whole numbers, else a power of
    /// ten.
    pub(super) scale: f64,
    /// Whether every stack ends in two numbers.
    pub(super) two: bool,
}

/// What lines show of the format of their values.
#[derive(Default)]
pub(super) struct Columns {
    stacks: u64,
    /// Stacks that end in two numbers.
    with_two: u64,
    /// The maximum number of digits after the decimal point.
    digits: u32,
}

impl Columns {
    pub(super) fn of(text: &[u8]) -> Self {
        let mut columns = Self::default();
        for (_, line) in content(text) {
            if let Some((rest, value)) = split_value(line) {
                columns.add_values(value, split_value(rest));
            }
        }
        columns
    }

    /// Adds the value of a line, and what is before it if that ends in a value too.
    pub(super) fn add_values(&mut self, value: Value, first: Option<(&[u8], Value)>) {
        self.add(&Self {
            stacks: 1,
            with_two: first.is_some_and(|(stack, _)| !stack.trim_ascii().is_empty()).into(),
            digits: value.digits().max(first.map_or(0, |(_, first)| first.digits())),
        });
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.stacks += other.stacks;
        self.with_two += other.with_two;
        self.digits = self.digits.max(other.digits);
    }

    pub(super) fn format(&self) -> ValueFormat {
        ValueFormat {
            scale: 10_f64.powi(self.digits.min(MOST_DIGITS).cast_signed()),
            // A single stack may end in two numbers because its last function's name ends in a number.
            two: self.stacks > 0 && self.with_two == self.stacks,
        }
    }
}

/// Further digits after the decimal point are rounded.
const MOST_DIGITS: u32 = 6;

/// A value as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    Whole(u64),
    /// With this many digits after the decimal point, not all of them 0.
    Real(f64, u32),
}

impl Value {
    fn digits(self) -> u32 {
        match self {
            Self::Whole(_) => 0,
            Self::Real(_, digits) => digits,
        }
    }

    pub(super) fn scaled(self, scale: f64) -> u64 {
        match self {
            // Numbers beyond 2^53 are not exact as floating-point numbers.
            Self::Whole(value) => value.saturating_mul(scale as u64),
            Self::Real(value, _) => (value * scale).round() as u64,
        }
    }
}

/// Splits a line into the stack and its value.
pub(super) fn split_value(line: &[u8]) -> Option<(&[u8], Value)> {
    let line = line.trim_ascii_end();
    // Most names do not end as numbers do, and need no search.
    line.last().filter(|last| last.is_ascii_digit() || **last == b'.')?;
    let at = memchr::memrchr2(b' ', b'\t', line)?;
    let value = std::str::from_utf8(&line[at + 1..]).ok()?;
    let digits = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let value = match value.parse() {
        Ok(value) => Value::Whole(value),
        Err(_) if digits => {
            let fraction = value.split_once('.').map_or("", |(_, fraction)| fraction.trim_end_matches('0'));
            Value::Real(value.parse().ok()?, fraction.len() as u32)
        }
        Err(_) => return None,
    };
    Some((&line[..at], value))
}
