//! Turns `.eh_frame` in memory into one rule.
//!
//! These are the tables that the program's own exceptions and panics rely on.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EndianSlice, Format, LittleEndian, Operation,
    OperationIter, RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression, UnwindSection,
    UnwindTableRow,
};

use super::rule::{Base, General, Rule, SIGNAL_RSP, SavedBp};
use crate::Module;

type Slice<'a> = EndianSlice<'a, LittleEndian>;

const RBX: gimli::Register = gimli::X86_64::RBX;
const RBP: gimli::Register = gimli::X86_64::RBP;
const RSP: gimli::Register = gimli::X86_64::RSP;
const RIP: gimli::Register = gimli::X86_64::RA;

/// Room for the rows of one function, without an allocator.
#[derive(Debug)]
pub(crate) struct Room;

impl UnwindContextStorage<usize> for Room {
    type Rules = [(gimli::Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// Working memory for one lookup. It is not on the stack, because the stack of a signal handler or coroutine
/// can be small.
pub(crate) type Context = UnwindContext<usize, Room>;

/// The rule for an address in a module.
pub(crate) fn rule_at(module: &Module<'_>, address: u64, context: &mut Context) -> Rule {
    look_up(module, address, context).unwrap_or(Rule::UNKNOWN)
}

fn look_up(module: &Module<'_>, address: u64, context: &mut Context) -> Option<Rule> {
    let (at, table) = module.search_table()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(at);
    let header = EhFrameHdr::new(table, LittleEndian).parse(&bases, 8).ok()?;
    let start = header.eh_frame_ptr().direct().ok()?;
    let bases = bases.set_eh_frame(start);
    let entry = header.table()?.lookup(address, &bases).ok()?.direct().ok()?;
    let mut section = EhFrame::new(module.bytes(start)?, LittleEndian);
    section.set_address_size(8);
    let offset = usize::try_from(entry.checked_sub(start)?).ok()?;
    let fde = section.fde_from_offset(&bases, offset.into(), EhFrame::cie_from_offset).ok()?;
    if !fde.contains(address) {
        return None;
    }
    let row = fde.unwind_info_for_address(&section, &bases, context, address).ok()?;
    from_row(row, &section, fde.is_signal_trampoline())
}

fn from_row(row: &UnwindTableRow<usize, Room>, section: &EhFrame<Slice<'_>>, signal: bool) -> Option<Rule> {
    let return_rule = row.register(RIP);
    if return_rule == Some(RegisterRule::Undefined) {
        return Some(Rule::END);
    }
    let (base, first, second) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => (*register, *offset, None),
        CfaRule::Expression(expression) => dereference(expression, section)?,
    };
    if signal && base == RSP && first == SIGNAL_RSP.cast_signed() && second == Some(0) {
        return Some(Rule::SIGNAL);
    }
    let Some(RegisterRule::Offset(return_offset)) = return_rule else { return None };
    let bp = match row.register(RBP) {
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => SavedBp::Kept,
        Some(RegisterRule::Offset(offset)) => SavedBp::FromCfa(words(offset)?),
        Some(RegisterRule::Expression(expression)) => match address(&expression, section)? {
            (RBP, offset) => SavedBp::FromBp(words(offset)?),
            _ => return None,
        },
        Some(_) => return None,
    };
    let bx_words = match row.register(RBX) {
        Some(RegisterRule::Offset(offset)) => words(offset),
        _ => None,
    };
    let base = match base {
        RSP => Base::Sp,
        RBP => Base::Bp,
        RBX => Base::Bx,
        _ => return None,
    };
    let general = General { base, first, second, return_words: words(return_offset)?, bp, bx_words };
    Rule::simple(&general).or_else(|| Rule::general(&general))
}

fn words(offset: i64) -> Option<i64> {
    (offset % 8 == 0).then_some(offset / 8)
}

/// The encoding of unwind tables on x86-64.
const ENCODING: Encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 4 };

/// An expression of the form `register + offset`.
fn address(
    expression: &UnwindExpression<usize>,
    section: &EhFrame<Slice<'_>>,
) -> Option<(gimli::Register, i64)> {
    let mut operations = expression.get(section).ok()?.operations(ENCODING);
    let sum = register_and_offset(&mut operations)?;
    operations.next().ok()?.is_none().then_some(sum)
}

/// An expression of the form `*(register + offset)`, optionally plus a constant.
fn dereference(
    expression: &UnwindExpression<usize>,
    section: &EhFrame<Slice<'_>>,
) -> Option<(gimli::Register, i64, Option<i64>)> {
    let mut operations = expression.get(section).ok()?.operations(ENCODING);
    let (register, offset) = register_and_offset(&mut operations)?;
    let Some(Operation::Deref { size: 8, space: false, .. }) = operations.next().ok()? else { return None };
    let second = match operations.next().ok()? {
        None => 0,
        Some(Operation::PlusConstant { value }) if operations.next().ok()?.is_none() => {
            i64::try_from(value).ok()?
        }
        Some(_) => return None,
    };
    Some((register, offset, Some(second)))
}

fn register_and_offset(operations: &mut OperationIter<Slice<'_>>) -> Option<(gimli::Register, i64)> {
    match operations.next().ok()?? {
        Operation::RegisterOffset { register, offset, .. } => Some((register, offset)),
        _ => None,
    }
}
