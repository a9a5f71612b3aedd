//! Which processes are recorded. Where the kernel permits it, it samples whole CPUs, and then most records
//! are of other processes. Those are recognised by the process number at a fixed offset, before anything else
//! of a record is read.

use byteorder::NativeEndian;
use linux_perf_event_reader::{RecordType, SampleFormat};
use rustc_hash::FxHashSet;

use crate::perf::Record;

/// A flag in the `misc` of a COMM record: the process has executed a program.
const COMM_EXEC: u16 = 1 << 13;

/// Which records to take, by process.
#[derive(Debug, Default)]
pub(crate) enum RecordedProcesses {
    /// All of them: their source has already filtered them.
    #[default]
    Chosen,
    /// All except the recorder's own.
    Machine {
        /// The recorder's process number.
        recorder: u32,
    },
    /// Some processes and all their descendants.
    Tree(Tree),
}

/// Process numbers, and a child that has not executed its program yet.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    processes: FxHashSet<u32>,
    before_exec: Option<u32>,
    /// Whether records were lost since the last search for descendants.
    lost: bool,
    /// The number of samples that were in the rings, and how many of them were of these processes.
    samples: (u64, u64),
}

impl RecordedProcesses {
    /// Takes a child from its exec on. Before that, it runs the recorder's code and not the program's.
    pub(crate) fn from_exec_of(child: u32) -> Self {
        Self::Tree(Tree { before_exec: Some(child), ..Tree::default() })
    }

    /// Takes these processes from now on.
    pub(crate) fn from_now_on(processes: &[u32]) -> Self {
        Self::Tree(Tree { processes: processes.iter().copied().collect(), ..Tree::default() })
    }

    /// Whether to read a record. Also follows forks and execs.
    pub(crate) fn takes(&mut self, record: &Record<'_>) -> bool {
        match self {
            Self::Chosen => true,
            Self::Machine { recorder } => {
                record.record_type != RecordType::SAMPLE || process_of(record) != Some(*recorder)
            }
            Self::Tree(tree) => {
                let takes = tree.takes(record);
                if record.record_type == RecordType::SAMPLE {
                    tree.samples.0 += 1;
                    tree.samples.1 += u64::from(takes);
                }
                takes
            }
        }
    }

    /// How many of some lost records were of recorded processes, going by the samples that arrived: a ring
    /// that overflows says how many records it lost, not whose.
    pub(crate) fn lost_of(&self, records: u64) -> u64 {
        match self {
            Self::Tree(Tree { samples: (all @ 1.., own), .. }) => {
                let share = *own as f64 / *all as f64;
                (records as f64 * share).round() as u64
            }
            _ => records,
        }
    }

    /// Searches for descendants whose fork records were lost, if any records were.
    pub(crate) fn search(&mut self, parents: impl Fn() -> Vec<(u32, u32)>) {
        let Self::Tree(tree) = self else { return };
        if !std::mem::take(&mut tree.lost) {
            return;
        }
        let parents = parents();
        let mut before = usize::MAX;
        while before != tree.processes.len() {
            before = tree.processes.len();
            let children = parents.iter().filter(|(_, parent)| tree.processes.contains(parent));
            let children = children.map(|(child, _)| *child).collect::<Vec<_>>();
            tree.processes.extend(children);
        }
    }
}

impl Tree {
    fn takes(&mut self, record: &Record<'_>) -> bool {
        self.lost |= record.record_type == RecordType::LOST;
        let Some(process) = process_of(record) else { return true };
        match record.record_type {
            RecordType::FORK => {
                let mut data = record.data;
                let _ = data.skip(4);
                let parent = data.read_u32::<NativeEndian>().unwrap_or(0);
                let is_child = self.processes.contains(&parent);
                if is_child {
                    self.processes.insert(process);
                } else {
                    // The system has given the number of an exited recorded process to an unrelated one.
                    self.processes.remove(&process);
                }
                return is_child;
            }
            RecordType::COMM if record.misc & COMM_EXEC != 0 && self.before_exec == Some(process) => {
                self.before_exec = None;
                self.processes.insert(process);
            }
            _ => {}
        }
        self.processes.contains(&process)
    }
}

