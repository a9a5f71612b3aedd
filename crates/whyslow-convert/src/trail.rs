//! Keeps the last walk of a thread, so that the next one only walks as far as the two differ.
//!
//! If rules need only the instruction, stack and frame pointers, a walk from a frame outwards is a function
//! of these three and of the words that it reads:
//!
//! ```text
//! walk(ip, sp, bp) = walk'(ip, sp, bp)   if the frames are equal, and so is every word that was read from there outwards
//! ```
//!
//! So a walk that reaches a frame of the last one only compares those words. They are compared once, from the
//! outermost inwards. The comparisons do not depend on each other, so the processor loads many words at a
//! time, whereas a walk waits for each one in turn. Frames that were taken from an image of the live stack
//! count as long as the dump agrees with the same image.

use std::cell::Cell;

use whyslow_profile::Outer;

use crate::arch::Convertible;
use crate::completion::StackImage;
use crate::input::Dump;
use crate::walk::Walk;

/// Longer walks are not kept.
const MAX_FRAMES: usize = 32 << 10;

/// A word that was read, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word {
    pub(crate) address: u64,
    pub(crate) value: u64,
}

#[derive(Debug, Clone, Copy)]
struct TrailFrame {
    sp: u64,
    ip: u64,
    bp: u64,
    outer: Outer,
    /// The number of words from here outwards.
    words: u32,
}

/// The last walk of a thread, from the outermost frame inwards.
#[derive(Debug, Default)]
pub(crate) struct Trail {
    frames: Vec<TrailFrame>,
    words: Vec<Word>,
    /// The version of the mappings that it used.
    space: u64,
    /// The image that its outermost part came from.
    image: Option<u64>,
    /// From this address on, all its words are the image's.
    agreed_from: u64,
}

/// Where a walk meets the trail of the previous one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Met {
    /// How many frames of the trail belong to this walk too.
    frames: usize,
    /// Whether its outermost part is from an image.
    pub(crate) joined: bool,
    /// From this address on, the dump agrees with that image.
    edge: u64,
}

/// A trail while a dump is compared with it.
pub(crate) struct Follower<'a, F> {
    trail: &'a Trail,
    dump: &'a Dump<'a>,
    /// Returns the image that the dump agrees with; called at most once.
    image: F,
    /// Frames that are not inner to the walk's current one.
    left: Cell<usize>,
    /// How many words are the same, once compared.
    same: Cell<Option<u32>>,
    met: Cell<Option<Met>>,
}

impl Trail {
    /// Compares a dump with this trail; `image` returns the image that the dump agrees with.
    pub(crate) fn follow<'a, F: Fn() -> Option<&'a StackImage>>(
        &'a self,
        dump: &'a Dump<'a>,
        space: u64,
        image: F,
    ) -> Follower<'a, F> {
        let left = if self.space == space { self.frames.len() } else { 0 };
        Follower { trail: self, dump, image, left: left.into(), same: Cell::new(None), met: Cell::new(None) }
    }

    /// Keeps a walk whose stacks are known: its own frames on top of the part of the trail that it met. If it used an
    /// image, that one, and the address from which on its dump agrees with the image.
    pub(crate) fn keep<A: Convertible>(
        &mut self,
        walk: &Walk<A>,
        met: Option<Met>,
        space: u64,
        image: Option<(u64, u64)>,
    ) {
        match met {
            Some(met) => {
                self.frames.truncate(met.frames);
                self.words.truncate(self.frames.last().map_or(0, |frame| frame.words as usize));
                self.agreed_from = self.agreed_from.max(met.edge);
            }
            None => {
                self.clear();
                self.space = space;
                (self.image, self.agreed_from) =
                    image.map_or((None, u64::MAX), |(image, edge)| (Some(image), edge));
            }
        }
        // Frames inside one with another kind of rule depend on more than these words.
        let frames = walk.frames.get(walk.fixed_from..).unwrap_or_default();
        if self.frames.len() + frames.len() > MAX_FRAMES {
            return self.clear();
        }
        let mut end = walk.words.len();
        for (frame, &outer) in frames.iter().rev().zip(&walk.outers) {
            self.words.extend_from_slice(&walk.words[frame.words as usize..end]);
            end = frame.words as usize;
            let words = self.words.len() as u32;
            self.frames.push(TrailFrame { sp: frame.sp, ip: frame.ip, bp: frame.bp, outer, words });
        }
    }

    /// The outermost `count` frames, innermost first.
    pub(crate) fn outwards(&self, count: usize) -> impl Iterator<Item = Outer> + Clone {
        self.frames[..count].iter().rev().map(|frame| frame.outer)
    }

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.words.clear();
        self.image = None;
    }

    pub(crate) fn memory(&self) -> usize {
        self.frames.capacity() * size_of::<TrailFrame>() + self.words.capacity() * size_of::<Word>()
    }
}

impl<'a, F: Fn() -> Option<&'a StackImage>> Follower<'a, F> {
    /// The number of frames from a frame outwards, if the trail has all of them.
    pub(crate) fn known(&self, sp: u64, ip: u64, bp: u64) -> Option<usize> {
        let frames = &self.trail.frames;
        let mut left = self.left.get();
        while left > 0 && frames[left - 1].sp < sp {
            left -= 1;
        }
        self.left.set(left);
        let frame = frames.get(left.checked_sub(1)?)?;
        if (frame.sp, frame.ip, frame.bp) != (sp, ip, bp) {
            return None;
        }
        if self.same.get().is_none() {
            self.same.set(Some(self.compare(frame.words)));
        }
        // The comparison may have shown that nothing of the trail can be used.
        if self.left.get() == 0 || self.same.get().is_none_or(|same| frame.words > same) {
            return None;
        }
        let joined = self.trail.image.is_some();
        self.met.set(Some(Met { frames: left, joined, edge: self.dump.edge_start() }));
        Some(left)
    }

    /// How many of the first `max` words this sample's walk would read too. Later frames have fewer words.
    fn compare(&self, max: u32) -> u32 {
        let words = self.trail.words.iter().take(max as usize);
        let Some(drain) = self.trail.image else {
            let equal = |word: &&Word| self.dump.read(word.address) == Some(word.value);
            return words.take_while(equal).count() as u32;
        };
        let Some(image) = (self.image)().filter(|image| image.drain() == drain) else {
            self.left.set(0);
            return 0;
        };
        // Most words are the image's, and need no comparison with it.
        let agreed_from = self.trail.agreed_from.max(self.dump.edge_start());
        let read = |address: u64| self.dump.read(address).or_else(|| image.read(address));
        let is_same = |word: &&Word| word.address >= agreed_from || read(word.address) == Some(word.value);
        words.take_while(is_same).count() as u32
    }

    /// Where the walk met the trail, if it did.
    pub(crate) fn met(&self) -> Option<Met> {
        self.met.get()
    }
}
