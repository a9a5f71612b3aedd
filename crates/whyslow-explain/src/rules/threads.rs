//! Threads: how many are busy at a time, the executor's share, and the time before `main`.

use std::cmp::Reverse;
use std::sync::LazyLock;

use regex::Regex;
use rustc_hash::FxHashMap;
use whyslow_analyze::{CallTree, Label, Nearness, StackFrame, TaskTable, frames_of};
use whyslow_profile::{LocationId, ProcessId, Profile, StackId, Subject, Thread};
use whyslow_words::{duration, number_of};

use crate::facts::Facts;
use crate::finding::{Confidence, Cost, Evidence, Finding, Measured, Place};
use crate::order::{FEWEST_OF_ONE, FEWEST_SAMPLES};
use crate::rule::{Rule, Signal};
use crate::rules::RuleId;
use crate::stacks::entered_from;
use crate::{Question, cpu_metric};

pub(super) static OVERSUBSCRIPTION: Rule = Rule {
    id: RuleId::Oversubscription,
    title: "more busy threads than CPUs: threads queue for a CPU",
    rust: "run as many busy threads as std::thread::available_parallelism() reports: one shared pool (rayon's), not a thread per item or a pool inside a pool",
    native: Some(
        "run as many busy threads as there are CPUs (sysconf(_SC_NPROCESSORS_ONLN), std::thread::hardware_concurrency()): one shared pool, not a thread per item or a pool inside a pool",
    ),
    signal: Signal::Facts(oversubscription),
};

pub(super) static EXECUTOR_OVERHEAD: Rule = Rule {
    id: RuleId::ExecutorOverhead,
    title: "async executor overhead: scheduling, waking and stealing tasks",
    rust: "do more per task and per await: fewer, larger tasks, batches over channels, no spawn for futures you can await in place (join!, FuturesUnordered), \
           fewer worker threads if there is little work",
    native: None,
    signal: Signal::Facts(executor_overhead),
};

pub(super) static STARTUP_DOMINATED: Rule = Rule {
    id: RuleId::StartupDominated,
    title: "slow start-up: loading libraries and running their initialisers before main",
    rust: "load less: fewer and smaller libraries, static linking, statics initialised on first use (LazyLock); replace many short runs with one long one",
    native: Some(
        "load less: fewer and smaller libraries, static linking or prelinking, no static constructors; replace many short runs with one long one",
    ),
    signal: Signal::Facts(startup_dominated),
};

fn oversubscription(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.3;
    const LEAST_NS: u64 = 100_000_000;
    /// This many busy threads per CPU at a time. With fewer there is little to gain.
    const CROWD: u64 = 3;
    let profile = facts.question.profile;
    let cpus = u64::from(profile.meta.host.cpus);
    let is_asked = facts.is_about(&[Subject::Wall]) && facts.question.selection.is_everything();
    if !is_asked || cpus == 0 {
        return Vec::new();
    }
    // Each process decides for itself how many threads it runs.
    let processes = (0..profile.processes.len()).map(ProcessId::from);
    let crowds = processes.map(|process| (busy_together(profile, process), process));
    let Some((crowd, process)) = crowds.max_by_key(|(crowd, process)| (*crowd, Reverse(*process))) else {
        return Vec::new();
    };
    let threads = || profile.threads.iter().filter(|thread| thread.process == process);
    let times = || threads().filter_map(|thread| thread.times);
    let ran: u64 = times().map(|times| times.ran_ns).sum();
    let queued: u64 = times().map(|times| times.queued_ns).sum();
    let measured = Measured::counted(queued, ran.saturating_add(queued));
    if crowd < CROWD * cpus || measured.share < LEAST || queued < LEAST_NS {
        return Vec::new();
    }
    let places = entry_lines(facts, process, measured.share);
    let words = format!(
        "up to {} at a time on {}: together they ran for {} and queued for a CPU for {}",
        number_of(crowd, "busy thread", "busy threads"),
        number_of(cpus, "CPU", "CPUs"),
        duration(ran),
        duration(queued)
    );
    let finding = Finding::new(rule, facts.question, Cost::Time, measured, places);
    vec![Finding {
        evidence: vec![Evidence::words(words)],
        confidence: Confidence::Medium,
        // Fewer threads make each one faster, but not the program as a whole.
        speedup: None,
        max_speedup: None,
        ..finding
    }]
}

