//! Decodes bytes into what instructions do.

use yaxpeax_arch::{Decoder as _, U8Reader};
use yaxpeax_arm::armv8::a64::{InstDecoder, Instruction as Decoded, Opcode, Operand, SIMDSizeCode, SizeCode};

use super::STACK_POINTER;
use crate::instruction::{Destination, Flow, Instruction, Lanes, Memory, Operation, Registers, Step, Value};

/// The length of every instruction, in bytes.
const LENGTH: u8 = 4;

/// Decodes code into instructions without gaps.
pub(crate) fn decode(bytes: &[u8], start: u64) -> Vec<Instruction> {
    let decoder = InstDecoder::default();
    let mut instructions = Vec::with_capacity(bytes.len() / 4 + 1);
    for (index, word) in bytes.chunks(LENGTH.into()).enumerate() {
        let address = start.wrapping_add(index as u64 * u64::from(LENGTH));
        let decoded = (word.len() == usize::from(LENGTH))
            .then(|| decoder.decode(&mut U8Reader::new(word)).ok())
            .flatten();
        instructions.push(match decoded {
            Some(decoded) => meaning(&decoded, address),
            // A chunk has at most four bytes.
            None => Instruction::unknown(address, word.len() as u8, Flow::Bad),
        });
    }
    instructions
}

fn meaning(decoded: &Decoded, address: u64) -> Instruction {
    let mut row = Instruction::unknown(address, LENGTH, flow(decoded, address));
    let packed = packed_bytes(decoded);
    (row.operation, row.lanes) = computes(decoded, packed);
    registers(decoded, &mut row);
    row.memory = memory(decoded);
    row.is_locked = is_atomic(decoded.opcode);
    row.sets = sets(decoded, address);
    row.step = step(decoded);
    row
}

fn target(decoded: &Decoded, address: u64) -> u64 {
    let offset = decoded.operands.iter().find_map(|operand| match operand {
        Operand::PCOffset(offset) => Some(*offset),
        _ => None,
    });
    address.wrapping_add_signed(offset.unwrap_or(0))
}

fn flow(decoded: &Decoded, address: u64) -> Flow {
    use Opcode as O;
    let register = || match general(&decoded.operands[0]) {
        Some(register) => Destination::Register(register),
        None => Destination::Memory,
    };
    match decoded.opcode {
        O::B => Flow::Jump(Destination::Code(target(decoded, address))),
        O::BL => Flow::Call(Destination::Code(target(decoded, address))),
        O::Bcc(_) | O::BCcc(_) | O::CBZ | O::CBNZ | O::TBZ | O::TBNZ => {
            Flow::Branch(target(decoded, address))
        }
        O::BR | O::BRAA | O::BRAAZ | O::BRAB | O::BRABZ => Flow::Jump(register()),
        O::BLR | O::BLRAA | O::BLRAAZ | O::BLRAB | O::BLRABZ => Flow::Call(register()),
        O::RET | O::RETAA | O::RETAB | O::ERET => Flow::Return,
        O::BRK | O::HLT | O::UDF => Flow::Stop,
        O::Invalid => Flow::Bad,
        _ => Flow::Next,
    }
}

/// The number of a general register among the operands; the zero register has none.
fn general(operand: &Operand) -> Option<u8> {
    match *operand {
        Operand::Register(_, number) | Operand::RegShift(_, _, _, number) => {
            u8::try_from(number).ok().filter(|number| *number < 31)
        }
        Operand::RegisterOrSP(_, number) | Operand::RegisterPair(_, number) => {
            u8::try_from(number).ok().filter(|number| *number <= STACK_POINTER)
        }
        _ => None,
    }
}

fn vector(operand: &Operand) -> Option<u8> {
    let number = match *operand {
        Operand::SIMDRegister(_, number)
        | Operand::SIMDRegisterElements(_, number, _)
        | Operand::SIMDRegisterElementsLane(_, number, _, _)
        | Operand::SIMDRegisterElementsMultipleLane(_, number, _, _, _)
        | Operand::SIMDRegisterGroup(_, number, _, _)
        | Operand::SIMDRegisterGroupLane(number, _, _, _) => number,
        _ => return None,
    };
    u8::try_from(number).ok().filter(|number| *number < 32).map(|number| number + Registers::FIRST_VECTOR)
}

fn any_register(operand: &Operand) -> Option<u8> {
    general(operand).or_else(|| vector(operand))
}

