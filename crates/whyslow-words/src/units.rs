//! Formats shares, counts, times and sizes for people.

use std::fmt;

/// A share of 1, shown in per cent: `12.3 %`. Never rounds a small share to 0, or almost everything to 100 %.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        let text = if !percent.is_finite() {
            "- %".to_owned()
        } else if percent > 0.0 && percent < 0.05 {
            "<0.1 %".to_owned()
        } else if (99.95..100.0).contains(&percent) {
            ">99.9 %".to_owned()
        } else {
            format!("{percent:.1} %")
        };
        f.pad(&text)
    }
}

/// A count with its noun, singular or plural: `1 block`, `20,008 blocks`.
pub fn number_of(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", Count(count), if count == 1 { one } else { many })
}

/// A count with thousands separators: `4,812`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        let mut text = String::with_capacity(digits.len() + digits.len() / 3);
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                text.push(',');
            }
            text.push(digit);
        }
        f.pad(&text)
    }
}

/// A time span in nanoseconds: `1.23 s`, `456 ms`, `12.3 µs`, `3 min 20 s`.
pub fn duration(ns: u64) -> String {
    const MINUTE: u64 = 60_000_000_000;
    let minutes = ns / MINUTE;
    if minutes >= 60 {
        return format!("{} h {:02} min", minutes / 60, minutes % 60);
    }
    if minutes >= 2 {
        return format!("{minutes} min {:02} s", ns % MINUTE / 1_000_000_000);
    }
    scaled(ns as f64, &[("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)])
}

/// A number of bytes: `512 B`, `1.50 MiB`.
pub fn bytes(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let units =
        [("B", 1.0), ("KiB", KIB), ("MiB", KIB * KIB), ("GiB", KIB * KIB * KIB), ("TiB", KIB.powi(4))];
    scaled(bytes as f64, &units)
}

/// Three digits, in the largest unit in which the value is at least 1.
fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    // 999.6 of one unit would be shown as 1000.
    let (name, size) = units.iter().rev().find(|(_, size)| value >= 0.9995 * size).unwrap_or(&units[0]);
    let scaled = value / size;
    let decimals = match scaled {
        _ if *size == 1.0 => 0,
        _ if scaled < 9.995 => 2,
        _ if scaled < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$} {name}")
}

/// A factor: `1.05`, `2.4`, `18`. More digits would not be meaningful.
pub fn times(factor: f64) -> String {
    let decimals = if factor < 1.995 { 2 } else { usize::from(factor < 9.95) };
    format!("{factor:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_shares_are_not_rounded_to_zero() {
        let shown = |share| Percent(share).to_string();
        assert_eq!(shown(0.0), "0.0 %");
        assert_eq!(shown(0.0001), "<0.1 %");
        assert_eq!(shown(0.1234), "12.3 %");
        assert_eq!(shown(0.99996), ">99.9 %");
        assert_eq!(shown(1.0), "100.0 %");
        assert_eq!(shown(f64::NAN), "- %");
        assert_eq!(format!("{:>8}|", Percent(0.5)), "  50.0 %|");
    }

    #[test]
    fn counts_have_thousands_separators() {
        let shown = |count| Count(count).to_string();
        assert_eq!([shown(0), shown(999), shown(4812), shown(1_234_567)], ["0", "999", "4,812", "1,234,567"]);
    }

    #[test]
    fn times_have_three_digits() {
        let shown = [0, 999, 1_000, 12_340, 999_999, 1_500_000, 123_456_789, 1_234_000_000, 59_990_000_000];
        let shown = shown.map(duration);
        assert_eq!(
            shown,
            ["0 ns", "999 ns", "1.00 µs", "12.3 µs", "1.00 ms", "1.50 ms", "123 ms", "1.23 s", "60.0 s"]
        );
        assert_eq!(duration(200_000_000_000), "3 min 20 s");
        assert_eq!(duration(3_720_000_000_000), "1 h 02 min");
    }

    #[test]
    fn sizes_use_units_of_1024() {
        assert_eq!(
            [bytes(0), bytes(512), bytes(1536), bytes(5 << 30)],
            ["0 B", "512 B", "1.50 KiB", "5.00 GiB"]
        );
    }

    #[test]
    fn factors_have_meaningful_digits() {
        assert_eq!(
            [1.053, 1.996, 2.44, 9.96, 18.29, 1000.0].map(times),
            ["1.05", "2.0", "2.4", "10", "18", "1000"]
        );
    }
}
