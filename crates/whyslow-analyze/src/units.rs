//! Shares and counts as people read them.

use std::fmt;

/// A share of 1, shown in per cent: `12.3 %`. Never rounds something to nothing, or almost all to all.
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

/// `1 block`, `20,008 blocks`.
pub fn number_of(count: u64, one: &str, many: &str) -> String {
    format!("{} {}", Count(count), if count == 1 { one } else { many })
}

/// A count with its thousands apart: `4,812`.
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

/// `part / whole`, and 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_keep_something_and_nothing_apart() {
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
    fn thousands_stand_apart() {
        let shown = |count| Count(count).to_string();
        assert_eq!([shown(0), shown(999), shown(4812), shown(1_234_567)], ["0", "999", "4,812", "1,234,567"]);
    }
}
