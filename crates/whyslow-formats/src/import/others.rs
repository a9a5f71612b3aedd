//! Recognised formats that whyslow does not read, each with a way to convert it.

use super::ImportError;

const BY_PPROF: &str = "`pprof -proto PROGRAM FILE > run.pb.gz` (or `go tool pprof`), then import the result";

/// The error for a file that no importer reads.
pub(super) fn named(start: &[u8]) -> ImportError {
    let found = |what, next| ImportError::NotRead { what, next };
    match start {
        _ if is_cpu_profile(start) => found("a gperftools CPU profile", BY_PPROF),
        _ if start.starts_with(b"heap profile:") => found("a tcmalloc or old Go heap profile", BY_PPROF),
        _ if start.starts_with(b"heap_v2/") => found(
            "a jemalloc heap profile",
            "`jeprof --collapsed PROGRAM FILE > run.folded`, then import the result",
        ),
        _ if start.starts_with(b"goroutine profile:") || start.starts_with(b"threadcreate profile:") => {
            found("a Go text profile", "the same URL without `?debug=1`, which returns pprof's own format")
        }
        _ if is_old_text(start) => found("an old text profile of a C++ or Java server", BY_PPROF),
        [b'g', b'm', b'o', b'n', ..] => found("a gprof profile", "perf record, or whyslow itself"),
        [b'F', b'L', b'R', 0, ..] => {
            found("a Java Flight Recorder recording", "`jfrconv FILE run.collapsed`, then import the result")
        }
        _ => ImportError::UnknownFormat,
    }
}

/// `--- contentionz 1 ---`, and the same with heapz, threadz, growthz or mutex.
fn is_old_text(start: &[u8]) -> bool {
    let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    ["contention", "heap", "thread", "growth", "mutex"].iter().any(|kind| {
        first
            .strip_prefix(b"--- ")
            .is_some_and(|rest| rest.starts_with(kind.as_bytes()) && rest.ends_with(b"---"))
    })
}

/// The old binary format: words of 4 or 8 bytes with the values 0, 3, 0, the period, 0.
fn is_cpu_profile(start: &[u8]) -> bool {
    let words = |width: usize, to_number: fn(&[u8]) -> u64| {
        let mut words = start.chunks_exact(width).map(to_number);
        let head: Vec<u64> = words.by_ref().take(5).collect();
        matches!(head[..], [0, 3, 0, period, 0] if period > 0)
    };
    let little = |word: &[u8]| word.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let big = |word: &[u8]| word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    words(8, little) || words(8, big) || words(4, little) || words(4, big)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_formats_are_named() {
        let cpu: Vec<u8> = [0u64, 3, 0, 10_000, 0, 1, 2].iter().flat_map(|word| word.to_le_bytes()).collect();
        let cpu_32: Vec<u8> =
            [0u32, 3, 0, 10_000, 0, 1, 2].iter().flat_map(|word| word.to_be_bytes()).collect();
        for (bytes, name) in [
            (&cpu[..], "gperftools"),
            (&cpu_32, "gperftools"),
            (b"heap profile:  1: 2 [ 3: 4] @ heapprofile\n", "tcmalloc"),
            (b"heap_v2/524288\n", "jemalloc"),
            (b"goroutine profile: total 5\n", "Go"),
            (b"--- threadz 1 ---\n\n--- Thread 7f79 (name: main/14748) stack: ---\n", "old text profile"),
            (b"--- contentionz 1 ---\ncycles/second = 32\n", "old text profile"),
            (b"gmon\x01", "gprof"),
            (b"FLR\0\0", "Java Flight Recorder"),
        ] {
            let error = named(bytes);
            assert!(matches!(error, ImportError::NotRead { what, .. } if what.contains(name)), "{error}");
        }
        assert!(matches!(named(b"hello"), ImportError::UnknownFormat));
        assert!(matches!(named(&[0; 64]), ImportError::UnknownFormat));
    }
}