/// How memory is addressed.
struct Address {
    base: u8,
    /// A register and its factor.
    index: Option<(u8, u8)>,
    displacement: i64,
    /// By how much the access moves the base.
    moves: Option<i64>,
}

fn address_of(operand: &Operand) -> Option<Address> {
    let base = |number: u16| u8::try_from(number).ok().filter(|number| *number <= STACK_POINTER);
    let plain =
        |number: u16| Some(Address { base: base(number)?, index: None, displacement: 0, moves: None });
    match *operand {
        Operand::RegPreIndex(number, offset, moves) => Some(Address {
            displacement: offset.into(),
            moves: moves.then_some(offset.into()),
            ..plain(number)?
        }),
        Operand::RegPostIndex(number, offset) => {
            Some(Address { moves: Some(offset.into()), ..plain(number)? })
        }
        Operand::RegPostIndexReg(number, _) => Some(Address { moves: Some(0), ..plain(number)? }),
        Operand::RegRegOffset(number, index, _, _, shift) => {
            let index = u8::try_from(index).ok().filter(|index| *index < 31)?;
            Some(Address { index: Some((index, 1 << shift.min(4))), ..plain(number)? })
        }
        _ => None,
    }
}

/// Registers that are read and written. The first operand is written, unless the instruction only compares,
/// branches or stores.
fn registers(decoded: &Decoded, row: &mut Instruction) {
    use Opcode as O;
    let operands = &decoded.operands;
    let only_reads = is_store(decoded.opcode)
        || row.flow != Flow::Next
        || matches!(decoded.opcode, O::FCMP | O::FCMPE | O::CCMP | O::CCMN | O::FCCMP | O::FCCMPE);
    let written = match decoded.opcode {
        _ if only_reads => 0,
        O::LDP | O::LDPSW | O::LDNP | O::LDXP | O::LDAXP => 2,
        _ => 1,
    };
    for (index, operand) in operands.iter().enumerate() {
        if let Some(register) = any_register(operand) {
            if index < written {
                row.writes = row.writes.with(register);
            } else {
                row.reads = row.reads.with(register);
            }
        }
        if let Some(Address { base, index, moves, .. }) = address_of(operand) {
            row.reads = row.reads.with(base);
            if let Some((index, _)) = index {
                row.reads = row.reads.with(index);
            }
            if moves.is_some() {
                row.writes = row.writes.with(base);
            }
        }
    }
    // These also read the register that they write.
    if matches!(
        decoded.opcode,
        O::MOVK | O::BFM | O::FMLA | O::FMLS | O::MLA | O::MLS | O::INS | O::BSL | O::BIT | O::BIF
    ) && let Some(register) = any_register(&operands[0])
    {
        row.reads = row.reads.with(register);
    }
    let sets_flags = matches!(
        decoded.opcode,
        O::ADDS
            | O::SUBS
            | O::ANDS
            | O::BICS
            | O::ADCS
            | O::SBCS
            | O::FCMP
            | O::FCMPE
            | O::CCMP
            | O::CCMN
            | O::FCCMP
            | O::FCCMPE
    );
    if sets_flags {
        row.writes = row.writes.with(Registers::FLAGS);
    }
    if matches!(
        decoded.opcode,
        O::Bcc(_)
            | O::BCcc(_)
            | O::CSEL
            | O::CSINC
            | O::CSINV
            | O::CSNEG
            | O::FCSEL
            | O::CCMP
            | O::CCMN
            | O::ADC
            | O::SBC
    ) {
        row.reads = row.reads.with(Registers::FLAGS);
    }
}

fn is_store(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::STR
            | O::STRB
            | O::STRH
            | O::STRW
            | O::STUR
            | O::STURB
            | O::STURH
            | O::STP
            | O::STNP
            | O::STLR
            | O::STLRB
            | O::STLRH
            | O::ST1
            | O::ST2
            | O::ST3
            | O::ST4
            | O::STTR
            | O::STTRB
            | O::STTRH
            | O::STLUR
    )
}

fn is_load(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::LDR
            | O::LDRB
            | O::LDRH
            | O::LDRSB
            | O::LDRSH
            | O::LDRSW
            | O::LDUR
            | O::LDURB
            | O::LDURH
            | O::LDURSB
            | O::LDURSH
            | O::LDURSW
            | O::LDP
            | O::LDPSW
            | O::LDNP
            | O::LDAR
            | O::LDARB
            | O::LDARH
            | O::LD1
            | O::LD2
            | O::LD3
            | O::LD4
            | O::LD1R
            | O::LDAPR
            | O::LDTR
            | O::LDAPUR
    )
}

