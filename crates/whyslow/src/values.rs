//! Parses the values of options: times, time ranges, sizes, kinds of code, formats.

use std::ops::Range;
use std::time::Duration;

use whyslow_analyze::SpanThreads;
use whyslow_formats::import::Format;
use whyslow_profile::CodeKind;

/// A length of time such as `10s`, `1.5s`, `200ms`, `2m`; a bare number is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time such as 10s, 1.5s, 200ms or 2m");
    let at = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let seconds_each = match unit {
        "" | "s" => 1.0,
        "ns" => 1e-9,
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds_each).map_err(|_| wrong())
}

/// Like [`duration`], but above zero.
pub(crate) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("the time must be above 0".to_owned()),
        duration => Ok(duration),
    }
}

/// A range of times since the start, in nanoseconds: `1.5s..2s`, `..2s` or `1.5s..`.
pub(crate) fn time_range(text: &str) -> Result<Range<u64>, String> {
    let Some((from, to)) = text.split_once("..") else {
        return Err(format!("`{text}` is not a range such as 1.5s..2s, ..2s or 1.5s.."));
    };
    let bound = |text: &str, open: u64| match text.trim() {
        "" => Ok(open),
        text => duration(text).map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)),
    };
    let range = bound(from, 0)?..bound(to, u64::MAX)?;
    if range.is_empty() {
        return Err(format!("`{text}` is empty: the end is not after the start"));
    }
    Ok(range)
}

/// CPU numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cpus(pub(crate) Vec<u32>);

/// A list of CPUs such as `0,2-3`.
pub(crate) fn cpus(text: &str) -> Result<Cpus, String> {
    /// No Linux machine has more CPUs.
    const MAX: u32 = 1 << 16;
    let wrong = || format!("`{text}` is not a list of CPUs such as 0,2-3");
    let number =
        |text: &str| text.trim().parse::<u32>().ok().filter(|number| *number < MAX).ok_or_else(wrong);
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    Ok(Cpus(cpus))
}

/// Bytes such as `4096`, `16k` or `1M`.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not a size such as 8192, 16k or 1M");
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let scale: u64 = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return Err(wrong()),
    };
    number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(wrong)
}

/// Bytes, above zero.
pub(crate) fn positive_bytes(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        0 => Err("the size must be above 0; leave out --sample to record every allocation".to_owned()),
        bytes => Ok(bytes),
    }
}

/// The geometry of a simulated cache as Valgrind takes it: `49152,12,64`, or `48k,12,64`.
pub(crate) fn cache(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is not a cache such as 32k,8,64: bytes, ways, bytes per line");
    let mut parts = text.split(',').map(str::trim);
    let (Some(size), Some(ways), Some(line), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(wrong());
    };
    let size = bytes(size)?;
    let ways: u64 = ways.parse().map_err(|_| wrong())?;
    let line = bytes(line)?;
    if size == 0 || ways == 0 || line < 16 || !line.is_power_of_two() || size > 1 << 40 {
        return Err(format!("{}; a line is a power of two of at least 16 bytes", wrong()));
    }
    let sets = ways.checked_mul(line).filter(|way| size % way == 0).map(|way| size / way);
    if !sets.is_some_and(|sets| sets > 0 && sets.is_power_of_two()) {
        return Err(format!("`{text}`: the number of sets, bytes / (ways · line), is not a power of two"));
    }
    Ok(format!("{size},{ways},{line}"))
}

/// The bytes of stack to copy per sample. The kernel copies at most 65,528, in units of 8.
pub(crate) fn stack_size(text: &str) -> Result<u32, String> {
    const MAX: u64 = 65_528;
    match bytes(text)? {
        65_536 => Ok(MAX as u32),
        size @ 512..=MAX => Ok((size & !7) as u32),
        _ => Err(format!("the kernel copies between 512 and {MAX} bytes of stack per sample")),
    }
}

/// A share of the total, such as `1%` or `0.01`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().map(|percent| percent / 100.0),
        None => text.parse(),
    };
    value
        .ok()
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("`{text}` is not a share such as 1% or 0.01"))
}

/// A width in pixels, at least 0.
pub(crate) fn pixels(text: &str) -> Result<f64, String> {
    let width = text.parse::<f64>().ok().filter(|width| (0.0..=10_000.0).contains(width));
    width.ok_or_else(|| format!("`{text}` is not a width in pixels such as 0.5"))
}

/// A kind of code by its label.
pub(crate) fn code_kind(text: &str) -> Result<CodeKind, String> {
    CodeKind::ALL.iter().copied().find(|kind| kind.label() == text).ok_or_else(|| {
        let labels = CodeKind::ALL.iter().map(|kind| kind.label()).collect::<Vec<_>>();
        format!("unknown kind `{text}`; kinds are {}", labels.join(", "))
    })
}

/// Which threads' samples count as inside a span.
pub(crate) fn span_threads(text: &str) -> Result<SpanThreads, String> {
    match text {
        "own" => Ok(SpanThreads::Own),
        "all" => Ok(SpanThreads::All),
        _ => Err(format!("`{text}` is not `own` (the span's thread) or `all` (every thread)")),
    }
}

/// An import format by its name.
pub(crate) fn import_format(text: &str) -> Result<Format, String> {
    Format::ALL.iter().copied().find(|format| format.word() == text).ok_or_else(|| {
        let words = Format::ALL.iter().map(|format| format.word()).collect::<Vec<_>>();
        format!("unknown format `{text}`; formats are {}", words.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_numbers_and_ranges() {
        assert_eq!(cpus("0,2-3"), Ok(Cpus(vec![0, 2, 3])));
        for wrong in ["", "a", "3-2", "1,", "-1", "0-99999999"] {
            assert!(cpus(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for wrong in ["", "s", "-1s", "1x", "NaN", "inf", "1e400", "1s2"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_may_be_open() {
        assert_eq!(time_range("1.5s..2s"), Ok(1_500_000_000..2_000_000_000));
        assert_eq!(time_range("..10ms"), Ok(0..10_000_000));
        assert_eq!(time_range("1s.."), Ok(1_000_000_000..u64::MAX));
        for wrong in ["1s", "2s..1s", "1s..1s", "a..b", "1s-2s"] {
            assert!(time_range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn caches_have_sets_of_a_power_of_two() {
        assert_eq!(cache("48k,12,64"), Ok("49152,12,64".to_owned()));
        assert_eq!(cache("32768,8,64"), Ok("32768,8,64".to_owned()));
        for wrong in [
            "",
            "32k",
            "32k,8",
            "32k,8,64,1",
            "0,8,64",
            "48k,8,64",
            "32k,0,64",
            "32k,8,48",
            "1k,8,999999999k",
        ] {
            assert!(cache(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_and_shares() {
        assert_eq!(bytes("16k"), Ok(16384));
        assert_eq!(bytes("1MiB"), Ok(1 << 20));
        assert!(bytes("16q").is_err());
        assert_eq!(positive_bytes("512k"), Ok(524_288));
        assert!(positive_bytes("0").is_err());
        assert_eq!(stack_size("64k"), Ok(65_528));
        assert_eq!(stack_size("1001"), Ok(1000));
        assert!(stack_size("1M").is_err());
        assert_eq!(share("5%"), Ok(0.05));
        assert!(share("500%").is_err());
    }
}
