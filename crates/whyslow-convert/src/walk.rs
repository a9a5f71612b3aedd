//! Walks one stack: from the registers of a sample outwards, frame by frame.

use whyslow_numbers::{RelativeAddress, RunTimeAddress};
use whyslow_profile::{Builder, LocationId, Outer, StackId};
use whyslow_unwind::{Found, Memory, Registers, Rule, Step, StepError};

use crate::arch::Convertible;
use crate::modules::CodeModule;
use crate::space::{AddressSpace, Mapping};
use crate::trail::Word;

/// More frames than any real stack has.
const MAX_FRAMES: usize = 250_000;

/// A frame of the walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WalkedFrame {
    pub(crate) location: LocationId,
    pub(crate) sp: u64,
    pub(crate) ip: u64,
    pub(crate) bp: u64,
    /// The number of words read before it.
    pub(crate) words: u32,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// At the outermost frame.
    Complete,
    /// At a frame whose outer frames are known, by its place among them.
    Known(usize),
    /// At missing memory: this address is needed.
    OutOfMemory(u64),
    /// At code that cannot be unwound.
    Lost,
}

/// A walk that can be resumed when more memory is available.
#[derive(Debug)]
pub(crate) struct Walk<A: Convertible> {
    pub(crate) frames: Vec<WalkedFrame>,
    /// The words that the steps used, as far as they lead from one frame to the next.
    pub(crate) words: Vec<Word>,
    /// Each frame once it is in the tree, outermost first.
    pub(crate) outers: Vec<Outer>,
    /// From here outwards, each frame begins with a return address and follows from the pointers of the
    /// previous one and from words alone.
    pub(crate) fixed_from: usize,
    registers: Registers<A>,
    /// Whether the instruction pointer is exact (innermost or interrupted), not a return address.
    exact: bool,
    /// Whether the current frame's location has been added.
    entered: bool,
    /// The last signal frame that was walked through.
    pub(crate) signal: Option<SignalFrame>,
}

/// Buffers for the next walk.
#[derive(Debug, Default)]
pub(crate) struct Spare {
    frames: Vec<WalkedFrame>,
    words: Vec<Word>,
    outers: Vec<Outer>,
}

/// A position in a walk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark<A: Convertible> {
    frames: usize,
    words: usize,
    fixed_from: usize,
    registers: Registers<A>,
    exact: bool,
    entered: bool,
    signal: Option<SignalFrame>,
}

/// A signal frame on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SignalFrame {
    /// The address of the interrupted code's saved state.
    pub(crate) state: u64,
    /// The instruction pointer of the interrupted code.
    pub(crate) ip: u64,
    pub(crate) sp: u64,
    /// The length of the saved state.
    pub(crate) state_len: usize,
}

/// The code that a walk passes through: the modules, where a process has them mapped, and the tables for the
/// locations.
pub(crate) struct Code<'a, A: Convertible> {
    pub(crate) modules: &'a mut [CodeModule<A>],
    pub(crate) space: &'a AddressSpace,
    pub(crate) builder: &'a mut Builder,
}

impl SignalFrame {
    /// Whether the handler has its own stack. Otherwise the kernel puts the frame close below the interrupted
    /// code's.
    pub(crate) fn is_on_another_stack(&self) -> bool {
        const FARTHEST: u64 = 32 << 10;
        self.sp.wrapping_sub(self.state) >= FARTHEST
    }
}

impl<A: Convertible> Code<'_, A> {
    /// Whether the instruction before an address is a system call.
    pub(crate) fn is_behind_system_call(&self, ip: u64) -> bool {
        self.space.find(RunTimeAddress(ip).minus(1)).is_some_and(|mapping| {
            let image = self.modules[mapping.module.at()].unwinder.image();
            let before = mapping.relative_address(RunTimeAddress(ip)).minus(A::SYSTEM_CALL.len() as u64);
            image.is_some_and(|image| image.code_at(before, A::SYSTEM_CALL.len()) == A::SYSTEM_CALL)
        })
    }
}