/// The maximum number of threads of a process that are alive at the same time and runnable for most of their
/// lifetime.
fn busy_together(profile: &Profile, process: ProcessId) -> u64 {
    let end = |thread: &Thread| thread.end_ns.unwrap_or(profile.meta.duration_ns);
    let is_busy = |thread: &&Thread| {
        let wants = thread.times.map_or(0, |times| times.ran_ns.saturating_add(times.queued_ns));
        let life = end(thread).saturating_sub(thread.start_ns);
        wants > 0 && wants >= life / 2
    };
    let busy = profile.threads.iter().filter(|thread| thread.process == process).filter(is_busy);
    // At the same time, ends sort before starts.
    let mut changes = busy.flat_map(|row| [(row.start_ns, 1), (end(row), -1)]).collect::<Vec<(u64, i64)>>();
    changes.sort_unstable();
    let counts = changes.iter().scan(0, |busy, (_, change)| {
        *busy += change;
        Some(*busy)
    });
    counts.max().and_then(|most| u64::try_from(most).ok()).unwrap_or(0)
}

/// The lines of the user's code in which threads of a process start, by CPU time.
fn entry_lines(facts: &Facts<'_>, process: ProcessId, share: f64) -> Vec<(Place, f64)> {
    let profile = facts.question.profile;
    let Question { selection, only_metric, .. } = *facts.question;
    let metric = cpu_metric(profile, selection, only_metric);
    let Some(samples) = metric.and_then(|metric| profile.samples.get(metric.index())) else {
        return Vec::new();
    };
    let mut lines: FxHashMap<Place, u64> = FxHashMap::default();
    let is_of_process = |row: &usize| profile.threads[samples.thread[*row].index()].process == process;
    let mut total = 0;
    for row in (0..samples.len()).filter(is_of_process) {
        total += samples.value[row];
        let is_users = |frame: &StackFrame| Nearness::of(profile, frame.label) <= Nearness::Program;
        if let Some(frame) = frames_of(profile, samples.stack[row]).filter(is_users).last() {
            *lines.entry(frame.into()).or_default() += samples.value[row];
        }
    }
    let mut lines = lines.into_iter().collect::<Vec<_>>();
    lines.sort_by_key(|(place, value)| (Reverse(*value), place.file, place.line));
    let part = |value: u64| Measured::counted(value, total).share * share;
    lines.into_iter().map(|(place, value)| (place, part(value))).collect()
}

/// Whether any function belongs to an async Rust executor. Searching all stacks for tasks is slow.
fn has_executor(profile: &Profile) -> bool {
    let is_one = |name: &str| {
        ["tokio::runtime::", "async_executor::", "futures_executor::"].iter().any(|part| name.contains(part))
    };
    profile.functions.iter().any(|function| is_one(profile.text(function.name)))
}

fn executor_overhead(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.2;
    const LEAST_AGAINST_TASKS: f64 = 0.35;
    let profile = facts.question.profile;
    let Some(weights) = facts.cpu().filter(|weights| weights.total_count >= FEWEST_SAMPLES) else {
        return Vec::new();
    };
    if !has_executor(profile) {
        return Vec::new();
    }
    let table = TaskTable::build(profile, facts.question.selection);
    let measured = Measured::sampled(table.executor_ns, table.total_ns, weights.total_count);
    let against = Measured::counted(table.executor_ns, table.executor_ns.saturating_add(table.cpu_ns)).share;
    let is_of_users = |label: &Label| Nearness::of(profile, *label) <= Nearness::Program;
    let task = table.rows.iter().find(|row| is_of_users(&row.task)).or(table.rows.first());
    let (Some(task), true) = (task, measured.share >= LEAST && against >= LEAST_AGAINST_TASKS) else {
        return Vec::new();
    };
    let words = format!(
        "{} itself used {} of CPU time, its tasks {}",
        task.executor,
        duration(table.executor_ns),
        duration(table.cpu_ns)
    );
    let mut evidence = vec![Evidence::words(words)];
    evidence.extend(table.rows.iter().take(3).map(|row| {
        Evidence::at(
            "task",
            definition(profile, row.task),
            Measured::counted(row.cost.cpu_ns, table.total_ns).share,
        )
    }));
    let spawns = r"^<?(?:tokio|async_executor|futures_executor|async_std|smol)::.*\bspawn";
    let place = entered_from(profile, weights, spawns).unwrap_or(definition(profile, task.task));
    let places = vec![(place, measured.share)];
    let finding = Finding::new(rule, facts.question, Cost::Cpu, measured, places);
    vec![Finding { evidence, confidence: Confidence::Medium, ..finding }]
}

