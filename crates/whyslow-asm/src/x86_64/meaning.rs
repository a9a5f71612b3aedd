//! Decodes bytes into what instructions do.

use iced_x86::{
    Decoder, DecoderError, DecoderOptions, FlowControl, InstructionInfoFactory, InstructionInfoOptions,
    Mnemonic, OpAccess, OpKind, Register,
};

use crate::instruction::{Destination, Flow, Instruction, Lanes, Memory, Operation, Registers, Step, Value};

/// Decodes code into instructions without gaps.
pub(crate) fn decode(bytes: &[u8], start: u64) -> Vec<Instruction> {
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut info = InstructionInfoFactory::new();
    // Instructions are four bytes long on average.
    let mut instructions = Vec::with_capacity(bytes.len() / 4);
    let mut decoded = iced_x86::Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut decoded);
        // An instruction has at most 15 bytes.
        let (address, mut length) = (decoded.ip(), decoded.len() as u8);
        if decoded.is_invalid() {
            // The next byte may start an instruction, however many bytes the decoder has read.
            let skipped = usize::from(length).saturating_sub(1);
            if decoder.last_error() != DecoderError::NoMoreBytes
                && decoder.set_position(decoder.position() - skipped).is_ok()
            {
                decoder.set_ip(address.wrapping_add(1));
                length = 1;
            }
            instructions.push(Instruction::unknown(address, length, Flow::Bad));
        } else {
            instructions.push(meaning(&decoded, &mut info));
        }
    }
    instructions
}

fn meaning(decoded: &iced_x86::Instruction, factory: &mut InstructionInfoFactory) -> Instruction {
    let (operation, lanes) = computes(decoded);
    let mut instruction = Instruction {
        operation,
        lanes,
        sets: sets(decoded),
        step: step(decoded),
        ..Instruction::unknown(decoded.ip(), decoded.len() as u8, flow(decoded))
    };
    let info = factory.info_options(decoded, InstructionInfoOptions::NONE);
    for used in info.used_registers() {
        let Some(register) = number(used.register()) else { continue };
        let (reads, writes) = accesses(used.access());
        if reads {
            instruction.reads = instruction.reads.with(register);
        }
        if writes {
            instruction.writes = instruction.writes.with(register);
        }
    }
    if decoded.rflags_read() != 0 {
        instruction.reads = instruction.reads.with(Registers::FLAGS);
    }
    if decoded.rflags_modified() != 0 {
        instruction.writes = instruction.writes.with(Registers::FLAGS);
    }
    if (0..decoded.op_count()).any(|operand| decoded.op_kind(operand) == OpKind::Memory) {
        let used = info.used_memory().first();
        let access = used.map_or((false, false), |used| accesses(used.access()));
        let relative = decoded.is_ip_rel_memory_operand();
        instruction.memory = (access != (false, false)).then(|| Memory {
            base: number(decoded.memory_base()),
            index: number(decoded.memory_index()),
            // 1, 2, 4 or 8.
            scale: decoded.memory_index_scale() as u8,
            displacement: if relative { 0 } else { decoded.memory_displacement64().cast_signed() },
            // At most 64 bytes, or a few hundred for saved processor state.
            size: decoded.memory_size().size() as u32,
            is_read: access.0,
            is_written: access.1,
            moves_base: None,
        });
    }
    let exchange = decoded.mnemonic() == Mnemonic::Xchg && instruction.memory.is_some();
    instruction.is_locked = decoded.has_lock_prefix() || exchange;
    instruction
}