impl<A: Convertible> Walk<A> {
    /// Starts at a sample's registers, reusing the buffers of an earlier walk.
    pub(crate) fn start(registers: Registers<A>, spare: Spare) -> Self {
        let Spare { mut frames, mut words, mut outers } = spare;
        frames.clear();
        words.clear();
        outers.clear();
        Self { frames, words, outers, fixed_from: 1, registers, exact: true, entered: false, signal: None }
    }

    /// The buffers of a finished walk.
    pub(crate) fn into_spare(self) -> Spare {
        Spare { frames: self.frames, words: self.words, outers: self.outers }
    }

    /// The current position, for [`Self::rewind`].
    pub(crate) fn mark(&self) -> Mark<A> {
        let Self { fixed_from, registers, exact, entered, signal, .. } = *self;
        let (frames, words) = (self.frames.len(), self.words.len());
        Mark { frames, words, fixed_from, registers, exact, entered, signal }
    }

    /// Goes back to a position: the frames found since came from memory that turned out to be wrong.
    pub(crate) fn rewind(&mut self, mark: &Mark<A>) {
        self.frames.truncate(mark.frames);
        self.words.truncate(mark.words);
        self.fixed_from = mark.fixed_from;
        let Mark { registers, exact, entered, signal, .. } = *mark;
        (self.registers, self.exact, self.entered, self.signal) = (registers, exact, entered, signal);
    }

    /// Walks on until the end or until memory is missing. `known` may end the walk early at a frame whose
    /// outer frames are known already.
    pub(crate) fn run(
        &mut self,
        code: &mut Code<'_, A>,
        memory: &mut impl Memory,
        known: impl Fn(u64, u64, u64) -> Option<usize>,
    ) -> Ended {
        loop {
            if self.frames.len() >= MAX_FRAMES {
                return Ended::Lost;
            }
            let ip = self.registers.ip();
            if !self.exact
                && !self.entered
                && self.registers.has_fp()
                && let Some(place) = known(self.registers.sp(), ip, self.registers.fp())
            {
                return Ended::Known(place);
            }
            let address = RunTimeAddress(if self.exact { ip } else { ip.wrapping_sub(1) });
            let Some(mapping) = code.space.find(address) else {
                if self.frames.is_empty() {
                    let location = code.builder.location(None, RelativeAddress(address.0));
                    self.push(location);
                }
                return Ended::Lost;
            };
            let relative = mapping.relative_address(address);
            let module = &mut code.modules[mapping.module.at()];
            let (id, builder) = (module.id, &mut *code.builder);
            let (found, location) = module.unwinder.find(relative, |found| {
                // The kernel makes a signal handler return to the trampoline's first byte, without a call
                // before it.
                let at = if found.signal && !self.exact { relative.plus(1) } else { relative };
                builder.location(Some(id), at)
            });
            if !self.entered
                && !self.exact
                && (found.last || found.rule == Rule::Unknown)
                && let Some(location) = self.planted(mapping, code)
            {
                self.push(location);
                return Ended::Complete;
            }
            if !self.entered {
                self.push(location);
            }
            let sp = self.registers.sp();
            let step = if found.rule == Rule::Unknown {
                self.guess(found, mapping, code, memory)
            } else {
                let unwinder = &code.modules[mapping.module.at()].unwinder;
                match unwinder.step(found, relative, self.exact, &mut self.registers, memory) {
                    Err(StepError::Impossible) if !self.registers.has_fp() => {
                        self.step_without_frame_pointer(found, mapping, code, memory)
                    }
                    step => step,
                }
            };
            match step {
                Ok(Step::End) => {
                    // A cleared frame pointer ends a stack; it is not dereferenced.
                    if self.registers.sp() != sp {
                        self.note_words(found.rule);
                    }
                    return Ended::Complete;
                }
                Ok(step) => {
                    self.note_words(found.rule);
                    self.exact = step == Step::Interrupted;
                    self.entered = false;
                    if self.exact {
                        let (ip, sp_then) = (self.registers.ip(), self.registers.sp());
                        self.signal =
                            Some(SignalFrame { state: sp, ip, sp: sp_then, state_len: A::SIGNAL_STATE });
                        self.fixed_from = self.frames.len() + 1;
                    }
                }
                Err(StepError::Memory(address)) => return Ended::OutOfMemory(address),
                Err(StepError::Impossible) => {
                    self.fixed_from = self.frames.len();
                    return if self.is_entry(code) { Ended::Complete } else { Ended::Lost };
                }
            }
        }
    }

