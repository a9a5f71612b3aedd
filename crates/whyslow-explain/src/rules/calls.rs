//! Rules over recorded system calls.

use rustc_hash::{FxHashMap, FxHashSet};
use whyslow_analyze::{SyscallRow, SyscallTable};
use whyslow_processor::PAGE;
use whyslow_profile::Profile;
use whyslow_words::{Count, bytes, duration, number_of};

use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::rule::{Rule, Signal};
use crate::rules::RuleId;

/// How many lines are shown as evidence.
const SHOWN: usize = 3;
/// Fewer calls are not worth a change.
const FEWEST: u64 = 5_000;
/// The smallest share of the CPU time that is worth one.
const LEAST: f64 = 0.05;
/// A call that takes longer on average does real work in the kernel.
const CHEAP_NS: u64 = 20_000;
/// A transfer of at most this many bytes is small.
const SMALL: u64 = 1024;

pub(super) static SMALL_TRANSFERS: Rule = Rule {
    id: RuleId::SmallTransfers,
    title: "messages go over a socket in very small pieces, one system call each",
    rust: "collect a whole message in one buffer and send it with one call (BufWriter with a flush after each message, write_vectored), and read through a BufReader",
    native: Some(
        "collect a whole message in one buffer and send it with one call (writev, MSG_MORE), and read into a large buffer",
    ),
    signal: Signal::Facts(small_transfers),
};

pub(super) static SYSCALL_PER_ITEM: Rule = Rule {
    id: RuleId::SyscallPerItem,
    title: "a line makes one system call per item",
    rust: "ask once and cache the answer (a DirEntry's metadata, a time or size), or handle many items per call; entering the kernel costs more than the work it does there",
    native: Some(
        "ask once and cache the answer, or handle many items per call (d_type of readdir, sendmmsg, io_uring); entering the kernel costs more than the work it does there",
    ),
    signal: Signal::Facts(syscall_per_item),
};

const FILE_WRITES: &[&str] = &["write", "writev", "pwrite64", "pwritev", "pwritev2"];
const FILE_READS: &[&str] = &["read", "readv", "pread64", "preadv", "preadv2"];
const MESSAGES: &[&str] = &["sendto", "sendmsg", "recvfrom", "recvmsg"];
/// Calls that manage the process's memory. Other rules cover these.
const MEMORY: &[&str] = &["mmap", "munmap", "brk", "madvise", "mremap", "mprotect"];

/// A finding for the rows that `is_relevant` accepts, if they take enough of the CPU time.
fn find(
    rule: &'static Rule,
    facts: &Facts<'_>,
    is_relevant: impl Fn(&SyscallRow) -> bool,
    says: impl Fn(&SyscallRow) -> String,
) -> Vec<Finding> {
    let Some(table) = facts.calls() else { return Vec::new() };
    let profile = facts.question.profile;
    let is_cheap = |row: &SyscallRow| row.cost.total_ns / row.cost.count.max(1) <= CHEAP_NS;
    let rows = table.rows.iter().filter(|row| row.cost.count >= FEWEST && is_cheap(row) && is_relevant(row));
    let rows = rows.filter(|row| !row.only_waits(profile)).collect::<Vec<_>>();
    let whole = facts.cpu_ns();
    let measured = Measured::counted(rows.iter().map(|row| row.cost.total_ns).sum(), whole);
    if rows.is_empty() || measured.share < LEAST {
        return Vec::new();
    }
    let share = |row: &SyscallRow| Measured::counted(row.cost.total_ns, whole).share;
    let place = |row: &SyscallRow| Place { label: row.label, file: row.file, line: row.line };
    let evidence = rows
        .iter()
        .take(SHOWN)
        .map(|row| Evidence { call: Some(row.call), ..Evidence::at(says(row), place(row), share(row)) });
    let evidence = evidence.collect();
    let places = rows.iter().map(|row| (place(row), share(row))).collect();
    let finding = Finding::new(rule, facts.question, Cost::Cpu, measured, places);
    // Recording makes each call slower, so the share is an overestimate.
    vec![Finding { evidence, confidence: Confidence::Medium, ..finding }]
}

