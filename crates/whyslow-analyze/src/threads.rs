//! The usage of each thread and process, and of all with the same name together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use whyslow_profile::{ProcessId, Profile, ThreadId};

use crate::selection::Selection;

/// The usage of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRow {
    /// The thread.
    pub thread: ThreadId,
    /// Value of its samples.
    pub value: u64,
    /// How many samples.
    pub samples: u64,
}

/// The usage of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessRow {
    /// The process.
    pub process: ProcessId,
    /// Value of the samples of its threads.
    pub value: u64,
    /// How many samples.
    pub samples: u64,
    /// How many threads it has in the selection.
    pub threads: u64,
}

/// The usage of all processes of one program, or all threads of one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRow {
    /// Their name; `rayon-*` for names that differ only in a trailing number.
    pub name: String,
    /// Value of their samples.
    pub value: u64,
    /// How many samples.
    pub samples: u64,
    /// How many processes or threads.
    pub count: u64,
}

/// The usage of every selected thread, largest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threads {
    /// The threads.
    pub rows: Vec<ThreadRow>,
    /// Their processes.
    pub processes: Vec<ProcessRow>,
    /// The processes by the name of their program.
    pub programs: Vec<NameRow>,
    /// The threads by their name.
    pub thread_names: Vec<NameRow>,
    /// Value of all selected samples.
    pub total_value: u64,
    /// How many samples were selected.
    pub total_samples: u64,
}

impl Threads {
    /// Adds up the selected samples per thread. Threads that pass the filters by thread and process are
    /// listed even without samples.
    pub fn build(profile: &Profile, selection: &Selection) -> Self {
        let mut used = vec![(0u64, 0u64); profile.threads.len()];
        selection.each_selected(profile, |thread, stack, value| {
            used[thread].0 = used[thread].0.saturating_add(value);
            used[thread].1 += u64::from(!profile.is_not_sampled(stack));
        });
        let mut rows = Vec::new();
        let mut processes = vec![None; profile.processes.len()];
        for (index, (thread, (value, samples))) in profile.threads.iter().zip(used).enumerate() {
            if !selection.thread_counts(profile, thread) {
                continue;
            }
            rows.push(ThreadRow { thread: index.into(), value, samples });
            let process = processes[thread.process.index()].get_or_insert(ProcessRow {
                process: thread.process,
                value: 0,
                samples: 0,
                threads: 0,
            });
            process.value = process.value.saturating_add(value);
            process.samples += samples;
            process.threads += 1;
        }
        let mut processes = processes.into_iter().flatten().collect::<Vec<_>>();
        rows.sort_by_key(|row| (Reverse(row.value), row.thread));
        processes.sort_by_key(|row| (Reverse(row.value), row.process));
        let total_value = rows.iter().fold(0, |sum: u64, row| sum.saturating_add(row.value));
        let total_samples = rows.iter().map(|row| row.samples).sum();
        let programs = by_name(processes.iter().map(|row| {
            let name = profile.text(profile.processes[row.process.index()].name);
            (name, name, row.value, row.samples)
        }));
        let thread_names = by_name(rows.iter().map(|row| {
            let name = profile.text(profile.threads[row.thread.index()].name);
            (name, name.trim_end_matches(|letter: char| letter.is_ascii_digit()), row.value, row.samples)
        }));
        Self { rows, processes, programs, thread_names, total_value, total_samples }
    }

    /// The programs with at least this share of everything.
    pub fn programs_from(&self, least_share: f64) -> &[NameRow] {
        let least = self.total_value as f64 * least_share;
        &self.programs[..self.programs.partition_point(|row| row.value as f64 >= least)]
    }

    /// The programs worth listing, largest first: if a second one has a notable share, or if most of the time
    /// is in another one than the one that was started, such as the compiler below `make`.
    pub fn notable_programs(&self, profile: &Profile) -> &[NameRow] {
        /// If a second program has at least this share, all are listed from the lesser share on.
        const NOTABLE: f64 = 0.05;
        const LEAST: f64 = 0.01;
        let started = profile.processes.first().map(|process| profile.text(process.name));
        let is_started = |row: &NameRow| started.is_none_or(|name| row.name == name);
        let is_one = self.programs_from(NOTABLE).len() < 2 && self.programs.first().is_none_or(is_started);
        if is_one || self.total_value == 0 { &[] } else { self.programs_from(LEAST) }
    }
}