    /// Records the words that the last step depends on, in addition to the pointers of its frame. Called code
    /// without a rule is stepped out of by the frame pointer alone; from an exact address on nothing is
    /// reused.
    fn note_words(&mut self, rule: Rule<A>) {
        if rule == Rule::EndOfStack {
            return;
        }
        let (Some(saved), Some(fp)) = (A::saved_words(&rule), self.registers.get(A::FP)) else {
            self.fixed_from = self.frames.len();
            return;
        };
        let cfa = self.registers.sp();
        let word_at = |slot: i16| cfa.wrapping_add_signed(8 * i64::from(slot));
        // A signed return address differs from its word, so such a walk is not reused.
        self.words.push(Word { address: word_at(saved.return_address), value: self.registers.ip() });
        if let Some(slot) = saved.frame_pointer {
            self.words.push(Word { address: word_at(slot), value: fp });
        }
    }

    /// Steps out of a frame whose frame pointer is needed but unknown, using how far above the stack pointer
    /// the function sets it. Accepts only a step that leads to an address after a call instruction.
    fn step_without_frame_pointer(
        &mut self,
        found: Found<A>,
        mapping: Mapping,
        code: &mut Code<'_, A>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        let before = self.registers;
        let address = RunTimeAddress(if self.exact { before.ip() } else { before.ip().wrapping_sub(1) });
        let relative = mapping.relative_address(address);
        let distances = code.modules[mapping.module.at()].unwinder.frame_pointer_distances(relative);
        for distance in distances {
            self.registers.set(A::FP, before.sp().wrapping_add(distance));
            let unwinder = &code.modules[mapping.module.at()].unwinder;
            match unwinder.step(found, relative, self.exact, &mut self.registers, memory) {
                Ok(Step::End) => return Ok(Step::End),
                Ok(step) if self.is_believable(code) => return Ok(step),
                Err(StepError::Memory(address)) => {
                    self.registers = before;
                    return Err(StepError::Memory(address));
                }
                _ => self.registers = before,
            }
        }
        self.step_to_direct_call(found, mapping, code, memory)
    }

    /// The same for a frame of unknown size: the nearest return address on the stack behind a call of this
    /// very function.
    fn step_to_direct_call(
        &mut self,
        found: Found<A>,
        mapping: Mapping,
        code: &mut Code<'_, A>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        /// Frames larger than this many words are not searched.
        const WORDS: u64 = 512;
        let before = self.registers;
        let address = RunTimeAddress(if self.exact { before.ip() } else { before.ip().wrapping_sub(1) });
        let relative = mapping.relative_address(address);
        let unwinder = &mut code.modules[mapping.module.at()].unwinder;
        let Some(start) = unwinder.function_start(relative) else { return Err(StepError::Impossible) };
        let start = address.minus(relative.behind(start));
        for word in 0..WORDS {
            self.registers.set(A::FP, before.sp().wrapping_add(8 * word));
            let unwinder = &code.modules[mapping.module.at()].unwinder;
            match unwinder.step(found, relative, self.exact, &mut self.registers, memory) {
                Ok(Step::Caller) if self.is_behind_call_of(start, code) => return Ok(Step::Caller),
                Err(StepError::Memory(_)) => break,
                _ => self.registers = before,
            }
        }
        self.registers = before;
        Err(StepError::Impossible)
    }

    /// Whether the instruction before the current address calls a function directly.
    fn is_behind_call_of(&self, start: RunTimeAddress, code: &Code<'_, A>) -> bool {
        let ip = self.registers.ip();
        code.space.find(RunTimeAddress(ip).minus(1)).is_some_and(|mapping| {
            let image = code.modules[mapping.module.at()].unwinder.image();
            let before = mapping.relative_address(RunTimeAddress(ip)).minus(8);
            image.is_some_and(|image| A::call_target(image.code_at(before, 8), ip) == Some(start.0))
        })
    }