/// The targets on which reads and writes take turns: requests and replies. A buffer does not make them fewer, and
/// whoever keeps a request in one waits for ever. A file that is written and read back answers nothing.
fn conversations<'p>(profile: &'p Profile, table: &SyscallTable) -> FxHashSet<&'p str> {
    const LEAST_PART: u64 = 4;
    let is_file = |name: &str| name.starts_with('/') && !name.starts_with("/dev/");
    let mut counts: FxHashMap<&str, (u64, u64)> = FxHashMap::default();
    for row in &table.rows {
        let call = profile.text(row.call);
        let writes = ["sendto", "sendmsg"].contains(&call) || FILE_WRITES.contains(&call);
        let reads = ["recvfrom", "recvmsg"].contains(&call) || FILE_READS.contains(&call);
        let targets =
            row.targets.iter().filter(|(name, _)| (reads || writes) && !is_file(profile.text(*name)));
        for (target, cost) in targets {
            let count = counts.entry(profile.text(*target)).or_default();
            *(if writes { &mut count.1 } else { &mut count.0 }) += cost.count;
        }
    }
    let take_turns = |reads: u64, writes: u64| reads.min(writes) * LEAST_PART >= reads.max(writes);
    counts.into_iter().filter(|(_, count)| take_turns(count.0, count.1)).map(|(target, _)| target).collect()
}

fn transfers(rule: &'static Rule, facts: &Facts<'_>, calls: &[&str]) -> Vec<Finding> {
    let profile = facts.question.profile;
    let Some(table) = facts.calls() else { return Vec::new() };
    let conversations = conversations(profile, table);
    let is_small = |row: &SyscallRow| {
        let few = row.cost.bytes_each().is_some_and(|each| each <= SMALL);
        let is_answered =
            row.targets.first().is_some_and(|(target, _)| conversations.contains(profile.text(*target)));
        let call = profile.text(row.call);
        let is_worth_it = MESSAGES.contains(&call) || buffered(profile, row).is_some();
        few && !is_answered && calls.contains(&call) && is_worth_it
    };
    find(rule, facts, is_small, |row| {
        let each = bytes(row.cost.bytes_each().unwrap_or(0));
        let calls = number_of(row.cost.count, "call", "calls");
        let buffered = buffered(profile, row).filter(|_| !MESSAGES.contains(&profile.text(row.call)));
        let instead = buffered.map_or(String::new(), |fewer| {
            let fewer = number_of(fewer, "call", "calls");
            format!(": with a 4 KiB buffer the same bytes take {fewer} instead of {}", Count(row.cost.count))
        });
        format!("{calls} to {}, {each} each on average{instead}:", profile.text(row.call))
    })
}

/// How many calls would transfer the same bytes in full pages, if at most half as many. `None` for sockets and the
/// like: a message has the size that it has, and a buffer that waits for more delays the answer.
fn buffered(profile: &Profile, row: &SyscallRow) -> Option<u64> {
    const OF_MESSAGES: [&str; 8] =
        ["socket", "TCP", "UDP", "Unix", "eventfd", "timerfd", "signalfd", "inotify"];
    let is_message = |name: &str| OF_MESSAGES.iter().any(|start| name.starts_with(start));
    let messages = row.targets.iter().filter(|(name, _)| is_message(profile.text(*name)));
    let messages: u64 = messages.map(|(_, cost)| cost.count).sum();
    // A page is the unit of the page cache, and the smallest useful buffer.
    let in_pages = row.cost.bytes.div_ceil(PAGE);
    (messages * 2 <= row.cost.count && in_pages * 2 <= row.cost.count).then_some(in_pages)
}

/// Small writes to files and pipes, from recorded system calls.
pub(super) fn unbuffered_writes(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    transfers(rule, facts, FILE_WRITES)
}

/// Small reads from files and pipes, from recorded system calls.
pub(super) fn unbuffered_reads(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    transfers(rule, facts, FILE_READS)
}

fn small_transfers(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    transfers(rule, facts, MESSAGES)
}

