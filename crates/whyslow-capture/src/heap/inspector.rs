//! Looks at a process in its last moment, or when someone asks: which blocks are lost, which bytes were never written.

use rustc_hash::FxHashMap;
use whyslow_heap::leaks::{self, LeakError, LeakReport, LiveBlock};
use whyslow_heap::{ExitInspector, Findings, TakeBlocks};
use whyslow_profile::{HeapCounts, LeakCheck};

/// What to look for.
#[derive(Debug)]
pub(super) struct Inspector {
    pub(super) leaks: bool,
    pub(super) unused: bool,
}

/// How many bytes of each block were never written.
type Unused = Result<Vec<u64>, LeakError>;

impl ExitInspector for Inspector {
    fn at_exit(&self, pid: u32, tid: u32, blocks: &[LiveBlock], skip: &[(u64, u64)]) -> Findings {
        let report = self.leaks.then(|| leaks::check(pid, Some(tid), blocks, skip));
        let unused = self.unused.then(|| leaks::unused_bytes(pid, blocks));
        findings(pid, blocks, LeakCheck::AtExit, report, unused)
    }

    fn at_snapshot(&self, pid: u32, skip: &[(u64, u64)], blocks: &mut TakeBlocks<'_>) -> Findings {
        if !self.leaks && !self.unused {
            return Findings { leaks: not_wanted(), ..Findings::default() };
        }
        let mut unused = None;
        let take = || {
            let blocks = blocks();
            unused = self.unused.then(|| leaks::unused_bytes(pid, &blocks));
            blocks
        };
        let (report, blocks) = leaks::check_running(pid, skip, take)
            .map_or_else(|error| (Err(error), Vec::new()), |(report, blocks)| (Ok(report), blocks));
        // Without the blocks nothing can be said of them.
        let unused = unused.filter(|_| report.is_ok());
        let mut found =
            findings(pid, &blocks, LeakCheck::AtSnapshot(0), self.leaks.then_some(report), unused);
        if !self.leaks {
            found.leaks = not_wanted();
        }
        found
    }
}

fn not_wanted() -> LeakCheck {
    LeakCheck::Impossible("the recording was started with --no-leak-check".to_owned())
}

fn findings(
    pid: u32,
    blocks: &[LiveBlock],
    when: LeakCheck,
    report: Option<Result<LeakReport, LeakError>>,
    unused: Option<Unused>,
) -> Findings {
    let mut stacks = FxHashMap::<u32, HeapCounts>::default();
    let mut notes = Vec::new();
    let checked = match report {
        None => LeakCheck::NotDone,
        Some(Ok(report)) => {
            stacks = report.sites(blocks);
            if report.unreadable_pages > 0 {
                notes.push(format!(
                    "{} pages of process {pid} could not be read in the leak check; a block that only they point to \
                     seems lost",
                    report.unreadable_pages
                ));
            }
            when
        }
        Some(Err(error)) => LeakCheck::Impossible(error.to_string()),
    };
    match unused {
        None => {}
        Some(Ok(unused)) => {
            for (block, unused) in blocks.iter().zip(unused) {
                let counts = stacks.entry(block.site).or_default();
                counts.unused_bytes += unused;
                counts.examined_bytes += block.size;
            }
        }
        Some(Err(error)) => {
            notes.push(format!("blocks that were live at the end were not examined: {error}"));
        }
    }
    let mut stacks = stacks.into_iter().collect::<Vec<_>>();
    stacks.sort_unstable_by_key(|(stack, _)| *stack);
    Findings { stacks, leaks: checked, notes }
}