/// The process of a record; `None` if it has none. Samples begin with the address, then process and thread,
/// as [`crate::perf::Plan`] requests them. With several events, the event number precedes the address.
fn process_of(record: &Record<'_>) -> Option<u32> {
    let mut data = record.data;
    match record.record_type {
        RecordType::SAMPLE => {
            let names_event = record.parse_info.sample_format.contains(SampleFormat::IDENTIFIER);
            data.skip(if names_event { 16 } else { 8 }).ok()?;
        }
        // The record's own thread follows the one that ran before or runs next.
        RecordType::SWITCH_CPU_WIDE => data.skip(8).ok()?,
        RecordType::FORK | RecordType::EXIT | RecordType::COMM | RecordType::MMAP | RecordType::MMAP2 => {}
        _ => return None,
    }
    data.read_u32::<NativeEndian>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::testing::TestRecord;

    const UNRELATED: u32 = 7;
    const CHILD: u32 = 100;

    fn takes(recorded: &mut RecordedProcesses, record: &TestRecord) -> bool {
        recorded.takes(&record.record())
    }

    #[test]
    fn takes_a_program_from_its_exec_on_and_all_its_descendants() {
        let mut recorded = RecordedProcesses::from_exec_of(CHILD);
        assert!(!takes(&mut recorded, &TestRecord::sample(CHILD, CHILD, 1, 1)), "before its exec");
        assert!(!takes(&mut recorded, &TestRecord::exec(UNRELATED, UNRELATED, 2)));
        assert!(takes(&mut recorded, &TestRecord::exec(CHILD, CHILD, 3)));
        assert!(takes(&mut recorded, &TestRecord::sample(CHILD, CHILD, 4, 1)));
        assert!(takes(&mut recorded, &TestRecord::fork(CHILD, 101, 101, 5)));
        assert!(takes(&mut recorded, &TestRecord::fork(101, 102, 102, 6)), "a grandchild");
        assert!(takes(&mut recorded, &TestRecord::sample(102, 102, 7, 1)));
        assert!(takes(&mut recorded, &TestRecord::switch_in(102, 102, 7)));
        assert!(!takes(&mut recorded, &TestRecord::switch_in(UNRELATED, UNRELATED, 7)));
        assert!(takes(&mut recorded, &TestRecord::exit(102, 102, 8)));
        assert!(!takes(&mut recorded, &TestRecord::fork(UNRELATED, 8, 8, 9)));
        assert!(!takes(&mut recorded, &TestRecord::sample(8, 8, 10, 1)));
    }

    #[test]
    fn a_process_number_reused_by_an_unrelated_process_is_not_taken() {
        let mut recorded = RecordedProcesses::from_now_on(&[CHILD]);
        assert!(takes(&mut recorded, &TestRecord::fork(CHILD, 101, 101, 1)));
        assert!(takes(&mut recorded, &TestRecord::exit(101, 101, 2)));
        assert!(!takes(&mut recorded, &TestRecord::fork(UNRELATED, 101, 101, 3)));
        assert!(!takes(&mut recorded, &TestRecord::sample(101, 101, 4, 1)));
    }

    #[test]
    fn finds_descendants_whose_fork_records_were_lost() {
        let parents = || vec![(103, 102), (102, CHILD), (8, UNRELATED)];
        let mut recorded = RecordedProcesses::from_now_on(&[CHILD]);
        recorded.search(parents);
        assert!(
            !takes(&mut recorded, &TestRecord::sample(103, 103, 1, 1)),
            "no search unless records were lost"
        );
        assert!(takes(&mut recorded, &TestRecord::lost(3, 1)));
        recorded.search(parents);
        assert!(takes(&mut recorded, &TestRecord::sample(103, 103, 1, 1)));
        assert!(!takes(&mut recorded, &TestRecord::sample(8, 8, 1, 1)));
    }

    #[test]
    fn lost_records_are_charged_by_the_share_of_samples_that_are_of_recorded_processes() {
        let mut recorded = RecordedProcesses::from_now_on(&[CHILD]);
        assert_eq!(recorded.lost_of(100), 100, "nothing is known yet");
        for (pid, times) in [(CHILD, 1), (UNRELATED, 3)] {
            for time in 0..times {
                takes(&mut recorded, &TestRecord::sample(pid, pid, time, 1));
            }
        }
        assert_eq!(recorded.lost_of(100), 25);
        assert_eq!(RecordedProcesses::Chosen.lost_of(100), 100);
    }

    #[test]
    fn the_whole_machine_excludes_only_the_recorder() {
        let mut recorded = RecordedProcesses::Machine { recorder: 5 };
        assert!(takes(&mut recorded, &TestRecord::sample(UNRELATED, UNRELATED, 1, 1)));
        assert!(!takes(&mut recorded, &TestRecord::sample(5, 6, 1, 1)));
        assert!(takes(&mut recorded, &TestRecord::fork(5, 9, 9, 2)), "its children are recorded");
    }
}