fn syscall_per_item(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    let profile = facts.question.profile;
    let is_relevant = |row: &SyscallRow| {
        let call = profile.text(row.call);
        ![FILE_WRITES, FILE_READS, MESSAGES, MEMORY].iter().any(|others| others.contains(&call))
    };
    find(rule, facts, is_relevant, |row| {
        let each = duration(row.cost.total_ns / row.cost.count.max(1));
        let failed = if row.cost.failed > 0 {
            format!(", {} of them failed", Count(row.cost.failed))
        } else {
            String::new()
        };
        format!(
            "{} to {}, {each} each{failed}:",
            number_of(row.cost.count, "call", "calls"),
            profile.text(row.call)
        )
    })
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::profile;
    use whyslow_profile::{Lengths, Metric, Samples, Syscalls};

    use super::super::testing::{evidence, line, of_rule, percent};
    use super::*;

    /// A profile with 100 ms of CPU time in which one line makes `count` calls of 1 µs each, at `stack`.
    fn calling(stack: &str, call: &str, count: u64, bytes_each: u64) -> Profile {
        let mut made = profile(&format!("app::main@m.rs:5;{stack} 10\napp::main@m.rs:8 90"));
        add_calls(&mut made, call, count, bytes_each);
        let metric = made.strings.push(Metric::SYSCALLS);
        let calls = Metric::of_name(Metric::SYSCALLS, whyslow_profile::Unit::Count).renamed(metric);
        made.metrics.push(calls);
        made.samples.push(Samples::default());
        made
    }

    /// Calls of 1 µs each at the first stack, on one target.
    fn add_calls(made: &mut Profile, call: &str, count: u64, bytes_each: u64) {
        let (stack, thread) = (made.samples[0].stack[0], made.samples[0].thread[0]);
        let (call, file) = (made.strings.push(call), made.strings.push("pipe 7"));
        let mut lengths = Lengths::default();
        (0..count).for_each(|_| lengths.add(1_000));
        made.syscalls.push(Syscalls {
            time_ns: 0,
            thread,
            stack,
            call,
            file: Some(file),
            error: None,
            count,
            spread: 0,
            total_ns: count * 1_000,
            max_ns: 1_000,
            bytes: count * bytes_each,
            lengths,
        });
    }

    #[test]
    fn requests_and_replies_need_no_buffer() {
        for (call, reply, id) in
            [("sendto", "recvfrom", RuleId::SmallTransfers), ("write", "read", RuleId::UnbufferedWrites)]
        {
            let mut talk = calling("std::net::send", call, 20_000, 8);
            assert!(of_rule(&talk, id).is_some());
            add_calls(&mut talk, reply, 20_000, 8);
            assert_eq!(of_rule(&talk, id), None);
        }
    }

    #[test]
    fn small_socket_messages_are_reported_with_their_size() {
        let finding =
            of_rule(&calling("std::net::send", "sendto", 20_000, 8), RuleId::SmallTransfers).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (5, 20));
        assert!(evidence(&finding).contains("20,000 calls to sendto, 8 B each"), "{}", evidence(&finding));
        assert_eq!(
            of_rule(&calling("std::net::send", "sendto", 20_000, 8_000), RuleId::SmallTransfers),
            None
        );
        assert_eq!(of_rule(&calling("std::net::send", "sendto", 2_000, 8), RuleId::SmallTransfers), None);
    }

    #[test]
    fn small_counted_writes_and_reads_show_missing_buffers() {
        for (call, id) in [("write", RuleId::UnbufferedWrites), ("read", RuleId::UnbufferedReads)] {
            let finding = of_rule(&calling("std::io::call", call, 20_000, 12), id).unwrap();
            assert_eq!((line(&finding), percent(&finding)), (5, 20));
            let buffered =
                "12 B each on average: with a 4 KiB buffer the same bytes take 59 calls instead of 20,000";
            assert!(evidence(&finding).contains(buffered), "{}", evidence(&finding));
            assert_eq!(of_rule(&calling("std::io::call", call, 20_000, 4096), id), None);
        }
    }

    #[test]
    fn messages_on_sockets_and_events_need_no_buffer() {
        let on = |target: &str| {
            let mut made = calling("std::io::call", "write", 20_000, 12);
            let target = made.strings.push(target);
            made.syscalls.iter_mut().for_each(|row| row.file = Some(target));
            of_rule(&made, RuleId::UnbufferedWrites).is_some()
        };
        assert!(on("/tmp/log") && on("pipe"));
        for target in ["socket", "TCP socket 127.0.0.1:6379 from 127.0.0.1", "Unix socket", "eventfd"] {
            assert!(!on(target), "{target}");
        }
    }

    #[test]
    fn samples_and_syscalls_of_one_pattern_become_one_finding() {
        let mut both = calling("<std::fs::File as std::io::Write>::write", "write", 20_000, 12);
        let samples = both.samples[0].clone();
        for row in (0..samples.len()).cycle().take(300) {
            both.samples[0].push(
                samples.time_ns[row],
                samples.thread[row],
                samples.stack[row],
                samples.value[row],
            );
        }
        let finding = of_rule(&both, RuleId::UnbufferedWrites).unwrap();
        assert_eq!(
            (percent(&finding), finding.confidence),
            (10, Confidence::High),
            "the share comes from the samples"
        );
        assert!(evidence(&finding).contains("20,000 calls to write"), "{}", evidence(&finding));
    }

    #[test]
    fn a_syscall_per_item_is_reported_unless_it_waits_or_transfers_data() {
        let found = |call: &str, count| {
            of_rule(&calling("std::fs::metadata", call, count, 0), RuleId::SyscallPerItem)
        };
        let finding = found("statx", 20_000).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (5, 20));
        assert!(evidence(&finding).contains("20,000 calls to statx, 1.00 µs each"), "{}", evidence(&finding));
        assert_eq!(found("statx", 1_000), None);
        assert_eq!(found("futex", 20_000), None);
        assert_eq!(found("munmap", 20_000), None);
    }
}