/// Whether an operation is atomic.
fn is_atomic(opcode: Opcode) -> bool {
    use Opcode as O;
    matches!(
        opcode,
        O::LDADD(_)
            | O::LDCLR(_)
            | O::LDEOR(_)
            | O::LDSET(_)
            | O::LDSMAX(_)
            | O::LDSMIN(_)
            | O::LDUMAX(_)
            | O::LDUMIN(_)
            | O::LDADDB(_)
            | O::LDADDH(_)
            | O::SWP(_)
            | O::SWPB(_)
            | O::SWPH(_)
            | O::CAS(_)
            | O::CASB(_)
            | O::CASH(_)
            | O::CASP(_)
            | O::LDXR
            | O::LDAXR
            | O::STXR
            | O::STLXR
    )
}

fn memory(decoded: &Decoded) -> Option<Memory> {
    use Opcode as O;
    let (is_read, is_written) = (is_load(decoded.opcode), is_store(decoded.opcode));
    if !is_read && !is_written {
        return None;
    }
    let Address { base, index, displacement, moves } = decoded.operands.iter().find_map(address_of)?;
    let size = match decoded.opcode {
        O::LDRB | O::LDRSB | O::STRB | O::LDURB | O::STURB | O::LDURSB => 1,
        O::LDRH | O::LDRSH | O::STRH | O::LDURH | O::STURH | O::LDURSH => 2,
        O::LDRSW | O::LDURSW => 4,
        O::LDP | O::STP | O::LDNP | O::STNP => 2 * operand_bytes(&decoded.operands[0]),
        _ => operand_bytes(&decoded.operands[0]),
    };
    Some(Memory {
        base: Some(base),
        index: index.map(|(index, _)| index),
        scale: index.map_or(1, |(_, scale)| scale),
        displacement,
        size,
        is_read,
        is_written,
        moves_base: moves,
    })
}

fn operand_bytes(operand: &Operand) -> u32 {
    let vector = |size: SIMDSizeCode| match size {
        SIMDSizeCode::B => 1,
        SIMDSizeCode::H => 2,
        SIMDSizeCode::S => 4,
        SIMDSizeCode::D => 8,
        SIMDSizeCode::Q => 16,
    };
    match *operand {
        Operand::Register(SizeCode::W, _) => 4,
        Operand::SIMDRegister(size, _) | Operand::SIMDRegisterElements(size, _, _) => vector(size),
        Operand::SIMDRegisterGroup(size, _, _, count) => vector(size) * u32::from(count),
        _ => 8,
    }
}

/// The size of the vectors in bytes.
fn packed_bytes(decoded: &Decoded) -> Option<u8> {
    decoded.operands.iter().find_map(|operand| match operand {
        Operand::SIMDRegisterElements(SIMDSizeCode::Q, _, _) | Operand::SIMDRegister(SIMDSizeCode::Q, _) => {
            Some(16)
        }
        Operand::SIMDRegisterElements(SIMDSizeCode::D, _, _) => Some(8),
        _ => None,
    })
}

/// The value of the written register afterwards, if known.
fn sets(decoded: &Decoded, address: u64) -> Option<Value> {
    match (decoded.opcode, &decoded.operands[1]) {
        (Opcode::MOVZ, Operand::ImmShift(number, shift)) => {
            Some(Value::Constant(u64::from(*number).checked_shl((*shift).into()).unwrap_or(0)))
        }
        (Opcode::MOVZ, Operand::Imm16(number)) => Some(Value::Constant((*number).into())),
        (Opcode::ADRP, Operand::PCOffset(offset)) => {
            Some(Value::Address((address & !0xfff).wrapping_add_signed(*offset)))
        }
        (Opcode::ADR, Operand::PCOffset(offset)) => {
            Some(Value::Address(address.wrapping_add_signed(*offset)))
        }
        _ => None,
    }
}