/// Where a function is defined.
fn definition(profile: &Profile, label: Label) -> Place {
    let function = match label {
        Label::Function(id) => profile.functions.get(id.index()),
        _ => None,
    };
    Place { label, file: function.and_then(|row| row.file), line: function.map_or(0, |row| row.line) }
}

/// The role of a function in the start of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Loads the program, or initialises a library.
    Loads,
    /// The entry point of the program or of a thread.
    Main,
    Neither,
}

impl Start {
    fn of(profile: &Profile, label: Label) -> Self {
        static LOADS: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(
                r"^_dl_(?:start|sysdep_start|init|relocate|map_object|main)|^dl_main$|^call_init|^__libc_csu_init$|^__libc_start_init$|^(?:do_)?execveat?|^(?:bprm_execve|load_elf_binary)|^__x64_sys_execve",
            )
            .ok()
        });
        let name = CallTree::name(profile, label);
        let begins = ["main", "start_thread", "clone3", "clone", "__clone"].contains(&&*name);
        if begins || name.starts_with("std::rt::lang_start") {
            Self::Main
        } else if LOADS.as_ref().is_some_and(|loads| loads.is_match(&name)) {
            Self::Loads
        } else {
            Self::Neither
        }
    }
}

fn startup_dominated(rule: &'static Rule, facts: &Facts<'_>) -> Vec<Finding> {
    const LEAST: f64 = 0.3;
    let profile = facts.question.profile;
    let Some(weights) = facts.cpu().filter(|weights| weights.total_count >= FEWEST_SAMPLES) else {
        return Vec::new();
    };
    let mut known: FxHashMap<Label, Start> = FxHashMap::default();
    let mut start = |label| *known.entry(label).or_insert_with(|| Start::of(profile, label));
    // Parents come before their children.
    let mut of_stack = vec![Start::Neither; profile.stacks.len()];
    for at in 0..of_stack.len() {
        let stack = StackId::from(at);
        let outside = profile.stacks.parent(stack).map_or(Start::Neither, |parent| of_stack[parent.index()]);
        of_stack[at] = if outside == Start::Neither {
            let location = profile.stacks.location(stack);
            let here = profile.frames.of(location).iter().map(|frame| Label::Function(frame.function));
            match here.map(&mut start).find(|start| *start != Start::Neither) {
                Some(found) => found,
                None if location == LocationId::TRUNCATED => Start::Main,
                None if profile.frames.of(location).is_empty() => of_module(profile, location),
                None => Start::Neither,
            }
        } else {
            outside
        };
    }
    let is_loading = |at: &usize| weights.count[*at] > 0 && of_stack[*at] == Start::Loads;
    let loading = (0..of_stack.len()).filter(is_loading).collect::<Vec<_>>();
    let value: u64 = loading.iter().map(|at| weights.value[*at]).sum();
    let samples: u64 = loading.iter().map(|at| weights.count[*at]).sum();
    let measured = Measured::sampled(value, weights.total_value, weights.total_count);
    if measured.share < LEAST || samples < FEWEST_OF_ONE {
        return Vec::new();
    }
    let share = |value: u64| Measured::counted(value, weights.total_value).share;
    let mut users: FxHashMap<Place, u64> = FxHashMap::default();
    let mut inner: FxHashMap<Label, u64> = FxHashMap::default();
    for &at in &loading {
        // The outermost frame of a constructor is the one that the user can remove.
        let is_users = |frame: &StackFrame| Nearness::of(profile, frame.label) <= Nearness::Dependency;
        let called = frames_of(profile, at.into()).take_while(|frame| start(frame.label) != Start::Loads);
        if let Some(frame) = called.filter(is_users).last() {
            *users.entry(frame.into()).or_default() += weights.value[at];
        }
        if let Some(frame) = frames_of(profile, at.into()).next() {
            *inner.entry(frame.label).or_default() += weights.value[at];
        }
    }
    let mut users = users.into_iter().collect::<Vec<_>>();
    users.sort_by_key(|(place, value)| (Reverse(*value), place.file, place.line));
    let mut inner = inner.into_iter().collect::<Vec<_>>();
    inner.sort_by_key(|(label, value)| (Reverse(*value), CallTree::name(profile, *label).into_owned()));
    let evidence = inner.iter().take(3).map(|(label, value)| {
        Evidence::at("in", Place { label: *label, file: None, line: 0 }, share(*value))
    });
    let evidence = evidence.collect();
    let places = users.iter().map(|(place, value)| (*place, share(*value))).collect();
    let stacks = loading.iter().map(|at| StackId::from(*at)).collect();
    let finding = Finding::new(rule, facts.question, Cost::Cpu, measured, places);
    vec![Finding { evidence, stacks, ..finding }]
}

