//! Call frame information: finds the rule for one address in the tables that a compiler wrote.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, DebugFrame, EhFrame, EhFrameHdr, EndianSlice, EvaluationResult,
    FrameDescriptionEntry, LittleEndian, Location, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow, Value, Vendor,
};

use whyslow_numbers::{FileAddress, RelativeAddress};
use whyslow_processor::Processor;

use crate::arch::Arch;
use crate::image::Image;
use crate::registers::{Register, Registers};
use crate::rule::{Memory, NO_SLOT, Rule, Step, StepError, is_restored};
use crate::trampoline::is_trampoline;

type Slice<'a> = EndianSlice<'a, LittleEndian>;
/// A row of the tables: the rules of all registers for a range of addresses.
pub type Row = UnwindTableRow<usize>;

/// Steps allowed for one DWARF expression.
const MAX_OPERATIONS: u32 = 1000;

/// The table entry of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<A: Arch> {
    /// How to step out of the frame.
    pub rule: Rule<A>,
    /// Whether the frame is the kernel's signal trampoline, so that its caller was interrupted and did not
    /// call.
    pub signal: bool,
    /// Whether the next address belongs to another entry of the tables, or to none.
    pub last: bool,
}

impl<A: Arch> Found<A> {
    /// A rule that is in no table.
    pub fn untabled(rule: Rule<A>) -> Self {
        Self { rule, signal: rule == Rule::SignalFrame, last: true }
    }
}

/// A full rule, for the few that do not fit [`Rule::Cfa`].
#[derive(Debug, Clone)]
struct UnusualRule {
    cfa: CfaRule<usize>,
    registers: Vec<(u8, RegisterRule<usize>)>,
    from_debug_frame: bool,
}

/// One function's entry in an index built by reading all entries.
#[derive(Debug, Clone, Copy)]
struct IndexRow {
    start: u64,
    end: u64,
    offset: usize,
}

/// The unwind tables of one image.
#[derive(Debug, Default)]
pub struct Cfi {
    context: UnwindContext<usize>,
    unusual: Vec<UnusualRule>,
    /// Built on first use, if `.eh_frame` has no search table.
    eh_index: Option<Vec<IndexRow>>,
    /// Built on first use.
    debug_index: Option<Vec<IndexRow>>,
}

impl Cfi {
    /// Looks up an address. Malformed tables count as missing.
    pub fn find<A: Arch>(&mut self, image: &Image, address: RelativeAddress) -> Found<A> {
        if image.starts_stack(address) {
            return Found::untabled(Rule::EndOfStack);
        }
        // Go has a table entry for it that does not mark it as a trampoline.
        if is_trampoline::<A>(image, address) {
            return Found::untabled(Rule::SignalFrame);
        }
        let bases = bases(image);
        let found = self
            .find_eh_frame(image, &bases, address)
            .or_else(|| self.find_debug_frame(image, &bases, address))
            .or_else(|| A::plt_rule(image, address).map(Found::untabled));
        found.unwrap_or(Found::untabled(Rule::Unknown))
    }

    /// The code around an address that one table entry describes: a function, or a part of one.
    pub fn function(&mut self, image: &Image, address: RelativeAddress) -> Option<Range<RelativeAddress>> {
        let bases = bases(image);
        if let Some(fde) = eh_frame(image).and_then(|section| self.eh_entry(image, &section, &bases, address))
        {
            return Some(RelativeAddress(fde.initial_address())..RelativeAddress(fde.end_address()));
        }
        let section = debug_frame(image)?;
        let index = self.debug_index.get_or_insert_with(|| index(&section, &bases));
        let base = image.base();
        let row = row_in(index, base.file(address).0)?;
        let relative = |address| base.relative(FileAddress(address));
        Some(relative(row.start)..relative(row.end))
    }

