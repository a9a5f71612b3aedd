//! Recovers outer frames beyond the copied bytes from an image of the thread's stack, but only if the sample
//! proves that it was taken on the same stack.
//!
//! An image is the thread's stack as it was read from the live process. A truncated sample may use it if the
//! outermost [`EDGE`] bytes of the sample's own dump equal the image at the same addresses. Those bytes hold
//! the return addresses and locals of several frames: if the thread had returned from them and called in by
//! another path, they would differ. An address that merely looks like a return address proves nothing: the
//! words of a later stack look just as plausible.
//!
//! A signal handler on its own stack leaves nothing of the interrupted stack in the dump. There, the proof is
//! the kernel's signal frame, which is in the dump and holds every register of the interrupted code. The
//! interrupted stack does not change while that frame exists, so the memory read from it counts if the frame
//! is the same before and after.

use std::iter;

use whyslow_numbers::RunTimeAddress;
use whyslow_profile::Outer;

use crate::arch::Convertible;
use crate::input::Dump;
use crate::trail::Trail;
use crate::walk::{Code, Ended, Interned, SignalFrame, Walk};
use crate::world::{ReadError, World};

/// Bytes that must agree. With outer paths that change every millisecond, 2 KB (three frames) let 3 in 1,000
/// wrong stacks through and 4 KB 1 in 4,000: a path can return to the same few frames by chance.
const EDGE: usize = 8 << 10;
/// The size of the first read, and the maximum for one image.
const FIRST_READ: usize = 256 << 10;
const MAX_READ: usize = 16 << 20;

impl<'a> Dump<'a> {
    fn end(&self) -> u64 {
        self.sp.wrapping_add(self.bytes.len() as u64)
    }

    /// The outermost bytes and their address.
    fn edge(&self) -> (u64, &'a [u8]) {
        let len = EDGE.min(self.bytes.len() / 2);
        (self.end().wrapping_sub(len as u64), &self.bytes[self.bytes.len() - len..])
    }

    /// Whether an address is in the copied bytes.
    pub(crate) fn holds(&self, address: u64) -> bool {
        (self.sp..self.end()).contains(&address)
    }

    /// The state in a signal frame; `None` if it was not copied completely.
    fn signal_state(&self, frame: &SignalFrame) -> Option<&'a [u8]> {
        let at = usize::try_from(frame.state.checked_sub(self.sp)?).ok()?;
        self.bytes.get(at..at.checked_add(frame.state_len)?)
    }

    /// The address from which on an image may stand in for this sample.
    pub(crate) fn edge_start(&self) -> u64 {
        self.edge().0
    }

    #[inline]
    pub(crate) fn read(&self, address: u64) -> Option<u64> {
        read_word(self.sp, self.bytes, address)
    }
}

#[inline]
fn read_word(base: u64, bytes: &[u8], address: u64) -> Option<u64> {
    let at = usize::try_from(address.checked_sub(base)?).ok()?;
    let word = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(word.try_into().ok()?))
}

/// A frame whose outer frames are all known already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TailFrame {
    pub(crate) sp: u64,
    pub(crate) ip: u64,
    pub(crate) bp: u64,
    pub(crate) outer: Outer,
}

/// A thread's stack at one point in time.
#[derive(Debug)]
pub(crate) struct StackImage {
    base: u64,
    bytes: Vec<u8>,
    /// The drain in which it was read.
    drain: u64,
    /// Nothing more can be read.
    whole: bool,
    /// Frames found in it, outermost last.
    tail: Vec<TailFrame>,
}

impl StackImage {
    /// Reads the stack of a live process from a sample's stack pointer outwards. `None` if it differs from
    /// the sample by now.
    fn capture(world: &impl World, pid: u32, dump: &Dump<'_>, drain: u64) -> Result<Option<Self>, ReadError> {
        let mut image = Self { base: dump.sp, bytes: Vec::new(), drain, whole: false, tail: Vec::new() };
        image.grow(world, pid)?;
        Ok(image.agrees(dump).then_some(image))
    }