fn accesses(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write => (false, true),
        OpAccess::CondWrite | OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

/// A register's number in [`Registers`]. A part of a register counts as the whole.
fn number(register: Register) -> Option<u8> {
    let full = register.full_register();
    if full.is_gpr64() {
        u8::try_from(full.number()).ok().filter(|number| *number < Registers::FIRST_VECTOR)
    } else if full.is_vector_register() {
        // There are 32.
        u8::try_from(full.number())
            .ok()
            .filter(|number| *number < 32)
            .map(|number| number + Registers::FIRST_VECTOR)
    } else {
        None
    }
}

fn flow(decoded: &iced_x86::Instruction) -> Flow {
    let target = decoded.near_branch_target();
    match decoded.flow_control() {
        FlowControl::Next if decoded.mnemonic() == Mnemonic::Hlt => Flow::Stop,
        FlowControl::Next | FlowControl::XbeginXabortXend => Flow::Next,
        FlowControl::UnconditionalBranch => Flow::Jump(Destination::Code(target)),
        FlowControl::IndirectBranch => Flow::Jump(indirect(decoded)),
        FlowControl::ConditionalBranch => Flow::Branch(target),
        FlowControl::Return => Flow::Return,
        FlowControl::Call if decoded.mnemonic() == Mnemonic::Call => Flow::Call(Destination::Code(target)),
        // System calls.
        FlowControl::Call => Flow::Next,
        FlowControl::IndirectCall => Flow::Call(indirect(decoded)),
        FlowControl::Interrupt if decoded.mnemonic() == Mnemonic::Int => Flow::Next,
        FlowControl::Interrupt | FlowControl::Exception => Flow::Stop,
    }
}

fn indirect(decoded: &iced_x86::Instruction) -> Destination {
    if decoded.is_ip_rel_memory_operand() {
        return Destination::Slot(decoded.ip_rel_memory_address());
    }
    match decoded.op0_kind() {
        OpKind::Register => number(decoded.op0_register()).map_or(Destination::Memory, Destination::Register),
        _ => Destination::Memory,
    }
}

/// The value of the written register afterwards, if known.
fn sets(decoded: &iced_x86::Instruction) -> Option<Value> {
    let is_general = decoded.op_count() == 2
        && decoded.op0_kind() == OpKind::Register
        && (decoded.op0_register().is_gpr32() || decoded.op0_register().is_gpr64());
    if !is_general {
        return None;
    }
    match (decoded.mnemonic(), decoded.op1_kind()) {
        (Mnemonic::Mov, OpKind::Immediate32) => Some(Value::Constant(decoded.immediate32().into())),
        (Mnemonic::Mov, OpKind::Immediate32to64) => {
            Some(Value::Constant(decoded.immediate32to64().cast_unsigned()))
        }
        (Mnemonic::Mov, OpKind::Immediate64) => Some(Value::Constant(decoded.immediate64())),
        (Mnemonic::Xor, OpKind::Register) if decoded.op0_register() == decoded.op1_register() => {
            Some(Value::Constant(0))
        }
        (Mnemonic::Mov, OpKind::Memory)
            if decoded.is_ip_rel_memory_operand() && decoded.op0_register().is_gpr64() =>
        {
            Some(Value::LoadedFrom(decoded.ip_rel_memory_address()))
        }
        (Mnemonic::Lea, OpKind::Memory) if decoded.is_ip_rel_memory_operand() => {
            Some(Value::Address(decoded.ip_rel_memory_address()))
        }
        _ => None,
    }
}

/// What the instruction adds to a register.
fn step(decoded: &iced_x86::Instruction) -> Option<Step> {
    if decoded.op0_kind() != OpKind::Register {
        return None;
    }
    let register = decoded.op0_register();
    match (decoded.mnemonic(), decoded.op_count()) {
        (Mnemonic::Inc, 1) => Some(Step::By(1)),
        (Mnemonic::Dec, 1) => Some(Step::By(-1)),
        (Mnemonic::Add, 2) if decoded.op1_kind() == OpKind::Register => {
            number(decoded.op1_register()).map(Step::ByRegister)
        }
        (Mnemonic::Add, 2) => added(decoded).map(Step::By),
        (Mnemonic::Sub, 2) => added(decoded).and_then(i64::checked_neg).map(Step::By),
        (Mnemonic::Lea, 2)
            if decoded.memory_base() == register && decoded.memory_index() == Register::None =>
        {
            Some(Step::By(decoded.memory_displacement64().cast_signed()))
        }
        _ => None,
    }
}

/// The constant that is added.
fn added(decoded: &iced_x86::Instruction) -> Option<i64> {
    let is_constant = !matches!(decoded.op1_kind(), OpKind::Register | OpKind::Memory);
    is_constant.then(|| decoded.immediate(1).cast_signed())
}

/// The size in bytes of the widest vector register among the operands; 16 if there is only memory.
fn vector_bytes(decoded: &iced_x86::Instruction) -> u8 {
    let registers = (0..decoded.op_count())
        .filter(|&operand| decoded.op_kind(operand) == OpKind::Register)
        .map(|operand| decoded.op_register(operand))
        .filter(|register| register.is_vector_register());
    // 16, 32 or 64.
    registers.map(|register| register.size() as u8).max().unwrap_or(16)
}

#[expect(clippy::too_many_lines, reason = "a table of mnemonics")]
fn computes(decoded: &iced_x86::Instruction) -> (Operation, Lanes) {
    use Mnemonic as M;
    use Operation as O;
    let floats = || Lanes::PackedFloat(vector_bytes(decoded));
    let integers = || Lanes::PackedInteger(vector_bytes(decoded));
    if decoded.mnemonic() == M::Pause {
        return (O::Pause, Lanes::General);
    }
    let is_string = decoded.is_string_instruction();
    if is_string && (decoded.has_rep_prefix() || decoded.has_repne_prefix()) {
        return (O::RepeatedString, Lanes::General);
    }
    match decoded.mnemonic() {
        M::Mov | M::Movzx | M::Movsx | M::Movsxd | M::Lea => (O::Copy, Lanes::General),
        M::Add | M::Sub | M::Inc | M::Dec | M::Adc | M::Sbb | M::Neg => (O::Add, Lanes::General),
        M::Imul | M::Mul | M::Mulx => (O::Multiply, Lanes::General),
        M::Div | M::Idiv => (O::Divide, Lanes::General),
        M::Cmp | M::Test | M::Bt => (O::Compare, Lanes::General),
        M::And
        | M::Or
        | M::Xor
        | M::Not
        | M::Shl
        | M::Shr
        | M::Sar
        | M::Rol
        | M::Ror
        | M::Shlx
        | M::Shrx
        | M::Sarx
        | M::Rorx
        | M::Andn
        | M::Popcnt
        | M::Tzcnt
        | M::Lzcnt => (O::Bits, Lanes::General),

        M::Movss | M::Movsd | M::Vmovss | M::Vmovsd | M::Movd | M::Movq | M::Vmovd | M::Vmovq => {
            (O::Copy, Lanes::ScalarFloat)
        }
        M::Addss | M::Addsd | M::Vaddss | M::Vaddsd | M::Subss | M::Subsd | M::Vsubss | M::Vsubsd => {
            (O::Add, Lanes::ScalarFloat)
        }
        M::Mulss | M::Mulsd | M::Vmulss | M::Vmulsd => (O::Multiply, Lanes::ScalarFloat),
        M::Divss | M::Divsd | M::Vdivss | M::Vdivsd => (O::Divide, Lanes::ScalarFloat),
        M::Sqrtss | M::Sqrtsd | M::Vsqrtss | M::Vsqrtsd => (O::SquareRoot, Lanes::ScalarFloat),
        M::Ucomiss
        | M::Ucomisd
        | M::Comiss
        | M::Comisd
        | M::Vucomiss
        | M::Vucomisd
        | M::Vcomiss
        | M::Vcomisd => (O::Compare, Lanes::ScalarFloat),
        M::Minss | M::Minsd | M::Maxss | M::Maxsd | M::Vminss | M::Vminsd | M::Vmaxss | M::Vmaxsd => {
            (O::Bits, Lanes::ScalarFloat)
        }
        M::Cvtsi2ss
        | M::Cvtsi2sd
        | M::Vcvtsi2ss
        | M::Vcvtsi2sd
        | M::Vcvtusi2ss
        | M::Vcvtusi2sd
        | M::Cvttss2si
        | M::Cvttsd2si
        | M::Vcvttss2si
        | M::Vcvttsd2si
        | M::Cvtss2si
        | M::Cvtsd2si
        | M::Vcvtss2si
        | M::Vcvtsd2si
        | M::Vcvttss2usi
        | M::Vcvttsd2usi => (O::Convert, Lanes::ScalarFloat),
        M::Vfmadd132ss
        | M::Vfmadd213ss
        | M::Vfmadd231ss
        | M::Vfmadd132sd
        | M::Vfmadd213sd
        | M::Vfmadd231sd
        | M::Vfmsub132ss
        | M::Vfmsub213ss
        | M::Vfmsub231ss
        | M::Vfmsub132sd
        | M::Vfmsub213sd
        | M::Vfmsub231sd
        | M::Vfnmadd132ss
        | M::Vfnmadd213ss
        | M::Vfnmadd231ss
        | M::Vfnmadd132sd
        | M::Vfnmadd213sd
        | M::Vfnmadd231sd
        | M::Vfnmsub132ss
        | M::Vfnmsub213ss
        | M::Vfnmsub231ss
        | M::Vfnmsub132sd
        | M::Vfnmsub213sd
        | M::Vfnmsub231sd => (O::MultiplyAdd, Lanes::ScalarFloat),

        M::Addps | M::Addpd | M::Vaddps | M::Vaddpd | M::Subps | M::Subpd | M::Vsubps | M::Vsubpd => {
            (O::Add, floats())
        }
        M::Mulps | M::Mulpd | M::Vmulps | M::Vmulpd => (O::Multiply, floats()),
        M::Divps | M::Divpd | M::Vdivps | M::Vdivpd => (O::Divide, floats()),
        M::Sqrtps | M::Sqrtpd | M::Vsqrtps | M::Vsqrtpd => (O::SquareRoot, floats()),
        M::Cvtdq2ps
        | M::Cvtdq2pd
        | M::Vcvtdq2ps
        | M::Vcvtdq2pd
        | M::Cvttps2dq
        | M::Cvttpd2dq
        | M::Vcvttps2dq
        | M::Vcvttpd2dq => (O::Convert, floats()),
        M::Minps
        | M::Minpd
        | M::Maxps
        | M::Maxpd
        | M::Vminps
        | M::Vminpd
        | M::Vmaxps
        | M::Vmaxpd
        | M::Cmpps
        | M::Cmppd
        | M::Vcmpps
        | M::Vcmppd => (O::Bits, floats()),
        M::Vfmadd132ps
        | M::Vfmadd213ps
        | M::Vfmadd231ps
        | M::Vfmadd132pd
        | M::Vfmadd213pd
        | M::Vfmadd231pd
        | M::Vfmsub132ps
        | M::Vfmsub213ps
        | M::Vfmsub231ps
        | M::Vfmsub132pd
        | M::Vfmsub213pd
        | M::Vfmsub231pd
        | M::Vfnmadd132ps
        | M::Vfnmadd213ps
        | M::Vfnmadd231ps
        | M::Vfnmadd132pd
        | M::Vfnmadd213pd
        | M::Vfnmadd231pd
        | M::Vfnmsub132ps
        | M::Vfnmsub213ps
        | M::Vfnmsub231ps
        | M::Vfnmsub132pd
        | M::Vfnmsub213pd
        | M::Vfnmsub231pd => (O::MultiplyAdd, floats()),

        M::Paddb
        | M::Paddw
        | M::Paddd
        | M::Paddq
        | M::Vpaddb
        | M::Vpaddw
        | M::Vpaddd
        | M::Vpaddq
        | M::Psubb
        | M::Psubw
        | M::Psubd
        | M::Psubq
        | M::Vpsubb
        | M::Vpsubw
        | M::Vpsubd
        | M::Vpsubq
        | M::Psadbw
        | M::Vpsadbw => (O::Add, integers()),
        M::Pmulld
        | M::Pmullw
        | M::Pmuludq
        | M::Pmuldq
        | M::Pmulhw
        | M::Pmulhuw
        | M::Pmaddwd
        | M::Pmaddubsw
        | M::Vpmulld
        | M::Vpmullw
        | M::Vpmuludq
        | M::Vpmuldq
        | M::Vpmulhw
        | M::Vpmulhuw
        | M::Vpmaddwd
        | M::Vpmaddubsw
        | M::Vpmullq => (O::Multiply, integers()),
        M::Pand
        | M::Por
        | M::Pxor
        | M::Pandn
        | M::Vpand
        | M::Vpor
        | M::Vpxor
        | M::Vpandn
        | M::Vpandd
        | M::Vpandq
        | M::Vpord
        | M::Vporq
        | M::Vpxord
        | M::Vpxorq
        | M::Pcmpeqb
        | M::Pcmpeqw
        | M::Pcmpeqd
        | M::Pcmpeqq
        | M::Vpcmpeqb
        | M::Vpcmpeqw
        | M::Vpcmpeqd
        | M::Vpcmpeqq
        | M::Pcmpgtb
        | M::Pcmpgtw
        | M::Pcmpgtd
        | M::Pcmpgtq
        | M::Vpcmpgtb
        | M::Vpcmpgtw
        | M::Vpcmpgtd
        | M::Vpcmpgtq
        | M::Pminub
        | M::Pminsw
        | M::Pmaxub
        | M::Pmaxsw
        | M::Pminud
        | M::Pminsd
        | M::Pmaxud
        | M::Pmaxsd
        | M::Vpminub
        | M::Vpminsw
        | M::Vpmaxub
        | M::Vpmaxsw
        | M::Vpminud
        | M::Vpminsd
        | M::Vpmaxud
        | M::Vpmaxsd
        | M::Psllw
        | M::Pslld
        | M::Psllq
        | M::Psrlw
        | M::Psrld
        | M::Psrlq
        | M::Psraw
        | M::Psrad
        | M::Vpsllw
        | M::Vpslld
        | M::Vpsllq
        | M::Vpsrlw
        | M::Vpsrld
        | M::Vpsrlq
        | M::Vpsraw
        | M::Vpsrad
        | M::Vpsraq
        | M::Vpternlogd
        | M::Vpternlogq
        | M::Pshufb
        | M::Vpshufb => (O::Bits, integers()),

        M::Sha1msg1
        | M::Sha1msg2
        | M::Sha1nexte
        | M::Sha1rnds4
        | M::Sha256msg1
        | M::Sha256msg2
        | M::Sha256rnds2
        | M::Aesenc
        | M::Aesenclast
        | M::Aesdec
        | M::Aesdeclast
        | M::Vaesenc
        | M::Vaesenclast
        | M::Vaesdec
        | M::Vaesdeclast
        | M::Pclmulqdq
        | M::Vpclmulqdq => (O::Cipher, integers()),

        M::Vgatherdps
        | M::Vgatherdpd
        | M::Vgatherqps
        | M::Vgatherqpd
        | M::Vpgatherdd
        | M::Vpgatherdq
        | M::Vpgatherqd
        | M::Vpgatherqq => (O::Gather, floats()),
        M::Movups
        | M::Movupd
        | M::Movaps
        | M::Movapd
        | M::Movdqa
        | M::Movdqu
        | M::Lddqu
        | M::Vmovups
        | M::Vmovupd
        | M::Vmovaps
        | M::Vmovapd
        | M::Vmovdqa
        | M::Vmovdqu
        | M::Vmovdqa32
        | M::Vmovdqa64
        | M::Vmovdqu8
        | M::Vmovdqu16
        | M::Vmovdqu32
        | M::Vmovdqu64 => (O::Copy, floats()),
        _ => (O::Other, Lanes::General),
    }
}
