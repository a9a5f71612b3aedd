//! Which processes are recorded. The kernel samples whole CPUs where it may, and then most records are of strangers: they are
//! told from ours by a number at a fixed place, before anything else is read of them.

use byteorder::NativeEndian;
use linux_perf_event_reader::{RecordType, SampleFormat};
use rustc_hash::FxHashSet;

use crate::perf::Record;

/// In the `misc` of a name's record: the process has executed a program.
const COMM_EXEC: u16 = 1 << 13;

/// Whose records are taken.
#[derive(Debug, Default)]
pub(crate) enum Ours {
    /// All: whoever made the records has chosen already.
    #[default]
    Chosen,
    /// All but the recorder's own.
    Machine {
        /// The recorder.
        recorder: u32,
    },
    /// Some processes and all that they start.
    Tree(Tree),
}

/// Processes by the system's numbers, and a child that has not executed its program yet.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    processes: FxHashSet<u32>,
    before_exec: Option<u32>,
    /// Whether records were lost since descendants were last looked for.
    lost: bool,
}

impl Ours {
    /// A child that is to execute its program: what it does until then is ours, not the program's.
    pub(crate) fn from_exec_of(child: u32) -> Self {
        Self::Tree(Tree { before_exec: Some(child), ..Tree::default() })
    }

    /// These processes from now on.
    pub(crate) fn from_now_on(processes: &[u32]) -> Self {
        Self::Tree(Tree { processes: processes.iter().copied().collect(), ..Tree::default() })
    }

    /// Whether a record is to be read. Forks and execs are followed on the way.
    pub(crate) fn takes(&mut self, record: &Record<'_>) -> bool {
        match self {
            Self::Chosen => true,
            Self::Machine { recorder } => {
                record.record_type != RecordType::SAMPLE || process_of(record) != Some(*recorder)
            }
            Self::Tree(tree) => tree.takes(record),
        }
    }

    /// Looks for descendants of which nothing was heard, if records were lost.
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
                let ours = self.processes.contains(&parent);
                if ours {
                    self.processes.insert(process);
                } else {
                    // The number of a process of ours that has ended is given to a stranger.
                    self.processes.remove(&process);
                }
                return ours;
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

/// The process of a record; `None` when it is of none. Samples begin with the address, then process and thread, as
/// [`crate::perf::Plan`] asks for them; where there are several events, with the event before that.
fn process_of(record: &Record<'_>) -> Option<u32> {
    let mut data = record.data;
    match record.record_type {
        RecordType::SAMPLE => {
            let names_event = record.parse_info.sample_format.contains(SampleFormat::IDENTIFIER);
            data.skip(if names_event { 16 } else { 8 }).ok()?;
        }
        // Before the record's own thread comes the one that had the CPU before, or has it next.
        RecordType::SWITCH_CPU_WIDE => data.skip(8).ok()?,
        RecordType::FORK | RecordType::EXIT | RecordType::COMM | RecordType::MMAP | RecordType::MMAP2 => {}
        _ => return None,
    }
    data.read_u32::<NativeEndian>().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perf::testing::Made;

    const STRANGER: u32 = 7;
    const CHILD: u32 = 100;

    fn takes(ours: &mut Ours, made: &Made) -> bool {
        ours.takes(&made.record())
    }

    #[test]
    fn a_program_and_all_that_it_starts_are_ours_from_its_exec_on() {
        let mut ours = Ours::from_exec_of(CHILD);
        assert!(!takes(&mut ours, &Made::sample(CHILD, CHILD, 1, 1)), "before its exec");
        assert!(!takes(&mut ours, &Made::exec(STRANGER, STRANGER, 2)));
        assert!(takes(&mut ours, &Made::exec(CHILD, CHILD, 3)));
        assert!(takes(&mut ours, &Made::sample(CHILD, CHILD, 4, 1)));
        assert!(takes(&mut ours, &Made::fork(CHILD, 101, 101, 5)));
        assert!(takes(&mut ours, &Made::fork(101, 102, 102, 6)), "a grandchild");
        assert!(takes(&mut ours, &Made::sample(102, 102, 7, 1)));
        assert!(takes(&mut ours, &Made::comes(102, 102, 7)));
        assert!(!takes(&mut ours, &Made::comes(STRANGER, STRANGER, 7)));
        assert!(takes(&mut ours, &Made::exit(102, 102, 8)));
        assert!(!takes(&mut ours, &Made::fork(STRANGER, 8, 8, 9)));
        assert!(!takes(&mut ours, &Made::sample(8, 8, 10, 1)));
    }

    #[test]
    fn a_number_that_is_given_to_a_stranger_is_no_longer_ours() {
        let mut ours = Ours::from_now_on(&[CHILD]);
        assert!(takes(&mut ours, &Made::fork(CHILD, 101, 101, 1)));
        assert!(takes(&mut ours, &Made::exit(101, 101, 2)));
        assert!(!takes(&mut ours, &Made::fork(STRANGER, 101, 101, 3)));
        assert!(!takes(&mut ours, &Made::sample(101, 101, 4, 1)));
    }

    #[test]
    fn descendants_whose_forks_were_lost_are_found() {
        let parents = || vec![(103, 102), (102, CHILD), (8, STRANGER)];
        let mut ours = Ours::from_now_on(&[CHILD]);
        ours.search(parents);
        assert!(!takes(&mut ours, &Made::sample(103, 103, 1, 1)), "nobody looks while nothing is lost");
        assert!(takes(&mut ours, &Made::lost(3, 1)));
        ours.search(parents);
        assert!(takes(&mut ours, &Made::sample(103, 103, 1, 1)));
        assert!(!takes(&mut ours, &Made::sample(8, 8, 1, 1)));
    }

    #[test]
    fn the_whole_machine_is_everybody_but_the_recorder() {
        let mut ours = Ours::Machine { recorder: 5 };
        assert!(takes(&mut ours, &Made::sample(STRANGER, STRANGER, 1, 1)));
        assert!(!takes(&mut ours, &Made::sample(5, 6, 1, 1)));
        assert!(takes(&mut ours, &Made::fork(5, 9, 9, 2)), "its children are recorded");
    }
}