/// What the instruction adds to the register that it writes.
fn step(decoded: &Decoded) -> Option<Step> {
    let sign = match decoded.opcode {
        Opcode::ADD | Opcode::ADDS => 1,
        Opcode::SUB | Opcode::SUBS => -1,
        _ => return None,
    };
    let [to, from, by, _] = &decoded.operands;
    if general(to)? != general(from)? {
        return None;
    }
    match by {
        Operand::Immediate(number) => Some(Step::By(sign * i64::from(*number))),
        Operand::Imm64(number) => Some(Step::By(number.cast_signed().checked_mul(sign)?)),
        Operand::Imm16(number) => Some(Step::By(sign * i64::from(*number))),
        Operand::ImmShift(number, shift) => Some(Step::By(sign * (i64::from(*number) << (*shift).min(12)))),
        by => general(by).filter(|_| sign == 1).map(Step::ByRegister),
    }
}

fn computes(decoded: &Decoded, packed: Option<u8>) -> (Operation, Lanes) {
    use Opcode as O;
    use Operation as P;
    let float = packed.map_or(Lanes::ScalarFloat, Lanes::PackedFloat);
    let integer = packed.map_or(Lanes::General, Lanes::PackedInteger);
    let is_zero = |at: usize| matches!(decoded.operands[at], Operand::Register(_, 31));
    match decoded.opcode {
        opcode if is_load(opcode) || is_store(opcode) => match vector(&decoded.operands[0]) {
            Some(_) => (P::Copy, float),
            None => (P::Copy, Lanes::General),
        },
        O::SUBS | O::ADDS | O::ANDS if is_zero(0) => (P::Compare, Lanes::General),
        O::CCMP | O::CCMN => (P::Compare, Lanes::General),
        O::ADD
        | O::ADDS
        | O::SUB
        | O::SUBS
        | O::ADC
        | O::SBC
        | O::ADDV
        | O::ADDP
        | O::UADDLV
        | O::UADDW
        | O::UADDW2
        | O::UADDL
        | O::UADDL2
        | O::SADDW
        | O::SADDW2 => (P::Add, integer),
        O::MADD
        | O::MSUB
        | O::SMULH
        | O::UMULH
        | O::UMADDL
        | O::SMADDL
        | O::UMSUBL
        | O::SMSUBL
        | O::MUL
        | O::MLA
        | O::MLS
        | O::UMULL
        | O::UMULL2
        | O::SMULL
        | O::SMULL2
        | O::UMLAL
        | O::UMLAL2 => (P::Multiply, integer),
        O::UDIV | O::SDIV => (P::Divide, Lanes::General),
        O::ORR if is_zero(1) => (P::Copy, Lanes::General),
        O::MOVZ | O::MOVN | O::ADR | O::ADRP => (P::Copy, Lanes::General),
        O::AND
        | O::ANDS
        | O::ORR
        | O::ORN
        | O::EOR
        | O::EON
        | O::BIC
        | O::BICS
        | O::LSLV
        | O::LSRV
        | O::ASRV
        | O::RORV
        | O::UBFM
        | O::SBFM
        | O::BFM
        | O::EXTR
        | O::CLZ
        | O::RBIT
        | O::REV
        | O::CSEL
        | O::CSINC
        | O::CSINV
        | O::CSNEG
        | O::MOVK
        | O::CMEQ
        | O::CMGT
        | O::CMHI
        | O::CMHS
        | O::UMAX
        | O::UMIN
        | O::SMAX
        | O::SMIN
        | O::SHL
        | O::USHR
        | O::SSHR
        | O::CNT => (P::Bits, integer),
        O::FADD | O::FSUB | O::FADDP | O::FABD => (P::Add, float),
        O::FMUL | O::FNMUL | O::FMULX => (P::Multiply, float),
        O::FMADD | O::FMSUB | O::FNMADD | O::FNMSUB | O::FMLA | O::FMLS => (P::MultiplyAdd, float),
        O::FDIV => (P::Divide, float),
        O::FSQRT => (P::SquareRoot, float),
        O::SCVTF | O::UCVTF | O::FCVTZS | O::FCVTZU | O::FCVTNS | O::FCVTMS | O::FCVTPS | O::FCVTAS => {
            (P::Convert, float)
        }
        O::FCMP | O::FCMPE | O::FCCMP | O::FCCMPE => (P::Compare, float),
        O::FMAX | O::FMIN | O::FMAXNM | O::FMINNM | O::FABS | O::FNEG | O::FCSEL | O::FCMGT | O::FCMGE => {
            (P::Bits, float)
        }
        O::FMOV => (P::Copy, float),
        _ => (P::Other, Lanes::General),
    }
}
