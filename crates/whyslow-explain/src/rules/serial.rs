//! A program with several threads in which one thread holds up all others.

use whyslow_analyze::{BusyFunction, Level, Parallelism};
use whyslow_profile::{Profile, Subject};
use whyslow_words::duration;

use crate::Question;
use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::rule::{Rule, Signal};
use crate::rules::RuleId;

/// Below this share of the time on several threads a program is serial, and there is nothing to report.
const LEAST_PARALLEL: f64 = 0.1;
/// A smaller serial part holds up little.
const LEAST_SERIAL: f64 = 0.2;
/// Fewer samples say little about what ran.
const FEWEST: u64 = 50;
/// The smallest part of its time that a function or a thread must run alone. Threads that block on files now and
/// then are alone by chance, and hold up no other thread.
const ALONE: f64 = 0.9;
/// With a larger part of its time in the run queue a program has more threads than CPUs. Samples alone would
/// show that as a serial part.
const MOST_QUEUED: f64 = 0.1;

pub(super) static POOR_PARALLELISM: Rule = Rule {
    id: RuleId::PoorParallelism,
    title: "one thread works while all others wait for it",
    rust: "parallelise this part too (par_iter, a pipeline that starts on the first results), or make it faster: all other threads wait for it",
    native: Some(
        "parallelise this part too (a pipeline that starts on the first results), or make it faster: all other threads wait for it",
    ),
    signal: Signal::Facts(poor_parallelism),
};

fn poor_parallelism(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    let profile = facts.question.profile;
    let is_asked = facts.is_about(&[Subject::Wall]) && facts.is_one_program();
    if !is_asked || profile.threads.len() < 2 || profile.meta.host.cpus == 1 {
        return Vec::new();
    }
    if !may_be_serial(facts) {
        return Vec::new();
    }
    let selection = facts.question.selection;
    let Some(parallelism) = Parallelism::build(profile, selection, facts.charges()) else {
        return Vec::new();
    };
    let Some(level) = serial_part(&parallelism, profile) else { return Vec::new() };
    let samples: u64 = parallelism.levels.iter().map(|level| level.samples).sum();
    let measured = if parallelism.exact {
        Measured::counted(level.ns, parallelism.duration_ns)
    } else {
        Measured::sampled(level.ns, parallelism.duration_ns, samples)
    };
    let share = |share: f64| share * measured.share;
    let place = |row: &BusyFunction| Place { label: row.label, file: row.file, line: row.line };
    let alone = level.notable(3).iter().map(|row| Evidence::at("alone in", place(row), share(row.share)));
    let most = parallelism.levels.len().saturating_sub(1);
    let evidence = alone.chain([Evidence::words(format!(
        "only one thread is busy for {}; at other times up to {most} are",
        duration(level.ns)
    ))]);
    let evidence = evidence.collect();
    let places = level.functions.iter().map(|row| (place(row), share(row.share))).collect();
    let confidence = if parallelism.exact { Confidence::High } else { Confidence::Medium };
    let finding = Finding::new(rule, facts.question, Cost::Elapsed, measured, places);
    vec![Finding { evidence, confidence, ..finding }]
}

/// Whether a serial part worth reporting is possible at all. A program that keeps its CPUs busy has none, and
/// the full analysis is slow.
fn may_be_serial(facts: &Facts<'_>) -> bool {
    const LEAST: f64 = 0.1;
    let Question { profile, selection, .. } = *facts.question;
    let elapsed = Parallelism::end_ns(profile) as f64;
    let cpus = match profile.meta.host.cpus {
        0 => profile.threads.len(),
        cpus => profile.threads.len().min(cpus as usize),
    } as f64;
    if !selection.is_everything() || elapsed == 0.0 || cpus < 2.0 {
        return true;
    }
    // With `s` of the time serial, at most `s + (1 - s) * cpus` CPUs are busy on average.
    let busy = facts.cpu_ns() as f64 / elapsed;
    (cpus - busy) / (cpus - 1.0) >= LEAST
}

/// The time in which one thread ran, if the program uses several, that time is a large part, and what ran then
/// hardly ever runs beside others.
fn serial_part<'a>(parallelism: &'a Parallelism, profile: &Profile) -> Option<&'a Level> {
    let parallel: f64 = (2..parallelism.levels.len()).map(|level| parallelism.share(level)).sum();
    let is_worth_it = parallel >= LEAST_PARALLEL && parallelism.share(1) >= LEAST_SERIAL;
    let is_known = parallelism.exact || !is_crowded(profile);
    let level = parallelism.levels.get(1).filter(|level| level.samples >= FEWEST)?;
    let is_alone = is_of_one_function(parallelism, level) || is_of_one_thread(parallelism, level);
    (is_worth_it && is_known && is_alone).then_some(level)
}