    /// Reads further outwards.
    fn grow(&mut self, world: &impl World, pid: u32) -> Result<(), ReadError> {
        let have = self.bytes.len();
        let want = (have * 2).clamp(FIRST_READ, MAX_READ);
        self.bytes.resize(want, 0);
        let read =
            world.read_memory(pid, RunTimeAddress(self.base).plus(have as u64), &mut self.bytes[have..]);
        let read = read.inspect_err(|_| self.bytes.truncate(have))?;
        self.bytes.truncate(have + read);
        self.whole = have + read < want || want == MAX_READ;
        Ok(())
    }

    /// The drain in which it was read. Each image of a thread is from a different drain.
    pub(crate) fn drain(&self) -> u64 {
        self.drain
    }

    fn can_grow(&self) -> bool {
        !self.whole
    }

    /// Whether the sample's outermost bytes equal the image's.
    pub(crate) fn agrees(&self, dump: &Dump<'_>) -> bool {
        let (start, edge) = dump.edge();
        let Some(at) = start.checked_sub(self.base).and_then(|at| usize::try_from(at).ok()) else {
            return false;
        };
        at.checked_add(edge.len()).and_then(|end| self.bytes.get(at..end)) == Some(edge)
    }

    /// Whether the sample's outermost bytes are still the same in the live process. If so, everything read
    /// until now belongs to the same stack.
    fn still_stands(world: &impl World, pid: u32, dump: &Dump<'_>) -> bool {
        let (start, edge) = dump.edge();
        let mut now = [0; EDGE];
        let now = &mut now[..edge.len()];
        world.read_memory(pid, RunTimeAddress(start), now).is_ok_and(|read| read == edge.len()) && now == edge
    }

    #[inline]
    pub(crate) fn read(&self, address: u64) -> Option<u64> {
        read_word(self.base, &self.bytes, address)
    }

    /// The place of a frame that was found in this image before.
    fn known(&self, sp: u64, ip: u64, bp: u64) -> Option<usize> {
        let at = self.tail.binary_search_by_key(&sp, |frame| frame.sp).ok()?;
        let frame = self.tail[at];
        (frame.ip == ip && frame.bp == bp).then_some(at)
    }

    /// Remembers frames, innermost first.
    fn remember(&mut self, frames: impl Iterator<Item = TailFrame>) {
        self.tail.clear();
        self.tail.extend(frames);
        if !self.tail.is_sorted_by(|a, b| a.sp < b.sp) {
            self.tail.clear();
        }
    }

    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity() + self.tail.capacity() * size_of::<TailFrame>()
    }
}

/// The stack of code that a signal interrupted.
#[derive(Debug)]
struct SignalImage {
    frame: SignalFrame,
    state: Vec<u8>,
    stack: StackImage,
}

impl SignalImage {
    /// Whether a sample was taken in the same invocation of the handler.
    fn agrees(&self, frame: &SignalFrame, dump: &Dump<'_>) -> bool {
        self.frame == *frame && dump.signal_state(frame) == Some(&self.state)
    }
}

/// The images of one thread: the newest and the one before it, since a drain also holds samples from before
/// the newest was read.
#[derive(Debug, Default)]
pub(crate) struct Images {
    newest: Option<StackImage>,
    before: Option<StackImage>,
    interrupted: Option<SignalImage>,
    /// The last walk.
    pub(crate) trail: Trail,
}

impl Images {
    /// An image that the sample agrees with, read-only.
    pub(crate) fn agreeing(&self, dump: &Dump<'_>) -> Option<&StackImage> {
        self.newest.iter().chain(&self.before).find(|image| image.agrees(dump))
    }

    /// An image that the sample agrees with.
    pub(crate) fn find(&mut self, dump: &Dump<'_>) -> Option<&mut StackImage> {
        let Self { newest, before, .. } = self;
        newest.iter_mut().chain(before).find(|image| image.agrees(dump))
    }

    /// Whether the live stack was already read in this drain.
    pub(crate) fn is_fresh(&self, drain: u64) -> bool {
        self.newest.as_ref().is_some_and(|image| image.drain == drain)
    }

    pub(crate) fn push(&mut self, image: StackImage) -> &mut StackImage {
        self.before = self.newest.replace(image);
        // The line above sets it.
        self.newest.as_mut().unwrap_or_else(|| unreachable!())
    }

