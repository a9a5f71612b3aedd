//! How much each thread and each process used.

use std::cmp::Reverse;

use whyslow_profile::{ProcessId, Profile, ThreadId};

use crate::selection::Selection;

/// What one thread used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadRow {
    /// The thread.
    pub thread: ThreadId,
    /// Value of its samples.
    pub value: u64,
    /// How many samples.
    pub samples: u64,
}

/// What the threads of one process used.
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

/// What every selected thread used, most first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Threads {
    /// The threads.
    pub rows: Vec<ThreadRow>,
    /// Their processes.
    pub processes: Vec<ProcessRow>,
    /// Value of all selected samples.
    pub total_value: u64,
    /// How many samples were selected.
    pub total_samples: u64,
}

impl Threads {
    /// Adds up the selected samples per thread. Threads that pass the filters by thread and process are there even
    /// without samples.
    pub fn build(profile: &Profile, selection: &Selection) -> Self {
        let mut used = vec![(0u64, 0u64); profile.threads.len()];
        selection.each_selected(profile, |thread, _, value| {
            used[thread].0 = used[thread].0.saturating_add(value);
            used[thread].1 += 1;
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
        Self { rows, processes, total_value, total_samples }
    }
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
    fn only_selected_threads_are_listed() {
        let profile = testing::profile("main;a 1\nworker: main;a 3");
        let selection = Selection { threads: vec!["work".parse().unwrap()], ..Selection::default() };
        let threads = Threads::build(&profile, &selection);
        assert_eq!(threads.rows.len(), 1);
        assert_eq!(threads.total_samples, 3);
    }
}
