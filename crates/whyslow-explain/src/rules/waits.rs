//! Rules over recorded waits (off-CPU time).

use whyslow_analyze::{
    BlockedWorker, CallTree, LockRow, LockTable, Pattern, Reason, Selection, Site, Together, WaitRow,
    WaitTable, wait_metric,
};
use whyslow_profile::Subject;
use whyslow_words::{duration, number_of};

use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::rule::{Rule, Signal};
use crate::rules::RuleId;
use crate::waiting::Waiting;

/// How many lines are shown as evidence.
const SHOWN: usize = 3;
/// Less waiting than this in total is not worth a finding.
const LEAST_NS: u64 = 20_000_000;

pub(super) static LOCK_CONTENTION: Rule = Rule {
    id: RuleId::LockContention,
    title: "lock contention: threads wait for a lock that another thread holds",
    rust: "hold the lock for less time (work on a copy, drop the guard early), split the data it guards (shards, a lock per part, DashMap), \
           collect per thread and merge at the end, or use an atomic for a single number",
    native: Some(
        "hold the lock for less time, split the data it guards into parts with a lock each, collect per thread and merge at the end, or use an atomic for a single number",
    ),
    signal: Signal::Facts(lock_contention),
};

pub(super) static BLOCKING_IN_ASYNC: Rule = Rule {
    id: RuleId::BlockingInAsync,
    title: "a blocking call stalls a worker thread of the async executor: no other task can run on it",
    rust: "await the async version of the call (tokio::time::sleep, tokio::fs, tokio::net), or move the call into spawn_blocking",
    native: None,
    signal: Signal::Facts(blocking_in_async),
};

pub(super) static MOSTLY_WAITING: Rule = Rule {
    id: RuleId::MostlyWaiting,
    title: "the program waits most of the time",
    rust: "overlap the waits with other work: start them earlier, or run several at a time",
    native: None,
    signal: Signal::Facts(mostly_waiting),
};

impl From<Site> for Place {
    fn from(site: Site) -> Self {
        Self { label: site.label, file: site.file, line: site.line }
    }
}

fn lock_contention(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.05;
    /// Waits are counted, not sampled: a few long ones are as reliable as many short ones.
    const FEWEST: u64 = 3;
    let profile = facts.question.profile;
    let about_waits = facts.is_about(&[Subject::Wait, Subject::Wall]);
    let Some(metric) = wait_metric(profile).filter(|_| about_waits) else { return Vec::new() };
    let table = LockTable::build(profile, &facts.selection(metric), facts.charges(), 0);
    let busy = facts.busy_ns();
    let measured = Measured::counted(table.total_ns, busy);
    if measured.share < LEAST || table.total_ns < LEAST_NS || table.count < FEWEST {
        return Vec::new();
    }
    let share = |ns: u64| Measured::counted(ns, busy).share;
    let mut places: Vec<(Place, f64)> = Vec::new();
    for waiter in table.rows.iter().flat_map(|row| &row.waiters) {
        match places.iter_mut().find(|(place, _)| *place == waiter.site.into()) {
            Some((_, sum)) => *sum += share(waiter.total_ns),
            None => places.push((waiter.site.into(), share(waiter.total_ns))),
        }
    }
    places.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.line.cmp(&other.0.line)));
    let words = |row: &LockRow| {
        let name = row.name.map_or(String::new(), |name| format!(" {}", name.words(profile)));
        format!(
            "{}{name}: {} of {} on average:",
            row.kind,
            number_of(row.count, "wait", "waits"),
            duration(row.mean_ns())
        )
    };
    let locks = table.rows.iter().take(SHOWN);
    let locks = locks.map(|row| Evidence::at(words(row), row.site.into(), share(row.total_ns)));
    let holders = table.rows.first().map_or(&[][..], |row| &row.holders[..]);
    let holders = holders.iter().take(SHOWN);
    let holders = holders.map(|row| Evidence::at("released at", row.site.into(), share(row.total_ns)));
    let evidence = locks.chain(holders).collect();
    vec![Finding { evidence, ..Finding::new(rule, facts.question, Cost::Time, measured, places) }]
}