    /// Drops an image that turned out to be wrong.
    pub(crate) fn drop_newest(&mut self) {
        self.newest = self.before.take();
    }

    pub(crate) fn memory(&self) -> usize {
        let interrupted = self.interrupted.iter().map(|image| &image.stack);
        self.newest.iter().chain(&self.before).chain(interrupted).map(StackImage::memory).sum::<usize>()
            + self.trail.memory()
    }
}

/// Completes a truncated walk.
pub(crate) struct Completion<'a, W> {
    pub(crate) world: &'a W,
    pub(crate) dump: &'a Dump<'a>,
    pub(crate) pid: u32,
    pub(crate) drain: u64,
}

/// The stack of a walk that has reached its end.
fn complete<A: Convertible>(walk: &mut Walk<A>, code: &mut Code<'_, A>, joined: bool) -> Read {
    match walk.intern(code.builder, iter::empty()) {
        Some(stack) if joined => Read::Joined(stack),
        Some(stack) => Read::Complete(stack),
        None => Read::No,
    }
}

/// The result of reading the live process.
pub(crate) enum Read {
    /// The complete stack.
    Complete(Interned),
    /// The complete stack, with the help of an earlier read.
    Joined(Interned),
    /// The live stack has changed since, or could not be walked.
    No,
    /// The process's memory may not be read.
    Unreadable,
}

