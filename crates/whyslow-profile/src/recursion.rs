//! Keeps stacks of deep recursion short: what their middle repeats is left out.
//!
//! ```text
//! frames of a stack, outermost first:   1 … 112 │ the middle                              │ the last 16
//! in the tree of stacks:                1 … 112 │ each call that is not outside it already │ the last 16
//! ```
//!
//! A call is a pair of locations: the caller's and the callee's. Where frames are left out, [`SpecialFrame::LeftOut`]
//! stands for them. So a stack keeps every location and every call that it has, only not how often, and a stack of at most
//! [`EXACT`] frames, or without recursion, stays as it is.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::Profile;
use crate::ids::{LocationId, ModuleId, RelativeAddress, StackId};
use crate::special::SpecialFrame;
use crate::tables::{Module, Stacks};

/// The outermost frames, which are always kept.
const OUTER: u32 = 112;
/// The innermost frames, which are always kept.
const INNER: usize = 16;
/// Stacks with at most this many frames are kept as they are.
pub const EXACT: usize = OUTER as usize + INNER;

/// A frame of a stack, with everything outside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outer {
    /// The innermost stack in the tree that stands for it.
    kept: StackId,
    /// Its own location.
    location: LocationId,
    /// The number of frames from the outermost to this one, with those that are left out.
    depth: u32,
    /// Whether this frame is left out.
    left_out: bool,
}

impl Outer {
    /// The number of frames from the outermost to this one.
    pub fn depth(&self) -> u32 {
        self.depth
    }
}

/// A tree that stacks are added to.
pub(crate) trait Tree {
    /// The stack of a location that is called from `parent`.
    fn add(&mut self, parent: Option<StackId>, location: LocationId) -> StackId;

    /// A stack's caller and location; `None` if they are no longer known.
    fn node(&self, stack: StackId) -> Option<(Option<StackId>, LocationId)>;

    /// The location of [`SpecialFrame::LeftOut`].
    fn mark(&mut self) -> LocationId;
}

/// The calls on the last path that was asked about.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calls: FxHashSet<(LocationId, LocationId)>,
    of: Option<StackId>,
}

impl Calls {
    /// Whether the path to a stack has this call.
    fn contain(&mut self, tree: &impl Tree, stack: StackId, call: (LocationId, LocationId)) -> bool {
        if self.of != Some(stack) {
            self.calls.clear();
            self.of = Some(stack);
            let mut callee = tree.node(stack);
            while let Some((Some(parent), location)) = callee {
                callee = tree.node(parent);
                self.calls.extend(callee.map(|(_, caller)| (caller, location)));
            }
        }
        self.calls.contains(&call)
    }

    /// The path is one call longer.
    fn extend(&mut self, stack: StackId, call: (LocationId, LocationId)) {
        self.calls.insert(call);
        self.of = Some(stack);
    }
}

/// A frame that is called from another one.
pub(crate) fn call(
    tree: &mut impl Tree,
    calls: &mut Calls,
    caller: Option<Outer>,
    location: LocationId,
) -> Outer {
    let Some(caller) = caller else {
        return Outer { kept: tree.add(None, location), location, depth: 1, left_out: false };
    };
    let depth = caller.depth.saturating_add(1);
    if caller.depth < OUTER {
        return Outer { kept: tree.add(Some(caller.kept), location), location, depth, left_out: false };
    }
    let pair = (caller.location, location);
    if calls.contain(tree, caller.kept, pair) {
        return Outer { kept: caller.kept, location, depth, left_out: true };
    }
    let kept = resume(tree, caller);
    let kept = tree.add(Some(kept), location);
    calls.extend(kept, pair);
    Outer { kept, location, depth, left_out: false }
}

/// The stack of a frame that frames follow. If it was left out, it is added behind the mark.
fn resume(tree: &mut impl Tree, outer: Outer) -> StackId {
    if !outer.left_out {
        return outer.kept;
    }
    let mark = tree.mark();
    let mark = tree.add(Some(outer.kept), mark);
    tree.add(Some(mark), outer.location)
}

/// The stack that ends with the first of these frames, which are innermost first.
pub(crate) fn innermost(tree: &mut impl Tree, mut outwards: impl Iterator<Item = Outer>) -> Option<StackId> {
    let last = outwards.next()?;
    if last.depth <= OUTER {
        return Some(last.kept);
    }
    let mut inner = [last.location; INNER];
    let mut count = 1;
    let base = outwards.find(|outer| {
        let is_base = count == INNER;
        if !is_base {
            inner[count] = outer.location;
            count += 1;
        }
        is_base
    })?;
    let base = resume(tree, base);
    Some(inner.iter().rev().fold(base, |stack, &location| tree.add(Some(stack), location)))
}

