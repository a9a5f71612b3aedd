//! Inspects a process at its exit, or on request: which blocks are lost, and which bytes were never written.

use rustc_hash::FxHashMap;
use whyslow_agent_wire::record::MOST_FILLED;
use whyslow_heap::leaks::{self, LeakError, LeakReport, LiveBlock, Subject};
use whyslow_heap::{ExitInspector, Findings, StackRow, TakeBlocks};
use whyslow_numbers::ClockNs;
use whyslow_profile::{HeapCounts, HeapNote, LeakCheck, NoLeakCheck};

/// What to look for.
#[derive(Debug)]
pub(crate) struct Inspector {
    pub(crate) leaks: bool,
    pub(crate) unused: bool,
}

/// The bytes of each block that were never written.
type Unused = Result<Vec<u64>, LeakError>;

impl ExitInspector for Inspector {
    fn inspect(&self, subject: &Subject, blocks: &mut TakeBlocks<'_>) -> Findings {
        if !self.leaks && !self.unused {
            return Findings { leaks: not_wanted(subject), ..Findings::default() };
        }
        let mut unused = None;
        let take = || {
            let live = blocks();
            unused = self.unused.then(|| leaks::unused_bytes(subject, &live.blocks));
            live
        };
        let (report, blocks) = leaks::check(subject, take)
            .map_or_else(|error| (Err(error), Vec::new()), |(report, blocks)| (Ok(report), blocks));
        // Without the blocks, their unused bytes mean nothing.
        let unused = unused.filter(|_| report.is_ok());
        let mut found = findings(subject.pid, &blocks, self.leaks.then_some(report), unused);
        if !self.leaks {
            found.leaks = not_wanted(subject);
        }
        found
    }
}

/// An exiting process needs no reason; a snapshot request does.
fn not_wanted(subject: &Subject) -> LeakCheck<ClockNs> {
    match subject.waiting {
        Some(_) => LeakCheck::NotDone,
        None => LeakCheck::Impossible(NoLeakCheck::NotWanted),
    }
}

fn findings(
    pid: u32,
    blocks: &[LiveBlock],
    report: Option<Result<LeakReport, LeakError>>,
    unused: Option<Unused>,
) -> Findings {
    let mut stacks = FxHashMap::<StackRow, HeapCounts>::default();
    let mut notes = Vec::new();
    let checked = match report {
        None => LeakCheck::NotDone,
        Some(Ok(report)) => {
            stacks = report.by_stack(blocks);
            if report.unreadable_pages > 0 {
                notes.push(HeapNote::UnreadablePages { pid, pages: report.unreadable_pages });
            }
            LeakCheck::AtExit
        }
        Some(Err(error)) => LeakCheck::Impossible(NoLeakCheck::OutOfReach { error: error.to_string() }),
    };
    match unused {
        None => {}
        Some(Ok(unused)) => {
            for (block, unused) in blocks.iter().zip(unused).filter(|(block, _)| !block.inherited) {
                let counts = stacks.entry(block.stack).or_default();
                // Blocks too large to be filled contain no pattern that shows what was written.
                if block.size > MOST_FILLED {
                    counts.passed_over_blocks += 1;
                    counts.passed_over_bytes += block.size;
                } else {
                    counts.unused_bytes += unused;
                    counts.examined_bytes += block.size;
                }
            }
        }
        Some(Err(error)) => {
            notes.push(HeapNote::LiveBlocksNotExamined { error: error.to_string() });
        }
    }
    let mut stacks = stacks.into_iter().collect::<Vec<_>>();
    stacks.sort_unstable_by_key(|(stack, _)| *stack);
    Findings { stacks, leaks: checked, notes }
}
