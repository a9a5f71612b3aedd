//! The call sites of calls without a stack.

use rustc_hash::FxHashMap;
use whyslow_profile::{StackId, StringId};

use super::files::FileId;

/// How many stacks per thread and kind of call are kept for calls without one.
const STACKS: usize = 64;
/// How many kinds of calls per thread keep them.
const KINDS: usize = 512;

/// The last stacks of one thread, by the name of the call and the file, and by the name alone.
#[derive(Debug, Default)]
pub(super) struct RecentSites(FxHashMap<(StringId, Option<FileId>), Recent>);

impl RecentSites {
    /// The stack of a call: its own, or that of a recent call of its kind.
    pub(super) fn site(
        &mut self,
        call: StringId,
        file: Option<FileId>,
        own: Option<StackId>,
    ) -> Option<StackId> {
        if self.0.len() > KINDS {
            self.0.clear();
        }
        let mut pools = [file, None].into_iter().take(if file.is_some() { 2 } else { 1 });
        match own {
            Some(stack) => {
                pools.for_each(|file| self.0.entry((call, file)).or_default().add(stack));
                Some(stack)
            }
            None => pools.find_map(|file| self.0.get_mut(&(call, file))?.another()),
        }
    }

    /// Files have other ids from now on.
    pub(super) fn rename(&mut self, settled: impl Fn(FileId) -> FileId) {
        let recent = self.0.drain().map(|((call, file), recent)| ((call, file.map(&settled)), recent));
        self.0 = recent.collect();
    }
}

/// The last stacks of one kind of calls.
#[derive(Debug, Default)]
struct Recent {
    stacks: Vec<StackId>,
    next: usize,
}

impl Recent {
    fn add(&mut self, stack: StackId) {
        if self.stacks.len() < STACKS {
            self.stacks.push(stack);
        } else {
            self.stacks[self.next % STACKS] = stack;
        }
        self.next = self.next.wrapping_add(1);
    }

    /// The next of them, in turn.
    fn another(&mut self) -> Option<StackId> {
        self.next = self.next.wrapping_add(1);
        let at = self.next.checked_rem(self.stacks.len())?;
        self.stacks.get(at).copied()
    }
}