fn blocking_in_async(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.03;
    if facts.waits().is_none() {
        return Vec::new();
    }
    let profile = facts.question.profile;
    let mut rows = BlockedWorker::find(profile, facts.question.selection, facts.charges());
    // `lock-contention` reports locks, with their holders.
    rows.retain(|row| row.reason != Reason::Lock);
    let busy = facts.busy_ns();
    let measured = Measured::counted(rows.iter().map(|row| row.total_ns).sum(), busy);
    if measured.share < LEAST || rows.iter().map(|row| row.total_ns).sum::<u64>() < LEAST_NS {
        return Vec::new();
    }
    let share = |row: &BlockedWorker| Measured::counted(row.total_ns, busy).share;
    let place = |row: &BlockedWorker| Place { label: row.function, file: row.file, line: row.line };
    let words = |row: &BlockedWorker| {
        let call = CallTree::name(profile, row.call);
        let calls = number_of(row.count, "call", "calls");
        format!("{calls} to {call}, the longest {}:", duration(row.max_ns))
    };
    let evidence =
        rows.iter().take(SHOWN).map(|row| Evidence::at(words(row), place(row), share(row))).collect();
    let places = rows.iter().map(|row| (place(row), share(row))).collect();
    let finding = Finding::new(rule, facts.question, Cost::Time, measured, places);
    let advice = rows.first().map_or(finding.advice.clone(), |row| instead_of(row.executor, row.reason));
    vec![Finding { evidence, advice, ..finding }]
}

/// What to do instead of a call that waits for this on a worker of this executor.
fn instead_of(executor: &str, reason: Reason) -> String {
    let (timer, of_files, of_sockets, spawn) = match executor {
        "tokio" => ("tokio::time::sleep", "tokio::fs", "tokio::net", "tokio::task::spawn_blocking"),
        _ => ("async_io::Timer", "async_fs", "async_net", "blocking::unblock"),
    };
    let with = match reason {
        Reason::Sleep => format!(" ({timer})"),
        Reason::File => format!(" ({of_files})"),
        Reason::Network => format!(" ({of_sockets})"),
        _ => String::new(),
    };
    format!("await the async version of the call{with}, or move the call into {spawn}")
}

/// Title and advice for a wait of the main thread. `None` for waits on other threads of the program.
fn title_and_advice(reason: Reason) -> Option<(&'static str, &'static str)> {
    match reason {
        Reason::Sleep => Some((
            "the program sleeps most of the time",
            "wait for the event itself instead of polling: a channel, a Condvar, a notification for the file or socket; or sleep for less time",
        )),
        Reason::File | Reason::PageFault => Some((
            "the program waits for files and disks most of the time",
            "read and write more at a time, further ahead, on several threads; sync (fsync) once for many changes; cache data that is needed again",
        )),
        Reason::Network | Reason::Pipe | Reason::Events => Some((
            "the program waits for sockets and pipes most of the time",
            "send several requests at a time instead of one after the other, make fewer and larger requests, and keep connections open; \
             an idle server also waits, which is not a problem",
        )),
        Reason::Child => Some((
            "most of the time, the program waits for other programs that it started",
            "run several of them at a time, or do short jobs in-process; record them too: whyslow follows child processes",
        )),
        _ => None,
    }
}

/// The reason under which a wait is reported: some reasons are reported as one.
fn family(reason: Reason) -> Reason {
    match reason {
        Reason::PageFault => Reason::File,
        Reason::Pipe | Reason::Events => Reason::Network,
        other => other,
    }
}