/// The stack of these locations, outermost first. What `root` stands for is not known, so of a deep stack only the
/// innermost frames are always kept.
pub(crate) fn whole(
    tree: &mut impl Tree,
    calls: &mut Calls,
    root: Option<StackId>,
    locations: impl ExactSizeIterator<Item = LocationId>,
) -> Option<StackId> {
    if locations.len() <= EXACT {
        return locations.fold(root, |stack, location| Some(tree.add(stack, location)));
    }
    let root = root.map(|kept| {
        let location = tree.node(kept).map_or(LocationId::TRUNCATED, |(_, location)| location);
        Outer { kept, location, depth: OUTER, left_out: false }
    });
    let mut outers: Vec<Outer> = root.into_iter().collect();
    for location in locations {
        outers.push(call(tree, calls, outers.last().copied(), location));
    }
    innermost(tree, outers.into_iter().rev())
}

/// The tree that replaces a profile's.
struct Rebuilt<'p> {
    profile: &'p mut Profile,
    stacks: Stacks,
    ids: FxHashMap<(Option<StackId>, LocationId), StackId>,
    mark: Option<LocationId>,
}

impl Tree for Rebuilt<'_> {
    fn add(&mut self, parent: Option<StackId>, location: LocationId) -> StackId {
        *self.ids.entry((parent, location)).or_insert_with(|| self.stacks.push(parent, location))
    }

    fn node(&self, stack: StackId) -> Option<(Option<StackId>, LocationId)> {
        Some((self.stacks.parent(stack), self.stacks.location(stack)))
    }

    fn mark(&mut self) -> LocationId {
        let profile = &mut *self.profile;
        *self.mark.get_or_insert_with(|| {
            let name = profile.strings.push(SpecialFrame::LeftOut.text());
            profile.modules.push(Module::special(SpecialFrame::LeftOut, name));
            let module = ModuleId::from(profile.modules.len() - 1);
            profile.locations.push(Some(module), RelativeAddress(0))
        })
    }
}

/// Whether a stack has more than [`EXACT`] frames. Few profiles have one, and there may be millions of stacks.
fn has_deep_stacks(stacks: &Stacks) -> bool {
    let mut depths: Vec<u8> = Vec::with_capacity(stacks.len());
    (0..stacks.len()).map(StackId::from).any(|stack| {
        let depth = stacks.parent(stack).map_or(0, |parent| depths[parent.index()]).saturating_add(1);
        depths.push(depth);
        usize::from(depth) > EXACT
    })
}

/// Leaves recursion out of all stacks of a profile, as recording does.
pub fn leave_out_recursion(profile: &mut Profile) {
    if !has_deep_stacks(&profile.stacks) {
        return;
    }
    let mut depths: Vec<usize> = Vec::with_capacity(profile.stacks.len());
    for stack in (0..profile.stacks.len()).map(StackId::from) {
        depths.push(profile.stacks.parent(stack).map_or(0, |parent| depths[parent.index()]) + 1);
    }
    let deepest = depths.into_iter().max().unwrap_or(0);
    profile.meta.counters.deepest_stack = profile.meta.counters.deepest_stack.max(deepest as u64);
    let old = std::mem::take(&mut profile.stacks);
    let (stacks, ids) = (Stacks::default(), FxHashMap::default());
    let mut tree = Rebuilt { profile, stacks, ids, mark: None };
    let mut calls = Calls::default();
    let mut outers: Vec<Outer> = Vec::with_capacity(old.len());
    for stack in (0..old.len()).map(StackId::from) {
        let caller = old.parent(stack).map(|parent| outers[parent.index()]);
        outers.push(call(&mut tree, &mut calls, caller, old.location(stack)));
    }
    let mut places: FxHashMap<StackId, StackId> = FxHashMap::default();
    let mut place = |tree: &mut Rebuilt<'_>, stack: &mut StackId| {
        let outwards = old.towards_root(*stack).map(|stack| outers[stack.index()]);
        let new = || innermost(tree, outwards).unwrap_or(*stack);
        *stack = *places.entry(*stack).or_insert_with(new);
    };
    let mut samples = std::mem::take(&mut tree.profile.samples);
    samples.iter_mut().flat_map(|samples| &mut samples.stack).for_each(|stack| place(&mut tree, stack));
    let mut wakers = std::mem::take(&mut tree.profile.wait_details.waker_stack);
    wakers.iter_mut().flatten().for_each(|stack| place(&mut tree, stack));
    let mut syscalls = std::mem::take(&mut tree.profile.syscalls);
    syscalls.iter_mut().for_each(|row| place(&mut tree, &mut row.stack));
    let mut sites = std::mem::take(&mut tree.profile.heap.sites);
    sites.iter_mut().for_each(|site| place(&mut tree, &mut site.stack));
    let Rebuilt { profile, stacks, .. } = tree;
    (profile.stacks, profile.samples, profile.syscalls) = (stacks, samples, syscalls);
    (profile.wait_details.waker_stack, profile.heap.sites) = (wakers, sites);
}

#[cfg(test)]
mod tests;
