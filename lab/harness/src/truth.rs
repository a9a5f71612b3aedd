//! The claims that a lab program prints at its end, and how far a measurement may differ from them.

use std::collections::BTreeMap;

/// Names and whole numbers, such as `allocations=3 frees=2`.
pub type Numbers = BTreeMap<String, u64>;

/// The claims of a lab program: its output lines `truth`, `least`, `heap`, `site`, `path` and counts such as
/// `processes 10`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Truth {
    /// `truth NAME=SHARE …`: exact shares of CPU time.
    pub shares: BTreeMap<String, f64>,
    /// `least NAME=SHARE …`: lower bounds of shares, on any machine.
    pub at_least: BTreeMap<String, f64>,
    /// Lines of one word and one whole number, such as `threads 400`.
    pub counts: Numbers,
    /// `heap NAME=NUMBER …`: totals of the whole program's heap, except what the C library allocates for
    /// itself.
    pub heap: Numbers,
    /// `site FUNCTION NAME=NUMBER …`: totals with this function on the stack.
    pub sites: BTreeMap<String, Numbers>,
    /// `path FUNCTION …`: complete stacks, outermost function first.
    pub paths: Vec<Vec<String>>,
}

impl Truth {
    /// Reads the claims from a program's standard output. Other lines are ignored.
    pub fn parse(stdout: &str) -> Self {
        let mut truth = Self::default();
        for line in stdout.lines() {
            let Some((word, rest)) = line.split_once(' ') else { continue };
            match word {
                "truth" => truth.shares.extend(claims(rest)),
                "least" => truth.at_least.extend(claims(rest)),
                "heap" => truth.heap.extend(claims(rest)),
                "site" => {
                    let (function, rest) = rest.split_once(' ').unwrap_or((rest, ""));
                    truth.sites.entry(function.to_owned()).or_default().extend(claims(rest));
                }
                "path" => truth.paths.push(rest.split(' ').map(str::to_owned).collect()),
                _ => {
                    if let Ok(count) = rest.parse() {
                        truth.counts.insert(word.to_owned(), count);
                    }
                }
            }
        }
        truth
    }
}

fn claims<T: std::str::FromStr>(text: &str) -> impl Iterator<Item = (String, T)> {
    text.split_whitespace().filter_map(|claim| {
        let (name, value) = claim.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    })
}

/// The function's own name: `a::b::f::<T>` → `f`, `<T as Trait>::f` → `f`, `f<T>` → `f`.
pub fn last_segment(name: &str) -> &str {
    let mut depth = 0;
    let (mut start, mut end) = (0, 0);
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            b':' => {}
            _ if depth == 0 => {
                if at == 0 || matches!(bytes[at - 1], b':' | b'>') {
                    start = at;
                }
                end = at + 1;
            }
            _ => {}
        }
    }
    &name[start..end]
}

/// The standard error of a share that is `truth`, measured with `samples` independent samples:
/// `sqrt(truth * (1 - truth) / samples)`.
pub fn standard_error(truth: f64, samples: u64) -> f64 {
    (truth * (1.0 - truth) / samples as f64).sqrt()
}

/// Whether a measured share is within three standard errors of the truth.
///
/// The error is never taken as less than that of one sample in `samples`, so that a truth of 0 or 1 tolerates
/// the few samples that every program spends at its start and end.
pub fn binomial_ok(share: f64, truth: f64, samples: u64) -> bool {
    let least = 1.0 / samples as f64;
    (share - truth).abs() <= 3.0 * standard_error(truth, samples).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_and_other_lines_are_ignored() {
        let truth = Truth::parse("hello\ntruth a=0.5 b=0.25\nleast c=0.9\nprocesses 10\npath x y\n");
        assert_eq!(truth.shares, BTreeMap::from([("a".into(), 0.5), ("b".into(), 0.25)]));
        assert_eq!(truth.at_least, BTreeMap::from([("c".into(), 0.9)]));
        assert_eq!(truth.counts, BTreeMap::from([("processes".into(), 10)]));
    }

    #[test]
    fn claims_about_the_heap_are_read() {
        let truth = Truth::parse(
            "heap allocations=3 frees=2\nheap peak_bytes=100\nsite a::f temporary=1\npath main a b\n",
        );
        let numbers = |claims: &[(&str, u64)]| -> Numbers {
            claims.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect()
        };
        assert_eq!(truth.heap, numbers(&[("allocations", 3), ("frees", 2), ("peak_bytes", 100)]));
        assert_eq!(truth.sites, BTreeMap::from([("a::f".into(), numbers(&[("temporary", 1)]))]));
        assert_eq!(truth.paths, [["main", "a", "b"]]);
    }

    #[test]
    fn three_standard_errors_are_the_limit() {
        // sqrt(0.5 * 0.5 / 1000) = 0.0158
        assert!(binomial_ok(0.547, 0.5, 1000));
        assert!(!binomial_ok(0.548, 0.5, 1000));
        assert!(binomial_ok(0.998, 1.0, 1000));
        assert!(!binomial_ok(0.99, 1.0, 1000));
    }

    #[test]
    fn function_names_are_cut_to_their_last_segment() {
        for (name, last) in [
            ("ratio::alpha", "alpha"),
            ("main", "main"),
            ("middle<inlined::Doubling>", "middle"),
            ("inlined::middle::<inlined::Doubling>", "middle"),
            ("<inlined::Doubling as inlined::Turn>::turn", "turn"),
            ("core::ops::FnOnce::call_once{{vtable.shim}}", "call_once{{vtable.shim}}"),
            ("?", "?"),
        ] {
            assert_eq!(last_segment(name), last);
        }
    }
}