fn mostly_waiting(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = Waiting::MOSTLY;
    const LEAST_OF_FAMILY: f64 = 0.3;
    let question = facts.question;
    let profile = question.profile;
    if !question.selection.is_everything() || !facts.is_one_program() || facts.waits().is_none() {
        return Vec::new();
    }
    let (Some(metric), Some(first)) = (wait_metric(profile), profile.threads.first()) else {
        return Vec::new();
    };
    let threads = vec![Pattern::Number(first.tid)];
    let of_first = Selection { metric, threads, ..Selection::default() };
    let table = WaitTable::build(profile, &of_first, facts.charges(), 0);
    let lasted = first.end_ns.unwrap_or(profile.meta.duration_ns).saturating_sub(first.start_ns);
    let together = Together::of(profile, metric);
    // The main thread may wait while other threads work, as in Go's runtime, or are queued for a CPU.
    if (together.blocked_ns as f64) < LEAST * together.elapsed_ns as f64 {
        return Vec::new();
    }
    let share = |ns: u64| Measured::counted(ns, lasted).share;
    let of_family = |one: Reason| -> u64 {
        table.reasons.iter().filter(|(reason, _)| family(*reason) == one).map(|(_, total)| total).sum()
    };
    let families = table.reasons.iter().filter(|(reason, _)| title_and_advice(*reason).is_some());
    let Some(most) = families.map(|(reason, _)| family(*reason)).max_by_key(|reason| of_family(*reason))
    else {
        return Vec::new();
    };
    let reported = table.reasons.iter().filter(|(reason, _)| title_and_advice(*reason).is_some());
    let all: u64 = reported.map(|(_, ns)| ns).sum();
    let Some((title, advice)) = title_and_advice(most) else { return Vec::new() };
    if share(all) < LEAST || share(of_family(most)) < LEAST_OF_FAMILY || lasted < 5 * LEAST_NS {
        return Vec::new();
    }
    let rows = table.rows.iter().filter(|row| family(row.reason) == most).collect::<Vec<_>>();
    let place = |row: &WaitRow| Place { label: row.label, file: row.file, line: row.line };
    let words = |row: &WaitRow| {
        let each = duration(row.total_ns / row.count.max(1));
        let waits = number_of(row.count, "wait", "waits");
        format!("{}: {waits} of {each} on average:", row.reason.label())
    };
    let lines = rows.iter().take(SHOWN);
    let lines = lines.map(|row| Evidence::at(words(row), place(row), share(row.total_ns)));
    let others =
        table.reasons.iter().filter(|(reason, _)| family(*reason) != most && *reason != Reason::Idle);
    let others = others.take(SHOWN).map(|(reason, total)| Evidence {
        share: Some(share(*total)),
        ..Evidence::words(format!("other waits of the main thread: {}", reason.label()))
    });
    let evidence = lines.chain(others).collect();
    let places = rows.iter().map(|row| (place(row), share(row.total_ns))).collect();
    let measured = Measured::counted(of_family(most), lasted);
    let confidence = if most == Reason::Network { Confidence::Medium } else { Confidence::High };
    let finding = Finding::new(rule, question, Cost::Elapsed, measured, places);
    vec![Finding { title: title.to_owned(), advice: advice.to_owned(), evidence, confidence, ..finding }]
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::profile;
    use whyslow_profile::{Profile, StackId};

    use super::super::testing::{evidence, found, line, of_rule, percent, waits_of};
    use super::*;

    const WORKER: &str =
        "clone3;tokio::runtime::scheduler::multi_thread::worker::run;tokio::runtime::task::harness::poll";

    /// A profile in which samples whose innermost frame starts with `sys_` are waits.
    fn waiting(folded: &str) -> Profile {
        let mut made = profile(folded);
        let is_wait = |profile: &Profile, stack: StackId| {
            let frame = whyslow_analyze::frames_of(profile, stack).next();
            frame.is_some_and(|frame| CallTree::name(profile, frame.label).starts_with("sys_"))
        };
        waits_of(&mut made, is_wait);
        made
    }

    fn contended(waits: u64) -> Profile {
        waiting(&format!(
            "a: app::work@app.rs:3;std::sys::sync::mutex::futex::Mutex::lock_contended;sys_futex_wait {waits}
             a: app::work@app.rs:4 600
             main: app::main@app.rs:9;std::thread::JoinInner::join;sys_futex_wait 900"
        ))
    }

    #[test]
    fn lock_waits_are_reported_with_line_and_lock_kind() {
        let finding = of_rule(&contended(400), RuleId::LockContention).unwrap();
        assert_eq!((line(&finding), percent(&finding), finding.of), (3, 40, Cost::Time));
        assert!(evidence(&finding).contains("std Mutex: 400 waits of 1.00 ms"), "{}", evidence(&finding));
        assert!(finding.max_speedup.is_some_and(|times| (times - 1.0 / 0.6).abs() < 1e-9));
        assert!(finding.verify.contains("--metric wall-time"), "{}", finding.verify);
        assert_eq!(of_rule(&contended(25), RuleId::LockContention), None);
    }

    #[test]
    fn blocking_calls_on_a_worker_are_reported_and_locks_are_left_to_their_own_rule() {
        let text = |call: &str, count: u64| {
            waiting(&format!(
                "w: {WORKER};async fn app::handle@h.rs:7;{call} {count}
                 w: {WORKER};async fn app::handle@h.rs:9 100"
            ))
        };
        let sleep = "std::thread::sleep;sys_hrtimer_nanosleep";
        let finding = of_rule(&text(sleep, 100), RuleId::BlockingInAsync).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (7, 50));
        assert!(evidence(&finding).contains("100 calls to std::thread::sleep"), "{}", evidence(&finding));
        assert!(finding.advice.contains("tokio::time::sleep") && finding.advice.contains("spawn_blocking"));
        assert_eq!(of_rule(&text(sleep, 2), RuleId::BlockingInAsync), None);
        let lock = "std::sys::sync::mutex::futex::Mutex::lock_contended;sys_futex_wait";
        let ids = found(&text(lock, 100)).iter().map(|finding| finding.rule.id).collect::<Vec<_>>();
        assert_eq!(ids, [RuleId::LockContention]);
    }

    #[test]
    fn the_main_threads_wait_reason_decides_title_and_advice() {
        let found = |call: &str| {
            of_rule(
                &waiting(&format!("app::main@m.rs:5;{call} 700\napp::main@m.rs:8 300")),
                RuleId::MostlyWaiting,
            )
        };
        let sleeping = found("std::thread::sleep;sys_hrtimer_nanosleep").unwrap();
        assert_eq!((line(&sleeping), percent(&sleeping), sleeping.of), (5, 70, Cost::Elapsed));
        assert!(sleeping.title.contains("sleeps") && sleeping.advice.contains("Condvar"), "{sleeping:?}");
        let reading = found("std::fs::read;sys_folio_wait_bit_common");
        assert!(
            reading
                .is_some_and(|finding| finding.title.contains("files") && finding.advice.contains("fsync"))
        );
        let waiting_for_child = found("std::process::wait;sys_do_wait");
        assert!(waiting_for_child.is_some_and(|finding| finding.title.contains("other programs")));
        assert_eq!(found("std::thread::JoinInner::join;sys_futex_wait"), None, "its own threads");
        let busy =
            waiting("app::main@m.rs:5;std::thread::sleep;sys_hrtimer_nanosleep 400\napp::main@m.rs:8 600");
        assert_eq!(of_rule(&busy, RuleId::MostlyWaiting), None);
        let mut elsewhere = waiting(
            "app::main@m.rs:5;std::thread::sleep;sys_hrtimer_nanosleep 700
             worker: app::work@m.rs:9 700",
        );
        elsewhere.meta.duration_ns = 1_000_000_000;
        assert_eq!(of_rule(&elsewhere, RuleId::MostlyWaiting), None, "another thread works");
    }
}