/// Recognises the dynamic loader by its file if its functions have no symbols.
fn of_module(profile: &Profile, location: LocationId) -> Start {
    let module = profile.locations.module[location.index()];
    let path = module.map_or("", |module| profile.text(profile.modules[module.index()].path));
    let file = path.rsplit('/').next().unwrap_or(path);
    if file.starts_with("ld-linux") || file.starts_with("ld-musl") { Start::Loads } else { Start::Neither }
}

#[cfg(test)]
mod tests {
    use whyslow_analyze::testing::{SAMPLE_NS, profile};
    use whyslow_profile::ThreadTimes;

    use super::super::testing::{evidence, line, of_rule, percent};
    use super::*;

    /// `threads` threads on two CPUs, each queued as long as it runs, all at once or one after the other.
    fn crowd(threads: u64, at_once: bool) -> Profile {
        let rows = (0..threads)
            .map(|thread| format!("t{thread}: clone3;app::work@app.rs:7;app::inner@app.rs:30 100\n"));
        let mut made = profile(&rows.collect::<String>());
        made.meta.host.cpus = 2;
        made.meta.duration_ns = threads * 200 * SAMPLE_NS;
        for (place, thread) in made.threads.iter_mut().enumerate() {
            let start_ns = if at_once { 0 } else { place as u64 * 200 * SAMPLE_NS };
            (thread.start_ns, thread.end_ns) = (start_ns, Some(start_ns + 200 * SAMPLE_NS));
            let times =
                ThreadTimes { ran_ns: 100 * SAMPLE_NS, queued_ns: 100 * SAMPLE_NS, ..ThreadTimes::default() };
            thread.times = Some(times);
        }
        made
    }

    #[test]
    fn more_busy_threads_than_cpus_are_reported_if_they_overlap() {
        let finding = of_rule(&crowd(8, true), RuleId::Oversubscription).unwrap();
        assert_eq!((line(&finding), percent(&finding), finding.max_speedup), (7, 50, None));
        assert!(evidence(&finding).contains("8 busy threads at a time on 2 CPUs:"), "{}", evidence(&finding));
        assert_eq!(of_rule(&crowd(8, false), RuleId::Oversubscription), None, "one after the other");
        assert_eq!(of_rule(&crowd(4, true), RuleId::Oversubscription), None);
    }

    #[test]
    fn an_executor_that_is_busier_than_its_tasks_is_reported() {
        let worker = "w: clone3;tokio::runtime::scheduler::multi_thread::worker::run";
        let text = |own: u64| {
            profile(&format!(
                "{worker};tokio::runtime::scheduler::multi_thread::worker::steal {own}
                 {worker};tokio::runtime::task::harness::poll;async fn app::double@d.rs:4 200
                 app::main@m.rs:6;tokio::task::spawn::spawn 20"
            ))
        };
        let finding = of_rule(&text(200), RuleId::ExecutorOverhead).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (6, 48), "the line that spawns");
        assert!(
            evidence(&finding).contains("tokio itself used 200 ms of CPU time"),
            "{}",
            evidence(&finding)
        );
        assert_eq!(of_rule(&text(60), RuleId::ExecutorOverhead), None);
    }

    #[test]
    fn time_before_main_is_reported_with_the_constructor() {
        let text = |before: u64| {
            profile(&format!(
                "_dl_start_user;_dl_init;call_init;app::set_up@s.rs:3;app::inner@s.rs:9 {before}
                 _start;__libc_start_main;main;app::run@m.rs:5;_dl_relocate_object 300
                 clone3;start_thread;[ld-linux-x86-64.so.2] 100"
            ))
        };
        let finding = of_rule(&text(400), RuleId::StartupDominated).unwrap();
        assert_eq!((line(&finding), percent(&finding)), (3, 50));
        assert_eq!(
            of_rule(&text(100), RuleId::StartupDominated),
            None,
            "libraries that main loads are main's"
        );
    }
}
