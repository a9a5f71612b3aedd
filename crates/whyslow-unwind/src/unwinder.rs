//! The rules of one module, cached by address.

use rustc_hash::FxHashMap;
use whyslow_numbers::RelativeAddress;

use crate::arch::Arch;
use crate::cfi::{Cfi, Found};
use crate::image::Image;
use crate::registers::Registers;
use crate::rule::{Memory, Rule, Step, StepError, apply_signal_frame};
use crate::trampoline::is_trampoline;

/// One module's rules for a processor. `T` is the caller's data for each address.
#[derive(Debug)]
pub struct Unwinder<A: Arch, T> {
    image: Option<Image>,
    cfi: Cfi,
    known: FxHashMap<RelativeAddress, (Found<A>, T)>,
}

impl<A: Arch, T: Copy> Unwinder<A, T> {
    /// Rules for an image. Without one, or with one for another processor, only the frame pointer can be followed.
    pub fn new(image: Option<Image>) -> Self {
        let image = image.filter(|image| image.processor() == A::PROCESSOR);
        Self { image, cfi: Cfi::default(), known: FxHashMap::default() }
    }

    /// The image.
    pub fn image(&self) -> Option<&Image> {
        self.image.as_ref()
    }

    /// The rule at a relative address. `remember` is called once per address.
    ///
    /// For a caller's frame pass the address of its call instruction (return address minus one): the return
    /// address itself may already belong to the next function.
    #[inline]
    pub fn find(&mut self, address: RelativeAddress, remember: impl FnOnce(Found<A>) -> T) -> (Found<A>, T) {
        if let Some(&known) = self.known.get(&address) {
            return known;
        }
        let found = match &self.image {
            Some(image) => self.cfi.find(image, address),
            None => Found::untabled(Rule::Unknown),
        };
        let known = (found, remember(found));
        self.known.insert(address, known);
        known
    }

    /// Whether a relative address is in the code that signal handlers return to, or right before it.
    pub fn is_trampoline(&self, address: RelativeAddress) -> bool {
        self.image.as_ref().is_some_and(|image| is_trampoline::<A>(image, address))
    }

    /// Whether a table has a function that starts at this relative address.
    pub fn is_function_start(&mut self, address: RelativeAddress) -> bool {
        let Self { image, cfi, .. } = self;
        let function = image.as_ref().and_then(|image| cfi.function(image, address));
        function.is_some_and(|function| function.start == address)
    }

    /// The possible distances of the frame pointer above the stack pointer at a call in the function of a
    /// relative address, for a frame whose frame pointer is unknown. The caller must check where each
    /// distance leads.
    pub fn frame_pointer_distances(&mut self, address: RelativeAddress) -> Vec<u64> {
        /// A function has set up its frame within this many bytes.
        const PROLOGUE: usize = 160;
        let Self { image, cfi, .. } = self;
        let Some(image) = image else { return Vec::new() };
        let Some(function) = cfi.function(image, address) else { return Vec::new() };
        let len =
            usize::try_from(address.0.saturating_sub(function.start.0)).unwrap_or(PROLOGUE).min(PROLOGUE);
        A::frame_pointer_distances(image.code_at(function.start, len))
    }

    /// The start of the function at a relative address, by the tables.
    pub fn function_start(&mut self, address: RelativeAddress) -> Option<RelativeAddress> {
        let Self { image, cfi, .. } = self;
        Some(cfi.function(image.as_ref()?, address)?.start)
    }

    /// Steps from a frame in this module to its caller. `innermost` frames were interrupted at `address`; in
    /// others the frame pointer, if used at all, is set up.
    #[inline]
    pub fn step(
        &self,
        found: Found<A>,
        address: RelativeAddress,
        innermost: bool,
        registers: &mut Registers<A>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        let step = match found.rule {
            Rule::Cfa(ref cfa) => A::apply(cfa, registers, memory)?,
            Rule::EndOfStack => return Ok(Step::End),
            Rule::SignalFrame => apply_signal_frame(registers, memory)?,
            Rule::Unusual(number) => {
                let image = self.image.as_ref().ok_or(StepError::Impossible)?;
                self.cfi.apply_unusual(image, number, registers, memory)?
            }
            Rule::Unknown => self.step_without_rule(address, innermost, registers, memory)?,
        };
        Ok(if step == Step::Caller && found.signal { Step::Interrupted } else { step })
    }

    fn step_without_rule(
        &self,
        address: RelativeAddress,
        innermost: bool,
        registers: &mut Registers<A>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        let cfa = A::untabled_rule(self.image.as_ref(), address, innermost);
        if A::base(&cfa) == A::FP && !registers.has_fp() {
            return Err(StepError::Impossible);
        }
        if A::base(&cfa) == A::FP && registers.fp() == 0 {
            // A cleared frame pointer marks the outermost frame, but only a caller is known to use it in this
            // way.
            return if innermost { Err(StepError::Impossible) } else { Ok(Step::End) };
        }
        A::apply(&cfa, registers, memory)
    }
}
