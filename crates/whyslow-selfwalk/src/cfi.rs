//! From `.eh_frame` in memory to one rule.
//!
//! The tables are those that the program's own exceptions and panics rely on; they are taken to be well-formed as far as their lengths go.

#![expect(unsafe_code, reason = "the tables lie in the process's own memory")]

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow,
};

use crate::Module;
use crate::rules::{Base, General, Rule, SIGNAL_RSP, SavedBp};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

const RBX: gimli::Register = gimli::X86_64::RBX;
const RBP: gimli::Register = gimli::X86_64::RBP;
const RSP: gimli::Register = gimli::X86_64::RSP;
const RIP: gimli::Register = gimli::X86_64::RA;
const DEREF: u8 = gimli::constants::DW_OP_deref.0;
const PLUS_CONSTANT: u8 = gimli::constants::DW_OP_plus_uconst.0;

/// Room for the rows of one function, without an allocator.
#[derive(Debug)]
pub(crate) struct Room;

impl UnwindContextStorage<usize> for Room {
    type Rules = [(gimli::Register, RegisterRule<usize>); 32];
    type Stack = [UnwindTableRow<usize, Self>; 4];
}

/// Working memory for one look-up. It is kept outside the stack: that of a signal handler or coroutine can be small.
pub(crate) type Context = UnwindContext<usize, Room>;

/// The rule for an address in a module.
///
/// # Safety
/// The module's addresses must be those of a mapped ELF image.
pub(crate) unsafe fn rule_at(module: &Module, address: u64, context: &mut Context) -> Rule {
    // SAFETY: the caller vouches for the module.
    unsafe { look_up(module, address, context) }.unwrap_or(Rule::UNKNOWN)
}

/// The bytes from an address to the end of its module.
///
/// # Safety
/// As for [`rule_at`].
unsafe fn bytes(module: &Module, from: u64) -> Option<&[u8]> {
    let len = module.end.checked_sub(from).filter(|_| from >= module.start)?;
    // SAFETY: the range lies in the module. Between segments there may be gaps, but a table does not reach into one.
    Some(unsafe { core::slice::from_raw_parts(from as *const u8, len as usize) })
}

/// A search table that lies outside of its module, because it was made later.
///
/// # Safety
/// There must be one.
unsafe fn table<'a>(from: u64) -> &'a [u8] {
    const MOST: usize = 64 << 20;
    // SAFETY: its length is in it, and no more is read.
    unsafe { core::slice::from_raw_parts(from as *const u8, MOST) }
}

unsafe fn look_up(module: &Module, address: u64, context: &mut Context) -> Option<Rule> {
    if module.eh_frame_hdr == 0 {
        return None;
    }
    let bases = BaseAddresses::default().set_eh_frame_hdr(module.eh_frame_hdr);
    // SAFETY: passed on.
    let header = unsafe { bytes(module, module.eh_frame_hdr).unwrap_or_else(|| table(module.eh_frame_hdr)) };
    let header = EhFrameHdr::new(header, LittleEndian);
    let header = header.parse(&bases, 8).ok()?;
    let start = header.eh_frame_ptr().direct().ok()?;
    let bases = bases.set_eh_frame(start);
    let entry = header.table()?.lookup(address, &bases).ok()?.direct().ok()?;
    // SAFETY: passed on.
    let mut section = EhFrame::new(unsafe { bytes(module, start) }?, LittleEndian);
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

/// An expression of the form `register + offset`.
fn address(
    expression: &UnwindExpression<usize>,
    section: &EhFrame<Slice<'_>>,
) -> Option<(gimli::Register, i64)> {
    let bytes = expression.get(section).ok()?.0;
    let (register, offset, rest) = register_and_offset(bytes.slice())?;
    rest.is_empty().then_some((register, offset))
}

/// An expression of the form `*(register + offset)`, with or without a constant that is added.
fn dereference(
    expression: &UnwindExpression<usize>,
    section: &EhFrame<Slice<'_>>,
) -> Option<(gimli::Register, i64, Option<i64>)> {
    let bytes = expression.get(section).ok()?.0;
    let (register, offset, rest) = register_and_offset(bytes.slice())?;
    let (&DEREF, rest) = rest.split_first()? else { return None };
    let second = match rest.split_first() {
        None => 0,
        Some((&PLUS_CONSTANT, rest)) => {
            let (value, rest) = unsigned(rest)?;
            if !rest.is_empty() {
                return None;
            }
            i64::try_from(value).ok()?
        }
        Some(_) => return None,
    };
    Some((register, offset, Some(second)))
}

fn register_and_offset(bytes: &[u8]) -> Option<(gimli::Register, i64, &[u8])> {
    let (&op, rest) = bytes.split_first()?;
    let register = op.checked_sub(gimli::constants::DW_OP_breg0.0).filter(|number| *number < 32)?;
    let (offset, rest) = signed(rest)?;
    Some((gimli::Register(u16::from(register)), offset, rest))
}

fn unsigned(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (at, byte) in bytes.iter().enumerate().take(9) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[at + 1..]));
        }
    }
    None
}

fn signed(bytes: &[u8]) -> Option<(i64, &[u8])> {
    let (value, rest) = unsigned(bytes)?;
    let bits = 7 * (bytes.len() - rest.len()) as u32;
    Some(((value << (64 - bits)).cast_signed() >> (64 - bits), rest))
}