/// Adds up rows of (name, grouping part of the name, value, samples), largest first.
fn by_name<'a>(rows: impl Iterator<Item = (&'a str, &'a str, u64, u64)>) -> Vec<NameRow> {
    // A name without a number is not grouped with those that have one.
    let mut groups: BTreeMap<(&str, bool), (&str, bool, NameRow)> = BTreeMap::new();
    for (name, group, value, samples) in rows {
        let empty = NameRow { name: String::new(), value: 0, samples: 0, count: 0 };
        let (first, differ, row) = groups.entry((group, group == name)).or_insert((name, false, empty));
        *differ |= *first != name;
        row.value = row.value.saturating_add(value);
        row.samples += samples;
        row.count += 1;
    }
    // A number that all share is part of the name: `cc1` is kept.
    let named = groups.into_iter().map(|((group, _), (first, differ, row))| {
        let name = if differ { format!("{group}*") } else { first.to_owned() };
        NameRow { name, ..row }
    });
    let mut rows = named.collect::<Vec<_>>();
    rows.sort_by_key(|row| Reverse(row.value));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, SAMPLE_NS};

    #[test]
    fn threads_and_processes_add_up() {
        let mut profile = testing::profile("main;a 1\nworker: main;a 3\nother: main;b 2");
        let name = profile.strings.push("child");
        profile.processes.push(whyslow_profile::Process {
            pid: 7,
            parent: None,
            name,
            start_ns: 0,
            end_ns: None,
        });
        profile.threads[2].process = ProcessId(1);
        let threads = Threads::build(&profile, &Selection::default());
        let used = threads.rows.iter().map(|row| (row.thread.0, row.samples)).collect::<Vec<_>>();
        assert_eq!(used, [(1, 3), (2, 2), (0, 1)]);
        let used =
            threads.processes.iter().map(|row| (row.process.0, row.value, row.threads)).collect::<Vec<_>>();
        assert_eq!(used, [(0, 4 * SAMPLE_NS, 2), (1, 2 * SAMPLE_NS, 1)]);
        assert_eq!(threads.total_samples, 6);
    }

    #[test]
    fn adds_up_threads_and_programs_of_one_name() {
        let mut profile = testing::profile(
            "make: a 1\ncc1: a 30\ncc10: a 5\nrayon-0: a 2\nrayon-11: a 3\ntokio-worker: a 4\nsha256: a 1",
        );
        for name in ["cc1", "cc1", "as"] {
            let name = profile.strings.push(name);
            let pid = 200 + profile.processes.len() as u32;
            profile.processes.push(whyslow_profile::Process {
                pid,
                parent: None,
                name,
                start_ns: 0,
                end_ns: None,
            });
        }
        for (thread, process) in [(1, 1), (2, 2), (3, 3)] {
            profile.threads[thread].process = ProcessId(process);
        }
        let cc1 = profile.threads[1].name;
        profile.threads[2].name = cc1;
        profile.threads[3].name = profile.threads[5].name;
        let threads = Threads::build(&profile, &Selection::default());
        let shown = |rows: &[NameRow]| {
            rows.iter().map(|row| format!("{} {} {}", row.name, row.count, row.samples)).collect::<Vec<_>>()
        };
        assert_eq!(shown(&threads.programs), ["cc1 2 35", "app 1 9", "as 1 2"]);
        assert_eq!(
            shown(&threads.thread_names),
            ["cc1 2 35", "tokio-worker 2 6", "rayon-11 1 3", "make 1 1", "sha256 1 1"]
        );
        assert_eq!(shown(threads.programs_from(0.1)), ["cc1 2 35", "app 1 9"]);
        assert_eq!(shown(threads.notable_programs(&profile)), ["cc1 2 35", "app 1 9", "as 1 2"]);
        profile.threads[0].name = profile.strings.push("cc");
        let threads = Threads::build(&profile, &Selection::default());
        assert!(shown(&threads.thread_names).contains(&"cc 1 1".to_owned()), "not one of the cc1");
        profile.threads[3].name = profile.strings.push("rayon-2");
        let threads = Threads::build(&profile, &Selection::default());
        assert_eq!(shown(&threads.thread_names)[1], "rayon-* 2 5");
    }

    /// `make` runs compilers: what ran is worth saying even if one of them has nearly all of the time.
    #[test]
    fn the_program_that_has_the_time_is_notable_unless_it_is_the_one_that_was_started() {
        let child_has = |samples: [u32; 2]| {
            let mut profile = testing::profile(&format!("main: a {}\ncc1plus: a {}", samples[0], samples[1]));
            let name = profile.threads[1].name;
            let [start_ns, end_ns] = [0, 0];
            profile.processes.push(whyslow_profile::Process {
                pid: 7,
                parent: Some(ProcessId(0)),
                name,
                start_ns,
                end_ns: Some(end_ns),
            });
            profile.threads[1].process = ProcessId(1);
            let threads = Threads::build(&profile, &Selection::default());
            threads.notable_programs(&profile).iter().map(|row| row.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(child_has([1, 400]), ["cc1plus"]);
        assert_eq!(child_has([400, 1]), [""; 0]);
        assert_eq!(child_has([300, 100]), ["app", "cc1plus"]);
    }

    #[test]
    fn only_selected_threads_are_listed() {
        let profile = testing::profile("main;a 1\nworker: main;a 3");
        let selection = Selection { threads: vec!["work".parse().unwrap()], ..Selection::default() };
        let threads = Threads::build(&profile, &selection);
        assert_eq!(threads.rows.len(), 1);
        assert_eq!(threads.total_samples, 3);
    }
}
