//! Looks at a process in its last moment: which blocks are lost, which bytes were never written.

use rustc_hash::FxHashMap;
use whyslow_heap::leaks::{self, LiveBlock};
use whyslow_heap::{ExitInspector, Findings};
use whyslow_profile::{HeapCounts, LeakCheck};

/// What to look for.
#[derive(Debug)]
pub(super) struct Inspector {
    pub(super) leaks: bool,
    pub(super) unused: bool,
}

impl ExitInspector for Inspector {
    fn at_exit(&self, pid: u32, tid: u32, blocks: &[LiveBlock], skip: &[(u64, u64)]) -> Findings {
        let mut stacks = FxHashMap::<u32, HeapCounts>::default();
        let mut notes = Vec::new();
        let mut checked = LeakCheck::NotDone;
        if self.leaks {
            match leaks::check(pid, Some(tid), blocks, skip) {
                Ok(report) => {
                    stacks = report.sites(blocks);
                    checked = LeakCheck::AtExit;
                    if report.unreadable_pages > 0 {
                        notes.push(format!(
                            "{} pages of process {pid} could not be read in the leak check; a block that only they point to \
                             seems lost",
                            report.unreadable_pages
                        ));
                    }
                }
                Err(error) => checked = LeakCheck::Impossible(error.to_string()),
            }
        }
        if self.unused {
            match leaks::unused_bytes(pid, blocks) {
                Ok(unused) => {
                    for (block, unused) in blocks.iter().zip(unused) {
                        let counts = stacks.entry(block.site).or_default();
                        counts.unused_bytes += unused;
                        counts.examined_bytes += block.size;
                    }
                }
                Err(error) => {
                    notes.push(format!("blocks that were live at the end were not examined: {error}"));
                }
            }
        }
        let mut stacks = stacks.into_iter().collect::<Vec<_>>();
        stacks.sort_unstable_by_key(|(stack, _)| *stack);
        Findings { stacks, leaks: checked, notes }
    }
}