    fn eh_entry<'a>(
        &mut self,
        image: &'a Image,
        section: &EhFrame<Slice<'a>>,
        bases: &BaseAddresses,
        address: RelativeAddress,
    ) -> Option<FrameDescriptionEntry<Slice<'a>>> {
        match fde_by_header(image, section, bases, address.0) {
            Ok(fde) => fde,
            Err(NoTable) => {
                let index = self.eh_index.get_or_insert_with(|| index(section, bases));
                let offset = row_in(index, address.0)?.offset;
                section.fde_from_offset(bases, offset.into(), EhFrame::cie_from_offset).ok()
            }
        }
    }

    fn find_eh_frame<A: Arch>(
        &mut self,
        image: &Image,
        bases: &BaseAddresses,
        address: RelativeAddress,
    ) -> Option<Found<A>> {
        let section = eh_frame(image)?;
        let fde = self.eh_entry(image, &section, bases, address)?;
        self.rule_of(&section, &fde, bases, address.0, false)
    }

    fn find_debug_frame<A: Arch>(
        &mut self,
        image: &Image,
        bases: &BaseAddresses,
        address: RelativeAddress,
    ) -> Option<Found<A>> {
        let section = debug_frame(image)?;
        // Addresses in .debug_frame are the file's own.
        let address = image.base().file(address).0;
        let index = self.debug_index.get_or_insert_with(|| index(&section, bases));
        let offset = row_in(index, address)?.offset;
        let fde = section.fde_from_offset(bases, offset.into(), DebugFrame::cie_from_offset).ok()?;
        self.rule_of(&section, &fde, bases, address, true)
    }

    fn rule_of<'a, A: Arch, S: UnwindSection<Slice<'a>>>(
        &mut self,
        section: &S,
        fde: &FrameDescriptionEntry<Slice<'a>>,
        bases: &BaseAddresses,
        address: u64,
        from_debug_frame: bool,
    ) -> Option<Found<A>> {
        let signal = fde.is_signal_trampoline();
        let last = address.wrapping_add(1) == fde.end_address();
        let row = fde.unwind_info_for_address(section, bases, &mut self.context, address).ok()?;
        let rule = match usual::<A>(row) {
            Some(rule) => rule,
            None => {
                let registers = row.registers().map(|(register, rule)| (register.0 as u8, rule.clone()));
                let rule =
                    UnusualRule { cfa: row.cfa().clone(), registers: registers.collect(), from_debug_frame };
                self.unusual.push(rule);
                Rule::Unusual(self.unusual.len() as u32 - 1)
            }
        };
        Some(Found { rule, signal, last })
    }

    /// Applies a rule that this table numbered.
    pub(crate) fn apply_unusual<A: Arch>(
        &self,
        image: &Image,
        number: u32,
        registers: &mut Registers<A>,
        memory: &mut impl Memory,
    ) -> Result<Step, StepError> {
        let rule = self.unusual.get(number as usize).ok_or(StepError::Impossible)?;
        if rule.from_debug_frame {
            let section = debug_frame(image).ok_or(StepError::Impossible)?;
            apply(rule, &section, registers, memory)
        } else {
            let section = eh_frame(image).ok_or(StepError::Impossible)?;
            apply(rule, &section, registers, memory)
        }
    }
}

/// Section addresses for pointer decoding. `.eh_frame` is read as if the image were loaded at 0.
fn bases(image: &Image) -> BaseAddresses {
    BaseAddresses::default()
        .set_eh_frame_hdr(image.eh_frame_hdr.address.0)
        .set_eh_frame(eh_frame_address(image))
        .set_text(image.text.address.0)
        .set_got(image.got.address.0)
}

/// Without section headers, the search table gives the address of `.eh_frame`.
fn eh_frame_address(image: &Image) -> u64 {
    if image.eh_frame.is_empty() { eh_frame_pointer(image).unwrap_or(0) } else { image.eh_frame.address.0 }
}

fn eh_frame_pointer(image: &Image) -> Option<u64> {
    let bases = BaseAddresses::default().set_eh_frame_hdr(image.eh_frame_hdr.address.0);
    let header = EhFrameHdr::new(image.section(&image.eh_frame_hdr), LittleEndian).parse(&bases, 8).ok()?;
    header.eh_frame_ptr().direct().ok()
}

fn eh_frame(image: &Image) -> Option<EhFrame<Slice<'_>>> {
    let bytes = if !image.eh_frame.is_empty() {
        image.section(&image.eh_frame)
    } else if !image.eh_frame_hdr.is_empty() {
        image.code_at(RelativeAddress(eh_frame_pointer(image)?), usize::MAX)
    } else {
        return None;
    };
    let mut section = EhFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor(image));
    Some(section)
}