    /// Steps out of code without unwind information: by the frame pointer, or, for the innermost frame, as
    /// code without a frame. Accepts only a step that leads to an address after a call instruction.
    fn guess(
        &mut self,
        found: Found<A>,
        mapping: Mapping,
        code: &Code<'_, A>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        let before = self.registers;
        let address = RunTimeAddress(if self.exact { before.ip() } else { before.ip().wrapping_sub(1) });
        let relative = mapping.relative_address(address);
        let unwinder = &code.modules[mapping.module.at()].unwinder;
        let by_frame_pointer = unwinder.step(found, relative, self.exact, &mut self.registers, memory);
        match by_frame_pointer {
            Ok(Step::End) => return by_frame_pointer,
            Ok(_) if self.is_believable(code) => return by_frame_pointer,
            _ => self.registers = before,
        }
        if self.exact {
            let frameless = Found::untabled(A::FRAMELESS);
            let step = unwinder.step(frameless, relative, true, &mut self.registers, memory);
            if step == Ok(Step::Caller) && self.is_believable(code) {
                return step;
            }
            self.registers = before;
        }
        match by_frame_pointer {
            Err(StepError::Memory(address)) => Err(StepError::Memory(address)),
            _ => Err(StepError::Impossible),
        }
    }

    fn push(&mut self, location: LocationId) {
        let (sp, ip, bp) = (self.registers.sp(), self.registers.ip(), self.registers.fp());
        self.frames.push(WalkedFrame { location, sp, ip, bp, words: self.words.len() as u32 });
        self.entered = true;
    }

    /// Whether a step by the frame pointer, without unwind information, led to a return address.
    fn is_believable(&self, code: &Code<'_, A>) -> bool {
        let ip = RunTimeAddress(self.registers.ip());
        let Some(mapping) = code.space.find(ip.minus(1)) else { return false };
        let Some(image) = code.modules[mapping.module.at()].unwinder.image() else { return true };
        let relative = mapping.relative_address(ip);
        A::is_after_call(image.code_at(relative.minus(8), 8)) || image.starts_stack(relative.minus(1))
    }

    /// The location of a return address that no call instruction precedes: the creator of the stack put a
    /// function's address there, to run when the stack's first function returns. The stack begins here.
    fn planted(&self, mapping: Mapping, code: &mut Code<'_, A>) -> Option<LocationId> {
        let relative = mapping.relative_address(RunTimeAddress(self.registers.ip()));
        let module = &mut code.modules[mapping.module.at()];
        let image = module.unwinder.image()?;
        if A::is_after_call(image.code_at(relative.minus(8), 8)) {
            return None;
        }
        let id = module.id;
        module.unwinder.is_function_start(relative).then(|| code.builder.location(Some(id), relative))
    }

    /// The entry code of the loader and of some static programs has no caller, but its unwind information
    /// does not say so.
    fn is_entry(&self, code: &Code<'_, A>) -> bool {
        let ip = RunTimeAddress(self.registers.ip());
        code.space.find(ip).is_some_and(|mapping| {
            let image = code.modules[mapping.module.at()].unwinder.image();
            image.is_some_and(|image| image.is_entry_code(mapping.relative_address(ip)))
        })
    }

    /// Adds the frames to the tree of stacks, inside the known ones, which are innermost first. Returns the
    /// stack and the number of its frames.
    pub(crate) fn intern(
        &mut self,
        builder: &mut Builder,
        known: impl Iterator<Item = Outer> + Clone,
    ) -> Option<Interned> {
        self.outers.clear();
        let mut caller = known.clone().next();
        for frame in self.frames.iter().rev() {
            let outer = builder.call(caller, frame.location);
            self.outers.push(outer);
            caller = Some(outer);
        }
        let stack = builder.innermost(self.outers.iter().rev().copied().chain(known))?;
        Some(Interned { stack, depth: caller?.depth() })
    }
}

/// A stack in the tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interned {
    pub(crate) stack: StackId,
    /// The number of its frames, with those that are left out of a deep recursion.
    pub(crate) depth: u32,
}