/// Whether the function with most of a level hardly runs at others.
fn is_of_one_function(parallelism: &Parallelism, level: &Level) -> bool {
    let Some(most) = level.functions.first() else { return false };
    let functions = parallelism.levels.iter().flat_map(|level| &level.functions);
    let everywhere: u64 = functions.filter(|row| row.label == most.label).map(|row| row.elapsed_ns).sum();
    most.elapsed_ns as f64 >= everywhere as f64 * ALONE
}

/// Whether one thread has most of a level, and hardly runs at others: the functions that it calls may also be
/// those that the others call later.
fn is_of_one_thread(parallelism: &Parallelism, level: &Level) -> bool {
    let Some((thread, own)) = level.threads.iter().max_by_key(|(thread, ns)| (**ns, **thread)) else {
        return false;
    };
    let everywhere: u64 = parallelism.levels.iter().filter_map(|level| level.threads.get(thread)).sum();
    let all: u64 = level.threads.values().sum();
    *own as f64 >= everywhere.max(all) as f64 * ALONE
}

/// Whether threads were queued for CPUs for a large part of their running time.
fn is_crowded(profile: &Profile) -> bool {
    let times = || profile.threads.iter().filter_map(|thread| thread.times);
    let ran: u64 = times().map(|times| times.ran_ns).sum();
    let queued: u64 = times().map(|times| times.queued_ns).sum();
    queued as f64 > ran as f64 * MOST_QUEUED
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::{SAMPLE_NS, profile};
    use whyslow_analyze::{Charges, Selection};
    use whyslow_profile::{ThreadId, ThreadTimes};

    use super::super::testing::{line, of_rule, percent};
    use super::*;

    /// 400 ms on one thread, then `parallel` ms on two threads.
    fn serial(parallel: u64) -> Profile {
        let mut made = profile(&format!(
            "main: app::main;app::parse@app.rs:12 400
             a: app::work@app.rs:20 {parallel}
             b: app::work@app.rs:20 {parallel}"
        ));
        let times = (1..=400).chain(401..=400 + parallel).chain(401..=400 + parallel);
        made.samples[0].time_ns = times.map(|ms| ms * SAMPLE_NS).collect();
        made.meta.duration_ns = (400 + parallel) * SAMPLE_NS;
        made
    }

    #[test]
    fn a_serial_part_is_reported_with_its_line_and_interval() {
        let finding = of_rule(&serial(600), RuleId::PoorParallelism).unwrap();
        assert_eq!((line(&finding), percent(&finding), finding.of), (12, 40, Cost::Elapsed));
        assert_eq!(finding.confidence, Confidence::Medium, "it is an estimate");
        assert!(finding.interval[0] < 0.4 && finding.interval[1] > 0.4);
        assert_eq!(of_rule(&serial(3_000), RuleId::PoorParallelism), None);
        let mut one_cpu = serial(600);
        one_cpu.meta.host.cpus = 1;
        assert_eq!(of_rule(&one_cpu, RuleId::PoorParallelism), None);
    }

    fn is_serial(profile: &Profile, selection: &Selection) -> bool {
        let parallelism = Parallelism::build(profile, selection, &Charges::new(profile, true)).unwrap();
        serial_part(&parallelism, profile).is_some()
    }

    #[test]
    fn what_runs_beside_others_or_alone_all_the_time_is_no_serial_part() {
        let mut profile = serial(600);
        let everything = Selection::default();
        assert!(is_serial(&profile, &everything));
        let only_main = Selection { threads: vec!["main".parse().unwrap()], ..Selection::default() };
        assert!(!is_serial(&profile, &only_main), "nothing runs in parallel");
        let late = Selection { time_ns: Some(300 * SAMPLE_NS..1000 * SAMPLE_NS), ..Selection::default() };
        assert!(!is_serial(&profile, &late), "it is short");
        // A thread runs the same function alone at times, and beside another at others.
        let mut files = profile.clone();
        let parse = files.samples[0].stack[0];
        files.samples[0].stack.fill(parse);
        assert!(is_serial(&files, &everything), "main alone, then the others");
        files.samples[0].thread[..400].fill(ThreadId(1));
        assert!(!is_serial(&files, &everything));
        // Samples cannot distinguish a serial part from queued threads.
        profile.threads[1].times = Some(ThreadTimes { ran_ns: 100, queued_ns: 50, ..ThreadTimes::default() });
        assert!(!is_serial(&profile, &everything));
    }
}
