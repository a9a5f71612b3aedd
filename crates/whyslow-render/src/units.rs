//! Times and sizes as people read them.

use whyslow_profile::Unit;

pub use whyslow_analyze::{Count, Percent};

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

/// A value in its metric's unit.
pub fn value(value: u64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds => duration(value),
        Unit::Bytes => bytes(value),
        Unit::Count => Count(value).to_string(),
    }
}

/// Three digits in the largest unit that leaves at least 1.
fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    // 999.6 of one unit would be shown as 1000 of it.
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn sizes_go_by_1024() {
        assert_eq!(
            [bytes(0), bytes(512), bytes(1536), bytes(5 << 30)],
            ["0 B", "512 B", "1.50 KiB", "5.00 GiB"]
        );
        assert_eq!(value(4812, Unit::Count), "4,812");
    }
}