fn debug_frame(image: &Image) -> Option<DebugFrame<Slice<'_>>> {
    let bytes = match &image.debug_frame_unpacked {
        Some(bytes) => bytes,
        None => image.section(&image.debug_frame),
    };
    let mut section = DebugFrame::new(bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(vendor(image));
    (!bytes.is_empty()).then_some(section)
}

/// Whose additions to the standard the tables use.
fn vendor(image: &Image) -> Vendor {
    match image.processor() {
        Processor::X86_64 => Vendor::Default,
        Processor::Aarch64 => Vendor::AArch64,
    }
}

/// There is no usable search table.
struct NoTable;

fn fde_by_header<'a>(
    image: &'a Image,
    section: &EhFrame<Slice<'a>>,
    bases: &BaseAddresses,
    address: u64,
) -> Result<Option<FrameDescriptionEntry<Slice<'a>>>, NoTable> {
    let bytes = image.section(&image.eh_frame_hdr);
    let header = EhFrameHdr::new(bytes, LittleEndian).parse(bases, 8).map_err(|_| NoTable)?;
    let table = header.table().ok_or(NoTable)?;
    // gimli multiplies the number of rows without a check. A row is at least four bytes.
    if table.iter(bases).size_hint().0 > bytes.len() / 4 {
        return Err(NoTable);
    }
    let pointer = table.lookup(address, bases).and_then(gimli::Pointer::direct).map_err(|_| NoTable)?;
    let Some(offset) = pointer.checked_sub(eh_frame_address(image)).and_then(|at| usize::try_from(at).ok())
    else {
        return Ok(None);
    };
    let fde = section.fde_from_offset(bases, offset.into(), EhFrame::cie_from_offset).ok();
    Ok(fde.filter(|fde| fde.contains(address)))
}

/// All functions of a section without a search table.
fn index<'a, S: UnwindSection<Slice<'a>>>(section: &S, bases: &BaseAddresses) -> Vec<IndexRow> {
    let mut rows = Vec::new();
    let mut entries = section.entries(bases);
    // A malformed entry ends the list: later ones cannot be found anyway.
    while let Ok(Some(entry)) = entries.next() {
        if let gimli::CieOrFde::Fde(partial) = entry
            && let Ok(fde) = partial.parse(S::cie_from_offset)
        {
            rows.push(IndexRow {
                start: fde.initial_address(),
                end: fde.end_address(),
                offset: fde.offset(),
            });
        }
    }
    rows.sort_unstable_by_key(|row| row.start);
    rows
}

fn row_in(index: &[IndexRow], address: u64) -> Option<&IndexRow> {
    let at = index.partition_point(|row| row.start <= address).checked_sub(1)?;
    index.get(at).filter(|row| address < row.end)
}

/// The rule of a row, unless it is an unusual one.
fn usual<A: Arch>(row: &Row) -> Option<Rule<A>> {
    if row.register(gimli::Register(u16::from(A::RETURN_ADDRESS.0))) == Some(RegisterRule::Undefined) {
        return Some(Rule::EndOfStack);
    }
    A::compact(row).map(Rule::Cfa)
}

/// A row that needs no more than a register and an offset: these, and the slots of some registers in words from the
/// cfa. `None` for other rows.
pub(crate) fn compact_row<A: Arch, const N: usize>(
    row: &Row,
    saved: [Register; N],
) -> Option<(Register, i32, [i16; N])> {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    let count = A::ZEROS.as_ref().len();
    let base = u8::try_from(register.0).ok().filter(|number| usize::from(*number) < count)?;
    let mut slots = [NO_SLOT; N];
    for (register, rule) in row.registers() {
        let number = u8::try_from(register.0).ok()?;
        if A::SIGN_STATE == Some(Register(number)) {
            continue;
        }
        let Some(at) = saved.iter().position(|saved| saved.0 == number) else {
            match rule {
                // Other registers are not preserved across calls anyway.
                RegisterRule::Offset(_) | RegisterRule::SameValue | RegisterRule::Undefined => continue,
                _ => return None,
            }
        };
        match rule {
            RegisterRule::SameValue => {}
            RegisterRule::Offset(offset) if offset % 8 == 0 => {
                slots[at] = i16::try_from(offset / 8).ok().filter(|slot| *slot != NO_SLOT)?;
            }
            _ => return None,
        }
    }
    Some((Register(base), i32::try_from(*offset).ok()?, slots))
}

