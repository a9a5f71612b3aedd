//! Shares of CPU time from both samplers, compared with the truth.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write;

use anyhow::{Context, Result};
use whyslow_lab_harness::{Truth, Variant, build, last_segment, standard_error};
use whyslow_profile::{CodeKind, Profile, StackId, file};

use super::super::measure::{Bench, expand};

/// A program that knows its shares.
struct Known {
    program: &'static str,
    arguments: &'static [&'static str],
    of: Of,
}

/// The base of a share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// All time in which the function is on the stack.
    Total,
    /// The time in which it is the innermost one.
    Innermost,
    /// As the first, relative to the time of all listed functions: starting many threads and processes takes
    /// time as well.
    Work,
}

const fn known(program: &'static str, arguments: &'static [&'static str], of: Of) -> Known {
    Known { program, arguments, of }
}

const PROGRAMS: &[Known] = &[
    known("ratio", &["1", "3000"], Of::Total),
    known("ratio", &["4", "3000"], Of::Total),
    known("chain", &["3000"], Of::Innermost),
    known("deep", &["500", "2000"], Of::Total),
    known("bigframe", &["2000"], Of::Total),
    known("inlined", &["3000"], Of::Total),
    known("closures", &["3000"], Of::Total),
    known("tailcall", &["3000"], Of::Innermost),
    known("threads", &["400", "3000"], Of::Work),
    known("short_lived", &["3000"], Of::Work),
    known("forktree", &["3000"], Of::Work),
    known("dlopen_host", &["3000"], Of::Work),
    known("jit", &["3000", "jitdump"], Of::Work),
    known("quadratic", &["50000"], Of::Total),
    known("allocations", &["12000000"], Of::Total),
    known("syscalls", &["2000"], Of::Total),
];

const SAMPLERS: [&str; 2] = ["perf", "timer"];

const METHOD: &str = "\
*Truth* is what the program itself counted, or a lower bound (≥). Both samplers run at their default rate, one run each, in turn. \
In brackets is the distance from the truth in standard errors of as many independent samples (beyond 3 is more than noise). \
Timer sampling does not see the kernel's own functions; their time counts for the code that called them.\n\n";

/// One recording.
struct Recorded {
    truth: Truth,
    shares: BTreeMap<String, f64>,
    samples: u64,
    complete: f64,
}

pub(super) fn section(bench: &Bench, quick: bool) -> Result<String> {
    let mut out = format!("### Accuracy\n\n{METHOD}");
    out.push_str("| program | function | truth | perf | timer | samples, perf and timer | complete stacks, perf and timer |\n");
    out.push_str("|---|---|---|---|---|---|---|\n");
    for known in PROGRAMS.iter().take(if quick { 2 } else { PROGRAMS.len() }) {
        let [perf, timer] = SAMPLERS.map(|sampler| {
            let recorded = record(bench, known, sampler);
            recorded
                .inspect_err(|error| eprintln!("{} by {sampler} is left out: {error:#}", known.program))
                .ok()
        });
        rows(&mut out, known, [perf.as_ref(), timer.as_ref()]);
    }
    out.push('\n');
    Ok(out)
}

fn record(bench: &Bench, known: &Known, sampler: &str) -> Result<Recorded> {
    let out = bench.fresh_folder()?;
    let mut target = vec![build(known.program, Variant::Release)?.into_os_string()];
    target.extend(known.arguments.iter().map(OsString::from));
    let command = format!("whyslow record -q --sampler {sampler} -o OUT/run.whyslow -- TARGET");
    eprintln!("accuracy  {} {}  {sampler}", known.program, known.arguments.join(" "));
    let (_, stdout) = bench.timed_output(&expand(&command, &out, &target), &out)?;
    let truth = Truth::parse(&stdout);
    let profile = file::read(&out.join("run.whyslow")).context("there is no recording")?;
    if let Some(pid) = truth.counts.get("pid") {
        let _ = std::fs::remove_file(format!("/tmp/perf-{pid}.map"));
    }
    let samples = profile.samples.first().context("there are no samples")?;
    let all = samples.value.iter().sum::<u64>() as f64;
    let mut shares: BTreeMap<String, f64> =
        truth.shares.keys().chain(truth.at_least.keys()).map(|function| (function.clone(), 0.0)).collect();
    let mut complete = 0;
    for (stack, value) in samples.stack.iter().zip(&samples.value) {
        complete += u64::from(!profile.is_truncated(*stack));
        let names = names(&profile, *stack);
        let counted = if known.of == Of::Innermost { &names[..names.len().min(1)] } else { &names[..] };
        for (function, share) in &mut shares {
            if counted.iter().any(|name| last_segment(name) == function) {
                *share += *value as f64 / all;
            }
        }
    }
    if known.of == Of::Work {
        let work: f64 = shares.values().sum();
        shares.values_mut().for_each(|share| *share /= work);
    }
    let count = samples.len() as u64;
    Ok(Recorded { truth, shares, samples: count, complete: complete as f64 / count as f64 })
}

/// The functions on a stack, innermost first, without the kernel's.
fn names(profile: &Profile, stack: StackId) -> Vec<&str> {
    let frames = profile.locations_of(stack).flat_map(|location| profile.frames.of(location).iter().rev());
    let functions = frames.map(|frame| &profile.functions[frame.function.index()]);
    functions
        .filter(|function| function.kind != CodeKind::Kernel)
        .map(|function| profile.text(function.name))
        .collect()
}

fn rows(out: &mut String, known: &Known, recorded: [Option<&Recorded>; 2]) {
    let Some(truth) = recorded.iter().flatten().next().map(|recorded| &recorded.truth) else { return };
    let name =
        std::iter::once(known.program).chain(known.arguments.iter().copied()).collect::<Vec<_>>().join(" ");
    let both = |value: &dyn Fn(&Recorded) -> String| {
        recorded.map(|recorded| recorded.map_or_else(|| "-".to_owned(), value)).join(", ")
    };
    let samples = both(&|recorded| recorded.samples.to_string());
    let complete = both(&|recorded| format!("{:.1} %", recorded.complete * 100.0));
    let exact = truth.shares.iter().map(|(function, share)| (function, *share, true));
    let least = truth.at_least.iter().map(|(function, share)| (function, *share, false));
    for (row, (function, truth, is_exact)) in exact.chain(least).enumerate() {
        let sign = if is_exact { "" } else { "≥ " };
        let _ = write!(
            out,
            "| {} | {function} | {sign}{:.1} % |",
            if row == 0 { &name } else { "" },
            truth * 100.0
        );
        for recorded in recorded {
            // Some programs count while they run, so each recording has its own truth.
            let cell = recorded.map_or_else(
                || "-".to_owned(),
                |recorded| {
                    let own = recorded.truth.shares.get(function).copied().unwrap_or(truth);
                    cell(recorded.shares[function], is_exact.then_some(own), recorded.samples)
                },
            );
            let _ = write!(out, " {cell} |");
        }
        let last = if row == 0 { format!(" {samples} | {complete} |") } else { " | |".to_owned() };
        let _ = writeln!(out, "{last}");
    }
}

/// A share, and its distance from the truth. The error is never taken as less than that of one sample.
fn cell(share: f64, truth: Option<f64>, samples: u64) -> String {
    let percent = format!("{:.1} %", share * 100.0);
    match truth {
        Some(truth) => {
            let error = standard_error(truth, samples).max(1.0 / samples as f64);
            format!("{percent} ({:+.1})", (share - truth) / error)
        }
        None => percent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_shown_with_its_distance_in_standard_errors() {
        // sqrt(0.5 * 0.5 / 100) = 0.05
        assert_eq!(cell(0.6, Some(0.5), 100), "60.0 % (+2.0)");
        assert_eq!(cell(0.97, Some(1.0), 100), "97.0 % (-3.0)");
        assert_eq!(cell(0.97, None, 100), "97.0 %");
    }

    #[test]
    fn both_samplers_are_in_one_row() {
        let recorded = |share: f64, samples| Recorded {
            truth: Truth::parse("truth a=0.5\nleast b=0.9\n"),
            shares: BTreeMap::from([("a".to_owned(), share), ("b".to_owned(), 0.95)]),
            samples,
            complete: 1.0,
        };
        let mut out = String::new();
        let program = known("ratio", &["1"], Of::Total);
        rows(&mut out, &program, [Some(&recorded(0.5, 400)), Some(&recorded(0.6, 100))]);
        assert_eq!(
            out,
            "| ratio 1 | a | 50.0 % | 50.0 % (+0.0) | 60.0 % (+2.0) | 400, 100 | 100.0 %, 100.0 % |\n\
             |  | b | ≥ 90.0 % | 95.0 % | 95.0 % | | |\n"
        );
    }
}