impl<W: World> Completion<'_, W> {
    /// Completes the walk with an earlier image that the sample agrees with.
    pub(crate) fn join<A: Convertible>(
        &self,
        walk: &mut Walk<A>,
        code: &mut Code<'_, A>,
        images: &mut Images,
    ) -> Option<Interned> {
        let image = images.find(self.dump)?;
        let ended = self.run(walk, code, image);
        let stack = self.finish(ended, walk, code, image)?;
        let drain = image.drain;
        images.trail.keep(walk, None, code.space.version(), Some((drain, self.dump.edge_start())));
        Some(stack)
    }

    /// Completes the walk by reading the live process, then checks that the sample's stack has not changed.
    pub(crate) fn read<A: Convertible>(
        &self,
        walk: &mut Walk<A>,
        code: &mut Code<'_, A>,
        images: &mut Images,
    ) -> Read {
        let image = match StackImage::capture(self.world, self.pid, self.dump, self.drain) {
            Ok(Some(image)) => images.push(image),
            Ok(None) => return Read::No,
            Err(ReadError::Refused) => return Read::Unreadable,
            Err(ReadError::Missing) => return Read::No,
        };
        let mut ended = self.run(walk, code, image);
        while matches!(ended, Ended::OutOfMemory(_))
            && image.can_grow()
            && image.grow(self.world, self.pid).is_ok()
        {
            ended = self.run(walk, code, image);
        }
        if StackImage::still_stands(self.world, self.pid, self.dump)
            && let Some(stack) = self.finish(ended, walk, code, image)
        {
            images.trail.keep(walk, None, code.space.version(), Some((self.drain, self.dump.edge_start())));
            return Read::Complete(stack);
        }
        images.drop_newest();
        Read::No
    }

    /// Continues behind a signal frame whose handler has its own stack: with an image of the interrupted
    /// stack from the same invocation of the handler, or by reading the live process.
    pub(crate) fn behind_signal<A: Convertible>(
        &self,
        frame: SignalFrame,
        walk: &mut Walk<A>,
        code: &mut Code<'_, A>,
        images: &mut Images,
    ) -> Read {
        let Some(state) = self.dump.signal_state(&frame) else { return Read::No };
        // Registers distinguish one invocation of a handler from the next, except if the program sends itself
        // the signal.
        if code.is_behind_system_call(frame.ip) {
            return Read::No;
        }
        if let Some(image) = images.interrupted.as_ref().filter(|image| image.agrees(&frame, self.dump)) {
            return match self.run_behind(walk, code, &image.stack) {
                Ended::Complete => complete(walk, code, true),
                _ => Read::No,
            };
        }
        let stands = || {
            let mut now = vec![0; state.len()];
            self.world
                .read_memory(self.pid, RunTimeAddress(frame.state), &mut now)
                .is_ok_and(|read| read == now.len())
                && now == state
        };
        if !stands() {
            return Read::No;
        }
        let mut stack = StackImage {
            base: frame.sp,
            bytes: Vec::new(),
            drain: self.drain,
            whole: false,
            tail: Vec::new(),
        };
        let mut ended = Ended::OutOfMemory(frame.sp);
        while matches!(ended, Ended::OutOfMemory(_)) && stack.can_grow() {
            match stack.grow(self.world, self.pid) {
                Err(ReadError::Refused) => return Read::Unreadable,
                Err(ReadError::Missing) => return Read::No,
                Ok(()) => ended = self.run_behind(walk, code, &stack),
            }
        }
        if ended != Ended::Complete || !stands() {
            return Read::No;
        }
        images.interrupted = Some(SignalImage { frame, state: state.to_vec(), stack });
        complete(walk, code, false)
    }

    fn run_behind<A: Convertible>(
        &self,
        walk: &mut Walk<A>,
        code: &mut Code<'_, A>,
        stack: &StackImage,
    ) -> Ended {
        let mut memory = |address| self.dump.read(address).or_else(|| stack.read(address));
        walk.run(code, &mut memory, |_, _, _| None)
    }

    fn run<A: Convertible>(&self, walk: &mut Walk<A>, code: &mut Code<'_, A>, image: &StackImage) -> Ended {
        let edge = self.dump.edge_start();
        let mut memory = |address| self.dump.read(address).or_else(|| image.read(address));
        walk.run(code, &mut memory, |sp, ip, bp| if sp >= edge { image.known(sp, ip, bp) } else { None })
    }

    fn finish<A: Convertible>(
        &self,
        ended: Ended,
        walk: &mut Walk<A>,
        code: &mut Code<'_, A>,
        image: &mut StackImage,
    ) -> Option<Interned> {
        match ended {
            Ended::Known(at) => walk.intern(code.builder, image.tail[at..].iter().map(|frame| frame.outer)),
            Ended::Complete => {
                let edge = self.dump.edge_start();
                let stack = walk.intern(code.builder, iter::empty());
                let frames = walk.frames.iter().zip(walk.outers.iter().rev());
                image.remember(
                    frames.filter(|(frame, _)| frame.sp >= edge).map(|(frame, &outer)| TailFrame {
                        sp: frame.sp,
                        ip: frame.ip,
                        bp: frame.bp,
                        outer,
                    }),
                );
                stack
            }
            Ended::OutOfMemory(_) | Ended::Lost => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(base: u64, bytes: Vec<u8>) -> StackImage {
        StackImage { base, bytes, drain: 0, whole: true, tail: Vec::new() }
    }

    #[test]
    fn one_changed_byte_in_the_edge_refuses_the_image() {
        let stack: Vec<u8> = (0..64 << 10).map(|at: u32| (at / 7) as u8).collect();
        let dump = Dump { sp: 0x10_0000, bytes: &stack[..32 << 10], cut: true };
        assert!(image(0x10_0000, stack.clone()).agrees(&dump));
        let mut other = stack.clone();
        other[(32 << 10) - EDGE] ^= 1;
        assert!(!image(0x10_0000, other).agrees(&dump));
        let mut inner = stack.clone();
        inner[(32 << 10) - EDGE - 1] ^= 1;
        assert!(image(0x10_0000, inner).agrees(&dump), "inner frames may have changed");
        assert!(
            !image(0x10_0000 + 8, stack.clone()).agrees(&dump),
            "same bytes at other addresses prove nothing"
        );
        assert!(
            !image(0x10_0000, stack[..16 << 10].to_vec()).agrees(&dump),
            "the image does not reach the edge"
        );
    }

    #[test]
    fn words_are_read_only_inside() {
        let bytes = [1u8; 24];
        let dump = Dump { sp: 0x1000, bytes: &bytes, cut: false };
        assert_eq!(dump.read(0x1010), Some(0x0101_0101_0101_0101));
        assert_eq!(dump.read(0x1011), None);
        assert_eq!(dump.read(0xff8), None);
        assert_eq!(dump.read(u64::MAX), None);
    }
}