fn apply<'a, A: Arch, S: UnwindSection<Slice<'a>>>(
    rule: &UnusualRule,
    section: &S,
    registers: &mut Registers<A>,
    memory: &mut impl Memory,
) -> Result<Step, StepError> {
    let cfa = match &rule.cfa {
        CfaRule::RegisterAndOffset { register, offset } => {
            let base = registers.get(Register(register.0 as u8)).ok_or(StepError::Impossible)?;
            base.wrapping_add_signed(*offset)
        }
        CfaRule::Expression(expression) => evaluate(expression, section, None, registers, memory)?,
    };
    let mut caller = *registers;
    caller.keep_survivors();
    caller.set(A::SP, cfa);
    // A processor that calls through a register has the return address there until the function saves it.
    let mut ip = registers.get(A::RETURN_ADDRESS).filter(|_| A::RETURN_ADDRESS != A::IP);
    caller.forget(A::RETURN_ADDRESS);
    for (number, rule) in &rule.registers {
        let register = Register(*number);
        let value = match rule {
            RegisterRule::Undefined => None,
            RegisterRule::SameValue => registers.get(register),
            RegisterRule::Offset(offset) => {
                let address = cfa.wrapping_add_signed(*offset);
                let value = memory.read(address);
                if value.is_none() && register == A::RETURN_ADDRESS {
                    return Err(StepError::Memory(address));
                }
                value.or_else(|| registers.get(register).filter(|_| is_restored(address, registers)))
            }
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(*offset)),
            RegisterRule::Register(other) => registers.get(Register(other.0 as u8)),
            RegisterRule::Expression(expression) => {
                let address = evaluate(expression, section, Some(cfa), registers, memory)?;
                let value = memory.read(address);
                if value.is_none() && register == A::RETURN_ADDRESS {
                    return Err(StepError::Memory(address));
                }
                value
            }
            RegisterRule::ValExpression(expression) => {
                Some(evaluate(expression, section, Some(cfa), registers, memory)?)
            }
            RegisterRule::Constant(value) => Some(*value),
            _ => return Err(StepError::Impossible),
        };
        if register == A::RETURN_ADDRESS {
            ip = value;
            continue;
        }
        match value {
            Some(value) => caller.set(register, value),
            None => caller.forget(register),
        }
    }
    let ip = A::plain_address(ip.ok_or(StepError::Impossible)?);
    caller.set(A::IP, ip);
    *registers = caller;
    Ok(if ip == 0 { Step::End } else { Step::Caller })
}

fn evaluate<'a, A: Arch, S: UnwindSection<Slice<'a>>>(
    expression: &UnwindExpression<usize>,
    section: &S,
    initial: Option<u64>,
    registers: &Registers<A>,
    memory: &mut impl Memory,
) -> Result<u64, StepError> {
    let encoding = gimli::Encoding { address_size: 8, format: gimli::Format::Dwarf32, version: 5 };
    let expression = expression.get(section).map_err(|_| StepError::Impossible)?;
    let mut evaluation = expression.evaluation(encoding);
    evaluation.set_max_iterations(MAX_OPERATIONS);
    if let Some(initial) = initial {
        evaluation.set_initial_value(initial);
    }
    let mut result = evaluation.evaluate().map_err(|_| StepError::Impossible)?;
    loop {
        result = match result {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                let value = memory.read(address).ok_or(StepError::Memory(address))?;
                evaluation.resume_with_memory(Value::Generic(value))
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(Register(register.0 as u8)).ok_or(StepError::Impossible)?;
                evaluation.resume_with_register(Value::Generic(value))
            }
            _ => return Err(StepError::Impossible),
        }
        .map_err(|_| StepError::Impossible)?;
    }
    match evaluation.as_result().last().map(|piece| &piece.location) {
        Some(Location::Address { address }) => Ok(*address),
        _ => Err(StepError::Impossible),
    }
}
